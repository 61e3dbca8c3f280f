/* Functions that the examples share, without fault tolerance: options, one message for all
 * ranks, raw output, process ids for scripts.  And two helpers that print results of ftkit.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The program defines EXAMPLE_NAME first. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <mpi.h>
#include "ftkit.h"

/* Exit codes besides 0 and 1: a wrong option or input file. */
enum { EXIT_USAGE = 2 };

/* ---- Options ------------------------------------------------------------------------- */

struct opt {
    const char *name;  /* "-n" */
    const char *value; /* name of its value in the usage text */
    const char *help;
    char kind; /* target is: 't' const char *, 'i' int, 'f' double, 'g' int[2] */
    void *target;
    double low, high; /* range of a number */
};

/* Returns 0, or -1 when s is not a valid value of the option. */
static inline int option_set(const struct opt *o, const char *s)
{
    char *end;
    if (o->kind == 't') {
        *(const char **)o->target = s;
        return 0;
    }
    for (int i = 0;; i++, s = end + 1) {
        double v = o->kind == 'f' ? strtod(s, &end) : (double)strtol(s, &end, 10);
        if (end == s || !(v >= o->low && v <= o->high))
            return -1;
        if (o->kind == 'f')
            *(double *)o->target = v;
        else
            ((int *)o->target)[i] = (int)v;
        if (o->kind != 'g' || i == 1)
            return *end == '\0' ? 0 : -1;
        ((int *)o->target)[1] = (int)v; /* one number is for both */
        if (*end != 'x')
            return *end == '\0' ? 0 : -1;
    }
}

/* Returns 0, 1 when help was asked for, or -1 with the mistake in err. */
static inline int options_parse(
    const struct opt *table, int argc, char **argv, char *err, size_t bytes)
{
    for (int i = 1; i < argc; i += 2) {
        const struct opt *o = table;
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0)
            return 1;
        while (o->name != NULL && strcmp(o->name, argv[i]) != 0)
            o++;
        if (o->name == NULL)
            snprintf(err, bytes, "unknown option %s (-h lists them)", argv[i]);
        else if (*value == '\0')
            snprintf(err, bytes, "%s needs %s", o->name, o->value);
        else if (option_set(o, value) != 0)
            snprintf(err, bytes, "%s %s: %s must be %s %.10g to %.10g", o->name, value, o->value,
                o->kind == 'f' ? "a number from" : "whole, from", o->low, o->high);
        else
            continue;
        return -1;
    }
    return 0;
}

static inline void options_print(const struct opt *table)
{
    printf("usage: " EXAMPLE_NAME " [options]\n");
    for (const struct opt *o = table; o->name != NULL; o++)
        printf("  %-9s %-8s %s\n", o->name, o->value, o->help);
}

/* ---- Messages and files -------------------------------------------------------------- */

/* The last step before ftkit_open().  rc is 0 to continue, 1 when help was asked for, -1 with
 * the reason in err.  The first rank with a reason prints it.  Returns -1 to continue,
 * otherwise the exit code.  Collective over MPI_COMM_WORLD. */
static inline int ready(int rc, const struct opt *table, const char *out, char *err, size_t bytes)
{
    int rank, size, first;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rc == 0 && rank == 0 && out != NULL) { /* better to know before the run */
        FILE *f = fopen(out, "ab");
        if (f == NULL || fclose(f) != 0) {
            snprintf(err, bytes, "%s: %s", out, strerror(errno));
            rc = -1;
        }
    }
    int mine = rc < 0 ? rank : size;
    MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (rank == first)
        fprintf(stderr, EXAMPLE_NAME ": %s\n", err);
    if (rc > 0 && rank == 0)
        options_print(table);
    return first < size ? EXIT_USAGE : rc > 0 ? EXIT_SUCCESS : -1;
}

