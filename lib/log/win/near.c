/* Memory that the ranks of a node map from each other.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Each rank has the memory of its part of MPI_Win_allocate in a file of its own (share_file.h).
 * Before the memory are words that the ranks of the node use together (head).  A window of
 * MPI_Win_create has these words alone in its file; they say where the memory is, if it is of
 * MPI_Alloc_mem (alloc.c).  So has a window of MPI_Win_allocate_shared, whose memory all ranks have
 * mapped already (share.c).  An origin asks a target by a message for this file, and maps it when
 * the answer comes:
 *
 *     origin                       target
 *     ASK window         --->
 *                        <---      OFFER window, address and token of the file
 *
 * Until then, and in epochs that the target has not begun, operations go into the queue.
 *
 * A target answers only while it does the operations of messages.  So an origin has the memory at
 * times only at which its messages could change the memory, too: never while the target writes its
 * set, nor before the target has restored its memory.  A rollback makes all origins forget what
 * they have mapped, and ask again: the new process of a lost rank has another file, or is on
 * another node.
 *
 * Functions that return int return MPI codes. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/memfd.h"
#include "log/win/alloc.h"
#include "log/win/near.h"
#include "log/win/share_file.h"
#include "log/win/word.h"

/* At the begin of the file of a rank. */
struct head {
    uint64_t token;            /* distinguishes this file from others */
    _Atomic uint32_t busy;     /* the process that combines elements of the memory; 0: none */
    _Atomic uint32_t fences;   /* so many fences are over at the rank */
    struct ftk_win_spot spot;  /* of MPI_Win_create: where the memory is */
    _Atomic uint64_t words[2]; /* of meetings (meet.c) */
    _Atomic uint32_t posts[];  /* of MPI_Win_post, by origin */
};

/* A part of a file of another rank.  Without the file, bytes > 0: the addresses are kept. */
struct part {
    char *at;
    size_t bytes;
};

/* Another rank, as this origin knows it. */
struct peer {
    enum { UNKNOWN, ASKED, NONE, MAPPED } state;
    struct head *head;                            /* MAPPED */
    char *memory;                                 /* MAPPED */
    struct part head_part, memory_part;           /* memory_part: of MPI_Win_create */
    bool shown;                                   /* the program has the address of the memory */
    uint32_t starts;                              /* of MPI_Win_start with this target */
    enum { CLOSED, HAS_GIVEN, HAS_FETCHED } open; /* direct operations since the last flush */
};

struct ftk_win_near {
    int n, fd;
    uint32_t pid; /* of this process */
    size_t head_bytes;
    struct head *head; /* of the own file; NULL: there is none */
    uint32_t fences;
    uint64_t meetings; /* 0: there is no agreement on words */
    enum {
        COUNTED,
        ALL_IN,   /* all ranks are in the last fence, and have no operations to apply */
        UNCOUNTED /* a fence had an error before its end: others may have counted it */
    } last;
    struct ftk_win_looks looks;
    struct peer peer[]; /* [n] */
};

/* ---- sizes --------------------------------------------------------------------------- */

static size_t pages(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

static size_t head_bytes(int n)
{
    return pages(sizeof(struct head) + (size_t)n * sizeof(uint32_t));
}

/* ---- the own file -------------------------------------------------------------------- */

/* 0 or errno. */
static int map_file(int fd, size_t bytes, struct head **head)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return errno;
    *head = p;
    return 0;
}

/* A window of MPI_Win_allocate_shared needs a descriptor for its memory, too.  So files that are
 * not needed end at a quarter of the descriptors. */
static bool may_stay(const struct ftk_win *w, int fd)
{
    return ftk_share_file_may_stay(w->shared ? 2 * fd : fd);
}

/* Without a file other ranks send messages. */
static void make_file(struct ftk_win *w, size_t bytes)
{
    struct ftk_win_near *d = w->near;
    int err = FTK_FAULT("win.file");
    if (!err)
        err = ftk_share_file_make_sparse(bytes, ftk_share_file_token(w->id), &d->fd);
    if (!err && (!may_stay(w, d->fd) || map_file(d->fd, bytes, &d->head) != 0)) {
        (void)close(d->fd); /* nothing was written by it */
        d->fd = -1;
    }
}

static int make_handle(struct ftk_win *w, size_t bytes, const struct ftk_win_making *a)
{
    struct ftk_win_near *d = w->near;
    if (a->how == FTK_WIN_ALLOCATED)
        w->base = (char *)d->head + d->head_bytes;
    int rc = PMPI_Win_create(w->base, a->size, a->unit, a->info, MPI_COMM_SELF, &w->handle);
    if (rc == MPI_SUCCESS)
        rc = ftk_win_hold(w->handle, d->head, bytes);
    if (rc != MPI_SUCCESS) {
        (void)munmap(d->head, bytes); /* an error leaks the mapping */
        d->head = NULL;
    }
    return rc;
}

