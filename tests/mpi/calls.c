/* The calls of point-to-point communication, family by family.  In every step a rank has
 * messages for and from every other one, of many lengths.
 *
 *   -m blocking     MPI_Send and its kinds, MPI_Sendrecv, MPI_Sendrecv_replace
 *      nonblocking  MPI_Isend and its kinds, MPI_Isendrecv, waits and tests for all
 *      any          MPI_Waitany, Waitsome, Testany, Testsome: what comes first is
 *                   answered at once, and the answer depends on what has come before
 *      persistent   MPI_Send_init and its kinds, from before the loop and in it
 *      probe        MPI_Probe, Iprobe, Mprobe, Improbe, by name and not
 *      wildcard     MPI_Recv and MPI_Irecv from any source, of any tag
 *      cancel       MPI_Cancel, MPI_Request_free of sends, MPI_Request_get_status
 *      edges        nobody, nothing, oneself, 1 byte to 2 MiB, types with gaps that are
 *                   freed early, MPI_BOTTOM
 *      bytes        as blocking; the result says what was sent and what was logged
 *      drift        as blocking, but a replacement sends something else: the program is
 *                   wrong, and the log has to tell
 *      together     as blocking, and a replacement has something else for an MPI_Allgather
 *
 * All messages between each two ranks must agree in the end: see foreign_pairs.  The hash
 * is that of all state where nothing depends on the order of arrival, else that of what
 * must be the same in every order.  With the message log, and as long as nobody has gone
 * back, the program counts for itself its receives from any source and, in teams of
 * FTKIT_LOG_TEAM_SIZE, what goes from team to team, and compares.
 *
 * A step passes app.mid once, in the middle of its communication.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"

#define RANKS 8       /* at most */
#define HEAD 4        /* number, token, state of the sender, step */
#define LONGEST 9000  /* words */
#define BIG (2 << 20) /* bytes, of family edges */
#define TWICE 2       /* messages to each partner */

static const int lengths[] = { HEAD, 40, 64, 65, 600, LONGEST };
enum { LENGTHS = sizeof lengths / sizeof *lengths };

struct family {
    const char *name;
    bool ordered; /* the state does not depend on the order of arrival */
    bool counted; /* nothing but receives from any source makes determinants */
    int (*connect)(struct foreign *f);
    void (*step)(struct foreign *f);
    void (*disconnect)(void);
};

static struct {
    const struct family *family;
    uint64_t *state, *tokens; /* registered: of all received in its order; sum of tokens */
    struct foreign_pairs pairs;
    uint64_t *out[RANKS][TWICE], *in[RANKS][TWICE]; /* [LONGEST] to and from each */
    uint64_t *back[RANKS];                          /* [HEAD] */
    void *attached;
    MPI_Comm other; /* so that messages of two kinds do not mix */
    MPI_Request kept[2 * RANKS];
    char *big[2]; /* [RANKS * BIG] */
    bool drifts, drifts_together;
    /* what the program knows of what the log has to count, in this process */
    int team_size; /* 0: not known */
    uint64_t sent, crossing, from_any, line, wrong;
    bool differ; /* at the end of the last step; it may have been cut short */
    uint64_t crossed_before, logged_before, logged;
} p;

/* ---- messages ------------------------------------------------------------------------ */

static int partner(const struct foreign *f, int k)
{
    return (f->rank + k + f->nranks) % f->nranks;
}

static int words_of(const struct foreign *f, int from, int to, int i)
{
    return lengths[(f->step + from * 3 + to * 5 + i * 2) % LENGTHS];
}

static uint64_t token(int from, int to, int step, int i)
{
    return foreign_mix((uint64_t)(from * 1000 + to * 10 + i), (uint64_t)step);
}

static void count_sent(const struct foreign *f, int to, size_t bytes)
{
    p.sent += bytes;
    if (p.team_size > 0 && to / p.team_size != f->rank / p.team_size)
        p.crossing += bytes;
}

/* Message i of the step to a rank, with the state at this moment: its length. */
static int make(const struct foreign *f, int to, int i, uint64_t *m, int words)
{
    m[1] = token(f->rank, to, f->step, i);
    m[2] = *p.state;
    m[3] = (uint64_t)f->step;
    for (int w = HEAD; w < words; w++)
        m[w] = m[2] * (uint64_t)w + m[1];
    if (p.drifts)
        m[3] += 1000;
    foreign_sent(&p.pairs, to, m, (size_t)words);
    count_sent(f, to, (size_t)words * sizeof *m);
    return words;
}

static int write_to(const struct foreign *f, int to, int i)
{
    return make(f, to, i, p.out[to][i], words_of(f, f->rank, to, i));
}

/* What has come goes into the state. */
static void use(int from, const uint64_t *m, int words)
{
    *p.tokens += m[1];
    *p.state = XXH3_64bits_withSeed(m, (size_t)words * sizeof *m, *p.state + (uint64_t)from);
}

