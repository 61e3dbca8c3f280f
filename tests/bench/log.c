/* What the message log costs a program while nothing fails.
 *
 * The same operation is made by PMPI_ calls on a communicator of the MPI, which is the
 * bound, and by MPI_ calls on ftkit's.  A repetition is a set and then BLOCKS short
 * blocks of both in turns; it gives the fastest block of each, because the operations are
 * shorter than what a busy machine does in between by orders of magnitude.
 *
 *   log [-k KIND] [-t TEAM_SIZE] [-D] [-m MODE] [-b BYTES] [-c 0] [-o] [-s] [-a SET]
 *       [-r REPETITIONS]
 *
 * KIND: pingpong (one way: a send and a receive), self (the same without another
 * process), halo (four neighbours of a 2-D grid), rate (64 messages to the next rank and 64
 * from the previous one under way together; time per message), farm (a master that receives
 * from any source; time per message and its answer), pipeline (a wavefront over a 2-D grid,
 * as in NAS LU, that receives from any source, with a tag for each direction; time per
 * plane); allreduce, barrier, bcast, reduce, allgather (BYTES of each rank), alltoall: their
 * bound is the non-blocking twin, polled.  TEAM_SIZE: ranks that roll back together; 0
 * leaves the log off.  -D: log.teams = dynamic.  MODE: log.determinants; each rank counts as a node
 * then.  -c 0: log.check = false.  -o: the bound of a collective is the blocking call of the MPI.
 * -s: the messages are shared by ftkit_share(); otherwise they change from operation to operation.
 * -a: with checkpoint.line = apart; SET is away (no set is open), or open (all ranks but the last
 * one have cut for a set).
 *
 * Between teams the bound of messages from 4096 bytes on has a memcpy() of what the log keeps,
 * after the operation, to memory that has been touched and is not in the cache.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <stdbool.h>

#include "bench.h"
#include "calls.h"

enum { BLOCKS = 40, COUNTS = 4, DET_BYTES = 16 /* of a determinant: lib/log/determinant/det.h */ };

static int polled(int rc, MPI_Request *req)
{
    int done = 0;
    while (rc == MPI_SUCCESS && !done)
        rc = PMPI_Test(req, &done, MPI_STATUS_IGNORE);
    return rc;
}

static int twin_allreduce(
    const void *from, void *to, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    MPI_Request req;
    return polled(PMPI_Iallreduce(from, to, n, type, op, comm, &req), &req);
}

static int twin_barrier(MPI_Comm comm)
{
    MPI_Request req;
    return polled(PMPI_Ibarrier(comm, &req), &req);
}

static int twin_bcast(void *buf, int n, MPI_Datatype type, int root, MPI_Comm comm)
{
    MPI_Request req;
    return polled(PMPI_Ibcast(buf, n, type, root, comm, &req), &req);
}

static int twin_alltoall(
    const void *from, int n, MPI_Datatype type, void *to, int nto, MPI_Datatype into, MPI_Comm comm)
{
    MPI_Request req;
    return polled(PMPI_Ialltoall(from, n, type, to, nto, into, comm, &req), &req);
}

static int twin_allgather(
    const void *from, int n, MPI_Datatype type, void *to, int nto, MPI_Datatype into, MPI_Comm comm)
{
    MPI_Request req;
    return polled(PMPI_Iallgather(from, n, type, to, nto, into, comm, &req), &req);
}

static int twin_reduce(
    const void *from, void *to, int n, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm)
{
    MPI_Request req;
    return polled(PMPI_Ireduce(from, to, n, type, op, root, comm, &req), &req);
}

static const struct calls twin = { PMPI_Send, PMPI_Recv, PMPI_Isend, PMPI_Irecv, PMPI_Waitall,
    twin_allreduce, twin_barrier, twin_bcast, twin_alltoall, twin_allgather, twin_reduce };

