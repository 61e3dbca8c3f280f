/* Queues of one-sided operations: an operation becomes bytes of a message.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/grow.h"
#include "log/base/typemap.h"
#include "log/coll/coll.h"
#include "log/win/win.h"

/* ---- memory -------------------------------------------------------------------------- */

static int make_room(struct ftk_win_queue *q, size_t bytes)
{
    if (q->data && q->room - q->bytes >= bytes)
        return MPI_SUCCESS;
    size_t room = q->room ? q->room : 256;
    while (room - q->bytes < bytes)
        room *= 2;
    char *data = realloc(q->data, FTK_WIN_HEAD + room);
    if (!data)
        return MPI_ERR_NO_MEM;
    q->data = data;
    q->room = room;
    return MPI_SUCCESS;
}

static int room_to_fetch(struct ftk_win_queue *q)
{
    return ftk_grow(&q->fetch, &q->fetch_room, q->nfetch + 1, sizeof *q->fetch) ? MPI_SUCCESS
                                                                                : MPI_ERR_NO_MEM;
}

static int is_named(MPI_Datatype type, bool *named)
{
    int a, b, c, combiner;
    int rc = PMPI_Type_get_envelope(type, &a, &b, &c, &combiner);
    *named = rc == MPI_SUCCESS && combiner == MPI_COMBINER_NAMED;
    return rc;
}

void ftk_win_fetches_free(struct ftk_win_fetch *f, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool named = true;
        if (is_named(f[i].type, &named) == MPI_SUCCESS && !named) {
            ftk_dtype_forget(f[i].type);
            (void)PMPI_Type_free(&f[i].type); /* an error leaks the duplicate */
        }
    }
    free(f);
}

void ftk_win_queue_clear(struct ftk_win_queue *q)
{
    free(q->data);
    ftk_win_fetches_free(q->fetch, q->nfetch);
    *q = (struct ftk_win_queue){ 0 };
}

/* ---- adding -------------------------------------------------------------------------- */

/* What an operation takes in the message, besides its head. */
struct sizes {
    struct ftk_typemap map;
    uint64_t type, element; /* references */
    size_t data, reply;
};

/* A code of MPI for one of ftkit. */
static int code_of(int rc)
{
    return rc == FTKIT_OK                ? MPI_SUCCESS
           : rc == FTKIT_ERR_NOMEM       ? MPI_ERR_NO_MEM
           : rc == FTKIT_ERR_UNSUPPORTED ? MPI_ERR_TYPE
                                         : MPI_ERR_OTHER;
}

static bool combines(const struct ftk_win_operation *o)
{
    return o->kind >= FTK_WIN_ACCUMULATE;
}

static bool has_data(const struct ftk_win_operation *o)
{
    return o->kind != FTK_WIN_GET && !(combines(o) && o->op == MPI_NO_OP);
}

static bool has_result(const struct ftk_win_operation *o)
{
    return o->kind == FTK_WIN_GET || o->kind >= FTK_WIN_GET_ACCUMULATE;
}

static int measure(const struct ftk_win_operation *o, struct sizes *s)
{
    MPI_Datatype element;
    int rc = code_of(ftk_typemap_add(&s->map, o->type, &s->type));
    if (rc == MPI_SUCCESS && combines(o)) {
        rc = ftk_win_element(o->type, &element);
        if (rc == MPI_SUCCESS)
            rc = code_of(ftk_typemap_add(&s->map, element, &s->element));
    }
    if (rc == MPI_SUCCESS && has_data(o))
        rc = ftk_dtype_size(o->origin_count, o->origin_type, &s->data);
    if (o->kind == FTK_WIN_SWAP)
        s->data *= 2;
    if (rc == MPI_SUCCESS && has_result(o))
        rc = ftk_dtype_size(o->count, o->type, &s->reply);
    return rc;
}

static uint64_t *write_head(uint64_t *w, const struct ftk_win *win,
    const struct ftk_win_operation *o, const struct sizes *s)
{
    uint64_t op = 0;
    if (combines(o) && o->kind != FTK_WIN_SWAP)
        (void)ftk_coll_op_number(o->op, &op); /* predefined: it has a number */
    w[FTK_WIN_OP_KIND] = o->kind;
    w[FTK_WIN_OP_OP] = op;
    w[FTK_WIN_OP_OFFSET] = (uint64_t)(o->disp * win->place[o->target].unit);
    w[FTK_WIN_OP_COUNT] = (uint64_t)o->count;
    w[FTK_WIN_OP_TYPE] = s->type;
    w[FTK_WIN_OP_ELEMENT] = s->element;
    w[FTK_WIN_OP_NTYPES] = s->map.n;
    w[FTK_WIN_OP_WORDS] = s->map.w.n;
    w[FTK_WIN_OP_BYTES] = s->data;
    w[FTK_WIN_OP_REPLY] = s->reply;
    return ftk_words_save(&s->map.w, w + FTK_WIN_OP_HEAD);
}

