/* Windows that the loop has made, in a set: a replacement makes them from their recipe.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A replacement has no variable for such a window, unless the program has registered one
 * (ftkit_register_window()).  So a set has the recipe of a window that a registered variable holds:
 * how the window was made, the sizes and units of all members, and the place of the memory of
 * MPI_Win_create.  The communicator of the window comes with those of the set (vcomm_image.c), so
 * no other rank has to call anything.
 *
 * Set-up may have made another window in the same context, which the lost process has freed before
 * the line.  So a window is used again only if it equals the recipe. */
#include <string.h>

#include "log/base/saved.h"
#include "log/vcomm/comm.h"
#include "log/win/win.h"
#include "set/handles.h"

/* ---- variables of the program -------------------------------------------------------- */

bool ftk_win_is_registered(const struct ftk_win *w)
{
    const struct ftk_handles *h = NULL;
    while ((h = ftk_handles_next(ftk_log.ctx, FTK_HANDLE_WINDOW, h)))
        for (size_t i = 0; i < h->n; i++)
            if (ftk_handles_window(h, i) == w->handle)
                return true;
    return false;
}

int64_t ftk_win_number(MPI_Win win)
{
    const struct ftk_win *w = win == MPI_WIN_NULL || !ftk_log.on ? NULL : ftk_win_find(win);
    return w ? w->vc->context : -1;
}

/* The variable held a window that the line does not have: nobody else knows the handle. */
int ftk_win_back(int64_t number, MPI_Win *win)
{
    const bool is_one = ftk_log.on && number >= 0 && number < FTK_LOG_ALL;
    const struct ftk_win *w = is_one ? ftk_win_in_context((int)number) : NULL;
    const int rc = ftk_win_is_detached(*win) ? PMPI_Win_free(win) : MPI_SUCCESS;
    *win = w ? w->handle : MPI_WIN_NULL;
    return rc == MPI_SUCCESS ? FTKIT_OK : ftk_fail_mpi(rc, "freeing a window");
}

/* ---- in a set: how, then where the memory is, then size and unit of each member -------- */

enum { HOW, MEMORY, HEAD = MEMORY + FTK_WIN_MEMORY_WORDS };
enum { SIZE, UNIT, EACH };

static size_t bytes_of(const struct ftk_win *w)
{
    return (size_t)w->place[w->vc->rank].size;
}

/* Whether the window has memory of the program, which a replacement has to find again. */
static bool has_memory(const struct ftk_win *w)
{
    return !w->allocated && !w->dynamic && bytes_of(w) > 0;
}

const char *ftk_win_recipe_unfit(const struct ftk_win *w)
{
    return has_memory(w) && !ftk_win_memory_fits(w->base, bytes_of(w))
               ? "its variable is registered, and its memory is not in one region, or in one whose "
                 "items have holes (register all of the memory before)"
               : NULL;
}

size_t ftk_win_recipe_words(const struct ftk_win *w)
{
    return HEAD + EACH * (size_t)w->vc->size;
}

uint64_t *ftk_win_recipe_save(const struct ftk_win *w, uint64_t *to)
{
    to[HOW] = w->shared      ? FTK_WIN_ALLOCATED_SHARED
              : w->allocated ? FTK_WIN_ALLOCATED
              : w->dynamic   ? FTK_WIN_DYNAMIC
                             : FTK_WIN_CREATED;
    if (has_memory(w))
        ftk_win_memory_save(w->base, bytes_of(w), to + MEMORY);
    else
        memset(to + MEMORY, 0, FTK_WIN_MEMORY_WORDS * sizeof *to);
    to += HEAD;
    for (int i = 0; i < w->vc->size; i++, to += EACH) {
        to[SIZE] = (uint64_t)w->place[i].size;
        to[UNIT] = (uint64_t)w->place[i].unit;
    }
    return to;
}

