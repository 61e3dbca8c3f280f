/* Declarations that the commands on directories of sets share: ls, show, verify, repair, prune,
 * export, teams, report.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTKIT_TOOLS_SETS_H
#define FTKIT_TOOLS_SETS_H

#include <sys/stat.h>

#include "store/h5/h5_offline.h"
#include "tools.h"

/* ---- the commands -------------------------------------------------------------------- */
int ftk_status_main(int argc, char **argv);
int ftk_halt_main(int argc, char **argv);
void ftk_status_usage(FILE *out);
void ftk_halt_usage(FILE *out);
int ftk_ls_main(int argc, char **argv);
int ftk_show_main(int argc, char **argv);
int ftk_verify_main(int argc, char **argv);
int ftk_repair_main(int argc, char **argv);
int ftk_prune_main(int argc, char **argv);
int ftk_export_main(int argc, char **argv);
int ftk_teams_main(int argc, char **argv);
int ftk_report_main(int argc, char **argv);
void ftk_ls_usage(FILE *out);
void ftk_show_usage(FILE *out);
void ftk_verify_usage(FILE *out);
void ftk_repair_usage(FILE *out);
void ftk_prune_usage(FILE *out);
void ftk_export_usage(FILE *out);
void ftk_teams_usage(FILE *out);
void ftk_report_usage(FILE *out);

/* ---- options (sets.c) ---------------------------------------------------------------- */

enum {
    OPT_JSON = 1,
    OPT_CONTEXT = 2,
    OPT_RANK = 4,
    OPT_OUTPUT = 8,
    OPT_FORMAT = 16,
    OPT_KEEP = 32,
    OPT_INCOMPLETE = 64,
    OPT_DRY_RUN = 128,
    OPT_SLOTS = 256,
    OPT_SIZE = 512,
    OPT_TEAMS = 1024,
    OPT_PER_NODE = 2048,
    OPT_FILE = 4096,
    OPT_RUN = 8192
};
struct ftk_opts {
    bool json, incomplete, dry_run, slots;
    const char *context, *output, *format, *file, *run;
    int rank, keep, size, teams, per_node; /* -1: not given */
    char **args;                           /* arguments that are not options */
    int nargs;
};
/* allowed: a sum of OPT_...  0: go on; else the command is to end with the result less one as
 * exit code. */
int ftk_opts_parse(
    int argc, char **argv, int allowed, void (*usage)(FILE *out), struct ftk_opts *o);

/* ---- the sets of a command (sets.c) -------------------------------------------------- */

/* A directory, and the contexts in it that the command works on. */
struct ftk_where {
    char dir[FTK_PATH_MAX]; /* contains <context>.ftkit */
    char (*contexts)[FTKIT_NAME_MAX + 1];
    size_t n;
    uint64_t set; /* the path named the directory of this set; else 0 */
};

/* Find the contexts of path.  path is a directory of sets, one <name>.ftkit in such a directory,
 * the directory of one set, or a link to one of these.  only, unless NULL: the one context to
 * find.  0, or an exit code after a message; TOOL_USAGE: the directory has no context. */
int ftk_where_find(const char *path, const char *only, struct ftk_where *w);
void ftk_where_free(struct ftk_where *w);
/* If the path names the directory of one set, make this set the only SET among the arguments.
 * takes: the command has an argument SET.  0, or an exit code after a message. */
int ftk_where_set(const struct ftk_where *w, struct ftk_opts *o, bool takes);
/* Check that there is exactly one context.  0, or an exit code after a message. */
int ftk_where_single(const struct ftk_where *w);

/* Parse "12", "set-0000000012", or "newest", which becomes 0.  0, or an exit code after a
 * message. */
int ftk_set_number(const char *text, uint64_t *set);
/* The newest complete set of a context, or an exit code after a message. */
int ftk_set_newest(const char *dir, const char *context, uint64_t *set);

/* ---- slots of a node (slots.c) ------------------------------------------------------- */
/* Called with a slot of this user, open for reading; returns an exit code. */
typedef int ftk_slot_fn(const char *path, int fd, const struct stat *st, void *arg);
/* Call fn for each slot in the directory o->args[0], or in /dev/shm; an exit code. */
int ftk_slots_each(const struct ftk_opts *o, ftk_slot_fn *fn, void *arg);
/* List the slots; whole: also read every byte.  The exit code of the command. */
int ftk_slots_list(const struct ftk_opts *o, bool whole);

/* Print "ftkit <command>: ..." on standard error. */
void ftk_tool_name(const char *command);
void ftk_tool_say(const char *fmt, ...) FTK_PRINTF(1, 2);
/* A detail text, without the place in the source and without unprintable bytes.  The result is
 * valid until the next call. */
const char *ftk_tool_why(const char *detail);
const char *ftk_state_name(int state);
/* "2026-01-31T12:00:00Z" */
void ftk_time_text(int64_t s, char buf[32]);
/* "1.5 GiB" */
void ftk_bytes_text(uint64_t bytes, char buf[32]);
/* End of a command: code, or TOOL_FAIL when the output could not be written. */
int ftk_tool_end(int code);

/* ---- the manual page (man.c) --------------------------------------------------------- */
void ftk_man_begin(FILE *out);
void ftk_man_command(FILE *out, const char *name, void (*usage)(FILE *out));
void ftk_man_end(FILE *out);

/* ---- JSON (json.c) ----------------------------------------------------------------------
 * The writer adds commas and indentation. */
struct ftk_json {
    FILE *out;
    int depth;
    bool first; /* no element yet at this depth */
};
/* name NULL: an element of an array */
void ftk_json_open(struct ftk_json *j, const char *name, char bracket);
void ftk_json_close(struct ftk_json *j, char bracket);
void ftk_json_text(struct ftk_json *j, const char *name, const char *text);
void ftk_json_uint(struct ftk_json *j, const char *name, uint64_t v);
void ftk_json_int(struct ftk_json *j, const char *name, int64_t v);
void ftk_json_real(struct ftk_json *j, const char *name, double v);
void ftk_json_bool(struct ftk_json *j, const char *name, bool v);
void ftk_json_null(struct ftk_json *j, const char *name);

/* ---- reading in a process of its own (isolate.c) ----------------------------------------
 * HDF5 may crash or loop for ever on a malicious file.  So fn runs in a child process.  The
 * parent gets the result of fn, and the bytes that fn has written to out, malloc'd. */
struct ftk_isolated {
    char *text;
    size_t bytes;
    int code;     /* result of fn */
    char why[96]; /* why the child failed; "": fn has returned */
};
typedef int ftk_isolated_fn(void *arg, FILE *out);
/* bytes: size of the files that fn reads; the time limit of the child grows with it. */
void ftk_isolate(ftk_isolated_fn *fn, void *arg, uint64_t bytes, struct ftk_isolated *r);

#endif
