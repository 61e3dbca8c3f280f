/* A word in memory that processes of a node share (word.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "detect/detect.h"
#include "log/log.h"
#include "log/win/word.h"

/* Whether a process has ended.  Its parent may not have asked for the outcome yet. */
static bool has_ended(pid_t pid)
{
    char path[64], text[512];
    if (kill(pid, 0) != 0)
        return errno == ESRCH;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        (void)close(fd); /* nothing was written by it */
    text[n > 0 ? n : 0] = '\0';
    const char *name = strrchr(text, ')'); /* PID (NAME) STATE */
    return name && (strncmp(name, ") Z", 3) == 0 || strncmp(name, ") X", 3) == 0);
}

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
        if (turns % LOOKS == 0 && (has_ended((pid_t)other) || ftk_detect_poll(ftk_log.ctx)))
            return false;
    }
}