#define COPIED ((size_t)32 << 20) /* bytes of messages that the bound keeps */
#define LONG 4096                 /* bytes of a message whose copy is part of the bound */

enum { TO_ALL_OTHERS = -1, TO_THE_NEXT = -2 /* of a grid without its rim */ };

struct kind {
    const char *name;
    int ops; /* in a block of small messages */
    void (*run)(struct bench *b, const struct side *s, int ops);
    bool collective;
    bool in_turns; /* one rank waits for another, or for the master */
    int batch;     /* operations that run apart from others */
    int sends;     /* how often its bytes are sent in an operation, by each rank at work; or ... */
};

static const char *kind_name = "pingpong", *mode = NULL, *apart = NULL;
static int team_size, check = 1;
static bool own;       /* the bound is the blocking collective */
static bool shares;    /* the messages stay as they are */
static bool dynamic;   /* teams follow the communication */
static char *from;     /* [4 * bytes] */
static char *copy;     /* [COPIED + bytes] */
static char *to;       /* [max(4, nranks) * bytes] */
static MPI_Comm world; /* of the MPI */

static int option(int opt, const char *value)
{
    if (opt == 'k')
        kind_name = value;
    else if (opt == 't')
        team_size = atoi(value);
    else if (opt == 'm')
        mode = value;
    else if (opt == 'o')
        own = true;
    else if (opt == 's')
        shares = true;
    else if (opt == 'D')
        dynamic = true;
    else if (opt == 'a')
        apart = value;
    else
        check = atoi(value);
    return team_size < 0 || (apart && strcmp(apart, "away") != 0 && strcmp(apart, "open") != 0);
}

/* ---- the operations ------------------------------------------------------------------ */

/* The next messages are other ones: the log keeps messages with the same bytes once. */
static void change(const struct bench *b)
{
    for (int part = 0; !shares && part < 4; part++)
        from[part * (ptrdiff_t)b->bytes]++;
}

static void pingpong(struct bench *b, const struct side *s, int ops)
{
    int n = (int)b->bytes, rc = MPI_SUCCESS;
    for (int i = 0; b->rank < 2 && i < ops; i++) {
        change(b);
        if (i % 2 == b->rank)
            rc |= s->mpi->send(from, n, MPI_BYTE, 1 - b->rank, 1, s->comm);
        else
            rc |= s->mpi->recv(to, n, MPI_BYTE, 1 - b->rank, 1, s->comm, MPI_STATUS_IGNORE);
    }
    bench_mpi(b, rc, "ping-pong");
}

static void self(struct bench *b, const struct side *s, int ops)
{
    int n = (int)b->bytes, rc = MPI_SUCCESS;
    for (int i = 0; i < ops; i++) {
        change(b);
        rc |= s->mpi->send(from, n, MPI_BYTE, b->rank, 1, s->comm);
        rc |= s->mpi->recv(to, n, MPI_BYTE, b->rank, 1, s->comm, MPI_STATUS_IGNORE);
    }
    bench_mpi(b, rc, "messages to itself");
}

static void halo(struct bench *b, const struct side *s, int ops)
{
    int n = (int)b->bytes, rc = MPI_SUCCESS;
    int nc = columns(b->nranks), nr = b->nranks / nc;
    int x = b->rank % nc, y = b->rank / nc;
    int to_rank[4] = { y * nc + (x + 1) % nc, y * nc + (x + nc - 1) % nc, (y + 1) % nr * nc + x,
        (y + nr - 1) % nr * nc + x };
    for (int i = 0; i < ops; i++) {
        change(b);
        MPI_Request req[8];
        for (int d = 0; d < 4; d++) /* from the other side */
            rc |= s->mpi->irecv(to + d * n, n, MPI_BYTE, to_rank[d ^ 1], d, s->comm, &req[d]);
        for (int d = 0; d < 4; d++)
            rc |= s->mpi->isend(from + d * n, n, MPI_BYTE, to_rank[d], d, s->comm, &req[4 + d]);
        rc |= s->mpi->waitall(8, req, MPI_STATUSES_IGNORE);
    }
    bench_mpi(b, rc, "halo");
}

