/* What the Fortran entry points of libftkit_mpi have in common: handles, marks such as
 * MPI_IN_PLACE, statuses and arrays of them, from Fortran to C and back.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Open MPI's own entry points go to PMPI_ functions, past a layer in C, and what marks a special
 * argument has another address in Fortran.  A program calls mpi_send_ with mpif.h and the
 * module mpi, and mpi_send_f08_ with mpi_f08; the arguments are the same, but for the last,
 * which may be missing.  Fortran's integers, logicals and C's ints are of one size here. */
#ifndef FTK_LOG_FORTRAN_H
#define FTK_LOG_FORTRAN_H

#include <dlfcn.h>
#include <mpi.h>
#include <mpif-c-constants-decl.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_calls.h"

/* NOLINTNEXTLINE(misc-redundant-expression): they are one type in this MPI */
_Static_assert(sizeof(MPI_Fint) == sizeof(int), "arrays of integers are passed as they are");

extern const struct ftk_mpi_calls *ftk_layer_calls; /* NULL: all go to the MPI */
extern unsigned long ftk_layer_fortran;             /* calls that have come by this way */
extern bool (*ftk_layer_frees)(void *base);         /* memory of ftkit (wrap.c) */
extern struct ftk_foreign ftk_layer_foreign;
int ftk_layer_keyval(struct ftk_keyval k); /* MPI_SUCCESS, MPI_ERR_NO_MEM */

#define FEW 32 /* handles that need no memory of the heap */

static inline void *f_buffer(void *p)
{
    if (OMPI_IS_FORTRAN_BOTTOM(p))
        return MPI_BOTTOM;
    return OMPI_IS_FORTRAN_IN_PLACE(p) ? MPI_IN_PLACE : p;
}

static inline int *f_weights(void *p)
{
    if (OMPI_IS_FORTRAN_UNWEIGHTED(p))
        return MPI_UNWEIGHTED;
    return OMPI_IS_FORTRAN_WEIGHTS_EMPTY(p) ? MPI_WEIGHTS_EMPTY : p;
}

/* A call may leave parts of it as they are. */
static inline void f_status_in(const MPI_Fint *from, MPI_Status *to)
{
    if (!OMPI_IS_FORTRAN_STATUS_IGNORE(from))
        (void)PMPI_Status_f2c(from, to); /* a copy: it has nothing to fail with */
}

static inline void f_status_out(MPI_Fint *to, const MPI_Status *from)
{
    if (!OMPI_IS_FORTRAN_STATUS_IGNORE(to))
        (void)PMPI_Status_c2f(from, to); /* a copy: it has nothing to fail with */
}

/* ---- without the log ----------------------------------------------------------------- */

/* A procedure behind the library: of the MPI, and of a tool that stands before the MPI there. */
struct f_next {
    const char *name; /* mpi_..._ */
    bool known;
    void (*own)(void);  /* NULL: the program is not in Fortran */
    void (*tool)(void); /* NULL: none */
};

#ifndef FTK_LAYER_STATIC
static inline const struct f_next *f_find(struct f_next *n)
{
    char name[64] = "p";
    if (__builtin_expect(n->known, 1))
        return n;
    strncat(name, n->name, sizeof name - 2);
    *(void **)&n->own = dlsym(RTLD_NEXT, name);
    *(void **)&n->tool = dlsym(RTLD_NEXT, n->name);
    if (n->tool == n->own)
        n->tool = NULL;
    n->known = n->own != NULL;
    return n;
}
#endif

/* A persistent request was made or freed.  Without memory for its place in the list the log takes
 * it for active. */
static inline void f_made(MPI_Fint request)
{
    (void)ftk_foreign_add(&ftk_layer_foreign, PMPI_Request_f2c(request));
}

static inline void f_freed(MPI_Fint request)
{
    ftk_foreign_remove(&ftk_layer_foreign, PMPI_Request_f2c(request));
}

/* ---- attributes that the MPI defines: in C a pointer to an int ------------------------- */

static inline bool f_defined_by_mpi(int key)
{
    return key == MPI_TAG_UB || key == MPI_HOST || key == MPI_IO || key == MPI_WTIME_IS_GLOBAL
           || key == MPI_UNIVERSE_SIZE || key == MPI_APPNUM || key == MPI_LASTUSEDCODE;
}

/* ---- arrays: n entries of the caller's, with copies in C; *rc: an error, or left alone --- */

struct f_requests {
    MPI_Fint *from;
    MPI_Request *c, few[FEW];
    int n;
};

static inline void f_requests_in(struct f_requests *a, int n, MPI_Fint *from, int *rc)
{
    a->from = from;
    a->n = n > 0 ? n : 0;
    a->c = n <= FEW ? a->few : malloc((size_t)n * sizeof *a->c);
    if (!a->c)
        *rc = MPI_ERR_NO_MEM;
    for (int i = 0; a->c && i < a->n; i++)
        a->c[i] = ftk_layer_calls->Request_f2c(from[i]);
}

static inline void f_requests_out(struct f_requests *a)
{
    for (int i = 0; a->c && i < a->n; i++)
        a->from[i] = ftk_layer_calls->Request_c2f(a->c[i]);
    if (a->c != a->few)
        free(a->c);
}

