/* Requests under way at ftkit_checkpoint(): a step ends by beginning the communication that the
 * next step completes.  The variants (-m) choose the kind: halo, persistent, types, collective,
 * wildcard, probe, long; all is the default.
 *
 * In some steps the messages are sent at once, so that the receives are complete at the set; in
 * others the next step sends them (is_late()), so that the receives are under way.
 *
 * What is sent depends on the state, so a wrong message changes the result.  A step passes app.mid
 * once, with nothing under way but a long collective, and app.inflight after each kind has begun.
 * app.sent comes when the messages of a late step have been sent.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"

enum { LONG = 5000, TYPED = 4, ROOM = 32, PARTS = 7, MANY = 16, LARGE = 3000 };
enum { PART_HALO, PART_PERSISTENT, PART_TYPES, PART_COLL, PART_WILDCARD, PART_PROBE, PART_LONG };
enum { COLLS = 9 };

/* All that is registered, but for requests. */
static struct memory {
    uint64_t state, bad, order, theirs;
    uint64_t in[2], out[2], far_in[LONG], far_out[LONG], freed[2];
    uint64_t pin[3], pout[3];
    uint64_t typed[ROOM], typed_out[TYPED];
    uint64_t sum[2], mine[2], product[2], all[MANY], part[MANY], spread[MANY], near_in[4], near[4];
    uint64_t large[LARGE], large_in[LARGE], again, again_in;
    uint64_t wild[MANY], wild_out;
    uint64_t probe_out;
    uint64_t long_in[MANY], long_out[MANY];
    uint64_t seen; /* steps with requests in the last set */
} * m;

/* Variables with requests: registered, too. */
static MPI_Request halo[8], persistent[6], typed[2], coll[COLLS], wild[2 * MANY];
static MPI_Request long_coll = MPI_REQUEST_NULL;
static MPI_Message message;

static MPI_Comm cart = MPI_COMM_NULL, apart = MPI_COMM_NULL;
static MPI_Op mix_op;
static int counts[MANY], displs[MANY];

static bool has(const struct foreign *f, int part)
{
    static const char *const names[PARTS] = { "halo", "persistent", "types", "collective",
        "wildcard", "probe", "long" };
    return !f->variant || strcmp(f->variant, "all") == 0 || strcmp(f->variant, names[part]) == 0;
}

/* Associative, not commutative: pairs (a, b) are functions x -> a x + b. */
static void compose(void *in, void *inout, int *n, MPI_Datatype *type)
{
    const uint64_t *x = in;
    uint64_t *y = inout;
    (void)type;
    for (int i = 0; i + 1 < *n; i += 2) {
        y[i + 1] += y[i] * x[i + 1];
        y[i] *= x[i];
    }
}

static int register_all(struct foreign *f)
{
    int rc = ftkit_register(f->ft, "memory", m, sizeof *m / sizeof(uint64_t), MPI_UINT64_T);
    rc |= ftkit_register_requests(f->ft, "halo", halo, 8);
    rc |= ftkit_register_requests(f->ft, "persistent", persistent, 6);
    rc |= ftkit_register_requests(f->ft, "typed", typed, 2);
    rc |= ftkit_register_requests(f->ft, "coll", coll, COLLS);
    rc |= ftkit_register_requests(f->ft, "wild", wild, (size_t)(2 * MANY));
    rc |= ftkit_register_requests(f->ft, "long", &long_coll, 1);
    return rc | ftkit_register_messages(f->ft, "message", &message, 1);
}

static void clear(MPI_Request *q, int n)
{
    for (int i = 0; i < n; i++)
        q[i] = MPI_REQUEST_NULL;
}

static int prepare(struct foreign *f)
{
    m = calloc(1, sizeof *m);
    if (!m || f->nranks > MANY)
        return 1;
    m->state = foreign_mix((uint64_t)f->rank, 1);
    clear(halo, 8);
    clear(persistent, 6);
    clear(typed, 2);
    clear(coll, COLLS);
    clear(wild, 2 * MANY);
    message = MPI_MESSAGE_NULL;
    for (int i = 0; i < f->nranks; i++) {
        counts[i] = 1;
        displs[i] = f->nranks - 1 - i;
    }
    return register_all(f) != FTKIT_OK || MPI_Op_create(compose, 0, &mix_op) != MPI_SUCCESS;
}

