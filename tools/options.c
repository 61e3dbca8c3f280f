/* The command line of `ftkit run`: its own options, and common options of mpirun, which go to
 * mpirun unchanged.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "core/config.h"
#include "kill.h"

void ftk_run_usage(FILE *out)
{
    fputs("usage: ftkit run -n N [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
          "                 [: -n N [--spares S] [OPTION]... PROGRAM [ARGUMENT]...]...\n"
          "\n"
          "Start PROGRAM under mpirun with the flags a resilient job needs.  When the\n"
          "job is lost as a whole, start it again from its newest complete set.\n"
          "\n"
          "  -n N, -np N        working ranks\n"
          "  --spares S         processes that wait to replace lost ones (enough for\n"
          "                     the loss of any node of three or more, if the processes are\n"
          "                     spread evenly over the nodes and the job has one program;\n"
          "                     half of the ranks on two nodes; 1 on a single node).  With\n"
          "                     several programs: of each program that names no other number\n"
          "  --replicas R       processes that carry each rank, and compare their data at each\n"
          "                     set: 2 or 3; N * R + S processes are started; means --log\n"
          "  --relaunch R       relaunches in a row that make no progress, before the run\n"
          "                     gives up (3)\n"
          "  --no-relaunch      the same as --relaunch 0\n"
          "  --fresh            begin anew, whatever sets there are\n"
          "  --continue         begin from the newest set, also when its run has finished\n"
          "                     with other arguments\n"
          "  --set N            begin from set N\n"
          "  --timeout T        end the run after T and show where each rank was; times\n"
          "                     are seconds, or have a unit: 500ms, 90s, 2min, 1h, 1d\n"
          "  --deadline T       the job halts in time to be over T from now, relaunches\n"
          "                     included; without the option at SLURM_JOB_END_TIME if set\n"
          "  --halt-timeout T   end a program that goes on after FTKIT_HALT after T (30s)\n"
          "  --init-timeout T   end a job that lost a process, opened no context and\n"
          "                     made no progress for T (30s); then relaunch it\n"
          "  --log              log messages, so that only the team of a lost rank rolls\n"
          "                     back: sets log.enabled, preloads libftkit_mpi\n"
          "  --events DIR       write an event log into DIR, for ftkit report\n"
          "  --emulate-nodes K  make nodes ftnode1..K out of this machine (needs\n"
          "                     CAP_SYS_ADMIN; otherwise only as failure domains)\n"
          "  --kill FAULT       kill a process: 'rank 3 at 30 s', 'rank 3 at call 200',\n"
          "                     'node 1 at 30 s', 'random:mtbf=10s,count=5'; may be\n"
          "                     repeated.  Times count from the opening of the context\n"
          "  --flip FAULT       flip a bit of checkpoint memory: 'rank 3 at 20 s'; of a region\n"
          "                     of the program: 'rank 3 at 20 s in u'\n"
          "  --seed N           for random faults and bits; a line shows the seed\n"
          "  --mpirun PATH      another mpirun of the same MPI\n"
          "  --mpirun-arg ARG   an argument for mpirun, may be repeated\n"
          "  --verbose          show the command, what the job reports, and after a\n"
          "                     timeout the stacks of its processes\n"
          "  --print            only print the command\n"
          "\n"
          "  -H HOSTS, --host HOSTS, --hostfile FILE, --machinefile FILE, --map-by WORDS,\n"
          "  --rank-by WORDS, --bind-to WORDS, --oversubscribe, --mca KEY VALUE,\n"
          "  --prtemca KEY VALUE, -x VARIABLE, --wdir DIR, --tag-output, --report-bindings\n"
          "                     options of mpirun, which are handed on\n"
          "\n"
          "Behind a : options are -n, --spares, -x, --wdir, -H, --host, --hostfile and\n"
          "--machinefile, for that program.  Before the first program -x, --wdir and hosts\n"
          "hold for the first one only, as with mpirun.  A process of one program never\n"
          "replaces a rank of another one.\n"
          "\n"
          "SIGUSR1 to ftkit run asks the job for a durable set.  ^C, SIGTERM, SIGUSR2 or\n"
          "SIGHUP asks for a durable set and for FTKIT_HALT; a second one ends the job,\n"
          "but SIGTERM, SIGUSR2 or SIGHUP within a second repeats the first.\n"
          "Files of the run are under TMPDIR (/tmp), which the node of rank 0 must be able\n"
          "to see.\n"
          "\n"
          "Exit code:\n"
          "  0      the program ended well, also after repairs and relaunches\n"
          "  1      the job failed, and no exit code of a process is known\n"
          "  2      usage, or an error that every relaunch would meet again\n"
          "  75     the job has halted: start it again to go on\n"
          "  124    timeout\n"
          "  127    mpirun cannot be started\n"
          "  128+N  signal N ended the run, or killed the process that failed first\n"
          "  other  the exit code of the process that failed first\n",
        out);
}

enum {
    O_SPARES = 256,
    O_REPLICAS,
    O_RELAUNCH,
    O_NO_RELAUNCH,
    O_FRESH,
    O_CONTINUE,
    O_SET,
    O_TIMEOUT,
    O_DEADLINE,
    O_HALT_TIMEOUT,
    O_INIT_TIMEOUT,
    O_LOG,
    O_EVENTS,
    O_EMULATE,
    O_MPIRUN,
    O_ARG,
    O_KILL,
    O_FLIP,
    O_SEED,
    O_VERBOSE,
    O_PRINT,
    O_HELP
};

static const struct option options[] = {
    { "spares", required_argument, NULL, O_SPARES },
    { "replicas", required_argument, NULL, O_REPLICAS },
    { "relaunch", required_argument, NULL, O_RELAUNCH },
    { "no-relaunch", no_argument, NULL, O_NO_RELAUNCH },
    { "fresh", no_argument, NULL, O_FRESH },
    { "continue", no_argument, NULL, O_CONTINUE },
    { "set", required_argument, NULL, O_SET },
    { "timeout", required_argument, NULL, O_TIMEOUT },
    { "deadline", required_argument, NULL, O_DEADLINE },
    { "halt-timeout", required_argument, NULL, O_HALT_TIMEOUT },
    { "init-timeout", required_argument, NULL, O_INIT_TIMEOUT },
    { "log", no_argument, NULL, O_LOG },
    { "events", required_argument, NULL, O_EVENTS },
    { "emulate-nodes", required_argument, NULL, O_EMULATE },
    { "mpirun", required_argument, NULL, O_MPIRUN },
    { "mpirun-arg", required_argument, NULL, O_ARG },
    { "kill", required_argument, NULL, O_KILL },
    { "flip", required_argument, NULL, O_FLIP },
    { "seed", required_argument, NULL, O_SEED },
    { "verbose", no_argument, NULL, O_VERBOSE },
    { "print", no_argument, NULL, O_PRINT },
    { "help", no_argument, NULL, O_HELP },
    { NULL, 0, NULL, 0 },
};

/* ---- values -------------------------------------------------------------------------- */

