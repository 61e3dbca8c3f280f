/* Line apart: numbers of messages, which the ranks exchange (see numbers.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "numbers.h"

#include <stdlib.h>

#include "core/left_send.h"
#include "core/tags.h"
#include "log/base/control_state.h"
#include "log/base/runtime.h"

/* The numbers for one rank, on their way to that rank. */
struct list {
    MPI_Request req;
    uint64_t *words;
};

static struct list *lists; /* [nlists] under way */
static size_t nlists;

struct number {
    int rank, context, tag; /* of a channel to this rank, or from this rank */
    uint64_t value;
};

static int no_memory(void)
{
    return ftk_fail(FTKIT_ERR_NOMEM, "numbers of messages at a cut");
}

static int by_rank(const void *x, const void *y)
{
    const struct number *p = x, *q = y;
    return (p->rank > q->rank) - (p->rank < q->rank);
}

/* How many messages the sender had sent on a channel to this rank at its cut. */
static int note_count(int source, const uint64_t *w)
{
    if (ftk_control_is_of_state((int)w[0])) {
        ftk_control_state_announced(source, (int)w[0], w[2]);
        return FTKIT_OK;
    }
    struct ftk_channel *s = ftk_channel_find((int)w[0], source, (int)w[1]);
    if (!s)
        return FTKIT_ERR_NOMEM;
    s->at_cut = w[2];
    return FTKIT_OK;
}

/* How many messages of this rank a receiver had received too early. */
static int note_early(int dest, const uint64_t *w)
{
    struct ftk_sent *s = ftk_sent_find((int)w[0], dest, (int)w[1]);
    if (!s)
        return FTKIT_ERR_NOMEM;
    s->next_early = w[2];
    return FTKIT_OK;
}

static int note(int tag, int rank, const uint64_t *w)
{
    return tag == FTK_TAG_COUNTS ? note_count(rank, w) : note_early(rank, w);
}

enum { NUMBER = 3, LIST_HEAD = 1 };

/* Send numbers v [n], which are all for one rank. */
static int send_list(int tag, uint64_t set, const struct number *v, size_t n)
{
    struct list *all = realloc(lists, (nlists + 1) * sizeof *all);
    uint64_t *w = malloc((LIST_HEAD + n * NUMBER) * sizeof *w);
    lists = all ? all : lists;
    if (!all || !w) {
        free(w);
        return no_memory();
    }
    w[0] = set;
    for (size_t i = 0; i < n; i++) {
        w[LIST_HEAD + i * NUMBER] = (uint64_t)v[i].context;
        w[LIST_HEAD + i * NUMBER + 1] = (uint64_t)v[i].tag;
        w[LIST_HEAD + i * NUMBER + 2] = v[i].value;
    }
    struct list *l = &all[nlists];
    l->words = w;
    /* synchronous: when it is complete the receiver has it */
    int rc = PMPI_Issend(w, (int)(LIST_HEAD + n * NUMBER), MPI_UINT64_T, v->rank, tag,
        ftk_log.ctx->comms.act, &l->req);
    if (rc == MPI_SUCCESS) {
        nlists++;
        return FTKIT_OK;
    }
    free(w);
    ftk_log_note_failure();
    return FTKIT_ERR_PEER;
}

/* Send each rank its numbers, of v [n]. */
static int send_lists(int tag, uint64_t set, struct number *v, size_t n)
{
    int rc = FTKIT_OK;
    if (n > 0)
        qsort(v, n, sizeof *v, by_rank);
    for (size_t i = 0, end; rc == FTKIT_OK && i < n; i = end) {
        for (end = i + 1; end < n && v[end].rank == v[i].rank; end++)
            ;
        if (v[i].rank != ftk_log.me)
            rc = send_list(tag, set, v + i, end - i);
        for (size_t k = i; rc == FTKIT_OK && v[i].rank == ftk_log.me && k < end; k++) {
            const uint64_t w[NUMBER] = { (uint64_t)v[k].context, (uint64_t)v[k].tag, v[k].value };
            rc = note(tag, ftk_log.me, w);
        }
    }
    return rc;
}

