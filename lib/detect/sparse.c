/* Numbers for a few ranks (see sparse.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "sparse.h"

#include <stdlib.h>

#include "core/hash.h"
#include "core/tags.h"

struct message {
    uint64_t number, round;
    int32_t from, to;
    uint64_t sum; /* of the members above */
};

struct exchange {
    const struct ftk_sure *s;
    unsigned round;
    int me, tag;
    struct message *messages; /* [n] */
    MPI_Request *sends;       /* [n] */
    int n;
    struct ftk_minimum *minimum; /* under way since all sends have ended */
    void (*take)(const struct ftk_sparse_word *in);
};

static uint64_t sum_of(const struct message *m)
{
    return ftk_xxh3(m, offsetof(struct message, sum));
}

static int break_with(const struct exchange *t, int mpi_rc)
{
    return ftk_chan_break(t->s->ch, mpi_rc, t->s->what);
}

static int begin_sends(struct exchange *t, const struct ftk_sparse_word *out)
{
    for (int i = 0; i < t->n; i++) {
        struct message *m = &t->messages[i];
        *m = (struct message){ out[i].number, t->round, t->me, out[i].rank, 0 };
        m->sum = sum_of(m) ^ (uint64_t)FTK_FAULT("sparse.message"); /* injected: it is damaged */
        int rc =
            MPI_Issend(m, sizeof *m, MPI_BYTE, out[i].rank, t->tag, t->s->ch->comm, &t->sends[i]);
        if (rc != MPI_SUCCESS) {
            t->sends[i] = MPI_REQUEST_NULL;
            return break_with(t, rc);
        }
    }
    return FTKIT_OK;
}

static bool is_good(const struct exchange *t, const struct message *m, int source)
{
    return m->sum == sum_of(m) && m->round == t->round && m->from == source && m->to == t->me;
}

/* Receive the messages that are here. */
static int receive(struct exchange *t, bool *any)
{
    for (int flag = 1; flag;) {
        MPI_Message m;
        MPI_Status s;
        struct message in = { 0 };
        int rc = MPI_Improbe(MPI_ANY_SOURCE, t->tag, t->s->ch->comm, &flag, &m, &s);
        if (rc == MPI_SUCCESS && !flag)
            break;
        const int source = s.MPI_SOURCE;
        if (rc == MPI_SUCCESS)
            rc = MPI_Mrecv(&in, sizeof in, MPI_BYTE, &m, MPI_STATUS_IGNORE);
        if (rc == MPI_SUCCESS && !is_good(t, &in, source))
            rc = MPI_ERR_OTHER;
        if (rc != MPI_SUCCESS)
            return break_with(t, rc);
        t->take(&(struct ftk_sparse_word){ source, in.number });
        *any = true;
    }
    return FTKIT_OK;
}

/* One look.  *done: all ranks have all numbers. */
static int look(struct exchange *t, int64_t *word, bool *idle, bool *done)
{
    bool any = false, sent = true;
    int rc = receive(t, &any);
    *idle = !any;
    if (rc != FTKIT_OK)
        return rc;
    if (t->minimum)
        return ftk_sure_min_step(&t->minimum, word, done);
    rc = ftk_chan_test(t->s->ch, t->sends, t->n, t->s->what, &sent);
    if (rc == FTKIT_OK && sent) {
        (void)FTK_FAULT("sparse.sent");
        rc = ftk_sure_min_begin(t->s, word, 1, &t->minimum);
    }
    return rc;
}

static int run(struct exchange *t, const struct ftk_sparse_word *out, int64_t *word)
{
    unsigned turns = 0;
    bool idle, done = false;
    (void)FTK_FAULT("sparse.begin");
    int rc = begin_sends(t, out);
    while (rc == FTKIT_OK && !done) {
        rc = look(t, word, &idle, &done);
        if (rc == FTKIT_OK && idle && !done)
            ftk_chan_progress(t->s->ch, &turns);
        if (rc == FTKIT_OK && t->s->ch->broken)
            rc = ftk_fail(FTKIT_ERR_PEER, "%s: a rank has failed", t->s->what);
    }
    if (rc != FTKIT_OK) { /* the communicator is revoked, so all requests end */
        (void)ftk_chan_wait(t->s->ch, t->sends, t->n, t->s->what);
        ftk_sure_min_drop(&t->minimum);
    }
    return rc;
}

int ftk_sparse_exchange(const struct ftk_sure *s, unsigned round, const struct ftk_sparse_word *out,
    int n, int64_t *word, void (*take)(const struct ftk_sparse_word *in))
{
    /* a rank that has left a round may begin the next one before another rank has left it */
    struct exchange t = { .s = s,
        .round = round,
        .n = n,
        .take = take,
        .tag = round % 2 == 0 ? FTK_TAG_ROUND : FTK_TAG_ROUND_ODD };
    if (s->ch->broken)
        return ftk_fail(FTKIT_ERR_PEER, "%s: a rank has failed", s->what);
    int rc = MPI_Comm_rank(s->ch->comm, &t.me);
    t.messages = malloc(((size_t)n + 1) * sizeof *t.messages);
    t.sends = malloc(((size_t)n + 1) * sizeof(MPI_Request));
    if (rc == MPI_SUCCESS && (!t.messages || !t.sends))
        rc = MPI_ERR_NO_MEM;
    for (int i = 0; t.sends && i < n; i++)
        t.sends[i] = MPI_REQUEST_NULL;
    rc = rc == MPI_SUCCESS ? run(&t, out, word) : break_with(&t, rc);
    free(t.messages);
    free(t.sends);
    return rc;
}
