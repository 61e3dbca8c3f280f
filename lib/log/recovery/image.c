/* The log's part of a checkpoint set.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "log/coll.h"
#include "log/comm.h"
#include "log/matrix.h"
#include "log/det.h"
#include "log/p2p.h"
#include "log/part.h"
#include "log/plane.h"
#include "log/recovery.h"
#include "log/set_up.h"
#include "store/h5/h5.h"
#include "steps.h"
#include "tail.h"

enum { STATE_MAGIC = 0x6c6b7466, STATE_VERSION = 6, HEAD = 9, MESSAGE = 4 };
enum {
    STATE_OLDEST = 2,   /* this version has no remote groups (vcomm_image.c) */
    STATE_REQUESTS = 4, /* the first version that has requests */
    STATE_TAIL = 5,     /* the first version that has a tail; older heads lack its length */
    STATE_SET_UP = 6    /* the first version that has the record of set-up; the same */
};

/* ---- the state in the segment -----------------------------------------------------------
 * Words of 64 bits, little-endian: the communicators with their counts of collectives; messages and
 * bytes sent to each rank since the first line; the unexpected messages; the set-up log; the record
 * of set-up (set_up.h); the tail of a line apart (tail.h); what is under way (requests.c).  A state
 * of version 2 has no contexts from FTK_LOG_EXTRA on; versions 2 and 3 have nothing under way;
 * versions 2 to 4 have no tail; versions 2 to 5 have no record of set-up, and their set-up log does
 * not name receives.
 *
 * At a line apart the state is that of the cut.  So everything that changes after the cut is
 * written at the cut; late messages and the tail are added when they are known. */

/* The state at a cut. */
static struct {
    bool there, settled;
    uint64_t head[HEAD];
    struct ftk_words front;    /* communicators, matrix, unexpected messages */
    struct ftk_words requests; /* what is under way */
    struct ftk_words tail;
    const struct ftk_unexp *late; /* of late.c */
} cut;

#define LEAST_MORE ((size_t)64 << 10)
static size_t more; /* bytes for what comes after a cut, by the sets before; 0: none was measured */

static bool version_is_known(uint64_t word)
{
    return (uint32_t)word == STATE_MAGIC && word >> 32 >= STATE_OLDEST
           && word >> 32 <= STATE_VERSION;
}

static size_t list_bytes(const struct ftk_unexp *h)
{
    size_t bytes = 0;
    for (; h; h = h->next)
        bytes += (MESSAGE + (h->bytes + 7) / 8) * sizeof(uint64_t);
    return bytes;
}

static size_t list_length(const struct ftk_unexp *h)
{
    size_t n = 0;
    for (; h; h = h->next)
        n++;
    return n;
}

static size_t live_comms(void)
{
    size_t n = 0;
    for (const struct ftk_vcomm *v = ftk_log.vcomms.list; v; v = v->next)
        n += !v->freed;
    return n;
}

/* After a cut and before the tail is known: as many bytes as the state will probably have. */
static size_t cut_bytes(void)
{
    size_t bytes =
        (HEAD + cut.front.n + cut.requests.n + cut.tail.n + ftk_set_up_words()) * sizeof(uint64_t)
        + list_bytes(ftk_log.setup_log.first);
    return bytes + (cut.settled ? list_bytes(cut.late) : LEAST_MORE + more);
}

static int measure_state(void *arg, size_t *bytes)
{
    (void)arg;
    if (cut.there) {
        *bytes = cut_bytes();
        return 0;
    }
    *bytes = (HEAD + ftk_vcomm_images_words() + FTK_MATRIX_WORDS * ftk_matrix_length()
                 + ftk_set_up_words())
                 * sizeof(uint64_t)
             + list_bytes(ftk_log.unexp.first) + list_bytes(ftk_log.setup_log.first)
             + ftk_requests_words()->n * sizeof(uint64_t);
    return 0;
}

static uint64_t *write_list(uint64_t *w, const struct ftk_unexp *h)
{
    for (; h; h = h->next) {
        *w++ = (uint64_t)h->context;
        *w++ = ftk_log_to_plane(h->source);
        *w++ = (uint64_t)(uint32_t)h->tag | (uint64_t)h->receive << 32;
        *w++ = h->bytes;
        size_t words = (h->bytes + 7) / 8;
        if (words > 0)
            w[words - 1] = 0;
        memcpy(w, h->data, h->bytes);
        w += words;
    }
    return w;
}

enum { MAGIC, COMMS, UNEXPECTED, SETUP, CALLS, MATRIX, RANKS, TAIL, RECORD }; /* of the head */

