/* Put and get.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A put is copied into the queue of the window for its target; a call that waits sends what is in
 * the queues.  So the buffer is free when the call returns, and puts to one PE keep their order. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "own.h"

/* ---- places -------------------------------------------------------------------------- */

/* The queue of a window keeps the order of its own operations.  Those of the other window have to
 * be complete when a fence is between. */
static bool keep_order(const char *call, const struct ftk_shmem_place *p)
{
    const struct ftk_shmem_place other = { FTK_SHMEM_SEGMENTS - 1 - p->segment, p->pe, 0 };
    return !ftk_shmem.fenced || !ftk_shmem.open[other.segment][p->pe]
           || ftk_shmem_flush(call, &other);
}

bool ftk_shmem_find(
    const char *call, const void *addr, size_t bytes, int pe, struct ftk_shmem_place *p)
{
    if (!ftk_shmem_ready(call))
        return false;
    for (int i = 0; i < FTK_SHMEM_SEGMENTS; i++) {
        const struct ftk_shmem_segment *s = &ftk_shmem.seg[i];
        const uintptr_t at = (uintptr_t)addr - (uintptr_t)s->base;
        if (at > s->bytes || bytes > s->bytes - at)
            continue;
        if (pe >= 0 && pe < ftk_shmem.n) {
            *p = (struct ftk_shmem_place){ i, pe, (MPI_Aint)at };
            return keep_order(call, p);
        }
    }
    if (pe < 0 || pe >= ftk_shmem.n)
        return ftk_shmem_mistake(
            "%s: there is no PE %d, the last one is %d", call, pe, ftk_shmem.n - 1);
    return ftk_shmem_mistake("%s: %zu bytes at %p are not in symmetric memory", call, bytes, addr);
}

void ftk_shmem_begun(const struct ftk_shmem_place *p)
{
    ftk_shmem.open[p->segment][p->pe] = true;
    ftk_shmem.any_open[p->segment] = true;
}

bool ftk_shmem_flush(const char *call, const struct ftk_shmem_place *p)
{
    ftk_shmem.open[p->segment][p->pe] = false;
    return ftk_shmem_done(call, MPI_Win_flush(p->pe, ftk_shmem_win(p)));
}

void ftk_shmem_none_open(void)
{
    for (int i = 0; i < FTK_SHMEM_SEGMENTS; i++) {
        memset(ftk_shmem.open[i], 0, (size_t)ftk_shmem.n * sizeof *ftk_shmem.open[i]);
        ftk_shmem.any_open[i] = false;
    }
    ftk_shmem.fenced = false;
}

bool ftk_shmem_flush_all(const char *call)
{
    bool good = true;
    for (int i = 0; good && i < FTK_SHMEM_SEGMENTS; i++)
        if (ftk_shmem.any_open[i])
            good = ftk_shmem_done(call, MPI_Win_flush_all(ftk_shmem.seg[i].win));
    ftk_shmem_none_open();
    return good;
}

bool ftk_shmem_look(const char *call)
{
    return ftk_shmem_done(call, MPI_Win_sync(ftk_shmem.seg[FTK_SHMEM_HEAP].win));
}

int shmem_addr_accessible(const void *addr, int pe)
{
    bool in = false;
    for (int i = 0; i < FTK_SHMEM_SEGMENTS; i++)
        in = in || (uintptr_t)addr - (uintptr_t)ftk_shmem.seg[i].base < ftk_shmem.seg[i].bytes;
    return in && shmem_pe_accessible(pe);
}

/* The memory of another PE of the node, by its window. */
static void *there(const struct ftk_shmem_place *p)
{
    const char *const call = "shmem_ptr";
    MPI_Aint bytes = 0;
    int unit;
    char *base = NULL;
    if (!ftk_shmem_done(
            call, MPI_Win_shared_query(ftk_shmem_win(p), p->pe, &bytes, &unit, (void *)&base)))
        return NULL;
    return base ? base + p->at : NULL;
}

void *shmem_ptr(const void *dest, int pe)
{
    struct ftk_shmem_place p = { 0 };
    if (!shmem_addr_accessible(dest, pe))
        return NULL;
    if (pe == ftk_shmem.me)
        return (void *)(uintptr_t)dest;
    return ftk_shmem_find("shmem_ptr", dest, 0, pe, &p) ? there(&p) : NULL;
}

/* ---- memory -------------------------------------------------------------------------- */

enum direction { PUT, GET };
#define MOST ((size_t)1 << 30) /* bytes of one operation of MPI */

