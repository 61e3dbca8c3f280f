/* Log entries with the same bytes: one copy serves all of them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A program often sends one buffer to many ranks, and so does a collective.  An entry of FTK_AWAY
 * bytes or more points to its bytes, so entries can point to one copy.  A copy lives as long as all
 * entries of its interval between two cuts, so copies need no counter: the chunks of the log are
 * emptied at once.  No entry shares a copy of an earlier interval.
 * [Application-level message logging: Meneses, PhD thesis, University of Illinois 2013, A.1] */
#include <string.h>

#include "log/base/dtype.h"
#include "log/base/part.h"

#define LAST 8 /* copies that a new message is compared with, at most */

/* The copies made last. */
static struct copy {
    const void *buf; /* the message of which it is a copy */
    int count;
    MPI_Datatype type;
    size_t bytes;   /* a freed type may have had the same handle, and another size */
    uint64_t fence; /* of that message: ftk_slog_fence() */
    char *data;     /* [bytes of the message]; NULL: none */
} last[LAST];
static unsigned oldest;
static uint64_t fence; /* of the sends that are beginning */

void ftk_slog_fence(uint64_t number)
{
    fence = number;
}

/* The copy of an earlier message of the same memory, or the place for another one. */
static struct copy *look_up(const void *buf, int count, MPI_Datatype type, size_t bytes)
{
    for (size_t i = 0; i < LAST; i++)
        if (last[i].buf == buf && last[i].count == count && last[i].type == type
            && last[i].bytes == bytes && last[i].data)
            return &last[i];
    struct copy *c = &last[oldest++ % LAST];
    *c = (struct copy){ .buf = buf, .count = count, .type = type, .bytes = bytes };
    return c;
}

/* Whether a copy has the bytes that its memory has now.  Nobody changes the memory between two
 * fences of a collective. */
static bool has_same(const struct copy *c, const struct ftk_dtype *f, size_t bytes)
{
    return c->data
           && ((fence != 0 && c->fence == fence)
               || (ftk_dtype_is_flat(f, c->buf) && memcmp(c->data, c->buf, bytes) == 0));
}

static int keep_away(struct ftk_entry *e, const struct ftk_dtype *f, struct copy *c)
{
    if (!has_same(c, f, e->bytes)) {
        c->data = NULL;
        char *data = ftk_slog_room(e->bytes);
        int rc = data ? ftk_dtype_pack_known(f, c->buf, c->count, data, e->bytes) : MPI_ERR_NO_MEM;
        if (rc != MPI_SUCCESS)
            return rc;
        c->data = data;
    }
    c->fence = fence;
    ftk_entry_away(e)->data = c->data;
    return MPI_SUCCESS;
}

int ftk_slog_keep(struct ftk_entry *e, const void *buf, int count, MPI_Datatype type)
{
    const struct ftk_dtype *f;
    int rc = ftk_dtype_facts(type, &f);
    if (rc == MPI_SUCCESS && e->away)
        rc = keep_away(e, f, look_up(buf, count, type, e->bytes));
    else if (rc == MPI_SUCCESS)
        rc = ftk_dtype_pack_known(f, buf, count, ftk_entry_data(e), e->bytes);
    if (rc == MPI_SUCCESS)
        ftk_slog_seal(e);
    return rc;
}

/* ---- the part ------------------------------------------------------------------------ */

static void forget(void)
{
    memset(last, 0, sizeof last);
    oldest = 0;
    fence = 0;
}

/* Entries before the cut go when the set is committed, and their copies with them. */
static int cut(bool apart)
{
    if (apart)
        forget();
    return FTKIT_OK;
}

static void pass_line(enum ftk_pass kind, bool first)
{
    (void)first;
    if (kind != FTK_PASS_CUT)
        forget();
}

static int roll_back(const struct ftk_rollback *b)
{
    (void)b;
    forget();
    return FTKIT_OK;
}

const struct ftk_part ftk_part_same = {
    .close = forget, .cut = cut, .line = pass_line, .roll_back = roll_back
};
