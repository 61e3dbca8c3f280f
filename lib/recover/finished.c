/* A run that has finished: its mark, and whether a later start may continue from its sets (see
 * start.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Errands do the work on files.  A start that reads its set from files waits for the errand as it
 * waits for the set.  A start from memory does not need the file system, so it waits only for a
 * while.  The argument files are read at the start, for the mark at the end: the user may change a
 * file for the next problem while this run computes. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "core/arguments.h"
#include "core/run_state.h"
#include "load.h"
#include "set/checkpoint.h"
#include "start.h"
#include "set/errand.h"
#include "store/finished.h"

#define CLOSE_S 5.0  /* closing waits so long for the mark */
#define START_S 10.0 /* a start from memory does so */

/* Work on the mark. */
struct marking {
    struct ftk_errand errand;
    char dir[FTK_PATH_MAX];
    char context[FTKIT_NAME_MAX + 1];
    struct ftkit_ctx *ctx;
    struct ftk_finished mark;
    int rc;
    bool differs;
    char why[256];     /* what differs; or the detail of rc */
    _Atomic bool read; /* by note_start(): the argument files, into mark */
    struct ftk_finished_start start;
    char strings[]; /* of start */
};

/* The arguments of all programs, then their directories, into f. */
static void write_start(const struct ftk_programs *p, FILE *f, size_t *arguments)
{
    struct ftk_command c;
    for (int k = 0; k < p->n; k++) {
        ftk_command_of(p->commands, p->bytes, k, &c);
        if (k > 0)
            *arguments += (size_t)fprintf(f, FTK_FINISHED_PROGRAM "%s%c", ftk_command_name(&c), 0);
        for (int i = 0; i < c.nargs; i++)
            *arguments += (size_t)fprintf(f, "%s%c", c.args[i], 0);
        ftk_command_free(&c);
    }
    for (int k = 0; k < p->n; k++) {
        ftk_command_of(p->commands, p->bytes, k, &c);
        (void)fprintf(f, "%s%c", c.directory, 0); /* fclose() reports an error */
        ftk_command_free(&c);
    }
}

/* The same in a job of one program; false: its arguments are not known. */
static bool write_own(FILE *f, size_t *arguments)
{
    size_t bytes;
    const char *all = ftk_arguments(&bytes);
    const bool known = all && bytes > 0 && all[bytes - 1] == '\0';
    if (known) {
        const size_t name = strlen(all) + 1;
        *arguments = fwrite(all + name, 1, bytes - name, f);
    }
    (void)fprintf(f, "%s%c", ftk_arguments_directory(), 0); /* fclose() reports an error */
    return known;
}

/* An errand may go on when the context is gone, so it has all that it needs. */
static struct marking *new_marking(struct ftkit_ctx *ctx, void (*run)(struct ftk_errand *e))
{
    char *strings = NULL;
    size_t bytes = 0, arguments = 0;
    FILE *f = open_memstream(&strings, &bytes);
    bool known = f != NULL;
    if (f && ctx->programs.n > 0)
        write_start(&ctx->programs, f, &arguments);
    else if (f)
        known = write_own(f, &arguments);
    if (!f || fclose(f) != 0) {
        free(strings);
        return NULL;
    }
    struct marking *m = calloc(1, sizeof *m + bytes);
    if (m) {
        m->errand.run = run;
        m->ctx = ctx;
        snprintf(m->dir, sizeof m->dir, "%s", ctx->cfg.h5_dir);
        snprintf(m->context, sizeof m->context, "%s", ctx->cfg.name);
        memcpy(m->strings, strings, bytes);
        m->start = (struct ftk_finished_start){ .text = known ? m->strings : NULL,
            .bytes = arguments,
            .directories = m->strings + arguments,
            .nprograms = ftk_programs_count(&ctx->programs) };
    }
    free(strings);
    return m;
}

/* ---- when the loop begins ------------------------------------------------------------ */

static void note_start(struct ftk_errand *e)
{
    struct marking *m = (struct marking *)e;
    ftk_finished_here(&m->mark, &m->start);
    /* when this fails, a later start compares with the earlier run: a refusal, no wrong result */
    (void)ftk_finished_remove(m->dir, m->context);
    atomic_store(&m->read, true);
}

void ftk_start_began(struct ftkit_ctx *ctx)
{
    if (ctx->rank != 0 || !ctx->cfg.h5_enabled || ctx->repair.start)
        return;
    ctx->repair.start = new_marking(ctx, note_start);
    if (ctx->repair.start)
        (void)ftk_flush_errand(ctx, &ctx->repair.start->errand, 0);
}

void ftk_start_forget(struct ftkit_ctx *ctx)
{
    if (ctx->repair.start)
        ftk_errand_drop(&ctx->repair.start->errand);
    ctx->repair.start = NULL;
}