static int next_of(const struct foreign *f)
{
    return (f->rank + 1) % f->nranks;
}
static int prev_of(const struct foreign *f)
{
    return (f->rank + f->nranks - 1) % f->nranks;
}

/* One persistent pair is made before the loop, the others in it. */
static int connect(struct foreign *f)
{
    int dims[1] = { f->nranks }, ring[1] = { 1 };
    int rc = MPI_Cart_create(f->comm, 1, dims, ring, 0, &cart);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_dup(f->comm, &apart);
    if (rc == MPI_SUCCESS && has(f, PART_PERSISTENT)) {
        rc = MPI_Recv_init(&m->pin[0], 1, MPI_UINT64_T, prev_of(f), 20, f->comm, &persistent[0]);
        if (rc == MPI_SUCCESS)
            rc = MPI_Send_init(
                &m->pout[0], 1, MPI_UINT64_T, next_of(f), 20, f->comm, &persistent[1]);
    }
    return rc != MPI_SUCCESS;
}

static void take(uint64_t value)
{
    m->state = foreign_mix(m->state, value);
}

/* ---- halo: receives are posted a step ahead; small, long, synchronous and freed sends ---- */

/* Whether what was begun in a step is sent in the next one. */
static bool is_late(int step)
{
    return step % 3 == 1;
}

static bool send_halo(struct foreign *f, int step)
{
    const int next = next_of(f), prev = prev_of(f);
    MPI_Request q;
    int rc = MPI_Isend(&m->out[0], 1, MPI_UINT64_T, next, 1, f->comm, &halo[3]);
    if (rc == MPI_SUCCESS && step % 2)
        rc = MPI_Issend(&m->out[1], 1, MPI_UINT64_T, prev, 2, f->comm, &halo[4]);
    else if (rc == MPI_SUCCESS)
        rc = MPI_Isend(&m->out[1], 1, MPI_UINT64_T, prev, 2, f->comm, &halo[4]);
    if (rc == MPI_SUCCESS)
        rc = MPI_Isend(m->far_out, LONG, MPI_UINT64_T, next, 3, f->comm, &halo[5]);
    if (rc == MPI_SUCCESS)
        rc = MPI_Isend(&m->freed[step & 1], 1, MPI_UINT64_T, next, 4, f->comm, &q);
    return rc == MPI_SUCCESS && MPI_Request_free(&q) == MPI_SUCCESS;
}

static bool begin_halo(struct foreign *f)
{
    const int next = next_of(f), prev = prev_of(f);
    bool ok =
        MPI_Irecv(&m->in[0], 1, MPI_UINT64_T, prev, 1, f->comm, &halo[0]) == MPI_SUCCESS
        && MPI_Irecv(&m->in[1], 1, MPI_UINT64_T, next, 2, f->comm, &halo[1]) == MPI_SUCCESS
        && MPI_Irecv(m->far_in, LONG, MPI_UINT64_T, prev, 3, f->comm, &halo[2]) == MPI_SUCCESS;
    m->out[0] = m->state;
    m->out[1] = m->state + 1;
    for (int i = 0; i < LONG; i++)
        m->far_out[i] = m->state * (uint64_t)(i + 1);
    m->freed[f->step & 1] = m->state + 2;
    halo[6] = halo[0]; /* two variables, one request */
    return ok && (is_late(f->step) || send_halo(f, f->step));
}

static void end_halo(struct foreign *f)
{
    MPI_Status s[8];
    uint64_t freed = 0;
    int got = -1;
    halo[6] = MPI_REQUEST_NULL;
    if (is_late(f->step - 1)) {
        if (!send_halo(f, f->step - 1))
            return;
        (void)FTK_FAULT("app.sent");
    }
    if (MPI_Waitall(8, halo, s) != MPI_SUCCESS
        || MPI_Recv(&freed, 1, MPI_UINT64_T, prev_of(f), 4, f->comm, &s[6]) != MPI_SUCCESS)
        return;
    MPI_Get_count(&s[2], MPI_UINT64_T, &got);
    m->bad +=
        s[0].MPI_SOURCE != prev_of(f) || s[0].MPI_TAG != 1 || s[1].MPI_TAG != 2 || got != LONG;
    for (int i = 0; i < LONG; i++)
        m->bad += m->far_in[i] != m->in[0] * (uint64_t)(i + 1);
    m->bad += freed != m->in[0] + 2;
    take(m->in[0]);
    take(m->in[1]);
}

