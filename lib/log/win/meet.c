/* Meetings of the ranks of a window by words of memory that they map (meet.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Each rank has two words in its memory, for meetings of odd and of even numbers: the number, and
 * whether the rank is idle.  A rank writes its word, and waits until the words of all others have
 * the number.  It cannot be two meetings ahead of a rank, so no word is written again before all
 * have read it.
 *
 * A rollback takes the memory of others away, and sets the own words to 0.  A rank says that it is
 * ready only behind that.  So no word is older than the agreement. */
#include <stdatomic.h>

#include "log/log.h"
#include "log/win/meet.h"
#include "log/win/near.h"
#include "log/win/passive.h"

/* A rank looks at the words of all others, one by one. */
enum { RANKS_MOST = 64 };

bool ftk_win_meet_is_ready(struct ftk_win *w)
{
    bool ready = w->near && w->vc->size <= RANKS_MOST && !ftk_win_is_in_set_up();
    for (int i = 0; ready && i < w->vc->size; i++)
        (void)ftk_win_find_memory(w, i);
    for (int i = 0; ready && i < w->vc->size; i++)
        ready = ftk_win_near_words(w, i) != NULL;
    return ready;
}

void ftk_win_meet_agree(struct ftk_win *w)
{
    *ftk_win_near_meetings(w) = 1;
}

bool ftk_win_meet_is_agreed(const struct ftk_win *w)
{
    return w->near && *ftk_win_near_meetings(w) > 0;
}

static int await_word(
    const struct ftk_win *w, int rank, uint64_t number, uint64_t *word, bool *has_looked)
{
    enum { SPINS = 64 };
    unsigned turns = 0;
    int rc = MPI_SUCCESS;
    for (unsigned spins = 1; rc == MPI_SUCCESS; spins++) {
        const _Atomic uint64_t *words = ftk_win_near_words(w, rank);
        if (!words)
            return ftk_log_error(); /* a repair has taken the memory away */
        *word = atomic_load_explicit(&words[number % 2], memory_order_acquire);
        if (*word >> 1 == number)
            break;
        if (spins % SPINS != 0)
            continue;
        *has_looked = true;
        rc = ftk_log_progress(&turns);
    }
    return rc;
}

/* A rank that always comes last waits for nobody.  It looks at messages and failures as a flush
 * does: another rank may wait for a message of this one, and the program for the other rank. */
int ftk_win_meet(struct ftk_win *w, bool idle, bool *all_idle)
{
    const uint64_t number = ++*ftk_win_near_meetings(w);
    uint64_t word = 0;
    bool has_looked = false;
    int rc = MPI_SUCCESS;
    *all_idle = idle;
    atomic_store(&ftk_win_near_words(w, w->vc->rank)[number % 2], number << 1 | idle);
    (void)FTK_FAULT("win.meet");
    for (int i = 0; rc == MPI_SUCCESS && i < w->vc->size; i++) {
        rc = await_word(w, i, number, &word, &has_looked);
        *all_idle = *all_idle && (word & 1) != 0;
    }
    return rc == MPI_SUCCESS && !has_looked ? ftk_win_serve_sometimes(w) : rc;
}