static int make_without(struct ftk_win *w, const struct ftk_win_making *a)
{
    return a->how == FTK_WIN_ALLOCATED
               ? PMPI_Win_allocate(a->size, a->unit, a->info, MPI_COMM_SELF, &w->base, &w->handle)
               : PMPI_Win_create(w->base, a->size, a->unit, a->info, MPI_COMM_SELF, &w->handle);
}

static int open_near(struct ftk_win *w, int n)
{
    struct ftk_win_near *d = calloc(1, sizeof *d + (size_t)n * sizeof d->peer[0]);
    if (!d)
        return MPI_ERR_NO_MEM;
    d->n = n;
    d->head_bytes = head_bytes(n);
    d->pid = (uint32_t)getpid();
    d->fd = -1;
    w->near = d;
    return MPI_SUCCESS;
}

int ftk_win_near_make(struct ftk_win *w, int n, const struct ftk_win_making *a, bool may_map)
{
    const bool is_own = a->how == FTK_WIN_ALLOCATED;
    const size_t bytes = head_bytes(n) + (is_own ? pages((size_t)a->size) : 0);
    struct ftk_win_spot spot = { 0 };
    if (may_map && n > 1 && a->size < FTK_FAR) {
        const int rc = open_near(w, n);
        if (rc != MPI_SUCCESS)
            return rc;
        if (a->size > 0 && (is_own || ftk_win_spot_of(w->base, (size_t)a->size, &spot)))
            make_file(w, bytes);
    }
    if (!ftk_win_near_has_file(w))
        return make_without(w, a);
    w->near->head->spot = spot;
    return make_handle(w, bytes, a);
}

int ftk_win_near_make_words(struct ftk_win *w, int n, const struct ftk_win_making *a)
{
    if (n == 1)
        return MPI_SUCCESS;
    const int rc = open_near(w, n);
    if (rc == MPI_SUCCESS && a->size > 0)
        make_file(w, head_bytes(n));
    return rc;
}

bool ftk_win_near_has_file(const struct ftk_win *w)
{
    return w->near && w->near->head;
}

/* Whether the file of a rank has the memory of its part, too. */
static bool files_have_memory(const struct ftk_win *w)
{
    return w->allocated && !w->shared;
}

void ftk_win_near_copy(const struct ftk_win *w, char *to, size_t bytes)
{
    if (ftk_win_near_has_file(w) && files_have_memory(w))
        ftk_memfd_copy(w->near->fd, w->near->head_bytes, w->base, to, bytes);
    else
        memcpy(to, w->base, bytes);
}

/* ---- files of other ranks ------------------------------------------------------------ */

/* A process has 65530 mappings, also for its malloc(), for threads and for the MPI
 * (vm.max_map_count). */
enum { MAPPINGS_MOST = 8192 };
static int mappings; /* of other ranks, of all windows */

static size_t bytes_of(const struct ftk_win *w, int rank)
{
    return w->near->head_bytes + (files_have_memory(w) ? pages((size_t)w->place[rank].size) : 0);
}

/* The memory is that of another process: a core of this one, and a child of fork(), do not get it.
 * With an error they do. */
static void keep_apart(const struct part *p)
{
    (void)madvise(p->at, p->bytes, MADV_DONTDUMP);
    (void)madvise(p->at, p->bytes, MADV_DONTFORK);
}

/* Forget the addresses. */
static void unmap(struct part *p)
{
    if (p->bytes > 0)
        (void)munmap(p->at, p->bytes); /* an error leaks the mapping */
    *p = (struct part){ 0 };
}

/* Map bytes of a file, at the addresses that are kept.  Not when their number is another one: the
 * program may still have these addresses, so no other memory may come to them. */
static bool map_part(struct part *p, int fd, size_t at, size_t bytes)
{
    if (p->bytes > 0 && p->bytes != bytes)
        return false;
    void *to = mmap(
        p->at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (p->at ? MAP_FIXED : 0), fd, (off_t)at);
    if (to == MAP_FAILED) {
        unmap(p); /* the kernel may have done so */
        return false;
    }
    *p = (struct part){ to, bytes };
    keep_apart(p);
    return true;
}

static bool replace(const struct part *p, int access)
{
    return mmap(p->at, p->bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
               -1, 0)
           != MAP_FAILED;
}

/* The file goes, and the addresses stay, without access or with memory of this process alone.
 * Where the kernel gives no memory, a use of the addresses is a signal. */
static void keep_addresses(struct part *p, int access)
{
    if (p->bytes > 0 && !replace(p, access) && !replace(p, PROT_NONE))
        unmap(p);
}

/* What comes to the addresses that the program has.  In a rollback: the program is still in the
 * step that the failure has interrupted; its stores go nowhere.  Behind it: the program has to ask
 * again; a use ends in a signal, and never in other memory. */