static void allreduce(struct bench *b, const struct side *s, int ops)
{
    int rc = MPI_SUCCESS;
    for (int i = 0; i < ops; i++) {
        change(b);
        rc |= s->mpi->allreduce(
            from, to, (int)(b->bytes / sizeof(double)), MPI_DOUBLE, MPI_SUM, s->comm);
    }
    bench_mpi(b, rc, "allreduce");
}

static void barrier(struct bench *b, const struct side *s, int ops)
{
    int rc = MPI_SUCCESS;
    for (int i = 0; i < ops; i++)
        rc |= s->mpi->barrier(s->comm);
    bench_mpi(b, rc, "barrier");
}

static void bcast(struct bench *b, const struct side *s, int ops)
{
    int rc = MPI_SUCCESS;
    for (int i = 0; i < ops; i++) {
        change(b);
        rc |= s->mpi->bcast(from, (int)b->bytes, MPI_BYTE, 0, s->comm);
    }
    bench_mpi(b, rc, "broadcast");
}

/* bytes to all ranks together */
static void alltoall(struct bench *b, const struct side *s, int ops)
{
    int n = (int)b->bytes / b->nranks, rc = MPI_SUCCESS;
    for (int i = 0; i < ops; i++) {
        change(b);
        rc |= s->mpi->alltoall(from, n, MPI_BYTE, to, n, MPI_BYTE, s->comm);
    }
    bench_mpi(b, rc, "alltoall");
}

static void allgather(struct bench *b, const struct side *s, int ops)
{
    int n = (int)b->bytes, rc = MPI_SUCCESS;
    for (int i = 0; i < ops; i++) {
        change(b);
        rc |= s->mpi->allgather(from, n, MPI_BYTE, to, n, MPI_BYTE, s->comm);
    }
    bench_mpi(b, rc, "allgather");
}

static void reduce(struct bench *b, const struct side *s, int ops)
{
    int rc = MPI_SUCCESS;
    for (int i = 0; i < ops; i++) {
        change(b);
        rc |= s->mpi->reduce(
            from, to, (int)(b->bytes / sizeof(double)), MPI_DOUBLE, MPI_SUM, 0, s->comm);
    }
    bench_mpi(b, rc, "reduce");
}

static void rate(struct bench *b, const struct side *s, int ops)
{
    enum { MANY = 64 };
    int n = (int)b->bytes, rc = MPI_SUCCESS;
    int next = (b->rank + 1) % b->nranks, previous = (b->rank + b->nranks - 1) % b->nranks;
    for (int i = 0; i < ops; i += MANY) {
        MPI_Request req[2 * MANY];
        for (int j = 0; j < MANY; j++)
            rc |= s->mpi->irecv(to, n, MPI_BYTE, previous, 1, s->comm, &req[j]);
        for (int j = 0; j < MANY; j++)
            rc |= s->mpi->isend(from, n, MPI_BYTE, next, 1, s->comm, &req[MANY + j]);
        rc |= s->mpi->waitall(2 * MANY, req, MPI_STATUSES_IGNORE);
    }
    bench_mpi(b, rc, "messages under way together");
}

/* ops messages to the master and as many answers. */
static void farm(struct bench *b, const struct side *s, int ops)
{
    int n = (int)b->bytes, rc = MPI_SUCCESS;
    int each = ops / (b->nranks - 1);
    for (int i = 0; b->rank == 0 && i < each * (b->nranks - 1); i++) {
        change(b);
        MPI_Status st;
        rc |= s->mpi->recv(to, n, MPI_BYTE, MPI_ANY_SOURCE, 1, s->comm, &st);
        rc |= s->mpi->send(from, n, MPI_BYTE, st.MPI_SOURCE, 2, s->comm);
    }
    for (int i = 0; b->rank > 0 && i < each; i++) {
        change(b);
        rc |= s->mpi->send(from, n, MPI_BYTE, 0, 1, s->comm);
        rc |= s->mpi->recv(to, n, MPI_BYTE, 0, 2, s->comm, MPI_STATUS_IGNORE);
    }
    bench_mpi(b, rc, "master and workers");
}

