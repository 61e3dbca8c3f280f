/* Declarations that the parts of ftkit failures share.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTKIT_TOOLS_FAILURES_H
#define FTKIT_TOOLS_FAILURES_H

#include "model/coalesce.h"
#include "model/fit.h"
#include "sets.h"

/* ---- failures_read.c: the file --------------------------------------------------------- */

struct ftk_failure_log {
    const char *format;            /* "Los Alamos", "ftkit" or "Slurm" */
    bool dated;                    /* times are seconds since 1970; else since any moment */
    struct ftk_list systems;       /* all in the file */
    struct ftk_coalesce_record *v; /* of the system that was asked for, as in the file */
    size_t n, room;
    size_t nodes;      /* distinct ones among the records */
    size_t others;     /* lines about something else than a node that is down */
    size_t first_line; /* of the first record */
    char where[64];    /* column of its time: "1 (time)" */
};
/* Read the log; path "-": standard input, a name in .xz: through xz.  system, unless NULL: its
 * records alone.  0, or TOOL_FAIL after a message. */
int ftk_failures_read(const char *path, const char *system, struct ftk_failure_log *log);
/* The same; also TOOL_FAIL, after a message, without a record, or with several systems to choose
 * from. */
int ftk_failures_read_one(const char *path, const char *system, struct ftk_failure_log *log);
void ftk_failures_free(struct ftk_failure_log *log);

/* ---- failures_input.c: lines and fields -------------------------------------------------- */

struct ftk_failure_input {
    const char *path;
    FILE *f;
    pid_t xz; /* 0: the file itself is read */
    size_t line;
    char separator; /* of fields */
    char *text;     /* the line, cut into its fields */
    size_t text_bytes;
    char **field;
    size_t n, room;
};
/* 0, or TOOL_FAIL after a message. */
int ftk_failure_open(struct ftk_failure_input *in, const char *path);
/* The next line that is neither empty nor a comment: 1; 0: the end; -1: a message was printed. */
int ftk_failure_line(struct ftk_failure_input *in);
/* whole: all was read.  0, or TOOL_FAIL after a message. */
int ftk_failure_close(struct ftk_failure_input *in, bool whole);

/* Times of the formats, in seconds since 1970 or some other moment.  false: this is none. */
bool ftk_failure_date(const char *text, const char *format, double *at_s); /* as strptime() */
bool ftk_failure_iso(const char *text, double *at_s); /* 2026-01-31T12:00:00.5, or with a blank */
bool ftk_failure_seconds(const char *text, double *s);
/* A time with or without a unit. */
bool ftk_failure_time(const char *text, double *s);

/* ---- failures_generate.c ----------------------------------------------------------------- */

struct ftk_failure_recipe {
    const char *text;
    int events, nodes;
    unsigned long long seed;
    double gap_shape, gap_scale_s;
    double p, s;            /* of the multiplicity; 0: not this law */
    double median_s, sigma; /* of repairs; median 0: none */
};
/* Parse LAW:NUMBER[,NUMBER][,LAW...] in r->text.  NULL, or what is wrong. */
const char *ftk_failure_recipe(struct ftk_failure_recipe *r);
/* Write a log in ftkit's format to standard output. */
void ftk_failure_generate(const struct ftk_failure_recipe *r);

/* ---- failures_print.c -------------------------------------------------------------------- */

struct ftk_failure_result {
    const char *path, *system; /* system NULL: the file has one only, or none */
    const struct ftk_failure_log *log;
    double same_node_s, together_s, first_s, last_s;
    size_t kept, failures, gaps;
    uint64_t count[FTK_FIT_BINS];
    int most;  /* nodes of the largest failure */
    int nodes; /* n of the law of Zipf, >= most */
    struct ftk_fit_sizes geometric, zipf;
    struct ftk_fit_mtbf mtbf;
    bool fitted; /* the gaps have laws */
    struct ftk_fit_gaps exponential, weibull;
    size_t repairs;
    double repair_mean_s, repair_median_s, repair_sigma;
};
void ftk_failure_text(const struct ftk_failure_result *r);
void ftk_failure_json(const struct ftk_failure_result *r);

#endif