static int operate(
    enum direction d, void *mine, size_t bytes, const struct ftk_shmem_place *p, size_t at)
{
    const int n = (int)bytes;
    return d == PUT ? MPI_Put(
               mine, n, MPI_BYTE, p->pe, p->at + (MPI_Aint)at, n, MPI_BYTE, ftk_shmem_win(p))
                    : MPI_Get(mine, n, MPI_BYTE, p->pe, p->at + (MPI_Aint)at, n, MPI_BYTE,
                        ftk_shmem_win(p));
}

/* Move bytes; false: a PE is lost. */
static bool move(
    const char *call, enum direction d, void *mine, size_t bytes, const struct ftk_shmem_place *p)
{
    for (size_t at = 0; at < bytes; at += MOST) {
        const size_t n = bytes - at < MOST ? bytes - at : MOST;
        if (!ftk_shmem_done(call, operate(d, (char *)mine + at, n, p, at)))
            return false;
        ftk_shmem_begun(p);
    }
    return true;
}

/* Whether n elements are memory that can be: an object of no bytes needs no address. */
static bool is_some(const char *call, shmem_ctx_t ctx, size_t n, size_t bytes)
{
    if (!ftk_shmem_ready(call) || !ftk_shmem_context(call, ctx) || n == 0)
        return false;
    return n <= PTRDIFF_MAX / bytes
           || ftk_shmem_mistake("%s: %zu elements of %zu bytes", call, n, bytes);
}

static void put(const char *call, shmem_ctx_t ctx, void *dest, const void *source, size_t n,
    size_t size, int pe)
{
    struct ftk_shmem_place p = { 0 };
    if (is_some(call, ctx, n, size) && ftk_shmem_find(call, dest, n * size, pe, &p))
        (void)move(call, PUT, (void *)(uintptr_t)source, n * size, &p);
}

/* wait: the data are there when the call returns. */
static void get(const char *call, shmem_ctx_t ctx, void *dest, const void *source, size_t n,
    size_t size, int pe, bool wait)
{
    struct ftk_shmem_place p = { 0 };
    if (is_some(call, ctx, n, size) && ftk_shmem_find(call, source, n * size, pe, &p)
        && move(call, GET, dest, n * size, &p) && wait)
        (void)ftk_shmem_flush_all(call); /* a lost PE: nobody uses the data */
}

/* ---- strides --------------------------------------------------------------------------- */

/* Elements with a distance between them. */
static int spread(size_t n, ptrdiff_t stride, size_t bytes, MPI_Datatype *type)
{
    int rc = MPI_Type_create_hvector(
        (int)n, (int)bytes, (MPI_Aint)(stride * (ptrdiff_t)bytes), MPI_BYTE, type);
    return rc == MPI_SUCCESS ? MPI_Type_commit(type) : rc;
}

static bool strided(const char *call, shmem_ctx_t ctx, enum direction d, void *mine,
    ptrdiff_t my_stride, const void *there, ptrdiff_t stride, size_t n, size_t bytes, int pe)
{
    struct ftk_shmem_place p = { 0 };
    MPI_Datatype type[2] = { MPI_DATATYPE_NULL, MPI_DATATYPE_NULL };
    if (!ftk_shmem_ready(call) || !ftk_shmem_context(call, ctx) || n == 0)
        return false;
    const size_t most = (size_t)PTRDIFF_MAX / bytes / n;
    if (my_stride < 1 || stride < 1 || n > INT_MAX || (size_t)stride > most
        || (size_t)my_stride > most)
        return ftk_shmem_mistake(
            "%s: %zu elements with strides of %td and %td", call, n, my_stride, stride);
    if (!ftk_shmem_find(call, there, ((n - 1) * (size_t)stride + 1) * bytes, pe, &p))
        return false;
    int rc = spread(n, my_stride, bytes, &type[0]);
    if (rc == MPI_SUCCESS)
        rc = spread(n, stride, bytes, &type[1]);
    if (rc == MPI_SUCCESS)
        rc = d == PUT ? MPI_Put(mine, 1, type[0], pe, p.at, 1, type[1], ftk_shmem_win(&p))
                      : MPI_Get(mine, 1, type[0], pe, p.at, 1, type[1], ftk_shmem_win(&p));
    for (int i = 0; i < 2; i++)
        if (type[i] != MPI_DATATYPE_NULL)
            MPI_Type_free(&type[i]);
    if (!ftk_shmem_done(call, rc))
        return false;
    ftk_shmem_begun(&p);
    return d == PUT || ftk_shmem_flush_all(call);
}

