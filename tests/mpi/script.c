/* A random program of a seed (-s): see script.h.  -n is the number of rounds, which are its steps.
 *
 *   -m together,...  (default) all ranks call ftkit_checkpoint() at the top of each round
 *   -m apart,...     each rank calls it where and as often as it likes
 *
 * Words may follow.  ahead: requests stay under way when a round ends; middle: all ranks call
 * ftkit_checkpoint() also in the middle of a round; ask: a rank asks for a durable set before each
 * third call; cancel: receives are cancelled, and begun again; wait: all ranks call ftkit_wait()
 * behind each third round.  Kinds (p2p, ring, wild, anytag, collective, persistent): the program
 * has no others.
 * Otherwise the seed chooses the kinds, and ahead.
 *
 * A message has a head, a word that is the same in every run, and a word that has all that the
 * sender has seen, in its order: which message a receive of any source got, which request was
 * complete first, what a test or a probe said.  An order that a replay does not repeat shows: the
 * histories of sender and receiver no longer agree (foreign_pairs).  The sums of reductions are
 * compared with the sums of what went into them.  The hash has what is the same in every run.
 *
 * A step passes app.step, app.mid and app.inflight once, app.op before everything that it does.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"
#include "script.h"

enum { RANKS = 16, HEAD = 3 /* words */ };
/* What is wrong: the number is in the line of the first error. */
enum { WRONG_HEAD = 1, WRONG_LENGTH, WRONG_CONTENT, WRONG_ORDER, WRONG_STATUS };

/* All that is registered, but for requests and pairs. */
static struct memory {
    uint64_t pc;                    /* the next op */
    uint64_t sure;                  /* the same in every run */
    uint64_t order;                 /* what has been seen, in its order */
    uint64_t wrong;                 /* the first error: number, event */
    uint64_t in[COMMS], out[COMMS]; /* sums of what went into reductions, and of their results */
    uint64_t last[RANKS];           /* the last event of a source that was received as any */
    uint64_t begun[SLOTS];          /* 1 + the op whose request the slot has; 0: none */
    uint64_t filled[SLOTS];         /* 1 + the op whose content it has */
    uint64_t buf[SLOTS][MOST];
} * m;

static MPI_Request req[SLOTS]; /* registered */
static MPI_Message held;       /* registered */
static struct script s;
static struct foreign_pairs pairs;
static MPI_Comm sub = MPI_COMM_NULL;
static uint64_t scratch[MOST]; /* of an op that is complete when it ends */

static int prepare(struct foreign *f)
{
    m = calloc(1, sizeof *m);
    s.rank = f->rank;
    s.nranks = f->nranks;
    if (!m || f->nranks < 2 || f->nranks > RANKS || foreign_pairs_open(f, &pairs) != 0
        || !script_make(&s, f->steps, f->size, f->variant))
        return 1;
    m->sure = foreign_mix((uint64_t)f->rank, 1);
    for (int i = 0; i < SLOTS; i++)
        req[i] = MPI_REQUEST_NULL;
    held = MPI_MESSAGE_NULL;
    int rc = ftkit_register(f->ft, "memory", m, sizeof *m / sizeof(uint64_t), MPI_UINT64_T);
    rc |= ftkit_register_requests(f->ft, "requests", req, SLOTS);
    rc |= ftkit_register_messages(f->ft, "held", &held, 1);
    return rc != FTKIT_OK;
}

static int connect_ranks(struct foreign *f)
{
    const int next = (f->rank + 1) % f->nranks;
    int rc = MPI_Comm_split(f->comm, f->rank % 2, f->rank, &sub);
    if (rc == MPI_SUCCESS)
        rc = MPI_Recv_init(
            m->buf[PERSISTENT], FIXED, MPI_UINT64_T, MPI_ANY_SOURCE, 51, f->comm, &req[PERSISTENT]);
    if (rc == MPI_SUCCESS)
        rc = MPI_Send_init(
            m->buf[PERSISTENT + 1], FIXED, MPI_UINT64_T, next, 51, f->comm, &req[PERSISTENT + 1]);
    return rc != MPI_SUCCESS;
}

