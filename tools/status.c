/* ftkit status: what a running job does, from the file that its rank 0 writes beside the sets
 * (lib/set/status_file.c).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/config.h"
#include "detect/watch_page.h"
#include "output.h"
#include "set/status_file.h"
#include "sets.h"
#include "store/finished.h"
#include "store/owner.h"

void ftk_status_usage(FILE *out)
{
    fputs("usage: ftkit status [--watch [T]] [--json | --prometheus] [-o FILE]\n"
          "                    [--context NAME] [DIR]\n"
          "\n"
          "Show what the job does that uses the sets of DIR (the working directory): step\n"
          "rate, sets and their age, repairs, spares, memory of the message log.  Rank 0\n"
          "of the job writes these facts every report.status (5 s), while the program\n"
          "makes progress.\n"
          "\n"
          "  --watch [T]     again every T (2s), until the job has ended\n"
          "  --json          for scripts\n"
          "  --prometheus    in the text format of Prometheus\n"
          "  -o FILE         write to FILE, as a whole, for a textfile collector\n"
          "  --context NAME  only this context\n"
          "\n"
          "Exit code:\n"
          "  0  a job is running\n"
          "  1  no job is running, or a file cannot be read or written\n"
          "  2  usage, or no sets are there\n",
        out);
}

/* ---- the file ------------------------------------------------------------------------ */

struct status {
    const char *context;
    bool there, alive;
    char who[256];     /* if alive: the job */
    uint64_t finished; /* if not alive: the set with which the run has finished, 0: it has not */
    char state[16], mode[16];
    double now_s;
    uint64_t job;
    /* as in the file */
    double time, ranks, spares, teams, teams_silent, calls, call_seconds, set, set_time,
        set_seconds, set_bytes, durable, durable_time, flushing, flush_seconds, log_held, repairs,
        repair_seconds, replay_seconds, replay_forward, catch_up_seconds, deadline, end;
};

/* The numbers of the file.  help NULL: not for Prometheus. */
#define N(member, help)                                                                            \
    {                                                                                              \
#member, offsetof(struct status, member), help                                             \
    }
static const struct number {
    const char *key;
    size_t at;
    const char *help;
} numbers[] = { N(time, "When rank 0 wrote these facts, seconds since 1970"),
    N(ranks, "Working ranks"), N(spares, "Spares that are left"),
    N(teams, "Teams of the message log, 0: none"),
    N(teams_silent, "Teams that keep no messages (log.silent)"),
    N(calls, "Calls of ftkit_checkpoint since the last restored set"),
    N(call_seconds, "Time from one call of ftkit_checkpoint to the next"),
    N(set, "Newest committed set, 0: none"), N(set_time, "When the set was committed"),
    N(set_seconds, "How long the commit of the set took"),
    N(set_bytes, "Registered bytes of rank 0"),
    N(durable, "Newest set that is complete on the file system, 0: none"),
    N(durable_time, "When the set was complete on the file system"),
    N(flushing, "Set that is being written to the file system, 0: none"),
    N(flush_seconds, "How long the last set took to the file system"),
    N(log_held, "Most bytes that a rank's message log holds"), N(repairs, "Repairs of the job"),
    N(repair_seconds, "How long the last repair took"),
    N(replay_seconds, "How long the last replay of rank 0 took, 0: none"),
    N(replay_forward, "How long the same calls had taken rank 0 before the failure"),
    N(catch_up_seconds, "How long rank 0 then took to its next, new call, 0: not known"),
    N(deadline, "When the job has to be over, 0: no deadline"), N(end, NULL) };
#define NNUMBERS (sizeof numbers / sizeof numbers[0])

static void take_line(struct status *s, const char *key, const char *value)
{
    char *end;
    if (strcmp(key, "state") == 0)
        snprintf(s->state, sizeof s->state, "%.15s", value);
    if (strcmp(key, "mode") == 0)
        snprintf(s->mode, sizeof s->mode, "%.15s", value);
    if (strcmp(key, "job") == 0)
        s->job = strtoull(value, NULL, 16);
    for (size_t i = 0; i < NNUMBERS; i++) {
        double v = strtod(value, &end);
        if (strcmp(key, numbers[i].key) == 0 && end != value && isfinite(v) && fabs(v) < 1e18)
            memcpy((char *)s + numbers[i].at, &v, sizeof v);
    }
}