static void write_head(uint64_t *head)
{
    const struct ftk_log *l = &ftk_log;
    head[MAGIC] = STATE_MAGIC | (uint64_t)STATE_VERSION << 32;
    head[COMMS] = live_comms();
    head[UNEXPECTED] = list_length(l->unexp.first);
    head[SETUP] = list_length(l->setup_log.first);
    head[CALLS] = l->ctx->policy.calls;
    head[MATRIX] = ftk_matrix_length();
    head[RANKS] = (uint64_t)ftk_log_plane_size();
    head[TAIL] = 0;
    head[RECORD] = ftk_set_up_words();
}

static uint64_t *write_front(uint64_t *w)
{
    w = ftk_vcomm_images_write(w);
    w = ftk_matrix_write(w);
    return write_list(w, ftk_log.unexp.first);
}

static uint64_t *write_words(uint64_t *w, const struct ftk_words *words)
{
    if (words->n > 0)
        memcpy(w, words->v, words->n * sizeof *w);
    return w + words->n;
}

static uint64_t *write_cut(uint64_t *w)
{
    memcpy(w, cut.head, sizeof cut.head);
    w[UNEXPECTED] += list_length(cut.late);
    w[TAIL] = cut.tail.n;
    w = write_words(w + HEAD, &cut.front);
    w = write_list(w, cut.late);
    w = ftk_set_up_write(write_list(w, ftk_log.setup_log.first));
    w = write_words(w, &cut.tail);
    return write_words(w, &cut.requests);
}

static uint64_t *write_now(uint64_t *w)
{
    write_head(w);
    w = write_front(w + HEAD);
    w = ftk_set_up_write(write_list(w, ftk_log.setup_log.first));
    return write_words(w, ftk_requests_words());
}

static int pack_state(void *arg, void *to, size_t bytes)
{
    (void)arg;
    const uint64_t *w = cut.there ? write_cut(to) : write_now(to);
    return (size_t)((const char *)w - (char *)to) == bytes
               ? FTKIT_OK
               : ftk_fail(FTKIT_ERR_INTERNAL, "state of the message log: another size");
}

/* ---- line apart ---------------------------------------------------------------------- */

/* The set of the cut is over. */
static void drop(void)
{
    ftk_words_free(&cut.front);
    ftk_words_free(&cut.requests);
    ftk_words_free(&cut.tail);
    memset(&cut, 0, sizeof cut);
}

int ftk_image_cut(void)
{
    const struct ftk_words *requests = ftk_requests_words();
    const size_t words = ftk_vcomm_images_words() + FTK_MATRIX_WORDS * ftk_matrix_length()
                         + list_bytes(ftk_log.unexp.first) / sizeof(uint64_t);
    drop();
    write_head(cut.head);
    uint64_t *front = ftk_words_extend(&cut.front, words);
    uint64_t *under_way = ftk_words_extend(&cut.requests, requests->n);
    if ((!front && words > 0) || (!under_way && requests->n > 0))
        return ftk_fail(FTKIT_ERR_NOMEM, "state of the message log");
    if (words > 0 && (size_t)(write_front(front) - front) != words)
        return ftk_fail(FTKIT_ERR_INTERNAL, "state of the message log: another size");
    (void)write_words(under_way, requests);
    cut.there = true;
    return FTKIT_OK;
}

int ftk_image_settle(void)
{
    int rc = ftk_late_settle(&cut.late);
    cut.settled = true;
    if (rc != FTKIT_OK)
        return rc; /* the set is given up */
    ftk_log.stats.late += ftk_late_count();
    rc = ftk_tail_write(&cut.tail);
    const size_t bytes = list_bytes(cut.late) + cut.tail.n * sizeof(uint64_t);
    more = 2 * bytes > more ? 2 * bytes : more;
    return rc;
}

static void close_image(void)
{
    drop();
    more = 0;
}

static void pass_line(enum ftk_pass kind, bool first)
{
    (void)kind;
    (void)first;
    drop();
}

static int roll_back(const struct ftk_rollback *b)
{
    (void)b;
    drop();
    return FTKIT_OK;
}

const struct ftk_part ftk_part_image = {
    .close = close_image, .line = pass_line, .discard = drop, .roll_back = roll_back
};

/* ---- reading ------------------------------------------------------------------------- */

/* Check every number: the state may come from a damaged file. */
struct reader {
    const uint64_t *w, *end;
};