static void pipeline(struct bench *b, const struct side *s, int ops)
{
    enum { EAST = 1, SOUTH };
    int n = (int)b->bytes, rc = MPI_SUCCESS;
    int nc = columns(b->nranks), nr = b->nranks / nc;
    int x = b->rank % nc, y = b->rank / nc;
    for (int i = 0; i < ops; i++) {
        change(b);
        if (x > 0)
            rc |= s->mpi->recv(to, n, MPI_BYTE, MPI_ANY_SOURCE, EAST, s->comm, MPI_STATUS_IGNORE);
        if (y > 0)
            rc |= s->mpi->recv(
                to + n, n, MPI_BYTE, MPI_ANY_SOURCE, SOUTH, s->comm, MPI_STATUS_IGNORE);
        if (x + 1 < nc)
            rc |= s->mpi->send(from, n, MPI_BYTE, b->rank + 1, EAST, s->comm);
        if (y + 1 < nr)
            rc |= s->mpi->send(from + n, n, MPI_BYTE, b->rank + nc, SOUTH, s->comm);
    }
    bench_mpi(b, rc, "pipeline");
}

static const struct kind kinds[] = {
    { "pingpong", 400, pingpong, false, true, 2, 1 },
    { "self", 1000, self, false, false, 2, 1 }, /* a rank is in its own team */
    { "halo", 60, halo, false, false, 2, 4 },
    { "allreduce", 200, allreduce, true, false, 2, 1 },
    { "barrier", 200, barrier, true, false, 2, 1 },
    { "bcast", 100, bcast, true, true, 2, TO_ALL_OTHERS },
    { "alltoall", 40, alltoall, true, false, 2, 1 },
    { "allgather", 100, allgather, true, false, 2, 1 },
    { "reduce", 100, reduce, true, false, 2, 1 },
    { "rate", 640, rate, false, false, 64, 1 },
    { "farm", 120, farm, false, true, 60, 2 },
    { "pipeline", 200, pipeline, false, false, 2, TO_THE_NEXT },
};

/* ---- measuring ----------------------------------------------------------------------- */

/* Copy so many bytes of messages into memory that has been touched.  The log keeps many messages,
 * so the memory is not in the cache. */
static void keep(const struct bench *b, size_t bytes)
{
    static size_t at;
    while (bytes > 0) {
        size_t n = bytes < b->bytes ? bytes : b->bytes;
        at = at + 2 * n <= COPIED ? at + n : 0;
        memcpy(copy + at, from, n);
        __asm__ volatile("" : : "r"(copy) : "memory");
        bytes -= n;
    }
}

/* Seconds of an operation in a block: of the rank that took longest.  kept: bytes that this rank
 * copies for each operation. */
static double block_s(
    struct bench *b, const struct kind *k, const struct side *s, int ops, size_t kept)
{
    double took, all;
    /* who waits in a call of ftkit's keeps what others have seen decided meanwhile */
    bool waits = mode && strcmp(mode, "pessimistic") == 0;
    bench_mpi(b, waits ? MPI_Barrier(b->comm) : PMPI_Barrier(world), "barrier");
    double start = bench_now_s();
    for (int i = 0, n; i < ops; i += n) {
        n = kept == 0 || k->batch > ops - i ? ops - i : k->batch;
        k->run(b, s, n);
        keep(b, (size_t)n * kept);
    }
    took = (bench_now_s() - start) / ops;
    if (waits)
        bench_mpi(b, MPI_Barrier(b->comm), "barrier");
    bench_mpi(b, PMPI_Allreduce(&took, &all, 1, MPI_DOUBLE, MPI_MAX, world), "maximum");
    return all;
}