enum after { NOTHING, OWN_MEMORY, A_SIGNAL };

static void let_go(struct ftk_win *w, int rank, enum after after)
{
    struct peer *p = &w->near->peer[rank];
    struct part *const both[] = { &p->head_part, &p->memory_part };
    if (p->state == MAPPED)
        mappings--;
    for (int i = 0; i < 2; i++) {
        if (p->shown && after != NOTHING)
            keep_addresses(both[i], after == OWN_MEMORY ? PROT_READ | PROT_WRITE : PROT_NONE);
        else
            unmap(both[i]);
    }
    *p = (struct peer){ .state = UNKNOWN,
        .head_part = p->head_part,
        .memory_part = p->memory_part,
        .shown = p->shown };
}

/* Where this rank has private memory in place of the shared one, no other rank may store. */
uint64_t ftk_win_near_address(const struct ftk_win *w, uint64_t *token)
{
    const struct ftk_win_near *d = w->near;
    const bool has =
        ftk_win_near_has_file(w) && (!w->shared || ftk_win_shared_memory(w, w->vc->rank));
    *token = has ? d->head->token : 0;
    return has ? ftk_share_file_address(d->fd) : 0;
}

/* Map the memory that the head of a window of MPI_Win_create names. */
static bool map_spot(struct ftk_win *w, int rank)
{
    struct peer *p = &w->near->peer[rank];
    const struct ftk_win_spot spot = p->head->spot;
    const size_t size = (size_t)w->place[rank].size, first = spot.at / pages(1) * pages(1);
    int fd = -1;
    if (spot.at > spot.file_bytes || size > spot.file_bytes - spot.at
        || ftk_share_file_open(spot.address, spot.file_bytes, spot.token, &fd) != 0)
        return false;
    const bool has = map_part(&p->memory_part, fd, first, pages(spot.at - first + size));
    (void)close(fd); /* nothing was written by it; the mapping has the file */
    p->memory = has ? p->memory_part.at + (spot.at - first) : NULL;
    return has;
}

static bool map_peer(struct ftk_win *w, int rank, int fd)
{
    struct peer *p = &w->near->peer[rank];
    if (!map_part(&p->head_part, fd, 0, bytes_of(w, rank)))
        return false;
    p->head = (struct head *)(void *)p->head_part.at;
    if (w->shared)
        p->memory = ftk_win_shared_memory(w, rank);
    else if (w->allocated)
        p->memory = p->head_part.at + w->near->head_bytes;
    else
        return map_spot(w, rank);
    return p->memory != NULL;
}

/* A target without memory for this rank stays one whose operations are messages. */
void ftk_win_near_offered(struct ftk_win *w, int rank, uint64_t address, uint64_t token)
{
    struct peer *p = w->near ? &w->near->peer[rank] : NULL;
    int fd = -1;
    if (!p || p->state != ASKED)
        return;
    p->state = NONE;
    if (mappings >= MAPPINGS_MOST || FTK_FAULT("win.map")
        || ftk_share_file_open(address, bytes_of(w, rank), token, &fd) != 0)
        return;
    if (map_peer(w, rank, fd)) {
        p->state = MAPPED;
        mappings++;
    }
    (void)close(fd); /* as above */
}

static bool is_near(const struct ftk_win *w, int rank)
{
    const int world = ftk_vcomm_world(w->vc, rank);
    return w->place[rank].size > 0 && ftk_log.node[world] == ftk_log.node[ftk_log.me];
}

static struct head *head_of(const struct ftk_win *w, int rank)
{
    const struct peer *p = &w->near->peer[rank];
    if (rank == w->vc->rank)
        return w->near->head;
    return p->state == MAPPED ? p->head : NULL;
}

char *ftk_win_near_memory(const struct ftk_win *w, int rank)
{
    if (!w->near)
        return NULL;
    if (rank == w->vc->rank)
        return w->near->head ? w->base : NULL;
    return w->near->peer[rank].state == MAPPED ? w->near->peer[rank].memory : NULL;
}

bool ftk_win_near_is_asked(const struct ftk_win *w, int rank)
{
    return w->near->peer[rank].state == ASKED;
}

void ftk_win_near_show(struct ftk_win *w, int rank)
{
    w->near->peer[rank].shown = true;
}

bool ftk_win_near_may_ask(const struct ftk_win *w, int rank)
{
    return w->near && rank != w->vc->rank && w->near->peer[rank].state == UNKNOWN
           && is_near(w, rank);
}

void ftk_win_near_asked(struct ftk_win *w, int rank)
{
    w->near->peer[rank].state = ASKED;
}

/* ---- the life of a window ------------------------------------------------------------ */

static void let_all_go(struct ftk_win *w, enum after after)
{
    for (int i = 0; w->near && i < w->near->n; i++)
        let_go(w, i, after);
}

