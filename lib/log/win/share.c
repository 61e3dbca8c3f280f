/* Windows with memory that all ranks of a node share.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Rank 0 of the window makes a memfd, and the other ranks open it by /proc/PID/fd: nothing is left
 * behind by any kill.  The file has a head, then the memory of the ranks without gaps.
 *
 * Loads and stores are in no log.  So all ranks are one team, and in a rollback:
 *
 *   - A replacement has private memory in its set-up, which it repeats while the others are
 *     further.  Its restore maps the shared memory in its place.
 *   - No rank restores its part before all have come to their restore, and none goes on before all
 *     have restored theirs: the head has how far each rank is (stage).
 *
 * A replacement finds the file by the addresses in the set: of the processes that had it at the
 * line, one that lives is enough.  The memory of a window of one rank stays private: no other
 * process looks at it. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "detect/detect.h"
#include "log/base/saved.h"
#include "log/coll/coll.h"
#include "log/determinant/det.h"
#include "log/win/share_file.h"
#include "log/win/win.h"
#include "mpi_calls.h"

/* Of a rank, in the head. */
struct member {
    _Atomic uint64_t stage;   /* of the latest restore */
    _Atomic uint64_t address; /* process and descriptor of the file; 0: none */
};

struct head {
    uint64_t token; /* distinguishes this file from others */
    struct member member[];
};

/* What the ranks send each other.  The values are decisions: a replacement, which has private
 * memory, sends those of the lost process. */
struct fact {
    uint64_t error, address, token;
};

struct ftk_win_shared {
    struct head *head;        /* NULL: the memory is private, see above */
    size_t head_bytes, bytes; /* whole pages */
    char *memory;
    int fd;
    bool of_handle;     /* the handle of the window unmaps the memory, and this struct does not */
    bool in_loop;       /* no set can have the window: no replacement would make it */
    struct fact fact[]; /* of each rank */
};

/* ---- sizes --------------------------------------------------------------------------- */

static size_t pages(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page) / page * page; /* one more byte: no mapping is empty */
}

static size_t head_bytes(const struct ftk_win *w)
{
    return pages(sizeof(struct head) + (size_t)w->vc->size * sizeof(struct member));
}

/* The bytes before the part of a rank. */
static int64_t before(const struct ftk_win *w, int rank)
{
    int64_t all = 0;
    for (int i = 0; i < rank; i++)
        all += w->place[i].size;
    return all;
}

static bool is_too_large(const struct ftk_win *w)
{
    int64_t all = 0;
    for (int i = 0; i < w->vc->size; i++)
        if (__builtin_add_overflow(all, w->place[i].size, &all) || all > FTK_FAR)
            return true;
    return false;
}

/* ---- mapping ------------------------------------------------------------------------- */

/* Map the head of the file, then its memory; at: in place of the private memory.  0 or errno. */
static int map_file(struct ftk_win_shared *s, int fd, char *at)
{
    const int both = PROT_READ | PROT_WRITE;
    void *head = mmap(NULL, s->head_bytes, both, MAP_SHARED, fd, 0);
    if (head == MAP_FAILED)
        return errno;
    void *memory =
        mmap(at, s->bytes, both, MAP_SHARED | (at ? MAP_FIXED : 0), fd, (off_t)s->head_bytes);
    if (memory == MAP_FAILED) {
        const int err = errno;
        (void)munmap(head, s->head_bytes); /* an error leaks the mapping */
        return err;
    }
    s->head = head;
    s->memory = memory;
    s->fd = fd;
    return 0;
}

/* Map a file that this process has just made or opened; err: it has not. */
static int take_file(struct ftk_win_shared *s, int err, int fd, char *at)
{
    if (err)
        return err;
    err = map_file(s, fd, at);
    if (err)
        (void)close(fd); /* nothing was written by it */
    return err;
}

