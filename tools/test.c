/* ftkit test: run a program undisturbed, then with faults, each time in a directory of its own,
 * and compare the results.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/config.h"
#include "test.h"

#define LAST_PART 0.9 /* of the undisturbed run: later the program may have left its loop */
#define TRIES 3       /* of a run that ends before its kill */

void ftk_test_usage(FILE *out)
{
    fputs("usage: ftkit test -n N [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
          "                  [: -n N [OPTION]... PROGRAM [ARGUMENT]...]...\n"
          "\n"
          "Run PROGRAM undisturbed, then with kills at random moments, each time in a new\n"
          "directory; compare the results, and say what a difference probably comes from.\n"
          "\n"
          "  -n N               working ranks\n"
          "  --kills K          runs with one kill each (5)\n"
          "  --kill FAULT       a run with this kill, in place of random ones; may be\n"
          "                     repeated, one run each (ftkit help run explains FAULT)\n"
          "  --flip FAULT       flip a bit in every run with a kill; may be repeated\n"
          "  --seed N           for ranks and moments\n"
          "  --compare FILE     a result, relative to the directory of a run; may be\n"
          "                     repeated\n"
          "  --regions          compare all regions of the last set of the same call; takes\n"
          "                     --period in calls\n"
          "  --stdout           compare the lines of standard output; neither order nor\n"
          "                     repetitions count\n"
          "  --tolerance X      numbers a and b in text and .npy files, and in regions, are\n"
          "                     the same if |a - b| <= X * max(1, |a|, |b|)\n"
          "  --input FILE       copy FILE into the directory of each run; may be repeated\n"
          "  --period P         checkpoint.period, for example '20 calls'\n"
          "  --timeout T        of each run (60 s and 10 times the undisturbed run)\n"
          "  --spares S, --log, --emulate-nodes K: as for ftkit run\n"
          "  --run-arg ARG      a further argument of ftkit run; may be repeated\n"
          "  --directory DIR    for the files of the test; DIR must not exist\n"
          "  --json             the verdict for scripts\n"
          "\n"
          "Without --directory the files are in a temporary directory, which is removed when\n"
          "the results are the same.\n"
          "\n"
          "Exit code: 0 when all runs ended well, with the same results; 1 when they did not,\n"
          "or nothing could be tested; 2 usage; 128 + signal after a signal.\n",
        out);
}

/* ---- options ------------------------------------------------------------------------- */

enum {
    O_KILLS = 256,
    O_KILL,
    O_FLIP,
    O_SEED,
    O_COMPARE,
    O_REGIONS,
    O_STDOUT,
    O_TOLERANCE,
    O_INPUT,
    O_PERIOD,
    O_TIMEOUT,
    O_SPARES,
    O_LOG,
    O_EMULATE,
    O_ARG,
    O_DIRECTORY,
    O_JSON
};

static const struct option options[] = {
    { "kills", required_argument, NULL, O_KILLS },
    { "kill", required_argument, NULL, O_KILL },
    { "flip", required_argument, NULL, O_FLIP },
    { "seed", required_argument, NULL, O_SEED },
    { "compare", required_argument, NULL, O_COMPARE },
    { "regions", no_argument, NULL, O_REGIONS },
    { "stdout", no_argument, NULL, O_STDOUT },
    { "tolerance", required_argument, NULL, O_TOLERANCE },
    { "input", required_argument, NULL, O_INPUT },
    { "period", required_argument, NULL, O_PERIOD },
    { "timeout", required_argument, NULL, O_TIMEOUT },
    { "spares", required_argument, NULL, O_SPARES },
    { "log", no_argument, NULL, O_LOG },
    { "emulate-nodes", required_argument, NULL, O_EMULATE },
    { "run-arg", required_argument, NULL, O_ARG },
    { "directory", required_argument, NULL, O_DIRECTORY },
    { "json", no_argument, NULL, O_JSON },
    { NULL, 0, NULL, 0 },
};

static int take_count(const char *what, int *out)
{
    char *end;
    errno = 0;
    long n = strtol(optarg, &end, 10);
    if (end == optarg || *end != '\0' || errno != 0 || n < 1 || n > 100000) {
        return ftk_usage_wrong(
            ftk_test_usage, "%s: '%s' is not a number from 1 to 100000", what, optarg);
    }
    *out = (int)n;
    return 0;
}

static int take_tolerance(struct ftk_test *t)
{
    char *end;
    t->tolerance = strtod(optarg, &end);
    if (end != optarg && *end == '\0' && t->tolerance >= 0 && t->tolerance < 1e300)
        return 0;
    return ftk_usage_wrong(ftk_test_usage, "--tolerance: '%s' is not a number from 0 on", optarg);
}

