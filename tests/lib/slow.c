/* A slow machine; to be preloaded.  Every pread() takes FTKIT_TEST_SLOW_MS milliseconds longer, and
 * the list of all processes takes FTKIT_TEST_SLOW_LIST_MS milliseconds longer.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void take_long(const char *variable)
{
    const char *set = getenv(variable);
    long ms = set ? strtol(set, NULL, 10) : 0;
    const struct timespec t = { ms / 1000, ms % 1000 * 1000000 };
    (void)nanosleep(&t, NULL);
}

static ssize_t slow_read(int fd, void *buf, size_t bytes, off_t at)
{
    take_long("FTKIT_TEST_SLOW_MS");
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

DIR *opendir(const char *name)
{
    DIR *(*next)(const char *);
    *(void **)&next = dlsym(RTLD_NEXT, "opendir");
    if (strcmp(name, "/proc") == 0)
        take_long("FTKIT_TEST_SLOW_LIST_MS");
    return next(name);
}