/* Read the file; 0, or a text about the mistake. */
static const char *read_file(const char *path, struct status *s)
{
    char text[4096] = "", *line, *rest = text;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    int err = errno;
    if (fd >= 0)
        close(fd);
    if (n < 0)
        return err == ENOENT ? "" : strerror(err);
    if (strncmp(text, "ftkit.status = 1\n", 17) != 0)
        return "not a file of ftkit, or of another version";
    while ((line = strsep(&rest, "\n"))) {
        char *value = strstr(line, " = ");
        if (!value)
            continue;
        *value = '\0';
        take_line(s, line, value + 3);
    }
    for (char *p = s->state; *p; p++)
        *p = isalpha((unsigned char)*p) ? *p : '?';
    for (char *p = s->mode; *p; p++)
        *p = isalpha((unsigned char)*p) ? *p : '?';
    return s->end == 1 ? NULL : "the file is cut off";
}

static void look(const char *dir, const char *context, struct status *s)
{
    char path[FTK_PATH_MAX + 128];
    struct ftk_owner_record r;
    *s = (struct status){ .context = context, .now_s = 1e-9 * (double)ftk_wall_ns() };
    if (ftk_owner_alive(dir, context, ftk_dog_job_lives, &s->alive, &r) != FTKIT_OK)
        s->alive = false;
    if (s->alive)
        ftk_owner_text(&r, s->who, sizeof s->who);
    snprintf(path, sizeof path, "%s/%s.ftkit/" FTK_STATUS_FILE, dir, context);
    const char *why = read_file(path, s);
    s->there = !why && (!s->alive || s->job == r.job); /* else the file is that of an earlier job */
    if (why && *why)
        ftk_tool_say("%s: %s", path, why);
    if (!s->alive)
        s->finished =
            ftk_finished_set(dir, context, s->there && s->durable > 0 ? (uint64_t)s->durable : 0);
}

/* ---- text ---------------------------------------------------------------------------- */

/* "12 s", "3 min 5 s", "2 h 10 min" */
static void age_text(double s, char *text, size_t bytes)
{
    long n = s > 0 ? (long)fmin(s, 1e9) : 0;
    if (n < 120)
        snprintf(text, bytes, "%ld s", n);
    else if (n < 7200)
        snprintf(text, bytes, "%ld min %ld s", n / 60, n % 60);
    else
        snprintf(text, bytes, "%ld h %ld min", n / 3600, n / 60 % 60);
}

static void print_set(FILE *out, const char *what, double set, double at, const struct status *s,
    double seconds, const char *none)
{
    char age[32];
    age_text(s->now_s - at, age, sizeof age);
    if (set > 0)
        fprintf(out, "  %-13s set %.0f, %s ago, took %.3g s\n", what, set, age, seconds);
    else
        fprintf(out, "  %-13s %s\n", what, none);
}

static void print_finished(FILE *out, const struct status *s)
{
    if (s->finished)
        fprintf(out, "  %-13s the run has finished; its last durable set is %" PRIu64 "\n",
            "finished", s->finished);
}