static void disconnect(void)
{
    for (int i = PERSISTENT; i < SLOTS; i++)
        if (req[i] != MPI_REQUEST_NULL)
            MPI_Request_free(&req[i]);
    if (sub != MPI_COMM_NULL)
        MPI_Comm_free(&sub);
}

/* ---- content ------------------------------------------------------------------------------ */

static void check(bool good, int what, uint32_t event)
{
    if (good)
        return;
    if (m->wrong == 0)
        m->wrong = (uint64_t)event << 8 | (uint64_t)what;
    ++*pairs.bad;
}

static bool done(int rc)
{
    return rc == MPI_SUCCESS;
}

static uint64_t head_of(uint32_t event, int source, int words)
{
    return (uint64_t)event << 32 | (uint64_t)source << 24 | (uint64_t)words;
}

static uint64_t filler(const uint64_t *buf, int k)
{
    return (buf[1] ^ buf[2]) * (uint64_t)(2 * k + 1);
}

/* Make a message; salt tells apart the parts of a collective. */
static void fill(uint64_t *buf, const struct op *o, int salt)
{
    const uint64_t head[HEAD] = { head_of(o->event, s.rank, o->words),
        foreign_mix(m->sure + (uint64_t)salt, o->event), m->order };
    memcpy(buf, head, (size_t)(o->words < HEAD ? o->words : HEAD) * sizeof *head);
    for (int k = HEAD; k < o->words; k++)
        buf[k] = filler(buf, k);
}

/* Histories are sums, for messages may be received in another order than they were sent. */
static void sent(int dest, const uint64_t *buf, uint32_t event, int words)
{
    pairs.sent[dest] +=
        XXH3_64bits_withSeed(buf, (size_t)words * sizeof *buf, head_of(event, s.rank, words));
    pairs.nsent[dest]++;
}

static void received(const struct op *o, const uint64_t *buf, int source, int words)
{
    const uint32_t event = words > 0 ? (uint32_t)(buf[0] >> 32) : o->event;
    const uint64_t head = head_of(event, source, words);
    check(source >= 0 && source < s.nranks, WRONG_STATUS, o->event);
    if (source < 0 || source >= s.nranks)
        return;
    check(event - o->event < o->span && (words == 0 || buf[0] == head), WRONG_HEAD, o->event);
    check(o->peer == MPI_ANY_SOURCE || words == o->words, WRONG_LENGTH, o->event);
    bool good = true;
    for (int k = HEAD; k < words; k++)
        good = good && buf[k] == filler(buf, k);
    check(good, WRONG_CONTENT, o->event);
    const uint64_t hash = XXH3_64bits_withSeed(buf, (size_t)words * sizeof *buf, head);
    pairs.nreceived[source]++;
    pairs.received[source] += hash;
    m->order = foreign_mix(m->order + (uint64_t)source, hash);
}

/* A sum, in which the messages that one receive of any source or another got have no order. */
static void take_message(const struct op *o, const uint64_t *buf)
{
    if (o->words == 0)
        return;
    const int source = (int)(buf[0] >> 24 & 0xff);
    if (o->peer == MPI_ANY_SOURCE && source < s.nranks) {
        const bool same = (uint32_t)(m->last[source] >> 32) - o->event < o->span;
        check(!same || buf[0] > m->last[source], WRONG_ORDER, o->event);
        m->last[source] = buf[0];
    }
    m->sure += foreign_mix(o->words > 1 ? buf[1] : 0, buf[0]);
}

/* ---- communicators ------------------------------------------------------------------------ */

static MPI_Comm comm_of(const struct foreign *f, const struct op *o)
{
    return o->comm == SUB ? sub : f->comm;
}

/* The rank in SUB of a rank in WORLD, and the other way round. */
static int inner(const struct op *o, int rank)
{
    return o->comm == SUB && rank >= 0 ? rank / 2 : rank;
}

static int outer(const struct op *o, int rank)
{
    return o->comm == SUB && rank >= 0 ? 2 * rank + s.rank % 2 : rank;
}

