/* Moving segments between ranks (see stream.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "stream.h"

void ftk_stream_init(
    struct ftk_stream *s, bool send, int peer, int tag, uint64_t set, int rank, int nranks)
{
    *s = (struct ftk_stream){
        .send = send, .peer = peer, .tag = tag, .rank = rank, .set = set, .nranks = nranks
    };
    for (int i = 0; i < FTK_STREAM_WINDOW; i++)
        s->req[i] = MPI_REQUEST_NULL;
}

void ftk_stream_give(struct ftk_stream *s, struct ftk_mem_seg *seg)
{
    const struct ftk_seg_header *h = (const void *)seg->buf;
    s->seg = seg;
    s->sizes[0] = h->head_bytes;
    s->sizes[1] = h->data_bytes;
    s->ready = h->data_bytes;
    s->sealed = true;
}

static int post_bytes(struct ftk_chan *ch, struct ftk_stream *s, void *buf, size_t bytes)
{
    int slot = (s->first + s->npending) % FTK_STREAM_WINDOW;
    bool back = s->phase == FTK_STREAM_WANTED;
    bool send = s->send != back;
    int tag = back ? s->tag + FTK_STREAM_BACK : s->tag;
    int rc = send ? MPI_Isend(buf, (int)bytes, MPI_BYTE, s->peer, tag, ch->comm, &s->req[slot])
                  : MPI_Irecv(buf, (int)bytes, MPI_BYTE, s->peer, tag, ch->comm, &s->req[slot]);
    s->is_mask[slot] = false;
    if (rc != MPI_SUCCESS) {
        s->req[slot] = MPI_REQUEST_NULL;
        return ftk_chan_break(ch, rc, "moving a segment");
    }
    ch->sent += send ? bytes : 0;
    s->npending++;
    return FTKIT_OK;
}

/* ---- partial streams ----------------------------------------------------------------- */

static bool is_partial(const struct ftk_stream *s)
{
    return s->sizes[2] != 0;
}

static size_t chunks_of(const struct ftk_stream *s)
{
    return ftk_chunks(s->sizes[1]);
}

bool ftk_stream_partial(struct ftk_stream *s, uint64_t base, uint16_t *masks)
{
    s->part.wanted = calloc(ftk_chunks(s->sizes[1]) + 1, sizeof *s->part.wanted);
    if (!s->part.wanted)
        return false;
    s->part.masks = masks;
    s->sizes[2] = base;
    return true;
}

static void use_base(struct ftk_stream *s, const struct ftk_mem *mem)
{
    struct ftk_mem_seg *base = ftk_mem_find(mem, s->sizes[2], s->rank);
    if (!base || FTK_FAULT("stream.nobase")
        || ftk_seg_check_head(base->buf, base->bytes, "copy") != FTKIT_OK)
        return;
    const struct ftk_seg_header *h = (const void *)base->buf;
    if (FTK_FAULT("stream.base"))
        for (size_t at = (size_t)h->head_bytes; at < base->bytes; at += FTK_SEG_BLOCK)
            base->buf[at] ^= 1;
    s->part.base = ftk_seg_data_c(base->buf);
    s->part.base_bytes = (size_t)h->data_bytes;
}

static int accept_partial(struct ftk_stream *s, const struct ftk_mem *mem)
{
    struct ftk_partial *p = &s->part;
    p->masks = calloc(chunks_of(s) + 1, sizeof *p->masks);
    p->wanted = calloc(chunks_of(s) + 1, sizeof *p->wanted);
    p->sums = calloc(ftk_blocks(s->sizes[1]) + 1, sizeof *p->sums);
    if (!p->masks || !p->wanted || !p->sums)
        return ftk_fail(FTKIT_ERR_NOMEM, "changes of the copy of rank %d", s->rank);
    use_base(s, mem);
    return FTKIT_OK;
}

/* Return the first block of the next piece: adjacent blocks of the current chunk that are in masks.
 * *bytes 0: the chunk has no further piece. */
static size_t next_piece(const struct ftk_stream *s, const uint16_t *masks, size_t *bytes)
{
    size_t b = s->part.block, end = (s->part.chunk + 1) * FTK_CHUNK_BLOCKS;
    *bytes = 0;
    while (b < end && !ftk_mask_has(masks, b))
        b++;
    for (size_t i = b; i < end && ftk_mask_has(masks, i) && *bytes < FTK_STREAM_PIECE; i++)
        *bytes += ftk_block_bytes(s->sizes[1], i);
    return b;
}

static void next_chunk(struct ftk_stream *s)
{
    s->part.chunk++;
    s->part.block = s->part.chunk * FTK_CHUNK_BLOCKS;
    s->part.named = false;
}