static int make_file(struct ftk_win_shared *s, uint64_t token)
{
    int fd = -1;
    int err = FTK_FAULT("win.share");
    if (!err)
        err = ftk_share_file_make(s->head_bytes + s->bytes, token, &fd);
    return take_file(s, err, fd, NULL);
}

static int open_file(struct ftk_win_shared *s, uint64_t address, uint64_t token, char *at)
{
    int fd = -1;
    int err = FTK_FAULT("win.open");
    if (!err)
        err = ftk_share_file_open(address, s->head_bytes + s->bytes, token, &fd);
    return take_file(s, err, fd, at);
}

static int map_private(struct ftk_win_shared *s)
{
    const int err = FTK_FAULT("win.private");
    if (err)
        return err;
    void *p = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return errno;
    s->memory = p;
    return 0;
}

/* ---- the handle ----------------------------------------------------------------------- */

static int make_handle(struct ftk_win *w)
{
    const struct ftk_win_place *mine = &w->place[w->vc->rank];
    w->base = w->shared->memory + before(w, w->vc->rank);
    int rc = PMPI_Win_create(
        w->base, mine->size, (int)mine->unit, MPI_INFO_NULL, MPI_COMM_SELF, &w->handle);
    if (rc == MPI_SUCCESS)
        rc = PMPI_Win_set_name(w->handle, "");
    if (rc == MPI_SUCCESS)
        rc = ftk_win_hold(w->handle, w->shared->memory, w->shared->bytes);
    w->shared->of_handle = rc == MPI_SUCCESS;
    return rc == MPI_SUCCESS ? 0 : ENOMEM;
}

void ftk_win_unshare(struct ftk_win *w)
{
    struct ftk_win_shared *s = w->shared;
    if (!s)
        return;
    if (s->head)
        (void)munmap(s->head, s->head_bytes); /* an error leaks the mapping; so below */
    if (s->memory && !s->of_handle)
        (void)munmap(s->memory, s->bytes);
    if (s->fd >= 0)
        (void)close(s->fd); /* the mapping, if any, holds the memory */
    free(s);
    w->shared = NULL;
}

/* ---- making -------------------------------------------------------------------------- */

/* Send the others the error of this rank and its facts.  In the replay of set-up these are those of
 * the lost process: an error of this process alone ends the job. */
static int exchange(const struct ftk_win *w, int err, struct fact *mine, struct fact *all)
{
    mine->error = (uint64_t)err;
    if (ftk_det_decide(mine, sizeof *mine) != FTKIT_OK) {
        ftk_report(FTKIT_ERROR, "rank %d: %s", ftk_log.me, ftk_detail_text());
        mine->error = ENOMEM; /* the others do not wait for this rank */
    } else if (err && mine->error == 0) {
        char why[160];
        snprintf(why, sizeof why,
            "rank %d: cannot make the memory of MPI_Win_allocate_shared in the replay of set-up: "
            "%s",
            ftk_log.me, strerror(err));
        ftk_detect_end(ftk_log.ctx, why);
        return MPI_ERR_RMA_SHARED;
    }
    *all = *mine;
    return w->vc->size > 1 ? ftk_coll_allgather(w->vc, mine, all, sizeof *mine) : MPI_SUCCESS;
}

int ftk_win_share_begin(struct ftk_win *w, int n)
{
    struct ftk_win_shared *s = calloc(1, sizeof *s + (size_t)n * sizeof s->fact[0]);
    if (!s)
        return MPI_ERR_NO_MEM;
    s->fd = -1;
    w->shared = s;
    return MPI_SUCCESS;
}

/* Rank 0 makes the file; then the others open it. */
static int map_all(struct ftk_win *w, struct fact *all)
{
    struct ftk_win_shared *s = w->shared;
    const bool is_private = ftk_log_replays_setup();
    struct fact mine = { 0 };
    int err = is_private ? map_private(s) : 0;
    if (!is_private && w->vc->rank == 0) {
        mine.token = ftk_share_file_token(w->id);
        err = make_file(s, mine.token);
        mine.address = err ? 0 : ftk_share_file_address(s->fd);
    }
    const int rc = exchange(w, err, &mine, all);
    if (rc != MPI_SUCCESS)
        return rc;
    if (!is_private && w->vc->rank > 0 && all[0].error == 0)
        err = open_file(s, all[0].address, all[0].token, NULL);
    if (err == 0 && all[0].error == 0)
        err = make_handle(w);
    return exchange(w, err, &mine, all);
}

