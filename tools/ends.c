/* Processes that end badly while a job runs (see ends.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A process that calls MPI_Abort while all others are well ends the job.  A process that does so
 * after the death of another one has perhaps only met the failure: a check has seen values that
 * nobody received, or a communicator has MPI_ERRORS_ARE_FATAL.  The library takes such a process
 * for lost, as it takes a process that ends by exit() or _exit(). */
#include <string.h>

#include "ends.h"

#define GRACE_S                                                                                    \
    0.4 /* for the report of a death that is older, and for what the process has printed */

static bool is_same(const struct ftk_end *a, const struct ftk_end *b)
{
    return a->how == b->how && a->job == b->job && a->rank == b->rank;
}

static void say_exit(const struct ftk_end *end)
{
    char text[128];
    ftk_end_text(end, text, sizeof text);
    if (end->code > 128)
        ftk_run_say("%s and its context open: it counts as lost. A shell reports the death of its "
                    "program by a signal in this way: a wrapper script ends with exec PROGRAM",
            text);
    else
        ftk_run_say("%s and its context open: it counts as lost. Rule: every rank calls "
                    "ftkit_close() before it ends",
            text);
}

static void say_doubt(const struct ftk_end *first, const struct ftk_end *end)
{
    char text[128], why[128];
    ftk_end_text(first, why, sizeof why);
    ftk_end_text(end, text, sizeof text);
    ftk_run_say("%s after %s: it counts as lost, too. Rules: no communicator has "
                "MPI_ERRORS_ARE_FATAL after ftkit_open; ask ftkit_confirm() before a check ends "
                "the program",
        text, why);
}

bool ftk_ends_look(struct ftk_ends *e, const struct ftk_state *s)
{
    const struct ftk_end *first = ftk_state_first(s), *doubtful = ftk_state_doubtful(s);
    if (doubtful && doubtful->code != 0 && !is_same(doubtful, &e->doubted)) {
        e->doubted = *doubtful;
        say_doubt(ftk_state_death(s), doubtful);
    }
    if (!first) {
        e->seen_at = 0;
        return false;
    }
    if (e->seen_at == 0 || !is_same(first, &e->seen)) {
        *e = (struct ftk_ends){ .seen = *first, .doubted = e->doubted, .seen_at = ftk_now_s() };
        return false;
    }
    if (ftk_now_s() < e->seen_at + GRACE_S)
        return false;
    bool exits = first->how == FTK_END_EXIT || first->how == FTK_END_NO_FINALIZE;
    if (exits && !e->reported && ftk_state_is_open(s))
        say_exit(first);
    e->reported = true;
    return ftk_state_aborted(s);
}