/* ---- persistent: of set-up, of the loop, a collective ---------------------------------- */

static bool make_persistent(struct foreign *f)
{
    return MPI_Recv_init(&m->pin[1], 1, MPI_UINT64_T, MPI_ANY_SOURCE, 21, f->comm, &persistent[2])
               == MPI_SUCCESS
           && MPI_Send_init(&m->pout[1], 1, MPI_UINT64_T, next_of(f), 21, f->comm, &persistent[3])
                  == MPI_SUCCESS
           && MPI_Allreduce_init(&m->pout[2], &m->pin[2], 1, MPI_UINT64_T, MPI_SUM, f->comm,
                  MPI_INFO_NULL, &persistent[4])
                  == MPI_SUCCESS;
}

static bool begin_persistent(struct foreign *f)
{
    if (f->step == 3 && !make_persistent(f))
        return false;
    m->pout[0] = m->state + 3;
    m->pout[1] = m->state + 4;
    m->pout[2] = m->state + 5;
    for (int i = 0; i < (f->step < 3 ? 2 : 5); i++)
        if ((i % 2 == 0 || !is_late(f->step)) && MPI_Start(&persistent[i]) != MPI_SUCCESS)
            return false;
    return true;
}

static void end_persistent(struct foreign *f)
{
    MPI_Status s[6];
    for (int i = 1; is_late(f->step - 1) && i < (f->step - 1 < 3 ? 2 : 5); i += 2)
        if (MPI_Start(&persistent[i]) != MPI_SUCCESS)
            return;
    if (MPI_Waitall(6, persistent, s) != MPI_SUCCESS)
        return;
    take(m->pin[0]);
    take(m->pin[1]);
    take(m->pin[2]);
    m->bad += f->step > 3 && (s[2].MPI_SOURCE != prev_of(f) || m->pin[1] != m->pin[0] + 1);
}

/* ---- types: a receive with each constructor, whose type is freed at once --------------- */

static int make_type(int kind, MPI_Datatype *out)
{
    const int blocks[2] = { 1, 3 }, places[2] = { 2, 9 };
    const MPI_Aint bytes[2] = { 16, 72 };
    int rc;
    MPI_Datatype t = MPI_DATATYPE_NULL, part;
    switch (kind) {
    case 0:
        rc = MPI_Type_vector(2, 2, 5, MPI_UINT64_T, out);
        break;
    case 1:
        rc = MPI_Type_indexed(2, blocks, places, MPI_UINT64_T, out);
        break;
    case 2:
        rc = MPI_Type_contiguous(2, MPI_UINT32_T, &t);
        rc = rc == MPI_SUCCESS ? MPI_Type_create_struct(
                 2, blocks, bytes, (MPI_Datatype[]){ MPI_UINT64_T, t }, out)
                               : rc;
        break;
    case 3:
        rc = MPI_Type_create_resized(MPI_UINT64_T, 0, 24, &t);
        rc = rc == MPI_SUCCESS ? MPI_Type_contiguous(TYPED, t, out) : rc;
        break;
    case 4:
        rc = MPI_Type_create_subarray(
            2, (int[]){ 5, 6 }, (int[]){ 2, 2 }, (int[]){ 2, 3 }, MPI_ORDER_C, MPI_UINT64_T, out);
        break;
    case 5:
        rc = MPI_Type_create_darray(2, 0, 1, (int[]){ 8 }, (int[]){ MPI_DISTRIBUTE_CYCLIC },
            (int[]){ MPI_DISTRIBUTE_DFLT_DARG }, (int[]){ 2 }, MPI_ORDER_C, MPI_UINT64_T, out);
        break;
    case 6:
        rc = MPI_Type_create_hindexed_block(2, 1, bytes, MPI_UINT64_T, &part);
        rc = rc == MPI_SUCCESS ? MPI_Type_create_hvector(2, 1, 96, part, &t) : rc;
        rc = rc == MPI_SUCCESS ? MPI_Type_dup(t, out) : rc;
        if (rc == MPI_SUCCESS)
            rc = MPI_Type_free(&part);
        break;
    default:
        rc = MPI_Type_create_indexed_block(2, 2, places, MPI_UINT64_T, out);
        break;
    }
    if (rc == MPI_SUCCESS && t != MPI_DATATYPE_NULL)
        rc = MPI_Type_free(&t);
    return rc == MPI_SUCCESS ? MPI_Type_commit(out) : rc;
}