static void take(int from, const uint64_t *m, int words)
{
    foreign_received(&p.pairs, from, m, (size_t)words);
    use(from, m, words);
}

static void check(bool good)
{
    *p.pairs.bad += !good;
}

/* ---- blocking ------------------------------------------------------------------------ */

enum { STANDARD, SYNCHRONOUS, BUFFERED, READY, KINDS };

static void send_one(const struct foreign *f, int to, int kind)
{
    uint64_t *m = p.out[to][0];
    int words = write_to(f, to, 0);
    switch (kind) {
    case STANDARD:
        MPI_Send(m, words, MPI_UINT64_T, to, 1, f->comm);
        break;
    case SYNCHRONOUS:
        MPI_Ssend(m, words, MPI_UINT64_T, to, 1, f->comm);
        break;
    case BUFFERED:
        MPI_Bsend(m, words, MPI_UINT64_T, to, 1, f->comm);
        break;
    default:
        MPI_Recv(NULL, 0, MPI_BYTE, to, 2, f->comm, MPI_STATUS_IGNORE);
        MPI_Rsend(m, words, MPI_UINT64_T, to, 1, f->comm);
    }
}

static void receive_one(const struct foreign *f, int from, int kind)
{
    uint64_t *m = p.in[from][0];
    int words = words_of(f, from, f->rank, 0);
    MPI_Request q;
    if (kind == READY) {
        MPI_Irecv(m, words, MPI_UINT64_T, from, 1, f->comm, &q);
        MPI_Send(NULL, 0, MPI_BYTE, from, 2, f->comm);
        MPI_Wait(&q, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(m, words, MPI_UINT64_T, from, 1, f->comm, MPI_STATUS_IGNORE);
    }
    take(from, m, words);
}

/* Both directions at once. */
static void exchange(const struct foreign *f, int k)
{
    int to = partner(f, k), from = partner(f, -k), words;
    uint64_t *m = p.out[to][1], *in = p.in[from][1];
    if ((f->step + k) % 2) {
        words = words_of(f, from, f->rank, 1);
        MPI_Sendrecv(m, write_to(f, to, 1), MPI_UINT64_T, to, 3, in, words, MPI_UINT64_T, from, 3,
            f->comm, MPI_STATUS_IGNORE);
    } else {
        words = lengths[(f->step + k) % LENGTHS]; /* the same everywhere */
        make(f, to, 1, in, words);
        MPI_Sendrecv_replace(in, words, MPI_UINT64_T, to, 4, from, 4, f->comm, MPI_STATUS_IGNORE);
    }
    take(from, in, words);
}

static void blocking(struct foreign *f)
{
    for (int a = 0; a < f->nranks; a++)
        for (int b = 0; b < f->nranks; b++) {
            int kind = (a * 5 + b * 3 + f->step) % KINDS;
            if (a != b && a == f->rank)
                send_one(f, b, kind);
            if (a != b && b == f->rank)
                receive_one(f, a, kind);
        }
    (void)FTK_FAULT("app.mid");
    for (int k = 1; k < f->nranks; k++)
        exchange(f, k);
}

/* ---- non-blocking -------------------------------------------------------------------- */

static void begin_send(const struct foreign *f, int to, int i, int kind, MPI_Request *q)
{
    uint64_t *m = p.out[to][i];
    int words = write_to(f, to, i), tag = 1 + i;
    switch (kind) {
    case STANDARD:
        MPI_Isend(m, words, MPI_UINT64_T, to, tag, f->comm, q);
        break;
    case SYNCHRONOUS:
        MPI_Issend(m, words, MPI_UINT64_T, to, tag, f->comm, q);
        break;
    case BUFFERED:
        MPI_Ibsend(m, words, MPI_UINT64_T, to, tag, f->comm, q);
        break;
    default:
        MPI_Irsend(m, words, MPI_UINT64_T, to, tag, f->comm, q);
    }
}

/* One after the other, with a combined one between two partners at the end. */
static int begin_all(const struct foreign *f, MPI_Request *q)
{
    int n = 0, last = f->nranks - 1;
    for (int k = 1; k < f->nranks; k++)
        for (int i = 0; i < (k == last ? 1 : TWICE); i++) {
            int from = partner(f, -k);
            MPI_Irecv(p.in[from][i], LONGEST, MPI_UINT64_T, from, 1 + i, f->comm, &q[n++]);
        }
    MPI_Barrier(f->comm);
    for (int k = 1; k < f->nranks; k++)
        for (int i = 0; i < (k == last ? 1 : TWICE); i++)
            begin_send(f, partner(f, k), i, (f->step + k + i) % KINDS, &q[n++]);
    int to = partner(f, last), from = partner(f, -last);
    uint64_t *in = p.in[from][1];
    if (f->step % 2) {
        MPI_Isendrecv(p.out[to][1], write_to(f, to, 1), MPI_UINT64_T, to, 3, in, LONGEST,
            MPI_UINT64_T, from, 3, f->comm, &q[n++]);
    } else {
        int words = lengths[f->step % LENGTHS];
        make(f, to, 1, in, words);
        MPI_Isendrecv_replace(in, words, MPI_UINT64_T, to, 4, from, 4, f->comm, &q[n++]);
    }
    return n;
}

static void nonblocking(struct foreign *f)
{
    MPI_Request q[4 * RANKS + 1];
    int n = begin_all(f, q), done = 0, last = f->nranks - 1;
    (void)FTK_FAULT("app.mid");
    if (f->step % 2)
        MPI_Waitall(n, q, MPI_STATUSES_IGNORE);
    while (f->step % 2 == 0 && !done)
        if (MPI_Testall(n, q, &done, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
            return;
    for (int k = 1; k < f->nranks; k++)
        for (int i = 0; i < TWICE; i++) {
            int from = partner(f, -k), words = words_of(f, from, f->rank, i);
            if (k == last && i == 1 && f->step % 2 == 0)
                words = lengths[f->step % LENGTHS];
            take(from, p.in[from][i], words);
        }
}

/* ---- any and some -----------------------------------------------------------------------
 * The first n requests are receives; the others are sends, and answers to what has come. */

struct racing {
    MPI_Request q[6 * RANKS];
    int from[6 * RANKS], nth[6 * RANKS], n, total, left;
};

static void arrived(const struct foreign *f, struct racing *r, int i)
{
    r->left--;
    if (i >= r->n)
        return;
    int from = r->from[i], words = words_of(f, from, f->rank, r->nth[i]);
    uint64_t *answer = p.back[from] + HEAD * r->nth[i];
    use(from, p.in[from][r->nth[i]], words);
    answer[0] = *p.state;
    answer[1] = token(f->rank, from, f->step, 5 + r->nth[i]);
    MPI_Isend(answer, 2, MPI_UINT64_T, from, 5 + r->nth[i], p.other, &r->q[r->total++]);
    count_sent(f, from, 2 * sizeof *answer);
    r->left++;
}

/* One call; what it has completed. */
static int completed(const struct foreign *f, struct racing *r, int *which)
{
    int count = 0, flag = 1, rc;
    switch (f->step % 4) {
    case 0:
        rc = MPI_Waitany(r->total, r->q, which, MPI_STATUS_IGNORE);
        count = *which != MPI_UNDEFINED;
        break;
    case 1:
        rc = MPI_Waitsome(r->total, r->q, &count, which, MPI_STATUSES_IGNORE);
        break;
    case 2:
        rc = MPI_Testany(r->total, r->q, which, &flag, MPI_STATUS_IGNORE);
        count = flag && *which != MPI_UNDEFINED;
        break;
    default:
        rc = MPI_Testsome(r->total, r->q, &count, which, MPI_STATUSES_IGNORE);
    }
    if (rc != MPI_SUCCESS || count == MPI_UNDEFINED)
        return -1;
    return count;
}

static void any(struct foreign *f)
{
    static struct racing r;
    int which[6 * RANKS], passed = 0;
    r = (struct racing){ .n = 0 };
    for (int k = 1; k < f->nranks; k++)
        for (int i = 0; i < TWICE; i++) {
            int from = partner(f, -k);
            r.from[r.n] = from;
            r.nth[r.n] = i;
            MPI_Irecv(p.in[from][i], LONGEST, MPI_UINT64_T, from, 1 + i, f->comm, &r.q[r.n]);
            r.n++;
        }
    r.total = r.n;
    for (int k = 1; k < f->nranks; k++)
        for (int i = 0; i < TWICE; i++) {
            int to = partner(f, k);
            begin_send(f, to, i, (f->step + k + i) % READY, &r.q[r.total++]);
        }
    r.left = r.total;
    while (r.left > 0) {
        int count = completed(f, &r, which);
        if (count < 0)
            return;
        for (int i = 0; i < count; i++)
            arrived(f, &r, which[i]);
        if (count > 0 && passed++ == 0)
            (void)FTK_FAULT("app.mid");
    }
    for (int i = 0; i < r.n; i++) {
        int from = r.from[i], nth = r.nth[i];
        uint64_t answer[HEAD] = { 0 };
        foreign_received(&p.pairs, from, p.in[from][nth], (size_t)words_of(f, from, f->rank, nth));
        MPI_Recv(answer, 2, MPI_UINT64_T, from, 5 + nth, p.other, MPI_STATUS_IGNORE);
        check(answer[1] == token(from, f->rank, f->step, 5 + nth));
        *p.state = foreign_mix(answer[0], *p.state);
    }
}

/* ---- persistent ---------------------------------------------------------------------- */

/* What is kept has the same length in all steps. */
static int kept_words(int from, int to)
{
    return lengths[(from * 3 + to * 5) % LENGTHS];
}

static int connect_persistent(struct foreign *f)
{
    int n = 0, rc = 0;
    for (int k = 1; k < f->nranks; k++) {
        int from = partner(f, -k);
        rc |= MPI_Recv_init(p.in[from][0], LONGEST, MPI_UINT64_T, from, 1, f->comm, &p.kept[n++]);
    }
    for (int k = 1; k < f->nranks; k++) {
        int to = partner(f, k), words = kept_words(f->rank, to);
        uint64_t *m = p.out[to][0];
        MPI_Request *q = &p.kept[n++];
        switch ((f->rank + k) % KINDS) {
        case STANDARD:
            rc |= MPI_Send_init(m, words, MPI_UINT64_T, to, 1, f->comm, q);
            break;
        case SYNCHRONOUS:
            rc |= MPI_Ssend_init(m, words, MPI_UINT64_T, to, 1, f->comm, q);
            break;
        case BUFFERED:
            rc |= MPI_Bsend_init(m, words, MPI_UINT64_T, to, 1, f->comm, q);
            break;
        default:
            rc |= MPI_Rsend_init(m, words, MPI_UINT64_T, to, 1, f->comm, q);
        }
    }
    return rc != MPI_SUCCESS;
}

static void disconnect_persistent(void)
{
    for (int i = 0; i < 2 * RANKS; i++)
        if (p.kept[i] != MPI_REQUEST_NULL)
            MPI_Request_free(&p.kept[i]);
}

/* Made, started twice and freed in one step. */
static void passing_request(const struct foreign *f)
{
    MPI_Request q[2];
    int to = partner(f, 1), from = partner(f, -1), words = words_of(f, from, f->rank, 1);
    int own = words_of(f, f->rank, to, 1);
    MPI_Send_init(p.out[to][1], own, MPI_UINT64_T, to, 2, f->comm, &q[0]);
    MPI_Recv_init(p.in[from][1], words, MPI_UINT64_T, from, 2, f->comm, &q[1]);
    for (int i = 0; i < 2; i++) {
        (void)write_to(f, to, 1);
        MPI_Startall(2, q);
        MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
        take(from, p.in[from][1], words);
    }
    MPI_Request_free(&q[0]);
    MPI_Request_free(&q[1]);
}

static void persistent(struct foreign *f)
{
    int n = f->nranks - 1;
    MPI_Startall(n, p.kept);
    MPI_Barrier(f->comm);
    for (int k = 1; k < f->nranks; k++) {
        int to = partner(f, k);
        make(f, to, 0, p.out[to][0], kept_words(f->rank, to));
    }
    for (int i = 0; i < n && f->step % 2; i++)
        MPI_Start(&p.kept[n + i]);
    if (f->step % 2 == 0)
        MPI_Startall(n, p.kept + n);
    (void)FTK_FAULT("app.mid");
    if (f->step % 3)
        MPI_Waitall(2 * n, p.kept, MPI_STATUSES_IGNORE);
    for (int i = 2 * n - 1; i >= 0 && f->step % 3 == 0; i--)
        MPI_Wait(&p.kept[i], MPI_STATUS_IGNORE);
    for (int k = 1; k < f->nranks; k++) {
        int from = partner(f, -k);
        take(from, p.in[from][0], kept_words(from, f->rank));
    }
    if (f->step % 3 == 1)
        passing_request(f);
}

/* ---- probe and wildcard -----------------------------------------------------------------
 * Receives that do not name their source may take a message of the next step, when that
 * comes before one of this step.  So that they cannot wait for each other, messages in
 * steps that do not end with a barrier are short; there they cross steps, and sets. */

static bool ends_together(const struct foreign *f)
{
    return f->step % 2 == 1;
}

static MPI_Comm of_step(const struct foreign *f, bool named)
{
    return named ? p.other : f->comm;
}

static void send_to_all(const struct foreign *f, bool named, MPI_Request *q)
{
    for (int k = 1; k < f->nranks; k++) {
        int to = partner(f, k), words = words_of(f, f->rank, to, 0);
        bool sync = (f->step + k) % 4 == 0;
        MPI_Comm comm = of_step(f, named);
        if (!named && !ends_together(f)) {
            words = HEAD + f->step % 3;
            sync = false;
        }
        make(f, to, 0, p.out[to][0], words);
        if (sync)
            MPI_Issend(p.out[to][0], words, MPI_UINT64_T, to, 1 + k % 2, comm, &q[k - 1]);
        else
            MPI_Isend(p.out[to][0], words, MPI_UINT64_T, to, 1 + k % 2, comm, &q[k - 1]);
    }
}

/* A message has been found: its length in words, or -1. */
static int found(int rc, const MPI_Status *st, int source)
{
    int words = -1;
    if (rc != MPI_SUCCESS)
        return -1;
    MPI_Get_count(st, MPI_UINT64_T, &words);
    check(words >= HEAD && words <= LONGEST
          && (source == MPI_ANY_SOURCE || st->MPI_SOURCE == source));
    return words >= HEAD && words <= LONGEST ? words : -1;
}

/* Find a message in one of four ways and receive it: its length, or -1. */
static int find(const struct foreign *f, int source, MPI_Comm comm, MPI_Status *st)
{
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Request q;
    int how = f->step / 3 % 4, flag = 0, rc = MPI_SUCCESS, words;
    uint64_t *m = p.in[0][0];
    if (how == 0)
        rc = MPI_Probe(source, MPI_ANY_TAG, comm, st);
    while (how == 1 && rc == MPI_SUCCESS && !flag)
        rc = MPI_Iprobe(source, MPI_ANY_TAG, comm, &flag, st);
    if (how == 2)
        rc = MPI_Mprobe(source, MPI_ANY_TAG, comm, &message, st);
    while (how == 3 && rc == MPI_SUCCESS && !flag)
        rc = MPI_Improbe(source, MPI_ANY_TAG, comm, &flag, &message, st);
    words = found(rc, st, source);
    if (words < 0)
        return -1;
    int from = st->MPI_SOURCE, tag = st->MPI_TAG;
    if (how < 2) {
        rc = MPI_Recv(m, words, MPI_UINT64_T, from, tag, comm, st);
    } else if (how == 2) {
        rc = MPI_Mrecv(m, words, MPI_UINT64_T, &message, st);
    } else {
        rc = MPI_Imrecv(m, words, MPI_UINT64_T, &message, &q);
        if (rc == MPI_SUCCESS)
            rc = MPI_Wait(&q, st);
    }
    if (rc != MPI_SUCCESS)
        return -1;
    check(st->MPI_SOURCE == from && st->MPI_TAG == tag);
    return words;
}

static void probe(struct foreign *f)
{
    MPI_Request q[RANKS];
    bool named = f->step % 3 == 0;
    send_to_all(f, named, q);
    for (int k = 1; k < f->nranks; k++) {
        MPI_Status st;
        int source = named ? partner(f, -k) : MPI_ANY_SOURCE;
        int words = find(f, source, of_step(f, named), &st);
        if (words < 0)
            return;
        take(st.MPI_SOURCE, p.in[0][0], words);
        if (k == 1)
            (void)FTK_FAULT("app.mid");
    }
    MPI_Waitall(f->nranks - 1, q, MPI_STATUSES_IGNORE);
    if (ends_together(f))
        MPI_Barrier(f->comm);
}

/* It is answered at once, with all that has come before: to who waits for that at the end
 * of the step in which it was sent. */
static bool taken(const struct foreign *f, const MPI_Status *st, const uint64_t *m)
{
    int words = found(MPI_SUCCESS, st, MPI_ANY_SOURCE), from = st->MPI_SOURCE;
    if (words < 0)
        return false;
    take(from, m, words);
    if (m[3] % 2 == 0)
        return true;
    p.back[from][0] = *p.state;
    MPI_Send(p.back[from], 1, MPI_UINT64_T, from, 9, p.other);
    count_sent(f, from, sizeof *p.state);
    return true;
}

static bool answers(const struct foreign *f)
{
    for (int k = 1; k < f->nranks; k++) {
        uint64_t answer = 0;
        int from = f->step % 4 == 1 ? MPI_ANY_SOURCE : partner(f, k);
        if (MPI_Recv(&answer, 1, MPI_UINT64_T, from, 9, p.other, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return false;
        p.from_any += from == MPI_ANY_SOURCE;
        *p.state = foreign_mix(answer, *p.state);
    }
    return true;
}

static void wildcard(struct foreign *f)
{
    MPI_Request q[RANKS], in[RANKS];
    MPI_Status st[RANKS];
    int n = f->nranks - 1;
    bool begun = f->step % 3 > 0, before = f->step % 3 == 1;
    for (int k = 0; k < n && before; k++)
        MPI_Irecv(p.in[k][0], LONGEST, MPI_UINT64_T, MPI_ANY_SOURCE, MPI_ANY_TAG, f->comm, &in[k]);
    send_to_all(f, false, q);
    for (int k = 0; k < n && begun && !before; k++)
        MPI_Irecv(p.in[k][0], LONGEST, MPI_UINT64_T, MPI_ANY_SOURCE, MPI_ANY_TAG, f->comm, &in[k]);
    for (int k = 0; k < n; k++) {
        int rc = begun ? MPI_Wait(&in[k], &st[k])
                       : MPI_Recv(p.in[k][0], LONGEST, MPI_UINT64_T, MPI_ANY_SOURCE, MPI_ANY_TAG,
                           f->comm, &st[k]);
        if (rc != MPI_SUCCESS)
            return;
        p.from_any++;
        if (!taken(f, &st[k], p.in[k][0]))
            return;
        if (k == 0)
            (void)FTK_FAULT("app.mid");
    }
    if (ends_together(f) && !answers(f))
        return;
    MPI_Waitall(n, q, MPI_STATUSES_IGNORE);
    if (ends_together(f))
        MPI_Barrier(f->comm);
}

/* ---- cancelled and freed ------------------------------------------------------------- */

/* Receives that nothing comes for; the last may be of any source. */
static void begin_vain(const struct foreign *f, uint64_t *into, MPI_Request *q)
{
    for (int k = 1; k < f->nranks; k++)
        MPI_Irecv(&into[k], 1, MPI_UINT64_T, k == 1 && f->step % 2 ? MPI_ANY_SOURCE : partner(f, k),
            77, f->comm, &q[k - 1]);
}

static void cancel_vain(const struct foreign *f, MPI_Request *q)
{
    MPI_Status st;
    for (int k = 1; k < f->nranks; k++) {
        int cancelled = 0;
        MPI_Cancel(&q[k - 1]);
        if (MPI_Wait(&q[k - 1], &st) != MPI_SUCCESS)
            return;
        MPI_Test_cancelled(&st, &cancelled);
        check(cancelled);
    }
}

static void cancel(struct foreign *f)
{
    MPI_Request vain[RANKS], in[RANKS], q;
    uint64_t into[RANKS];
    begin_vain(f, into, vain);
    for (int k = 1; k < f->nranks; k++) {
        int from = partner(f, -k);
        MPI_Irecv(p.in[from][0], LONGEST, MPI_UINT64_T, from, 1, f->comm, &in[k - 1]);
    }
    for (int k = 1; k < f->nranks; k++) {
        begin_send(f, partner(f, k), 0, (f->step + k) % READY, &q);
        MPI_Request_free(&q);
    }
    (void)FTK_FAULT("app.mid");
    for (int k = 1; k < f->nranks; k++) {
        int flag = 0, from = partner(f, -k);
        while (k % 2 && !flag)
            if (MPI_Request_get_status(in[k - 1], &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS)
                return;
        if (k == 2)
            cancel_vain(f, vain);
        if (MPI_Wait(&in[k - 1], MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return;
        take(from, p.in[from][0], words_of(f, from, f->rank, 0));
    }
    if (f->nranks == 2)
        cancel_vain(f, vain);
    MPI_Barrier(f->comm); /* now all that was sent is there */
}

/* ---- edges --------------------------------------------------------------------------- */

static const int sizes[] = { 1, 511, 512, 513, 4096, 4097, 65536, 1 << 18, BIG };
enum { SIZES = sizeof sizes / sizeof *sizes };

static void nobody(const struct foreign *f)
{
    MPI_Status st;
    MPI_Request q[2];
    int x = 7, count = -1;
    MPI_Send(&x, 1, MPI_INT, MPI_PROC_NULL, 1, f->comm);
    if (MPI_Recv(&x, 1, MPI_INT, MPI_PROC_NULL, 1, f->comm, &st) != MPI_SUCCESS)
        return;
    MPI_Get_count(&st, MPI_INT, &count);
    check(st.MPI_SOURCE == MPI_PROC_NULL && st.MPI_TAG == MPI_ANY_TAG && count == 0);
    MPI_Isend(&x, 1, MPI_INT, MPI_PROC_NULL, 1, f->comm, &q[0]);
    MPI_Irecv(&x, 1, MPI_INT, MPI_PROC_NULL, 1, f->comm, &q[1]);
    MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
    if (MPI_Probe(MPI_PROC_NULL, 1, f->comm, &st) != MPI_SUCCESS)
        return;
    check(st.MPI_SOURCE == MPI_PROC_NULL && x == 7);
}

static void oneself(const struct foreign *f)
{
    MPI_Request q[2];
    uint64_t in = 0, again = 0;
    MPI_Irecv(&in, 1, MPI_UINT64_T, f->rank, 11, f->comm, &q[0]);
    MPI_Isend(p.state, 1, MPI_UINT64_T, f->rank, 11, f->comm, &q[1]);
    if (MPI_Waitall(2, q, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
        return;
    check(in == *p.state);
    if (MPI_Sendrecv(&in, 1, MPI_UINT64_T, f->rank, 12, &again, 1, MPI_UINT64_T, f->rank, 12,
            f->comm, MPI_STATUS_IGNORE)
        == MPI_SUCCESS)
        check(again == in);
}

/* Nothing, to and from all. */
static void nothing(const struct foreign *f)
{
    for (int k = 1; k < f->nranks; k++) {
        MPI_Status st;
        int count = -1;
        if (MPI_Sendrecv(NULL, 0, MPI_INT, partner(f, k), 13, NULL, 0, MPI_INT, partner(f, -k), 13,
                f->comm, &st)
            != MPI_SUCCESS)
            return;
        MPI_Get_count(&st, MPI_INT, &count);
        check(count == 0 && st.MPI_SOURCE == partner(f, -k) && st.MPI_TAG == 13);
    }
}

/* Bytes of some number to and from all; a type for each message. */
static void long_and_short(const struct foreign *f, MPI_Datatype (*type)(char *at, int bytes))
{
    MPI_Request q[2 * RANKS];
    int n = 0, bytes = sizes[f->step % SIZES];
    for (int k = 1; k < f->nranks; k++, n += 2) {
        char *in = p.big[1] + (size_t)k * BIG, *out = p.big[0] + (size_t)k * BIG;
        memset(in, 0, (size_t)bytes);
        for (int i = 0; i < bytes; i++)
            out[i] = (char)(*p.state >> (i % 57) ^ (uint64_t)i);
        MPI_Datatype t = type(in, bytes), s = type(out, bytes);
        bool far = type(NULL, 0) == MPI_DATATYPE_NULL; /* the type has the address */
        MPI_Irecv(far ? MPI_BOTTOM : in, 1, t, partner(f, -k), 14, f->comm, &q[n]);
        MPI_Isend(far ? MPI_BOTTOM : out, 1, s, partner(f, k), 14, f->comm, &q[n + 1]);
        MPI_Type_free(&t);
        MPI_Type_free(&s);
    }
    (void)FTK_FAULT("app.mid");
    if (MPI_Waitall(n, q, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
        return;
    for (int k = 1; k < f->nranks; k++)
        *p.state = XXH3_64bits_withSeed(p.big[1] + (size_t)k * BIG, (size_t)bytes, *p.state);
}

static MPI_Datatype dense(char *at, int bytes)
{
    MPI_Datatype t = MPI_BYTE;
    (void)at;
    if (bytes > 0) {
        MPI_Type_contiguous(bytes, MPI_BYTE, &t);
        MPI_Type_commit(&t);
    }
    return t;
}

/* Every other byte. */
static MPI_Datatype gaps(char *at, int bytes)
{
    MPI_Datatype t = MPI_BYTE;
    (void)at;
    if (bytes > 0) {
        MPI_Type_vector((bytes + 1) / 2, 1, 2, MPI_BYTE, &t);
        MPI_Type_commit(&t);
    }
    return t;
}

/* Two pieces at their addresses, the second before the first. */
static MPI_Datatype addresses(char *at, int bytes)
{
    MPI_Datatype t = MPI_DATATYPE_NULL;
    int lengths_of[2] = { bytes - bytes / 3, bytes / 3 };
    MPI_Aint where[2];
    if (bytes == 0)
        return t;
    MPI_Get_address(at + bytes / 3, &where[0]);
    MPI_Get_address(at, &where[1]);
    MPI_Type_create_hindexed(2, lengths_of, where, MPI_BYTE, &t);
    MPI_Type_commit(&t);
    return t;
}

static void edges(struct foreign *f)
{
    nobody(f);
    oneself(f);
    nothing(f);
    long_and_short(f, f->step % 3 == 0 ? dense : f->step % 3 == 1 ? gaps : addresses);
}

/* ---- collectives that are not the same again ----------------------------------------- */

static void together(struct foreign *f)
{
    uint64_t mine = (uint64_t)f->step + (p.drifts_together ? 1000 : 0), all[RANKS];
    blocking(f);
    if (MPI_Comm_set_name(p.other, "the others") == MPI_SUCCESS)
        (void)MPI_Allgather(&mine, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, p.other);
}

/* ---- the program --------------------------------------------------------------------- */

static const struct family families[] = {
    { "blocking", true, true, NULL, blocking, NULL },
    { "nonblocking", true, false, NULL, nonblocking, NULL },
    { "any", false, false, NULL, any, NULL },
    { "persistent", true, true, connect_persistent, persistent, disconnect_persistent },
    { "probe", false, false, NULL, probe, NULL },
    { "wildcard", false, true, NULL, wildcard, NULL },
    { "cancel", true, false, NULL, cancel, NULL },
    { "edges", true, true, NULL, edges, NULL },
    { "bytes", true, true, NULL, blocking, NULL },
    { "drift", true, true, NULL, blocking, NULL },
    { "together", true, true, NULL, together, NULL },
};

static int allocate(const struct foreign *f)
{
    for (int r = 0; r < f->nranks; r++) {
        for (int i = 0; i < TWICE; i++) {
            p.out[r][i] = calloc(LONGEST, sizeof(uint64_t));
            p.in[r][i] = calloc(LONGEST, sizeof(uint64_t));
            if (!p.out[r][i] || !p.in[r][i])
                return 1;
        }
        p.back[r] = calloc(TWICE * HEAD, sizeof(uint64_t));
        if (!p.back[r])
            return 1;
    }
    for (int i = 0; i < 2 && strcmp(p.family->name, "edges") == 0; i++) {
        p.big[i] = malloc((size_t)f->nranks * BIG);
        if (!p.big[i])
            return 1;
    }
    size_t room = 4 * RANKS * (LONGEST * sizeof(uint64_t) + MPI_BSEND_OVERHEAD);
    p.attached = malloc(room);
    return !p.attached || MPI_Buffer_attach(p.attached, (int)room) != MPI_SUCCESS;
}

static int prepare(struct foreign *f)
{
    ftkit_info info = { .size = sizeof info };
    const char *size = getenv("FTKIT_LOG_TEAM_SIZE");
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strcmp(f->variant ? f->variant : "blocking", families[i].name) == 0)
            p.family = &families[i];
    if (!p.family || f->nranks > RANKS || f->nranks < 2)
        return 1;
    const char *teams = getenv("FTKIT_LOG_TEAMS");
    p.team_size = size && !teams ? atoi(size) : 0; /* named teams: dynamic ones change */
    for (int i = 0; i < 2 * RANKS; i++)
        p.kept[i] = MPI_REQUEST_NULL;
    p.other = MPI_COMM_NULL;
    p.state = calloc(2, sizeof *p.state);
    if (!p.state || allocate(f) != 0 || foreign_pairs_open(f, &p.pairs) != 0)
        return 1;
    p.tokens = p.state + 1;
    *p.state = foreign_mix((uint64_t)f->rank, 7);
    bool again = ftkit_query(f->ft, &info) == FTKIT_OK && info.incarnation > 0;
    p.drifts = again && strcmp(p.family->name, "drift") == 0;
    p.drifts_together = again && strcmp(p.family->name, "together") == 0;
    return ftkit_register(f->ft, "state", p.state, 2, MPI_UINT64_T) != FTKIT_OK;
}

static int connect_ranks(struct foreign *f)
{
    if (MPI_Comm_dup(f->comm, &p.other) != MPI_SUCCESS)
        return 1;
    return p.family->connect ? p.family->connect(f) : 0;
}

static void disconnect(void)
{
    if (p.family && p.family->disconnect)
        p.family->disconnect();
    if (p.other != MPI_COMM_NULL)
        MPI_Comm_free(&p.other);
}

/* What the log counts is what the program counts, since the first set. */
static void compare(struct foreign *f)
{
    ftkit_info info = { .size = sizeof info };
    bool bytes = p.family->step == blocking || p.family->step == wildcard
                 || p.family->step == nonblocking || p.family->step == any
                 || p.family->step == probe || p.family->step == cancel;
    p.differ = false;
    if (ftkit_query(f->ft, &info) != FTKIT_OK)
        return;
    if (info.mode != FTKIT_MODE_TEAM || info.committed == 0)
        return;
    if (p.line == 0) {
        p.crossed_before = p.crossing;
        p.logged_before = info.log_bytes;
    }
    p.logged = info.log_bytes - p.logged_before;
    p.differ = bytes && p.team_size > 0 && p.logged != p.crossing - p.crossed_before;
    if (p.family->counted && info.log_determinants != p.from_any)
        p.differ = true;
}

/* It holds when nobody has gone back. */
static uint64_t compared(const struct foreign *f)
{
    ftkit_info info = { .size = sizeof info };
    if (p.differ && ftkit_query(f->ft, &info) == FTKIT_OK && info.incarnation + info.rollbacks == 0)
        p.wrong++;
    return ftkit_query(f->ft, &info) == FTKIT_OK ? info.committed : 0;
}

static void step(struct foreign *f)
{
    uint64_t line = compared(f);
    if (line != p.line)
        p.from_any = 0;
    p.family->step(f);
    compare(f);
    p.line = line;
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    (void)compared(f);
    const bool counts = strcmp(p.family->name, "bytes") == 0; /* else not the same in a replay */
    uint64_t mine[6] = { *p.tokens, foreign_pairs_compare(f, &p.pairs), p.wrong,
        counts ? p.logged : 0, counts ? p.crossing - p.crossed_before : 0, counts ? p.sent : 0 };
    uint64_t all[6] = { 0 };
    uint64_t ordered = p.family->ordered ? *p.state : 0;
    MPI_Allreduce(mine, all, 6, MPI_UINT64_T, MPI_SUM, f->comm);
    *hash = foreign_total(f, foreign_mix(ordered, (uint64_t)f->rank));
    *hash = foreign_mix(*hash, all[0]);
    int n = snprintf(detail, room, "%s, %llu differences, %llu wrong counts", p.family->name,
        (unsigned long long)all[1], (unsigned long long)all[2]);
    if (counts)
        snprintf(detail + n, room - (size_t)n, ", logged %llu of %llu of %llu bytes",
            (unsigned long long)all[3], (unsigned long long)all[4], (unsigned long long)all[5]);
    return all[1] == 0 && all[2] == 0;
}

static void release(void)
{
    int bytes;
    void *attached;
    if (p.attached)
        MPI_Buffer_detach(&attached, &bytes);
    for (int r = 0; r < RANKS; r++) {
        for (int i = 0; i < TWICE; i++) {
            free(p.out[r][i]);
            free(p.in[r][i]);
        }
        free(p.back[r]);
    }
    free(p.big[0]);
    free(p.big[1]);
    free(p.attached);
    free(p.state);
    free(p.pairs.sent);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { "calls", 40, 1, prepare, connect_ranks, disconnect,
        step, verdict, release };
    return foreign_main(argc, argv, &app);
}