void ftk_win_near_let_go(struct ftk_win *w)
{
    let_all_go(w, OWN_MEMORY);
}

void ftk_win_near_forget(struct ftk_win *w)
{
    struct ftk_win_near *d = w->near;
    let_all_go(w, A_SIGNAL);
    for (int i = 0; d && d->head && i < d->n; i++)
        atomic_store(&d->head->posts[i], 0);
    if (!d)
        return;
    d->fences = 0;
    d->meetings = 0;
    d->last = COUNTED;
    if (!d->head)
        return;
    atomic_store(&d->head->fences, 0);
    atomic_store(&d->head->words[0], 0);
    atomic_store(&d->head->words[1], 0);
    atomic_store(&d->head->busy, 0); /* the rank that had it may be lost */
}

void ftk_win_near_free(struct ftk_win *w)
{
    struct ftk_win_near *d = w->near;
    let_all_go(w, NOTHING);
    if (d && d->head && w->shared)
        (void)munmap(d->head, d->head_bytes); /* an error leaks the mapping */
    if (d && d->fd >= 0)
        (void)close(d->fd); /* of other windows the handle has the mapping */
    free(d);
    w->near = NULL;
}

/* ---- combining ----------------------------------------------------------------------- */

bool ftk_win_near_lock(const struct ftk_win *w, int rank)
{
    struct head *h = w->near ? head_of(w, rank) : NULL;
    if (!h)
        return true;
    const bool has = ftk_win_word_take(&h->busy, w->near->pid);
    if (has)
        (void)FTK_FAULT("win.word");
    return has;
}

void ftk_win_near_unlock(const struct ftk_win *w, int rank)
{
    struct head *h = w->near ? head_of(w, rank) : NULL;
    if (h)
        atomic_store_explicit(&h->busy, 0, memory_order_release);
}

/* ---- epochs -------------------------------------------------------------------------- */

enum ftk_win_look ftk_win_near_looks(struct ftk_win *w)
{
    atomic_thread_fence(memory_order_seq_cst);
    return w->near ? ftk_win_look_due(&w->near->looks) : FTK_WIN_LOOK;
}

void ftk_win_near_opened(struct ftk_win *w, int rank, bool fetches)
{
    struct peer *p = &w->near->peer[rank];
    if (p->open != HAS_FETCHED)
        p->open = fetches ? HAS_FETCHED : HAS_GIVEN;
}

void ftk_win_near_flushed(struct ftk_win *w, int rank)
{
    if (w->near)
        w->near->peer[rank].open = CLOSED;
}

bool ftk_win_near_is_open(const struct ftk_win *w, int rank)
{
    return w->near && w->near->peer[rank].open != CLOSED;
}

bool ftk_win_near_has_fetched(const struct ftk_win *w, int rank)
{
    return w->near && w->near->peer[rank].open == HAS_FETCHED;
}

void ftk_win_near_fenced(struct ftk_win *w, bool all_in)
{
    struct ftk_win_near *d = w->near;
    if (!d || d->last == UNCOUNTED)
        return;
    d->fences++;
    d->last = all_in ? ALL_IN : COUNTED;
    if (d->head)
        atomic_store_explicit(&d->head->fences, d->fences, memory_order_release);
}

_Atomic uint64_t *ftk_win_near_words(const struct ftk_win *w, int rank)
{
    struct head *h = w->near ? head_of(w, rank) : NULL;
    return h ? h->words : NULL;
}

uint64_t *ftk_win_near_meetings(const struct ftk_win *w)
{
    return &w->near->meetings;
}

void ftk_win_near_uncounted(struct ftk_win *w)
{
    if (w->near)
        w->near->last = UNCOUNTED;
}

void ftk_win_near_posted(struct ftk_win *w, int origin)
{
    if (ftk_win_near_has_file(w))
        (void)atomic_fetch_add_explicit(&w->near->head->posts[origin], 1, memory_order_release);
}

void ftk_win_near_started(struct ftk_win *w, int target)
{
    if (w->near)
        w->near->peer[target].starts++;
}

/* Whether a count of the target is not behind that of this origin. */
static bool has_come(const _Atomic uint32_t *theirs, uint32_t ours)
{
    return atomic_load_explicit(theirs, memory_order_acquire) - ours <= INT32_MAX;
}

bool ftk_win_near_is_fenced(const struct ftk_win *w, int rank)
{
    const struct head *h = head_of(w, rank);
    return w->near->last == ALL_IN
           || (w->near->last == COUNTED && has_come(&h->fences, w->near->fences));
}

bool ftk_win_near_has_posted(const struct ftk_win *w, int rank)
{
    const struct head *h = head_of(w, rank);
    return has_come(&h->posts[w->vc->rank], w->near->peer[rank].starts);
}
