/* The order in which receives are matched is that in which they are asked for, whatever order the
 * program looks at them in; in a replay, too.  Three ranks, of which rank 0 passes app.mid once
 * in a step, and with -m memory rank 2; with -m claimed and -m vain rank 2 passes app.inflight.
 * -m probe takes four ranks.
 *
 *   -m any       two receives from any source, of which the second is waited for first
 *   -m named     ... the second from a named one
 *   -m overtake  one from any source that has got nothing yet, and a named one behind it
 *   -m after     ... between two named ones, of which the first is through
 *   -m probe     ... and a probe behind it
 *   -m mprobe    ... that takes the message
 *   -m late      the second was there first, and its sender, a team-mate, waits for that
 *   -m matched   a message of another communicator is taken while two receives are open
 *   -m claimed   a probe finds what a receive of any tag will get when a rank has failed
 *   -m vain      the second names a rank that dies before it has sent anything
 *   -m stale     a persistent request outlives its communicator, which a rank has from before it
 *                goes back; rank 1 is in the team of 0
 *   -m block     a long message for any source is sent before the one that is waited for
 *   -m cancel    one from any source is cancelled, in time or too late
 *   -m poll      a probe is polled for by who looks at no error
 *   -m memory    a message is read from memory that is used again when it has come
 *   -m buffered  many messages whose sends nobody waits for, inside a team: what they take is
 *                given back when they have come
 *   -m abort     rank 2 ends the job
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <time.h>

#include "foreign.h"

enum {
    LONG = 100000,
    TO_ANY = 7,
    OTHER = 6,
    GO = 8,
    READY = 9,
    LOST = 5 /* the step in which ranks are lost with -m memory */
};

static struct {
    uint64_t *state; /* [2] registered: of the loop; what was wrong */
    uint64_t out[LONG], in[LONG];
    int steps; /* of this process */
} g;

static int prepare(struct foreign *f)
{
    g.state = foreign_state(f, 2);
    return !g.state;
}

/* Of message k of a rank in this step. */
static uint64_t word(const struct foreign *f, int rank, int k)
{
    return foreign_mix((uint64_t)(100 * rank + k), (uint64_t)f->step);
}

static void expect(const struct foreign *f, const char *what, uint64_t got, uint64_t wanted)
{
    if (got == wanted)
        return;
    fprintf(stderr, "order: rank %d, step %d: %s\n", f->rank, f->step, what);
    g.state[1]++;
}

static int put(const struct foreign *f, int to, int tag, int k)
{
    uint64_t v = word(f, f->rank, k);
    return MPI_Send(&v, 1, MPI_UINT64_T, to, tag, f->comm);
}

static int get(const struct foreign *f, int from, int tag)
{
    uint64_t v;
    return MPI_Recv(&v, 1, MPI_UINT64_T, from, tag, f->comm, MPI_STATUS_IGNORE);
}

static int ask(const struct foreign *f, uint64_t *to, int from, int tag, MPI_Request *q)
{
    return MPI_Irecv(to, 1, MPI_UINT64_T, from, tag, f->comm, q);
}

static int wait_for(MPI_Request *q)
{
    return MPI_Wait(q, MPI_STATUS_IGNORE);
}

static void two(struct foreign *f)
{
    uint64_t a = 0, b = 0;
    MPI_Request first, second;
    if (f->rank == 2 && put(f, 0, TO_ANY, 1) == MPI_SUCCESS)
        put(f, 0, TO_ANY, 2);
    if (f->rank != 0)
        return;
    ask(f, &a, MPI_ANY_SOURCE, TO_ANY, &first);
    ask(f, &b, strcmp(f->variant, "named") == 0 ? 2 : MPI_ANY_SOURCE, TO_ANY, &second);
    if (wait_for(&second) != MPI_SUCCESS)
        return;
    (void)FTK_FAULT("app.mid");
    if (wait_for(&first) != MPI_SUCCESS)
        return;
    expect(f, "the first receive has not got the first message", a, word(f, 2, 1));
    expect(f, "the second receive has not got the second message", b, word(f, 2, 2));
}