int ftk_run_count(const char *what, const char *text, int min, int *out)
{
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (*text == '\0' || *end != '\0' || errno != 0 || n < min || n > 1000000) {
        ftk_run_say("%s: '%s' is not a number from %d to 1000000", what, text, min);
        return TOOL_USAGE;
    }
    *out = (int)n;
    return 0;
}

/* A time with a unit as in the configuration, or a number of seconds. */
static int parse_time(const char *what, const char *text, double *out)
{
    char *end;
    double s = strtod(text, &end);
    if (*text == '\0' || *end != '\0') {
        const char *why = ftk_config_time(text, &s);
        if (!why) {
            *out = s;
            return 0;
        }
    } else if (s > 0 && s <= 1e9) {
        *out = s;
        return 0;
    }
    ftk_run_say("%s: '%s' is not a time such as 90, 90s or 5min", what, text);
    return TOOL_USAGE;
}

/* --deadline: an absolute time, so that it is the same in relaunches. */
static int set_deadline(const char *text)
{
    double s = 0;
    char value[32];
    int rc = parse_time("--deadline", text, &s);
    if (rc != 0)
        return rc;
    snprintf(value, sizeof value, "@%.3f", 1e-9 * (double)ftk_wall_ns() + s);
    return setenv("FTKIT_CHECKPOINT_DEADLINE", value, 1) == 0 ? 0 : TOOL_FAIL;
}

static int choose_start(struct ftk_run *r, const char *start)
{
    if (r->start && strcmp(r->start, start) != 0) {
        ftk_run_say("--fresh, --continue and --set contradict each other");
        return TOOL_USAGE;
    }
    r->start = start;
    return 0;
}

