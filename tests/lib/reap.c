/* mpirun that learns of a death from the system first; to be preloaded.  The end of a connection is
 * seen half a second late, and a new connection has the number of the socket that was closed last.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LATE_MS = 500, DESCRIPTORS = 1024 };

static volatile int shut = -1; /* a socket that is about to be closed */
static volatile int kept = -1; /* the number of a socket that was closed; nobody has it */

/* The threads of mpirun that serve its processes. */
static bool serves(void)
{
    return strncmp(program_invocation_short_name, "prte", 4) == 0
           && getpid() != syscall(SYS_gettid);
}

static long now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Whether the connection has ended, but not long enough ago. */
static bool ends_late(int fd)
{
    static long since[DESCRIPTORS];
    char byte;
    if (fd < 0 || fd >= DESCRIPTORS)
        return false;
    ssize_t got = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got > 0 || (got < 0 && errno != ECONNRESET)) {
        since[fd] = 0;
        return false;
    }
    if (since[fd] == 0)
        since[fd] = now_ms();
    return now_ms() - since[fd] < LATE_MS;
}

int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout)
{
    int (*next)(int, struct epoll_event *, int, int);
    *(void **)&next = dlsym(RTLD_NEXT, "epoll_wait");
    int seen = next(epoll, events, most, timeout);
    if (seen <= 0 || !serves())
        return seen;
    int n = 0;
    for (int i = 0; i < seen; i++)
        if (!ends_late(events[i].data.fd))
            events[n++] = events[i];
    if (n == 0)
        (void)nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    return n;
}

int shutdown(int fd, int how)
{
    int (*next)(int, int);
    *(void **)&next = dlsym(RTLD_NEXT, "shutdown");
    if (serves())
        shut = fd;
    return next(fd, how);
}

int close(int fd)
{
    if (fd < 0 || fd != shut || kept >= 0 || !serves())
        return (int)syscall(SYS_close, fd);
    shut = -1;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || dup3(null, fd, O_CLOEXEC) != fd)
        return -1;
    kept = fd;
    return (int)syscall(SYS_close, null);
}

int accept(int fd, struct sockaddr *restrict from, socklen_t *restrict bytes)
{
    int (*next)(int, struct sockaddr *, socklen_t *);
    *(void **)&next = dlsym(RTLD_NEXT, "accept");
    int made = next(fd, from, bytes), number = kept;
    if (made < 0 || number < 0 || !serves() || dup3(made, number, O_CLOEXEC) != number)
        return made;
    (void)syscall(SYS_close, made);
    kept = -1;
    (void)fprintf(stderr, "reap: a new connection has the number of an old one\n");
    return number;
}
