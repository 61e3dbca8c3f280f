/* OpenSHMEM over ftkit: what the files of this folder share (docs/design/shmem.md).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The binding is a program of ftkit.h and of MPI with the message log.  Each kind of symmetric
 * memory has a window, on which all PEs hold MPI_Win_lock_all from the end of shmem_init() on. */
#ifndef FTK_SHMEM_OWN_H
#define FTK_SHMEM_OWN_H

#include <ftkit.h>
#include <stdbool.h>

#include "shmem.h"

/* Symmetric memory has the same addresses on all PEs. */
struct ftk_shmem_segment {
    char *base;
    size_t bytes;
    MPI_Win win;
};
enum { FTK_SHMEM_HEAP, FTK_SHMEM_GLOBALS, FTK_SHMEM_SEGMENTS };

struct ftk_shmem {
    ftkit_ctx *ft; /* NULL: not between shmem_init() and shmem_finalize() */
    MPI_Comm comm;
    int me, n;
    struct ftk_shmem_segment seg[FTK_SHMEM_SEGMENTS];
    bool *open[FTK_SHMEM_SEGMENTS]; /* [n] operations on this PE may not be complete */
    bool any_open[FTK_SHMEM_SEGMENTS];
    bool fenced;   /* since shmem_fence(), and no shmem_quiet() since */
    bool begins;   /* the program sets up its data */
    bool restored; /* ... or has got them in shmem_init(); shmem_checkpoint_all() will say so */
    bool is_new;   /* this process is a substitute since the last set */
    bool *lost;    /* [n] that shmem_query_fault() has reported last */
};
extern struct ftk_shmem ftk_shmem;

/* ---- setup.c --------------------------------------------------------------------------- */

/* The job ends with a line.  While a failure is known, only this process does. */
_Noreturn void ftk_shmem_end(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Whether a call can do its work.  False: a PE is lost, or this PE is a substitute that has not
 * called shmem_checkpoint_all() yet.  The job ends when the library is not open. */
bool ftk_shmem_ready(const char *call);
/* The program has made a mistake: the job ends with a line.  False: a PE is lost, and the arguments
 * may come from data that this PE has not sent. */
bool ftk_shmem_mistake(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Whether MPI has done what the call wanted.  A failure is no error: the PE goes on to
 * shmem_checkpoint_all(). */
bool ftk_shmem_done(const char *call, int rc);
/* The job is asked to stop, and its work is in the last set: end this process. */
_Noreturn void ftk_shmem_halt(void);
/* All windows in which MPI_Win_lock_all holds; false: a PE is lost. */
bool ftk_shmem_lock_windows(void);

/* ---- environment.c ---------------------------------------------------------------------- */

enum { FTK_SHMEM_VARIABLE_BYTES = 32 };
/* The value of SHMEM_<what>, or of SMA_<what>, its name before 1.4; NULL: neither is set.
 * name: the one that was looked at last. */
const char *ftk_shmem_variable(const char *what, char (*name)[FTK_SHMEM_VARIABLE_BYTES]);
/* Before MPI begins: SHMEM_FT_BACKUP_MODE sets a key of ftkit, if the environment does not. */
void ftk_shmem_choose_backup(void);
/* PE 0 prints what SHMEM_VERSION and SHMEM_INFO ask for, and what takes the place of a mode of
 * SHMEM_FT_BACKUP_MODE. */
void ftk_shmem_describe(void);

/* ---- heap.c ---------------------------------------------------------------------------- */

/* Reserve the memory; its size is that of SHMEM_SYMMETRIC_SIZE. */
void ftk_shmem_heap_open(void);
/* Register what is in use. */
int ftk_shmem_heap_register(ftkit_ctx *ft);
/* Whether shmem_checkpoint_all() has written a set: the memory itself says that. */
bool ftk_shmem_heap_saved(void);
void ftk_shmem_heap_set_saved(void);
/* A bit for each context.  They are in the memory, so a set has the contexts of its moment. */
enum { FTK_SHMEM_CONTEXTS = 384 };
uint64_t *ftk_shmem_heap_contexts(void);
void ftk_shmem_heap_close(void);

/* ---- globals.c ------------------------------------------------------------------------- */

/* Find the variables of the program. */
void ftk_shmem_globals_open(void);
int ftk_shmem_globals_register(ftkit_ctx *ft);

/* ---- rma.c ----------------------------------------------------------------------------- */

struct ftk_shmem_place {
    int segment, pe;
    MPI_Aint at;
};
/* Where an object of another PE is, by the own address.  False: this PE can do nothing now.  An
 * address that is not symmetric, or an unknown PE, is a mistake. */
bool ftk_shmem_find(
    const char *call, const void *addr, size_t bytes, int pe, struct ftk_shmem_place *p);
static inline MPI_Win ftk_shmem_win(const struct ftk_shmem_place *p)
{
    return ftk_shmem.seg[p->segment].win;
}
/* An operation on the place has begun. */
void ftk_shmem_begun(const struct ftk_shmem_place *p);
/* All operations on the place are complete. */
bool ftk_shmem_flush(const char *call, const struct ftk_shmem_place *p);
/* No operation is under way: all are complete, or a rollback has ended them. */
void ftk_shmem_none_open(void);
/* All operations on all places; false: a PE is lost. */
bool ftk_shmem_flush_all(const char *call);
/* One look at operations of other PEs on this one; false: a PE is lost. */
bool ftk_shmem_look(const char *call);

/* ---- context.c ------------------------------------------------------------------------- */

bool ftk_shmem_context_is_open(const char *call, shmem_ctx_t ctx);
/* Whether there is such a context.  Another one is a mistake. */
static inline bool ftk_shmem_context(const char *call, shmem_ctx_t ctx)
{
    return ctx == SHMEM_CTX_DEFAULT || ftk_shmem_context_is_open(call, ctx);
}

/* ---- atomic.c -------------------------------------------------------------------------- */

/* MPI_Fetch_and_op on an object; old == NULL: without the old value. */
void ftk_shmem_combine(const char *call, void *dest, const void *value, void *old,
    MPI_Datatype type, MPI_Op op, int pe);

/* ---- sets.c ---------------------------------------------------------------------------- */

/* An active set of PEs. */
struct ftk_shmem_set {
    int start, stride, size, rank; /* rank: of this PE in it */
};
/* False: this PE can do nothing now.  A set that has not this PE is a mistake. */
bool ftk_shmem_set(
    const char *call, int start, int log_stride, int size, struct ftk_shmem_set *set);
static inline int ftk_shmem_pe(const struct ftk_shmem_set *s, int rank)
{
    return s->start + rank * s->stride;
}
/* Each of these returns a code of MPI. */
int ftk_shmem_meet(const struct ftk_shmem_set *s);
int ftk_shmem_broadcast(const struct ftk_shmem_set *s, int root, void *data, size_t bytes);
int ftk_shmem_gather(const struct ftk_shmem_set *s, const void *mine, size_t bytes, void *all);
int ftk_shmem_exchange(const struct ftk_shmem_set *s, const void *from, size_t bytes, void *to);
int ftk_shmem_reduce(
    const struct ftk_shmem_set *s, void *data, int count, MPI_Datatype type, MPI_Op op);

#endif
