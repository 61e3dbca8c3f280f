/* The table of the kinds of memory (see memory_kind.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <assert.h>

#include "ftk.h"
#include "memory_kind.h"

_Atomic bool ftk_memory_others;

#define DECLARE(NAME, word) extern const struct ftk_memory_ops ftk_memory_##word;
FTK_MEMORY_LIST(DECLARE)
#undef DECLARE
const struct ftk_memory_ops ftk_memory_host = { .name = "host" }; /* it is accessed in place */

const struct ftk_memory_ops *ftk_memory_ops_of(enum ftk_memory_kind kind)
{
#define LINE(NAME, word) &ftk_memory_##word,
    static const struct ftk_memory_ops *const all[] = { FTK_MEMORY_LIST(LINE) };
#undef LINE
    assert(kind < FTK_MEMORY_KINDS);
    return all[kind];
}

const char *ftk_memory_name(enum ftk_memory_kind kind)
{
    return ftk_memory_ops_of(kind)->name;
}

enum ftk_memory_kind ftk_memory_find(const void *p)
{
    enum ftk_memory_kind kind = FTK_MEMORY_HOST + 1;
    while (kind < FTK_MEMORY_KINDS && !ftk_memory_ops_of(kind)->owns(p))
        kind++;
    return kind < FTK_MEMORY_KINDS ? kind : FTK_MEMORY_HOST;
}

enum ftk_memory_kind ftk_memory_look(const void *p)
{
    for (enum ftk_memory_kind kind = FTK_MEMORY_HOST + 1; kind < FTK_MEMORY_KINDS; kind++) {
        if (!ftk_memory_ops_of(kind)->present() || !ftk_memory_ops_of(kind)->owns(p))
            continue;
        atomic_store_explicit(&ftk_memory_others, true, memory_order_relaxed);
        return kind;
    }
    return FTK_MEMORY_HOST;
}

bool ftk_memory_is_hidden(const void *p)
{
    for (enum ftk_memory_kind kind = FTK_MEMORY_HOST + 1; kind < FTK_MEMORY_KINDS; kind++) {
        const struct ftk_memory_ops *ops = ftk_memory_ops_of(kind);
        if (ops->present() && ops->owns(p))
            return !ops->is_shared || !ops->is_shared(p);
    }
    return false;
}

int ftk_memory_wait(enum ftk_memory_kind kind, const void *p, void *stream)
{
    if (ftk_memory_is_host(kind) || !ftk_memory_ops_of(kind)->wait)
        return FTKIT_OK;
    return ftk_memory_ops_of(kind)->wait(p, stream);
}

bool ftk_memory_is_lost(void)
{
    enum ftk_memory_kind kind = FTK_MEMORY_HOST + 1;
    while (kind < FTK_MEMORY_KINDS
           && !(ftk_memory_ops_of(kind)->lost && ftk_memory_ops_of(kind)->lost()))
        kind++;
    return kind < FTK_MEMORY_KINDS;
}

int ftk_memory_check(void)
{
    int rc = FTKIT_OK;
    for (enum ftk_memory_kind kind = FTK_MEMORY_HOST + 1; rc == FTKIT_OK && kind < FTK_MEMORY_KINDS;
         kind++)
        if (ftk_memory_ops_of(kind)->check)
            rc = ftk_memory_ops_of(kind)->check();
    return rc;
}

int ftk_memory_copy_between(void *to, const void *from, size_t bytes)
{
    const enum ftk_memory_kind out = ftk_memory_kind_of(from), in = ftk_memory_kind_of(to);
    char stage[16384];
    if (ftk_memory_is_host(in))
        return ftk_memory_copy_out(out, to, from, bytes);
    if (ftk_memory_is_host(out))
        return ftk_memory_copy_in(in, to, from, bytes);
    int rc = 0;
    for (size_t at = 0, n; rc == 0 && at < bytes; at += n) {
        n = bytes - at < sizeof stage ? bytes - at : sizeof stage;
        rc = ftk_memory_copy_out(out, stage, (const char *)from + at, n);
        if (rc == 0)
            rc = ftk_memory_copy_in(in, (char *)to + at, stage, n);
    }
    return rc;
}
