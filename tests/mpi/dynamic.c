/* Dynamic windows in the loop of a program.  Ranks tell each other the addresses of what they
 * attach, as ftkit_decide() has them.  A replacement has its memory at other addresses than the
 * lost process had.  Epochs of the variant (-m):
 *
 *   fence     operations by fences
 *   pscw      by MPI_Win_post, start, complete and wait
 *   locks     exclusive locks, puts and gets with requests
 *   raw       as fence, without ftkit_decide(): a replacement tells its own addresses
 *   computed  as fence; the addresses that set-up has told are in no region, because each start
 *             tells them again
 *   bare      as fence; behind each step a set is refused, because the program has attached memory
 *             that is in no region
 *
 * Set-up attaches memory and has an epoch of fences; then it passes app.connected.  Each fifth step
 * the loop attaches another piece of memory in place of the one before.  A step passes app.mid and
 * app.inflight once, inside an epoch.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"

enum { MANY = 32, PIECE = 8, PIECES = 16, BLOCK = 4 << 20 };

static struct {
    enum { FENCE, PSCW, LOCKS, RAW, COMPUTED, BARE } how;
    char *block;             /* BLOCK bytes, which has the following two */
    int64_t *own, *pool;     /* registered: [MANY], [PIECE * PIECES] */
    int64_t *address;        /* registered, but see above: [2 * ranks] of own, of the piece */
    uint64_t *state;         /* registered: a hash, what is wrong */
    int64_t (*stray)[PIECE]; /* in no region */
    MPI_Win win;
    MPI_Group near;
    int n, next, last;
} w = { .win = MPI_WIN_NULL, .near = MPI_GROUP_NULL };

static int with_bare_memory(struct foreign *f)
{
    w.state[1] += MPI_Win_attach(w.win, w.stray, sizeof *w.stray) != MPI_SUCCESS;
    w.state[1] += ftkit_checkpoint(f->ft) != FTKIT_ERR_STATE;
    w.state[1] += MPI_Win_detach(w.win, w.stray) != MPI_SUCCESS;
    return FTKIT_OK;
}

/* Each process has its memory at another place. */
static bool make_memory(void)
{
    w.block = calloc(1, BLOCK);
    w.stray = calloc(1, sizeof *w.stray);
    if (!w.block || !w.stray)
        return false;
    w.own = (int64_t *)(void *)(w.block + (size_t)(getpid() % 997) * 1024);
    w.pool = (int64_t *)(void *)(w.block + BLOCK / 2 + (size_t)(getpid() % 991) * 1024);
    return true;
}

static int prepare(struct foreign *f)
{
    static const char *const names[] = { "fence", "pscw", "locks", "raw", "computed", "bare" };
    const int how = foreign_variant(f, names, sizeof names / sizeof *names);
    if (how < 0 || !make_memory())
        return 1;
    w.how = how;
    f->after = w.how == BARE ? with_bare_memory : NULL;
    w.n = f->nranks;
    w.next = (f->rank + 1) % w.n;
    w.last = (f->rank + w.n - 1) % w.n;
    w.state = foreign_state(f, 2);
    w.address = calloc(2 * (size_t)w.n, sizeof *w.address);
    if (!w.state || !w.address)
        return 1;
    for (int k = 0; k < MANY; k++)
        w.own[k] = INT64_C(1000) * f->rank + k;
    int rc = ftkit_register(f->ft, "own", w.own, MANY, MPI_INT64_T);
    if (rc == FTKIT_OK)
        rc = ftkit_register(f->ft, "pool", w.pool, (size_t)PIECE * PIECES, MPI_INT64_T);
    if (rc == FTKIT_OK)
        rc = w.how == COMPUTED
                 ? ftkit_register(f->ft, "address", w.address + w.n, (size_t)w.n, MPI_INT64_T)
                 : ftkit_register(f->ft, "address", w.address, 2 * (size_t)w.n, MPI_INT64_T);
    return rc != FTKIT_OK;
}

/* All ranks learn where this one has its memory. */
static int tell(const struct foreign *f, const void *memory, int64_t *all)
{
    MPI_Aint at;
    int rc = MPI_Get_address(memory, &at);
    int64_t mine = at;
    if (w.how != RAW)
        rc |= ftkit_decide(f->ft, &mine, sizeof mine);
    return rc | MPI_Allgather(&mine, 1, MPI_INT64_T, all, 1, MPI_INT64_T, f->comm);
}

static MPI_Aint of_own(int rank)
{
    return (MPI_Aint)w.address[rank];
}

static MPI_Aint of_piece(int rank)
{
    return (MPI_Aint)w.address[w.n + rank];
}

/* The piece of this rank in a step. */
static int64_t *piece(const struct foreign *f, int step)
{
    return w.pool + (ptrdiff_t)((step / 5 * 7 + f->rank) % PIECES) * PIECE;
}

