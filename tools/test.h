/* ftkit test: run a program undisturbed and with kills, and compare its results.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTKIT_TOOLS_TEST_H
#define FTKIT_TOOLS_TEST_H

#include "kill.h"
#include "sets.h"

#define FTK_WHY_MAX 1024

/* What is to be tested. */
struct ftk_test {
    int ranks, all_ranks; /* of the first program; of all */
    int kills;
    uint64_t seed;
    double timeout_s; /* of one run, 0: not given */
    double tolerance; /* -1: results must be equal byte by byte */
    bool json, regions, output;
    const char *period;     /* checkpoint.period, NULL: as without the test */
    const char *kept;       /* directory of the test that stays; NULL: one that is removed */
    struct ftk_list files;  /* results, relative to the directory of a run */
    struct ftk_list inputs; /* to be copied into the directory of each run */
    struct ftk_list faults; /* --kill and --flip, as pairs of option and value */
    struct ftk_list more;   /* further arguments of ftkit run */
    char **program;         /* and its arguments, and further programs, ended by NULL */
    char dir[FTK_PATH_MAX]; /* of the test */
};

/* One run of the program. */
struct ftk_trial {
    char name[32];  /* its files are DIR/name, DIR/name.out, DIR/name.err */
    char option[8]; /* "--kill", "--flip"; "": undisturbed */
    char fault[80]; /* 'rank 3 at 1.234 s' */
    int code;       /* exit code of ftkit run */
    double seconds;
    bool same;               /* the results are those of the undisturbed run */
    char why[FTK_WHY_MAX];   /* the first difference, or why the run failed */
    struct ftk_facts *facts; /* shared with the process of the run */
};

enum ftk_verdict {
    FTK_SAME,
    FTK_UNFIT,    /* the undisturbed run failed, or makes no sets */
    FTK_FAILED,   /* a run with a fault did not end well */
    FTK_DIFFERS,  /* ... or has other results */
    FTK_UNSTABLE, /* two undisturbed runs have different results */
    FTK_UNTESTED  /* no fault was injected */
};

void ftk_test_usage(FILE *out);
int ftk_test_main(int argc, char **argv);

/* ---- test_run.c: one run ---------------------------------------------------------------
 * Results are 0, or an exit code after a message. */

/* Check the options for ftkit run, without running anything. */
int ftk_trial_check(const struct ftk_test *t);
/* Make the directory of the test, and take the signals that end it. */
int ftk_trial_begin(struct ftk_test *t);
/* Run x->name with x->option x->fault; fill in the other fields.  like_s: length of the undisturbed
 * run, 0: this is the first. */
int ftk_trial_run(const struct ftk_test *t, struct ftk_trial *x, double like_s);
/* Remove the directory, unless the user has named it, or is to look at it. */
void ftk_trial_end(const struct ftk_test *t, bool remove);

/* ---- compare.c: two files of results -------------------------------------------------- */

/* 0: the files are the same; 1: they differ, or cannot be read, and why says where.  name: of the
 * file, for why.  tolerance: of the numbers in text and .npy files, -1: none. */
int ftk_compare_files(
    const char *a, const char *b, const char *name, double tolerance, char why[FTK_WHY_MAX]);
/* The same for lines of text, in any order and any number. */
int ftk_compare_lines(const char *a, const char *b, const char *name, char why[FTK_WHY_MAX]);

/* ---- test_regions.c ------------------------------------------------------------------- */

/* Compare all regions of the last complete set that both runs wrote at the same call.  The result
 * is that of ftk_compare_files(). */
int ftk_compare_regions(const struct ftk_test *t, const struct ftk_trial *a,
    const struct ftk_trial *b, char why[FTK_WHY_MAX]);

/* ---- test_verdict.c ------------------------------------------------------------------- */

/* trials [n]: the first is undisturbed.  again: a second undisturbed run, NULL: there was none.
 * Prints the verdict, and its likely reason. */
enum ftk_verdict ftk_test_judge(const struct ftk_test *t, const struct ftk_trial *trials, size_t n,
    const struct ftk_trial *again);
/* Why the undisturbed run cannot be tested; false: it can. */
bool ftk_test_unfit(const struct ftk_test *t, const struct ftk_trial *first, char why[FTK_WHY_MAX]);
/* Why a run did not end well: its exit code, and the last line of ftkit run. */
void ftk_test_failure(const struct ftk_test *t, const struct ftk_trial *x, char why[FTK_WHY_MAX]);
/* How the run went on after its faults: "repaired in the job". */
const char *ftk_test_course(const struct ftk_trial *x);

#endif