/* What the log has taken in of this rank's messages. */
static void counts(const struct bench *b, uint64_t out[COUNTS])
{
    ftkit_info info = { .size = sizeof info };
    bench_ft(b, ftkit_query(b->ft, &info), FTKIT_OK, "query");
    const uint64_t mine[COUNTS] = { info.log_bytes, info.log_messages, info.log_determinants,
        info.log_determinant_bytes };
    memcpy(out, mine, sizeof mine);
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

/* A repetition's fastest blocks, seconds of an operation. */
struct fastest {
    double ftkit; /* with the log */
    double mpi;   /* the bound without the copies */
    double bound;
    double blocking; /* a collective by the blocking call of the MPI */
};

/* mine: what the log has taken in of this rank's messages, in so many operations. */
static void show(struct bench *b, const struct kind *k, const struct fastest *f, double ops,
    const uint64_t mine[COUNTS])
{
    uint64_t count[COUNTS];
    bench_mpi(b, PMPI_Allreduce(mine, count, COUNTS, MPI_UINT64_T, MPI_SUM, world), "counts");
    /* one rank at a time is at work, or all are */
    int busy = k->in_turns ? 1 : b->nranks;
    double kept = (double)count[0] / ops / busy;
    int nc = columns(b->nranks), n = b->nranks;
    double sends = k->sends;
    if (k->sends == TO_ALL_OTHERS)
        sends = n - 1;
    else if (k->sends == TO_THE_NEXT)
        sends = (2.0 * n - nc - n / nc) / n;
    double sent = (double)b->bytes * sends;
    char more[128] = "";
    int at = k->collective ? snprintf(more, sizeof more, " blocking_s=%.4e", f->blocking) : 0;
    if (team_size > 0)
        snprintf(more + at, sizeof more - (size_t)at,
            " logged_share=%.4f determinant_each=%.2f told_each=%.2f", kept / sent,
            (double)count[2] * DET_BYTES / ops, (double)count[3] / ops);
    bench_row(b, "ranks=%d bytes=%zu ftkit_s=%.4e bound_s=%.4e mpi_s=%.4e%s", b->nranks, b->bytes,
        f->ftkit, f->bound, f->mpi, more);
}

/* What was counted since before. */
static void count_since(const struct bench *b, const uint64_t before[COUNTS], uint64_t out[COUNTS])
{
    counts(b, out);
    for (int i = 0; i < COUNTS; i++)
        out[i] -= before[i];
}

/* ---- the set before a repetition ---------------------------------------------------------- */

/* Call ftkit_checkpoint() on all ranks that call, until all ranks are where they shall be. */
static void call_until(struct bench *b, bool calls, bool (*there)(const ftkit_info *info))
{
    for (int all = 0; !all;) {
        ftkit_info info = { .size = sizeof info };
        if (calls)
            bench_checkpoint(b);
        bench_ft(b, ftkit_query(b->ft, &info), FTKIT_OK, "query");
        const int own_there = !calls || there(&info);
        bench_mpi(b, PMPI_Allreduce(&own_there, &all, 1, MPI_INT, MPI_MIN, world), "minimum");
    }
}

static bool is_away(const ftkit_info *info)
{
    return info->committed > 0 && info->line_open == 0;
}

static bool has_cut(const ftkit_info *info)
{
    return info->line_open > 0 && !info->line_waits_here;
}

/* Write a set, so that the log drops all messages. */
static void write_set(struct bench *b)
{
    if (!apart) {
        bench_checkpoint(b);
        return;
    }
    call_until(b, true, is_away); /* a set is open since the last repetition, or none was written */
    bench_ft(b, ftkit_request(b->ft, 0), FTKIT_OK, "request");
    call_until(b, b->rank < b->nranks - 1, has_cut);
    if (strcmp(apart, "away") == 0)
        call_until(b, true, is_away);
}

static void repetition(struct bench *b, const struct kind *k, int ops)
{
    struct side twins = { &twin, world }, blocking = { &plain, world }, log = { &ours, b->comm };
    const struct side *bound = own && k->collective ? &blocking : &twins;
    struct fastest f = { 1e9, 1e9, 1e9, 1e9 };
    uint64_t before[COUNTS], since[COUNTS];
    write_set(b);
    if (shares)
        bench_ft(b, ftkit_share(b->ft, from, 4 * b->bytes), FTKIT_OK, "share");
    counts(b, before);
    (void)block_s(b, k, &log, ops, 0);
    count_since(b, before, since);
    size_t kept = b->bytes >= LONG && !shares ? (size_t)since[0] / (size_t)ops : 0;
    counts(b, before);
    for (int i = 0; i < BLOCKS; i++) {
        f.mpi = least(f.mpi, block_s(b, k, bound, ops, 0));
        f.bound = least(f.bound, block_s(b, k, bound, ops, kept));
        f.ftkit = least(f.ftkit, block_s(b, k, &log, ops, 0));
        if (k->collective)
            f.blocking = least(f.blocking, block_s(b, k, &blocking, ops, 0));
    }
    count_since(b, before, since);
    show(b, k, &f, (double)ops * BLOCKS, since);
}

static const struct kind *find_kind(const struct bench *b)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].name, kind_name) == 0)
            return &kinds[i];
    bench_die(b, "there is no kind '%s'", kind_name);
}

