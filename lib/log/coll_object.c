/* Collectives: schedules as objects, and what they hold on to.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "coll.h"
#include "mpi_calls.h"
#include "p2p.h"

#define FREE_MAX 16 /* objects that are kept */

static struct ftk_coll *free_list;
static int nfree;

struct ftk_temp {
    struct ftk_temp *next;
    _Alignas(16) char bytes[];
};

/* ---- operations -------------------------------------------------------------------
 * The program may free one while it is needed; there is no duplicating them. */

static struct op_use {
    MPI_Op op;
    size_t users;
    bool freed;
} * ops;
static size_t nops, ops_room;

static struct op_use *use_of(MPI_Op op)
{
    for (size_t i = 0; i < nops; i++)
        if (ops[i].op == op)
            return &ops[i];
    return NULL;
}

static bool predefined(MPI_Op op)
{
    const MPI_Op all[] = { MPI_SUM, MPI_MAX, MPI_MIN, MPI_PROD, MPI_MAXLOC, MPI_MINLOC,
        MPI_LAND, MPI_LOR, MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_REPLACE,
        MPI_NO_OP };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] == op)
            return true;
    return false;
}

static void hold_op(struct ftk_coll *c)
{
    if (!ftk_coll_reduces(c) || predefined(c->call.op))
        return;
    struct op_use *u = use_of(c->call.op);
    if (!u && nops == ops_room) {
        size_t room = ops_room ? 2 * ops_room : 8;
        struct op_use *more = realloc(ops, room * sizeof *more);
        if (!more) {
            ftk_coll_fail(c, MPI_ERR_NO_MEM);
            return;
        }
        ops = more;
        ops_room = room;
    }
    if (!u) {
        u = &ops[nops++];
        *u = (struct op_use){ .op = c->call.op };
    }
    u->users++;
    c->holds_op = true;
}

static void let_op_go(struct ftk_coll *c)
{
    struct op_use *u = c->holds_op ? use_of(c->call.op) : NULL;
    c->holds_op = false;
    if (!u || --u->users > 0)
        return;
    if (u->freed)
        (void)PMPI_Op_free(&u->op); /* nobody is there any more to be told */
    *u = ops[--nops];
}

int ftk_coll_op_free(MPI_Op *op)
{
    struct op_use *u = op ? use_of(*op) : NULL;
    if (!u)
        return PMPI_Op_free(op);
    u->freed = true;
    *op = MPI_OP_NULL;
    return MPI_SUCCESS;
}

/* ---- types ------------------------------------------------------------------------
 * The program may free its own while a collective is under way, which begins messages of
 * them later: it works with duplicates. */

/* An operation of the program is given the very type the program has named, which may not
 * be freed before. */
static struct type_use {
    MPI_Datatype type;
    size_t users;
    bool freed;
} * types;
static size_t ntypes, types_room;

static struct type_use *type_use_of(MPI_Datatype type)
{
    for (size_t i = 0; i < ntypes; i++)
        if (types[i].type == type)
            return &types[i];
    return NULL;
}

static void hold_type(struct ftk_coll *c)
{
    MPI_Datatype type = c->call.r.type;
    if (!c->holds_op || ftk_coll_shape(c, type).named)
        return;
    struct type_use *u = type_use_of(type);
    if (!u && ntypes == types_room) {
        size_t room = types_room ? 2 * types_room : 8;
        struct type_use *more = realloc(types, room * sizeof *more);
        if (!more) {
            ftk_coll_fail(c, MPI_ERR_NO_MEM);
            return;
        }
        types = more;
        types_room = room;
    }
    if (!u) {
        u = &types[ntypes++];
        *u = (struct type_use){ .type = type };
    }
    u->users++;
    c->holds_type = true;
}

static void let_type_go(struct ftk_coll *c)
{
    struct type_use *u = c->holds_type ? type_use_of(c->call.r.type) : NULL;
    c->holds_type = false;
    if (!u || --u->users > 0)
        return;
    struct type_use was = *u;
    *u = types[--ntypes];
    if (was.freed)
        (void)ftk_mpi_Type_free(&was.type); /* when no message has it any more, either */
}

bool ftk_coll_type_free(MPI_Datatype *type)
{
    struct type_use *u = type_use_of(*type);
    if (!u)
        return false;
    u->freed = true;
    *type = MPI_DATATYPE_NULL;
    return true;
}

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
    return s->kind == FTK_STEP_SEND || s->kind == FTK_STEP_RECV
           || s->kind == FTK_STEP_REDUCE || s->kind == FTK_STEP_COPY;
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
        ftk_p2p_forget_type(c->types[i]);
        (void)PMPI_Type_free(&c->types[i]); /* no use is left; the duplicate is ours */
    }
    free(c->types);
    c->types = NULL;
    c->ntypes = 0;
}

/* ---- objects ----------------------------------------------------------------------*/

void *ftk_coll_temp(struct ftk_coll *c, size_t bytes)
{
    size_t aligned = (bytes + 15) & ~(size_t)15;
    if (aligned >= bytes && aligned <= FTK_COLL_ARENA - c->used) {
        c->used += aligned;
        return c->arena + c->used - aligned;
    }
    if (bytes > SIZE_MAX - sizeof(struct ftk_temp)) {
        ftk_coll_fail(c, MPI_ERR_COUNT);
        return NULL;
    }
    struct ftk_temp *t = malloc(sizeof *t + bytes);
    if (!t) {
        ftk_coll_fail(c, MPI_ERR_NO_MEM);
        return NULL;
    }
    t->next = c->temps;
    c->temps = t;
    return t->bytes;
}

static struct ftk_coll *new_coll(struct ftk_vcomm *vc, const struct ftk_call *call)
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
    for (struct ftk_temp *t = c->temps, *next; t; t = next) {
        next = t->next;
        free(t);
    }
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

int ftk_coll_make(
    struct ftk_vcomm *vc, const struct ftk_call *call, bool owned, struct ftk_coll **out)
{
    struct ftk_coll *c = new_coll(vc, call);
    if (!c)
        return MPI_ERR_NO_MEM;
    ftk_coll_build(c);
    if (owned && !c->error)
        hold_op(c);
    if (owned && !c->error)
        hold_type(c);
    if (owned && !c->error)
        own_types(c);
    if (!c->error && c->nreqs > FTK_COLL_REQS) {
        c->reqs = malloc(c->nreqs * sizeof *c->reqs);
        if (!c->reqs)
            ftk_coll_fail(c, MPI_ERR_NO_MEM);
    }
    int error = c->error;
    if (error)
        ftk_coll_delete(c);
    else
        *out = c;
    return error;
}

void ftk_coll_free_memory(void)
{
    for (struct ftk_coll *c = free_list, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    free_list = NULL;
    nfree = 0;
    if (nops > 0)
        return; /* persistent ones that the program has not freed */
    free(ops);
    free(types);
    ops = NULL;
    types = NULL;
    ops_room = ntypes = types_room = 0;
}