/* ---- at the end ---------------------------------------------------------------------- */

static void write_mark(struct ftk_errand *e)
{
    struct marking *m = (struct marking *)e;
    m->rc = ftk_durable_own_behind(m->ctx); /* another job may have taken the sets over */
    if (m->rc == FTKIT_OK) {
        const bool known = atomic_load(&m->read);
        if (!known)
            ftk_finished_here(&m->mark, &m->start);
        ftk_finished_changed(&m->mark, &m->start, known);
        m->rc = ftk_finished_write(m->dir, m->context, &m->mark);
    }
    if (m->rc != FTKIT_OK)
        snprintf(m->why, sizeof m->why, "%s", ftk_detail_text());
}

void ftk_start_mark(struct ftkit_ctx *ctx)
{
    const struct marking *start = ctx->repair.start; /* not of a rank 0 that is a replacement */
    if (ctx->rank != 0 || !ctx->cfg.h5_enabled || ctx->committed == 0)
        return; /* there is no set from which a later start could continue */
    const bool idle = ftk_behind_idle(ctx->flush.behind, CLOSE_S); /* note_start() may be at work */
    struct marking *m = new_marking(ctx, write_mark);
    const char *why = m ? "the file system does not answer" : "no memory";
    bool done = false;
    if (m) {
        if (start && atomic_load(&start->read)) {
            m->mark = start->mark;
            atomic_store(&m->read, true);
        }
        m->mark.run = ctx->run;
        m->mark.by = ftk_run_number();
        m->mark.durable = ctx->durable;
        m->mark.committed = ctx->committed > ctx->durable ? ctx->committed : ctx->durable;
        done = idle && ftk_flush_errand(ctx, &m->errand, CLOSE_S);
    }
    if (!done || m->rc != FTKIT_OK)
        ftk_report(FTKIT_WARNING,
            "context %s: the run has finished, and is not marked as finished: %s. A later start "
            "continues from its sets, also with other arguments",
            ctx->cfg.name, done ? m->why : why);
    if (m)
        ftk_errand_drop(&m->errand);
}

/* ---- at a start ---------------------------------------------------------------------- */

static void compare_mark(struct ftk_errand *e)
{
    struct marking *m = (struct marking *)e;
    m->rc = ftk_finished_read(m->dir, m->context, &m->mark);
    if (m->rc == FTKIT_OK)
        m->differs = ftk_finished_differs(&m->mark, &m->start, m->why, sizeof m->why);
    else if (m->rc != FTKIT_ERR_NOT_FOUND)
        snprintf(m->why, sizeof m->why, "%s", ftk_detail_text());
}

/* Whether the mark is of the run of this set, and the start is another `ftkit run`. */
static bool concerns(const struct ftk_finished *f, uint64_t run, uint64_t set)
{
    const uint64_t by = ftk_run_number();
    return f->run == run && set <= f->committed && (by == 0 || by != f->by);
}

int ftk_start_finished(struct ftkit_ctx *ctx, uint64_t run, uint64_t set, bool from_files)
{
    int rc = FTKIT_OK;
    if (ctx->rank != 0 || set == 0 || !ctx->cfg.h5_enabled || ctx->cfg.start != FTK_START_NEWEST)
        return FTKIT_OK;
    struct marking *m = new_marking(ctx, compare_mark);
    bool done = m != NULL;
    if (m && from_files)
        compare_mark(&m->errand);
    else if (m)
        done = ftk_flush_errand(ctx, &m->errand, START_S);
    const bool known = done && m->rc == FTKIT_OK;
    const char *unsure =
        known && concerns(&m->mark, run, set) ? ftk_finished_unsure(&m->mark) : NULL;
    if (known && m->differs && concerns(&m->mark, run, set))
        rc = ftk_fail(FTKIT_ERR_FORMAT,
            "the run of set %" PRIu64 " has finished, and this start differs: %s. `ftkit run "
            "--fresh` begins a new run (recover.start = fresh), `ftkit run --continue` goes on "
            "from the set (recover.start = continue); sets in %s",
            set, m->why, ctx->cfg.h5_dir);
    else if (unsure)
        ftk_report(FTKIT_WARNING,
            "context %s: the run of set %" PRIu64 " has finished; the file of its argument '%s' "
            "changed while the run computed, and is not compared",
            ctx->cfg.name, set, unsure);
    else if (!known && !(done && m->rc == FTKIT_ERR_NOT_FOUND))
        ftk_report(FTKIT_WARNING,
            "context %s: whether the run of set %" PRIu64 " has finished is not known: %s",
            ctx->cfg.name, set,
            done ? m->why
            : m  ? "the file system does not answer"
                 : "no memory");
    if (m && from_files)
        free(m);
    else if (m)
        ftk_errand_drop(&m->errand);
    return rc;
}
