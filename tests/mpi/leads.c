/* Outcomes that MPI leaves open, for replicas: what one replica decides, and the others repeat.
 *
 *   -m send     (default) rank 1 has posted a receive of any source when it comes to
 *               ftkit_checkpoint(), and rank 0 sends a long message to it before
 *   -m chain    in step 22 rank 0 takes the message of rank 1 or of rank 2, and tells its sender to
 *               send to rank 3, which receives from any source.  In plane 0 that is rank 2.  In
 *               plane 1 rank 1 is first, and rank 0 looks for the message only when rank 0 of plane
 *               0 has died: at app.mid.  With three planes that one waits for rank 0 of plane 2.
 *   -m cancel   rank 0 has two receives of any source under way at each set, and has cancelled a
 *               third one, which gets no message
 *   -m look     rank 0 looks for a message that does not come, and comes to ftkit_checkpoint()
 *   -m probe    rank 0 probes for the second message of a source; a receive of any source gets the
 *               first one
 *   -m any      rank 0 receives any tag of a source, behind a receive of any source of another tag
 *   -m time     a message has the time
 *   -m decided  the same through ftkit_decide()
 *
 * Fault point flip.step, with EIO: a bit of the number of the step flips, and the rank leaves its
 * loop.  flip.early, with EIO: before its first call of ftkit_checkpoint() the rank waits for a
 * message that nobody sends.  A step passes app.mid once.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>

#include "foreign.h"

enum { LONG = 25000, CHAIN = 22, PAIR = 2 };

static struct {
    uint64_t state[3]; /* registered; [1]: wrong; [2]: a sum in which values have no order */
    uint64_t buf[LONG], pair[PAIR];
    MPI_Request q[PAIR];
    const char *mode;
    int planes;
    bool first; /* of this process in its rank, and no failure has come */
} g;

static bool is(const char *mode)
{
    return strcmp(g.mode, mode) == 0;
}

static int prepare(struct foreign *f)
{
    ftkit_info info = { .size = sizeof info };
    g.mode = f->variant ? f->variant : "send";
    g.q[0] = g.q[1] = MPI_REQUEST_NULL;
    int rc = ftkit_query(f->ft, &info);
    g.planes = info.nplanes;
    g.first = info.incarnation == 0;
    rc |= ftkit_register(f->ft, "state", g.state, 3, MPI_UINT64_T);
    rc |= ftkit_register(f->ft, "buf", g.buf, LONG, MPI_UINT64_T);
    rc |= ftkit_register(f->ft, "pair", g.pair, PAIR, MPI_UINT64_T);
    rc |= ftkit_register_requests(f->ft, "q", g.q, PAIR);
    return rc != FTKIT_OK;
}

static void note(uint64_t value)
{
    g.state[0] = foreign_mix(g.state[0], value);
}

/* Another time in each process, and in each run. */
static void pause_some(void)
{
    usleep((useconds_t)(foreign_mix(ftk_wall_ns(), (uint64_t)getpid()) % 2000));
}

/* ---- send ------------------------------------------------------------------------------- */

