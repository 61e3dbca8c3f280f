/* ftkit run: start a job under mpirun with the flags a resilient job needs, and start it
 * again when it is lost as a whole.
 *
 * mpirun's exit code is no verdict after a failure (0 when every rank was killed, too).
 * So the library tells us through the state file, a line per event:
 *
 *     open CONTEXT      rank 0 has opened a context
 *     closed CONTEXT    ... and closed it properly
 *     set N             checkpoint set N is durable on the file system
 *     repaired ...      a failure was repaired in the job
 *     fatal TEXT        the job cannot go on
 *     exit N            a process with no context open ends with this code, not 0
 *
 * A job that ends while a context is open is lost.  Each attempt has a file of its own,
 * so that nobody left over from the last one can write into it.
 *
 * Nor is mpirun sure to end: ranks.c looks whether there is somebody left to wait for.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools.h"

#define FATAL_GRACE_S 5   /* for a job that said "fatal" to end by itself */
#define SIGNAL_GRACE_S 10 /* for mpirun to end its job after a signal */
#define EXIT_GRACE_S 1    /* for the daemons after mpirun has ended */
#define POLL_NS 100000000L
#define SHORT_NS 20000000L /* while the ranks come up: some do not live long */

struct context {
    char *name;
    int open; /* opened less closed */
};

/* What the state file of one attempt said so far. */
struct state {
    FILE *file;
    long at; /* behind the last whole line */
    struct context *contexts;
    size_t ncontexts;
    bool repaired;
    int code; /* of a process that said so, 0: none */
    char fatal[256];
    double fatal_at; /* 0: not seen */
    uint64_t set;    /* newest, 0: none */
};

enum how { BY_ITSELF, BY_SIGNAL, BY_FATAL, BY_TIMEOUT, BY_LOST_RANK, BY_NO_RANK };

struct attempt {
    int number; /* from 0 */
    pid_t pid;
    enum how how;
    int status; /* of waitpid(), when it ended by itself or by a signal to us */
    int sig;    /* BY_SIGNAL */
    double sig_at;
    long lost; /* BY_LOST_RANK: which, -1: not known */
    struct state state;
};