/* ---- collectives --------------------------------------------------------------------------- */

static void fill_collective(const struct op *o, uint64_t *buf)
{
    const int size = script_size(&s, o->comm), me = inner(o, s.rank);
    if (o->coll == ALLREDUCE) {
        const uint64_t sure = foreign_mix(m->sure, o->event);
        for (int k = 0; k < o->words; k++) {
            buf[k] = k % 2 ? m->order + (uint64_t)k : sure + (uint64_t)k;
            m->in[o->comm] += buf[k] * foreign_mix((uint64_t)k, o->event);
        }
        return;
    }
    if (o->coll == BCAST && me == o->peer) {
        fill(buf, o, 0);
        for (int i = 0; i < size; i++)
            if (i != me)
                sent(outer(o, i), buf, o->event, o->words);
        return;
    }
    if (o->coll == BARRIER || o->coll == BCAST)
        return;
    for (int i = 0; i < (o->coll == ALLTOALL ? size : 1); i++)
        fill(buf + i * o->words, o, i);
    for (int i = 0; i < size; i++)
        if (o->coll != GATHER || i == o->peer)
            sent(outer(o, i), buf + (o->coll == ALLTOALL ? i : 0) * o->words, o->event, o->words);
}

static int call_collective(const struct foreign *f, const struct op *o, uint64_t *buf)
{
    const MPI_Datatype t = MPI_UINT64_T;
    const MPI_Comm c = comm_of(f, o);
    const int n = o->words;
    switch (o->coll) {
    case ALLREDUCE:
        return MPI_Allreduce(buf, buf + HALF, n, t, MPI_SUM, c);
    case BCAST:
        return MPI_Bcast(buf, n, t, o->peer, c);
    case GATHER:
        return MPI_Gather(buf, n, t, buf + HALF, n, t, o->peer, c);
    case ALLTOALL:
        return MPI_Alltoall(buf, n, t, buf + HALF, n, t, c);
    case ALLGATHER:
        return MPI_Allgather(buf, n, t, buf + HALF, n, t, c);
    default:
        return MPI_Barrier(c);
    }
}

static int begin_collective(
    const struct foreign *f, const struct op *o, uint64_t *buf, MPI_Request *q)
{
    const MPI_Datatype t = MPI_UINT64_T;
    const MPI_Comm c = comm_of(f, o);
    const int n = o->words;
    switch (o->coll) {
    case ALLREDUCE:
        return MPI_Iallreduce(buf, buf + HALF, n, t, MPI_SUM, c, q);
    case BCAST:
        return MPI_Ibcast(buf, n, t, o->peer, c, q);
    case GATHER:
        return MPI_Igather(buf, n, t, buf + HALF, n, t, o->peer, c, q);
    case ALLTOALL:
        return MPI_Ialltoall(buf, n, t, buf + HALF, n, t, c, q);
    case ALLGATHER:
        return MPI_Iallgather(buf, n, t, buf + HALF, n, t, c, q);
    default:
        return MPI_Ibarrier(c, q);
    }
}

/* How many messages a collective has brought; where they are, and the rank of the first. */
static int brought(const struct op *o, uint64_t *buf, uint64_t **where, int *first)
{
    const int me = inner(o, s.rank);
    *where = o->coll == BCAST ? buf : buf + HALF;
    *first = o->coll == BCAST ? o->peer : 0;
    if (o->coll == BARRIER || o->coll == ALLREDUCE)
        return 0;
    if (o->coll == BCAST)
        return me != o->peer;
    return o->coll == GATHER && me != o->peer ? 0 : script_size(&s, o->comm);
}

static void end_collective(const struct op *o, uint64_t *buf)
{
    uint64_t *where;
    int first, n = brought(o, buf, &where, &first);
    for (int i = 0; i < n; i++) {
        struct op part = *o;
        part.peer = outer(o, first + i);
        received(&part, where + i * o->words, part.peer, o->words);
    }
    if (o->coll != ALLREDUCE)
        return;
    for (int k = 0; k < o->words; k++)
        m->out[o->comm] += where[k] * foreign_mix((uint64_t)k, o->event);
    m->order = foreign_mix(m->order, m->out[o->comm]);
}

