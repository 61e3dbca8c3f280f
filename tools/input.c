/* The standard input of a run: each attempt reads it from the beginning.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * mpirun gives its standard input to rank 0.  An attempt that is lost has read it, and so has a
 * rank 0 that is lost.  A regular file is set back before each attempt.  What comes by a pipe is
 * kept in a file of the run while a thread hands it on to mpirun, so the next attempt gets it
 * again.  FTKIT_RUN_INPUT says where a new rank 0 reads (lib/core/input.h).  A terminal, and
 * /dev/null, are left alone: a job in the background that reads its terminal would be stopped. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/input.h"
#include "input.h"

enum { PIECE = 65536, READ_END = 0, WRITE_END = 1 };

static struct {
    off_t from; /* regular file: the position at which an attempt begins; -1: no regular file */
    int kept;   /* pipe: the file with all that was read from it; -1: no pipe */
    bool ended; /* the pipe is at its end */
    int to[2];  /* the pipe to mpirun; -1: closed */
    int stop[2];
    pthread_t thread;
    bool running;
} in = { .from = -1, .kept = -1, .to = { -1, -1 }, .stop = { -1, -1 } };

static void pass_on(off_t from, const char *path)
{
    char value[FTK_PATH_MAX + 32];
    snprintf(value, sizeof value, "%lld %s", (long long)from, path);
    if (setenv(FTK_INPUT_VARIABLE, value, 1) != 0)
        ftk_run_say("no memory: a new rank 0 would not find the standard input");
}

/* Other nodes see a file by its name, if the name still leads to it. */
static void report_file(const struct stat *st)
{
    char path[FTK_PATH_MAX], own[64];
    struct stat named;
    snprintf(own, sizeof own, "/proc/%d/fd/0", (int)getpid());
    ssize_t n = readlink(own, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    bool same = n > 0 && stat(path, &named) == 0 && named.st_dev == st->st_dev
                && named.st_ino == st->st_ino;
    pass_on(in.from, same ? path : own);
}

void ftk_input_begin(const struct ftk_run *r)
{
    char path[FTK_PATH_MAX];
    struct stat st;
    unsetenv(FTK_INPUT_VARIABLE); /* of a run around this one */
    if (fstat(STDIN_FILENO, &st) != 0)
        return;
    if (S_ISREG(st.st_mode)) {
        in.from = lseek(STDIN_FILENO, 0, SEEK_CUR);
        if (in.from >= 0)
            report_file(&st);
    } else if (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)) {
        snprintf(path, sizeof path, "%.*s/input", FTK_PATH_MAX - 32, r->dir);
        in.kept = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (in.kept >= 0)
            pass_on(0, path);
        else
            ftk_run_say("cannot make %s: %s: a relaunch would not have the standard input", path,
                strerror(errno));
    }
}

int ftk_input_attempt(void)
{
    if (in.from >= 0 && lseek(STDIN_FILENO, in.from, SEEK_SET) < 0)
        ftk_run_say("standard input: %s", strerror(errno));
    if (in.kept < 0)
        return -1;
    if (pipe2(in.to, O_CLOEXEC) == 0 && pipe2(in.stop, O_CLOEXEC) == 0)
        return in.to[READ_END];
    ftk_run_say("pipe: %s: the job has no standard input", strerror(errno));
    ftk_input_end();
    return -1;
}

/* ---- the thread ---------------------------------------------------------------------- */

/* Wait for the descriptor; false: the attempt has ended. */
static bool await(int fd, short events)
{
    struct pollfd p[2] = { { .fd = fd, .events = events }, { in.stop[READ_END], POLLIN, 0 } };
    while (poll(p, 2, -1) < 0)
        if (errno != EINTR)
            return false;
    return p[1].revents == 0;
}

/* Read the next piece that mpirun has not had: from the file, or from the pipe into the file.  The
 * number of its bytes; 0: there is no more. */
static ssize_t next_piece(char *piece, off_t at)
{
    ssize_t n = pread(in.kept, piece, PIECE, at);
    if (n != 0 || in.ended)
        return n;
    do {
        if (!await(STDIN_FILENO, POLLIN))
            return -1;
        n = read(STDIN_FILENO, piece, PIECE);
    } while (n < 0 && (errno == EINTR || errno == EAGAIN));
    in.ended = n <= 0;
    for (ssize_t done = 0, k; done < n; done += k) {
        k = pwrite(in.kept, piece + done, (size_t)(n - done), at + done);
        if (k <= 0) {
            ftk_run_say("the standard input is lost: no file of this run can keep it: %s",
                strerror(k < 0 ? errno : ENOSPC));
            return -1;
        }
    }
    return n;
}

static bool give(const char *piece, ssize_t n)
{
    for (ssize_t done = 0, k; done < n; done += k) {
        if (!await(in.to[WRITE_END], POLLOUT))
            return false;
        k = write(in.to[WRITE_END], piece + done, (size_t)(n - done));
        if (k < 0 && errno != EAGAIN && errno != EINTR)
            return false; /* mpirun reads no more */
        k = k < 0 ? 0 : k;
    }
    return true;
}

static void *hand_on(void *arg)
{
    static char piece[PIECE];
    off_t at = 0;
    ssize_t n;
    while ((n = next_piece(piece, at)) > 0 && give(piece, n))
        at += n;
    close(in.to[WRITE_END]); /* the end of the input */
    in.to[WRITE_END] = -1;
    return arg;
}

void ftk_input_give(void)
{
    sigset_t all, before;
    if (in.to[READ_END] < 0)
        return;
    close(in.to[READ_END]);
    in.to[READ_END] = -1;
    (void)fcntl(in.to[WRITE_END], F_SETFL, O_NONBLOCK); /* else the thread may end late */
    sigfillset(&all);                                   /* SIGPIPE, too: write() then fails */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&in.thread, NULL, hand_on, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    in.running = rc == 0;
    if (rc != 0)
        ftk_run_say("thread: %s: the job has no standard input", strerror(rc));
}

void ftk_input_end(void)
{
    if (in.running) {
        ssize_t told = write(in.stop[WRITE_END], "", 1);
        if (told == 1)
            pthread_join(in.thread, NULL);
        in.running = false;
    }
    for (int i = 0; i < 2; i++) {
        if (in.to[i] >= 0)
            close(in.to[i]);
        if (in.stop[i] >= 0)
            close(in.stop[i]);
        in.to[i] = in.stop[i] = -1;
    }
}