void ftk_run_say(const char *fmt, ...)
{
    va_list ap;
    fputs("ftkit run: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

/* ---- options ----------------------------------------------------------------------*/

void ftk_run_usage(FILE *out)
{
    fputs("usage: ftkit run -n N [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
          "\n"
          "Start PROGRAM under mpirun with the flags a resilient job needs.  When the\n"
          "job is lost as a whole, start it again from its newest complete set.\n"
          "\n"
          "  -n N               working ranks\n"
          "  --spares S         processes that wait to replace lost ones (one node's\n"
          "                     worth of ranks; 1 on a single node)\n"
          "  --relaunch R       relaunches without a new durable set in between (3)\n"
          "  --no-relaunch      the same as --relaunch 0\n"
          "  --timeout T        kill the run after T seconds and show where it was\n"
          "  --init-timeout T   end a job that lost a process, opened no context and\n"
          "                     got nowhere for T seconds (30); then relaunch it\n"
          "  --log              log messages, so that only the team of a lost rank goes\n"
          "                     back: log.enabled, and libftkit_mpi is preloaded\n"
          "  --emulate-nodes K  make nodes ftnode1..K out of this machine (needs\n"
          "                     CAP_SYS_ADMIN; otherwise only as failure domains)\n"
          "  --mpirun PATH      another mpirun of the same MPI\n"
          "  --mpirun-arg ARG   an argument for mpirun, may be repeated\n"
          "  --verbose          show the command and what the job reports\n"
          "  --print            only print the command\n"
          "\n"
          "Exit code: mpirun's; 0 when a failure was repaired and the program ended\n"
          "well; 2 usage, 124 timeout, 128 + signal.  Files of the run are under TMPDIR\n"
          "(/tmp), which the node of rank 0 has to see.\n",
        out);
}

enum {
    O_SPARES = 256,
    O_RELAUNCH,
    O_NO_RELAUNCH,
    O_TIMEOUT,
    O_INIT_TIMEOUT,
    O_LOG,
    O_EMULATE,
    O_MPIRUN,
    O_ARG,
    O_VERBOSE,
    O_PRINT,
    O_HELP
};

static const struct option options[] = {
    { "spares", required_argument, NULL, O_SPARES },
    { "relaunch", required_argument, NULL, O_RELAUNCH },
    { "no-relaunch", no_argument, NULL, O_NO_RELAUNCH },
    { "timeout", required_argument, NULL, O_TIMEOUT },
    { "init-timeout", required_argument, NULL, O_INIT_TIMEOUT },
    { "log", no_argument, NULL, O_LOG },
    { "emulate-nodes", required_argument, NULL, O_EMULATE },
    { "mpirun", required_argument, NULL, O_MPIRUN },
    { "mpirun-arg", required_argument, NULL, O_ARG },
    { "verbose", no_argument, NULL, O_VERBOSE },
    { "print", no_argument, NULL, O_PRINT },
    { "help", no_argument, NULL, O_HELP },
    { NULL, 0, NULL, 0 },
};

static int parse_count(const char *what, const char *text, int min, int *out)
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

static int parse_seconds(const char *what, const char *text, double *out)
{
    char *end;
    double s = strtod(text, &end);
    if (*text == '\0' || *end != '\0' || !(s > 0) || s > 1e9) {
        ftk_run_say("%s: '%s' is not a time in seconds", what, text);
        return TOOL_USAGE;
    }
    *out = s;
    return 0;
}

static int parse_option(struct ftk_run *r, int c)
{
    switch (c) {
    case 'n':
        return parse_count("-n", optarg, 1, &r->ranks);
    case O_SPARES:
        return parse_count("--spares", optarg, 0, &r->spares);
    case O_RELAUNCH:
        return parse_count("--relaunch", optarg, 0, &r->relaunch);
    case O_NO_RELAUNCH:
        r->relaunch = 0;
        return 0;
    case O_TIMEOUT:
        return parse_seconds("--timeout", optarg, &r->timeout_s);
    case O_INIT_TIMEOUT:
        return parse_seconds("--init-timeout", optarg, &r->init_timeout_s);
    case O_LOG:
        r->log = true;
        return 0;
    case O_EMULATE:
        return parse_count("--emulate-nodes", optarg, 1, &r->emulate);
    case O_MPIRUN:
        r->mpirun = optarg;
        return 0;
    case O_ARG:
        ftk_list_add(&r->extra, "%s", optarg);
        return 0;
    case O_VERBOSE:
        r->verbose = true;
        return 0;
    case O_PRINT:
        r->print = true;
        return 0;
    default:
        ftk_run_usage(stderr);
        return TOOL_USAGE;
    }
}

static int parse(struct ftk_run *r, int argc, char **argv)
{
    static char name[] = "ftkit run"; /* getopt() begins its messages with it */
    int c;
    *r = (struct ftk_run){
        .spares = -1, .relaunch = 3, .init_timeout_s = 30, .mpirun = FTKIT_MPIRUN
    };
    argv[0] = name;
    while ((c = getopt_long(argc, argv, "+n:", options, NULL)) != -1) {
        int rc = parse_option(r, c);
        if (rc != 0)
            return rc;
    }
    r->program = argv + optind;
    if (r->ranks < 1 || optind >= argc) {
        ftk_run_say(r->ranks < 1 ? "-n is missing" : "which program?");
        ftk_run_usage(stderr);
        return TOOL_USAGE;
    }
    return 0;
}

/* ---- the state file ---------------------------------------------------------------*/

static int *context_of(struct state *s, const char *name)
{
    for (size_t i = 0; i < s->ncontexts; i++)
        if (strcmp(s->contexts[i].name, name) == 0)
            return &s->contexts[i].open;
    struct context *c = ftk_tool_alloc((s->ncontexts + 1) * sizeof *c);
    if (s->ncontexts)
        memcpy(c, s->contexts, s->ncontexts * sizeof *c);
    free(s->contexts);
    s->contexts = c;
    c += s->ncontexts++;
    c->name = ftk_tool_alloc(strlen(name) + 1);
    strcpy(c->name, name);
    return &c->open;
}

static void state_line(struct state *s, char *line)
{
    char *rest = line + strcspn(line, " ");
    if (*rest)
        *rest++ = '\0';
    if (strcmp(line, "open") == 0)
        ++*context_of(s, rest);
    else if (strcmp(line, "closed") == 0)
        --*context_of(s, rest);
    else if (strcmp(line, "repaired") == 0)
        s->repaired = true;
    else if (strcmp(line, "exit") == 0 && s->code == 0)
        s->code = (int)(strtol(rest, NULL, 10) & 0xff);
    else if (strcmp(line, "set") == 0 && strtoull(rest, NULL, 10) > s->set)
        s->set = strtoull(rest, NULL, 10);
    else if (strcmp(line, "fatal") == 0 && s->fatal_at == 0) {
        snprintf(s->fatal, sizeof s->fatal, "%s", rest);
        s->fatal_at = ftk_now_s();
    }
}

/* Take in the lines that came since the last call. */
static void state_read(struct state *s, bool verbose)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t len;
    clearerr(s->file);
    if (fseek(s->file, s->at, SEEK_SET) != 0)
        return;
    while ((len = getline(&line, &room, s->file)) > 0 && line[len - 1] == '\n') {
        s->at += len;
        line[len - 1] = '\0';
        if (verbose)
            ftk_run_say("job: %s", line);
        state_line(s, line);
    }
    free(line);
}

static bool state_lost(const struct state *s)
{
    for (size_t i = 0; i < s->ncontexts; i++)
        if (s->contexts[i].open > 0)
            return true;
    return false;
}

static int state_begin(const struct ftk_run *r, struct attempt *a)
{
    char path[FTK_PATH_MAX];
    ftk_mpirun_state_path(r, a->number, path);
    a->state.file = fopen(path, "w+xe");
    if (!a->state.file) {
        ftk_run_say("cannot make %s: %s", path, strerror(errno));
        return TOOL_FAIL;
    }
    return 0;
}

static void state_free(struct state *s)
{
    for (size_t i = 0; i < s->ncontexts; i++)
        free(s->contexts[i].name);
    free(s->contexts);
    fclose(s->file);
}

/* ---- one attempt ------------------------------------------------------------------*/

/* In the child: become mpirun, or report which step failed. */
static void become(
    const struct ftk_run *r, char **cmd, char **env, pid_t parent, int report)
{
    sigset_t none;
    const char *step = "session";
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (setsid() < 0) /* a ^C reaches us alone, and we decide */
        goto fail;
    step = "parent";
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != parent)
        goto fail; /* whatever happens to us, mpirun ends its job */
    step = "node names";
    if (r->emulate > 0 && ftk_emulate_enter(r) != 0)
        goto fail;
    for (; *env; env++)
        putenv(*env);
    step = r->mpirun;
    execvp(r->mpirun, cmd);
fail:
    dprintf(report, "%s: %s", step, strerror(errno));
    _exit(TOOL_NO_EXEC);
}