static void move_piece(const struct foreign *f)
{
    if (f->step > 0)
        w.state[1] += MPI_Win_detach(w.win, piece(f, f->step - 1)) != MPI_SUCCESS;
    w.state[1] += MPI_Win_attach(w.win, piece(f, f->step), PIECE * sizeof *w.pool) != MPI_SUCCESS;
    (void)tell(f, piece(f, f->step), w.address + w.n); /* the communicator ends the job */
    /* no bytes: no region is needed, also not in a replacement */
    w.state[1] += MPI_Win_detach(w.win, &(*w.stray)[1]) != MPI_SUCCESS;
    w.state[1] += MPI_Win_attach(w.win, &(*w.stray)[1], 0) != MPI_SUCCESS;
}

static int connect_ranks(struct foreign *f)
{
    const int near[] = { w.next, w.last };
    int64_t got = -1;
    MPI_Group group;
    int rc = MPI_Win_create_dynamic(MPI_INFO_NULL, f->comm, &w.win);
    if (rc != MPI_SUCCESS)
        return 1;
    rc |= MPI_Win_attach(w.win, w.own, MANY * sizeof *w.own);
    rc |= MPI_Win_attach(w.win, &(*w.stray)[1], 0);
    rc |= tell(f, w.own, w.address);
    rc |= MPI_Win_get_group(w.win, &group);
    rc |= MPI_Group_incl(group, w.next == w.last ? 1 : 2, near, &w.near);
    rc |= MPI_Group_free(&group);
    rc |= MPI_Win_fence(MPI_MODE_NOPRECEDE, w.win);
    rc |= MPI_Put(&f->rank, 1, MPI_INT, w.next, of_own(w.next) + 8, 1, MPI_INT, w.win);
    rc |= MPI_Get(&got, 1, MPI_INT64_T, w.last, of_own(w.last), 1, MPI_INT64_T, w.win);
    rc |= MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win);
    (void)FTK_FAULT("app.connected");
    return rc != MPI_SUCCESS || got != INT64_C(1000) * w.last;
}

static void disconnect(void)
{
    if (w.near != MPI_GROUP_NULL)
        MPI_Group_free(&w.near);
    if (w.win != MPI_WIN_NULL)
        MPI_Win_free(&w.win);
}

static void note(const int64_t *v, int count)
{
    for (int i = 0; i < count; i++)
        w.state[0] = foreign_mix(w.state[0], (uint64_t)v[i]);
}

/* ---- epochs of the program ----------------------------------------------------------- */

static void begin(void)
{
    if (w.how != PSCW) {
        MPI_Win_fence(MPI_MODE_NOPRECEDE, w.win);
        return;
    }
    MPI_Win_post(w.near, 0, w.win);
    MPI_Win_start(w.near, 0, w.win);
}

static void end(void)
{
    if (w.how != PSCW) {
        MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win);
        return;
    }
    MPI_Win_complete(w.win);
    MPI_Win_wait(w.win);
}

/* While the window is exposed its memory stays. */
static void change_exposed(void)
{
    w.state[1] += MPI_Win_set_errhandler(w.win, MPI_ERRORS_RETURN) != MPI_SUCCESS;
    w.state[1] += MPI_Win_attach(w.win, w.stray, sizeof *w.stray) != MPI_ERR_RMA_SYNC;
    w.state[1] += MPI_Win_detach(w.win, w.own) != MPI_ERR_RMA_SYNC;
    w.state[1] += MPI_Win_set_errhandler(w.win, MPI_ERRORS_ARE_FATAL) != MPI_SUCCESS;
}

/* Unattached memory of the first target takes no result of the second one. */
static void one_is_wrong(void)
{
    const int first = w.next < w.last ? w.next : w.last, second = w.next + w.last - first;
    int64_t none = 0, got = -1, want = -1;
    begin();
    MPI_Get(&want, 1, MPI_INT64_T, second, of_own(second) + 24, 1, MPI_INT64_T, w.win);
    end();
    w.state[1] += MPI_Win_set_errhandler(w.win, MPI_ERRORS_RETURN) != MPI_SUCCESS;
    begin();
    MPI_Get(&none, 1, MPI_INT64_T, first, 8, 1, MPI_INT64_T, w.win);
    MPI_Get(&got, 1, MPI_INT64_T, second, of_own(second) + 24, 1, MPI_INT64_T, w.win);
    w.state[1] += MPI_Win_complete(w.win) != MPI_ERR_RMA_RANGE;
    w.state[1] += MPI_Win_wait(w.win) != MPI_SUCCESS;
    w.state[1] += MPI_Win_set_errhandler(w.win, MPI_ERRORS_ARE_FATAL) != MPI_SUCCESS;
    w.state[1] += first != second && got != want;
}

