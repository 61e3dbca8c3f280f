/* Collectives: schedules as objects; operations and types that they hold.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "core/grow.h"
#include "log/base/dtype.h"
#include "log/coll/build.h"

#define FREE_MAX 16 /* unused objects for the next collectives */

static struct ftk_coll *free_list;
static int nfree;

struct held {
    uintptr_t handle;
    size_t users;
    bool freed;
};

/* ---- what the program may free while a collective needs it ------------------------------
 * Operations, because MPI cannot duplicate them, and the type that an operation of the program
 * gets as an argument. */

static struct holds {
    struct held *at;
    size_t n, room;
} ops, types;

static struct held *held(const struct holds *all, uintptr_t handle)
{
    for (size_t i = 0; i < all->n; i++)
        if (all->at[i].handle == handle)
            return &all->at[i];
    return NULL;
}

static bool hold_handle(struct holds *all, uintptr_t handle)
{
    struct held *h = held(all, handle);
    if (!h && !ftk_grow(&all->at, &all->room, all->n + 1, sizeof *all->at))
        return false;
    if (!h) {
        h = &all->at[all->n++];
        *h = (struct held){ .handle = handle };
    }
    h->users++;
    return true;
}

/* Release the object.  true: the program has freed the object, and this was the last holder. */
static bool let_go(struct holds *all, uintptr_t handle)
{
    struct held *h = held(all, handle);
    if (!h || --h->users > 0)
        return false;
    bool freed = h->freed;
    *h = all->at[--all->n];
    return freed;
}

/* Whether the object is held.  Then its last holder frees it. */
static bool free_later(const struct holds *all, uintptr_t handle)
{
    struct held *h = held(all, handle);
    if (h)
        h->freed = true;
    return h;
}

/* The predefined operations.  Their numbers are in files: append only. */
static MPI_Op predefined_op(uint64_t number)
{
    const MPI_Op all[] = { MPI_SUM, MPI_MAX, MPI_MIN, MPI_PROD, MPI_MAXLOC, MPI_MINLOC, MPI_LAND,
        MPI_LOR, MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_REPLACE, MPI_NO_OP };
    return number < sizeof all / sizeof *all ? all[number] : MPI_OP_NULL;
}

/* The number of a predefined operation; -1: it is none. */
static int predefined(MPI_Op op)
{
    for (uint64_t i = 0; predefined_op(i) != MPI_OP_NULL; i++)
        if (predefined_op(i) == op)
            return (int)i;
    return -1;
}

/* ---- numbers of operations --------------------------------------------------------------
 * The operations of set-up have the same Fortran handles in a replacement, which makes them again.
 * Open MPI gives the lowest handle that is free, and a null pointer for a handle that is not in
 * use. */

#define USER_OP (UINT64_C(1) << 32)
#define OPS_MAX 1024

static MPI_Op of_set_up[OPS_MAX]; /* by Fortran handle; NULL: none */

void ftk_coll_note_ops(void)
{
    for (int i = 0; i < OPS_MAX; i++)
        of_set_up[i] = PMPI_Op_f2c(i);
}

bool ftk_coll_op_number(MPI_Op op, uint64_t *number)
{
    const int p = predefined(op);
    const MPI_Fint f = p < 0 ? PMPI_Op_c2f(op) : 0;
    *number = p >= 0 ? (uint64_t)p : USER_OP | (uint64_t)f;
    return p >= 0 || (f >= 0 && f < OPS_MAX && of_set_up[f] == op);
}

MPI_Op ftk_coll_op_numbered(uint64_t number)
{
    const uint64_t f = number & ~USER_OP;
    if (!(number & USER_OP))
        return predefined_op(number);
    MPI_Op op = f < OPS_MAX ? PMPI_Op_f2c((MPI_Fint)f) : NULL;
    const bool loop_made = op && ftk_log.ctx->where >= FTK_IN_LOOP && of_set_up[f] != op;
    return op && !loop_made ? op : MPI_OP_NULL;
}

static void hold_op(struct ftk_coll *c)
{
    if (!ftk_coll_reduces(c) || predefined(c->call.op) >= 0)
        return;
    c->holds_op = hold_handle(&ops, (uintptr_t)c->call.op);
    if (!c->holds_op)
        ftk_coll_fail(c, MPI_ERR_NO_MEM);
}

static void let_op_go(struct ftk_coll *c)
{
    if (c->holds_op && let_go(&ops, (uintptr_t)c->call.op))
        (void)PMPI_Op_free(&c->call.op); /* there is no call to return an error */
    c->holds_op = false;
}

int ftk_coll_op_free(MPI_Op *op)
{
    for (int i = 0; op && i < OPS_MAX; i++)
        if (of_set_up[i] == *op)
            of_set_up[i] = NULL; /* another operation may get the handle */
    if (!op || !free_later(&ops, (uintptr_t)*op))
        return PMPI_Op_free(op);
    *op = MPI_OP_NULL;
    return MPI_SUCCESS;
}

static void hold_type(struct ftk_coll *c)
{
    if (!ftk_coll_reduces(c) || ftk_coll_shape(c, c->call.r.type).named)
        return;
    c->holds_type = hold_handle(&types, (uintptr_t)c->call.r.type);
    if (!c->holds_type)
        ftk_coll_fail(c, MPI_ERR_NO_MEM);
}

static void let_type_go(struct ftk_coll *c)
{
    if (c->holds_type && let_go(&types, (uintptr_t)c->call.r.type))
        (void)ftk_req_type_free(&c->call.r.type); /* it lives until no message uses it */
    c->holds_type = false;
}

