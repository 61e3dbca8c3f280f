/* A kind of request for tests/rooms.t: a request is complete after so many looks, and then adds a
 * value to a word of the program.  A set has the word, the value and the number of looks so far.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>

#include "log/base/runtime.h"
#include "log/base/saved.h"
#include "log/request/req_ops.h"

struct countdown {
    uint64_t *word;
    uint64_t value, looks, had;
};

int countdown_make(MPI_Comm comm, uint64_t *word, uint64_t value, uint64_t looks, bool persistent,
    MPI_Request *request);

static struct countdown *of(const struct ftk_req *r)
{
    return (struct countdown *)(void *)r->own;
}

static void go_on(struct ftk_req *r, uint64_t had)
{
    of(r)->had = had;
    r->state = FTK_REQ_RUNNING;
    r->error = MPI_SUCCESS;
    r->seq = ++ftk_log.queue.seq;
}

static int start(struct ftk_req *r)
{
    go_on(r, 0);
    return MPI_SUCCESS;
}

static int progress(struct ftk_req *r)
{
    struct countdown *c = of(r);
    if (++c->had < c->looks)
        return MPI_SUCCESS;
    *c->word += c->value;
    ftk_status_make(&r->status, MPI_PROC_NULL, (int)c->had, 0);
    return ftk_req_finish(r, MPI_SUCCESS);
}

static int cancel(struct ftk_req *r)
{
    if (ftk_req_is_done(r))
        return MPI_SUCCESS;
    ftk_status_empty(&r->status);
    (void)ftk_req_finish(r, MPI_SUCCESS);
    return PMPI_Status_set_cancelled(&r->status, 1);
}

static void describe(const struct ftk_req *r, char *text, size_t room)
{
    snprintf(text, room, "a countdown of %llu looks", (unsigned long long)of(r)->looks);
}

static int save(struct ftk_saving *s, const struct ftk_req *r, uint64_t *head)
{
    const struct countdown *c = of(r);
    bool found;
    int rc = ftk_saving_place(s, c->word, 0, sizeof *c->word, &head[FTK_HEAD_PLACE], &found);
    if (rc != FTKIT_OK || !found)
        return rc != FTKIT_OK
                   ? rc
                   : ftk_saved_nowhere(s->ctx, r, (const char *)c->word, 0, sizeof *c->word);
    uint64_t *w = ftk_words_extend(&s->w, 3);
    if (!w)
        return ftk_fail(FTKIT_ERR_NOMEM, "a countdown of a set");
    w[0] = c->value;
    w[1] = c->looks;
    w[2] = c->had;
    return FTKIT_OK;
}

static int load(
    struct ftk_loading *l, struct ftk_req *r, const uint64_t *head, bool known, void **rest)
{
    const uint64_t *w = ftk_loading_take(l, 3);
    uint64_t *had = malloc(sizeof *had);
    void *p;
    if (!w || !had) {
        free(had);
        return w ? ftk_fail(FTKIT_ERR_NOMEM, "a countdown of a set") : ftk_loading_damaged();
    }
    *had = w[2];
    *rest = had;
    if (known)
        return FTKIT_OK;
    int rc = ftk_loading_address(l, &head[FTK_HEAD_PLACE], 0, sizeof(uint64_t), &p);
    r->own = rc == FTKIT_OK ? malloc(sizeof(struct countdown)) : NULL;
    if (!r->own)
        return rc == FTKIT_OK ? ftk_fail(FTKIT_ERR_NOMEM, "a countdown of a set") : rc;
    *of(r) = (struct countdown){ .word = p, .value = w[0], .looks = w[1] };
    return FTKIT_OK;
}

static void resume(struct ftk_req *r, const void *rest)
{
    const uint64_t *had = rest;
    ftk_report(FTKIT_DEBUG, "context %s: rank %d: a countdown goes on after %llu looks",
        ftk_log.ctx->cfg.name, ftk_log.me, (unsigned long long)*had);
    go_on(r, *had);
}

const struct ftk_req_ops ftk_req_kind_countdown = { .start = start,
    .progress = progress,
    .cancel = cancel,
    .describe = describe,
    .save = save,
    .load = load,
    .resume = resume };

int countdown_make(MPI_Comm comm, uint64_t *word, uint64_t value, uint64_t looks, bool persistent,
    MPI_Request *request)
{
    struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    struct ftk_req *r = vc && !ftk_log_is_rolling_back() ? ftk_req_new(vc) : NULL;
    *request = MPI_REQUEST_NULL;
    if (r)
        r->own = malloc(sizeof(struct countdown));
    if (!r || !r->own) {
        if (r)
            ftk_req_delete(r);
        return MPI_ERR_OTHER;
    }
    *of(r) = (struct countdown){ .word = word, .value = value, .looks = looks };
    r->kind = FTK_REQ_COUNTDOWN;
    if (persistent)
        ftk_req_persist(r);
    else
        go_on(r, 0);
    *request = ftk_req_handle(r);
    return MPI_SUCCESS;
}