struct f_statuses {
    MPI_Fint *to; /* [n][MPI_F_STATUS_SIZE] */
    MPI_Status *c, few[FEW];
};

static inline void f_statuses_in(struct f_statuses *a, int n, MPI_Fint *to, int *rc)
{
    a->to = to;
    a->c = MPI_STATUSES_IGNORE;
    if (OMPI_IS_FORTRAN_STATUSES_IGNORE(to))
        return;
    a->c = n <= FEW ? a->few : malloc((size_t)n * sizeof *a->c);
    if (!a->c)
        *rc = MPI_ERR_NO_MEM;
}

/* n of them are set. */
static inline void f_statuses_out(struct f_statuses *a, int n)
{
    if (a->c == MPI_STATUSES_IGNORE)
        return;
    for (int i = 0; a->c && i < n; i++)
        (void)PMPI_Status_c2f(&a->c[i], a->to + (size_t)i * MPI_F_STATUS_SIZE);
    if (a->c != a->few)
        free(a->c);
}

struct f_types {
    MPI_Datatype *c, few[FEW];
};

/* buf is MPI_IN_PLACE: they are not looked at. */
static inline void f_types_in(struct f_types *a, int n, const MPI_Fint *from, void *buf, int *rc)
{
    a->c = a->few;
    if (f_buffer(buf) == MPI_IN_PLACE)
        return;
    if (n > FEW)
        a->c = malloc((size_t)n * sizeof *a->c);
    if (!a->c)
        *rc = MPI_ERR_NO_MEM;
    for (int i = 0; a->c && i < n; i++)
        a->c[i] = PMPI_Type_f2c(from[i]);
}

static inline void f_types_out(struct f_types *a)
{
    if (a->c != a->few)
        free(a->c);
}

/* ---- counts and indices -------------------------------------------------------------- */

static inline int f_count(int n)
{
    return n == MPI_UNDEFINED ? 0 : n;
}

/* From 0 in C, from 1 in Fortran. */
static inline void f_indices_out(int n, MPI_Fint *indices)
{
    for (int i = 0; i < n; i++)
        indices[i]++;
}

static inline void f_index_out(MPI_Fint *index)
{
    if (*index != MPI_UNDEFINED)
        ++*index;
}

/* Types that a call of the w family has on its sides: of all ranks, or of neighbours. */
static inline void f_ranks(MPI_Comm comm, int *sends, int *recvs, int *rc)
{
    int inter = 0;
    *sends = 0;
    *rc = ftk_layer_calls->Comm_test_inter(comm, &inter);
    if (*rc == MPI_SUCCESS)
        *rc = inter ? ftk_layer_calls->Comm_remote_size(comm, sends)
                    : ftk_layer_calls->Comm_size(comm, sends);
    *recvs = *sends;
}

static inline void f_neighbors(MPI_Comm comm, int *sends, int *recvs, int *rc)
{
    int how = MPI_UNDEFINED, rank, weighted;
    *sends = *recvs = 0;
    *rc = ftk_layer_calls->Topo_test(comm, &how);
    if (*rc == MPI_SUCCESS && how == MPI_CART) {
        *rc = ftk_layer_calls->Cartdim_get(comm, sends);
        *recvs = *sends *= 2;
    } else if (*rc == MPI_SUCCESS && how == MPI_GRAPH) {
        *rc = ftk_layer_calls->Comm_rank(comm, &rank);
        if (*rc == MPI_SUCCESS)
            *rc = ftk_layer_calls->Graph_neighbors_count(comm, rank, sends);
        *recvs = *sends;
    } else if (*rc == MPI_SUCCESS && how == MPI_DIST_GRAPH) {
        *rc = ftk_layer_calls->Dist_graph_neighbors_count(comm, recvs, sends, &weighted);
    }
}

/* ---- MPI_Comm_idup: its result comes when its request is complete -------------------- */

struct f_idup {
    struct f_idup *next;
    MPI_Comm comm; /* MPI_COMM_NULL until then */
    MPI_Fint *to;
};

extern struct f_idup *ftk_layer_idups;
void ftk_layer_look_at_idups(void);

static inline struct f_idup *f_idup_in(MPI_Fint *to, int *rc)
{
    struct f_idup *d = malloc(sizeof *d);
    *to = PMPI_Comm_c2f(MPI_COMM_NULL);
    if (d)
        *d = (struct f_idup){ NULL, MPI_COMM_NULL, to };
    else
        *rc = MPI_ERR_NO_MEM;
    return d;
}

/* rc: of the call, of which nothing comes when it has failed */
static inline void f_idup_out(struct f_idup *d, int rc)
{
    if (rc != MPI_SUCCESS) {
        free(d);
        return;
    }
    d->next = ftk_layer_idups;
    ftk_layer_idups = d;
}

/* After every call that may have completed a request. */
static inline void f_idups_out(void)
{
    if (__builtin_expect(ftk_layer_idups != NULL, 0))
        ftk_layer_look_at_idups();
}

#endif