static void overtake(struct foreign *f)
{
    uint64_t a = 0, b = 0, c = 0;
    MPI_Request any, named, other;
    if (f->rank == 2)
        put(f, 0, OTHER, 1);
    if (f->rank == 1 && get(f, 0, GO) == MPI_SUCCESS && put(f, 0, TO_ANY, 1) == MPI_SUCCESS)
        put(f, 0, TO_ANY, 2);
    if (f->rank != 0)
        return;
    ask(f, &a, MPI_ANY_SOURCE, TO_ANY, &any);
    ask(f, &b, 1, TO_ANY, &named);
    ask(f, &c, 2, OTHER, &other);
    if (wait_for(&other) != MPI_SUCCESS)
        return;
    (void)FTK_FAULT("app.mid"); /* nothing has been sent to the other two */
    put(f, 1, GO, 1);
    if (wait_for(&any) != MPI_SUCCESS || wait_for(&named) != MPI_SUCCESS)
        return;
    expect(f, "the receive from any source has not got the first message", a, word(f, 1, 1));
    expect(f, "the named one has not got the second", b, word(f, 1, 2));
}

static void after(struct foreign *f)
{
    uint64_t z = 0, a = 0, b = 0, c = 0;
    MPI_Request open, first, any, third;
    if (f->rank == 1 && get(f, 0, GO) == MPI_SUCCESS && put(f, 0, TO_ANY, 1) == MPI_SUCCESS
        && get(f, 0, GO) == MPI_SUCCESS && put(f, 0, TO_ANY, 2) == MPI_SUCCESS
        && get(f, 0, GO) == MPI_SUCCESS)
        put(f, 0, TO_ANY, 3);
    if (f->rank == 2 && get(f, 0, GO) == MPI_SUCCESS)
        put(f, 0, OTHER, 1);
    if (f->rank != 0)
        return;
    ask(f, &z, MPI_ANY_SOURCE, OTHER, &open); /* nothing comes for it before the end */
    ask(f, &a, 1, TO_ANY, &first);
    ask(f, &b, MPI_ANY_SOURCE, TO_ANY, &any);
    ask(f, &c, 1, TO_ANY, &third);
    if (put(f, 1, GO, 1) != MPI_SUCCESS || wait_for(&first) != MPI_SUCCESS)
        return;
    (void)FTK_FAULT("app.mid");
    if (put(f, 1, GO, 2) != MPI_SUCCESS || wait_for(&any) != MPI_SUCCESS
        || put(f, 1, GO, 3) != MPI_SUCCESS || wait_for(&third) != MPI_SUCCESS
        || put(f, 2, GO, 1) != MPI_SUCCESS || wait_for(&open) != MPI_SUCCESS)
        return;
    expect(f, "the first message", a, word(f, 1, 1));
    expect(f, "the second, for any source", b, word(f, 1, 2));
    expect(f, "the third", c, word(f, 1, 3));
}