static int read_message(struct reader *r, struct ftk_unexp **out)
{
    if (r->end - r->w < MESSAGE)
        return ftk_fail(FTKIT_ERR_FORMAT, "state of the message log: cut short");
    uint64_t bytes = r->w[3];
    if (bytes > (uint64_t)(r->end - r->w - MESSAGE) * 8
        || !(ftk_context_is_one(r->w[0]) || r->w[0] == FTK_LOG_COLLS)
        || r->w[1] >= (uint64_t)ftk_log_plane_size() || (uint32_t)r->w[2] > INT32_MAX)
        return ftk_fail(FTKIT_ERR_FORMAT, "state of the message log: a message is damaged");
    const int source = ftk_log_from_plane((int)r->w[1]);
    struct ftk_unexp *h = ftk_unexp_new((int)r->w[0], source, (int)r->w[2], (size_t)bytes);
    if (!h)
        return ftk_fail(FTKIT_ERR_NOMEM, "messages of the log");
    h->receive = (uint32_t)(r->w[2] >> 32);
    memcpy(h->data, r->w + MESSAGE, (size_t)bytes);
    r->w += MESSAGE + (bytes + 7) / 8;
    *out = h;
    return FTKIT_OK;
}

/* Give each message of a list to add(); NULL: only pass over the list. */
static int read_list(struct reader *r, uint64_t n, void (*add)(struct ftk_unexp *h))
{
    for (uint64_t i = 0; i < n; i++) {
        struct ftk_unexp *h = NULL;
        int rc = read_message(r, &h);
        if (rc != FTKIT_OK)
            return rc;
        if (add)
            add(h);
        else
            ftk_unexp_free(h);
    }
    return FTKIT_OK;
}

static bool has_tail(const uint64_t *head)
{
    return head[MAGIC] >> 32 >= STATE_TAIL;
}

static bool has_record(const uint64_t *head)
{
    return head[MAGIC] >> 32 >= STATE_SET_UP;
}

/* The record of set-up, of which a replay of set-up has taken what it needs. */
static int pass_record(struct reader *r, const uint64_t *head)
{
    if (!has_record(head))
        return FTKIT_OK;
    if (head[RECORD] > (uint64_t)(r->end - r->w))
        return ftk_fail(FTKIT_ERR_FORMAT, "state of the message log: cut short");
    r->w += head[RECORD];
    return FTKIT_OK;
}

static int read_head(const void *from, size_t bytes, struct reader *r, const uint64_t **head)
{
    r->w = from;
    r->end = r->w + bytes / 8;
    *head = r->w;
    if (bytes / sizeof(uint64_t) < HEAD || !version_is_known(r->w[MAGIC])
        || r->w[COMMS] > FTK_LOG_ALL || r->w[MATRIX] > bytes / 8 / FTK_MATRIX_WORDS)
        return ftk_fail(FTKIT_ERR_FORMAT, "state of the message log: not one");
    r->w += has_record(*head) ? HEAD : has_tail(*head) ? HEAD - 1 : HEAD - 2;
    return FTKIT_OK;
}

/* Read the communicators; the matrix follows. */
static int read_comms(struct reader *r, const uint64_t *head, bool make, bool colls)
{
    int rc = ftk_vcomm_images_read(&r->w, r->end, head[COMMS], make, colls);
    if (rc == FTKIT_OK && head[MATRIX] > (uint64_t)(r->end - r->w) / FTK_MATRIX_WORDS)
        rc = ftk_fail(FTKIT_ERR_FORMAT, "state of the message log: cut short");
    return rc;
}

/* A rank that is restored to a line apart counts its calls from its own cut. */
static int read_tail(struct reader *r, const uint64_t *head)
{
    if (head[TAIL] > (uint64_t)(r->end - r->w))
        return ftk_fail(FTKIT_ERR_FORMAT, "state of the message log: cut short");
    int rc = ftk_tail_read(r->w, (size_t)head[TAIL]);
    r->w += head[TAIL];
    if (rc == FTKIT_OK && head[TAIL] > 0)
        ftk_log.line.calls = head[CALLS];
    return rc;
}

/* Whether as many ranks of the program wrote the state. */
static bool is_of_as_many(const uint64_t *head)
{
    return head[RANKS] == (uint64_t)ftk_log_plane_size();
}

/* The lists of messages, and what is under way. */
static int unpack_messages(struct reader *r, const uint64_t *head)
{
    const bool replays = ftk_log_replays_setup();
    ftk_unexp_clear();
    int rc = read_list(r, head[UNEXPECTED], ftk_unexp_add);
    if (rc == FTKIT_OK && replays)
        ftk_setup_log_clear();
    if (rc == FTKIT_OK)
        rc = read_list(r, head[SETUP], replays ? ftk_setup_log_add : NULL);
    if (rc == FTKIT_OK)
        rc = pass_record(r, head);
    if (rc == FTKIT_OK && has_tail(head))
        rc = read_tail(r, head);
    if (rc == FTKIT_OK && head[MAGIC] >> 32 >= STATE_REQUESTS && is_of_as_many(head))
        rc = ftk_requests_load(ftk_log.ctx, r->w, r->end);
    return rc;
}

