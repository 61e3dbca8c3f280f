/* One attempt of `ftkit run`: start a job, watch it, and end what is left of it.
 *
 * The library and mpirun write facts about an attempt into a file (state.c).  Each attempt has a
 * file of its own, so a process that is left from an earlier attempt cannot write into the file of
 * this one.
 *
 * mpirun may fail to end; so ranks.c checks whether the processes of the ranks are alive.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "asks.h"
#include "input.h"
#include "kill.h"
#include "run_attempt.h"

#define FATAL_GRACE_S 5   /* for a job to end by itself after a fatal error */
#define SIGNAL_GRACE_S 10 /* for mpirun to end its job after a signal */
#define ORPHAN_GRACE_S 10 /* for a job that has closed its contexts and lost mpirun */
#define SAME_S 1          /* signals of a batch system within this time are one request */
#define EXIT_GRACE_S 1    /* for the daemons after mpirun has ended */
#define HUNG_GRACE_S 5    /* for an mpirun that hangs, after SIGTERM */
#define POLL_NS 100000000L
#define SHORT_NS 20000000L /* while the ranks start: some end soon */
#define SIGNAL_TEXT 128

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
    if (state && ftk_mpirun_note(state) != 0)
        goto fail;
    step = r->mpirun;
    execvp(r->mpirun, cmd);
fail:
    dprintf(report, "%s: %s", step, strerror(errno));
    _exit(TOOL_NO_EXEC);
}
static int start(const struct ftk_run *r, struct ftk_try *a)
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
        become(r, cmd.v, env.v, r->reports ? state : NULL, self, input, report[1]);
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

static bool has_ended(struct ftk_try *a)
{
    ftk_tree_reap();
    int status = ftk_tree_status(a->pid);
    if (status >= 0)
        a->status = status;
    return status >= 0;
}

/* Whether a signal repeats the one before: batch systems send SIGTERM to several processes, and
 * some of them hand it on.  ^C comes from a user, who means it. */
static bool repeats(const struct ftk_try *a, int sig)
{
    const double since_s = ftk_now_s() - SAME_S;
    return sig != SIGINT
           && ((a->halting && since_s < a->halting_at) || (a->sig && since_s < a->sig_at));
}

/* The name and sender of a signal, such as "Terminated (from process 17, slurmstepd)".  ^C and the
 * end of a terminal have no sender, nor have processes that this one cannot see. */
static const char *signal_text(char text[SIGNAL_TEXT], const siginfo_t *info)
{
    char path[64], name[32] = "";
    const char *what = strsignal(info->si_signo);
    (void)snprintf(text, SIGNAL_TEXT, "%s", what);
    if (info->si_code > 0 || info->si_pid <= 0)
        return text;
    (void)snprintf(path, sizeof path, "/proc/%d/comm", (int)info->si_pid);
    FILE *f = fopen(path, "re");
    if (f && fgets(name, sizeof name, f))
        name[strcspn(name, "\n")] = '\0';
    if (f)
        (void)fclose(f); /* only read */
    (void)snprintf(text, SIGNAL_TEXT, "%s (from process %d%s%s)", what, (int)info->si_pid,
        *name ? ", " : "", name);
    return text;
}

/* Take a signal.  SIGUSR1 asks the ranks for a durable set.  The first other signal asks the ranks
 * to halt, if a context is open; mpirun would end them at SIGTERM.  The next one, unless it repeats
 * the first, goes to mpirun, and the job has some time to end; false, on the one after: end the job
 * at once. */