static bool send_typed(struct foreign *f)
{
    return MPI_Isend(m->typed_out, TYPED, MPI_UINT64_T, next_of(f), 5, f->comm, &typed[1])
           == MPI_SUCCESS;
}

static bool begin_types(struct foreign *f)
{
    MPI_Datatype t;
    memset(m->typed, 0, sizeof m->typed);
    for (int i = 0; i < TYPED; i++)
        m->typed_out[i] = m->state + (uint64_t)i;
    if (make_type(f->step % 8, &t) != MPI_SUCCESS)
        return false;
    bool ok = MPI_Irecv(m->typed, 1, t, prev_of(f), 5, f->comm, &typed[0]) == MPI_SUCCESS;
    ok = MPI_Type_free(&t) == MPI_SUCCESS && ok;
    return ok && (is_late(f->step) || send_typed(f));
}

/* The data are where the type says, in the order of the type. */
static void end_types(struct foreign *f)
{
    static const int places[8][TYPED] = { { 0, 1, 5, 6 }, { 2, 9, 10, 11 }, { 2, 9, 10, 11 },
        { 0, 3, 6, 9 }, { 15, 16, 21, 22 }, { 0, 2, 4, 6 }, { 2, 9, 14, 21 }, { 2, 3, 9, 10 } };
    uint64_t sum = 0, want = 0;
    const int *at = places[(f->step - 1) % 8];
    if (is_late(f->step - 1) && !send_typed(f))
        return;
    if (MPI_Waitall(2, typed, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
        return;
    for (int i = 0; i < TYPED; i++) {
        m->bad += m->typed[at[i]] != m->typed[at[0]] + (uint64_t)i;
        want += m->typed[at[i]];
    }
    for (int i = 0; i < ROOM; i++)
        sum += m->typed[i];
    m->bad += sum != want;
    take(m->typed[at[0]]);
}

/* ---- collectives: several at once ------------------------------------------------------- */

static bool start_coll(struct foreign *f, int step)
{
    const int root = step % f->nranks;
    MPI_Comm c = f->comm;
    int rc = MPI_Iallreduce(&m->sum[1], &m->sum[0], 1, MPI_UINT64_T, MPI_SUM, c, &coll[0]);
    if (rc == MPI_SUCCESS)
        rc = MPI_Iallreduce(m->mine, m->product, 2, MPI_UINT64_T, mix_op, c, &coll[1]);
    if (rc == MPI_SUCCESS)
        rc = MPI_Ialltoallv(m->part, counts, displs, MPI_UINT64_T, m->all, counts, displs,
            MPI_UINT64_T, c, &coll[2]);
    if (rc == MPI_SUCCESS)
        rc = MPI_Ineighbor_alltoall(
            m->near, 1, MPI_UINT64_T, m->near_in, 1, MPI_UINT64_T, cart, &coll[3]);
    if (rc == MPI_SUCCESS)
        rc = MPI_Ibcast(m->spread, 1, MPI_UINT64_T, root, c, &coll[4]);
    if (rc == MPI_SUCCESS)
        rc = MPI_Ireduce(m->large, m->large_in, LARGE, MPI_UINT64_T, MPI_SUM, 0, c, &coll[5]);
    if (rc == MPI_SUCCESS)
        rc = MPI_Ibarrier(c, &coll[6]);
    if (rc == MPI_SUCCESS)
        rc = MPI_Iexscan(&m->again, &m->again_in, 1, MPI_UINT64_T, MPI_SUM, c, &coll[7]);
    if (rc == MPI_SUCCESS)
        rc = MPI_Iallgather(
            MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, &m->spread[1], 0, MPI_UINT64_T, c, &coll[8]);
    return rc == MPI_SUCCESS;
}

/* In a late step one rank begins in the next step only: the others wait for it at the set. */
static bool is_last(const struct foreign *f, int step)
{
    return is_late(step) && f->rank == step % f->nranks;
}

static bool begin_coll(struct foreign *f)
{
    const int n = f->nranks;
    m->sum[1] = m->state;
    m->mine[0] = 2 * m->state + 1;
    m->mine[1] = m->state;
    for (int i = 0; i < n; i++)
        m->part[i] = m->state + (uint64_t)i;
    for (int i = 0; i < LARGE; i++)
        m->large[i] = m->state + (uint64_t)(7 * i);
    m->near[0] = m->state;
    m->near[1] = ~m->state;
    m->again = m->state + 6;
    if (f->rank == f->step % n)
        m->spread[0] = m->state;
    return is_last(f, f->step) || start_coll(f, f->step);
}

static void end_coll(struct foreign *f)
{
    uint64_t sum = 0;
    if (is_last(f, f->step - 1) && !start_coll(f, f->step - 1))
        return;
    if (MPI_Waitall(COLLS, coll, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
        return;
    take(m->sum[0]);
    take(m->product[0]);
    take(m->product[1]);
    for (int i = 0; i < f->nranks; i++)
        sum += m->all[i];
    /* rank i has sent its value displs[rank] = nranks - 1 - rank */
    m->bad += sum != m->sum[0] + (uint64_t)(f->nranks * (f->nranks - 1 - f->rank));
    take(m->near_in[0]);
    take(m->near_in[1]);
    take(m->spread[0]);
    for (int i = 0; f->rank == 0 && i < LARGE; i++)
        m->bad += m->large_in[i] != m->sum[0] + (uint64_t)(7 * i * f->nranks);
    if (f->rank > 0)
        take(m->again_in);
}

/* ---- wildcard: which message a receive gets is left to the MPI ------------------------- */

static bool send_wildcard(struct foreign *f, int step)
{
    bool ok = true;
    for (int i = 1; ok && i < f->nranks; i++)
        ok = MPI_Isend(&m->wild_out, 1, MPI_UINT64_T, (f->rank + i) % f->nranks, 30 + step % 2,
                 f->comm, &wild[MANY + i])
             == MPI_SUCCESS;
    return ok;
}

static bool begin_wildcard(struct foreign *f)
{
    int k = 0;
    bool ok = true;
    const int tag = 30 + f->step % 2; /* a rank may be a step ahead */
    m->wild_out = m->state + 8;
    for (int i = 0; ok && i < f->nranks - 1; i++)
        ok = MPI_Irecv(&m->wild[i], 1, MPI_UINT64_T, MPI_ANY_SOURCE, tag, f->comm, &wild[k++])
             == MPI_SUCCESS;
    return ok && (is_late(f->step) || send_wildcard(f, f->step));
}

/* The order goes to the next rank, and no rank may be told another order than the last one. */
static void end_wildcard(struct foreign *f)
{
    uint64_t sum = 0, theirs = 0;
    MPI_Status s;
    int index = 0;
    if (is_late(f->step - 1) && !send_wildcard(f, f->step - 1))
        return;
    while (index != MPI_UNDEFINED) {
        if (MPI_Waitany(2 * MANY, wild, &index, &s) != MPI_SUCCESS)
            return;
        if (index != MPI_UNDEFINED && index < f->nranks - 1) {
            sum += m->wild[index];
            m->order = foreign_mix(m->order, foreign_mix((uint64_t)index, m->wild[index]));
        }
    }
    if (MPI_Sendrecv(&m->order, 1, MPI_UINT64_T, next_of(f), 33, &theirs, 1, MPI_UINT64_T,
            prev_of(f), 33, f->comm, MPI_STATUS_IGNORE)
        == MPI_SUCCESS)
        m->theirs = theirs;
    take(sum);
}

/* ---- probe: a message is matched, and received in the next step ------------------------ */

static bool begin_probe(struct foreign *f)
{
    MPI_Status s;
    m->probe_out = m->state + 9;
    return MPI_Send(&m->probe_out, 1, MPI_UINT64_T, next_of(f), 40, f->comm) == MPI_SUCCESS
           && MPI_Mprobe(prev_of(f), 40, f->comm, &message, &s) == MPI_SUCCESS;
}

static void end_probe(struct foreign *f)
{
    uint64_t in = 0;
    MPI_Status s;
    (void)f;
    if (MPI_Mrecv(&in, 1, MPI_UINT64_T, &message, &s) == MPI_SUCCESS) {
        m->bad += s.MPI_SOURCE != prev_of(f);
        take(in);
    }
}

/* ---- long: a collective under way at several sets; one rank begins three steps later ------- */

enum { ROUND = 6 };

static bool begin_long(struct foreign *f)
{
    const int in_round = f->step % ROUND;
    const bool last = f->rank == f->step / ROUND % f->nranks;
    if (in_round == 1)
        for (int i = 0; i < f->nranks; i++)
            m->long_out[i] = foreign_mix(m->state, (uint64_t)i);
    if (in_round != (last ? 4 : 1))
        return true;
    return MPI_Ialltoall(
               m->long_out, 1, MPI_UINT64_T, m->long_in, 1, MPI_UINT64_T, apart, &long_coll)
           == MPI_SUCCESS;
}

static void end_long(struct foreign *f)
{
    if (f->step % ROUND != 0 || MPI_Wait(&long_coll, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return;
    for (int i = 0; i < f->nranks; i++)
        take(m->long_in[i]);
}

/* ---- the program ------------------------------------------------------------------------ */

static const struct part {
    bool (*begin)(struct foreign *f);
    void (*end)(struct foreign *f);
} parts[PARTS] = { { begin_halo, end_halo }, { begin_persistent, end_persistent },
    { begin_types, end_types }, { begin_coll, end_coll }, { begin_wildcard, end_wildcard },
    { begin_probe, end_probe }, { begin_long, end_long } };

static void end_all(struct foreign *f)
{
    for (int i = 0; i < PARTS && f->step > 0; i++)
        if (has(f, i))
            parts[i].end(f);
}

static void step(struct foreign *f)
{
    ftkit_info info = { .size = sizeof info };
    m->bad += ftkit_query(f->ft, &info) != FTKIT_OK;
    m->seen += info.log_requests > 0;
    end_all(f);
    (void)FTK_FAULT("app.mid");
    for (int i = 0; i < PARTS; i++) {
        if (!has(f, i))
            continue;
        if (!parts[i].begin(f))
            return;
        (void)FTK_FAULT("app.inflight");
    }
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    uint64_t theirs = 0;
    end_all(f);
    MPI_Sendrecv(&m->order, 1, MPI_UINT64_T, next_of(f), 32, &theirs, 1, MPI_UINT64_T, prev_of(f),
        32, f->comm, MPI_STATUS_IGNORE);
    /* where lines are apart the sets are at other steps, and may meet no request */
    const char *line = getenv("FTKIT_CHECKPOINT_LINE");
    const bool unseen = m->seen == 0 && !(line && strcmp(line, "apart") == 0);
    return foreign_counted(
        f, m->state, m->bad + (m->theirs != theirs) + unseen, hash, detail, room);
}

static void disconnect(void)
{
    for (int i = 0; i < 6; i++)
        if (persistent[i] != MPI_REQUEST_NULL)
            MPI_Request_free(&persistent[i]);
    if (cart != MPI_COMM_NULL)
        MPI_Comm_free(&cart);
    if (apart != MPI_COMM_NULL)
        MPI_Comm_free(&apart);
    MPI_Op_free(&mix_op);
}

static void release(void)
{
    free(m);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { .name = "ahead",
        .steps = 42,
        .size = 1,
        .prepare = prepare,
        .connect = connect,
        .disconnect = disconnect,
        .step = step,
        .verdict = verdict,
        .release = release };
    return foreign_main(argc, argv, &app);
}
