/* Contexts.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * All contexts share the queues of the windows, so a fence or a quiet of one is that of all.  The
 * standard asks for less.  A handle is a number and no address: a substitute has it, too. */
#include "own.h"

enum { FIRST = 2 }; /* the numbers below are no handle, and SHMEM_CTX_DEFAULT */

/* The word of the bit of a context, and the bit.  False: there is no such context. */
static bool find(uintptr_t number, uint64_t **word, uint64_t *bit)
{
    if (number < FIRST || number >= FIRST + FTK_SHMEM_CONTEXTS)
        return false;
    *word = ftk_shmem_heap_contexts() + (number - FIRST) / 64;
    *bit = (uint64_t)1 << (number - FIRST) % 64;
    return (**word & *bit) != 0;
}

bool ftk_shmem_context_is_open(const char *call, shmem_ctx_t ctx)
{
    uint64_t *word, bit;
    return find((uintptr_t)ctx, &word, &bit)
           || ftk_shmem_mistake(
               "%s: no such context: it is destroyed, or newer than the last set", call);
}

int shmem_ctx_create(long options, shmem_ctx_t *ctx)
{
    const long known = SHMEM_CTX_SERIALIZED | SHMEM_CTX_PRIVATE | SHMEM_CTX_NOSTORE;
    uint64_t *word, bit;
    (void)ftk_shmem_ready("shmem_ctx_create"); /* local: after a loss there is a context, too */
    for (uintptr_t i = FIRST; (options & ~known) == 0 && i < FIRST + FTK_SHMEM_CONTEXTS; i++) {
        if (find(i, &word, &bit))
            continue;
        *word |= bit;
        *ctx = (shmem_ctx_t)i; // NOLINT(performance-no-int-to-ptr): a handle
        return 0;
    }
    return 1;
}

void shmem_ctx_destroy(shmem_ctx_t ctx)
{
    const char *const call = "shmem_ctx_destroy";
    uint64_t *word, bit;
    if (!ftk_shmem_ready(call))
        return;
    if (!find((uintptr_t)ctx, &word, &bit)) {
        (void)ftk_shmem_mistake(
            "%s: no such context: it is destroyed, newer than the last set, or the default", call);
        return;
    }
    (void)ftk_shmem_flush_all(call);
    *word &= ~bit;
}

void shmem_ctx_fence(shmem_ctx_t ctx)
{
    if (ftk_shmem_ready("shmem_ctx_fence") && ftk_shmem_context("shmem_ctx_fence", ctx))
        shmem_fence();
}

void shmem_ctx_quiet(shmem_ctx_t ctx)
{
    if (ftk_shmem_ready("shmem_ctx_quiet") && ftk_shmem_context("shmem_ctx_quiet", ctx))
        shmem_quiet();
}