static int parse_set(struct ftk_run *r, const char *text)
{
    uint64_t set = 0;
    if (!ftk_usage_number(text, &set) || set == 0) {
        ftk_run_say("--set: '%s' is not the number of a set (ftkit ls shows them)", text);
        return TOOL_USAGE;
    }
    return choose_start(r, text);
}

static int parse_replicas(struct ftk_run *r, const char *text)
{
    int rc = ftk_run_count("--replicas", text, 1, &r->replicas);
    if (rc == 0 && r->replicas > 3) {
        ftk_run_say("--replicas: '%s' is not a number from 1 to 3", text);
        return TOOL_USAGE;
    }
    r->log = r->log || r->replicas > 1;
    return rc != 0 ? rc : setenv("FTKIT_REPLICAS_COUNT", text, 1) == 0 ? 0 : TOOL_FAIL;
}

static int parse_option(struct ftk_run *r, int c)
{
    switch (c) {
    case 'n':
        return ftk_run_count("-n", optarg, 1, &r->ranks);
    case O_SPARES:
        return ftk_run_count("--spares", optarg, 0, &r->spares);
    case O_REPLICAS:
        return parse_replicas(r, optarg);
    case O_RELAUNCH:
        return ftk_run_count("--relaunch", optarg, 0, &r->relaunch);
    case O_NO_RELAUNCH:
        r->relaunch = 0;
        return 0;
    case O_FRESH:
        return choose_start(r, "fresh");
    case O_CONTINUE:
        return choose_start(r, "continue");
    case O_SET:
        return parse_set(r, optarg);
    case O_TIMEOUT:
        return parse_time("--timeout", optarg, &r->timeout_s);
    case O_DEADLINE:
        return set_deadline(optarg);
    case O_HALT_TIMEOUT:
        return parse_time("--halt-timeout", optarg, &r->halt_timeout_s);
    case O_INIT_TIMEOUT:
        return parse_time("--init-timeout", optarg, &r->init_timeout_s);
    case O_LOG:
        r->log = true;
        return 0;
    case O_EVENTS:
        return ftk_run_log_option(optarg);
    case O_EMULATE:
        return ftk_run_count("--emulate-nodes", optarg, 1, &r->emulate);
    case O_MPIRUN:
        r->mpirun = optarg;
        return 0;
    case O_ARG:
        ftk_list_add(&r->extra, "%s", optarg);
        return 0;
    case O_KILL:
        return ftk_kill_option(&r->kills, "--kill", optarg);
    case O_FLIP:
        return ftk_kill_option(&r->kills, "--flip", optarg);
    case O_SEED:
        return ftk_kill_option(&r->kills, "--seed", optarg);
    case O_VERBOSE:
        r->verbose = true;
        return 0;
    case O_PRINT:
        r->print = true;
        return 0;
    case O_HELP:
        ftk_run_usage(stdout);
        exit(fflush(stdout) == 0 ? TOOL_OK : TOOL_FAIL);
    default: /* ftk_usage_getopt() has printed a message */
        return TOOL_USAGE;
    }
}

/* ---- options of mpirun --------------------------------------------------------------- */

static const struct {
    const char *name;
    int values;
    const char *instead; /* advice when the option is refused; NULL: it is handed on */
} habits[] = {
    { "H", 1, NULL },
    { "host", 1, NULL },
    { "hostfile", 1, NULL },
    { "machinefile", 1, NULL },
    { "map-by", 1, NULL },
    { "rank-by", 1, NULL },
    { "bind-to", 1, NULL },
    { "oversubscribe", 0, NULL },
    { "mca", 2, NULL },
    { "prtemca", 2, NULL },
    { "x", 1, NULL },
    { "wdir", 1, NULL },
    { "tag-output", 0, NULL },
    { "report-bindings", 0, NULL },
    { "with-ft", 1, "leave it out: ftkit run sets it" },
    { "f", 1, "write --hostfile FILE" },
    { "hosts", 1, "write --host LIST" },
    { "genv", 2, "write -x NAME=VALUE" },
    { "env", 2, "write -x NAME=VALUE" },
    { "genvall", 0, "leave it out: variables FTKIT_... are handed on, others by -x NAME" },
    { "ppn", 1, "write --map-by ppr:N:node" },
    { "perhost", 1, "write --map-by ppr:N:node" },
    { "npernode", 1, "write --map-by ppr:N:node" },
    { "N", 1, "write --map-by ppr:N:node" },
};

