/* The event log (see event.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * write() takes four fifths of the time of an event, so the numbers are written by hand and not by
 * snprintf().  A mapped file would cost less, but on a full file system a store to a mapped page
 * kills the process by SIGBUS.  write() only ends the log. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "access.h"
#include "event.h"
#include "ftk.h"
#include "utf8.h"

#define BUSY_S 2.0

static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int file = -1;                  /* -1: the log is off */
static _Atomic int trouble;                    /* errno that has ended the log */
static char first_context[FTKIT_NAME_MAX + 1]; /* is set once, before a second thread uses it */
static _Atomic int first_rank = -1;

/* ---- the file ------------------------------------------------------------------------ */

static void file_name(const char *directory, char *path, size_t bytes)
{
    char host[256] = "";
    if (gethostname(host, sizeof host - 1) != 0 || !*host)
        snprintf(host, sizeof host, "unknown");
    for (char *p = host; *p; p++)
        if (*p == '/')
            *p = '_';
    snprintf(path, bytes, "%s/%s.jsonl", directory, host);
}

/* One thread at a time is in write(), so that a file system that does not answer holds one thread
 * only, and not the watchdog, too.  false: another thread has been in write() for BUSY_S. */
static bool enter_write(void)
{
    const struct timespec turn = { 0, 20000 };
    const double end_s = ftk_now_s() + BUSY_S;
    while (pthread_mutex_trylock(&writing) != 0) {
        if (ftk_now_s() > end_s)
            return false;
        (void)nanosleep(&turn, NULL); /* a shorter sleep does no harm */
    }
    return true;
}

/* Make the directory, unless it exists.  0 or an errno. */
static int make_directory(const char *path, mode_t rights)
{
    if (mkdir(path, 0700) != 0)
        return errno == EEXIST ? ftk_access_link(path) : errno;
    const int fd = ftk_access_open_dir(path);
    const int err = fd >= 0 ? ftk_access_set(fd, rights) : errno;
    if (fd >= 0)
        (void)close(fd); /* nothing was written */
    return err;
}

/* Whether an open file may get the lines: a file of this user, or a pipe that this user has made.
 * 0 or an errno. */
static int check_file(int fd)
{
    struct stat st;
    const int err = ftk_access_own_file(fd);
    if (err != EPERM || fstat(fd, &st) != 0 || !S_ISFIFO(st.st_mode) || st.st_uid != geteuid())
        return err;
    return fcntl(fd, F_SETFL, O_APPEND) == 0 ? 0 : errno; /* from here on wait for the reader */
}

/* Open the file of the node in a directory.  Another process of this user may make the file at the
 * same time, or remove it.  0 or an errno. */
static int open_file(const char *path, mode_t rights, int *fd)
{
    const int flags = O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    int err;
    do {
        *fd = open(path, flags | O_CREAT | O_EXCL, 0600);
        err = *fd >= 0 ? ftk_access_set(*fd, rights) : errno;
        if (err != EEXIST)
            break;
        *fd = open(path, flags);
        err = *fd >= 0 ? check_file(*fd) : errno;
    } while (err == ENOENT);
    if (err && *fd >= 0)
        (void)close(*fd); /* nothing was written */
    return err;
}

int ftk_event_open(const char *directory, const char *context, int access)
{
    char path[FTK_PATH_MAX + 272];
    if (!*first_context)
        snprintf(first_context, sizeof first_context, "%s", context);
    const bool alone = enter_write();
    int was = atomic_exchange(&file, -1);
    if (was >= 0 && alone) /* else it stays open: another thread may be in write() for ever */
        (void)close(was);  /* all its lines were written: write() has reported every error */
    if (alone)
        (void)pthread_mutex_unlock(&writing); /* it is ours */
    if (!directory || !*directory)
        return 0;
    int fd, err = make_directory(directory, ftk_access_rights(access));
    if (err)
        return err;
    file_name(directory, path, sizeof path);
    err = open_file(path, ftk_access_rights(access) & 0666, &fd);
    if (err)
        return err;
    atomic_store(&file, fd);
    return 0;
}

int ftk_event_trouble(void)
{
    return atomic_exchange(&trouble, 0);
}

bool ftk_event_on(void)
{
    return atomic_load_explicit(&file, memory_order_relaxed) >= 0;
}

/* ---- the text ------------------------------------------------------------------------ */

/* Make room for more bytes; false: there is no memory, and the event is dropped. */
static bool make_room(struct ftk_event *e, size_t more)
{
    size_t room = 2 * e->room + more;
    char *at = e->at == e->small ? malloc(room) : realloc(e->at, room);
    if (!at) {
        if (e->at != e->small)
            free(e->at);
        e->on = false;
        return false;
    }
    if (e->at == e->small)
        memcpy(at, e->small, e->n);
    e->at = at;
    e->room = room;
    return true;
}

static inline void put(struct ftk_event *e, const char *text, size_t n)
{
    if (!e->on || (e->room - e->n < n && !make_room(e, n)))
        return;
    memcpy(e->at + e->n, text, n);
    e->n += n;
}

/* At least `digits` digits. */
static void put_digits(struct ftk_event *e, uint64_t value, int digits)
{
    char text[24];
    int at = (int)sizeof text;
    do {
        text[--at] = (char)('0' + value % 10);
        value /= 10;
        digits--;
    } while (value > 0 || digits > 0);
    put(e, text + at, sizeof text - (size_t)at);
}

