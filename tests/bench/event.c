/* A line of the event log, as a set writes it.
 *
 * Bound: write() of a line of the same length at the end of a file of the same directory.
 *
 *   event [-r REPETITIONS] -d DIRECTORY
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <fcntl.h>

#include "bench.h"
#include "core/event.h"

enum { LINES = 2000 };

static void one_line(int i)
{
    struct ftk_event e;
    ftk_event_begin(&e, "bench", 0, "set");
    ftk_event_int(&e, "set", i);
    ftk_event_text(&e, "level", "memory");
    ftk_event_int(&e, "calls", 100 * (int64_t)i);
    ftk_event_int(&e, "bytes", 123456789);
    ftk_event_seconds(&e, "seconds", 0.012345);
    ftk_event_int(&e, "sent", 987654321);
    ftk_event_end(&e);
}

static double events_s(void)
{
    double start = bench_now_s();
    for (int i = 0; i < LINES; i++)
        one_line(i);
    return (bench_now_s() - start) / LINES;
}

static double writes_s(const struct bench *b, int fd, const char *line, size_t n)
{
    double start = bench_now_s();
    for (int i = 0; i < LINES; i++)
        if (write(fd, line, n) != (ssize_t)n)
            bench_die(b, "write");
    return (bench_now_s() - start) / LINES;
}

int main(int argc, char **argv)
{
    struct bench b = { .bytes = 1024, .reps = 30 };
    char path[512], line[256];
    bench_options(&b, argc, argv, "b:r:d:", NULL);
    bench_set("FTKIT_LEVEL_HDF5_ENABLED", "false");
    bench_open(&b, &argc, &argv);
    snprintf(path, sizeof path, "%s/events", b.directory);
    if (ftk_event_open(path, "bench") != 0)
        bench_die(&b, "%s", path);
    snprintf(path, sizeof path, "%s/lines", b.directory);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
    memset(line, 'x', sizeof line);
    for (int i = 0; i < b.reps; i++) {
        double written = writes_s(&b, fd, line, 172); /* as long as a line of one_line() */
        double event = events_s();
        bench_row(&b, "ranks=%d ftkit_s=%.4e bound_s=%.4e", b.nranks, event, written);
    }
    (void)close(fd);
    (void)unlink(path);
    if (ftk_event_trouble() != 0)
        bench_die(&b, "the event log has ended");
    ftk_event_open("", "bench");
    return bench_close(&b);
}