static int write_data(const struct ftk_win_operation *o, const struct sizes *s, char *to)
{
    const size_t one = o->kind == FTK_WIN_SWAP ? s->data / 2 : s->data;
    int rc = s->data > 0 ? ftk_dtype_pack(o->origin, o->origin_count, o->origin_type, to, one)
                         : MPI_SUCCESS;
    if (rc == MPI_SUCCESS && o->kind == FTK_WIN_SWAP)
        rc = ftk_dtype_pack(o->compare, 1, o->type, to + one, one);
    memset(to + s->data, 0, ftk_win_padded(s->data) - s->data);
    return rc;
}

/* The program may free the type of its result while the operation is under way. */
static int add_fetch(const struct ftk_win *w, const struct ftk_win_operation *o, size_t bytes)
{
    struct ftk_win_queue *q = &w->queue[o->target];
    struct ftk_win_fetch f = {
        .type = MPI_BYTE, .has_status = w->dynamic, .at = (uint64_t)o->disp
    };
    bool named = true;
    int rc = room_to_fetch(q);
    if (has_result(o)) {
        f.buf = o->result;
        f.count = o->result_count;
        f.type = o->result_type;
        f.bytes = bytes;
    }
    if (rc == MPI_SUCCESS)
        rc = is_named(f.type, &named);
    if (rc == MPI_SUCCESS && !named)
        rc = PMPI_Type_dup(o->result_type, &f.type);
    if (rc == MPI_SUCCESS)
        q->fetch[q->nfetch++] = f;
    return rc;
}

static int add(struct ftk_win *w, const struct ftk_win_operation *o, const struct sizes *s)
{
    struct ftk_win_queue *q = &w->queue[o->target];
    const size_t head = (FTK_WIN_OP_HEAD + s->map.w.n) * sizeof(uint64_t);
    const size_t bytes = head + ftk_win_padded(s->data);
    int rc = make_room(q, bytes);
    if (rc != MPI_SUCCESS)
        return rc;
    char *to = q->data + FTK_WIN_HEAD + q->bytes;
    (void)write_head((uint64_t *)(void *)to, w, o, s);
    rc = write_data(o, s, to + head);
    if (rc == MPI_SUCCESS && (has_result(o) || w->dynamic))
        rc = add_fetch(w, o, s->reply);
    if (rc != MPI_SUCCESS)
        return rc;
    q->bytes += bytes;
    q->reply += ftk_win_status_bytes(w) + s->reply;
    q->nops++;
    return rc;
}

int ftk_win_queue_add(struct ftk_win *w, const struct ftk_win_operation *o)
{
    struct sizes s = { 0 };
    int rc = measure(o, &s);
    if (rc == MPI_SUCCESS)
        rc = add(w, o, &s);
    ftk_typemap_free(&s.map);
    return rc;
}

/* ---- results ------------------------------------------------------------------------- */

/* The status of an operation on a dynamic window. */
static int outcome(const struct ftk_win_fetch *f, const char *reply)
{
    uint64_t status;
    memcpy(&status, reply, sizeof status);
    if (status == MPI_SUCCESS)
        return MPI_SUCCESS;
    ftk_report(FTKIT_ERROR,
        "rank %d: a one-sided operation on a dynamic window: its target has no attached range with "
        "all of the memory at address 0x%" PRIx64,
        ftk_log.me, f->at);
    return MPI_ERR_RMA_RANGE;
}

static int take_result(const struct ftk_win_fetch *f, const char *reply)
{
    size_t room;
    int rc = f->bytes > 0 ? ftk_dtype_size(f->count, f->type, &room) : MPI_SUCCESS;
    if (rc != MPI_SUCCESS || f->bytes == 0)
        return rc;
    if (room < f->bytes)
        return MPI_ERR_TRUNCATE;
    return ftk_dtype_unpack(reply, f->bytes, f->buf, f->count, f->type);
}

int ftk_win_queue_results(const struct ftk_win_fetch *f, size_t n, const char *reply)
{
    int rc = MPI_SUCCESS;
    for (size_t i = 0; i < n; i++) {
        int error = MPI_SUCCESS;
        if (f[i].has_status) {
            error = outcome(&f[i], reply);
            reply += sizeof(uint64_t);
        }
        if (error == MPI_SUCCESS)
            error = take_result(&f[i], reply);
        reply += f[i].bytes;
        if (error != MPI_SUCCESS && f[i].request && !f[i].request->freed_active) {
            f[i].request->error = error;
            error = MPI_SUCCESS;
        }
        rc = rc == MPI_SUCCESS ? error : rc;
    }
    return rc;
}
