/* The state of the log in sets of earlier versions: its sections have a fixed order and no names.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Words of 64 bits, little-endian: the communicators with their counts of collectives; messages and
 * bytes sent to each rank since the first line; the unexpected messages; the set-up log; the record
 * of set-up; the tail of a line apart; what is under way.  A state of version 2 has no contexts
 * from FTK_LOG_EXTRA on; versions 2 and 3 have nothing under way; versions 2 to 4 have no tail;
 * versions 2 to 5 have no record of set-up, and their set-up log does not name receives. */
#include "old_image.h"

#include "log/vcomm/comm.h"
#include "log/vcomm/vcomm_image.h"

enum { MAGIC, COMMS, UNEXPECTED, SETUP, CALLS, MATRIX, RANKS, TAIL, RECORD, HEAD };
enum { ROW = 3 /* words of the matrix for each rank */ };

/* What is left of the words. */
struct rest {
    const uint64_t *w, *end;
};

static int cut_short(void)
{
    return ftk_fail(FTKIT_ERR_FORMAT, "state of the message log: cut short");
}

/* Add the words up to end as a section; NULL: they are cut short. */
static int take(struct ftk_state *s, struct rest *r, const struct ftk_part *p, const uint64_t *end)
{
    struct ftk_state_section *to = &s->v[s->n];
    if (!end)
        return cut_short();
    *to = (struct ftk_state_section){ ftk_state_name(p), r->w, end };
    s->n++;
    r->w = end;
    return FTKIT_OK;
}

static const uint64_t *behind(const struct rest *r, uint64_t words)
{
    return words <= (uint64_t)(r->end - r->w) ? r->w + words : NULL;
}

static int split_messages(struct ftk_state *s, struct rest *r, const uint64_t *head)
{
    int rc = take(s, r, &ftk_part_unexp, ftk_messages_pass(r->w, r->end, head[UNEXPECTED]));
    if (rc == FTKIT_OK)
        rc = take(s, r, &ftk_part_set_up_log, ftk_messages_pass(r->w, r->end, head[SETUP]));
    if (rc == FTKIT_OK && s->version >= FTK_STATE_SET_UP)
        rc = take(s, r, &ftk_part_set_up, behind(r, head[RECORD]));
    return rc;
}

int ftk_old_image_split(struct ftk_state *s, const uint64_t *w, const uint64_t *end)
{
    const uint64_t *const head = w;
    const bool has_record = s->version >= FTK_STATE_SET_UP, has_tail = s->version >= FTK_STATE_TAIL;
    if (end - w < HEAD || head[COMMS] > FTK_LOG_ALL || head[MATRIX] > (uint64_t)(end - w) / ROW)
        return ftk_fail(FTKIT_ERR_FORMAT, "state of the message log: not one");
    s->calls = head[CALLS];
    s->ranks = head[RANKS];
    struct rest r = { w + (has_record ? HEAD : has_tail ? HEAD - 1 : HEAD - 2), end };
    int rc = take(s, &r, &ftk_part_vcomm, ftk_vcomm_images_pass(r.w, end, head[COMMS]));
    if (rc == FTKIT_OK)
        rc = take(s, &r, &ftk_part_matrix, behind(&r, ROW * head[MATRIX]));
    if (rc == FTKIT_OK)
        rc = split_messages(s, &r, head);
    if (rc == FTKIT_OK && has_tail)
        rc = take(s, &r, &ftk_part_tail, behind(&r, head[TAIL]));
    if (rc == FTKIT_OK && s->version >= FTK_STATE_REQUESTS)
        rc = take(s, &r, &ftk_part_under_way, end);
    return rc;
}
