/* Short operations on memory that this process has mapped (quick.c).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Each function returns whether the operation has been done.  If not, nothing has happened, and the
 * caller takes the long way (rma.c), which also finds the mistakes. */
#ifndef FTK_LOG_WIN_QUICK_H
#define FTK_LOG_WIN_QUICK_H

#include <mpi.h>
#include <stdbool.h>

/* The items in the memory of the target. */
struct ftk_win_items {
    MPI_Win win;
    int target;
    MPI_Aint disp;
    int count;
    MPI_Datatype type;
};

/* As many items of the same type are at from and at to. */
bool ftk_win_quick_put(const struct ftk_win_items *i, const void *from);
bool ftk_win_quick_get(const struct ftk_win_items *i, void *to);
/* One item; old: gets the item as it was; NULL: nobody wants it. */
bool ftk_win_quick_combine(const struct ftk_win_items *i, MPI_Op op, const void *from, void *old);
bool ftk_win_quick_swap(
    const struct ftk_win_items *i, const void *from, const void *compare, void *old);

#endif
