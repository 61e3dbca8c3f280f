/* Operations on the memory of a rank of this node, without messages (near.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A target that has not been asked yet, and one whose epoch has not begun, get the operation by the
 * queue. */
#include <stdlib.h>
#include <string.h>

#include "log/win/near.h"
#include "log/win/passive.h"
#include "log/win/win.h"

/* ---- operations ---------------------------------------------------------------------- */

/* One side of an operation in the memory of this process.  Either its bytes where they are, or a
 * copy without gaps. */
struct side {
    char *bytes, *copy;
};

static bool is_flat(const void *buf, MPI_Datatype type)
{
    const struct ftk_dtype *f;
    return ftk_dtype_facts(type, &f) == MPI_SUCCESS && ftk_dtype_is_flat(f, buf);
}

static int open_side(struct side *s, char *buf, MPI_Datatype type, size_t bytes)
{
    s->copy = is_flat(buf, type) ? NULL : malloc(bytes + 1);
    s->bytes = s->copy ? s->copy : buf;
    return s->copy || is_flat(buf, type) ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

/* The data of an operation. */
static int open_origin(struct side *s, const struct ftk_win_operation *o, size_t bytes)
{
    int rc = open_side(s, (char *)(uintptr_t)o->origin, o->origin_type, bytes);
    if (rc == MPI_SUCCESS && s->copy)
        rc = ftk_dtype_pack(o->origin, o->origin_count, o->origin_type, s->copy, bytes);
    return rc;
}

static int put(const struct ftk_win_operation *o, char *at, size_t bytes)
{
    struct side s = { 0 };
    if (is_flat(o->origin, o->origin_type) && is_flat(at, o->type)) {
        memmove(at, o->origin, bytes); /* of the own rank both may be in the window */
        return MPI_SUCCESS;
    }
    int rc = open_origin(&s, o, bytes);
    if (rc == MPI_SUCCESS)
        rc = ftk_dtype_unpack(s.bytes, bytes, at, o->count, o->type);
    free(s.copy);
    return rc;
}

static int get(const struct ftk_win_operation *o, const char *at, size_t bytes)
{
    struct side s = { 0 };
    if (is_flat(o->result, o->result_type) && is_flat(at, o->type)) {
        memmove(o->result, at, bytes);
        return MPI_SUCCESS;
    }
    int rc = open_side(&s, o->result, o->result_type, bytes);
    if (rc == MPI_SUCCESS)
        rc = ftk_dtype_pack(at, o->count, o->type, s.bytes, bytes);
    if (rc == MPI_SUCCESS && s.copy)
        rc = ftk_dtype_unpack(s.copy, bytes, o->result, o->result_count, o->result_type);
    free(s.copy);
    return rc;
}

/* Combine, with the word of the target.  Where a process that has ended has the word, the program
 * gets the error of all calls while the job goes back. */
static int combine_alone(struct ftk_win *w, int target, const struct ftk_win_target *t)
{
    if (ftk_win_near_lock(w, target)) {
        const int rc = ftk_win_apply_one(t);
        ftk_win_near_unlock(w, target);
        return rc;
    }
    ftk_log_note_failure();
    const int rc = ftk_win_serve_once(w);
    return rc == MPI_SUCCESS ? ftk_log_error() : rc;
}

/* The elements that MPI_Compare_and_swap has are short. */
enum { SWAP_BYTES = 16 };

static int swap(struct ftk_win *w, const struct ftk_win_operation *o, char *at, size_t bytes)
{
    char both[2 * SWAP_BYTES], old[SWAP_BYTES];
    int rc = ftk_dtype_pack(o->origin, 1, o->type, both, bytes);
    if (rc == MPI_SUCCESS)
        rc = ftk_dtype_pack(o->compare, 1, o->type, both + bytes, bytes);
    if (rc != MPI_SUCCESS)
        return rc;
    const struct ftk_win_target t = { FTK_WIN_SWAP, o->op, both, 2 * bytes, at, 1, o->type, o->type,
        old, bytes };
    rc = combine_alone(w, o->target, &t);
    return rc == MPI_SUCCESS ? ftk_dtype_unpack(old, bytes, o->result, 1, o->type) : rc;
}

static int combine(struct ftk_win *w, const struct ftk_win_operation *o, char *at, size_t bytes)
{
    const bool fetches = o->kind == FTK_WIN_GET_ACCUMULATE;
    struct side data = { 0 }, result = { 0 };
    MPI_Datatype element;
    int rc = ftk_win_element(o->type, &element);
    if (rc == MPI_SUCCESS && o->op != MPI_NO_OP)
        rc = open_origin(&data, o, bytes);
    if (rc == MPI_SUCCESS && fetches)
        rc = open_side(&result, o->result, o->result_type, bytes);
    if (rc == MPI_SUCCESS) {
        const struct ftk_win_target t = { o->kind, o->op, data.bytes, bytes, at, o->count, o->type,
            element, result.bytes, fetches ? bytes : 0 };
        rc = combine_alone(w, o->target, &t);
    }
    if (rc == MPI_SUCCESS && result.copy)
        rc = ftk_dtype_unpack(result.copy, bytes, o->result, o->result_count, o->result_type);
    free(data.copy);
    free(result.copy);
    return rc;
}

static int operate(struct ftk_win *w, const struct ftk_win_operation *o, char *memory, size_t bytes)
{
    (void)FTK_FAULT("win.direct");
    if (bytes == 0) /* the displacement may be any number */
        return MPI_SUCCESS;
    char *const at = memory + o->disp * w->place[o->target].unit;
    switch (o->kind) {
    case FTK_WIN_PUT:
        return put(o, at, bytes);
    case FTK_WIN_GET:
        return get(o, at, bytes);
    case FTK_WIN_SWAP:
        return swap(w, o, at, bytes);
    default:
        return combine(w, o, at, bytes);
    }
}

/* Whether the target is in an epoch in which this rank may reach its memory.  Accumulates of a
 * fence, and of post and start, go into the queue: the target combines them in the order of
 * ranks. */
static bool is_exposed(const struct ftk_win *w, const struct ftk_win_operation *o)
{
    if (ftk_win_is_locked(w, o->target))
        return !ftk_win_awaits(w, o->target); /* operations keep their order */
    if (o->kind >= FTK_WIN_ACCUMULATE)
        return false;
    return w->nstart < 0 ? ftk_win_near_is_fenced(w, o->target)
                         : ftk_win_near_has_posted(w, o->target);
}

/* The memory of the target; NULL: it is not known yet, or never. */
char *ftk_win_find_memory(struct ftk_win *w, int target)
{
    char *memory = ftk_win_near_memory(w, target);
    if (!memory && ftk_win_near_may_ask(w, target)
        && ftk_win_ask_memory(w, target) == MPI_SUCCESS) /* else the next operation asks */
        ftk_win_near_asked(w, target);
    return memory;
}

/* In set-up there is no set to go back to: the log has the operations as messages. */
bool ftk_win_is_in_set_up(void)
{
    return ftk_log.line.none_yet || ftk_log_replays_setup();
}

bool ftk_win_direct(struct ftk_win *w, const struct ftk_win_operation *o, int *rc)
{
    size_t bytes = 0;
    if (!w->near || ftk_win_is_in_set_up())
        return false;
    char *memory = ftk_win_find_memory(w, o->target);
    if (!memory || !is_exposed(w, o))
        return false;
    *rc = ftk_dtype_size(o->count, o->type, &bytes);
    if (*rc == MPI_SUCCESS && o->kind == FTK_WIN_SWAP && bytes > SWAP_BYTES)
        return false;
    if (*rc == MPI_SUCCESS)
        *rc = operate(w, o, memory, bytes);
    if (*rc == MPI_SUCCESS && ftk_win_is_locked(w, o->target))
        ftk_win_near_opened(w, o->target, o->kind != FTK_WIN_PUT && o->kind != FTK_WIN_ACCUMULATE);
    return true;
}

/* ---- addresses for the program ------------------------------------------------------- */

/* Nobody waits for the answer alone, which an error can cost.  With a lock the target also answers
 * a message of operations behind the question, and its answers keep their order. */
static int await_memory(struct ftk_win *w, int target)
{
    int rc = ftk_win_push(w, target, false);
    return rc == MPI_SUCCESS ? ftk_win_wait_for(w, target, w->passive->sent[target]) : rc;
}

static int address_of(struct ftk_win *w, int rank, char **memory)
{
    int rc = MPI_SUCCESS;
    *memory = rank == w->vc->rank ? w->base : NULL;
    if (*memory || ftk_win_is_in_set_up() || !ftk_win_is_locked(w, rank))
        return rc;
    *memory = ftk_win_find_memory(w, rank);
    if (!*memory && ftk_win_near_is_asked(w, rank)) {
        rc = await_memory(w, rank);
        *memory = ftk_win_near_memory(w, rank);
    }
    if (*memory)
        ftk_win_near_show(w, rank);
    return rc;
}

/* MPI_PROC_NULL: the first rank whose memory this process has. */
int ftk_win_direct_part(struct ftk_win *w, int rank, MPI_Aint *size, int *unit, void *baseptr)
{
    const bool any = rank == MPI_PROC_NULL;
    if (!any && (rank < 0 || rank >= w->vc->size))
        return MPI_ERR_RANK;
    char *memory = NULL;
    int rc = MPI_SUCCESS, i = any ? 0 : rank;
    for (; rc == MPI_SUCCESS && !memory && i < (any ? w->vc->size : rank + 1); i++)
        if (w->place[i].size > 0)
            rc = address_of(w, i, &memory);
    if (rc != MPI_SUCCESS)
        return rc;
    *size = memory ? (MPI_Aint)w->place[i - 1].size : 0;
    *unit = memory ? (int)w->place[i - 1].unit : 0;
    *(void **)baseptr = memory;
    return rc;
}