static void show_command(FILE *out, const struct ftk_list *l)
{
    for (size_t i = 0; i < l->n; i++) {
        const char *s = l->v[i];
        fputs(i ? " " : "", out);
        if (*s
            && s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                           "0123456789_-+=./:,^@%")]
                   == '\0') {
            fputs(s, out);
            continue;
        }
        putc('\'', out);
        for (; *s; s++)
            if (*s == '\'')
                fputs("'\\''", out);
            else
                putc(*s, out);
        putc('\'', out);
    }
    putc('\n', out);
}

static void show(FILE *out, const struct ftk_run *r, int attempt)
{
    struct ftk_list all = { 0 };
    ftk_list_add(&all, "env");
    ftk_mpirun_environment(r, attempt, &all);
    ftk_mpirun_command(r, &all);
    show_command(out, &all);
    ftk_list_free(&all);
}

static int start(const struct ftk_run *r, struct attempt *a)
{
    struct ftk_list cmd = { 0 }, env = { 0 };
    char why[256] = "";
    int report[2];
    pid_t self = getpid();
    if (pipe2(report, O_CLOEXEC) != 0) {
        ftk_run_say("pipe: %s", strerror(errno));
        return TOOL_FAIL;
    }
    ftk_mpirun_command(r, &cmd);
    ftk_mpirun_environment(r, a->number, &env);
    fflush(NULL);
    a->pid = fork();
    if (a->pid == 0)
        become(r, cmd.v, env.v, self, report[1]);
    close(report[1]);
    /* closed by a successful exec; otherwise says what failed */
    ssize_t len = a->pid < 0 ? -1 : read(report[0], why, sizeof why - 1);
    close(report[0]);
    ftk_list_free(&cmd);
    ftk_list_free(&env);
    if (len == 0)
        return 0;
    ftk_run_say("cannot start mpirun: %s", a->pid < 0 ? strerror(errno) : why);
    return TOOL_NO_EXEC;
}

static bool has_ended(struct attempt *a)
{
    int status;
    pid_t pid;
    bool ended = false;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        ftk_litter_note(pid, false);
        if (pid == a->pid) {
            a->status = status;
            ended = true;
        }
    }
    return ended;
}

/* Signals to us are mpirun's; the job has to end, soon, or at once on the second one.
 * SIGUSR1 and SIGUSR2 only pass through. */
