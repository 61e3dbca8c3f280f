/* Memory that processes of a node share (see memfd.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
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

/* The kernel ends a process by SIGXFSZ whose file becomes longer than RLIMIT_FSIZE. */
static bool is_too_long(size_t bytes)
{
    struct rlimit r;
    return getrlimit(RLIMIT_FSIZE, &r) == 0 && r.rlim_cur != RLIM_INFINITY && bytes > r.rlim_cur;
}

static int make(const char *name, size_t bytes, int (*fill)(int, size_t), int *fd)
{
    if (is_too_long(bytes))
        return EFBIG;
    const int made = memfd_create(name, MFD_CLOEXEC);
    if (made < 0)
        return errno;
    const int err = fill(made, bytes);
    if (err)
        (void)close(made); /* an error loses no data: the file is empty */
    else
        *fd = made;
    return err;
}

int ftk_memfd_make(const char *name, size_t bytes, int *fd)
{
    return make(name, bytes, reserve, fd);
}

/* ---- memory at the first use ----------------------------------------------------------- */

/* Whether vm.overcommit_memory is 2.  A page of a file is counted at its first use then, and a
 * store that finds no room would end in a SIGBUS; malloc() returns an error. */
static bool is_counted(void)
{
    char mode = '0';
    if (FTK_FAULT("memfd.counted"))
        return true;
    const int fd = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, &mode, 1) : -1;
    if (fd >= 0)
        (void)close(fd); /* nothing was written by it */
    return n != 1 || mode == '2';
}

/* The kernel refuses as much to malloc(). */
static bool is_too_much(size_t bytes)
{
    struct sysinfo node;
    return sysinfo(&node) != 0 || bytes / node.mem_unit > node.totalram + node.totalswap;
}

static int set_size(int fd, size_t bytes)
{
    if (is_too_much(bytes))
        return ENOMEM;
    if (is_counted())
        return reserve(fd, bytes);
    return ftruncate(fd, (off_t)bytes) == 0 ? 0 : errno;
}

int ftk_memfd_make_sparse(const char *name, size_t bytes, int *fd)
{
    return make(name, bytes, set_size, fd);
}

/* How many of the n bytes from offset at on come before the next place of a kind; n: all. */
static size_t before(int fd, size_t at, int kind, size_t n)
{
    const off_t next = lseek(fd, (off_t)at, kind);
    if (next < 0) /* ENXIO: no byte behind has memory; else nothing is known, and all are copied */
        return kind == SEEK_DATA && errno != ENXIO ? 0 : n;
    return (size_t)next - at < n ? (size_t)next - at : n;
}

void ftk_memfd_copy(int fd, size_t at, const char *from, char *to, size_t n)
{
    for (size_t done = 0; done < n;) {
        const size_t unused = before(fd, at + done, SEEK_DATA, n - done);
        memset(to + done, 0, unused);
        done += unused;
        const size_t used = done < n ? before(fd, at + done, SEEK_HOLE, n - done) : 0;
        memcpy(to + done, from + done, used);
        done += used;
    }
}

/* ---- a file of another process --------------------------------------------------------- */

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
