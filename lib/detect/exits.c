/* Processes that have been killed and are not gone yet (see exits.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/ftk.h"
#include "exits.h"

#define EXITING 0x4u /* PF_EXITING of the kernel, in the flags of a process */

/* The state and the flags of a process; false: it is gone, or /proc does not show it. */
static bool read_stat(pid_t pid, char *state, unsigned *flags)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        (void)close(fd); /* nothing was written by it */
    text[n > 0 ? n : 0] = '\0';
    const char *name = strrchr(text, ')'); /* PID (NAME) STATE ..., proc(5) */
    return name && sscanf(name, ") %c %*d %*d %*d %*d %*d %u", state, flags) == 2;
}

bool ftk_exits_is_ending(pid_t pid)
{
    char state;
    unsigned flags;
    return read_stat(pid, &state, &flags) && ((flags & EXITING) || FTK_FAULT("exits.ending"));
}

bool ftk_exits_has_ended(pid_t pid)
{
    char state;
    unsigned flags;
    if (kill(pid, 0) != 0)
        return errno == ESRCH;
    return read_stat(pid, &state, &flags) && (state == 'Z' || state == 'X');
}

bool ftk_exits_await(pid_t pid, double seconds)
{
    const int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0)
        return errno == ESRCH; /* an old kernel has no such call: then nobody waits */
    const double end = ftk_now_s() + seconds;
    struct pollfd p = { .fd = fd, .events = POLLIN };
    int n;
    do {
        const double left = end - ftk_now_s();
        n = poll(&p, 1, left > 0 ? (int)(left * 1000) + 1 : 0);
    } while (n < 0 && errno == EINTR);
    (void)close(fd);
    return n > 0;
}
