/* What the end of an attempt means: whether the job is lost, and the exit code of the run.
 *
 * A job that ends while a context is open is lost.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <inttypes.h>
#include <string.h>
#include <sys/wait.h>

#include "run_attempt.h"

bool ftk_try_headless(const struct ftk_try *a)
{
    return a->how == BY_ITSELF && WIFSIGNALED(a->status) && !ftk_state_facts(a->state)->opened;
}

static int code_of(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void ftk_try_describe(const struct ftk_try *a, char *text, size_t bytes)
{
    const struct ftk_state_facts *facts = ftk_state_facts(a->state);
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
    else if (a->how == BY_LOST_NODE)
        snprintf(text, bytes, "because a node was lost before any context was opened");
    else if (ftk_try_headless(a))
        snprintf(text, bytes,
            "because mpirun was killed by signal %d (%s) before any context was opened", code - 128,
            strsignal(code - 128));
    else if (facts->fatal_at > 0)
        snprintf(text, bytes, "by a fatal error: %s%s%s", facts->fatal, after, end);
    else if ((WIFSIGNALED(a->status) || !first) && code > 128 && code - 128 < NSIG)
        snprintf(text, bytes, "by signal %d (%s)", code - 128, strsignal(code - 128));
    else if (!first)
        snprintf(text, bytes, "with exit code %d and a context still open", code);
    else
        snprintf(text, bytes, "because %s with a context still open", end);
}

/* Whether the program has ended the job by MPI_Abort. */
static bool has_aborted(const struct ftk_try *a)
{
    return a->how == BY_ABORT || ftk_state_aborted(a->state);
}

/* Whether a signal comes from an error of the program, and not from outside. */
static bool is_crash(int sig)
{
    return sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE || sig == SIGILL || sig == SIGABRT;
}

/* Whether a process was killed from outside before a context was opened, and the others could not
 * open one without it. */
static bool is_killed_early(const struct ftk_try *a)
{
    const struct ftk_state_facts *facts = ftk_state_facts(a->state);
    const struct ftk_end *cause = ftk_state_cause(a->state);
    return facts->lacking && !facts->opened && !facts->hopeless[0] && cause
           && cause->how == FTK_END_SIGNAL && !is_crash(cause->sig);
}

bool ftk_try_lost(const struct ftk_try *a)
{
    if (has_aborted(a) || a->how == BY_SIGNAL || a->how == BY_TIMEOUT
        || ftk_state_facts(a->state)->halted_at > 0)
        return false;
    return a->how == BY_LOST_RANK || a->how == BY_LOST_NODE || ftk_try_headless(a)
           || ftk_state_is_open(a->state) || is_killed_early(a);
}

int ftk_try_crash(const struct ftk_try *a)
{
    const struct ftk_end *e = ftk_state_cause(a->state);
    return e && e->how == FTK_END_SIGNAL && is_crash(e->sig) ? e->sig : 0;
}

int ftk_try_verdict(const struct ftk_try *a)
{
    const struct ftk_state_facts *facts = ftk_state_facts(a->state);
    const struct ftk_end *first = ftk_state_first(a->state), *cause = ftk_state_cause(a->state);
    int code = code_of(a->status), bad = first ? ftk_end_code(first) : 0;
    if (a->how == BY_TIMEOUT)
        return TOOL_TIMEOUT;
    if (a->how == BY_HALT)
        return TOOL_HALTED;
    if (a->how == BY_SIGNAL)
        return 128 + a->sig;
    if (facts->halted_at > 0) /* however the program has ended: its work is in the set */
        return TOOL_HALTED;
    if (facts->mistake || facts->unclosed)
        return TOOL_FAIL; /* the library has killed the processes: their status says nothing */
    if (ftk_state_is_open(a->state) || facts->fatal_at > 0 || a->how == BY_LOST_RANK
        || a->how == BY_LOST_NODE)
        return cause ? ftk_end_code(cause) : code ? code : TOOL_FAIL;
    if (facts->repaired && !WIFSIGNALED(a->status))
        code = facts->code; /* the code of mpirun is that of processes that were replaced */
    return bad ? bad : code;
}

void ftk_try_report(const struct ftk_try *a)
{
    const struct ftk_end *first = ftk_state_first(a->state);
    const struct ftk_state_facts *facts = ftk_state_facts(a->state);
    char text[128];
    if (facts->mistake) {
        ftk_run_say(
            "a mistake of the program ended the job, and a relaunch would meet it again: %s",
            facts->fatal);
        return;
    }
    if (facts->unclosed) {
        ftk_run_say("the program has ended well without ftkit_close: exit code %d, and no relaunch",
            TOOL_FAIL);
        return;
    }
    if (ftk_try_verdict(a) == TOOL_HALTED && facts->halted > 0)
        ftk_run_say("the job has halted; set %" PRIu64 " is durable: start it again to go on",
            facts->halted);
    else if (ftk_try_verdict(a) == TOOL_HALTED)
        ftk_run_say("the job has halted without files");
    if (!first || a->how == BY_SIGNAL || a->how == BY_TIMEOUT || a->how == BY_HALT)
        return;
    ftk_end_text(first, text, sizeof text);
    if (has_aborted(a) && ftk_state_is_open(a->state)) {
        ftk_run_say("%s: the job ends, and is not relaunched", text);
        return;
    }
    if (ftk_state_outlived(a->state)) {
        ftk_run_say("%s: no failure explains the call, so the job has this code, although the "
                    "other ranks have replaced that process and gone on to their end",
            text);
        return;
    }
    ftk_run_say("%s %s", text,
        facts->opened ? "when all contexts were closed" : "before a context was opened");
}