static bool take_signal(struct attempt *a, int sig)
{
    if (sig <= 0 || sig == SIGCHLD)
        return true;
    kill(a->pid, sig);
    if (sig == SIGUSR1 || sig == SIGUSR2)
        return true;
    bool again = a->sig != 0;
    if (!again) {
        a->how = BY_SIGNAL;
        a->sig = sig;
        a->sig_at = ftk_now_s();
    }
    return !again;
}

/* Whether the processes of the ranks give a reason to end the job. */
static bool look_at_ranks(struct attempt *a, struct ftk_ranks *ranks)
{
    switch (ftk_ranks_look(ranks, a->state.ncontexts > 0)) {
    case FTK_RANKS_WELL:
        break;
    case FTK_RANKS_LOST:
        a->how = BY_LOST_RANK;
        a->lost = ftk_ranks_lost(ranks);
        return true;
    case FTK_RANKS_GONE:
        a->how = BY_NO_RANK;
        return true;
    }
    return false;
}

/* Until mpirun has ended or must be ended. */
static void watch(const struct ftk_run *r, struct attempt *a, struct ftk_ranks *ranks,
    const sigset_t *set, double end)
{
    while (!has_ended(a)) {
        state_read(&a->state, r->verbose);
        double now = ftk_now_s();
        if (now > end) {
            a->how = BY_TIMEOUT;
            ftk_run_say("timeout after %g s; the processes:", r->timeout_s);
            ftk_tree_dump(stderr);
            return;
        }
        if (a->state.fatal_at > 0 && now > a->state.fatal_at + FATAL_GRACE_S && !a->sig) {
            a->how = BY_FATAL;
            return;
        }
        if (a->sig && now > a->sig_at + SIGNAL_GRACE_S)
            return;
        if (!a->sig && look_at_ranks(a, ranks))
            return;
        const struct timespec turn = { 0, ftk_ranks_coming(ranks) ? SHORT_NS : POLL_NS };
        if (!take_signal(a, sigtimedwait(set, NULL, &turn)))
            return;
    }
}

/* mpirun hangs after its ranks, so nobody tells us their exit codes; what they left as
 * zombies does, if that is still there, else what the library said. */
static void take_status(struct attempt *a, int status)
{
    bool lost = state_lost(&a->state);
    ftk_run_say("mpirun does not end although all processes of the job have; ending it");
    if (status > 0)
        a->status = status;
    else if (!lost && (status == 0 || a->state.ncontexts > 0))
        a->status = 0;
    else if (!lost)
        ftk_run_say("their exit codes are not known; taken as %d", TOOL_FAIL);
}

static int run_attempt(
    const struct ftk_run *r, struct attempt *a, const sigset_t *set, double end)
{
    int rc = state_begin(r, a);
    if (rc != 0)
        return rc;
    a->status = TOOL_FAIL << 8; /* when we end it: not a success */
    if (r->verbose)
        show(stderr, r, a->number);
    rc = start(r, a);
    if (rc != 0) {
        state_free(&a->state);
        return rc;
    }
    struct ftk_ranks *ranks = ftk_ranks_begin(r);
    watch(r, a, ranks, set, end);
    state_read(&a->state, r->verbose);
    if (a->how == BY_NO_RANK)
        take_status(a, ftk_ranks_status(ranks));
    ftk_ranks_end(ranks);
    /* the daemons of a job that ended well may still be tidying up */
    bool let = a->how == BY_ITSELF && !state_lost(&a->state);
    int killed = ftk_tree_end(let ? EXIT_GRACE_S : 0);
    if (killed < 0)
        ftk_run_say("processes of the job are still there and cannot be killed");
    else if (killed > 0 && let && r->verbose)
        ftk_run_say("killed what was left of the job");
    state_read(&a->state, r->verbose);
    return 0;
}

/* ---- the run ----------------------------------------------------------------------*/

