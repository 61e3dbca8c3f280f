/* An MPI of one process for t_match.c: the other ranks send, this one receives.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The functions take the place of those of the MPI in ftk_mpi_real.  Messages of a source come in
 * their order on a communicator; otherwise chance decides what comes when.  The data of a long
 * message come some time after its match.  Each call may let something come. */
#ifndef FTK_TESTS_T_MATCH_MPI_H
#define FTK_TESTS_T_MATCH_MPI_H

#include "stepping.h"

#include "core/context.h"
#include "core/mpi_shim.h"
#include "mpi_real.h"

enum { RANKS = 4, COMMS = 2, CONTEXTS = 3, MESSAGES = 24, REQUESTS = 256, TAGS = 3 };
enum { BYTES = 1024, SHORT_BYTES = 8, PATIENCE = 5000 }; /* of all buffers and long messages */

enum place { COMING, UNEXPECTED, MATCHED };

static struct fake_message {
    int comm, context, source, tag, wire;
    bool is_long, whole;
    enum place place;
    uint64_t arrived; /* 0: not yet; else the tick */
} sent[MESSAGES];

static struct fake_request {
    bool used, cancelled, failed; /* failed: the source is dead */
    bool truncates;               /* its message is too long */
    int comm, source, wire;
    struct fake_message *got;
    char *buf;
    uint64_t order;
} asked[REQUESTS];

static struct fake {
    struct stepping *s;
    int nmessages;
    uint64_t tick;
    int idle;      /* calls since the program began a call */
    bool is_quiet; /* nothing comes by chance */
    char comm[COMMS];
} fake;

#define EXPECT(condition) STEP_EXPECT(fake.s, condition)

static int choose(int n)
{
    return step_choose(fake.s, n);
}

static int number_of(const struct fake_message *m)
{
    return (int)(m - sent);
}

static int comm_of(MPI_Comm c)
{
    const ptrdiff_t i = (char *)(void *)c - fake.comm;
    EXPECT(i >= 0 && i < COMMS);
    return (int)i;
}

static bool fits(int comm, int source, int wire, const struct fake_message *m)
{
    return comm == m->comm && (source == MPI_ANY_SOURCE || source == m->source)
           && (wire == MPI_ANY_TAG || wire == m->wire);
}

/* ---- what comes -------------------------------------------------------------------------- */

static void match(struct fake_request *r, struct fake_message *m)
{
    r->got = m;
    m->place = MATCHED;
    m->whole = !m->is_long;
}

static void arrive_one(struct fake_message *m)
{
    struct fake_request *oldest = NULL;
    m->arrived = ++fake.tick;
    m->place = UNEXPECTED;
    for (struct fake_request *r = asked; r < asked + REQUESTS; r++)
        if (r->used && !r->cancelled && !r->got && fits(r->comm, r->source, r->wire, m)
            && (!oldest || r->order < oldest->order))
            oldest = r;
    if (oldest)
        match(oldest, m);
}

static bool may_arrive(const struct fake_message *m)
{
    for (const struct fake_message *b = sent; b < m; b++)
        if (b->comm == m->comm && b->source == m->source && !b->arrived)
            return false;
    return !m->arrived;
}

/* Let one thing happen, if there is one. */
static void come(void)
{
    const int from = choose(MESSAGES);
    for (int i = 0; i < fake.nmessages; i++) {
        struct fake_message *m = &sent[(from + i) % fake.nmessages];
        if (m->place == MATCHED && !m->whole) {
            m->whole = true;
            return;
        }
        if (may_arrive(m)) {
            arrive_one(m);
            return;
        }
    }
}

/* The program waits for long: the rest of a message that is matched comes. */
static void complete_one(void)
{
    for (struct fake_message *m = sent; m < sent + fake.nmessages; m++)
        m->whole = m->whole || m->place == MATCHED;
}

/* A call of the MPI. */
static void call(void)
{
    EXPECT(++fake.idle < PATIENCE);
    if (fake.is_quiet && fake.idle > PATIENCE / 2)
        complete_one();
    if (fake.is_quiet)
        return;
    if (choose(6) == 0 || fake.idle > PATIENCE / 2)
        come();
}

/* ---- functions of the MPI -------------------------------------------------------------------- */

static int bytes_of(const struct fake_message *m)
{
    return m->is_long ? BYTES : SHORT_BYTES;
}

static void put_status(MPI_Status *s, const struct fake_request *r, const struct fake_message *m)
{
    if (s == MPI_STATUS_IGNORE)
        return;
    memset(s, 0, sizeof *s);
    s->MPI_SOURCE = m ? m->source : MPI_ANY_SOURCE;
    s->MPI_TAG = m ? m->wire : MPI_ANY_TAG;
    EXPECT(MPI_Status_set_elements_x(s, MPI_BYTE, m ? bytes_of(m) : 0) == MPI_SUCCESS);
    EXPECT(MPI_Status_set_cancelled(s, r && r->cancelled) == MPI_SUCCESS);
}