/* Hand the mask of the current chunk to MPI.  True: the blocks of the chunk may follow.  False:
 * they are not ready (sender), or the mask has not come yet (receiver). */
static bool name_chunk(struct ftk_chan *ch, struct ftk_stream *s, int *rc)
{
    struct ftk_partial *p = &s->part;
    size_t end = (p->chunk + 1) * FTK_CHUNK_BYTES;
    if (p->named)
        return s->send || p->known > p->chunk;
    if (s->send && s->ready < end && s->ready < s->sizes[1])
        return false;
    int slot = (s->first + s->npending) % FTK_STREAM_WINDOW;
    *rc = post_bytes(ch, s, &p->masks[p->chunk], sizeof *p->masks);
    s->is_mask[slot] = p->named = *rc == FTKIT_OK;
    return s->send && p->named;
}

/* Post the blocks in masks.  named: the other side knows the masks; else each mask precedes the
 * blocks of its chunk. */
static int post_blocks(
    struct ftk_chan *ch, struct ftk_stream *s, const uint16_t *masks, bool named, bool *moved)
{
    struct ftk_partial *p = &s->part;
    int rc = FTKIT_OK;
    while (s->npending < FTK_STREAM_WINDOW && p->chunk < chunks_of(s)) {
        size_t bytes = 0;
        if (!named && !name_chunk(ch, s, &rc))
            return rc;
        if (s->npending == FTK_STREAM_WINDOW)
            break;
        size_t b = next_piece(s, masks, &bytes);
        if (bytes > 0)
            rc = post_bytes(ch, s, s->seg->buf + s->sizes[0] + b * FTK_SEG_BLOCK, bytes);
        if (rc != FTKIT_OK)
            return rc;
        p->block = b + ftk_blocks(bytes);
        if (bytes == 0)
            next_chunk(s);
        *moved = true;
    }
    return rc;
}

/* Copy from the base the blocks that are not sent, about one piece per call. */
static void carry(struct ftk_stream *s, bool *moved)
{
    struct ftk_partial *p = &s->part;
    size_t known = p->known * FTK_CHUNK_BLOCKS, blocks = ftk_blocks(s->sizes[1]);
    known = known < blocks ? known : blocks;
    for (size_t bytes = 0; p->carried < known && bytes < FTK_STREAM_PIECE; p->carried++) {
        size_t at = p->carried * FTK_SEG_BLOCK;
        size_t n = ftk_block_bytes(s->sizes[1], p->carried);
        *moved = true;
        if (ftk_mask_has(p->masks, p->carried))
            continue;
        if (!p->base || at + n > p->base_bytes) {
            ftk_mask_add(p->wanted, p->carried);
            continue;
        }
        char *to = s->seg->buf + s->sizes[0] + at;
        memcpy(to, p->base + at, n);
        p->sums[p->carried] = ftk_xxh3(to, n);
        bytes += n;
    }
}

/* The head has come: compare the copied blocks with its checksums. */
static void compare_carried(struct ftk_stream *s)
{
    struct ftk_partial *p = &s->part;
    const struct ftk_seg_header *h = (const void *)s->seg->buf;
    size_t wanted = 0;
    if (ftk_seg_check_head(s->seg->buf, s->seg->bytes, "a received copy") != FTKIT_OK
        || h->nblocks != ftk_blocks(s->sizes[1]))
        return; /* ftk_stream_run() reports the error */
    (void)FTK_FAULT("stream.compare");
    const uint64_t *sums = ftk_seg_sums(s->seg->buf);
    for (size_t b = 0; b < h->nblocks; b++) {
        if (ftk_mask_has(p->masks, b))
            continue;
        if (p->sums[b] != sums[b])
            ftk_mask_add(p->wanted, b);
        wanted += ftk_mask_has(p->wanted, b);
    }
    if (wanted > 0)
        ftk_report(FTKIT_WARNING,
            "set %llu: %zu blocks of the copy of rank %d cannot be used; they are sent",
            (unsigned long long)s->sizes[2], wanted, s->rank);
}

void ftk_stream_end(struct ftk_stream *s, int n)
{
    for (int i = 0; i < n; i++) {
        if (!s[i].send)
            free(s[i].part.masks);
        free(s[i].part.wanted);
        free(s[i].part.sums);
        s[i].part = (struct ftk_partial){ .masks = NULL };
    }
}

/* ---- all streams --------------------------------------------------------------------- */

