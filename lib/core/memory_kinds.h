/* The kinds of memory that a program may have its data in: one line each.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A line makes the number of the kind and the entry in the table of core/memory_kind.c.  The file
 * of a kind defines its operations, const struct ftk_memory_ops ftk_memory_<word> (memory_kind.h).
 * Host memory comes first: a pointer that no other kind owns is host memory. */
#ifndef FTK_MEMORY_KINDS_H
#define FTK_MEMORY_KINDS_H

/* number, word */
/* clang-format off */
#define FTK_MEMORY_LIST(X) \
    X(HOST, host)                                                                                  \
    X(DEVICE, device)
/* clang-format on */

enum ftk_memory_kind {
#define NUMBER(NAME, word) FTK_MEMORY_##NAME,
    FTK_MEMORY_LIST(NUMBER)
#undef NUMBER
        FTK_MEMORY_KINDS
};

#endif