static void send_long(struct foreign *f)
{
    static uint64_t out[LONG];
    if (f->rank == 1 && f->step > 0) {
        if (MPI_Wait(&g.q[0], MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return;
        g.state[1] += g.buf[LONG - 1] != (uint64_t)f->step;
        note(g.buf[LONG - 1]);
    }
    if (f->step == f->steps - 1)
        return;
    if (f->rank == 1)
        MPI_Irecv(g.buf, LONG, MPI_UINT64_T, MPI_ANY_SOURCE, 1, f->comm, &g.q[0]);
    MPI_Barrier(f->comm); /* the receive is posted */
    (void)FTK_FAULT("app.mid");
    for (int i = 0; f->rank == 0 && i < LONG; i++)
        out[i] = (uint64_t)f->step + 1;
    if (f->rank == 0)
        (f->step % 2 ? MPI_Send : MPI_Ssend)(out, LONG, MPI_UINT64_T, 1, 1, f->comm);
}

/* ---- chain ------------------------------------------------------------------------------ */

static bool has_file(const struct foreign *f, const char *name, int *pid)
{
    char path[512];
    snprintf(path, sizeof path, "%s.%s", f->watch, name);
    FILE *in = fopen(path, "r");
    const bool yes = in && fscanf(in, "%d", pid) == 1;
    if (in)
        fclose(in);
    return yes;
}

static void make_file(const struct foreign *f, const char *name)
{
    char path[512], new[520];
    snprintf(path, sizeof path, "%s.%s", f->watch, name);
    snprintf(new, sizeof new, "%s.new", path);
    FILE *out = fopen(new, "w");
    if (!out || fprintf(out, "%d\n", (int)getpid()) < 0 || fclose(out) != 0
        || rename(new, path) != 0)
        fprintf(stderr, "leads: cannot write %s\n", path);
}

/* Wait for the file of a process that lives, or for the end of that process. */
static void await(const struct foreign *f, const char *name, bool its_end)
{
    int pid = 0;
    while (!has_file(f, name, &pid) || (kill(pid, 0) != 0 && errno == ESRCH) != its_end)
        usleep(1000);
}

static void take_one(struct foreign *f)
{
    MPI_Status st;
    int x = 0;
    if (f->plane == 1 && g.first)
        await(f, "chosen", true);
    if (MPI_Recv(&x, 1, MPI_INT, MPI_ANY_SOURCE, 1, f->comm, &st) != MPI_SUCCESS)
        return;
    const int got = st.MPI_SOURCE;
    note((uint64_t)got);
    if (f->plane != 1)
        make_file(f, f->plane == 0 ? "chosen" : "used");
    MPI_Send(&x, 1, MPI_INT, got, 2, f->comm);     /* go */
    MPI_Send(&x, 1, MPI_INT, 3 - got, 4, f->comm); /* no go */
    if (MPI_Recv(&x, 1, MPI_INT, 3, 5, f->comm, &st) != MPI_SUCCESS)
        return;
    if (f->plane == 0 && g.first && g.planes == 3)
        await(f, "used", false);
    (void)FTK_FAULT("app.mid");
    MPI_Recv(&x, 1, MPI_INT, MPI_ANY_SOURCE, 1, f->comm, &st);
}

static void offer(struct foreign *f)
{
    MPI_Status st;
    int x = f->rank;
    if (f->plane == 0 && f->rank == 1)
        await(f, "chosen", false);
    if (f->plane == 1 && f->rank == 2 && g.first)
        await(f, "chosen", true);
    MPI_Send(&x, 1, MPI_INT, 0, 1, f->comm);
    if (MPI_Recv(&x, 1, MPI_INT, 0, MPI_ANY_TAG, f->comm, &st) == MPI_SUCCESS && st.MPI_TAG == 2)
        MPI_Send(&f->rank, 1, MPI_INT, 3, 3, f->comm);
}

static void chain(struct foreign *f)
{
    MPI_Status st;
    int x = 0;
    if (f->step != CHAIN)
        return;
    if (f->rank == 0)
        take_one(f);
    else if (f->rank < 3)
        offer(f);
    else if (f->rank == 3
             && MPI_Recv(&x, 1, MPI_INT, MPI_ANY_SOURCE, 3, f->comm, &st) == MPI_SUCCESS) {
        note((uint64_t)st.MPI_SOURCE);
        MPI_Send(&x, 1, MPI_INT, 0, 5, f->comm);
    }
}

/* ---- receives under way, and one that is cancelled ------------------------------------------ */

static void cancel_one(struct foreign *f)
{
    uint64_t none = 0;
    MPI_Request z;
    MPI_Status st;
    int yes = 0;
    MPI_Irecv(&none, 1, MPI_UINT64_T, MPI_ANY_SOURCE, 98, f->comm, &z);
    MPI_Cancel(&z);
    if (MPI_Wait(&z, &st) == MPI_SUCCESS && MPI_Test_cancelled(&st, &yes) == MPI_SUCCESS)
        g.state[1] += !yes;
}

static void receive_two(struct foreign *f)
{
    uint64_t out = 1000 * (uint64_t)f->rank + (uint64_t)f->step;
    for (int k = 0; f->rank == 0 && f->step > 0 && k < PAIR; k++) {
        int at;
        if (MPI_Waitany(PAIR, g.q, &at, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return;
    }
    if (f->rank == 0 && f->step > 0)
        g.state[2] += g.pair[0] + g.pair[1];
    if (f->step == f->steps - 1)
        return;
    if (f->plane > 0)
        pause_some();
    for (int k = 0; f->rank == 0 && k < PAIR; k++)
        MPI_Irecv(&g.pair[k], 1, MPI_UINT64_T, MPI_ANY_SOURCE, 1, f->comm, &g.q[k]);
    if (f->rank == 0)
        cancel_one(f);
    (void)FTK_FAULT("app.mid");
    if (f->rank == 1 || f->rank == 2) {
        pause_some();
        MPI_Send(&out, 1, MPI_UINT64_T, 0, 1, f->comm);
    }
}

/* ---- probes -------------------------------------------------------------------------------- */

static void look(struct foreign *f)
{
    int flag = 0;
    for (int i = 0; f->rank == 0 && i <= f->step % 3; i++) {
        MPI_Iprobe(MPI_ANY_SOURCE, 97, f->comm, &flag, MPI_STATUS_IGNORE);
        note((uint64_t)flag);
    }
    (void)FTK_FAULT("app.mid");
}

/* The second message of rank 1 is longer than the first one.  The receive is posted; in a replica
 * that follows it may not be. */
static void probe_second(struct foreign *f)
{
    uint64_t one = 0, two[2] = { 0 };
    const uint64_t out[2] = { 1, 2 };
    MPI_Request q;
    MPI_Status st;
    int words = 0;
    if (f->rank == 0)
        MPI_Irecv(&one, 1, MPI_UINT64_T, MPI_ANY_SOURCE, 1, f->comm, &q);
    MPI_Barrier(f->comm);
    if (f->rank == 1) {
        MPI_Send(out, 1, MPI_UINT64_T, 0, 1, f->comm);
        MPI_Send(out, 2, MPI_UINT64_T, 0, 1, f->comm);
    }
    (void)FTK_FAULT("app.mid");
    if (f->rank != 0 || MPI_Probe(1, 1, f->comm, &st) != MPI_SUCCESS)
        return;
    MPI_Get_count(&st, MPI_UINT64_T, &words);
    g.state[1] += words != 2;
    MPI_Recv(two, 2, MPI_UINT64_T, 1, 1, f->comm, MPI_STATUS_IGNORE);
    if (MPI_Wait(&q, MPI_STATUS_IGNORE) == MPI_SUCCESS)
        note(one + two[1]);
}

/* The receive of any source stays open until the end of the step. */
static void receive_any_tag(struct foreign *f)
{
    uint64_t open = 0, got = 0;
    const uint64_t out = (uint64_t)f->step;
    MPI_Request q;
    MPI_Status st;
    if (f->rank == 0) {
        MPI_Irecv(&open, 1, MPI_UINT64_T, MPI_ANY_SOURCE, 5, f->comm, &q);
        if (MPI_Recv(&got, 1, MPI_UINT64_T, 1, MPI_ANY_TAG, f->comm, &st) != MPI_SUCCESS)
            return;
        g.state[1] += st.MPI_TAG != 7;
    }
    if (f->rank == 1)
        MPI_Send(&out, 1, MPI_UINT64_T, 0, 7, f->comm);
    (void)FTK_FAULT("app.mid");
    MPI_Barrier(f->comm);
    if (f->rank == 1)
        MPI_Send(&out, 1, MPI_UINT64_T, 0, 5, f->comm);
    if (f->rank == 0 && MPI_Wait(&q, MPI_STATUS_IGNORE) == MPI_SUCCESS)
        note(got + open);
}

/* ---- the time ------------------------------------------------------------------------------ */

static void tell_time(struct foreign *f)
{
    double now = MPI_Wtime(), in = 0;
    const int next = (f->rank + 1) % f->nranks, before = (f->rank + f->nranks - 1) % f->nranks;
    if (is("decided"))
        g.state[1] += ftkit_decide(f->ft, &now, sizeof now) < 0;
    MPI_Sendrecv(
        &now, 1, MPI_DOUBLE, next, 1, &in, 1, MPI_DOUBLE, before, 1, f->comm, MPI_STATUS_IGNORE);
    (void)FTK_FAULT("app.mid");
}

/* ---- the program --------------------------------------------------------------------------- */

static void step(struct foreign *f)
{
    static const struct {
        const char *mode;
        void (*step)(struct foreign *f);
    } all[] = { { "send", send_long }, { "chain", chain }, { "cancel", receive_two },
        { "look", look }, { "probe", probe_second }, { "any", receive_any_tag },
        { "time", tell_time }, { "decided", tell_time } };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (is(all[i].mode))
            all[i].step(f);
    note((uint64_t)f->step);
    if (FTK_FAULT("flip.step"))
        f->step ^= 1 << 11;
}

/* A rank that leaves its loop comes to ftkit_finish() first. */
static int loop(struct foreign *f)
{
    if (FTK_FAULT("flip.early"))
        MPI_Recv(g.buf, 1, MPI_UINT64_T, f->rank, 77, f->comm, MPI_STATUS_IGNORE);
    for (bool first = true;; first = false) {
        int rc = ftkit_checkpoint(f->ft);
        if (foreign_fatal(rc))
            return foreign_complain(f, "checkpoint", rc);
        if (first)
            foreign_info(f, "line");
        if (rc == FTKIT_ROLLED_BACK)
            g.first = false;
        if (f->step >= f->steps) {
            rc = ftkit_finish(f->ft);
            if (rc == FTKIT_ROLLED_BACK)
                continue;
            foreign_judge(f);
            foreign_info(f, "end");
            return rc < 0 ? foreign_complain(f, "finish", rc) : 0;
        }
        (void)FTK_FAULT("app.step");
        step(f);
        f->step++;
    }
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    return foreign_counted(f, g.state[0] + g.state[2], g.state[1], hash, detail, room);
}

static void release(void)
{
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { .name = "leads",
        .steps = 40,
        .size = 1,
        .prepare = prepare,
        .verdict = verdict,
        .release = release };
    return foreign_run(argc, argv, &app, loop);
}
