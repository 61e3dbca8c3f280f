/* A connection to mpirun that breaks in the middle of a message; to be preloaded.  When the file
 * $FTKIT_TEST_TORN is there, the next long message of a daemon ends after its first bytes.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LONG = 1024, FIRST = 512 };
enum { WHOLE = -1, DONE = -2 };

static int torn = WHOLE; /* the socket of the broken connection; only one thread reads messages */

static bool is_tcp(int fd)
{
    int domain = 0;
    socklen_t bytes = sizeof domain;
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0 && domain == AF_INET;
}

static bool breaks(int fd, size_t n)
{
    const char *path = getenv("FTKIT_TEST_TORN");
    return torn == WHOLE && n >= LONG && path && access(path, F_OK) == 0
           && strncmp(program_invocation_short_name, "prterun", 7) == 0 && is_tcp(fd);
}

ssize_t read(int fd, void *buf, size_t n)
{
    ssize_t (*next)(int, void *, size_t);
    *(void **)&next = dlsym(RTLD_NEXT, "read");
    if (fd >= 0 && fd == torn) {
        torn = DONE;
        errno = ECONNRESET;
        return -1;
    }
    if (!breaks(fd, n))
        return next(fd, buf, n);
    const ssize_t got = next(fd, buf, FIRST);
    if (got > 0 && shutdown(fd, SHUT_RDWR) == 0) {
        torn = fd;
        fputs("torn: a connection is broken\n", stderr);
    }
    return got;
}