static bool take_signal(struct ftk_try *a, const siginfo_t *info)
{
    const int sig = info->si_signo;
    char text[SIGNAL_TEXT];
    if (sig == SIGCHLD)
        return true;
    if (sig == SIGUSR1) {
        a->set_wanted = true;
        return true;
    }
    if (repeats(a, sig))
        return true;
    if (!a->halting && ftk_state_is_open(a->state)) {
        a->halting = ftk_asks_halt(a->pid, sig);
        a->halting_at = ftk_now_s();
        if (a->halting)
            ftk_run_say("%s: the job writes a durable set and halts; a second signal ends it",
                signal_text(text, info));
        return true;
    }
    if (sig == SIGUSR2) {
        a->halt_wanted = *info;
        return true;
    }
    ftk_run_say("%s: ending the job", signal_text(text, info));
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
static void take_wanted(struct ftk_try *a)
{
    if (!ftk_state_is_open(a->state))
        return;
    if (a->set_wanted)
        ftk_asks_set(a->pid);
    if (a->halt_wanted.si_signo != 0 && !a->halting)
        (void)take_signal(a, &a->halt_wanted);
    a->set_wanted = false;
    a->halt_wanted.si_signo = 0;
}

/* Whether the processes of the ranks give a reason to end the job. */
static bool look_at_ranks(struct ftk_try *a, struct ftk_ranks *ranks)
{
    switch (ftk_ranks_look(ranks, a->state)) {
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
static void watch(const struct ftk_run *r, struct ftk_try *a, struct ftk_ranks *ranks,
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
        double fatal_at = ftk_state_facts(a->state)->fatal_at;
        if (fatal_at > 0 && now > fatal_at + FATAL_GRACE_S && !a->sig) {
            a->how = BY_FATAL;
            return;
        }
        if (!a->sig && ftk_state_facts(a->state)->early_loss) {
            a->how = BY_LOST_NODE;
            return;
        }
        take_wanted(a);
        double halted_at = ftk_state_facts(a->state)->halted_at;
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
        siginfo_t info;
        if (sigtimedwait(set, &info, &turn) <= 0)
            continue;
        ftk_state_read(a->state); /* a context may just have been opened */
        if (!take_signal(a, &info))
            return;
    }
}

/* mpirun hangs after the end of its ranks, and does not report their exit codes.  Take a status
 * from the zombies of the ranks, if it is known.  A rank may end badly behind ftkit_close, so a
 * closed context does not tell how the ranks have ended. */
static void take_status(struct ftk_try *a, int status)
{
    bool lost = ftk_state_is_open(a->state);
    ftk_run_say("mpirun does not end although all processes of the job have; ending it");
    if (status > 0 || (status == 0 && !lost))
        a->status = status;
    else if (!lost)
        ftk_run_say("their exit codes are not known; taken as %d", TOOL_FAIL);
}

/* mpirun was killed after the job had closed its contexts: the job may still end well. */
static bool is_orphaned(const struct ftk_try *a)
{
    return a->how == BY_ITSELF && WIFSIGNALED(a->status) && ftk_state_facts(a->state)->opened
           && !ftk_state_is_open(a->state);
}

/* All processes of a job without mpirun have ended by now.  mpirun has reported the processes that
 * ended before it; the other processes became our children, and were reaped. */
static void judge_orphans(struct ftk_try *a, const struct ftk_ranks *ranks)
{
    int sig = WTERMSIG(a->status), status = ftk_ranks_orphans(ranks, a->state);
    char text[128];
    const struct ftk_end *bad = ftk_state_first(a->state);
    if (bad || status > 0) {
        if (bad)
            ftk_end_text(bad, text, sizeof text);
        ftk_run_say("mpirun was killed by signal %d (%s) after the job had closed its "
                    "contexts, and %s: what it printed may be lost",
            sig, strsignal(sig), bad ? text : "then a process of the job ended badly");
    } else if (status < 0 || !ftk_ranks_orphans_well(ranks, a->state)) {
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

/* All processes of the job have ended, but not mpirun: end mpirun, which removes its files and ends
 * its daemons, if it still can.  A signal ends the wait for this, and the run. */
static void end_hung(struct ftk_try *a, const struct ftk_ranks *ranks, const sigset_t *set)
{
    ftk_state_read(a->state);
    int status = ftk_ranks_status(ranks, a->state);
    if (has_ended(a)) { /* meanwhile, by itself */
        a->how = BY_ITSELF;
        ftk_state_read(a->state);
        return;
    }
    kill(a->pid, SIGTERM);
    take_status(a, status);
    const int kept = a->status; /* mpirun now ends by our signal */
    const double end = ftk_now_s() + HUNG_GRACE_S;
    while (a->how == BY_NO_RANK && ftk_now_s() < end && !has_ended(a)) {
        struct timespec turn = { 0, POLL_NS };
        int sig = sigtimedwait(set, NULL, &turn);
        if (sig <= 0 || sig == SIGCHLD || sig == SIGUSR1 || sig == SIGUSR2)
            continue; /* no process is left that could write a set */
        a->how = BY_SIGNAL;
        a->sig = sig;
        a->sig_at = ftk_now_s();
    }
    a->status = kept;
}

static void wind_up(
    const struct ftk_run *r, struct ftk_try *a, const struct ftk_ranks *ranks, const sigset_t *set)
{
    const bool hung = a->how == BY_NO_RANK;
    if (hung)
        end_hung(a, ranks, set);
    const bool asked = hung && a->how != BY_ITSELF;

    /* the daemons of a job that ended well may still be cleaning up */
    bool let = a->how == BY_ITSELF && !ftk_state_is_open(a->state) && !ftk_try_headless(a);
    bool orphaned = is_orphaned(a);
    bool ending = asked && ftk_tree_status(a->pid) >= 0;
    int killed = ftk_tree_end(orphaned ? ORPHAN_GRACE_S : let || ending ? EXIT_GRACE_S : 0);
    if (killed < 0)
        ftk_run_say("processes of the job are still there and cannot be killed");
    else if (killed > 0 && let && r->verbose)
        ftk_run_say("killed what was left of the job");
    if (asked) /* an mpirun that hangs takes SIGTERM for the end of the ranks */
        ftk_state_show(a->state);
    else
        ftk_state_read(a->state);
    if (orphaned)
        judge_orphans(a, ranks);
}

int ftk_try_run(const struct ftk_run *r, struct ftk_try *a, const sigset_t *set, double end)
{
    char path[FTK_PATH_MAX];
    ftk_mpirun_state_path(r, a->number, path);
    a->state = ftk_state_begin(path, r->verbose);
    if (!a->state)
        return TOOL_FAIL;
    a->status = TOOL_FAIL << 8; /* a job that we end is no success */
    ftk_asks_attempt();
    if (r->verbose)
        ftk_mpirun_show(stderr, r, a->number);
    int rc = start(r, a);
    if (rc != 0) {
        ftk_input_end();
        ftk_state_end(a->state);
        return rc;
    }
    struct ftk_ranks *ranks = ftk_ranks_begin(r);
    watch(r, a, ranks, set, end);
    ftk_state_read(a->state);
    wind_up(r, a, ranks, set);
    ftk_input_end();
    ftk_ranks_end(ranks);
    return 0;
}