bool ftk_coll_type_free(MPI_Datatype *type)
{
    if (!free_later(&types, (uintptr_t)*type))
        return false;
    *type = MPI_DATATYPE_NULL;
    return true;
}

/* ---- types of messages ------------------------------------------------------------------
 * The program may free its types while a collective is under way, and the collective begins
 * messages with them later: so the collective has duplicates. */

static MPI_Datatype own_type(struct ftk_coll *c, MPI_Datatype *seen, MPI_Datatype type)
{
    MPI_Datatype dup;
    if (ftk_coll_shape(c, type).named)
        return type;
    for (size_t i = c->ntypes; i-- > 0;)
        if (seen[i] == type)
            return c->types[i];
    int rc = PMPI_Type_dup(type, &dup);
    if (rc != MPI_SUCCESS) {
        ftk_coll_fail(c, rc);
        return type;
    }
    seen[c->ntypes] = type;
    c->types[c->ntypes++] = dup;
    return dup;
}

static bool has_types(const struct ftk_step *s)
{
    return s->kind == FTK_STEP_SEND || s->kind == FTK_STEP_RECV || s->kind == FTK_STEP_REDUCE
           || s->kind == FTK_STEP_COPY;
}

static bool all_named(struct ftk_coll *c)
{
    for (size_t i = 0; i < c->nsteps; i++) {
        const struct ftk_step *s = &c->steps[i];
        if (has_types(s) && !ftk_coll_shape(c, s->type).named)
            return false;
        if (s->kind == FTK_STEP_COPY && !ftk_coll_shape(c, s->into_type).named)
            return false;
    }
    return true;
}

static void own_types(struct ftk_coll *c)
{
    if (all_named(c))
        return;
    MPI_Datatype *seen = calloc(2 * c->nsteps, sizeof(MPI_Datatype));
    c->types = calloc(2 * c->nsteps, sizeof(MPI_Datatype));
    if (!seen || !c->types)
        ftk_coll_fail(c, MPI_ERR_NO_MEM);
    for (size_t i = 0; i < c->nsteps && !c->error; i++) {
        struct ftk_step *s = &c->steps[i];
        if (has_types(s) && !(s->kind == FTK_STEP_REDUCE && c->holds_type))
            s->type = own_type(c, seen, s->type);
        if (s->kind == FTK_STEP_COPY)
            s->into_type = own_type(c, seen, s->into_type);
    }
    free(seen);
}

static void free_types(struct ftk_coll *c)
{
    for (size_t i = 0; i < c->ntypes; i++) {
        ftk_dtype_forget(c->types[i]);
        (void)PMPI_Type_free(&c->types[i]); /* an error leaks the duplicate */
    }
    free(c->types);
    c->types = NULL;
    c->ntypes = 0;
}

/* ---- objects ------------------------------------------------------------------------- */

struct ftk_coll *ftk_coll_blank(struct ftk_vcomm *vc, const struct ftk_call *call)
{
    struct ftk_coll *c = free_list;
    if (c) {
        free_list = c->next;
        nfree--;
    } else {
        c = malloc(sizeof *c);
    }
    if (!c)
        return NULL;
    memset(c, 0, offsetof(struct ftk_coll, steps0));
    c->vc = vc;
    c->call = *call;
    c->steps = c->steps0;
    c->room = FTK_COLL_STEPS;
    c->reqs = c->reqs0;
    c->last.type = MPI_DATATYPE_NULL;
    return c;
}

void ftk_coll_delete(struct ftk_coll *c)
{
    free_types(c);
    let_type_go(c);
    let_op_go(c);
    ftk_coll_drop_temps(c);
    if (c->steps != c->steps0)
        free(c->steps);
    if (c->reqs != c->reqs0)
        free(c->reqs);
    if (nfree >= FREE_MAX) {
        free(c);
        return;
    }
    nfree++;
    c->next = free_list;
    free_list = c;
}

static void take_requests(struct ftk_coll *c)
{
    if (c->error || c->nreqs <= FTK_COLL_REQS)
        return;
    c->reqs = malloc(c->nreqs * sizeof *c->reqs);
    if (!c->reqs)
        ftk_coll_fail(c, MPI_ERR_NO_MEM);
}

int ftk_coll_make(
    struct ftk_vcomm *vc, const struct ftk_call *call, bool owned, struct ftk_coll **out)
{
    struct ftk_coll *c = ftk_coll_blank(vc, call);
    if (!c)
        return MPI_ERR_NO_MEM;
    ftk_coll_build(c);
    if (owned && !c->error)
        hold_op(c);
    if (owned && !c->error)
        hold_type(c);
    if (owned && !c->error)
        own_types(c);
    take_requests(c);
    int error = c->error;
    if (error)
        ftk_coll_delete(c);
    else
        *out = c;
    return error;
}

int ftk_coll_seal(struct ftk_coll *c)
{
    if (!c->error)
        hold_op(c);
    if (!c->error)
        own_types(c);
    take_requests(c);
    return c->error;
}

void ftk_coll_free_memory(void)
{
    for (struct ftk_coll *c = free_list, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    free_list = NULL;
    nfree = 0;
    if (ops.n > 0)
        return; /* persistent collectives that the program has not freed */
    memset(of_set_up, 0, sizeof of_set_up);
    free(ops.at);
    free(types.at);
    ops = types = (struct holds){ 0 };
}