static int take_timeout(struct ftk_test *t)
{
    char *end;
    t->timeout_s = strtod(optarg, &end);
    if (end != optarg && *end == '\0' ? t->timeout_s > 0 && t->timeout_s <= 1e9
                                      : ftk_config_time(optarg, &t->timeout_s) == NULL)
        return 0;
    return ftk_usage_wrong(
        ftk_test_usage, "--timeout: '%s' is not a time such as 90, 90s or 5min", optarg);
}

static int take_seed(struct ftk_test *t)
{
    if (ftk_usage_number(optarg, &t->seed))
        return 0;
    return ftk_usage_wrong(ftk_test_usage, "--seed: '%s' is not a number", optarg);
}

/* A result lies in the directory of its run. */
static int take_file(struct ftk_test *t)
{
    if (*optarg == '/' || *optarg == '\0' || strncmp(optarg, "../", 3) == 0) {
        return ftk_usage_wrong(
            ftk_test_usage, "--compare: '%s' is not a path in the directory of a run", optarg);
    }
    ftk_list_add(&t->files, "%s", optarg);
    return 0;
}

static int take_option(struct ftk_test *t, int c)
{
    switch (c) {
    case 'n':
        return take_count("-n", &t->ranks);
    case O_KILLS:
        return take_count("--kills", &t->kills);
    case O_KILL:
    case O_FLIP:
        ftk_list_add(&t->faults, "--%s", c == O_KILL ? "kill" : "flip");
        ftk_list_add(&t->faults, "%s", optarg);
        return 0;
    case O_SEED:
        return take_seed(t);
    case O_COMPARE:
        return take_file(t);
    case O_REGIONS:
        t->regions = true;
        return 0;
    case O_STDOUT:
        t->output = true;
        return 0;
    case O_TOLERANCE:
        return take_tolerance(t);
    case O_INPUT:
        ftk_list_add(&t->inputs, "%s", optarg);
        return 0;
    case O_PERIOD:
        t->period = optarg;
        return 0;
    case O_TIMEOUT:
        return take_timeout(t);
    case O_SPARES:
        ftk_list_add(&t->more, "--spares");
        ftk_list_add(&t->more, "%s", optarg);
        return 0;
    case O_LOG:
        ftk_list_add(&t->more, "--log");
        return 0;
    case O_EMULATE:
        ftk_list_add(&t->more, "--emulate-nodes");
        ftk_list_add(&t->more, "%s", optarg);
        return 0;
    case O_ARG:
        ftk_list_add(&t->more, "%s", optarg);
        return 0;
    case O_DIRECTORY:
        t->kept = optarg;
        return 0;
    case O_JSON:
        t->json = true;
        return 0;
    default: /* ftk_usage_getopt() has printed a message */
        return TOOL_USAGE;
    }
}

static int check_options(struct ftk_test *t)
{
    const char *period = t->period ? t->period : getenv("FTKIT_CHECKPOINT_PERIOD");
    if (t->ranks < 1)
        return ftk_usage_wrong(ftk_test_usage, "-n N is missing: the number of working ranks");
    if (!t->program[0])
        return ftk_usage_wrong(ftk_test_usage, "PROGRAM is missing");
    if (t->regions && (!period || !strstr(period, "call"))) {
        return ftk_usage_wrong(ftk_test_usage,
            "--regions compares sets of the same call: add a --period such as '20 calls'");
    }
    for (size_t i = 0; i < t->inputs.n; i++)
        if (access(t->inputs.v[i], R_OK) != 0) {
            return ftk_usage_wrong(
                ftk_test_usage, "--input: %s: %s", t->inputs.v[i], strerror(errno));
        }
    return 0;
}

/* Each run has a working directory of its own, so a path to a program must be absolute. */
static int find_program(char **program)
{
    char path[PATH_MAX];
    if (!strchr(*program, '/'))
        return 0; /* mpirun finds it in PATH */
    if (!realpath(*program, path) || access(path, X_OK) != 0)
        return ftk_usage_wrong(ftk_test_usage, "%s: %s", *program, strerror(errno));
    *program = ftk_tool_alloc(strlen(path) + 1); /* until the process ends */
    strcpy(*program, path);
    return 0;
}