static void take_collective(const struct op *o, uint64_t *buf)
{
    uint64_t *where;
    int first, n = brought(o, buf, &where, &first);
    for (int i = 0; i < n; i++)
        take_message(o, where + i * o->words);
    if (o->coll == ALLREDUCE)
        m->sure += foreign_mix(where[0], o->event);
}

static void collective(const struct foreign *f, const struct op *o)
{
    fill_collective(o, scratch);
    if (!done(call_collective(f, o, scratch)))
        return;
    end_collective(o, scratch);
    take_collective(o, scratch);
}

/* ---- requests ------------------------------------------------------------------------------ */

static void begin(const struct foreign *f, const struct op *o)
{
    uint64_t *buf = m->buf[o->slot];
    MPI_Request *q = &req[o->slot];
    const MPI_Comm c = comm_of(f, o);
    int rc, peer = inner(o, o->peer);
    if (o->what == ISEND || o->what == ISSEND || (o->what == START && o->slot > PERSISTENT)) {
        fill(buf, o, 0);
        sent(o->peer, buf, o->event, o->words);
    }
    switch (o->what) {
    case ISEND:
        rc = MPI_Isend(buf, o->words, MPI_UINT64_T, peer, o->tag, c, q);
        break;
    case ISSEND:
        rc = MPI_Issend(buf, o->words, MPI_UINT64_T, peer, o->tag, c, q);
        break;
    case IRECV:
        rc = MPI_Irecv(buf, o->event % 2 ? MOST : o->words, MPI_UINT64_T, peer, o->tag, c, q);
        break;
    case START:
        rc = MPI_Start(q);
        break;
    default:
        fill_collective(o, buf);
        rc = begin_collective(f, o, buf, q);
        break;
    }
    if (done(rc))
        m->begun[o->slot] = 1 + (uint64_t)(o - s.ops);
}

/* The request of a slot is complete. */
static void complete(int slot, MPI_Status *st)
{
    const struct op *o = &s.ops[m->begun[slot] - 1];
    int words = 0;
    m->filled[slot] = m->begun[slot];
    m->begun[slot] = 0;
    m->order = foreign_mix(m->order, (uint64_t)slot);
    if (o->what == ICOLL)
        end_collective(o, m->buf[slot]);
    else if (o->what == IRECV || (o->what == START && slot == PERSISTENT)) {
        check(done(MPI_Get_count(st, MPI_UINT64_T, &words)), WRONG_STATUS, o->event);
        received(o, m->buf[slot], outer(o, st->MPI_SOURCE), words);
    }
}

/* The receive that was begun last has a message, or it has none and is begun again. */
static void cancel(const struct foreign *f, const struct op *o)
{
    MPI_Status st;
    int cancelled = 0;
    if (!m->begun[o->slot] || !done(MPI_Cancel(&req[o->slot]))
        || !done(MPI_Wait(&req[o->slot], &st)) || !done(MPI_Test_cancelled(&st, &cancelled)))
        return;
    m->order = foreign_mix(m->order, (uint64_t)cancelled);
    if (cancelled)
        begin(f, &s.ops[m->begun[o->slot] - 1]);
    else
        complete(o->slot, &st);
}

static int wait_for(
    const struct op *o, int n, MPI_Request *q, int *many, int *which, MPI_Status *st)
{
    int rc = MPI_SUCCESS, flag = 0;
    switch (o->what) {
    case WAIT:
        *many = 1;
        return MPI_Wait(q, st);
    case TEST:
        rc = MPI_Test(q, &flag, st);
        *many = flag;
        if (done(rc))
            m->order = foreign_mix(m->order, (uint64_t)flag);
        return rc;
    case WAITALL:
        *many = n;
        return MPI_Waitall(n, q, st);
    case WAITANY:
        *many = 1;
        return MPI_Waitany(n, q, which, st);
    case TESTANY:
        *many = 1;
        while (done(rc) && !flag)
            rc = MPI_Testany(n, q, which, &flag, st);
        return rc;
    default:
        return MPI_Waitsome(n, q, many, which, st);
    }
}

