/* Moving segments between ranks (see stream.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "stream.h"

void ftk_stream_init(struct ftk_stream *s, bool send, int peer, int tag, uint64_t set,
    int rank, int nranks)
{
    *s = (struct ftk_stream){ .send = send,
        .peer = peer,
        .tag = tag,
        .rank = rank,
        .set = set,
        .nranks = nranks };
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

static int post(struct ftk_chan *ch, struct ftk_stream *s, void *buf, size_t bytes)
{
    int slot = (s->first + s->npending) % FTK_STREAM_WINDOW;
    int rc = s->send
        ? MPI_Isend(buf, (int)bytes, MPI_BYTE, s->peer, s->tag, ch->comm, &s->req[slot])
        : MPI_Irecv(buf, (int)bytes, MPI_BYTE, s->peer, s->tag, ch->comm, &s->req[slot]);
    if (rc != MPI_SUCCESS) {
        s->req[slot] = MPI_REQUEST_NULL;
        return ftk_chan_break(ch, rc, "moving a segment");
    }
    s->npending++;
    return FTKIT_OK;
}

/* Post the pieces of the data area that may go and fit the window. */
static int post_data(struct ftk_chan *ch, struct ftk_stream *s, bool *moved)
{
    size_t limit = s->send ? s->ready : s->sizes[1];
    while (s->npending < FTK_STREAM_WINDOW && s->posted < limit) {
        size_t n = limit - s->posted;
        if (n > FTK_STREAM_PIECE)
            n = FTK_STREAM_PIECE;
        else if (n < FTK_STREAM_PIECE && limit < s->sizes[1])
            break; /* both sides cut alike: whole pieces but for the last */
        int rc = post(ch, s, s->seg->buf + s->sizes[0] + s->posted, n);
        if (rc != FTKIT_OK)
            return rc;
        s->posted += n;
        *moved = true;
    }
    return FTKIT_OK;
}

/* The sizes have come: take a buffer, after checking what is asked for. */
static int accept_sizes(struct ftk_mem *mem, struct ftk_stream *s)
{
    if (s->sizes[0] > SIZE_MAX / 4 || s->sizes[1] > SIZE_MAX / 4 || s->sizes[0] == 0)
        return ftk_fail(FTKIT_ERR_CORRUPT, "segment sizes from rank %d", s->peer);
    if (FTK_FAULT("stream.take"))
        return ftk_fail(FTKIT_ERR_NOMEM, "memory for the copy of rank %d", s->rank);
    return ftk_mem_take(
        mem, s->set, s->rank, s->nranks, (size_t)(s->sizes[0] + s->sizes[1]), &s->seg);
}

static void next_phase(struct ftk_stream *s)
{
    s->phase++;
    s->posted = 0;
}

static int post_head(struct ftk_chan *ch, struct ftk_stream *s, bool *moved)
{
    int rc = FTKIT_OK;
    while (rc == FTKIT_OK && s->npending < FTK_STREAM_WINDOW && s->posted < s->sizes[0]) {
        size_t n = (size_t)s->sizes[0] - s->posted;
        n = n > FTK_STREAM_PIECE ? FTK_STREAM_PIECE : n;
        rc = post(ch, s, s->seg->buf + s->posted, n);
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
            rc = post(ch, s, s->sizes, sizeof s->sizes);
            s->posted = sizeof s->sizes;
            *moved = true;
        }
        break;
    case FTK_STREAM_DATA:
        rc = post_data(ch, s, moved);
        break;
    case FTK_STREAM_HEAD:
        if (!s->send || s->sealed)
            rc = post_head(ch, s, moved);
        break;
    default:
        break;
    }
    return rc;
}

static bool phase_over(const struct ftk_stream *s)
{
    static const size_t none;
    const size_t all[] = { sizeof s->sizes, (size_t)s->sizes[1], (size_t)s->sizes[0], none };
    return s->npending == 0 && s->posted == all[s->phase];
}

/* Complete what is complete, in order, and post what the window takes. */
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

static int round_upto(struct ftk_chan *ch, struct ftk_stream *s, int n, int upto,
    bool *idle, bool *done)
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

int ftk_stream_progress(
    struct ftk_chan *ch, struct ftk_stream *s, int n, bool *idle, bool *done)
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
            ftk_chan_turn(ch, &turns);
    }
    return rc;
}

int ftk_stream_sizes(
    struct ftk_chan *ch, struct ftk_mem *mem, struct ftk_stream *s, int n, int *local)
{
    int rc = run_upto(ch, s, n, FTK_STREAM_DATA);
    *local = FTKIT_OK;
    for (int i = 0; rc == FTKIT_OK && i < n; i++) {
        if (s[i].send)
            continue;
        s[i].error = accept_sizes(mem, &s[i]);
        if (s[i].error < *local)
            *local = s[i].error;
    }
    return rc;
}

int ftk_stream_run(struct ftk_chan *ch, struct ftk_stream *s, int n, int *local)
{
    int rc = run_upto(ch, s, n, FTK_STREAM_DONE);
    *local = FTKIT_OK;
    for (int i = 0; rc == FTKIT_OK && i < n; i++) {
        if (s[i].send)
            continue;
        int bad = ftk_seg_check_head(s[i].seg->buf, s[i].seg->bytes, "a received copy");
        if (bad == FTKIT_OK)
            bad = ftk_mem_seal(s[i].seg);
        if (bad < *local)
            *local = bad;
    }
    return rc;
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
