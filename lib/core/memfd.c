/* Memory that processes of a node share (see memfd.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ftk.h"
#include "memfd.h"

/* Without memory for all pages a store would end in a SIGBUS.  A signal of the program undoes all
 * that one call has reserved: small pieces go on, also with signals all the time. */
static int reserve(int fd, size_t bytes)
{
    enum { PIECE = 4 << 20 };
    for (size_t at = 0; at < bytes; at += PIECE) {
        const size_t n = bytes - at < PIECE ? bytes - at : PIECE;
        int err;
        do {
            err = FTK_FAULT("memfd.reserve");
            if (!err)
                err = posix_fallocate(fd, (off_t)at, (off_t)n);
        } while (err == EINTR);
        if (err)
            return err;
    }
    return 0;
}

int ftk_memfd_make(const char *name, size_t bytes, int *fd)
{
    const int made = memfd_create(name, MFD_CLOEXEC);
    if (made < 0)
        return errno;
    const int err = reserve(made, bytes);
    if (err)
        (void)close(made); /* an error loses no data: the file is empty */
    else
        *fd = made;
    return err;
}

/* Whether the link of a descriptor has the name of such a file. */
static int check_name(const char *name, const char *path)
{
    char want[64], found[sizeof want];
    const int len = snprintf(want, sizeof want, "/memfd:%s (deleted)", name);
    const ssize_t n = readlink(path, found, sizeof found);
    if (n < 0)
        return errno;
    return n == len && memcmp(found, want, (size_t)n) == 0 ? 0 : ESTALE;
}

static int check_file(const char *name, int fd, size_t *bytes)
{
    char path[64];
    struct stat st;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const int err = check_name(name, path);
    if (err)
        return err;
    if (fstat(fd, &st) != 0)
        return errno;
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
        return ESTALE;
    *bytes = (size_t)st.st_size;
    return 0;
}

/* The name is looked at again behind the opening: another file may have come in between.  So the
 * opening waits for nothing, and takes no terminal. */
int ftk_memfd_open(const char *name, pid_t pid, int at, int *fd, size_t *bytes)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, at);
    int err = check_name(name, path);
    if (err)
        return err;
    const int found = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (found < 0)
        return errno;
    err = check_file(name, found, bytes);
    if (err)
        (void)close(found); /* nothing was written by it */
    else
        *fd = found;
    return err;
}