/* Before the first set the others go on, and a replacement has no restore that maps the memory:
 * neither that of set-up nor that of the loop. */
static bool may_make(void)
{
    const struct ftkit_ctx *ctx = ftk_log.ctx;
    if (ctx->incarnation == 0 || ctx->committed > 0)
        return true;
    char why[160];
    snprintf(why, sizeof why,
        "rank %d: a window of MPI_Win_allocate_shared cannot be repaired before the first set of "
        "ftkit_checkpoint: the job has to begin anew",
        ftk_log.me);
    ftk_detect_end(ftk_log.ctx, why);
    return false;
}

static const char *hint(int err)
{
    if (err == ENOENT || err == ESTALE)
        return " (all ranks of the communicator have to be on one node)";
    if (err == EPERM || err == EACCES)
        return " (a process may not open files of another one in /proc/PID/fd)";
    return "";
}

/* Report an error of the program: a rank of the communicator has no memory.  A rank that has died
 * may be the reason, and is no error of the program: so all ranks have to come here. */
static int report(const struct ftk_win *w, int rank, int err)
{
    const struct ftk_call barrier = { .kind = FTK_BARRIER, .name = "MPI_Win_allocate_shared" };
    const int rc = ftk_coll_now(w->vc, &barrier);
    if (rc != MPI_SUCCESS)
        return rc;
    ftk_report(FTKIT_ERROR,
        "rank %d: MPI_Win_allocate_shared: rank %d of the communicator cannot share memory with "
        "rank 0: %s%s",
        ftk_log.me, rank, strerror(err), hint(err));
    return MPI_ERR_RMA_SHARED;
}

int ftk_win_share(struct ftk_win *w)
{
    struct ftk_win_shared *s = w->shared;
    int bad = -1;
    if (!may_make())
        return MPI_ERR_RMA_SHARED;
    if (is_too_large(w)) /* all members know that */
        return MPI_ERR_SIZE;
    s->head_bytes = head_bytes(w);
    s->bytes = pages((size_t)before(w, w->vc->size));
    s->in_loop = !ftk_log.in_set_up;
    int rc = map_all(w, s->fact);
    for (int i = 0; rc == MPI_SUCCESS && bad < 0 && i < w->vc->size; i++)
        bad = s->fact[i].error ? i : -1;
    if (bad >= 0)
        rc = report(w, bad, (int)s->fact[bad].error);
    if (rc == MPI_SUCCESS && s->head)
        atomic_store(&s->head->member[w->vc->rank].address, ftk_share_file_address(s->fd));
    return rc;
}

/* ---- in a set: the token, then the address of each rank -------------------------------- */

size_t ftk_win_shared_words(const struct ftk_win *w)
{
    return w->shared ? 1 + (size_t)w->vc->size : 0;
}

static void put_word(char *to, size_t i, uint64_t value)
{
    memcpy(to + i * sizeof value, &value, sizeof value);
}

static uint64_t word_at(const char *from, size_t i)
{
    uint64_t value;
    memcpy(&value, from + i * sizeof value, sizeof value);
    return value;
}

void ftk_win_shared_save(const struct ftk_win *w, char *to)
{
    const struct head *h = w->shared->head; /* no set is written in set-up */
    put_word(to, 0, h ? h->token : 0);
    for (int i = 0; i < w->vc->size; i++)
        put_word(to, 1 + (size_t)i, h ? atomic_load(&h->member[i].address) : 0);
}

/* ---- a restore ----------------------------------------------------------------------- */

