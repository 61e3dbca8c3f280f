/* A slow disk; to be preloaded.  Every pread() takes FTKIT_TEST_SLOW_MS milliseconds longer.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static ssize_t slow_read(int fd, void *buf, size_t bytes, off_t at)
{
    const char *set = getenv("FTKIT_TEST_SLOW_MS");
    long ms = set ? strtol(set, NULL, 10) : 0;
    const struct timespec t = { ms / 1000, ms % 1000 * 1000000 };
    (void)nanosleep(&t, NULL);
    return syscall(SYS_pread64, fd, buf, bytes, at);
}

ssize_t pread(int fd, void *buf, size_t bytes, off_t at)
{
    return slow_read(fd, buf, bytes, at);
}

ssize_t pread64(int fd, void *buf, size_t bytes, off_t at)
{
    return slow_read(fd, buf, bytes, at);
}
