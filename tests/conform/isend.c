/* ranks: 2 4
 * What is not a blocking call returns without the help of other ranks (MPI 4.0, 2.4.2, 3.7,
 * 3.7.2, 3.9, 5.12): MPI_Isend and its forms, MPI_Bsend, MPI_Isendrecv, MPI_Start, and
 * non-blocking and persistent collectives, for every size and number of messages.
 *
 * Rank 0 makes its calls while all others are outside of MPI: they wait for a byte in a pipe, which
 * rank 0 writes when its calls have returned.  Only then they make theirs.  A rank that waits for
 * longer than LIMIT_S ends the job: rank 0 is in a call that does not return.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conform.h"

enum { LIMIT_S = 20, MOST = 2000, MUCH = 1 << 16, TAG = 5, ALIGN = 512, RANKS = 4 };

static const char *now; /* what is under test */
static char out[RANKS * MUCH], in[MUCH], back[MUCH];
static MPI_Request requests[2 * MOST];
static int pipe_of[RANKS]; /* [n] by rank */

/* ---- outside of MPI ------------------------------------------------------------------ */

static void make_pipes(void)
{
    char name[32];
    snprintf(name, sizeof name, "pipe-%d", me);
    EQUAL(0, mkfifo(name, 0600));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int r = 0; r < n; r++) {
        snprintf(name, sizeof name, "pipe-%d", r);
        pipe_of[r] = open(name, O_RDWR | O_CLOEXEC);
        TRUE(pipe_of[r] >= 0);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void let_others_go(void)
{
    for (int r = 1; r < n; r++)
        EQUAL(1, write(pipe_of[r], "x", 1));
}

static void wait_outside(void)
{
    struct pollfd p = { .fd = pipe_of[me], .events = POLLIN };
    char c;
    int ready = poll(&p, 1, LIMIT_S * 1000);
    if (ready != 1)
        fprintf(stderr, "rank %d: rank 0 does not return from its calls: %s\n", me, now);
    EQUAL(1, ready);
    EQUAL(1, read(pipe_of[me], &c, 1));
}

/* Nobody is in MPI for the calls of rank 0. */
static void apart(void)
{
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (me != 0)
        wait_outside();
}

/* ---- messages of rank 0 to the last one ---------------------------------------------- */

/* Takes so many messages, and looks at the first and the last byte of each. */
static void take_all(int messages, int bytes, char mark)
{
    MPI_Status s;
    int count;
    if (me != n - 1)
        return;
    for (int i = 0; i < messages; i++) {
        OK(MPI_Recv(in, MUCH, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &s));
        OK(MPI_Get_count(&s, MPI_BYTE, &count));
        EQUAL(bytes, count);
        EQUAL(mark, bytes ? in[0] : mark);
        EQUAL(mark, bytes ? in[bytes - 1] : mark);
    }
}

static char new_mark(void)
{
    static char mark;
    mark = (char)(mark % 100 + 1);
    memset(out, mark, (size_t)n * MUCH);
    return mark;
}

typedef int isend_fn(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
typedef int init_fn(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

static void isends(isend_fn *isend, int messages, int bytes)
{
    char mark = new_mark();
    apart();
    for (int i = 0; me == 0 && i < messages; i++)
        OK(isend(out, bytes, MPI_BYTE, n - 1, TAG, MPI_COMM_WORLD, &requests[i]));
    if (me == 0)
        let_others_go();
    take_all(messages, bytes, mark);
    if (me == 0)
        OK(MPI_Waitall(messages, requests, MPI_STATUSES_IGNORE));
}

static void starts(init_fn *init, int messages, int bytes)
{
    char mark = new_mark();
    for (int i = 0; me == 0 && i < messages; i++)
        OK(init(out, bytes, MPI_BYTE, n - 1, TAG, MPI_COMM_WORLD, &requests[i]));
    for (int again = 0; again < 2; again++) {
        apart();
        for (int i = 0; me == 0 && i < messages; i++)
            OK(MPI_Start(&requests[i]));
        if (me == 0)
            let_others_go();
        take_all(messages, bytes, mark);
        if (me == 0)
            OK(MPI_Waitall(messages, requests, MPI_STATUSES_IGNORE));
    }
    for (int i = 0; me == 0 && i < messages; i++)
        OK(MPI_Request_free(&requests[i]));
}

static void bsends(int messages, int bytes)
{
    char mark = new_mark();
    size_t room = (size_t)messages * ((size_t)bytes + MPI_BSEND_OVERHEAD + ALIGN);
    void *buffer = malloc(room);
    int size;
    TRUE(buffer);
    OK(MPI_Buffer_attach(buffer, (int)room));
    apart();
    for (int i = 0; me == 0 && i < messages; i++)
        OK(MPI_Bsend(out, bytes, MPI_BYTE, n - 1, TAG, MPI_COMM_WORLD));
    memset(out, -1, sizeof out); /* it may be used again */
    if (me == 0)
        let_others_go();
    take_all(messages, bytes, mark);
    OK(MPI_Buffer_detach(&buffer, &size));
    free(buffer);
}

static void isendrecvs(int messages, int bytes)
{
    char mark = new_mark();
    apart();
    for (int i = 0; me == 0 && i < messages; i++)
        OK(MPI_Isendrecv(out, bytes, MPI_BYTE, n - 1, TAG, back, 1, MPI_BYTE, n - 1, TAG + 1,
            MPI_COMM_WORLD, &requests[i]));
    if (me == 0)
        let_others_go();
    take_all(messages, bytes, mark);
    for (int i = 0; me == n - 1 && i < messages; i++)
        OK(MPI_Send(&mark, 1, MPI_BYTE, 0, TAG + 1, MPI_COMM_WORLD));
    if (me == 0)
        OK(MPI_Waitall(messages, requests, MPI_STATUSES_IGNORE));
}

/* Requests that nobody waits for. */
static void freed(int messages, int bytes)
{
    char mark = new_mark();
    apart();
    for (int i = 0; me == 0 && i < messages; i++) {
        OK(MPI_Isend(out, bytes, MPI_BYTE, n - 1, TAG, MPI_COMM_WORLD, &requests[0]));
        OK(MPI_Request_free(&requests[0]));
    }
    if (me == 0)
        let_others_go();
    take_all(messages, bytes, mark);
    OK(MPI_Barrier(MPI_COMM_WORLD)); /* from here on out may be changed */
}

/* ---- collectives --------------------------------------------------------------------- */

enum kind { BCAST, GATHER, REDUCE, ALLREDUCE, ALLTOALL, BARRIER, KINDS };
static const char *const kinds[KINDS] = { "MPI_Ibcast", "MPI_Igather", "MPI_Ireduce",
    "MPI_Iallreduce", "MPI_Ialltoall", "MPI_Ibarrier" };

/* Every one of those under way at once has a buffer of its own. */
static void begin(enum kind kind, char *to, int bytes, bool init, MPI_Request *r)
{
    const MPI_Comm w = MPI_COMM_WORLD;
    const MPI_Datatype b = MPI_BYTE;
    const MPI_Info none = MPI_INFO_NULL;
    const int last = n - 1;
    if (kind == BCAST && me == 0)
        memcpy(to, out, (size_t)bytes);
    if (kind == BCAST)
        OK(init ? MPI_Bcast_init(to, bytes, b, 0, w, none, r) : MPI_Ibcast(to, bytes, b, 0, w, r));
    else if (kind == GATHER)
        OK(init ? MPI_Gather_init(out, bytes, b, to, bytes, b, last, w, none, r)
                : MPI_Igather(out, bytes, b, to, bytes, b, last, w, r));
    else if (kind == REDUCE)
        OK(init ? MPI_Reduce_init(out, to, bytes, b, MPI_BOR, last, w, none, r)
                : MPI_Ireduce(out, to, bytes, b, MPI_BOR, last, w, r));
    else if (kind == ALLREDUCE)
        OK(init ? MPI_Allreduce_init(out, to, bytes, b, MPI_BOR, w, none, r)
                : MPI_Iallreduce(out, to, bytes, b, MPI_BOR, w, r));
    else if (kind == ALLTOALL)
        OK(init ? MPI_Alltoall_init(out, bytes, b, to, bytes, b, w, none, r)
                : MPI_Ialltoall(out, bytes, b, to, bytes, b, w, r));
    else
        OK(init ? MPI_Barrier_init(w, none, r) : MPI_Ibarrier(w, r));
}

static char *in_of(int i, int bytes)
{
    static char *room;
    static size_t size;
    size_t each = (size_t)bytes * (size_t)n;
    if (each * MOST > size) {
        free(room);
        size = each * MOST;
        room = malloc(size);
        TRUE(room);
    }
    return room + each * (size_t)i;
}

static void check_all(enum kind kind, int calls, int bytes, char mark)
{
    bool has = kind != BARRIER && (kind == BCAST || kind >= ALLREDUCE || me == n - 1);
    for (int i = 0; has && bytes > 0 && i < calls; i++) {
        EQUAL(mark, in_of(i, bytes)[0]);
        EQUAL(mark, in_of(i, bytes)[bytes - 1]);
    }
}

static void collectives(enum kind kind, int calls, int bytes)
{
    char mark = new_mark();
    (void)in_of(calls - 1, bytes);
    apart();
    for (int i = 0; i < calls; i++)
        begin(kind, in_of(i, bytes), bytes, false, &requests[i]);
    if (me == 0)
        let_others_go();
    OK(MPI_Waitall(calls, requests, MPI_STATUSES_IGNORE));
    check_all(kind, calls, bytes, mark);
}

static void persistent(enum kind kind, int calls, int bytes)
{
    char mark = new_mark();
    for (int i = 0; i < calls; i++)
        begin(kind, in_of(i, bytes), bytes, true, &requests[i]);
    for (int again = 0; again < 2; again++) {
        apart();
        OK(MPI_Startall(calls, requests));
        if (me == 0)
            let_others_go();
        OK(MPI_Waitall(calls, requests, MPI_STATUSES_IGNORE));
        check_all(kind, calls, bytes, mark);
    }
    for (int i = 0; i < calls; i++)
        OK(MPI_Request_free(&requests[i]));
}

/* A rank that waits in MPI_Send lets collectives go on that others wait for.  Rank 0 sends to the
 * last rank, which is outside of MPI until a barrier of all others is through. */
static void send_lets_go_on(int messages, int bytes)
{
    MPI_Comm some;
    MPI_Request r = MPI_REQUEST_NULL;
    const bool outside = me == n - 1;
    char mark = new_mark();
    OK(MPI_Comm_split(MPI_COMM_WORLD, outside, me, &some));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (!outside)
        OK(MPI_Ibarrier(some, &r));
    for (int i = 0; me == 0 && i < messages; i++)
        OK(MPI_Send(out, bytes, MPI_BYTE, n - 1, TAG, MPI_COMM_WORLD));
    if (outside)
        wait_outside();
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    if (me == 1)
        EQUAL(1, write(pipe_of[n - 1], "x", 1));
    take_all(messages, bytes, mark);
    OK(MPI_Comm_free(&some));
}

static void body(void)
{
    static const int sizes[] = { 0, 1, 256, 257, 512, 513, 4096, MUCH };
    static const int numbers[] = { 1, 100, MOST };
    static char text[80];
    const char *on = getenv("FTKIT_LOG_ENABLED");
    const bool over_log = on && strcmp(on, "true") == 0;
    now = text;
    make_pipes();
#define CASE(what, call)                                                                           \
    (snprintf(text, sizeof text, "%s, %d times %d bytes", what, many, bytes), call)
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
            int bytes = sizes[s], many = numbers[k];
            if (many == MOST && bytes > 513) /* it takes its time, and shows nothing new */
                continue;
            CASE("MPI_Isend", isends(MPI_Isend, many, bytes));
            CASE("MPI_Start of MPI_Send_init", starts(MPI_Send_init, many, bytes));
            if (many <= 100) /* of 2000 Open MPI 5.0 loses answers */
                CASE("MPI_Issend", isends(MPI_Issend, many, bytes));
            if (many == 1 || over_log) /* of 100 it waits for the receiver */
                CASE("MPI_Bsend", bsends(many, bytes));
            CASE("MPI_Isendrecv", isendrecvs(many, bytes));
            CASE("MPI_Isend and MPI_Request_free", freed(many, bytes));
            for (enum kind c = 0; many <= 100 && c < KINDS; c++) {
                CASE(kinds[c], collectives(c, many, bytes));
                CASE(kinds[c], persistent(c, many, bytes));
            }
        }
    for (size_t s = 0; n >= 4 && s < sizeof sizes / sizeof *sizes; s++) {
        int bytes = sizes[s], many = 100;
        CASE("MPI_Ibarrier and MPI_Send", send_lets_go_on(many, bytes));
    }
}

int main(int argc, char **argv)
{
    return conform(argc, argv, body);
}