/* Rank 2 is in the team of rank 0, and slow the second time. */
static void probe(struct foreign *f)
{
    const struct timespec while_ = { .tv_nsec = 300000000 };
    bool again = f->step == LOST && g.steps != f->step;
    uint64_t a = 0, b = 0, c = 0, two[2] = { word(f, 1, 2), 0 };
    int words = 0;
    MPI_Request late, any, other;
    MPI_Message m = MPI_MESSAGE_NULL;
    MPI_Status st;
    if (f->rank == 1 && get(f, 0, GO) == MPI_SUCCESS && put(f, 0, TO_ANY, 1) == MPI_SUCCESS
        && MPI_Send(two, 2, MPI_UINT64_T, 0, TO_ANY, f->comm) == MPI_SUCCESS)
        get(f, 0, GO);
    if (f->rank == 2) {
        if (again)
            (void)nanosleep(&while_, NULL);
        if (put(f, 0, READY, 1) == MPI_SUCCESS)
            put(f, 3, GO, 1);
    }
    if (f->rank == 3 && get(f, 2, GO) == MPI_SUCCESS)
        put(f, 0, OTHER, 1);
    if (f->rank != 0)
        return;
    ask(f, &a, MPI_ANY_SOURCE, READY, &late);
    ask(f, &b, MPI_ANY_SOURCE, TO_ANY, &any);
    ask(f, &c, 3, OTHER, &other);
    if (wait_for(&other) != MPI_SUCCESS)
        return;
    (void)FTK_FAULT("app.mid");
    if (put(f, 1, GO, 1) != MPI_SUCCESS)
        return;
    bool take = strcmp(f->variant, "mprobe") == 0;
    if ((take ? MPI_Mprobe(1, TO_ANY, f->comm, &m, &st) : MPI_Probe(1, TO_ANY, f->comm, &st))
            != MPI_SUCCESS
        || MPI_Get_count(&st, MPI_UINT64_T, &words) != MPI_SUCCESS)
        return;
    expect(f, "what the probe finds", (uint64_t)words, 2);
    if ((take ? MPI_Mrecv(two, 2, MPI_UINT64_T, &m, &st)
              : MPI_Recv(two, 2, MPI_UINT64_T, 1, TO_ANY, f->comm, &st))
            != MPI_SUCCESS
        || put(f, 1, GO, 2) != MPI_SUCCESS || wait_for(&any) != MPI_SUCCESS
        || wait_for(&late) != MPI_SUCCESS)
        return;
    expect(f, "the message for any source", b, word(f, 1, 1));
    expect(f, "the one that was probed for", two[0], word(f, 1, 2));
}

static void late(struct foreign *f)
{
    uint64_t v = word(f, 1, 2), a = 0, b = 0;
    MPI_Request first, second;
    if (f->rank == 1 && MPI_Ssend(&v, 1, MPI_UINT64_T, 0, OTHER, f->comm) == MPI_SUCCESS)
        put(f, 0, TO_ANY, 1);
    if (f->rank != 0)
        return;
    ask(f, &a, MPI_ANY_SOURCE, TO_ANY, &first);
    ask(f, &b, MPI_ANY_SOURCE, OTHER, &second);
    if (wait_for(&first) != MPI_SUCCESS)
        return;
    (void)FTK_FAULT("app.mid");
    if (wait_for(&second) != MPI_SUCCESS)
        return;
    expect(f, "what the first receive has got", a, word(f, 1, 1));
    expect(f, "what the second receive has got", b, v);
}