/* Write the numbers of messages that this rank had sent at its cut to v; how many numbers. */
static size_t list_counts(struct number *v)
{
    size_t n = 0;
    for (size_t i = 0; i < ftk_sent_count(); i++) {
        const struct ftk_sent *s = ftk_sent_at(i);
        if (s->at_cut > 0)
            v[n++] = (struct number){ s->dest, s->context, s->tag, s->at_cut };
    }
    return n;
}

/* Send the numbers of messages of the program, and of control messages that the set waits for. */
static int send_counts(uint64_t set)
{
    const size_t controls = ftk_control_state_sent(NULL), most = ftk_sent_count() + controls;
    struct ftk_control_sent *c = malloc((controls + 1) * sizeof *c);
    struct number *v = malloc((most + 1) * sizeof *v);
    int rc = c && v ? FTKIT_OK : no_memory();
    if (rc == FTKIT_OK) {
        const size_t n = list_counts(v), more = ftk_control_state_sent(c);
        for (size_t i = 0; i < more; i++)
            v[n + i] = (struct number){ c[i].rank, c[i].context, 0, c[i].n };
        rc = send_lists(FTK_TAG_COUNTS, set, v, n + more);
    }
    free(c);
    free(v);
    return rc;
}

/* The same for early messages. */
static size_t list_early(struct number *v)
{
    size_t n = 0;
    for (size_t i = 0; i < ftk_channels_count(); i++) {
        const struct ftk_channel *s = ftk_channel_at(i);
        const uint64_t early = ftk_channel_early(s);
        if (early > 0)
            v[n++] = (struct number){ s->source, s->context, s->tag, early };
    }
    return n;
}

static int send_early(uint64_t set)
{
    struct number *v = malloc((ftk_channels_count() + 1) * sizeof *v);
    if (!v)
        return no_memory();
    int rc = send_lists(FTK_TAG_EARLY, set, v, list_early(v));
    free(v);
    return rc;
}

int ftk_numbers_send(int tag, uint64_t set)
{
    return tag == FTK_TAG_COUNTS ? send_counts(set) : send_early(set);
}

/* Take a list that a matched probe has found. */
static int take_list(int tag, uint64_t set, MPI_Message *m, const MPI_Status *s)
{
    int n = 0, rc = PMPI_Get_count(s, MPI_UINT64_T, &n);
    uint64_t *w = rc == MPI_SUCCESS && n >= LIST_HEAD ? malloc((size_t)n * sizeof *w) : NULL;
    if (!w)
        return no_memory();
    rc = PMPI_Mrecv(w, n, MPI_UINT64_T, m, MPI_STATUS_IGNORE);
    int noted = FTKIT_OK;
    if (rc != MPI_SUCCESS)
        ftk_log_note_failure();
    for (int i = LIST_HEAD;
         rc == MPI_SUCCESS && w[0] == set && noted == FTKIT_OK && i + NUMBER <= n; i += NUMBER)
        noted = note(tag, s->MPI_SOURCE, w + i);
    free(w);
    return rc == MPI_SUCCESS ? noted : FTKIT_ERR_PEER;
}

int ftk_numbers_take(int tag, uint64_t set)
{
    int flag = 1, rc = FTKIT_OK;
    while (rc == FTKIT_OK && flag) {
        MPI_Message m;
        MPI_Status s;
        int mrc = PMPI_Improbe(MPI_ANY_SOURCE, tag, ftk_log.ctx->comms.act, &flag, &m, &s);
        if (mrc != MPI_SUCCESS) {
            ftk_log_note_failure();
            return FTKIT_ERR_PEER;
        }
        if (flag)
            rc = take_list(tag, set, &m, &s);
    }
    return rc;
}

bool ftk_numbers_are_taken(void)
{
    size_t kept = 0;
    for (size_t i = 0; i < nlists; i++) {
        int done = 0;
        if (PMPI_Test(&lists[i].req, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
            ftk_log_note_failure(); /* the list stays: ftk_numbers_drop() frees the words */
            done = 0;
        }
        if (done)
            free(lists[i].words);
        else
            lists[kept++] = lists[i];
    }
    nlists = kept;
    return kept == 0;
}

void ftk_numbers_drop(void)
{
    for (size_t i = 0; i < nlists; i++)
        ftk_leave_send(&lists[i].req, lists[i].words);
    free(lists);
    lists = NULL;
    nlists = 0;
}