static int code_of(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void describe(const struct attempt *a, char *text, size_t bytes)
{
    int code = code_of(a->status);
    char rank[32] = "a rank";
    if (a->lost >= 0)
        snprintf(rank, sizeof rank, "rank %ld", a->lost);
    if (a->how == BY_LOST_RANK)
        snprintf(text, bytes,
            "because the process of %s was gone before any context was opened", rank);
    else if (a->state.fatal_at > 0)
        snprintf(text, bytes, "by a fatal error: %s", a->state.fatal);
    else if (code > 128 && code - 128 < NSIG)
        snprintf(text, bytes, "by signal %d (%s)", code - 128, strsignal(code - 128));
    else
        snprintf(text, bytes, "with exit code %d and a context still open", code);
}

/* Whether another attempt is due: not when somebody wanted the end. */
static bool is_lost(const struct attempt *a)
{
    if (a->how == BY_SIGNAL || a->how == BY_TIMEOUT)
        return false;
    return a->how == BY_LOST_RANK || state_lost(&a->state);
}

/* Exit code of the run as it stands after this attempt. */
static int verdict(const struct attempt *a)
{
    int code = code_of(a->status);
    if (a->how == BY_TIMEOUT)
        return TOOL_TIMEOUT;
    if (a->how == BY_SIGNAL)
        return 128 + a->sig;
    if (state_lost(&a->state) || a->state.fatal_at > 0)
        return code ? code : TOOL_FAIL;
    return a->state.repaired ? a->state.code : code;
}

static int run_all(struct ftk_run *r, const sigset_t *set)
{
    double end = r->timeout_s > 0 ? ftk_now_s() + r->timeout_s : 1e300;
    uint64_t known = 0; /* newest durable set at the last relaunch */
    int used = 0;
    for (int number = 0;; number++) {
        struct attempt a = { .number = number };
        char how[320];
        int rc = run_attempt(r, &a, set, end);
        if (rc != 0)
            return rc;
        bool lost = is_lost(&a);
        rc = verdict(&a);
        describe(&a, how, sizeof how);
        uint64_t newest = a.state.set;
        state_free(&a.state);
        if (!lost)
            return rc;
        if (newest > known) { /* progress is never punished */
            known = newest;
            used = 0;
        }
        if (used >= r->relaunch) {
            ftk_run_say("attempt %d ended %s; giving up (%d of %d relaunches used)",
                number + 1, how, used, r->relaunch);
            return rc;
        }
        used++;
        ftk_run_say("attempt %d ended %s; relaunching from the newest complete set "
                    "(%d of %d)",
            number + 1, how, used, r->relaunch);
        ftk_nodes_look(r);
    }
}

/* Files of a directory whose names begin like this. */
static void remove_files(const char *path, const char *begin)
{
    DIR *d = opendir(path);
    struct dirent *e;
    while (d && (e = readdir(d)))
        if (e->d_name[0] != '.' && strncmp(e->d_name, begin, strlen(begin)) == 0)
            unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
}

static void remove_dir(const char *path)
{
    remove_files(path, "");
    rmdir(path);
}

/* Determinants of jobs that could not clean up: they are of no use to the next one. */
static void remove_determinants(const struct ftk_run *r)
{
    char begin[48];
    snprintf(begin, sizeof begin, "ftkit-det-%llx-", (unsigned long long)r->id);
    remove_files("/dev/shm", begin);
}

static int make_dir(struct ftk_run *r)
{
    const char *tmp = getenv("TMPDIR");
    int len = snprintf(
        r->dir, sizeof r->dir, "%s/ftkit-run.XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (len > (int)sizeof r->dir - 64) {
        ftk_run_say("TMPDIR is too long");
        return TOOL_USAGE;
    }
    if (r->print || mkdtemp(r->dir))
        return 0;
    ftk_run_say("cannot make %s: %s", r->dir, strerror(errno));
    return TOOL_FAIL;
}

int ftk_run_main(int argc, char **argv)
{
    static const int taken[] = { SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 };
    struct ftk_run r;
    sigset_t set;
    int rc = parse(&r, argc, argv);
    r.id = ftk_random();
    if (rc == 0)
        rc = ftk_mpirun_plan(&r);
    if (rc == 0)
        rc = make_dir(&r);
    if (rc != 0 || r.print) {
        if (rc == 0)
            show(stdout, &r, 0);
        ftk_list_free(&r.extra);
        return rc;
    }
    if (!ftk_mpirun_ulfm())
        ftk_run_say(
            "this MPI has no ULFM: restart only, the loss of a rank ends the job");
    /* taken in watch() only: mpirun's end must not slip by between test and wait */
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        sigaddset(&set, taken[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGCHLD, SIG_DFL); /* ignored by our parent, there would be no exit codes */
    if (ftk_tree_init() != 0)
        ftk_run_say(
            "no subreaper: %s; processes of a lost job may stay", strerror(errno));
    if (r.emulate > 0)
        rc = ftk_emulate_files(&r);
    if (rc == 0)
        rc = run_all(&r, &set);
    ftk_litter_slots(r.id);
    ftk_emulate_remove(&r);
    remove_determinants(&r);
    remove_dir(r.dir);
    ftk_list_free(&r.extra);
    ftk_list_free(&r.gone);
    return rc;
}