/* The programs, `a : -n 2 b`, and the number of ranks of all. */
static int find_programs(struct ftk_test *t)
{
    struct ftk_run job = { .ranks = t->ranks, .program = t->program };
    int rc = ftk_parts_parse(&job);
    for (int i = 0; i < job.nparts; i++) {
        if (rc == 0)
            rc = find_program(job.parts[i].argv);
        ftk_list_free(&job.parts[i].options);
    }
    t->all_ranks = job.ranks;
    free(job.parts);
    return rc;
}

/* When all options are right: a command that is refused makes no directory. */
static int make_directory(struct ftk_test *t)
{
    char *real = mkdir(t->kept, 0700) == 0 ? realpath(t->kept, NULL) : NULL;
    const bool fits = real && strlen(real) < sizeof t->dir;
    if (fits)
        strcpy(t->dir, real);
    else if (real && rmdir(t->kept) == 0)
        errno = ENAMETOOLONG;
    free(real);
    if (fits)
        return 0;
    return ftk_usage_wrong(
        ftk_test_usage, "--directory: cannot make %s: %s", t->kept, strerror(errno));
}

static int parse(struct ftk_test *t, int argc, char **argv)
{
    int c, rc = 0;
    *t = (struct ftk_test){ .kills = 5, .tolerance = -1, .seed = ftk_random() % 1000000000 };
    while (rc == 0 && (c = ftk_usage_getopt(ftk_test_usage, argc, argv, "+:n:", options)) != -1)
        rc = take_option(t, c);
    t->program = argv + optind;
    if (rc == 0)
        rc = check_options(t);
    if (rc == 0)
        rc = find_programs(t);
    if (rc == 0)
        rc = ftk_trial_check(t);
    return rc == 0 && t->kept ? make_directory(t) : rc;
}

/* ---- the runs ------------------------------------------------------------------------ */

/* Compare the results of a run that ended well with those of the undisturbed run. */
static void compare(const struct ftk_test *t, const struct ftk_trial *first, struct ftk_trial *x)
{
    char a[2 * FTK_PATH_MAX], b[2 * FTK_PATH_MAX];
    int rc = 0;
    for (size_t i = 0; i < t->files.n && rc == 0; i++) {
        snprintf(a, sizeof a, "%s/%s/%s", t->dir, first->name, t->files.v[i]);
        snprintf(b, sizeof b, "%s/%s/%s", t->dir, x->name, t->files.v[i]);
        rc = ftk_compare_files(a, b, t->files.v[i], t->tolerance, x->why);
    }
    if (rc == 0 && t->output) {
        snprintf(a, sizeof a, "%s/%s.out", t->dir, first->name);
        snprintf(b, sizeof b, "%s/%s.out", t->dir, x->name);
        rc = ftk_compare_lines(a, b, "standard output", x->why);
    }
    if (rc == 0 && t->regions)
        rc = ftk_compare_regions(t, first, x, x->why);
    x->same = rc == 0;
}

/* Choose rank and moment of the next kill.  A moment lies between the first set and the end of the
 * undisturbed run; part: only so much of this time, because the run has been shorter. */
static void choose(const struct ftk_test *t, const struct ftk_facts *f, unsigned short state[3],
    double part, struct ftk_trial *x)
{
    double u = erand48(state), last = f->open_s * LAST_PART * part;
    double at = f->set_s < last ? f->set_s + u * (last - f->set_s) : f->set_s;
    snprintf(x->option, sizeof x->option, "--kill");
    snprintf(x->fault, sizeof x->fault, "rank %ld at %.3f s", nrand48(state) % t->all_ranks, at);
}

/* Number of runs with a kill of the user's own, 0: the kills are random. */
static int named(const struct ftk_test *t)
{
    int n = 0;
    for (size_t i = 0; i < t->faults.n; i += 2)
        n += strcmp(t->faults.v[i], "--kill") == 0;
    return n;
}

static void report(const struct ftk_test *t, const struct ftk_trial *x, int k, int n)
{
    if (t->json)
        return;
    if (k < 0)
        printf("undisturbed: %.1f s, %" PRIu64 " calls of ftkit_checkpoint\n", x->seconds,
            x->facts->calls);
    if (k < 0 && named(t) == 0)
        printf("random kills by --seed %" PRIu64 "\n", t->seed);
    if (k >= 0)
        printf("%d of %d: %s '%s': %s%s%s\n", k + 1, n, x->option, x->fault, ftk_test_course(x),
            x->same ? "" : "; ", x->same ? "" : x->why);
    (void)fflush(stdout); /* ftk_tool_end() reports errors */
}

