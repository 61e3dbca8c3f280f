/* ftkit run: start a job under mpirun with the flags that a resilient job needs, and start the job
 * again when it is lost as a whole.
 *
 * A job that ends while a context is open is lost.  The library and mpirun write facts about an
 * attempt into a file (state.c).  Each attempt has a file of its own, so a process that is left
 * from an earlier attempt cannot write into the file of this one.
 *
 * mpirun may fail to end; so ranks.c checks whether the processes of the ranks are alive.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "asks.h"
#include "input.h"
#include "ends.h"
#include "kill.h"
#include "sets.h"
#include "detect/watch_page.h"

#define FATAL_GRACE_S 5   /* for a job to end by itself after a fatal error */
#define SIGNAL_GRACE_S 10 /* for mpirun to end its job after a signal */
#define ORPHAN_GRACE_S 10 /* for a job that has closed its contexts and lost mpirun */
#define EXIT_GRACE_S 1    /* for the daemons after mpirun has ended */
#define POLL_NS 100000000L
#define SHORT_NS 20000000L /* while the ranks start: some end soon */

enum how {
    BY_ITSELF,
    BY_HALT,
    BY_SIGNAL,
    BY_FATAL,
    BY_TIMEOUT,
    BY_LOST_RANK,
    BY_NO_RANK,
    BY_ABORT
};

struct attempt {
    int number; /* from 0 */
    pid_t pid;
    enum how how;
    int status; /* of mpirun, as from waitpid() */
    int sig;    /* BY_SIGNAL */
    double sig_at;
    bool halting;     /* the job was asked to halt */
    bool halt_wanted; /* SIGUSR2 came before a context was open */
    bool set_wanted;  /* SIGUSR1 */
    struct ftk_ends ends;
    long lost; /* BY_LOST_RANK: the rank, -1: not known */
    struct ftk_state *state;
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

/* ---- one attempt --------------------------------------------------------------------- */

/* In the child: become mpirun, or report which step failed. */
static void become(const struct ftk_run *r, char **cmd, char **env, const char *state, pid_t parent,
    int input, int report)
{
    sigset_t none;
    const char *step = "session";
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (setsid() < 0) /* so ^C reaches ftkit run only, which passes it on */
        goto fail;
    step = "parent";
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != parent)
        goto fail; /* if ftkit run dies, mpirun gets SIGTERM and ends its job */
    step = "standard input";
    if (input >= 0 && dup2(input, STDIN_FILENO) < 0)
        goto fail;
    step = "node names";
    if (r->emulate > 0 && ftk_emulate_enter(r) != 0)
        goto fail;
    for (; *env; env++)
        putenv(*env);
    step = state;
    if (state && ftk_mpirun_tell(state) != 0)
        goto fail;
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
    char why[256] = "", state[FTK_PATH_MAX];
    int report[2];
    pid_t self = getpid();
    if (pipe2(report, O_CLOEXEC) != 0) {
        ftk_run_say("pipe: %s", strerror(errno));
        return TOOL_FAIL;
    }
    ftk_mpirun_command(r, &cmd);
    ftk_mpirun_environment(r, a->number, &env);
    ftk_mpirun_state_path(r, a->number, state);
    int input = ftk_input_attempt();
    fflush(NULL);
    a->pid = fork();
    if (a->pid == 0)
        become(r, cmd.v, env.v, r->tells ? state : NULL, self, input, report[1]);
    close(report[1]);
    ftk_input_give();
    /* a successful exec closes the pipe; otherwise the pipe has the error */
    ssize_t len = a->pid < 0 ? -1 : read(report[0], why, sizeof why - 1);
    close(report[0]);
    ftk_list_free(&cmd);
    ftk_list_free(&env);
    if (len == 0)
        return 0;
    ftk_run_say(
        "cannot start mpirun: %s (--mpirun names another)", a->pid < 0 ? strerror(errno) : why);
    return TOOL_NO_EXEC;
}