static void configure(void)
{
    char number[16];
    snprintf(number, sizeof number, "%d", team_size);
    bench_set("FTKIT_CHECKPOINT_PERIOD", apart ? "1000000 calls" : "1 call");
    if (apart)
        bench_set("FTKIT_CHECKPOINT_LINE", "apart");
    if (apart)
        bench_set("FTKIT_CHECKPOINT_PATIENCE", "1h"); /* the last rank calls when all is measured */
    bench_set("FTKIT_LEVEL_HDF5_ENABLED", "false");
    bench_set("FTKIT_LOG_ENABLED", team_size > 0 ? "true" : "false");
    bench_set("FTKIT_LOG_TEAM_SIZE", number);
    if (dynamic)
        bench_set("FTKIT_LOG_TEAMS", "dynamic");
    if (mode)
        bench_set("FTKIT_LOG_DETERMINANTS", mode);
    if (mode)
        bench_set("FTKIT_TOPOLOGY_RANKS_PER_NODE", "1");
    bench_set("FTKIT_LOG_CHECK", check ? "true" : "false");
}

int main(int argc, char **argv)
{
    struct bench b = { .bytes = 8, .reps = 5 };
    int step = 0;
    bench_options(&b, argc, argv, "b:r:k:t:m:c:osDa:", option);
    const struct kind *k = find_kind(&b);
    configure();
    bench_open(&b, &argc, &argv);
    bench_mpi(&b, PMPI_Comm_dup(MPI_COMM_WORLD, &world), "duplicate");
    from = bench_alloc(&b, 4 * b.bytes);
    to = bench_alloc(&b, (size_t)(b.nranks > 4 ? b.nranks : 4) * b.bytes);
    copy = bench_alloc(&b, COPIED + b.bytes);
    bench_ft(&b, ftkit_register(b.ft, "step", &step, 1, MPI_INT), FTKIT_OK, "register");
    bench_ft(&b, ftkit_recover(b.ft, NULL), FTKIT_NO_SET, "recover");
    int ops = b.bytes > 262144 ? k->ops / 30 : b.bytes > 4096 ? k->ops / 10 : k->ops;
    if (ops == 0)
        ops = 1;
    for (; step < b.reps; step++)
        repetition(&b, k, ops);
    bench_mpi(&b, PMPI_Comm_free(&world), "free");
    return bench_close(&b);
}
