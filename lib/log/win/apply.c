/* One-sided operations at their target.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "log/base/saved.h"
#include "log/base/typemap.h"
#include "log/coll/coll.h"
#include "log/win/near.h"
#include "log/win/win.h"

/* ---- combining ----------------------------------------------------------------------- */

/* Whether elements can be combined where they are. */
static bool is_direct(const struct ftk_win_target *t)
{
    const struct ftk_dtype *f;
    return t->type == t->element && ftk_dtype_facts(t->type, &f) == MPI_SUCCESS
           && ftk_dtype_is_flat(f, t->at);
}

/* As many elements as bytes of data are, in memory of their own: *first is the first of them. */
static int elements(
    const char *data, size_t bytes, MPI_Datatype element, size_t *n, char **memory, char **first)
{
    MPI_Aint low, extent, true_low, true_extent;
    const struct ftk_dtype *f;
    int rc = ftk_dtype_facts(element, &f);
    if (rc == MPI_SUCCESS)
        rc = PMPI_Type_get_extent(element, &low, &extent);
    if (rc == MPI_SUCCESS)
        rc = PMPI_Type_get_true_extent(element, &true_low, &true_extent);
    if (rc != MPI_SUCCESS || f->bytes == 0)
        return rc != MPI_SUCCESS ? rc : MPI_ERR_TYPE;
    *n = bytes / (size_t)f->bytes;
    *memory = calloc(*n + 1, (size_t)(extent > true_extent ? extent : true_extent));
    if (!*memory)
        return MPI_ERR_NO_MEM;
    *first = *memory - true_low;
    return ftk_dtype_unpack(data, bytes, *first, (int)*n, element);
}

/* old [bytes] are the packed data of the target, and become the combined ones. */
static int combine_apart(const struct ftk_win_target *t, MPI_Op op, char *old)
{
    char *memory[2] = { NULL, NULL }, *first[2] = { NULL, NULL };
    size_t n[2] = { 0, 0 };
    int rc = elements(t->data, t->bytes, t->element, &n[0], &memory[0], &first[0]);
    if (rc == MPI_SUCCESS)
        rc = elements(old, t->bytes, t->element, &n[1], &memory[1], &first[1]);
    if (rc == MPI_SUCCESS)
        rc = PMPI_Reduce_local(first[0], first[1], (int)n[0], t->element, op);
    if (rc == MPI_SUCCESS)
        rc = ftk_dtype_pack(first[1], (int)n[1], t->element, old, t->bytes);
    free(memory[0]);
    free(memory[1]);
    return rc;
}

static int combine(const struct ftk_win_target *t)
{
    const MPI_Op op = t->op;
    char *old = NULL;
    size_t bytes = 0;
    if (op == MPI_NO_OP || t->bytes == 0)
        return MPI_SUCCESS;
    if (op == MPI_REPLACE)
        return ftk_dtype_unpack(t->data, t->bytes, t->at, t->count, t->type);
    if (is_direct(t))
        return PMPI_Reduce_local(t->data, t->at, t->count, t->type, op);
    int rc = ftk_dtype_packed(t->at, t->count, t->type, &old, &bytes);
    if (rc == MPI_SUCCESS && bytes != t->bytes)
        rc = MPI_ERR_TYPE;
    if (rc == MPI_SUCCESS)
        rc = combine_apart(t, op, old);
    if (rc == MPI_SUCCESS)
        rc = ftk_dtype_unpack(old, bytes, t->at, t->count, t->type);
    free(old);
    return rc;
}

/* The data are the value, then the one to compare with; the reply has the old one. */
static int swap(const struct ftk_win_target *t)
{
    const size_t one = t->bytes / 2;
    if (memcmp(t->reply, t->data + one, one) != 0)
        return MPI_SUCCESS;
    return ftk_dtype_unpack(t->data, one, t->at, t->count, t->type);
}

/* ---- operations ---------------------------------------------------------------------- */

