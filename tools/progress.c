/* A line on standard error about work that takes longer than a second.  The work runs in child
 * processes (isolate.c); the bytes that a child has read are in /proc.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "sets.h"

#define FIRST_S 1.0   /* work that is done by then shows nothing */
#define TURN_S 0.25   /* between two lines on a terminal */
#define LINE_S 1.0    /* between two lines in a file */
#define LINE_BYTES 79 /* a line that is wrapped could not be erased */

static struct {
    bool on, terminal, drawn;
    double next;          /* when to draw again */
    char what[128];       /* the work */
    uint64_t total, done; /* bytes to read, 0: not known; read by children that have ended */
} progress;

void ftk_progress_begin(bool asked)
{
    progress.terminal = isatty(STDERR_FILENO) == 1;
    progress.on = asked || progress.terminal;
    progress.next = ftk_now_s() + FIRST_S;
}

void ftk_progress_work(uint64_t total, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(progress.what, sizeof progress.what, fmt, ap);
    va_end(ap);
    progress.total = total;
    progress.done = 0;
}

void ftk_progress_clear(void)
{
    if (!progress.drawn)
        return;
    fputs("\r\033[K", stderr);
    progress.drawn = false;
}

void ftk_progress_child(void)
{
    progress.drawn = progress.on && progress.terminal; /* the parent may draw at any time */
}

/* Bytes that the process has read; 0: not known. */
static uint64_t bytes_read(pid_t pid)
{
    char path[64];
    uint64_t bytes = 0;
    snprintf(path, sizeof path, "/proc/%ld/io", (long)pid);
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "rchar: %" SCNu64, &bytes) != 1)
        bytes = 0;
    if (f)
        (void)fclose(f); /* was only read */
    return bytes;
}

static void draw(uint64_t done)
{
    char line[256], have[32], all[32];
    ftk_bytes_text(done, have);
    if (progress.total > 0) {
        done = done < progress.total ? done : progress.total; /* some bytes are read twice */
        ftk_bytes_text(done, have);
        ftk_bytes_text(progress.total, all);
        snprintf(line, sizeof line, "%s: %s of %s (%d %%)", progress.what, have, all,
            (int)(100 * (double)done / (double)progress.total));
    } else {
        snprintf(line, sizeof line, "%s: %s read", progress.what, have);
    }
    fflush(stdout);
    if (progress.terminal)
        fprintf(stderr, "\r\033[K%.*s", LINE_BYTES, line);
    else
        fprintf(stderr, "%s\n", line);
    fflush(stderr);
    progress.drawn = progress.terminal;
    progress.next = ftk_now_s() + (progress.terminal ? TURN_S : LINE_S);
}

int ftk_progress_turn(pid_t pid)
{
    if (!progress.on)
        return -1;
    double left = progress.next - ftk_now_s();
    if (left <= 0) {
        draw(progress.done + bytes_read(pid));
        left = progress.next - ftk_now_s();
    }
    return left < 0 ? 0 : (int)(1000 * left) + 1;
}

void ftk_progress_done(uint64_t bytes)
{
    progress.done += bytes;
}
