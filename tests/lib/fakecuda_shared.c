/* Processes that share the room of the device (see fakecuda_memory.c).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * FAKECUDA_SHARED=FILE says what each process has.  As with a device, the memory of a process that
 * was killed is in use until the process is gone, that is, all of its threads have ended. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fakecuda_inside.h"

enum { PROCESSES = 64 };

struct user {
    _Atomic int pid; /* 0: unused */
    _Atomic size_t bytes;
};

static struct user *users; /* [PROCESSES] */

static bool is_gone(int pid)
{
    const int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd p = { .fd = fd, .events = POLLIN };
    const bool gone = fd < 0 || poll(&p, 1, 0) == 1;
    if (fd >= 0)
        (void)close(fd);
    return gone;
}

static bool map_users(const char *path)
{
    const size_t bytes = PROCESSES * sizeof *users;
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        abort();
    users = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (users == MAP_FAILED || close(fd) != 0)
        abort();
    return true;
}

size_t fakecuda_of_others(size_t own)
{
    const char *path = getenv("FAKECUDA_SHARED");
    const int me = getpid();
    size_t sum = 0;
    bool noted = !path || !(users || map_users(path));
    for (int i = 0; path && i < PROCESSES; i++) {
        int pid = atomic_load(&users[i].pid);
        if (!noted && pid == 0)
            atomic_compare_exchange_strong(&users[i].pid, &pid, me);
        if (!noted && (pid == 0 || pid == me)) {
            atomic_store(&users[i].bytes, own);
            noted = true;
        } else if (pid != 0 && pid != me && !is_gone(pid)) {
            sum += atomic_load(&users[i].bytes);
        }
    }
    if (!noted)
        abort();
    return sum;
}
