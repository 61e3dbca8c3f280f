/* The file for `ftkit status` (see status_file.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/access.h"
#include "core/context.h"
#include "core/format.h"
#include "core/log_ops.h"
#include "status_file.h"
#include "store/sets_dir.h"
#include "errand.h"

enum { TEXT_MAX = 1536 };
#define NOW_S 0.005 /* the program waits so long for the file */
#define LAST_S 5.0  /* the same for the last one */

static int format(const struct ftkit_ctx *ctx, const char *state, double wall_s, char *text)
{
    static const char *const modes[] = { "restart", "global", "team" };
    const struct ftk_policy *p = &ctx->policy;
    const double age_s = ctx->committed > 0 ? ftk_now_s() - p->last_set_s : 0;
    int silent;
    const int teams = ftk_log_count_teams(ctx, &silent);
    return ftk_format(text, TEXT_MAX,
        "ftkit.status = 1\njob = %016" PRIx64 "\nstate = %s\ntime = %.3f\nranks = %d\nspares = %d\n"
        "mode = %s\nteams = %d\nteams_silent = %d\ncalls = %" PRIu64
        "\ncall_seconds = %.9f\nset = %" PRIu64
        "\nset_time = %.3f\nset_seconds = %.6f\nset_bytes = %zu\ndurable = %" PRIu64
        "\ndurable_time = %.3f\nflushing = %" PRIu64 "\nflush_seconds = %.6f\nlog_held = %" PRIu64
        "\nrepairs = %d\nrepair_seconds = %.6f\nreplay_seconds = %.6f\nreplay_forward = %.6f"
        "\ncatch_up_seconds = %.6f\ndeadline = %.3f\nepoch = %d\nend = 1\n",
        ctx->job, state, wall_s, ctx->nranks, ctx->nspares, modes[ctx->mode], teams, silent,
        p->calls, p->call_s, ctx->committed, wall_s - age_s, p->costs_s[0], ctx->stats.region_bytes,
        ctx->status.durable, ctx->status.durable_s, ctx->flush.set, ctx->flush.last_s, p->log_held,
        ctx->stats.repairs, ctx->stats.repair_s, ctx->course.replay_s, ctx->course.replay_forward_s,
        ctx->course.catch_up_s, ctx->steer.end_s, ctx->epoch);
}

/* 0 or an errno.  Without fsync(), unlike ftk_save_text(): all ranks wait for rank 0 in the next
 * vote, and no process needs the file after a crash of the machine. */
static int replace(int dir, const char *text, size_t n)
{
    static const char tmp[] = FTK_STATUS_FILE ".tmp";
    if (unlinkat(dir, tmp, 0) != 0 && errno != ENOENT)
        return errno;
    int fd = ftk_access_make_file(dir, tmp, O_WRONLY);
    if (fd < 0)
        return errno;
    ssize_t done = write(fd, text, n);
    int err = done < 0 ? errno : done < (ssize_t)n ? ENOSPC : 0;
    if (close(fd) != 0 && err == 0)
        err = errno;
    if (err == 0 && renameat(dir, tmp, dir, FTK_STATUS_FILE) != 0)
        err = errno;
    if (err != 0)
        (void)unlinkat(dir, tmp, 0); /* the error is reported by the caller */
    return err;
}

/* The file as it will be. */
struct writing {
    struct ftk_errand errand;
    uint64_t job;
    int epoch;
    char dir[FTK_PATH_MAX], name[FTKIT_NAME_MAX + 1], text[TEXT_MAX];
    size_t bytes;
    int error;
};

/* Whether the file is of a later epoch of this job: then this process was given up. */
static bool is_behind(const struct writing *w, int dir)
{
    char text[TEXT_MAX];
    uint64_t job = 0;
    int epoch = 0;
    const int fd = openat(dir, FTK_STATUS_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    const ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        (void)close(fd); /* nothing was written */
    text[n > 0 ? n : 0] = '\0';
    const char *j = strstr(text, "\njob = "), *e = strstr(text, "\nepoch = ");
    return j && e && sscanf(j, "\njob = %16" SCNx64, &job) == 1
           && sscanf(e, "\nepoch = %9d", &epoch) == 1 && job == w->job && epoch > w->epoch;
}

static void write_text(struct ftk_errand *e)
{
    struct writing *w = (struct writing *)e;
    const int dir = ftk_sets_dir_open(w->dir, w->name);
    if (dir < 0) {
        w->error = errno == ENOENT ? 0 : errno; /* the directory is made with the first set */
        return;
    }
    if (!is_behind(w, dir))
        w->error = replace(dir, w->text, w->bytes);
    (void)close(dir); /* nothing was written through it */
}

static void write_file(struct ftkit_ctx *ctx, const char *state, double wait_s)
{
    struct ftk_status_file *s = &ctx->status;
    struct writing *w;
    const double now = ftk_now_s(), wall_s = 1e-9 * (double)ftk_wall_ns();
    if (ctx->rank != 0 || !ctx->cfg.h5_enabled || ctx->cfg.status_s <= 0 || now < s->due_s)
        return;
    s->due_s = now + ctx->cfg.status_s;
    if (s->durable != ctx->durable) {
        s->durable = ctx->durable;
        s->durable_s = wall_s;
    }
    w = calloc(1, sizeof *w);
    if (!w)
        return; /* the next one is soon */
    w->errand.run = write_text;
    w->job = ctx->job;
    w->epoch = ctx->epoch;
    snprintf(w->dir, sizeof w->dir, "%s", ctx->cfg.h5_dir);
    snprintf(w->name, sizeof w->name, "%s", ctx->cfg.name);
    w->bytes = (size_t)format(ctx, state, wall_s, w->text);
    if (ftk_flush_errand(ctx, &w->errand, wait_s) && w->error != 0) {
        s->due_s = HUGE_VAL;
        ftk_report(FTKIT_WARNING,
            "context %s: %s/%s.ftkit/" FTK_STATUS_FILE ": %s: ftkit status will show nothing new",
            ctx->cfg.name, w->dir, w->name, strerror(w->error));
    }
    ftk_errand_drop(&w->errand);
}

void ftk_status_file(struct ftkit_ctx *ctx)
{
    write_file(ctx, "running", NOW_S);
}

void ftk_status_file_last(struct ftkit_ctx *ctx, const char *state)
{
    ctx->status.due_s = 0;
    write_file(ctx, state, LAST_S);
}