static void finish(const struct op *o)
{
    MPI_Request q[SLOTS];
    MPI_Status st[SLOTS];
    int slots[SLOTS], which[SLOTS], n = 0, many = 0;
    for (int i = 0; i < SLOTS; i++)
        if (o->mask >> i & 1 && m->begun[i]) {
            which[n] = n;
            q[n] = req[i];
            slots[n++] = i;
        }
    if (n == 0)
        return;
    int rc = wait_for(o, n, q, &many, which, st);
    for (int i = 0; i < n; i++)
        req[slots[i]] = q[i];
    for (int i = 0; done(rc) && i < many && i < n; i++)
        if (which[i] >= 0 && which[i] < n && m->begun[slots[which[i]]])
            complete(slots[which[i]], &st[i]);
        else
            check(false, WRONG_STATUS, o->event);
}

static void take(const struct op *o)
{
    if (!m->filled[o->slot])
        return;
    const struct op *b = &s.ops[m->filled[o->slot] - 1];
    m->filled[o->slot] = 0;
    if (b->what == ICOLL)
        take_collective(b, m->buf[o->slot]);
    else if (b->what == IRECV || (b->what == START && o->slot == PERSISTENT))
        take_message(b, m->buf[o->slot]);
}

/* ---- calls that return when their work is done ---------------------------------------------- */

static void got(const struct op *o, const uint64_t *buf, const MPI_Status *st)
{
    int words = 0;
    check(done(MPI_Get_count(st, MPI_UINT64_T, &words)), WRONG_STATUS, o->event);
    received(o, buf, outer(o, st->MPI_SOURCE), words);
    take_message(o, buf);
}

static void send(const struct foreign *f, const struct op *o)
{
    int (*const how)(const void *, int, MPI_Datatype, int, int, MPI_Comm) =
        o->what == SEND ? MPI_Send : MPI_Ssend;
    fill(scratch, o, 0);
    sent(o->peer, scratch, o->event, o->words);
    how(scratch, o->words, MPI_UINT64_T, inner(o, o->peer), o->tag, comm_of(f, o));
}

static void receive(const struct foreign *f, const struct op *o)
{
    const MPI_Comm c = comm_of(f, o);
    MPI_Status st;
    int rc = MPI_SUCCESS, flag = 0, words = o->words, source = inner(o, o->peer), tag = o->tag;
    if (o->what == PROBE)
        rc = MPI_Probe(source, tag, c, &st);
    while (o->what == IPROBE && done(rc) && !flag)
        rc = MPI_Iprobe(source, tag, c, &flag, &st);
    if (done(rc) && o->what != RECV) {
        rc = MPI_Get_count(&st, MPI_UINT64_T, &words);
        source = st.MPI_SOURCE;
        tag = st.MPI_TAG;
    }
    if (done(rc) && words >= 0 && words <= MOST
        && done(MPI_Recv(scratch, words, MPI_UINT64_T, source, tag, c, &st)))
        got(o, scratch, &st);
}

static void look(const struct foreign *f, const struct op *o)
{
    const MPI_Comm c = comm_of(f, o);
    MPI_Status st;
    int flag = 0, source = inner(o, o->peer);
    if (o->what == MPROBE) {
        if (!done(MPI_Mprobe(source, o->tag, c, &held, &st)))
            held = MPI_MESSAGE_NULL;
    } else if (done(MPI_Iprobe(source, o->tag, c, &flag, &st)))
        m->order = foreign_mix(m->order, (uint64_t)flag);
}

static void matched(const struct op *o)
{
    MPI_Status st;
    if (held != MPI_MESSAGE_NULL && done(MPI_Mrecv(scratch, MOST, MPI_UINT64_T, &held, &st)))
        got(o, scratch, &st);
}