/* Post the pieces of the data area that are ready and fit the window. */
static int post_data(struct ftk_chan *ch, struct ftk_stream *s, bool *moved)
{
    size_t limit = s->send ? s->ready : s->sizes[1];
    while (s->npending < FTK_STREAM_WINDOW && s->posted < limit) {
        size_t n = limit - s->posted;
        if (n > FTK_STREAM_PIECE)
            n = FTK_STREAM_PIECE;
        else if (n < FTK_STREAM_PIECE && limit < s->sizes[1])
            break; /* both sides use the same pieces: only the last one may be shorter */
        int rc = post_bytes(ch, s, s->seg->buf + s->sizes[0] + s->posted, n);
        if (rc != FTKIT_OK)
            return rc;
        s->posted += n;
        *moved = true;
    }
    return FTKIT_OK;
}

/* The sizes have come: check them and take a buffer. */
static int accept_sizes(struct ftk_mem *mem, struct ftk_stream *s)
{
    if (s->sizes[0] > SIZE_MAX / 4 || s->sizes[1] > SIZE_MAX / 4 || s->sizes[0] == 0)
        return ftk_fail(FTKIT_ERR_CORRUPT, "segment sizes from rank %d", s->peer);
    if (FTK_FAULT("stream.take"))
        return ftk_fail(FTKIT_ERR_NOMEM, "memory for the copy of rank %d", s->rank);
    int rc = is_partial(s) ? accept_partial(s, mem) : FTKIT_OK;
    if (rc != FTKIT_OK)
        return rc;
    return ftk_mem_take(
        mem, s->set, s->rank, s->nranks, (size_t)(s->sizes[0] + s->sizes[1]), &s->seg);
}

static void next_phase(struct ftk_stream *s)
{
    s->phase++;
    s->posted = 0;
    s->part.chunk = s->part.block = 0;
    if (s->phase != FTK_STREAM_WANTED)
        return;
    if (!is_partial(s))
        s->phase = FTK_STREAM_DONE;
    else if (!s->send)
        compare_carried(s);
}

static size_t wanted_bytes(const struct ftk_stream *s)
{
    return chunks_of(s) * sizeof *s->part.wanted;
}

static int post_range(
    struct ftk_chan *ch, struct ftk_stream *s, char *buf, size_t bytes, bool *moved)
{
    int rc = FTKIT_OK;
    while (rc == FTKIT_OK && s->npending < FTK_STREAM_WINDOW && s->posted < bytes) {
        size_t n = bytes - s->posted;
        n = n > FTK_STREAM_PIECE ? FTK_STREAM_PIECE : n;
        rc = post_bytes(ch, s, buf + s->posted, n);
        s->posted += n;
        *moved = true;
    }
    return rc;
}

static int post_more(struct ftk_chan *ch, struct ftk_stream *s, bool *moved)
{
    int rc = FTKIT_OK;
    switch (s->phase) {
    case FTK_STREAM_SIZES:
        if (s->posted == 0) {
            rc = post_bytes(ch, s, s->sizes, sizeof s->sizes);
            s->posted = sizeof s->sizes;
            *moved = true;
        }
        break;
    case FTK_STREAM_DATA:
        rc = is_partial(s) ? post_blocks(ch, s, s->part.masks, false, moved)
                           : post_data(ch, s, moved);
        if (is_partial(s) && !s->send)
            carry(s, moved);
        break;
    case FTK_STREAM_HEAD:
        if (!s->send || s->sealed)
            rc = post_range(ch, s, s->seg->buf, (size_t)s->sizes[0], moved);
        break;
    case FTK_STREAM_WANTED:
        rc = post_range(ch, s, (char *)s->part.wanted, wanted_bytes(s), moved);
        break;
    case FTK_STREAM_AGAIN:
        rc = post_blocks(ch, s, s->part.wanted, true, moved);
        break;
    default:
        break;
    }
    return rc;
}

static bool phase_over(const struct ftk_stream *s)
{
    const size_t all[] = { sizeof s->sizes, (size_t)s->sizes[1], (size_t)s->sizes[0],
        wanted_bytes(s) };
    if (s->npending > 0)
        return false;
    if (s->phase == FTK_STREAM_AGAIN || (s->phase == FTK_STREAM_DATA && is_partial(s)))
        return s->part.chunk == chunks_of(s)
               && (s->send || s->part.carried == ftk_blocks(s->sizes[1]));
    return s->posted == all[s->phase];
}

/* Complete finished requests, in order, and post new ones into the window. */
static int advance(struct ftk_chan *ch, struct ftk_stream *s, int upto, bool *moved)
{
    int rc = FTKIT_OK;
    while (rc == FTKIT_OK && s->phase < upto) {
        int phase = s->phase;
        rc = post_more(ch, s, moved);
        while (rc == FTKIT_OK && s->npending > 0) {
            int done = 0;
            int mrc = MPI_Test(&s->req[s->first], &done, MPI_STATUS_IGNORE);
            if (mrc != MPI_SUCCESS) {
                s->req[s->first] = MPI_REQUEST_NULL;
                return ftk_chan_break(ch, mrc, "moving a segment");
            }
            if (!done)
                break;
            s->part.known += s->is_mask[s->first];
            s->first = (s->first + 1) % FTK_STREAM_WINDOW;
            s->npending--;
            *moved = true;
        }
        if (rc == FTKIT_OK && phase_over(s))
            next_phase(s);
        if (s->phase == phase)
            break;
    }
    return rc;
}

