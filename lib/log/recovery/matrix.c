/* The communication matrix: rows, and the file of all of them.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/event.h"
#include "core/log_ops.h"
#include "core/tags.h"
#include "detect/detect.h"
#include "log/recovery/matrix.h"
#include "log/base/part.h"
#include "log/base/plane.h"
#include "store/file.h"

/* ---- the row of this rank ------------------------------------------------------------ */

/* Until the first line there is none: the line begins it. */
static bool counted(const struct ftk_peer *p)
{
    return !ftk_log.line.none_yet && p->messages > 0;
}

/* Destinations of this row. */
static size_t row_length(void)
{
    size_t n = 0;
    for (int i = 0, peers = ftk_peers_count(); i < peers; i++)
        n += counted(ftk_peer(ftk_peers_rank(i)));
    return n;
}

/* As words: destination, messages, bytes, rising by destination, without those that got none. */
static uint64_t *write_row(uint64_t *w)
{
    for (int i = 0, peers = ftk_peers_count(); i < peers; i++) {
        const int r = ftk_peers_rank(i);
        const struct ftk_peer *p = ftk_peer(r);
        if (!counted(p))
            continue;
        *w++ = ftk_log_to_plane(r);
        *w++ = p->messages;
        *w++ = p->bytes;
    }
    return w;
}

static void clear(void)
{
    for (int i = 0, peers = ftk_peers_count(); i < peers; i++) {
        struct ftk_peer *p = ftk_peer(ftk_peers_rank(i));
        p->messages = p->bytes = 0;
    }
}

/* The row of the line is this rank's again. */
static int load(const struct ftk_section *in)
{
    if (!ftk_log_is_rolling_back() && !ftk_log_replays_setup())
        return FTKIT_OK;
    clear();
    for (const uint64_t *w = in->w; w < in->end; w += FTK_ROW_WORDS) {
        if (in->end - w < FTK_ROW_WORDS || w[0] >= (uint64_t)ftk_log_plane_size())
            return ftk_fail(FTKIT_ERR_FORMAT, "state of the message log: the matrix is damaged");
        struct ftk_peer *p = ftk_peer(ftk_log_from_plane((int)w[0]));
        p->messages = w[1];
        p->bytes = w[2];
    }
    return FTKIT_OK;
}

/* ---- the file ------------------------------------------------------------------------ */

static void warn(const struct ftkit_ctx *ctx, const char *why)
{
    ftk_report(FTKIT_WARNING, "context %s: log.matrix is not written: %s", ctx->cfg.name, why);
}

/* Report early that log.matrix cannot be written. */
static int start(void)
{
    const struct ftkit_ctx *ctx = ftk_log.ctx;
    char dir[FTK_PATH_MAX];
    if (!*ctx->cfg.log_matrix || ctx->rank != 0)
        return FTKIT_OK;
    const char *slash = strrchr(ctx->cfg.log_matrix, '/'); /* the path is absolute */
    snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - ctx->cfg.log_matrix) + 1 : 0,
        ctx->cfg.log_matrix);
    if (access(dir, W_OK | X_OK) != 0)
        ftk_report(FTKIT_WARNING, "context %s: log.matrix cannot be written in %s: %s",
            ctx->cfg.name, dir, strerror(errno));
    return FTKIT_OK;
}

static void print_head(FILE *f, const struct ftkit_ctx *ctx)
{
    fprintf(f,
        "# ftkit communication matrix 1\n"
        "# context: %s\n"
        "# ranks: %d\n"
        "# from the first set of this job (until then every rank is a team of its own) to "
        "ftkit_finish, which came after %" PRIu64 " calls of ftkit_checkpoint\n"
        "# messages of the program, those of its collectives among them, and bytes of their "
        "data; what was sent again after a failure counts once\n"
        "# a line for each pair of ranks, by sender, then by receiver; pairs without messages "
        "are left out\n"
        "from,to,messages,bytes\n",
        ctx->cfg.name, ctx->nranks, ctx->policy.calls);
}

struct writing {
    uint64_t *row; /* of any rank */
    FILE *f;       /* rank 0: the text */
    char *text;
    size_t bytes;
    uint64_t pairs;
};

static void print_row(void *arg, int from, const uint64_t *row)
{
    struct writing *out = arg;
    const uint64_t *w = row + 1;
    const int first = from - from % ftk_log_plane_size();
    for (uint64_t i = 0; i < row[0]; i++, w += FTK_ROW_WORDS)
        fprintf(out->f, "%d,%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n", from, (uint64_t)first + w[0],
            w[1], w[2]);
    out->pairs += row[0];
}

