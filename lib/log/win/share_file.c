/* The file of shared memory (see share_file.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/ftk.h"
#include "core/hash.h"
#include "core/memfd.h"
#include "share_file.h"

#define NAME "ftkit-win"

uint64_t ftk_share_file_token(uint64_t of)
{
    const uint64_t seed[] = { of, (uint64_t)getpid(), ftk_wall_ns() };
    return ftk_xxh3(seed, sizeof seed) | 1; /* 0: no token */
}

static int begin(int made, uint64_t token, int *fd)
{
    if (pwrite(made, &token, sizeof token, 0) != (ssize_t)sizeof token) {
        (void)close(made); /* an error loses no data: the file is empty */
        return EIO;        /* not even one word */
    }
    *fd = made;
    return 0;
}

int ftk_share_file_make(size_t bytes, uint64_t token, int *fd)
{
    int made = -1;
    const int err = ftk_memfd_make(NAME, bytes, &made);
    return err ? err : begin(made, token, fd);
}

int ftk_share_file_make_sparse(size_t bytes, uint64_t token, int *fd)
{
    int made = -1;
    const int err = ftk_memfd_make_sparse(NAME, bytes, &made);
    return err ? err : begin(made, token, fd);
}

/* A program with many windows needs descriptors for other things, too: half of them stay. */
bool ftk_share_file_may_stay(int fd)
{
    struct rlimit r;
    return getrlimit(RLIMIT_NOFILE, &r) != 0 || (rlim_t)fd < r.rlim_cur / 2;
}

uint64_t ftk_share_file_address(int fd)
{
    return (uint64_t)getpid() << 32 | (uint32_t)fd;
}

int ftk_share_file_open(uint64_t address, size_t bytes, uint64_t token, int *fd)
{
    uint64_t word = 0;
    size_t size = 0;
    int found = -1;
    if (address == 0)
        return ENOENT;
    const int err =
        ftk_memfd_open(NAME, (pid_t)(address >> 32), (int)(address & UINT32_MAX), &found, &size);
    if (err)
        return err;
    if (size != bytes || pread(found, &word, sizeof word, 0) != (ssize_t)sizeof word
        || word != token) {
        (void)close(found); /* nothing was written by it */
        return ESTALE;
    }
    *fd = found;
    return 0;
}