int ftk_win_apply_one(const struct ftk_win_target *t)
{
    int rc = MPI_SUCCESS;
    if (t->reply_bytes > 0)
        rc = ftk_dtype_pack(t->at, t->count, t->type, t->reply, t->reply_bytes);
    (void)FTK_FAULT("win.combine");
    if (rc != MPI_SUCCESS)
        return rc;
    switch (t->kind) {
    case FTK_WIN_PUT:
        return ftk_dtype_unpack(t->data, t->bytes, t->at, t->count, t->type);
    case FTK_WIN_GET:
        return MPI_SUCCESS;
    case FTK_WIN_SWAP:
        return swap(t);
    default:
        return combine(t);
    }
}

static int forget_and_free(MPI_Datatype *type)
{
    ftk_dtype_forget(*type);
    return PMPI_Type_free(type);
}

/* Where the operation goes.  Of a dynamic window: the status is the first word of the reply. */
static int locate(
    const struct ftk_win *w, uint64_t offset, struct ftk_win_target *t, bool *attached)
{
    ptrdiff_t low, end;
    *attached = true;
    t->at = (char *)((uintptr_t)w->base + (uintptr_t)offset);
    if (!w->dynamic)
        return MPI_SUCCESS;
    int rc = ftk_saved_span((size_t)t->count, t->type, &low, &end);
    if (rc != MPI_SUCCESS)
        return rc;
    *attached = ftk_win_attached(w, offset, low, end, &t->at);
    const uint64_t status = *attached ? MPI_SUCCESS : MPI_ERR_RMA_RANGE;
    memcpy(t->reply, &status, sizeof status);
    t->reply += sizeof status;
    if (!*attached && t->reply_bytes > 0)
        memset(t->reply, 0, t->reply_bytes);
    return rc;
}

/* The operation at head: *used: how many bytes it has; *reply moves behind its result. */
static int apply_at(struct ftk_win *w, const uint64_t *head, size_t *used, char **reply)
{
    const uint64_t *words = head + FTK_WIN_OP_HEAD;
    const uint64_t *const end = words + head[FTK_WIN_OP_WORDS];
    struct ftk_types types;
    if (ftk_types_read(&words, end, head[FTK_WIN_OP_NTYPES], &types) != FTKIT_OK)
        return MPI_ERR_NO_MEM; /* the types are right at their origin */
    struct ftk_win_target t = { .kind = (enum ftk_win_op)head[FTK_WIN_OP_KIND],
        .op = ftk_coll_op_numbered(head[FTK_WIN_OP_OP]),
        .data = (const char *)end,
        .bytes = head[FTK_WIN_OP_BYTES],
        .count = (int)head[FTK_WIN_OP_COUNT],
        .type = ftk_types_of(&types, head[FTK_WIN_OP_TYPE]),
        .element = ftk_types_of(&types, head[FTK_WIN_OP_ELEMENT]),
        .reply = *reply,
        .reply_bytes = head[FTK_WIN_OP_REPLY] };
    bool attached;
    int rc = locate(w, head[FTK_WIN_OP_OFFSET], &t, &attached);
    if (rc == MPI_SUCCESS && attached)
        rc = ftk_win_apply_one(&t);
    ftk_types_free(&types, forget_and_free);
    *reply = t.reply + t.reply_bytes;
    *used = (size_t)((const char *)end - (const char *)head) + ftk_win_padded(t.bytes);
    return rc;
}

int ftk_win_apply(struct ftk_win *w, const char *data, size_t bytes, char *reply)
{
    int rc = FTK_FAULT("win.memory") ? MPI_ERR_NO_MEM : MPI_SUCCESS;
    if (!ftk_win_near_lock(w, w->vc->rank))
        return ftk_log_error(); /* all ranks go back */
    for (size_t at = 0, used = 0; rc == MPI_SUCCESS && at < bytes; at += used)
        rc = apply_at(w, (const uint64_t *)(const void *)(data + at), &used, &reply);
    ftk_win_near_unlock(w, w->vc->rank);
    (void)FTK_FAULT("win.applied");
    return rc;
}
