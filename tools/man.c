/* The manual page ftkit(1), made from the output of --help.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <stdlib.h>

#include "sets.h"

/* Print text so that troff finds no request and no escape in it. */
static void literal(FILE *out, const char *text)
{
    for (bool begin = true; *text; text++) {
        if (begin && (*text == '.' || *text == '\''))
            fputs("\\&", out);
        if (*text == '\\')
            fputs("\\e", out);
        else if (*text == '-')
            fputs("\\-", out);
        else
            fputc(*text, out);
        begin = *text == '\n';
    }
}

void ftk_man_begin(FILE *out)
{
    fprintf(out,
        ".TH FTKIT 1 \"\" \"ftkit %s\" \"User Commands\"\n"
        ".SH NAME\nftkit \\- run resilient MPI jobs and look after their checkpoint "
        "sets\n"
        ".SH SYNOPSIS\n.B ftkit\n.I command\n[\\fIargument\\fR]...\n.br\n.B ftkit\n"
        ".I command\n.B \\-\\-help\n"
        ".SH DESCRIPTION\n"
        "ftkit lets an MPI program survive the loss of processes.  This program starts\n"
        "such jobs, and lists, shows, checks, repairs, removes and exports the "
        "checkpoint\n"
        "sets they write in HDF5 files.\n.PP\n"
        "The commands on sets are safe on directories that are damaged, foreign or\n"
        "malicious: they check every length before they use it, follow no link below\n"
        "the directory they are given, touch only files with names of ftkit, and read\n"
        "HDF5 files in a child process; a crash of the child is reported as damage.\n"
        ".SH COMMANDS\n",
        ftkit_version());
}

void ftk_man_command(FILE *out, const char *name, void (*usage)(FILE *out))
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);
    if (!f)
        return;
    usage(f);
    if (fclose(f) == 0) {
        fprintf(out, ".SS %s\n.nf\n", name);
        literal(out, text);
        fputs(".fi\n", out);
    }
    free(text);
}

void ftk_man_end(FILE *out)
{
    fputs(".SH EXIT STATUS\n"
          ".TP\n.B 0\nall is good\n"
          ".TP\n.B 1\ndamage was found, or the command failed\n"
          ".TP\n.B 2\nthe command line is wrong\n.PP\n"
          ".B ftkit run\nhas codes of its own, above.\n"
          ".SH JSON\n"
          "The keys named above stay; others may be added.  Dates are UTC as in\n"
          "2026\\-01\\-31T12:00:00Z, sizes are bytes, what is not known is null.  Bytes "
          "of\n"
          "names that are not printable ASCII are written as \\eu00XX.\n"
          ".SH FILES\n"
          ".TP\n.I DIR/NAME.ftkit/set\\-NNNNNNNNNN/\n"
          "a set of the context NAME: part\\-NNNNN.h5 hold the ranks, manifest names the\n"
          "parts and makes the set complete, master.h5 shows every global array whole to\n"
          "any HDF5 tool, master.xdmf describes these arrays for ParaView.  A file whose\n"
          "name ends in .tmp is being written.\n"
          ".TP\n.I DIR/NAME.ftkit/owner\n"
          "the job that uses the sets: its number, its name at the scheduler, host and\n"
          "process of its rank 0.  While this job is alive, a second job gets an error that\n"
          "names this job, and ftkit repair and prune do not touch sets that the job may be\n"
          "writing.  On the\n"
          "same machine the job is alive as long as its process exists.  On another\n"
          "machine the job is alive as long as it touches the record, every few seconds.\n"
          "So the record of a killed job stops no other job: on the same machine the\n"
          "record is taken over at once, on another machine after ten seconds without a\n"
          "touch.  A job that is suspended for longer, while another job starts, writes no\n"
          "more sets when it resumes.\n"
          ".SH ENVIRONMENT\n"
          "FTKIT_<SECTION>_<KEY> overrides a key of the configuration of a job:\n"
          ".B ftkit config \\-\\-document\nlists them.  The commands on sets read none.\n"
          ".SH EXAMPLES\n.nf\n"
          "ftkit ls /scratch/me\n"
          "ftkit verify /scratch/me newest || ftkit repair /scratch/me\n"
          "ftkit export /scratch/me newest u \\-o u.npy\n"
          "ftkit teams \\-\\-size 16 \\-\\-ranks\\-per\\-node 4 matrix.csv >teams\n"
          "ftkit prune \\-\\-keep 2 \\-\\-incomplete /scratch/me\n"
          "ftkit ls \\-\\-json /scratch/me | jq \\(aq.sets[] | "
          "select(.state!=\"complete\")\\(aq\n"
          ".fi\n",
        out);
}