static void exchange(const struct foreign *f, const struct op *o)
{
    static uint64_t in[MOST];
    MPI_Status st;
    fill(scratch, o, 0);
    sent(o->peer, scratch, o->event, o->words);
    if (!done(MPI_Sendrecv(scratch, o->words, MPI_UINT64_T, o->peer, o->tag, in, o->words,
            MPI_UINT64_T, o->from, o->tag, f->comm, &st)))
        return;
    struct op part = *o;
    part.peer = o->from;
    got(&part, in, &st);
}

/* ---- the program ----------------------------------------------------------------------------- */

static void perform(struct foreign *f, const struct op *o)
{
    switch (o->what) {
    case STEP:
        f->step = o->round;
        foreign_watch(f);
        (void)FTK_FAULT("app.step");
        break;
    case MID:
        (void)FTK_FAULT("app.mid");
        break;
    case INFLIGHT:
        (void)FTK_FAULT("app.inflight");
        break;
    case PAUSE: /* as long as no other time */
        usleep((useconds_t)(foreign_mix(ftk_wall_ns(), (uint64_t)getpid()) % 2000));
        break;
    case SEND:
    case SSEND:
        send(f, o);
        break;
    case RECV:
    case PROBE:
    case IPROBE:
        receive(f, o);
        break;
    case LOOK:
    case MPROBE:
        look(f, o);
        break;
    case MRECV:
        matched(o);
        break;
    case SENDRECV:
        exchange(f, o);
        break;
    case COLL:
        collective(f, o);
        break;
    case TAKE:
        take(o);
        break;
    case CANCEL:
        cancel(f, o);
        break;
    default:
        if (o->what >= WAIT)
            finish(o);
        else
            begin(f, o);
        break;
    }
}

/* A call of ftkit_checkpoint(), or of ftkit_wait(): then another call may have to follow, which is
 * the first one from the set. */
static int call(struct foreign *f, enum what what)
{
    static int calls;
    int rc = FTKIT_OK;
    if (what == JOIN && (rc = ftkit_wait(f->ft)) != FTKIT_ROLLED_BACK)
        return rc;
    rc = s.asks && ++calls % 3 == 0 ? ftkit_request(f->ft, 1) : FTKIT_OK;
    return rc == FTKIT_OK ? ftkit_checkpoint(f->ft) : rc;
}

/* A call of ftkit_checkpoint() is an op: a set has its number, and who is restored goes on behind
 * it.  A replacement comes to this op first, as in the loop of the README. */
static int loop(struct foreign *f)
{
    for (bool first = true;;) {
        if (m->pc == (uint64_t)s.n) {
            int bad = 0;
            f->step = f->steps;
            if (foreign_end(f, &bad))
                return bad;
            continue;
        }
        const struct op *o = &s.ops[m->pc];
        (void)FTK_FAULT("app.op");
        if (o->what == CALL || o->what == JOIN) {
            int rc = call(f, o->what);
            if (foreign_fatal(rc))
                return foreign_complain(f, o->what == CALL ? "checkpoint" : "wait", rc);
            if (first)
                foreign_info(f, "line");
            first = false;
        } else {
            perform(f, o);
        }
        m->pc++;
    }
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    uint64_t bad = foreign_pairs_compare(f, &pairs), all[COMMS] = { 0 };
    MPI_Allreduce(&m->in[WORLD], &all[WORLD], 1, MPI_UINT64_T, MPI_SUM, f->comm);
    MPI_Allreduce(&m->in[SUB], &all[SUB], 1, MPI_UINT64_T, MPI_SUM, sub);
    bad += all[WORLD] != m->out[WORLD];
    bad += all[SUB] != m->out[SUB];
    if (m->wrong != 0)
        fprintf(stderr, "script: rank %d: event %llu is wrong first: %llu\n", f->rank,
            (unsigned long long)(m->wrong >> 8), (unsigned long long)(m->wrong & 0xff));
    return foreign_counted(f, m->sure, bad, hash, detail, room);
}

static void release(void)
{
    free(m);
    free(s.ops);
    free(pairs.sent);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { .name = "script",
        .steps = 30,
        .size = 1,
        .prepare = prepare,
        .connect = connect_ranks,
        .disconnect = disconnect,
        .verdict = verdict,
        .release = release };
    return foreign_run(argc, argv, &app, loop);
}