static int round_upto(
    struct ftk_chan *ch, struct ftk_stream *s, int n, int upto, bool *idle, bool *done)
{
    bool moved = false;
    int rc = FTKIT_OK;
    *done = true;
    for (int i = 0; rc == FTKIT_OK && i < n; i++) {
        if (s[i].phase < upto)
            rc = advance(ch, &s[i], upto, &moved);
        *done = *done && s[i].phase >= upto;
    }
    *idle = !moved;
    return rc;
}

int ftk_stream_progress(struct ftk_chan *ch, struct ftk_stream *s, int n, bool *idle, bool *done)
{
    return round_upto(ch, s, n, FTK_STREAM_DONE, idle, done);
}

static int run_upto(struct ftk_chan *ch, struct ftk_stream *s, int n, int upto)
{
    unsigned turns = 0;
    bool done = false;
    bool idle = false;
    int rc = FTKIT_OK;
    while (rc == FTKIT_OK && !done) {
        rc = round_upto(ch, s, n, upto, &idle, &done);
        if (idle)
            ftk_chan_progress(ch, &turns);
    }
    return rc;
}

/* The sizes are there: take the receivers' buffers; return the most severe error. */
static int take_buffers(struct ftk_mem *mem, struct ftk_stream *s, int n)
{
    int local = FTKIT_OK;
    for (int i = 0; i < n; i++) {
        if (s[i].send)
            continue;
        if (!s[i].seg && s[i].error == FTKIT_OK)
            s[i].error = accept_sizes(mem, &s[i]);
        if (s[i].error < local)
            local = s[i].error;
    }
    return local;
}

int ftk_stream_sizes_step(struct ftk_chan *ch, struct ftk_mem *mem, struct ftk_stream *s, int n,
    bool *idle, bool *done, int *local)
{
    int rc = round_upto(ch, s, n, FTK_STREAM_DATA, idle, done);
    *local = rc == FTKIT_OK && *done ? take_buffers(mem, s, n) : FTKIT_OK;
    return rc;
}

int ftk_stream_sizes(
    struct ftk_chan *ch, struct ftk_mem *mem, struct ftk_stream *s, int n, int *local)
{
    bool idle, done;
    int rc = run_upto(ch, s, n, FTK_STREAM_DATA);
    *local = FTKIT_OK;
    return rc == FTKIT_OK ? ftk_stream_sizes_step(ch, mem, s, n, &idle, &done, local) : rc;
}

/* All streams are done: seal what has been received; return the most severe error. */
static int seal_received(struct ftk_stream *s, int n)
{
    int local = FTKIT_OK;
    for (int i = 0; i < n; i++) {
        if (s[i].send || s[i].seg->sealed)
            continue;
        int bad = ftk_seg_check_head(s[i].seg->buf, s[i].seg->bytes, "a received copy");
        if (bad == FTKIT_OK)
            bad = ftk_mem_seal(s[i].seg);
        if (bad < local)
            local = bad;
    }
    return local;
}

int ftk_stream_step(
    struct ftk_chan *ch, struct ftk_stream *s, int n, bool *idle, bool *done, int *local)
{
    int rc = ftk_stream_progress(ch, s, n, idle, done);
    *local = rc == FTKIT_OK && *done ? seal_received(s, n) : FTKIT_OK;
    return rc;
}

int ftk_stream_run(struct ftk_chan *ch, struct ftk_stream *s, int n, int *local)
{
    bool idle, done;
    int rc = run_upto(ch, s, n, FTK_STREAM_DONE);
    *local = FTKIT_OK;
    return rc == FTKIT_OK ? ftk_stream_step(ch, s, n, &idle, &done, local) : rc;
}

void ftk_stream_abandon(struct ftk_chan *ch, struct ftk_stream *s, int n)
{
    /* after a failure the communicator is revoked and every request ends; without one
     * there is none */
    for (int i = 0; i < n; i++) {
        (void)ftk_chan_wait(ch, s[i].req, FTK_STREAM_WINDOW, "moving a segment");
        if (!s[i].send && s[i].seg && !s[i].seg->sealed) {
            ftk_mem_release(s[i].seg);
            s[i].seg = NULL;
        }
    }
}