static bool has_ended(struct attempt *a)
{
    ftk_tree_reap();
    int status = ftk_tree_status(a->pid);
    if (status >= 0)
        a->status = status;
    return status >= 0;
}

/* Take a signal.  SIGUSR1 asks the ranks for a durable set.  The first other signal asks the ranks
 * to halt, if a context is open; mpirun would end them at SIGTERM.  The next one goes to mpirun,
 * and the job has some time to end; false, on the one after: end the job at once. */
static bool take_signal(struct attempt *a, int sig)
{
    if (sig <= 0 || sig == SIGCHLD)
        return true;
    if (sig == SIGUSR1) {
        a->set_wanted = true;
        return true;
    }
    if (!a->halting && ftk_state_is_open(a->state)) {
        a->halting = ftk_asks_halt(a->pid, sig);
        if (a->halting)
            ftk_run_say("%s: the job writes a durable set and halts; a second signal ends it",
                strsignal(sig));
        return true;
    }
    if (sig == SIGUSR2) {
        a->halt_wanted = true;
        return true;
    }
    kill(a->pid, sig);
    bool again = a->sig != 0;
    if (!again) {
        a->how = BY_SIGNAL;
        a->sig = sig;
        a->sig_at = ftk_now_s();
    }
    return !again;
}

/* Hand on the requests that came before a context was open. */
static void take_wanted(struct attempt *a)
{
    if (!ftk_state_is_open(a->state))
        return;
    if (a->set_wanted)
        ftk_asks_set(a->pid);
    if (a->halt_wanted && !a->halting)
        (void)take_signal(a, SIGUSR2);
    a->set_wanted = a->halt_wanted = false;
}

