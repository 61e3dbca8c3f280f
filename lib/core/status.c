/* Status texts, details of failures, reports, clocks.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "event.h"
#include "format.h"
#include "hash.h"

static _Thread_local char detail[FTK_DETAIL_MAX];

static pthread_mutex_t report_lock = PTHREAD_MUTEX_INITIALIZER; /* protects variables below */
static ftkit_report_fn *report_fn;
static void *report_arg;
static int report_stderr = -1;

const char *ftkit_strerror(int code)
{
    switch (code) {
#define STATUS_TEXT(name, value, text)                                                             \
    case (value):                                                                                  \
        return text;
        FTKIT_STATUS_LIST(STATUS_TEXT)
#undef STATUS_TEXT
    default:
        return "unknown status";
    }
}

#define STR2(x) #x
#define STR(x) STR2(x)
const char *ftkit_version(void)
{
    return STR(FTKIT_VERSION_MAJOR) "." STR(FTKIT_VERSION_MINOR) "." STR(FTKIT_VERSION_PATCH);
}

/* ---- details ------------------------------------------------------------------------- */

/* Errors name places in the sources of ftkit only with report.stderr = debug.  Before the
 * configuration is read, the environment variable decides. */
static bool wants_places(void)
{
    const char *level = getenv("FTKIT_REPORT_STDERR");
    return report_stderr >= FTKIT_DEBUG || (level && strcmp(level, "debug") == 0);
}

static void detail_set(const char *file, int line, const char *what, const char *why)
{
    const char *base = strrchr(file, '/');
    char place[80] = "";
    if (wants_places())
        snprintf(place, sizeof place, " (%s:%d)", base ? base + 1 : file, line);
    snprintf(detail, sizeof detail, "%s%s%s%s", what, *why ? ": " : "", why, place);
}

int ftk_fail_at(const char *file, int line, int code, const char *fmt, ...)
{
    char text[FTK_DETAIL_MAX - 64];
    va_list ap;
    va_start(ap, fmt);
    ftk_vformat(text, sizeof text, fmt, ap);
    va_end(ap);
    detail_set(file, line, text, "");
    return code;
}

int ftk_fail_errno_at(const char *file, int line, int err, const char *fmt, ...)
{
    char text[FTK_DETAIL_MAX - 128];
    char why[64];
    va_list ap;
    va_start(ap, fmt);
    ftk_vformat(text, sizeof text, fmt, ap);
    va_end(ap);
    detail_set(file, line, text, strerror_r(err, why, sizeof why));
    if (err == ENOSPC || err == EDQUOT)
        return FTKIT_ERR_NOSPACE;
    return err == ENOMEM ? FTKIT_ERR_NOMEM : FTKIT_ERR_IO;
}

int ftk_fail_mpi_at(const char *file, int line, int mpi_rc, const char *what)
{
    char why[MPI_MAX_ERROR_STRING];
    int len = 0;
    if (MPI_Error_string(mpi_rc, why, &len) != MPI_SUCCESS)
        snprintf(why, sizeof why, "MPI error %d", mpi_rc);
    for (char *p = why; *p; p++)
        if (*p == '\n')
            *p = ' '; /* some MPIs add a stack of calls; a detail is one line */
    /* 160 bytes have room for the class and its text */
    return ftk_fail_at(file, line, FTKIT_ERR_MPI, "%s: %.160s", what, why);
}

const char *ftk_detail_text(void)
{
    return detail;
}

void ftk_detail_clear(void)
{
    detail[0] = '\0';
}

/* ---- reports ------------------------------------------------------------------------- */

int ftkit_set_report(ftkit_report_fn *fn, void *arg)
{
    pthread_mutex_lock(&report_lock);
    report_fn = fn;
    report_arg = arg;
    pthread_mutex_unlock(&report_lock);
    return FTKIT_OK;
}

void ftk_report_setup(int stderr_level)
{
    pthread_mutex_lock(&report_lock);
    report_stderr = stderr_level;
    pthread_mutex_unlock(&report_lock);
}

static void event_text(int level, const char *line)
{
    static const char *const names[] = { "error", "warning", "info", "debug" };
    struct ftk_event e;
    ftk_event_begin(&e, NULL, -1, "text");
    ftk_event_text(&e, "level", names[level & 3]);
    ftk_event_text(&e, "text", line);
    ftk_event_end(&e);
}

/* always: on stderr with every report.stderr. */
FTK_PRINTF(3, 0) static void report(int level, bool always, const char *fmt, va_list ap)
{
    static const char *const names[] = { "error: ", "warning: ", "", "debug: " };
    char line[1024];
    ftk_vformat(line, sizeof line, fmt, ap);
    pthread_mutex_lock(&report_lock);
    if (report_fn)
        report_fn(level, line, report_arg);
    if (level <= report_stderr || always)
        fprintf(stderr, "ftkit: %s%s\n", names[level & 3], line);
    event_text(level, line);
    pthread_mutex_unlock(&report_lock);
}

void ftk_report(int level, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    report(level, false, fmt, ap);
    va_end(ap);
}

void ftk_report_last(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    report(FTKIT_ERROR, true, fmt, ap);
    va_end(ap);
}

/* ---- clocks -------------------------------------------------------------------------- */

double ftk_now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

uint64_t ftk_wall_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t ftk_random(void)
{
    uint64_t seed[3] = { ftk_wall_ns(), (uint64_t)getpid(), 0 };
    char host[256] = "";
    (void)gethostname(host, sizeof host - 1); /* the result may be empty: only part of the seed */
    seed[2] = ftk_xxh3(host, sizeof host);
    uint64_t x = ftk_xxh3(seed, sizeof seed);
    return x ? x : 1;
}
