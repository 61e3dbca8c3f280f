/* Reading files in a process of its own.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sets.h"

#define OUTPUT_MAX (256u << 20) /* more than the output for any set */
#define BASE_S 60
#define BYTES_PER_S (1u << 20) /* slower than any healthy file system */
#define LONGEST_S 86400

static _Noreturn void child(ftk_isolated_fn *fn, void *arg, uint64_t bytes, int fd)
{
    static const struct rlimit none = { 0, 0 };
    uint64_t s = BASE_S + bytes / BYTES_PER_S;
    (void)setrlimit(RLIMIT_CORE, &none); /* a crash is a normal result: no core file */
    (void)signal(SIGALRM, SIG_DFL);
    ftk_progress_child();
    alarm(s < LONGEST_S ? (unsigned)s : LONGEST_S);
    FILE *out = fdopen(fd, "w");
    int code = out ? fn(arg, out) : TOOL_FAIL;
    if (!out || fclose(out) != 0)
        code = TOOL_FAIL;
    _exit(code);
}

/* Wait until the child has written something or has ended; show progress meanwhile. */
static void await_output(int fd, pid_t pid)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    while (poll(&p, 1, ftk_progress_turn(pid)) == 0)
        continue;
}

/* Collect all that the child writes, until it ends; false: too much output. */
static bool collect(int fd, pid_t pid, struct ftk_isolated *r)
{
    size_t room = 0;
    for (;;) {
        if (r->bytes + 1 >= room) {
            size_t more = room ? 2 * room : 65536;
            char *p = more <= OUTPUT_MAX ? realloc(r->text, more) : NULL;
            if (!p)
                return false;
            r->text = p;
            room = more;
        }
        await_output(fd, pid);
        ssize_t n = read(fd, r->text + r->bytes, room - 1 - r->bytes);
        if (n > 0)
            r->bytes += (size_t)n;
        else if (n == 0 || errno != EINTR)
            break;
    }
    r->text[r->bytes] = '\0';
    return true;
}

static void explain(int status, struct ftk_isolated *r)
{
    if (WIFEXITED(status)) {
        r->code = WEXITSTATUS(status);
    } else if (WTERMSIG(status) == SIGALRM) {
        r->code = TOOL_FAIL;
        snprintf(r->why, sizeof r->why, "reading it takes too long");
    } else {
        r->code = TOOL_FAIL;
        snprintf(r->why, sizeof r->why, "reading it crashed (%s)", strsignal(WTERMSIG(status)));
    }
}

void ftk_isolate(ftk_isolated_fn *fn, void *arg, uint64_t bytes, struct ftk_isolated *r)
{
    int fd[2];
    int status = 0;
    *r = (struct ftk_isolated){ .code = TOOL_FAIL };
    fflush(NULL); /* else the child would write our buffered output again */
    pid_t pid = pipe(fd) == 0 ? fork() : -1;
    if (pid < 0) {
        snprintf(r->why, sizeof r->why, "cannot start a process: %s", strerror(errno));
        return;
    }
    if (pid == 0) {
        close(fd[0]);
        child(fn, arg, bytes, fd[1]);
    }
    close(fd[1]);
    bool whole = collect(fd[0], pid, r);
    close(fd[0]);
    if (!whole)
        kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    ftk_progress_done(bytes);
    explain(status, r);
    if (!whole) {
        free(r->text);
        *r = (struct ftk_isolated){ .code = TOOL_FAIL };
        snprintf(r->why, sizeof r->why, "the list of errors is too long");
    }
}