static int run_disturbed(
    const struct ftk_test *t, const struct ftk_trial *first, struct ftk_trial *x)
{
    int rc = ftk_trial_run(t, x, first->seconds);
    x->same = false;
    x->why[0] = '\0';
    if (rc == 0 && x->code == 0)
        compare(t, first, x);
    else if (rc == 0)
        ftk_test_failure(t, x, x->why);
    return rc;
}

/* A run with a random kill.  When the kill comes too late, run again with an earlier one. */
static int run_random(const struct ftk_test *t, const struct ftk_trial *first, int k,
    unsigned short state[3], struct ftk_trial *x)
{
    double part = 1;
    int rc = 0;
    for (int i = 0; i < TRIES && rc == 0; i++) {
        snprintf(x->name, sizeof x->name, i ? "kill-%d-%d" : "kill-%d", k + 1, i + 1);
        choose(t, first->facts, state, part, x);
        rc = run_disturbed(t, first, x);
        /* a rank that is killed when it has closed its context is not replaced */
        bool late = x->code > 128 && strstr(x->why, "when all contexts were closed");
        if (!late && (x->code != 0 || !x->same || x->facts->killed > 0))
            break;
        part /= 2;
    }
    return rc;
}

/* Take the next --kill of the user. */
static void take_fault(const struct ftk_test *t, size_t *at, int k, struct ftk_trial *x)
{
    while (strcmp(t->faults.v[*at], "--kill") != 0)
        *at += 2;
    snprintf(x->name, sizeof x->name, "kill-%d", k + 1);
    snprintf(x->option, sizeof x->option, "--kill");
    snprintf(x->fault, sizeof x->fault, "%s", t->faults.v[*at + 1]);
    *at += 2;
}

/* The undisturbed run; *fit: it can be tested. */
static int run_first(const struct ftk_test *t, struct ftk_trial *x, bool *fit)
{
    snprintf(x->name, sizeof x->name, "undisturbed");
    int rc = ftk_trial_run(t, x, 0);
    *fit = false;
    if (rc != 0 || ftk_test_unfit(t, x, x->why))
        return rc;
    compare(t, x, x); /* whether the results are there */
    *fit = x->same;
    return 0;
}

/* All runs; *n: their number.  0, or an exit code. */
static int run_all(
    const struct ftk_test *t, struct ftk_trial *all, size_t *n, struct ftk_trial *again)
{
    unsigned short state[3];
    size_t at = 0;
    bool fit, same = true;
    int own = named(t), kills = own > 0 ? own : t->kills;
    int rc = run_first(t, &all[0], &fit);
    *n = 1;
    if (rc != 0 || !fit)
        return rc;
    report(t, &all[0], -1, kills);
    ftk_kill_seed(t->seed, state);
    for (int k = 0; k < kills && rc == 0; k++) {
        struct ftk_trial *x = &all[(*n)++];
        if (own > 0)
            take_fault(t, &at, k, x);
        rc = own > 0 ? run_disturbed(t, &all[0], x) : run_random(t, &all[0], k, state, x);
        if (rc == 0)
            report(t, x, k, kills);
        same = same && (x->code != 0 || x->same);
    }
    if (rc == 0 && !same) { /* does the program itself give different results? */
        snprintf(again->name, sizeof again->name, "undisturbed-2");
        rc = ftk_trial_run(t, again, all[0].seconds);
        if (rc == 0 && again->code == 0)
            compare(t, &all[0], again);
    }
    return rc;
}

static int run_test(struct ftk_test *t)
{
    struct ftk_trial again = { .same = true };
    size_t n = 0;
    struct ftk_trial *all =
        ftk_tool_alloc(((size_t)t->kills + t->faults.n + 1) * sizeof *all); /* or less */
    int rc = run_all(t, all, &n, &again);
    if (rc == 0) {
        enum ftk_verdict v = ftk_test_judge(t, all, n, again.name[0] ? &again : NULL);
        rc = ftk_tool_end(v == FTK_SAME ? TOOL_OK : TOOL_FAIL);
    }
    ftk_trial_end(t, rc == TOOL_OK || rc > 128);
    free(all);
    return rc;
}

int ftk_test_main(int argc, char **argv)
{
    struct ftk_test t;
    ftk_tool_name("test");
    int rc = parse(&t, argc, argv);
    if (rc == 0)
        rc = ftk_trial_begin(&t);
    if (rc == 0)
        rc = run_test(&t);
    ftk_list_free(&t.files);
    ftk_list_free(&t.inputs);
    ftk_list_free(&t.faults);
    ftk_list_free(&t.more);
    return rc;
}
