/* Persistent requests of the MPI: those of communicators that the log does not own.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_Waitany and its kin pass over inactive requests.  The MPI does not say whether one of its
 * requests is inactive or complete, so libftkit_mpi keeps a list of those that can be inactive,
 * also before the log is on, and the log keeps their states. */
#ifndef FTK_LOG_FOREIGN_H
#define FTK_LOG_FOREIGN_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

enum ftk_foreign_state {
    FTK_FOREIGN_UNKNOWN, /* the log was off when it was made or started */
    FTK_FOREIGN_INACTIVE,
    FTK_FOREIGN_ACTIVE,
    FTK_FOREIGN_TAKEN /* active for the program; the MPI has reported its completion to the log */
};

struct ftk_foreign_request {
    MPI_Request request; /* MPI_REQUEST_NULL: the place is free */
    enum ftk_foreign_state state;
    int error;         /* TAKEN */
    MPI_Status status; /* TAKEN */
};

/* A hash table with linear probing; it is at most half full. */
struct ftk_foreign {
    struct ftk_foreign_request *at; /* [room] room: a power of 2, or 0 */
    size_t room, n;
};

static inline size_t ftk_foreign_home(const struct ftk_foreign *f, MPI_Request request)
{
    return (size_t)((uint64_t)(uintptr_t)request * UINT64_C(0x9e3779b97f4a7c15) >> 20)
           & (f->room - 1);
}

/* NULL: it is not in the list. */
static inline struct ftk_foreign_request *ftk_foreign_find(
    const struct ftk_foreign *f, MPI_Request request)
{
    if (f->n == 0)
        return NULL;
    for (size_t i = ftk_foreign_home(f, request);; i = (i + 1) & (f->room - 1)) {
        if (f->at[i].request == request)
            return &f->at[i];
        if (f->at[i].request == MPI_REQUEST_NULL)
            return NULL;
    }
}

static inline void ftk_foreign_place(struct ftk_foreign *f, const struct ftk_foreign_request *r)
{
    size_t i = ftk_foreign_home(f, r->request);
    while (f->at[i].request != MPI_REQUEST_NULL)
        i = (i + 1) & (f->room - 1);
    f->at[i] = *r;
}

static inline int ftk_foreign_grow(struct ftk_foreign *f)
{
    struct ftk_foreign more = { NULL, f->room > 0 ? 2 * f->room : 64, f->n };
    more.at = malloc(more.room * sizeof *more.at);
    if (!more.at)
        return MPI_ERR_NO_MEM;
    for (size_t i = 0; i < more.room; i++)
        more.at[i].request = MPI_REQUEST_NULL;
    for (size_t i = 0; i < f->room; i++)
        if (f->at[i].request != MPI_REQUEST_NULL)
            ftk_foreign_place(&more, &f->at[i]);
    free(f->at);
    *f = more;
    return MPI_SUCCESS;
}

/* A persistent request was made.  MPI_SUCCESS, MPI_ERR_NO_MEM. */
static inline int ftk_foreign_add(struct ftk_foreign *f, MPI_Request request)
{
    if (request == MPI_REQUEST_NULL || ftk_foreign_find(f, request))
        return MPI_SUCCESS;
    if (2 * (f->n + 1) > f->room && ftk_foreign_grow(f) != MPI_SUCCESS)
        return MPI_ERR_NO_MEM;
    const struct ftk_foreign_request r = { .request = request, .state = FTK_FOREIGN_UNKNOWN };
    ftk_foreign_place(f, &r);
    f->n++;
    return MPI_SUCCESS;
}

/* A request will be freed; it need not be in the list. */
static inline void ftk_foreign_remove(struct ftk_foreign *f, MPI_Request request)
{
    struct ftk_foreign_request *r = ftk_foreign_find(f, request);
    if (!r || request == MPI_REQUEST_NULL)
        return;
    r->request = MPI_REQUEST_NULL;
    f->n--;
    /* those behind it, up to a free place, may have their home before it */
    for (size_t i = (size_t)(r - f->at + 1) & (f->room - 1); f->at[i].request != MPI_REQUEST_NULL;
         i = (i + 1) & (f->room - 1)) {
        const struct ftk_foreign_request moved = f->at[i];
        f->at[i].request = MPI_REQUEST_NULL;
        ftk_foreign_place(f, &moved);
    }
}

/* ---- the log's side: request/foreign.c ------------------------------------------------- */

/* The MPI has made a persistent request, with the code rc.  rc, or MPI_ERR_NO_MEM. */
int ftk_foreign_made(int rc, const MPI_Request *request);
/* Whether a request of the MPI is active.  Not MPI_REQUEST_NULL. */
bool ftk_foreign_is_active(MPI_Request h);
/* The calls of MPI for a request of the MPI; after an error of ftk_foreign_test() *done is 1. */
int ftk_foreign_test(MPI_Request *h, int *done, MPI_Status *status);
int ftk_foreign_wait(MPI_Request *h, MPI_Status *status);
int ftk_foreign_get_status(MPI_Request h, int *done, MPI_Status *status);
int ftk_foreign_start(MPI_Request *h);
int ftk_foreign_free(MPI_Request *h);

#endif