/* ---- the calls ------------------------------------------------------------------------- */

/* types as arguments have no parentheses */
// NOLINTBEGIN(bugprone-macro-parentheses)
/* Each call is made twice: C is NO, or YES for that with a context. */
#define ARGUMENT_NO
#define ARGUMENT_YES shmem_ctx_t ctx,
#define CTX_NO SHMEM_CTX_DEFAULT
#define CTX_YES ctx

/* Four calls for elements of so many bytes. */
#define PUT_AND_GET(C, type, bytes, PUT_, GET_, PUT_NBI, GET_NBI)                                  \
    void PUT_(ARGUMENT_##C type *dest, const type *source, size_t nelems, int pe)                  \
    {                                                                                              \
        put(__func__, CTX_##C, dest, source, nelems, bytes, pe);                                   \
    }                                                                                              \
    void GET_(ARGUMENT_##C type *dest, const type *source, size_t nelems, int pe)                  \
    {                                                                                              \
        get(__func__, CTX_##C, dest, source, nelems, bytes, pe, true);                             \
    }                                                                                              \
    void PUT_NBI(ARGUMENT_##C type *dest, const type *source, size_t nelems, int pe)               \
    {                                                                                              \
        put(__func__, CTX_##C, dest, source, nelems, bytes, pe);                                   \
    }                                                                                              \
    void GET_NBI(ARGUMENT_##C type *dest, const type *source, size_t nelems, int pe)               \
    {                                                                                              \
        get(__func__, CTX_##C, dest, source, nelems, bytes, pe, false);                            \
    }
#define STRIDED(C, type, bytes, IPUT, IGET)                                                        \
    void IPUT(ARGUMENT_##C type *dest, const type *source, ptrdiff_t dst, ptrdiff_t sst,           \
        size_t nelems, int pe)                                                                     \
    {                                                                                              \
        (void)strided(                                                                             \
            __func__, CTX_##C, PUT, (void *)(uintptr_t)source, sst, dest, dst, nelems, bytes, pe); \
    }                                                                                              \
    void IGET(ARGUMENT_##C type *dest, const type *source, ptrdiff_t dst, ptrdiff_t sst,           \
        size_t nelems, int pe)                                                                     \
    {                                                                                              \
        (void)strided(__func__, CTX_##C, GET, dest, dst, source, sst, nelems, bytes, pe);          \
    }

#define BYTES(C, PRE)                                                                              \
    PUT_AND_GET(C, void, 1, PRE##_putmem, PRE##_getmem, PRE##_putmem_nbi, PRE##_getmem_nbi)
BYTES(NO, shmem)
BYTES(YES, shmem_ctx)

#define SIZED(C, PRE, bits, bytes)                                                                 \
    PUT_AND_GET(C, void, bytes, PRE##_put##bits, PRE##_get##bits, PRE##_put##bits##_nbi,           \
        PRE##_get##bits##_nbi)                                                                     \
    STRIDED(C, void, bytes, PRE##_iput##bits, PRE##_iget##bits)
#define BOTH_SIZED(bits, bytes)                                                                    \
    SIZED(NO, shmem, bits, bytes)                                                                  \
    SIZED(YES, shmem_ctx, bits, bytes)
SHMEM_SIZES(BOTH_SIZED)

#define TYPED(C, PRE, type)                                                                        \
    PUT_AND_GET(C, type, sizeof(type), PRE##_put, PRE##_get, PRE##_put_nbi, PRE##_get_nbi)         \
    STRIDED(C, type, sizeof(type), PRE##_iput, PRE##_iget)                                         \
    void PRE##_p(ARGUMENT_##C type *dest, type value, int pe)                                      \
    {                                                                                              \
        put(__func__, CTX_##C, dest, &value, 1, sizeof value, pe);                                 \
    }                                                                                              \
    type PRE##_g(ARGUMENT_##C const type *source, int pe)                                          \
    {                                                                                              \
        type value = 0;                                                                            \
        get(__func__, CTX_##C, &value, source, 1, sizeof value, pe, true);                         \
        return value;                                                                              \
    }
#define BOTH_TYPED(name, type, mpi)                                                                \
    TYPED(NO, shmem_##name, type)                                                                  \
    TYPED(YES, shmem_ctx_##name, type)
SHMEM_RMA_TYPES(BOTH_TYPED)
SHMEM_RMA_NAMES(BOTH_TYPED)
// NOLINTEND(bugprone-macro-parentheses)