bool ftk_run_is_option(const char *arg, const char *name, const char **value)
{
    size_t len = strlen(name);
    if (arg[0] != '-')
        return false;
    arg += 1 + (arg[1] == '-');
    if (strncmp(arg, name, len) != 0 || (arg[len] != '\0' && arg[len] != '='))
        return false;
    *value = arg[len] ? arg + len + 1 : NULL;
    return true;
}

/* -x LD_PRELOAD=...: --log adds its library.  value: in the same argument; else next, NULL at the
 * end. */
static bool take_preload(struct ftk_run *r, const char *value, const char *next)
{
    static const char name[] = "LD_PRELOAD=";
    const char *text = value ? value : next;
    if (!text || strncmp(text, name, sizeof name - 1) != 0)
        return false;
    r->preload = text + sizeof name - 1;
    return true;
}

/* Take argv[optind] if it is one of these options; *taken says whether it is.  0, or an exit code
 * after a message. */
static int parse_habit(struct ftk_run *r, int argc, char **argv, bool *taken)
{
    const char *arg = argv[optind], *value = NULL;
    *taken = true;
    if (ftk_run_is_option(arg, "np", &value) || ftk_run_is_option(arg, "n", &value)
        || ftk_run_is_option(arg, "c", &value)) {
        if (!value)
            value = ++optind < argc ? argv[optind] : "";
        optind++;
        return ftk_run_count(arg, value, 1, &r->ranks);
    }
    for (size_t i = 0; i < sizeof habits / sizeof habits[0]; i++) {
        if (!ftk_run_is_option(arg, habits[i].name, &value))
            continue;
        if (habits[i].instead) {
            ftk_run_say("%s: %s", arg, habits[i].instead);
            return TOOL_USAGE;
        }
        int values = habits[i].values - (value != NULL);
        const char *text = value ? value : argv[optind + 1];
        if (strcmp(habits[i].name, "x") == 0 && text && ftk_parts_check_export(text) != 0)
            return TOOL_USAGE;
        if (strcmp(habits[i].name, "x") == 0 && take_preload(r, value, argv[optind + 1])) {
            optind += values + 1;
            return 0;
        }
        if (values < 0 || argc - optind - 1 < values) {
            ftk_run_say("%s takes %d value%s, see mpirun(1)", arg, habits[i].values,
                habits[i].values == 1 ? "" : "s");
            return TOOL_USAGE;
        }
        ftk_list_add(&r->extra, "%.*s", (int)strcspn(arg, "="), arg);
        if (value)
            ftk_list_add(&r->extra, "%s", value);
        while (optind++, values-- > 0)
            ftk_list_add(&r->extra, "%s", argv[optind]);
        return 0;
    }
    *taken = false;
    return 0;
}

int ftk_run_parse(struct ftk_run *r, int argc, char **argv)
{
    int c = 0;
    *r = (struct ftk_run){ .spares = -1,
        .relaunch = 3,
        .init_timeout_s = 30,
        .halt_timeout_s = 30,
        .mpirun = FTKIT_MPIRUN };
    while (c != -1) {
        bool taken = false;
        int rc = optind < argc ? parse_habit(r, argc, argv, &taken) : 0;
        if (!taken && (c = ftk_usage_getopt(ftk_run_usage, argc, argv, "+:n:", options)) != -1)
            rc = parse_option(r, c);
        if (rc != 0)
            return rc;
    }
    r->program = argv + optind;
    if (r->ranks < 1)
        return ftk_usage_wrong(ftk_run_usage, "-n N is missing: the number of working ranks");
    if (optind >= argc)
        return ftk_usage_wrong(ftk_run_usage, "PROGRAM is missing");
    if (r->preload && !r->log) {
        ftk_list_add(&r->extra, "-x");
        ftk_list_add(&r->extra, "LD_PRELOAD=%s", r->preload);
    }
    int rc = ftk_parts_parse(r);
    if (rc != 0)
        return rc;
    if (r->replicas > 1)
        r->ranks = r->parts[0].ranks *= r->replicas;
    return ftk_kill_plan(r);
}