/* Make the parts of w that are of this process; w has its communicator. */
static int make(struct ftk_win *w, const uint64_t *from, void *base)
{
    const int n = w->vc->size;
    int rc = ftk_win_make_own(w, n,
        &(struct ftk_win_making){ (enum ftk_win_how)from[HOW], base,
            (MPI_Aint)from[HEAD + EACH * w->vc->rank + SIZE],
            (int)from[HEAD + EACH * w->vc->rank + UNIT], MPI_INFO_NULL });
    for (int i = 0; rc == MPI_SUCCESS && i < n; i++)
        w->place[i] = (struct ftk_win_place){ (int64_t)from[HEAD + EACH * i + SIZE],
            (int64_t)from[HEAD + EACH * i + UNIT], (int64_t)from[HOW] };
    w->comm = w->vc->handle;
    return rc == MPI_SUCCESS ? PMPI_Comm_set_errhandler(w->comm, MPI_ERRORS_RETURN) : rc;
}

static bool is_sane(const uint64_t *from, int n)
{
    for (int i = 0; i < n; i++)
        if (!ftk_saved_is_in(from[HEAD + EACH * i + SIZE], 0, FTK_FAR)
            || !ftk_saved_is_in(from[HEAD + EACH * i + UNIT], 1, INT32_MAX))
            return false;
    return from[HOW] <= FTK_WIN_ALLOCATED_SHARED;
}

/* Whether w is what the recipe makes, with its memory at base. */
static bool equals(const struct ftk_win *w, const uint64_t *from, const char *base)
{
    bool same =
        w->allocated == (from[HOW] == FTK_WIN_ALLOCATED || from[HOW] == FTK_WIN_ALLOCATED_SHARED)
        && (w->shared != NULL) == (from[HOW] == FTK_WIN_ALLOCATED_SHARED)
        && w->dynamic == (from[HOW] == FTK_WIN_DYNAMIC) && (!has_memory(w) || w->base == base);
    for (int i = 0; same && i < w->vc->size; i++)
        same = w->place[i].size == (int64_t)from[HEAD + EACH * i + SIZE]
               && w->place[i].unit == (int64_t)from[HEAD + EACH * i + UNIT];
    return same;
}

static int make_new(struct ftk_vcomm *vc, const uint64_t *from, char *base)
{
    if (from[HOW] == FTK_WIN_ALLOCATED_SHARED)
        return ftk_win_shared_missing();
    struct ftk_win *w = ftk_win_new();
    int rc = w ? MPI_SUCCESS : MPI_ERR_NO_MEM;
    if (w) {
        w->vc = vc;
        rc = make(w, from, base);
    }
    if (rc == MPI_SUCCESS) {
        ftk_win_publish(w);
        return FTKIT_OK;
    }
    if (w)
        (void)ftk_win_delete(w, true); /* rc is the first error */
    return ftk_fail_mpi(rc, "windows of a set");
}

int ftk_win_recipe_load(int context, const uint64_t **from, const uint64_t *end, bool may_make)
{
    const uint64_t *const at = *from;
    struct ftk_vcomm *vc = ftk_vcomm_in_context(context);
    char *base = NULL;
    size_t bytes = 0;
    if (!vc || vc->remote || end - at < HEAD + EACH * vc->size || !is_sane(at, vc->size))
        return ftk_fail(FTKIT_ERR_FORMAT, "windows of a set: damaged");
    *from += HEAD + EACH * vc->size;
    const uint64_t size = at[HEAD + EACH * vc->rank + SIZE];
    if (at[HOW] == FTK_WIN_CREATED && size > 0) {
        int rc = ftk_win_memory_load(at + MEMORY, &base, &bytes);
        if (rc != FTKIT_OK)
            return rc;
        if (bytes != size)
            return ftk_fail(FTKIT_ERR_FORMAT, "windows of a set: damaged");
    }
    struct ftk_win *const w = ftk_win_in_context(context);
    if (w ? equals(w, at, base) : !may_make)
        return FTKIT_OK;
    if (w)
        ftk_win_drop(w, !may_make);
    return make_new(vc, at, base);
}