/* Whether the processes of the ranks give a reason to end the job. */
static bool look_at_ranks(struct attempt *a, struct ftk_ranks *ranks)
{
    switch (ftk_ranks_look(ranks, ftk_state_told(a->state)->opened)) {
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

/* Wait until mpirun has ended or must be ended. */
static void watch(const struct ftk_run *r, struct attempt *a, struct ftk_ranks *ranks,
    const sigset_t *set, double end)
{
    while (!has_ended(a)) {
        ftk_state_read(a->state);
        double now = ftk_now_s();
        if (now > end) {
            a->how = BY_TIMEOUT;
            ftk_run_say("timeout after %g s; the ranks on this node:", r->timeout_s);
            ftk_tree_dump(stderr, r->verbose);
            return;
        }
        if (!a->sig && ftk_ends_look(&a->ends, a->state)) {
            a->how = BY_ABORT;
            return;
        }
        double fatal_at = ftk_state_told(a->state)->fatal_at;
        if (fatal_at > 0 && now > fatal_at + FATAL_GRACE_S && !a->sig) {
            a->how = BY_FATAL;
            return;
        }
        take_wanted(a);
        double halted_at = ftk_state_told(a->state)->halted_at;
        if (halted_at > 0 && now > halted_at + r->halt_timeout_s && !a->sig) {
            a->how = BY_HALT;
            ftk_run_say("the program goes on after FTKIT_HALT: ending it");
            return;
        }
        if (a->sig && now > a->sig_at + SIGNAL_GRACE_S)
            return;
        if (!a->sig && look_at_ranks(a, ranks))
            return;
        struct timespec turn = { 0, ftk_ranks_coming(ranks) ? SHORT_NS : POLL_NS };
        ftk_kill_look(r, a->state, a->number, &turn.tv_nsec);
        if (!take_signal(a, sigtimedwait(set, NULL, &turn)))
            return;
    }
}

/* mpirun hangs after the end of its ranks, and does not report their exit codes.  Take a status
 * from the zombies of the ranks, if it is known; else rely on the lines of the library. */
static void take_status(struct attempt *a, int status)
{
    bool lost = ftk_state_is_open(a->state);
    ftk_run_say("mpirun does not end although all processes of the job have; ending it");
    if (status > 0)
        a->status = status;
    else if (!lost && (status == 0 || ftk_state_told(a->state)->opened))
        a->status = 0;
    else if (!lost)
        ftk_run_say("their exit codes are not known; taken as %d", TOOL_FAIL);
}

/* mpirun was killed after the job had closed its contexts: the job may still end well. */
static bool is_orphaned(const struct attempt *a)
{
    return a->how == BY_ITSELF && WIFSIGNALED(a->status) && ftk_state_told(a->state)->opened
           && !ftk_state_is_open(a->state);
}

/* mpirun was killed while the ranks were starting.  A rank that is still in MPI_Init may come up
 * alone; ftkit_open() refuses it. */
static bool is_headless(const struct attempt *a)
{
    return a->how == BY_ITSELF && WIFSIGNALED(a->status) && !ftk_state_told(a->state)->opened;
}

/* All processes of a job without mpirun have ended by now.  mpirun has reported the processes that
 * ended before it; the other processes became our children, and were reaped. */
static void judge_orphans(struct attempt *a, const struct ftk_ranks *ranks)
{
    int sig = WTERMSIG(a->status), status = ftk_ranks_orphans(ranks);
    char text[128];
    const struct ftk_end *bad = ftk_state_first(a->state);
    if (bad || status > 0) {
        if (bad)
            ftk_end_text(bad, text, sizeof text);
        ftk_run_say("mpirun was killed by signal %d (%s) after the job had closed its "
                    "contexts, and %s: what it printed may be lost",
            sig, strsignal(sig), bad ? text : "then a process of the job ended badly");
    } else if (status < 0
               || ftk_state_ends(a->state) + ftk_ranks_orphans_well(ranks)
                      < ftk_ranks_total(ranks)) {
        ftk_run_say("mpirun was killed by signal %d (%s) after the job had closed its "
                    "contexts; how its processes ended is not known",
            sig, strsignal(sig));
    } else {
        ftk_run_say("mpirun was killed by signal %d (%s) after the job had closed its "
                    "contexts; all its processes ended well, but what they printed last "
                    "may be lost",
            sig, strsignal(sig));
        a->status = 0;
    }
}

static void wind_up(const struct ftk_run *r, struct attempt *a, const struct ftk_ranks *ranks)
{
    /* the daemons of a job that ended well may still be cleaning up */
    bool let = a->how == BY_ITSELF && !ftk_state_is_open(a->state) && !is_headless(a);
    bool orphaned = is_orphaned(a);
    int killed = ftk_tree_end(orphaned ? ORPHAN_GRACE_S : let ? EXIT_GRACE_S : 0);
    if (killed < 0)
        ftk_run_say("processes of the job are still there and cannot be killed");
    else if (killed > 0 && let && r->verbose)
        ftk_run_say("killed what was left of the job");
    ftk_state_read(a->state);
    if (orphaned)
        judge_orphans(a, ranks);
}

static int run_attempt(const struct ftk_run *r, struct attempt *a, const sigset_t *set, double end)
{
    char path[FTK_PATH_MAX];
    ftk_mpirun_state_path(r, a->number, path);
    a->state = ftk_state_begin(path, r->verbose);
    if (!a->state)
        return TOOL_FAIL;
    a->status = TOOL_FAIL << 8; /* a job that we end is no success */
    ftk_asks_attempt();
    if (r->verbose)
        show(stderr, r, a->number);
    int rc = start(r, a);
    if (rc != 0) {
        ftk_input_end();
        ftk_state_end(a->state);
        return rc;
    }
    struct ftk_ranks *ranks = ftk_ranks_begin(r);
    watch(r, a, ranks, set, end);
    ftk_state_read(a->state);
    if (a->how == BY_NO_RANK)
        take_status(a, ftk_ranks_status(ranks));
    wind_up(r, a, ranks);
    ftk_input_end();
    ftk_ranks_end(ranks);
    return 0;
}

/* ---- the run ------------------------------------------------------------------------- */

static int code_of(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void describe(const struct attempt *a, char *text, size_t bytes)
{
    const struct ftk_told *told = ftk_state_told(a->state);
    const struct ftk_end *first = ftk_state_first(a->state);
    int code = code_of(a->status);
    char rank[32] = "a rank", end[128] = "";
    if (a->lost >= 0)
        snprintf(rank, sizeof rank, "rank %ld", a->lost);
    if (first)
        ftk_end_text(first, end, sizeof end);
    const char *after = first ? "; first, " : "";
    if (a->how == BY_LOST_RANK)
        snprintf(text, bytes,
            "because the process of %s was gone before any context was opened%s%s", rank, after,
            end);
    else if (is_headless(a))
        snprintf(text, bytes,
            "because mpirun was killed by signal %d (%s) before any context was opened", code - 128,
            strsignal(code - 128));
    else if (told->fatal_at > 0)
        snprintf(text, bytes, "by a fatal error: %s%s%s", told->fatal, after, end);
    else if ((WIFSIGNALED(a->status) || !first) && code > 128 && code - 128 < NSIG)
        snprintf(text, bytes, "by signal %d (%s)", code - 128, strsignal(code - 128));
    else if (!first)
        snprintf(text, bytes, "with exit code %d and a context still open", code);
    else
        snprintf(text, bytes, "because %s with a context still open", end);
}

/* Whether the program has ended the job by MPI_Abort. */
static bool has_aborted(const struct attempt *a)
{
    return a->how == BY_ABORT || ftk_state_aborted(a->state);
}

/* Whether the job is lost.  A job that a signal, the timeout or MPI_Abort has ended is not. */
static bool is_lost(const struct attempt *a)
{
    if (has_aborted(a) || a->how == BY_SIGNAL || a->how == BY_TIMEOUT
        || ftk_state_told(a->state)->halted_at > 0)
        return false;
    return a->how == BY_LOST_RANK || is_headless(a) || ftk_state_is_open(a->state);
}

/* Whether a signal comes from an error of the program, and not from outside. */
static bool is_crash(int sig)
{
    return sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE || sig == SIGILL || sig == SIGABRT;
}

/* The signal by which the program has crashed and the job was lost, 0: none. */
static int crash_of(const struct attempt *a)
{
    const struct ftk_end *e = ftk_state_cause(a->state);
    return e && e->how == FTK_END_SIGNAL && is_crash(e->sig) ? e->sig : 0;
}

/* Exit code of the run if this attempt is the last.  A job that ended badly never has 0, also if
 * mpirun was killed, or if a process ended badly while no context was open. */
static int verdict(const struct attempt *a)
{
    const struct ftk_told *told = ftk_state_told(a->state);
    const struct ftk_end *first = ftk_state_first(a->state), *cause = ftk_state_cause(a->state);
    int code = code_of(a->status), bad = first ? ftk_end_code(first) : 0;
    if (a->how == BY_TIMEOUT)
        return TOOL_TIMEOUT;
    if (a->how == BY_HALT)
        return TOOL_HALTED;
    if (a->how == BY_SIGNAL)
        return 128 + a->sig;
    if (told->halted_at > 0) /* however the program has ended: its work is in the set */
        return TOOL_HALTED;
    if (told->mistake || told->unclosed)
        return TOOL_FAIL; /* the library has killed the processes: their status says nothing */
    if (ftk_state_is_open(a->state) || told->fatal_at > 0 || a->how == BY_LOST_RANK)
        return cause ? ftk_end_code(cause) : code ? code : TOOL_FAIL;
    if (told->repaired && !WIFSIGNALED(a->status))
        code = told->code; /* the code of mpirun is that of processes that were replaced */
    return bad ? bad : code;
}

/* Report the end of a job that is not lost, if it ended badly. */
static void tell_end(const struct attempt *a)
{
    const struct ftk_end *first = ftk_state_first(a->state);
    const struct ftk_told *told = ftk_state_told(a->state);
    char text[128];
    if (told->mistake) {
        ftk_run_say(
            "a mistake of the program ended the job, and a relaunch would meet it again: %s",
            told->fatal);
        return;
    }
    if (told->unclosed) {
        ftk_run_say("the program has ended well without ftkit_close: exit code %d, and no relaunch",
            TOOL_FAIL);
        return;
    }
    if (verdict(a) == TOOL_HALTED && told->halted > 0)
        ftk_run_say("the job has halted; set %" PRIu64 " is durable: start it again to go on",
            told->halted);
    else if (verdict(a) == TOOL_HALTED)
        ftk_run_say("the job has halted without files");
    if (!first || a->how == BY_SIGNAL || a->how == BY_TIMEOUT || a->how == BY_HALT)
        return;
    ftk_end_text(first, text, sizeof text);
    if (has_aborted(a) && ftk_state_is_open(a->state)) {
        ftk_run_say("%s: the job ends, and is not relaunched", text);
        return;
    }
    ftk_run_say("%s %s", text,
        told->opened ? "when all contexts were closed" : "before a context was opened");
}

/* ---- whether another attempt may make progress --------------------------------------- */

/* Results of the attempts so far. */
struct past {
    struct ftk_progress *page; /* NULL: not mapped */
    uint64_t furthest;         /* furthest position of the earlier attempts */
    uint64_t known;            /* newest durable set of the earlier attempts */
    uint64_t crashed_at;       /* position of the crash that ended the last attempt, 0: none */
    int crash;                 /* its signal */
    bool older;                /* an older set was tried */
    int used;                  /* relaunches without progress */
};

/* Map the file in which the library keeps the position.  Without the file, durable sets are the
 * measure of progress. */
static void map_progress(const struct ftk_run *r, struct past *past)
{
    char path[FTK_PATH_MAX];
    void *at = MAP_FAILED;
    snprintf(path, sizeof path, "%.*s/" FTK_PROGRESS_FILE, FTK_PATH_MAX - 32, r->dir);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0 && ftruncate(fd, sizeof *past->page) == 0)
        at = mmap(NULL, sizeof *past->page, PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        ftk_run_say(
            "cannot make %s: %s; progress is taken from durable sets", path, strerror(errno));
    else
        past->page = at;
    if (fd >= 0)
        close(fd);
}

static uint64_t position(const struct past *past, bool furthest)
{
    return !past->page ? 0 : atomic_load(furthest ? &past->page->furthest : &past->page->now);
}

/* Progress means that the program has come further than before.  A new set alone is no progress:
 * a restarted job with the message log writes a set at its first call. */
static bool has_progressed(const struct ftk_run *r, struct past *past, const struct ftk_told *told)
{
    uint64_t now = position(past, true);
    bool further = now > past->furthest;
    if (now == 0) /* the position is not known */
        further = told->set > past->known && told->nsets > r->log;
    past->furthest = now;
    past->known = told->set > past->known ? told->set : past->known;
    return further;
}

/* Whether the program has crashed at the same position as in the attempt before, or at the same
 * call again and again within this attempt.  When another rank crashes, rank 0 may have made one
 * call more or less. */
static bool crashes_again(const struct attempt *a, struct past *past)
{
    int sig = crash_of(a);
    uint64_t at = sig ? position(past, false) : 0;
    bool again = at > 0 && past->crashed_at > 0 && sig == past->crash && at + 1 >= past->crashed_at
                 && at <= past->crashed_at + 1;
    past->crashed_at = at;
    past->crash = sig;
    return again || ftk_state_told(a->state)->again;
}

/* The program crashes at the same place.  The set may have the cause: try an older one, once,
 * unless the user has chosen the start. */
static bool may_try_older(
    struct ftk_run *r, const struct attempt *a, struct past *past, const char *how)
{
    r->older =
        !past->older && !r->start && !getenv("FTKIT_RECOVER_START") && past->used < r->relaunch;
    if (!r->older) {
        ftk_run_say("attempt %d ended %s, at the same place as before: every relaunch would end in "
                    "the same way, so there is none",
            a->number + 1, how);
        return false;
    }
    past->older = true;
    past->used++;
    ftk_run_say("attempt %d ended %s, at the same place as before: relaunching once from the set "
                "before the newest (%d of %d)",
        a->number + 1, how, past->used, r->relaunch);
    return true;
}

/* After a lost attempt: whether to start another one. */
static bool may_try_again(struct ftk_run *r, const struct attempt *a, struct past *past, int *code)
{
    const struct ftk_told *told = ftk_state_told(a->state);
    char how[512];
    describe(a, how, sizeof how);
    bool again = crashes_again(a, past);
    r->older = false;
    if (has_progressed(r, past, told))
        past->used = 0;
    if (again)
        return may_try_older(r, a, past, how);
    if (told->busy[0]) {
        ftk_run_say(
            "attempt %d ended: %s. There is no relaunch, which would continue from the sets "
            "of the other job: start again when that job has ended, or with another "
            "directory or context.name",
            a->number + 1, told->busy);
        *code = TOOL_USAGE;
        return false;
    }
    if (told->hopeless[0]) {
        ftk_run_say("attempt %d ended: %s: every relaunch would end in the same way, so there is "
                    "none; correct the error, or begin anew with --fresh",
            a->number + 1, ftk_tool_why(told->hopeless));
        *code = TOOL_USAGE;
        return false;
    }
    if (past->used >= r->relaunch) {
        ftk_run_say("attempt %d ended %s; giving up (%d of %d relaunches used)", a->number + 1, how,
            past->used, r->relaunch);
        return false;
    }
    past->used++;
    ftk_run_say("attempt %d ended %s; relaunching from the newest complete set (%d of %d)",
        a->number + 1, how, past->used, r->relaunch);
    return true;
}

/* After an attempt that is not lost: the exit code of the run. */
static int last_word(const struct ftk_run *r, const struct attempt *a, bool opened)
{
    const struct ftk_told *told = ftk_state_told(a->state);
    int code = verdict(a);
    bool wanted = a->how == BY_SIGNAL || a->how == BY_TIMEOUT;
    tell_end(a);
    if (!wanted && code != 0 && !told->opened && told->hopeless[0]) {
        ftk_run_say("no context could be opened: %s", ftk_tool_why(told->hopeless));
        return TOOL_USAGE;
    }
    if (!wanted && code == 0 && !opened && r->spares > 0) {
        ftk_run_say("the program has opened no context, so its %d spare%s ran as %s of "
                    "MPI_COMM_WORLD: start it with --spares 0",
            r->spares, r->spares == 1 ? "" : "s", r->spares == 1 ? "a rank" : "ranks");
        return TOOL_USAGE;
    }
    return code;
}

static int lost_while_halting(const struct attempt *a)
{
    char how[512];
    describe(a, how, sizeof how);
    ftk_run_say("the job ended while it halted, %s: start it again to go on from its newest "
                "complete set",
        how);
    return TOOL_HALTED;
}

static void log_end(const struct attempt *a, bool again)
{
    char how[512] = "well";
    if (is_lost(a))
        describe(a, how, sizeof how);
    else if (verdict(a) != 0)
        snprintf(how, sizeof how, "with code %d", verdict(a));
    ftk_run_log_attempt_end(a->number, how, again);
}

static int run_all(struct ftk_run *r, const sigset_t *set)
{
    double end = r->timeout_s > 0 ? ftk_now_s() + r->timeout_s : 1e300;
    struct past past = { 0 };
    bool opened = false; /* a context, in any attempt */
    map_progress(r, &past);
    ftk_asks_begin(r);
    ftk_input_begin(r);
    for (int number = 0;; number++) {
        struct attempt a = { .number = number };
        ftk_run_log_attempt(r, number);
        int rc = run_attempt(r, &a, set, end);
        if (rc != 0)
            return rc;
        bool again = false;
        opened = opened || ftk_state_told(a.state)->opened;
        if (is_lost(&a)) {
            rc = verdict(&a);
            again = !a.halting && may_try_again(r, &a, &past, &rc);
            if (a.halting)
                rc = lost_while_halting(&a);
        } else {
            rc = last_word(r, &a, opened);
        }
        log_end(&a, again);
        r->resumes = r->resumes || ftk_state_told(a.state)->set > 0;
        ftk_state_end(a.state);
        if (!again)
            return rc;
        ftk_nodes_look(r);
    }
}

/* Remove the files of a directory whose names begin with begin. */
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

/* Remove the files of determinants that jobs of this run have left. */
static void remove_determinants(const struct ftk_run *r)
{
    char begin[48];
    snprintf(begin, sizeof begin, "ftkit-det-%llx-", (unsigned long long)r->id);
    remove_files("/dev/shm", begin);
}

/* Whether path is on no network file system.  There, two nodes that append to one file may
 * overwrite each other's lines. */
static bool is_local(const char *path)
{
    static const unsigned long remote[] = { NFS_SUPER_MAGIC, SMB_SUPER_MAGIC, CIFS_SUPER_MAGIC,
        AFS_SUPER_MAGIC, CODA_SUPER_MAGIC, V9FS_MAGIC, FUSE_SUPER_MAGIC, CEPH_SUPER_MAGIC,
        0x0bd00bd0 /* Lustre */, 0x47504653 /* GPFS */, 0x19830326 /* BeeGFS */ };
    struct statfs fs;
    if (statfs(path, &fs) != 0)
        return true;
    for (size_t i = 0; i < sizeof remote / sizeof remote[0]; i++)
        if ((unsigned long)fs.f_type == remote[i]) {
            ftk_run_say("TMPDIR is on a network file system: mpirun cannot report how processes "
                        "end, and a process that is killed with no context open is not noticed");
            return false;
        }
    return true;
}

static int make_dir(struct ftk_run *r)
{
    const char *tmp = getenv("TMPDIR");
    int len = snprintf(r->dir, sizeof r->dir, "%s/ftkit-run.XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (len > (int)sizeof r->dir - 64) {
        ftk_run_say("TMPDIR is too long: set it to a directory with a shorter name");
        return TOOL_USAGE;
    }
    if (r->print)
        return 0;
    if (mkdtemp(r->dir)) {
        r->tells = ftk_mpirun_ulfm() && is_local(r->dir);
        return 0;
    }
    ftk_run_say("cannot make %s: %s", r->dir, strerror(errno));
    return TOOL_FAIL;
}

int ftk_run_main(int argc, char **argv)
{
    static const int taken[] = { SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 };
    struct ftk_run r;
    sigset_t set;
    int rc = ftk_run_parse(&r, argc, argv);
    r.id = ftk_random();
    if (rc == 0)
        rc = ftk_mpirun_plan(&r);
    if (rc == 0)
        rc = make_dir(&r);
    if (rc != 0 || r.print) {
        if (rc == 0)
            show(stdout, &r, 0);
        ftk_kill_end(&r);
        ftk_list_free(&r.extra);
        return rc;
    }
    if (!ftk_mpirun_ulfm())
        ftk_run_say("this MPI has no ULFM: restart only, the loss of a rank ends the job");
    /* blocked, and taken only by watch(): else the end of mpirun could be missed between test and
     * wait */
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        sigaddset(&set, taken[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGCHLD, SIG_DFL); /* if our parent ignores SIGCHLD, there are no exit codes */
    if (ftk_tree_init() != 0)
        ftk_run_say("no subreaper: %s; processes of a lost job may stay", strerror(errno));
    if (r.slurm.n > 0)
        rc = ftk_slurm_files(&r);
    if (r.emulate > 0)
        rc = ftk_emulate_files(&r);
    (void)ftk_dog_sweep(false); /* files of earlier runs that were killed */
    ftk_run_log_open();
    if (rc == 0)
        rc = run_all(&r, &set);
    ftk_run_log_end(rc);
    ftk_kill_end(&r);
    (void)ftk_dog_sweep(false);
    ftk_litter_slots(r.id);
    ftk_emulate_remove(&r);
    remove_determinants(&r);
    remove_dir(r.dir);
    ftk_list_free(&r.extra);
    ftk_list_free(&r.gone);
    ftk_list_free(&r.slurm);
    return rc;
}
