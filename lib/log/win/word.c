/* A word in memory that processes of a node share (word.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <sched.h>
#include <string.h>

#include "detect/detect.h"
#include "detect/exits.h"
#include "log/log.h"
#include "log/win/word.h"

/* A processor that waits leaves the memory to the one that has the word. */
static void pause_briefly(void)
{
#ifdef __x86_64__
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* One process at a time.  When the one that combines has ended, the word stays as it is until all
 * have gone back to the line.  False: so it is, and this process does not have the word.  Another
 * process may have the number of the one that has ended, so a known failure is enough. */
bool ftk_win_word_take(_Atomic uint32_t *word, uint32_t me)
{
    enum { SPINS = 64, LOOKS = 64 * SPINS };
    for (unsigned turns = 1;; turns++) {
        uint32_t other = atomic_load_explicit(word, memory_order_relaxed);
        if (other == 0
            && atomic_compare_exchange_strong_explicit(
                word, &other, me, memory_order_acquire, memory_order_relaxed))
            return true;
        pause_briefly();
        if (turns % SPINS == 0)
            (void)sched_yield(); /* never fails */
        if (turns % LOOKS == 0
            && (ftk_exits_has_ended((pid_t)other) || ftk_detect_poll(ftk_log.ctx)))
            return false;
    }
}