static void print_text(FILE *out, const struct status *s)
{
    char age[32], bytes[32];
    age_text(s->now_s - s->time, age, sizeof age);
    fprintf(out, "%s: %s\n", s->context, s->alive ? s->who : "no job is running");
    if (!s->there) {
        fprintf(
            out, "  nothing is known of it%s\n", s->alive ? " yet (or report.status is 0)" : "");
        print_finished(out, s);
        return;
    }
    bool unclean = !s->alive && strcmp(s->state, "running") == 0;
    fprintf(out, "  %-13s %s%s, %s ago\n", "state", s->state,
        unclean ? " when it was last heard of: it has not closed" : "", age);
    print_finished(out, s);
    fprintf(out, "  %-13s %.0f ranks, %.0f spares left, %s", "processes", s->ranks, s->spares,
        strcmp(s->mode, "restart") == 0 ? "restart only"
        : strcmp(s->mode, "team") == 0  ? "repair by teams"
                                        : "repair in the job");
    if (s->teams > 0)
        fprintf(out, ", %.0f teams", s->teams);
    if (s->teams_silent > 0)
        fprintf(out, " (%.0f of them silent)", s->teams_silent);
    fprintf(out, "\n  %-13s %.4g calls of ftkit_checkpoint a second\n", "rate",
        s->call_seconds > 0 ? 1 / s->call_seconds : 0);
    print_set(out, "memory", s->set, s->set_time, s, s->set_seconds, "no set yet");
    print_set(out, "file system", s->durable, s->durable_time, s, s->flush_seconds,
        "no complete set yet");
    if (s->flushing > 0)
        fprintf(out, "  %-13s set %.0f is being written\n", "", s->flushing);
    fprintf(out, "  %-13s %.0f", "repairs", s->repairs);
    if (s->repairs > 0)
        fprintf(out, ", the last one took %.3g s", s->repair_seconds);
    if (s->replay_seconds > 0)
        fprintf(out, ", and the replay of rank 0 %.3g s, %.3g times as fast as before",
            s->replay_seconds, s->replay_forward / s->replay_seconds);
    if (s->replay_seconds > 0 && s->catch_up_seconds > 0)
        fprintf(out, ", then %.3g s to a new call", s->catch_up_seconds);
    putc('\n', out);
    ftk_bytes_text((uint64_t)fmax(s->log_held, 0), bytes);
    if (strcmp(s->mode, "team") == 0)
        fprintf(out, "  %-13s up to %s on a rank\n", "message log", bytes);
    age_text(s->deadline - s->now_s, age, sizeof age);
    if (s->deadline > 0)
        fprintf(out, "  %-13s in %s\n", "deadline", age);
}

static void print_json(struct ftk_json *j, const struct status *s)
{
    ftk_json_open(j, NULL, '{');
    ftk_json_text(j, "context", s->context);
    ftk_json_bool(j, "alive", s->alive);
    if (s->alive)
        ftk_json_text(j, "job", s->who);
    else
        ftk_json_null(j, "job");
    ftk_json_bool(j, "finished", s->finished > 0);
    if (s->there) {
        ftk_json_text(j, "state", s->state);
        ftk_json_text(j, "mode", s->mode);
        for (size_t i = 0; i < NNUMBERS; i++) {
            double v;
            memcpy(&v, (const char *)s + numbers[i].at, sizeof v);
            if (numbers[i].help && (v == floor(v) || fabs(v) > 1e8)) /* times: whole seconds */
                ftk_json_int(j, numbers[i].key, (int64_t)v);
            else if (numbers[i].help)
                ftk_json_real(j, numbers[i].key, v);
        }
    }
    ftk_json_close(j, '}');
}