/* Write count values as they are in memory, and nothing else. */
static inline int write_raw(const char *path, const double *value, size_t count)
{
    FILE *f = fopen(path, "wb");
    int ok = f != NULL && fwrite(value, sizeof *value, count, f) == count;
    if (f != NULL && fclose(f) != 0)
        ok = 0;
    if (!ok)
        fprintf(stderr, EXAMPLE_NAME ": %s: %s\n", path, strerror(errno));
    return ok ? 0 : -1;
}

/* For scripts that kill a rank: process id and step in the file prefix.rank.  One
 * write of fixed length, so that a reader sees the old line or the new one. */
static inline void note_pid(const char *prefix, int rank, int step)
{
    static int complained;
    char path[4096], line[32];
    if (prefix == NULL)
        return;
    snprintf(path, sizeof path, "%s.%d", prefix, rank);
    int len = snprintf(line, sizeof line, "%10ld %10d\n", (long)getpid(), step);
    int fd = open(path, O_WRONLY | O_CREAT, 0644);
    if ((fd < 0 || write(fd, line, (size_t)len) != len) && !complained++)
        fprintf(stderr, EXAMPLE_NAME ": %s: %s\n", path, strerror(errno));
    if (fd >= 0)
        close(fd);
}

static inline void pause_ms(int ms)
{
    struct timespec t = { ms / 1000, ms % 1000 * 1000000L };
    if (ms > 0)
        nanosleep(&t, NULL);
}

/* ---- Results of ftkit ---------------------------------------------------------------- */

/* Rank 0 says what was restored, and how long a repair took. */
static inline void tell(const ftkit_ctx *ft, const char *what, int step)
{
    ftkit_info now = { .size = sizeof now };
    if (ftkit_query(ft, &now) < 0 || now.rank != 0)
        return;
    printf(EXAMPLE_NAME ": %s at step %d, set %" PRIu64, what, step, now.restored);
    if (now.repairs > 0)
        printf(", repair %d took %.1f ms (detect %.1f, supply %.1f, rebuild %.1f, "
               "restore %.1f)",
            now.repairs, now.repair_s * 1e3, now.repair_detect_s * 1e3, now.repair_supply_s * 1e3,
            now.repair_rebuild_s * 1e3, now.repair_restore_s * 1e3);
    printf("\n");
}

/* Print the result of a call if it is an error or news. */
static inline void say(const ftkit_ctx *ft, int rc, int step)
{
    ftkit_info now = { .size = sizeof now };
    if (rc == FTKIT_ROLLED_BACK || rc == FTKIT_HALT)
        tell(ft, rc == FTKIT_HALT ? "halts" : "continues", step);
    if (rc < 0 && (*ftkit_detail(ft) || (ftkit_query(ft, &now) >= 0 && now.rank == 0)))
        fprintf(stderr, EXAMPLE_NAME ": %s: %s\n", ftkit_strerror(rc), ftkit_detail(ft));
}

/* The same; 1 when the run cannot continue.  A set that could not be written is no reason to stop
 * computing: the set before it holds. */
static inline int hopeless(const ftkit_ctx *ft, int rc, int step)
{
    say(ft, rc, step);
    return FTKIT_FATAL(rc);
}

/* For an error that keeps this rank from joining the others. */
static inline void give_up(const char *why)
{
    fprintf(stderr, EXAMPLE_NAME ": %s\n", why);
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
}

/* The exit code of the program.  rc: from ftkit_open() or ftkit_close(); code: from run(). */
static inline int exit_code(int rc, int code)
{
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rc >= 0)
        return rc == FTKIT_SPARE_DONE ? EXIT_SUCCESS : code;
    /* run() has printed its error; a wrong configuration is the same on all ranks */
    if (code != EXIT_FAILURE && (rank == 0 || rc != FTKIT_ERR_CONFIG))
        fprintf(stderr, EXAMPLE_NAME ": %s: %s\n", ftkit_strerror(rc), ftkit_detail(NULL));
    return rc == FTKIT_ERR_CONFIG ? EXIT_USAGE : EXIT_FAILURE;
}

#endif