static struct fake_request *new_request(MPI_Request *h)
{
    struct fake_request *r = asked;
    while (r < asked + REQUESTS && r->used)
        r++;
    EXPECT(r < asked + REQUESTS);
    *r = (struct fake_request){ .used = true, .order = ++fake.tick };
    *h = (MPI_Request)(void *)r;
    return r;
}

static struct fake_message *find(int comm, int source, int wire)
{
    struct fake_message *first = NULL;
    for (struct fake_message *m = sent; m < sent + fake.nmessages; m++)
        if (m->place == UNEXPECTED && fits(comm, source, wire, m)
            && (!first || m->arrived < first->arrived))
            first = m;
    return first;
}

static int fake_Irecv(
    void *buf, int count, MPI_Datatype t, int source, int tag, MPI_Comm comm, MPI_Request *h)
{
    call();
    struct fake_request *r = new_request(h);
    EXPECT(t == MPI_BYTE && count == BYTES);
    r->comm = comm_of(comm);
    r->source = source;
    r->wire = tag;
    r->buf = buf;
    struct fake_message *m = find(r->comm, source, tag);
    if (m)
        match(r, m);
    return MPI_SUCCESS;
}

static int fake_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *s)
{
    call();
    const struct fake_message *m = find(comm_of(comm), source, tag);
    *flag = m != NULL;
    if (m)
        put_status(s, NULL, m);
    return MPI_SUCCESS;
}

static int fake_Improbe(
    int source, int tag, MPI_Comm comm, int *flag, MPI_Message *out, MPI_Status *s)
{
    call();
    struct fake_message *m = find(comm_of(comm), source, tag);
    *flag = m != NULL;
    if (!m)
        return MPI_SUCCESS;
    put_status(s, NULL, m);
    m->whole = !m->is_long;
    m->place = MATCHED;
    *out = (MPI_Message)(void *)m;
    return MPI_SUCCESS;
}

static int fake_Imrecv(void *buf, int count, MPI_Datatype t, MPI_Message *m, MPI_Request *h)
{
    struct fake_request *r = new_request(h);
    EXPECT(t == MPI_BYTE && count >= bytes_of((struct fake_message *)(void *)*m));
    r->got = (struct fake_message *)(void *)*m;
    r->buf = buf;
    *m = MPI_MESSAGE_NULL;
    return MPI_SUCCESS;
}

static int fake_Mrecv(void *buf, int count, MPI_Datatype t, MPI_Message *m, MPI_Status *s)
{
    struct fake_message *got = (struct fake_message *)(void *)*m;
    EXPECT(t == MPI_BYTE && count >= bytes_of((struct fake_message *)(void *)*m));
    got->whole = true;
    *(uint64_t *)buf = (uint64_t)number_of(got);
    put_status(s, NULL, got);
    *m = MPI_MESSAGE_NULL;
    return MPI_SUCCESS;
}

static int fake_Request_get_status(MPI_Request h, int *done, MPI_Status *s)
{
    struct fake_request *r = (struct fake_request *)(void *)h;
    call();
    EXPECT(r->used);
    *done = r->failed;
    if (r->failed)
        return ftk_mpi_failure_code();
    *done = r->cancelled || (r->got && r->got->whole);
    if (!*done)
        return MPI_SUCCESS;
    if (r->got)
        *(uint64_t *)(void *)r->buf = (uint64_t)number_of(r->got);
    put_status(s, r, r->got);
    return MPI_SUCCESS;
}

static int fake_Test(MPI_Request *h, int *done, MPI_Status *s)
{
    struct fake_request *r = (struct fake_request *)(void *)*h;
    const int rc = fake_Request_get_status(*h, done, s);
    if (!*done)
        return rc;
    r->used = false;
    *h = MPI_REQUEST_NULL;
    return rc == MPI_SUCCESS && r->truncates ? MPI_ERR_TRUNCATE : rc;
}

static int fake_Cancel(MPI_Request *h)
{
    struct fake_request *r = (struct fake_request *)(void *)*h;
    call();
    r->cancelled = !r->got && !r->failed;
    return MPI_SUCCESS;
}

static int fake_Request_free(MPI_Request *h)
{
    ((struct fake_request *)(void *)*h)->used = false;
    *h = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}

static void fake_install(void)
{
    ftk_mpi_real.Irecv = fake_Irecv;
    ftk_mpi_real.Iprobe = fake_Iprobe;
    ftk_mpi_real.Improbe = fake_Improbe;
    ftk_mpi_real.Imrecv = fake_Imrecv;
    ftk_mpi_real.Mrecv = fake_Mrecv;
    ftk_mpi_real.Test = fake_Test;
    ftk_mpi_real.Request_get_status = fake_Request_get_status;
    ftk_mpi_real.Cancel = fake_Cancel;
    ftk_mpi_real.Request_free = fake_Request_free;
}

/* A new process: all messages come again. */
static void fake_begin_again(void)
{
    memset(asked, 0, sizeof asked);
    for (struct fake_message *m = sent; m < sent + fake.nmessages; m++) {
        m->place = COMING;
        m->arrived = 0;
        m->whole = false;
    }
    fake.tick = 0;
}

#endif