static void matched(struct foreign *f)
{
    uint64_t a = 0, b = 0, c = 0;
    MPI_Request any, named;
    MPI_Message m;
    struct foreign world = *f;
    world.comm = MPI_COMM_WORLD;
    if (f->rank == 1 && put(f, 0, TO_ANY, 3) == MPI_SUCCESS && get(f, 0, GO) == MPI_SUCCESS
        && put(&world, 0, TO_ANY, 1) == MPI_SUCCESS && get(f, 0, GO) == MPI_SUCCESS)
        put(&world, 0, TO_ANY, 2);
    if (f->rank != 0)
        return;
    ask(&world, &a, MPI_ANY_SOURCE, TO_ANY, &any);
    ask(&world, &b, 1, TO_ANY, &named);
    if (MPI_Mprobe(1, TO_ANY, f->comm, &m, MPI_STATUS_IGNORE) != MPI_SUCCESS
        || MPI_Mrecv(&c, 1, MPI_UINT64_T, &m, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return;
    (void)FTK_FAULT("app.mid");
    if (put(f, 1, GO, 1) != MPI_SUCCESS || wait_for(&any) != MPI_SUCCESS
        || put(f, 1, GO, 2) != MPI_SUCCESS || wait_for(&named) != MPI_SUCCESS)
        return;
    expect(f, "the first message", a, word(f, 1, 1));
    expect(f, "the second message", b, word(f, 1, 2));
    expect(f, "that of another communicator", c, word(f, 1, 3));
}

/* Rank 0 hears of a death when it sends, and has looked at no message since. */
static void claimed(struct foreign *f)
{
    const struct timespec while_ = { .tv_nsec = 100000000 };
    uint64_t a = 0;
    int flag = 0;
    MPI_Request first;
    if (f->rank == 1 && get(f, 0, GO) == MPI_SUCCESS && put(f, 0, TO_ANY, 1) == MPI_SUCCESS
        && put(f, 0, TO_ANY, 2) == MPI_SUCCESS)
        put(f, 2, GO, 1);
    if (f->rank == 2 && get(f, 1, GO) == MPI_SUCCESS) {
        (void)FTK_FAULT("app.inflight");
        get(f, 0, OTHER);
    }
    if (f->rank != 0)
        return;
    MPI_Irecv(&a, 1, MPI_UINT64_T, MPI_ANY_SOURCE, MPI_ANY_TAG, f->comm, &first);
    put(f, 1, GO, 1);
    if (f->step == LOST)
        (void)nanosleep(&while_, NULL); /* the death is known to all but us */
    put(f, 2, OTHER, 1);
    while (!flag)
        if (MPI_Iprobe(1, TO_ANY, f->comm, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return;
    if (get(f, 1, TO_ANY) != MPI_SUCCESS || wait_for(&first) != MPI_SUCCESS)
        return;
    expect(f, "the first message", a, word(f, 1, 1));
}

static void vain(struct foreign *f)
{
    uint64_t a = 0, b = 0;
    MPI_Request any, named;
    if (f->rank == 2) {
        (void)FTK_FAULT("app.inflight");
        if (f->step == LOST && get(f, 0, OTHER) == MPI_SUCCESS)
            put(f, 0, READY, 1); /* from who has replaced it */
        if (get(f, 0, GO) == MPI_SUCCESS)
            put(f, 0, TO_ANY, 2);
    }
    if (f->rank == 1 && get(f, 0, GO) == MPI_SUCCESS)
        put(f, 0, TO_ANY, 1);
    if (f->rank != 0)
        return;
    ask(f, &a, MPI_ANY_SOURCE, TO_ANY, &any);
    ask(f, &b, 2, TO_ANY, &named);
    if (f->step == LOST) {
        put(f, 2, OTHER, 1);
        get(f, 2, READY);
    }
    if (put(f, 1, GO, 1) != MPI_SUCCESS || wait_for(&any) != MPI_SUCCESS
        || put(f, 2, GO, 1) != MPI_SUCCESS || wait_for(&named) != MPI_SUCCESS)
        return;
    expect(f, "the message for any source", a, word(f, 1, 1));
    expect(f, "the other one", b, word(f, 2, 2));
}

static void stale(struct foreign *f)
{
    static MPI_Request kept = MPI_REQUEST_NULL;
    static uint64_t out;
    MPI_Comm made;
    if (kept != MPI_REQUEST_NULL) { /* the step has been begun before */
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        expect(f, "a request on a communicator that is gone is started",
            MPI_Start(&kept) == MPI_SUCCESS, 0);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
        MPI_Request_free(&kept);
    }
    if (MPI_Comm_dup(f->comm, &made) != MPI_SUCCESS)
        return;
    if (f->rank == 0)
        (void)FTK_FAULT("app.mid");
    if (f->rank == 1)
        MPI_Send_init(&out, 1, MPI_UINT64_T, 2, TO_ANY, made, &kept);
    if (MPI_Barrier(made) == MPI_SUCCESS && f->rank == 1) /* else a rank has failed */
        MPI_Request_free(&kept);
    MPI_Comm_free(&made);
}

static void block(struct foreign *f)
{
    uint64_t c = 0;
    MPI_Request any, other;
    g.out[LONG - 1] = word(f, f->rank, 2);
    if (f->rank == 1 && MPI_Send(g.out, LONG, MPI_UINT64_T, 0, TO_ANY, f->comm) == MPI_SUCCESS)
        put(f, 0, OTHER, 1);
    if (f->rank != 0)
        return;
    MPI_Irecv(g.in, LONG, MPI_UINT64_T, MPI_ANY_SOURCE, TO_ANY, f->comm, &any);
    ask(f, &c, 1, OTHER, &other);
    if (wait_for(&other) != MPI_SUCCESS)
        return;
    (void)FTK_FAULT("app.mid");
    if (wait_for(&any) != MPI_SUCCESS)
        return;
    expect(f, "the long message", g.in[LONG - 1], word(f, 1, 2));
    expect(f, "the short message", c, word(f, 1, 1));
}

static void cancel(struct foreign *f)
{
    uint64_t a = 0, b = 0;
    bool late = f->step % 2 != 0;
    int cancelled = 0;
    MPI_Request first, second;
    MPI_Status st;
    if (f->rank == 2 && get(f, 0, GO) == MPI_SUCCESS && put(f, 0, TO_ANY, 1) == MPI_SUCCESS
        && put(f, 0, TO_ANY, 2) == MPI_SUCCESS)
        put(f, 0, READY, 3);
    if (f->rank != 0)
        return;
    ask(f, &a, MPI_ANY_SOURCE, TO_ANY, &first);
    ask(f, &b, MPI_ANY_SOURCE, TO_ANY, &second);
    if (late && (put(f, 2, GO, 1) != MPI_SUCCESS || get(f, 2, READY) != MPI_SUCCESS))
        return;
    MPI_Cancel(&first);
    if (MPI_Wait(&first, &st) != MPI_SUCCESS)
        return;
    MPI_Test_cancelled(&st, &cancelled);
    if (!late && (put(f, 2, GO, 1) != MPI_SUCCESS || get(f, 2, READY) != MPI_SUCCESS))
        return;
    if (cancelled && MPI_Recv(&a, 1, MPI_UINT64_T, 2, TO_ANY, f->comm, &st) != MPI_SUCCESS)
        return;
    (void)FTK_FAULT("app.mid");
    if (wait_for(&second) != MPI_SUCCESS)
        return;
    expect(f, "the first of two", a, word(f, 2, cancelled ? 2 : 1));
    expect(f, "the second of two", b, word(f, 2, cancelled ? 1 : 2));
    expect(f, "what was cancelled", (uint64_t)cancelled, !late);
}

static void poll_for(struct foreign *f)
{
    int flag = 0, matched = 0;
    uint64_t v;
    MPI_Message m;
    if (f->rank == 1) {
        while (!flag)
            MPI_Iprobe(0, TO_ANY, f->comm, &flag, MPI_STATUS_IGNORE);
        get(f, 0, TO_ANY);
        while (!matched)
            MPI_Improbe(0, TO_ANY, f->comm, &matched, &m, MPI_STATUS_IGNORE);
        MPI_Mrecv(&v, 1, MPI_UINT64_T, &m, MPI_STATUS_IGNORE);
    }
    if (f->rank != 0)
        return;
    if (f->step % 2)
        (void)FTK_FAULT("app.mid");
    put(f, 1, TO_ANY, 1);
    if (f->step % 2 == 0)
        (void)FTK_FAULT("app.mid");
    put(f, 1, TO_ANY, 2);
}

/* Ranks 0 and 2 are lost; 1, which is not, has told 0 that 2 has the message. */
static void memory(struct foreign *f)
{
    bool again = f->step == LOST && g.steps != f->step;
    uint64_t go = 0;
    MPI_Request q;
    if (f->rank == 0) {
        g.out[LONG - 1] = word(f, 0, 2);
        if (MPI_Isend(g.out, LONG, MPI_UINT64_T, 2, TO_ANY, f->comm, &q) != MPI_SUCCESS)
            return;
        MPI_Request_free(&q);
        if (get(f, 1, READY) != MPI_SUCCESS)
            return;
        g.out[LONG - 1] = 0;
        put(f, 2, GO, 1);
        (void)FTK_FAULT("app.mid");
    }
    if (f->rank == 1 && get(f, 2, READY) == MPI_SUCCESS)
        put(f, 0, READY, 1);
    if (f->rank != 2)
        return;
    ask(f, &go, 0, GO, &q);
    if (again && wait_for(&q) != MPI_SUCCESS) /* it is behind */
        return;
    if (MPI_Recv(g.in, LONG, MPI_UINT64_T, 0, TO_ANY, f->comm, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return;
    expect(f, "the long message", g.in[LONG - 1], word(f, 0, 2));
    put(f, 1, READY, 1);
    if (!again && wait_for(&q) != MPI_SUCCESS)
        return;
    (void)FTK_FAULT("app.mid");
}

/* Pages of this process in memory. */
static long resident(void)
{
    long all, here = -1;
    FILE *in = fopen("/proc/self/statm", "r");
    if (!in || fscanf(in, "%ld %ld", &all, &here) != 2)
        here = -1;
    if (in && fclose(in) != 0)
        here = -1;
    return here;
}

static void buffered(struct foreign *f)
{
    enum { MANY = 20000, SOME = 100, WORDS = 128 };
    static char room[SOME * (WORDS * 8 + MPI_BSEND_OVERHEAD)];
    static long before;
    char *back;
    int size, bad = 0;
    if (f->rank == 0)
        MPI_Buffer_attach(room, sizeof room);
    for (int i = 0; i < MANY && !bad; i++) {
        if (f->rank == 0)
            bad = MPI_Bsend(g.out, WORDS, MPI_UINT64_T, 1, OTHER, f->comm);
        if (f->rank == 1)
            bad = MPI_Recv(g.in, WORDS, MPI_UINT64_T, 0, OTHER, f->comm, MPI_STATUS_IGNORE);
        if (!bad && i % SOME == SOME - 1 && f->rank < 2)
            bad = f->rank == 0 ? get(f, 1, GO) : put(f, 0, GO, 1);
    }
    if (f->rank != 0)
        return;
    MPI_Buffer_detach(&back, &size);
    before = before ? before : resident();
    expect(f, "memory is not given back", resident() - before > 4096, 0); /* 16 MiB */
    (void)FTK_FAULT("app.mid");
}

static void give_up(struct foreign *f)
{
    if (f->rank == 2 && f->step == LOST)
        MPI_Abort(f->comm, 5);
}

static void step(struct foreign *f)
{
    static const struct {
        const char *name;
        void (*run)(struct foreign *f);
    } variants[] = { { "any", two }, { "named", two }, { "overtake", overtake }, { "after", after },
        { "probe", probe }, { "mprobe", probe }, { "late", late }, { "matched", matched },
        { "claimed", claimed }, { "vain", vain }, { "stale", stale }, { "block", block },
        { "cancel", cancel }, { "poll", poll_for }, { "memory", memory }, { "buffered", buffered },
        { "abort", give_up } };
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
        if (strcmp(f->variant, variants[i].name) == 0)
            variants[i].run(f);
    if (MPI_Allreduce(g.state, &sum, 1, MPI_UINT64_T, MPI_SUM, f->comm) == MPI_SUCCESS)
        *g.state = foreign_mix(*g.state, sum);
    g.steps++;
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    return foreign_counted(f, *g.state, g.state[1], hash, detail, room);
}

static void release(void)
{
    free(g.state);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { .name = "order",
        .steps = 12,
        .size = 1,
        .prepare = prepare,
        .step = step,
        .verdict = verdict,
        .release = release };
    return foreign_main(argc, argv, &app);
}