static void active(const struct foreign *f)
{
    const int to = f->step % 2 == 0 ? w.next : w.last, from = f->step % 3 == 0 ? w.next : w.last;
    int64_t more[MANY], got[PIECE + 2] = { 0 };
    const int64_t mine = 10 * f->step + f->rank;
    for (int i = 0; i < MANY; i++)
        more[i] = f->step + i;
    begin();
    if (w.how == PSCW && f->step % 10 == 3)
        change_exposed();
    MPI_Accumulate(more, MANY, MPI_INT64_T, to, of_own(to), MANY, MPI_INT64_T, MPI_SUM, w.win);
    (void)FTK_FAULT("app.inflight");
    MPI_Put(&mine, 1, MPI_INT64_T, to, of_piece(to) + f->rank % PIECE * INT64_C(8), 1, MPI_INT64_T,
        w.win);
    (void)FTK_FAULT("app.mid");
    end();
    if (w.how == PSCW && f->step % 10 == 4)
        one_is_wrong();
    begin();
    MPI_Get(got, PIECE, MPI_INT64_T, from, of_piece(from), PIECE, MPI_INT64_T, w.win);
    MPI_Fetch_and_op(&mine, &got[PIECE], MPI_INT64_T, to, of_own(to) + 16, MPI_BXOR, w.win);
    MPI_Get(&got[PIECE + 1], 1, MPI_INT64_T, from, of_own(from) + 24, 1, MPI_INT64_T, w.win);
    end();
    note(got, PIECE + 2);
}

/* The request of an operation has its error, and the next flush has none. */
static void one_request_is_wrong(void)
{
    int64_t none = 0, got = -1;
    MPI_Request q[2];
    w.state[1] += MPI_Win_set_errhandler(w.win, MPI_ERRORS_RETURN) != MPI_SUCCESS;
    MPI_Rget(&none, 1, MPI_INT64_T, w.next, 8, 1, MPI_INT64_T, w.win, &q[0]);
    MPI_Rget(&got, 1, MPI_INT64_T, w.next, of_own(w.next), 1, MPI_INT64_T, w.win, &q[1]);
    w.state[1] += MPI_Wait(&q[0], MPI_STATUS_IGNORE) != MPI_ERR_RMA_RANGE;
    w.state[1] += MPI_Wait(&q[1], MPI_STATUS_IGNORE) != MPI_SUCCESS;
    w.state[1] += MPI_Win_flush(w.next, w.win) != MPI_SUCCESS || got < 0;
    /* the program does not wait for the request: the flush has the error */
    MPI_Rget(&none, 1, MPI_INT64_T, w.next, 8, 1, MPI_INT64_T, w.win, &q[0]);
    w.state[1] += MPI_Request_free(&q[0]) != MPI_SUCCESS;
    w.state[1] += MPI_Win_flush(w.next, w.win) != MPI_ERR_RMA_RANGE;
    w.state[1] += MPI_Win_set_errhandler(w.win, MPI_ERRORS_ARE_FATAL) != MPI_SUCCESS;
}

/* Each rank adds to values of all others. */
static void locks(const struct foreign *f)
{
    int64_t got = 0, more = f->step + 1, piece_of_next = -1;
    MPI_Request q = MPI_REQUEST_NULL;
    for (int k = 0; k < w.n; k++) {
        const int to = (f->rank + k) % w.n;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, w.win);
        MPI_Get(&got, 1, MPI_INT64_T, to, of_own(to) + 8, 1, MPI_INT64_T, w.win);
        MPI_Win_flush(to, w.win);
        if (k == 1)
            (void)FTK_FAULT("app.inflight");
        got += more;
        MPI_Put(&got, 1, MPI_INT64_T, to, of_own(to) + 8, 1, MPI_INT64_T, w.win);
        MPI_Win_unlock(to, w.win);
    }
    (void)FTK_FAULT("app.mid");
    MPI_Win_lock(MPI_LOCK_SHARED, w.next, 0, w.win);
    MPI_Put(&more, 1, MPI_INT64_T, w.next, of_piece(w.next), 1, MPI_INT64_T, w.win);
    MPI_Win_flush(w.next, w.win);
    MPI_Rget(&piece_of_next, 1, MPI_INT64_T, w.next, of_piece(w.next), 1, MPI_INT64_T, w.win, &q);
    if (MPI_Wait(&q, MPI_STATUS_IGNORE) == MPI_SUCCESS)
        w.state[1] += piece_of_next != more;
    if (f->step % 10 == 3)
        one_request_is_wrong();
    MPI_Win_unlock(w.next, w.win);
    MPI_Barrier(f->comm);
    note(&w.own[1], 1);
    MPI_Barrier(f->comm);
}

static void step(struct foreign *f)
{
    if (f->step % 5 == 0)
        move_piece(f);
    if (w.how == LOCKS)
        locks(f);
    else
        active(f);
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    note(w.own, MANY);
    note(w.pool, PIECE * PIECES);
    return foreign_counted(f, w.state[0], w.state[1], hash, detail, room);
}

static void release(void)
{
    free(w.block);
    free(w.stray);
    free(w.address);
    free(w.state);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { "dynamic", 40, 1, prepare, connect_ranks, disconnect,
        step, verdict, release };
    return foreign_run(argc, argv, &app, foreign_loop);
}
