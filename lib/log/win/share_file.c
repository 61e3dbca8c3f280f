/* The file of shared memory (see share_file.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/ftk.h"
#include "share_file.h"

#define NAME "ftkit-win"

/* Without memory for all pages a store would end in a SIGBUS.  A signal of the program undoes all
 * that one call has reserved: small pieces go on, also with signals all the time. */
static int reserve(int fd, size_t bytes)
{
    enum { PIECE = 4 << 20 };
    for (size_t at = 0; at < bytes; at += PIECE) {
        const size_t n = bytes - at < PIECE ? bytes - at : PIECE;
        int err;
        do {
            err = FTK_FAULT("win.reserve");
            if (!err)
                err = posix_fallocate(fd, (off_t)at, (off_t)n);
        } while (err == EINTR);
        if (err)
            return err;
    }
    return 0;
}

int ftk_share_file_make(size_t bytes, uint64_t token, int *fd)
{
    const int made = memfd_create(NAME, MFD_CLOEXEC);
    if (made < 0)
        return errno;
    int err = reserve(made, bytes);
    if (!err && pwrite(made, &token, sizeof token, 0) != (ssize_t)sizeof token)
        err = EIO; /* not even one word */
    if (err)
        (void)close(made); /* an error loses no data: the file is empty */
    else
        *fd = made;
    return err;
}

uint64_t ftk_share_file_address(int fd)
{
    return (uint64_t)getpid() << 32 | (uint32_t)fd;
}

/* Whether the link of a descriptor has the name of such a file. */
static int check_name(const char *path)
{
    static const char want[] = "/memfd:" NAME " (deleted)";
    char found[sizeof want + 1];
    const ssize_t n = readlink(path, found, sizeof found);
    if (n < 0)
        return errno;
    return n == (ssize_t)sizeof want - 1 && memcmp(found, want, (size_t)n) == 0 ? 0 : ESTALE;
}

static bool is_meant(int fd, size_t bytes, uint64_t token)
{
    char path[64];
    uint64_t found = 0;
    struct stat st;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return check_name(path) == 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)
           && st.st_uid == geteuid() && st.st_size == (off_t)bytes
           && pread(fd, &found, sizeof found, 0) == (ssize_t)sizeof found && found == token;
}

/* The name is looked at again behind the opening: another file may have come in between.  So the
 * opening waits for nothing, and takes no terminal. */
int ftk_share_file_open(uint64_t address, size_t bytes, uint64_t token, int *fd)
{
    char path[64];
    if (address == 0)
        return ENOENT;
    snprintf(
        path, sizeof path, "/proc/%" PRIu64 "/fd/%" PRIu64, address >> 32, address & UINT32_MAX);
    const int err = check_name(path);
    if (err)
        return err;
    const int found = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (found < 0)
        return errno;
    if (!is_meant(found, bytes, token)) {
        (void)close(found); /* nothing was written by it */
        return ESTALE;
    }
    *fd = found;
    return 0;
}