/* Bytes of printable ASCII at text that stand in JSON as they are. */
static size_t plain_bytes(const char *text)
{
    size_t n = 0;
    while (text[n] >= ' ' && text[n] < 0x7f && text[n] != '"' && text[n] != '\\')
        n++;
    return n;
}

/* A text of JSON.  Bytes that are no UTF-8 become '?': a reader could not parse the line. */
static void put_text(struct ftk_event *e, const char *text)
{
    put(e, "\"", 1);
    for (;;) {
        size_t run = plain_bytes(text);
        put(e, text, run);
        text += run;
        if (!*text)
            break;
        run = ftk_utf8_bytes(text, strlen(text));
        if (*text == '"' || *text == '\\')
            put(e, *text == '"' ? "\\\"" : "\\\\", 2);
        else if (run > 1)
            put(e, text, run);
        else
            put(e, run == 1 && *text < ' ' ? " " : "?", 1);
        text += run > 1 ? run : 1;
    }
    put(e, "\"", 1);
}

static void put_key(struct ftk_event *e, const char *key)
{
    put(e, ",\"", 2);
    put(e, key, strlen(key));
    put(e, "\":", 2);
}

static void put_int(struct ftk_event *e, int64_t value)
{
    if (value < 0)
        put(e, "-", 1);
    put_digits(e, value < 0 ? -(uint64_t)value : (uint64_t)value, 1);
}

/* ---- events -------------------------------------------------------------------------- */

void ftk_event_begin(struct ftk_event *e, const char *context, int rank, const char *event)
{
    static _Atomic int pid; /* getpid() is a system call */
    struct timespec t;
    e->on = ftk_event_on();
    if (!e->on)
        return;
    e->at = e->small;
    e->room = sizeof e->small;
    e->n = 0;
    clock_gettime(CLOCK_REALTIME, &t);
    put(e, "\n{\"t\":", 6);
    put_digits(e, (uint64_t)t.tv_sec, 1);
    put(e, ".", 1);
    put_digits(e, (uint64_t)t.tv_nsec / 1000, 6);
    if (!atomic_load_explicit(&pid, memory_order_relaxed))
        atomic_store(&pid, (int)getpid());
    ftk_event_int(e, "pid", atomic_load_explicit(&pid, memory_order_relaxed));
    if (context && strcmp(context, first_context) == 0)
        atomic_store_explicit(&first_rank, rank, memory_order_relaxed);
    if (!context)
        rank = atomic_load_explicit(&first_rank, memory_order_relaxed);
    ftk_event_int(e, "rank", rank);
    if (!context)
        context = first_context;
    if (*context)
        ftk_event_text(e, "context", context);
    ftk_event_text(e, "event", event);
}

void ftk_event_int(struct ftk_event *e, const char *key, int64_t value)
{
    if (!e->on)
        return;
    put_key(e, key);
    put_int(e, value);
}

void ftk_event_bool(struct ftk_event *e, const char *key, bool value)
{
    if (!e->on)
        return;
    put_key(e, key);
    put(e, value ? "true" : "false", value ? 4 : 5);
}

void ftk_event_seconds(struct ftk_event *e, const char *key, double seconds)
{
    if (!e->on)
        return;
    double us = isfinite(seconds) && seconds > 0 ? fmin(round(1e6 * seconds), 1e18) : 0;
    put_key(e, key);
    put_digits(e, (uint64_t)us / 1000000, 1);
    put(e, ".", 1);
    put_digits(e, (uint64_t)us % 1000000, 6);
}

void ftk_event_text(struct ftk_event *e, const char *key, const char *text)
{
    if (!e->on)
        return;
    put_key(e, key);
    put_text(e, text);
}

void ftk_event_list(struct ftk_event *e, const char *key)
{
    if (!e->on)
        return;
    if (key)
        put_key(e, key);
    else if (e->at[e->n - 1] != '[')
        put(e, ",", 1);
    put(e, "[", 1);
}

void ftk_event_item(struct ftk_event *e, int64_t value)
{
    if (!e->on)
        return;
    if (e->at[e->n - 1] != '[')
        put(e, ",", 1);
    put_int(e, value);
}

void ftk_event_list_end(struct ftk_event *e)
{
    put(e, "]", 1);
}

static void write_line(const char *text, size_t n)
{
    if (!enter_write()) {
        atomic_store(&trouble, ETIMEDOUT);
        atomic_store(&file, -1); /* open: the other thread may be in it for ever */
        return;
    }
    int fd = atomic_load(&file); /* another thread may have closed it meanwhile */
    const ssize_t done = fd >= 0 ? write(fd, text, n) : (ssize_t)n;
    if (done != (ssize_t)n) {
        /* the rest of a line that was cut off would come behind lines of other processes */
        atomic_store(&trouble, done < 0 ? errno : ENOSPC);
        if (atomic_compare_exchange_strong(&file, &fd, -1))
            (void)close(fd);
    }
    (void)pthread_mutex_unlock(&writing); /* it is ours */
}

void ftk_event_end(struct ftk_event *e)
{
    if (!e->on)
        return;
    put(e, "}", 1);
    if (e->on && ftk_event_on())
        write_line(e->at, e->n);
    if (e->on && e->at != e->small)
        free(e->at);
    e->on = false;
}