/* Rank 0 has the rows one after the other, so that it needs memory for one. */
static int receive_rows(struct ftk_chan *ch, uint64_t *row,
    void (*take)(void *arg, int from, const uint64_t *row), void *arg)
{
    const int words = 1 + FTK_ROW_WORDS * ch->ctx->nranks;
    take(arg, 0, row);
    for (int r = 1; r < ch->ctx->nranks; r++) {
        MPI_Request req;
        (void)FTK_FAULT("matrix.collect");
        int rc = PMPI_Irecv(row, words, MPI_UINT64_T, r, FTK_TAG_MATRIX, ch->comm, &req);
        rc = rc == MPI_SUCCESS ? ftk_chan_wait(ch, &req, 1, "communication matrix")
                               : ftk_chan_break(ch, rc, "communication matrix");
        if (rc != FTKIT_OK)
            return rc;
        take(arg, r, row);
    }
    return FTKIT_OK;
}

static int send_row(struct ftk_chan *ch, const uint64_t *row)
{
    MPI_Request req;
    int words = 1 + FTK_ROW_WORDS * (int)row[0];
    (void)FTK_FAULT("matrix.send");
    int rc = PMPI_Isend(row, words, MPI_UINT64_T, 0, FTK_TAG_MATRIX, ch->comm, &req);
    return rc == MPI_SUCCESS ? ftk_chan_wait(ch, &req, 1, "communication matrix")
                             : ftk_chan_break(ch, rc, "communication matrix");
}

int ftk_matrix_collect(struct ftk_chan *ch, uint64_t *row,
    void (*take)(void *arg, int from, const uint64_t *row), void *arg)
{
    return ch->ctx->rank == 0 ? receive_rows(ch, row, take, arg) : send_row(ch, row);
}

/* Allocate all memory first, so that later no rank waits for one without memory. */
static int prepare(const struct ftkit_ctx *ctx, struct writing *w)
{
    w->row = calloc(1 + FTK_ROW_WORDS * (size_t)ctx->nranks, sizeof *w->row);
    if (ctx->rank == 0)
        w->f = open_memstream(&w->text, &w->bytes);
    return w->row && (w->f || ctx->rank != 0) ? FTKIT_OK
                                              : ftk_fail(FTKIT_ERR_NOMEM, "communication matrix");
}

/* On rank 0.  An error of the file is reported here, and is no error of the other ranks. */
static int write_file(struct ftk_chan *ch, struct writing *w)
{
    print_head(w->f, ch->ctx);
    int rc = ftk_matrix_collect(ch, w->row, print_row, w);
    fprintf(w->f, "# end: %" PRIu64 " pairs\n", w->pairs);
    bool bad = ferror(w->f) != 0;
    bad |= fclose(w->f) != 0;
    w->f = NULL;
    (void)FTK_FAULT("matrix.write");
    if (rc != FTKIT_OK)
        return rc;
    if (bad)
        warn(ch->ctx, "no memory");
    else if (ftk_save_text(ch->ctx->cfg.log_matrix, w->text, w->bytes) != FTKIT_OK)
        warn(ch->ctx, ftk_detail_text());
    return FTKIT_OK;
}

/* The event "traffic": the row of this rank. */
static void event_traffic(const struct ftkit_ctx *ctx)
{
    struct ftk_event e;
    ftk_event_of(&e, ctx, "traffic");
    ftk_event_list(&e, "to");
    for (int i = 0, peers = ftk_peers_count(); e.on && i < peers; i++) {
        const int r = ftk_peers_rank(i);
        const struct ftk_peer *p = ftk_peer(r);
        if (!counted(p))
            continue;
        ftk_event_list(&e, NULL);
        ftk_event_item(&e, r);
        ftk_event_item(&e, (int64_t)p->messages);
        ftk_event_item(&e, (int64_t)p->bytes);
        ftk_event_list_end(&e);
    }
    ftk_event_list_end(&e);
    ftk_event_end(&e);
}

int ftk_matrix_save(struct ftkit_ctx *ctx, struct ftk_chan *ch)
{
    struct writing w = { 0 };
    event_traffic(ctx);
    if (!*ctx->cfg.log_matrix)
        return FTKIT_OK;
    int rc = ftk_agree(ch, prepare(ctx, &w), "communication matrix");
    if (rc == FTKIT_OK && w.row) {
        w.row[0] = row_length();
        (void)write_row(w.row + 1);
        rc = ctx->rank == 0 ? write_file(ch, &w) : ftk_matrix_collect(ch, w.row, print_row, &w);
        /* all ranks wait until the file is written: rank 0 may still be lost */
        rc = ftk_agree(ch, rc, "communication matrix");
    } else if (rc != FTKIT_ERR_PEER && ctx->rank == 0) {
        warn(ctx, ftk_detail_text());
    }
    if (w.f)
        (void)fclose(w.f); /* in memory, and not wanted any more */
    free(w.text);
    free(w.row);
    return rc == FTKIT_ERR_PEER ? rc : FTKIT_OK;
}

/* ---- the part ------------------------------------------------------------------------ */

/* Messages before the first line are not of teams. */
static void pass_line(enum ftk_pass kind, bool first)
{
    (void)kind;
    if (first)
        clear();
}

static size_t words(void)
{
    return FTK_ROW_WORDS * row_length();
}

const struct ftk_part ftk_part_matrix = { .start = start,
    .line = pass_line,
    .name = "matrix",
    .words = words,
    .save = write_row,
    .load = load };