/* All ranks have come to this stage of the restore; codes of ftkit.  A rank that cannot come begins
 * a repair, which the others notice.  At a start of the job it does not: but there all ranks have
 * agreed on the set before, and agree on the restore behind it. */
static int meet(const struct ftk_win *w, uint64_t stage)
{
    if (ftk_log.ctx->repair.pending == FTK_PENDING_LOAD)
        return FTKIT_OK;
    const struct timespec pause = { 0, 50000 };
    struct head *h = w->shared->head;
    if (!h) /* private memory, see above */
        return FTKIT_OK;
    const uint64_t goal = 2 * ((uint64_t)ftk_log.ctx->epoch + 1) + stage;
    atomic_store(&h->member[w->vc->rank].stage, goal);
    for (int i = 0; i < w->vc->size; i++)
        while (atomic_load(&h->member[i].stage) < goal) {
            if (ftk_detect_poll(ftk_log.ctx))
                return ftk_fail(FTKIT_ERR_PEER, "a rank failed while shared memory was restored");
            (void)nanosleep(&pause, NULL); /* a shorter sleep does no harm */
        }
    return FTKIT_OK;
}

/* A replacement maps the memory of the others. */
static int join(struct ftk_win *w, const char *words)
{
    struct ftk_win_shared *s = w->shared;
    int err = ENOENT;
    for (int i = 0; !s->head && i < w->vc->size; i++)
        err = open_file(s, word_at(words, 1 + (size_t)i), word_at(words, 0), s->memory);
    if (!s->head)
        return ftk_fail(FTKIT_ERR_LOST,
            "the shared memory of a window: no process of the line has it any more on this node "
            "(%s)",
            strerror(err));
    atomic_store(&s->head->member[w->vc->rank].address, ftk_share_file_address(s->fd));
    return FTKIT_OK;
}

bool ftk_win_shared_in_loop(const struct ftk_win *w)
{
    return w->shared && w->shared->in_loop;
}

int ftk_win_shared_missing(void)
{
    return ftk_fail(FTKIT_ERR_UNSUPPORTED,
        "the set has a window of MPI_Win_allocate_shared that this process does not have: make the "
        "window before ftkit_recover");
}

int ftk_win_shared_load(struct ftk_win *w, const char *words, const char *from, size_t bytes)
{
    int rc = FTKIT_OK;
    if (w->shared->in_loop) /* it is not the window of the set */
        return ftk_win_shared_missing();
    if (FTK_FAULT("win.join"))
        return ftk_fail(FTKIT_ERR_NOMEM, "shared memory of a window: injected");
    if (!w->shared->head && w->vc->size > 1)
        rc = join(w, words);
    if (rc == FTKIT_OK)
        rc = meet(w, 0);
    if (rc != FTKIT_OK)
        return rc;
    memcpy(w->base, from, bytes);
    (void)FTK_FAULT("win.back");
    return meet(w, 1);
}

/* ---- where the memory is --------------------------------------------------------------- */

char *ftk_win_shared_memory(const struct ftk_win *w, int rank)
{
    return w->shared->head ? w->shared->memory + before(w, rank) : NULL;
}

/* A rank, or MPI_PROC_NULL: the first rank that has memory. */
int ftk_win_shared_part(const struct ftk_win *w, int rank, MPI_Aint *size, int *unit, void *baseptr)
{
    const bool any = rank == MPI_PROC_NULL;
    if (!any && (rank < 0 || rank >= w->vc->size))
        return MPI_ERR_RANK;
    if (any)
        rank = 0;
    while (any && rank < w->vc->size && w->place[rank].size == 0)
        rank++;
    const bool none = rank == w->vc->size;
    *size = none ? 0 : (MPI_Aint)w->place[rank].size;
    *unit = none ? 0 : (int)w->place[rank].unit;
    *(void **)baseptr = *size == 0 ? NULL : w->shared->memory + before(w, rank);
    return MPI_SUCCESS;
}