static int unpack_state(void *arg, const void *from, size_t bytes)
{
    struct ftk_log *l = &ftk_log;
    struct reader r;
    const uint64_t *head;
    (void)arg;
    int rc = read_head(from, bytes, &r, &head);
    if (rc != FTKIT_OK)
        return rc;
    /* this process has not been at the line of the set */
    bool first = l->ctx->where < FTK_IN_LOOP || l->line.of_sibling;
    ftk_requests_drop();
    if (ftk_log_is_rolling_back()) {
        ftk_parts_forget();
        if (!first)
            ftk_vcomm_back();
        else if (l->line.of_sibling)
            ftk_vcomm_leave();
    }
    bool make = (first || !ftk_log_is_rolling_back()) && is_of_as_many(head);
    rc = read_comms(&r, head, make, true);
    if (rc != FTKIT_OK)
        return rc;
    if ((ftk_log_is_rolling_back() || ftk_log_replays_setup())
        && !ftk_matrix_read(r.w, head[MATRIX]))
        return ftk_fail(FTKIT_ERR_FORMAT, "state of the message log: the matrix is damaged");
    r.w += FTK_MATRIX_WORDS * head[MATRIX];
    rc = ftk_det_back();
    if (rc != FTKIT_OK)
        return rc;
    if (first)
        ftk_vcomm_line(); /* the communicators of set-up are older than the line */
    return unpack_messages(&r, head);
}

const ftkit_serializer ftk_image_ops = { sizeof ftk_image_ops, measure_state, pack_state,
    unpack_state };

/* Read the set-up log from the state in the segment of this rank. */
static int read_setup_log(const void *seg)
{
    struct reader r;
    const uint64_t *head;
    const struct ftk_seg_region *rec = ftk_seg_find(seg, FTK_LOG_REGION);
    if (!rec)
        return ftk_fail(FTKIT_ERR_NOT_FOUND, "the set has no state of the message log");
    int rc = read_head(ftk_seg_data_c(seg) + rec->offset, rec->bytes, &r, &head);
    if (rc == FTKIT_OK && !has_record(head))
        rc = ftk_fail(FTKIT_ERR_FORMAT, "the set is of an earlier job, with another set-up");
    if (rc == FTKIT_OK)
        rc = read_comms(&r, head, false, false);
    if (rc != FTKIT_OK)
        return rc;
    r.w += FTK_MATRIX_WORDS * head[MATRIX];
    rc = read_list(&r, head[UNEXPECTED], NULL);
    if (rc == FTKIT_OK)
        rc = read_list(&r, head[SETUP], ftk_unexp_add);
    const uint64_t *record = r.w;
    if (rc == FTKIT_OK)
        rc = pass_record(&r, head);
    return rc == FTKIT_OK ? ftk_set_up_read(record, (size_t)head[RECORD]) : rc;
}

static int read_setup_log_of(struct ftkit_ctx *ctx, uint64_t set)
{
    struct ftk_h5_manifest m = { 0 };
    void *seg = NULL;
    size_t bytes;
    int rc = ftk_h5_open_set(ctx->cfg.h5_dir, ctx->cfg.name, set, false, &m);
    if (rc == FTKIT_OK && m.nranks != (uint32_t)ftk_log_plane_size())
        rc = ftk_fail(FTKIT_ERR_SIZE, "set %llu is of %u ranks", (unsigned long long)set, m.nranks);
    if (rc == FTKIT_OK)
        rc = ftk_h5_read(ctx->cfg.h5_dir, &m, (int)ftk_log_to_plane(ctx->rank), &seg, &bytes);
    if (rc == FTKIT_OK)
        rc = read_setup_log(seg);
    free(seg);
    ftk_h5_manifest_free(&m);
    return rc;
}

/* Read the set-up log from any set of the files: set-up precedes all sets.  Only ftkit_recover()
 * finds which set all ranks can use. */
static int read_setup_log_of_files(struct ftkit_ctx *ctx)
{
    uint64_t *sets = NULL;
    int n = 0;
    int rc =
        ctx->cfg.h5_enabled ? ftk_h5_list(ctx->cfg.h5_dir, ctx->cfg.name, &sets, &n) : FTKIT_OK;
    bool read = false;
    for (int i = 0; i < n && !read; i++) {
        read = read_setup_log_of(ctx, sets[i]) == FTKIT_OK;
        if (!read)
            ftk_unexp_clear(); /* messages of a damaged state */
    }
    free(sets);
    ftk_log.line.setup_unread = !read;
    return rc;
}

int ftk_log_read_setup(struct ftkit_ctx *ctx, uint64_t line)
{
    struct ftk_mem_seg *s = ftk_mem_find(&ctx->level[FTK_LEVEL_MEMORY].mem, line, ctx->rank);
    if (!s)
        return read_setup_log_of_files(ctx);
    int rc = ftk_mem_verify(s, "own copy");
    return rc == FTKIT_OK ? read_setup_log(s->buf) : rc;
}