/* Names of contexts are printable ASCII. */
static void print_label(FILE *out, const char *text)
{
    for (; *text; text++)
        fprintf(out, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
}

static void print_metric(
    FILE *out, const char *name, const char *help, const struct status *all, size_t n, size_t at)
{
    fprintf(out, "# HELP ftkit_%s %s.\n# TYPE ftkit_%s gauge\n", name, help, name);
    for (size_t i = 0; i < n; i++) {
        double v = all[i].alive;
        if (at > 0 && !all[i].there)
            continue;
        if (at > 0)
            memcpy(&v, (const char *)&all[i] + at, sizeof v);
        fprintf(out, "ftkit_%s{context=\"", name);
        print_label(out, all[i].context);
        fprintf(out, "\"} %.15g\n", v);
    }
}

static void print_prometheus(FILE *out, const struct status *all, size_t n)
{
    print_metric(out, "up", "Whether a job is running", all, n, 0);
    for (size_t i = 0; i < NNUMBERS; i++)
        if (numbers[i].help)
            print_metric(out, numbers[i].key, numbers[i].help, all, n, numbers[i].at);
}

/* ---- the command --------------------------------------------------------------------- */

struct request {
    bool json, prometheus, watch;
    double every_s;
    const char *output, *context, *dir;
};

static void print_all(FILE *out, const struct request *q, const struct status *all, size_t n)
{
    struct ftk_json j = { .out = out };
    if (q->prometheus) {
        print_prometheus(out, all, n);
        return;
    }
    if (q->json)
        ftk_json_open(&j, NULL, '[');
    for (size_t i = 0; i < n; i++) {
        if (q->json)
            print_json(&j, &all[i]);
        else
            print_text(out, &all[i]);
    }
    if (q->json)
        ftk_json_close(&j, ']');
}

/* Replace the file of -o.  An exit code. */
static int write_output(const struct request *q, const struct status *all, size_t n)
{
    struct ftk_output out;
    bool good = ftk_output_begin(&out, q->output);
    if (good) {
        print_all(out.f, q, all, n);
        good = ftk_output_end(&out);
    }
    if (!good)
        ftk_tool_say("%s: %s", q->output, strerror(errno));
    return good ? TOOL_OK : TOOL_FAIL;
}

/* Look once; *running: a job is. */
static int once(const struct request *q, bool *running)
{
    struct ftk_where w;
    int rc = ftk_where_find(q->dir, q->context, &w);
    *running = false;
    if (rc != 0)
        return rc;
    struct status *all = ftk_tool_alloc((w.n + 1) * sizeof *all);
    for (size_t i = 0; i < w.n; i++) {
        look(w.dir, w.contexts[i], &all[i]);
        *running = *running || all[i].alive;
    }
    if (q->watch && !q->output && isatty(1))
        fputs("\033[H\033[2J", stdout);
    if (q->output)
        rc = write_output(q, all, w.n);
    else
        print_all(stdout, q, all, w.n);
    free(all);
    ftk_where_free(&w);
    return rc != 0 ? rc : *running ? TOOL_OK : TOOL_FAIL;
}

/* 0: go on; else the exit code plus one. */
static int parse(int argc, char **argv, struct request *q)
{
    static const struct option options[] = { { "watch", optional_argument, NULL, 'w' },
        { "json", no_argument, NULL, 'j' }, { "prometheus", no_argument, NULL, 'p' },
        { "context", required_argument, NULL, 'c' }, { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 } };
    int c;
    while ((c = ftk_usage_getopt(ftk_status_usage, argc, argv, ":o:h", options)) != -1) {
        const char *time = c == 'w' ? optarg : NULL;
        if (c == 'w' && !time && optind < argc && isdigit((unsigned char)argv[optind][0]))
            time = argv[optind++];
        q->watch = q->watch || c == 'w';
        q->json = q->json || c == 'j';
        q->prometheus = q->prometheus || c == 'p';
        q->output = c == 'o' ? optarg : q->output;
        q->context = c == 'c' ? optarg : q->context;
        if (time && ftk_config_time(time, &q->every_s) != NULL) {
            return ftk_usage_wrong(ftk_status_usage, "--watch: '%s' is not a time such as 2s", time)
                   + 1;
        }
        if (c == 'h') {
            ftk_status_usage(stdout);
            return TOOL_OK + 1;
        }
        if (c == '?')
            return TOOL_USAGE + 1;
    }
    if (q->json && q->prometheus)
        return ftk_usage_wrong(ftk_status_usage, "--json or --prometheus, not both") + 1;
    if (optind + 1 < argc)
        return ftk_usage_wrong(ftk_status_usage, "one directory at a time") + 1;
    q->dir = optind < argc ? argv[optind] : ".";
    return 0;
}

int ftk_status_main(int argc, char **argv)
{
    struct request q = { .every_s = 2 };
    bool running;
    ftk_tool_name("status");
    int rc = parse(argc, argv, &q);
    if (rc != 0)
        return rc - 1;
    while ((rc = once(&q, &running)) == TOOL_OK && q.watch && running) {
        const struct timespec turn = { (time_t)q.every_s,
            (long)(1e9 * (q.every_s - floor(q.every_s))) };
        fflush(stdout);
        nanosleep(&turn, NULL);
    }
    return ftk_tool_end(rc);
}
