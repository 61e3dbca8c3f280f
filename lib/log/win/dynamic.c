/* Dynamic windows: memory that the program attaches.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Other ranks name this memory by its address.  A replacement may have the memory at another
 * address, while the other ranks, and messages that are sent again, still have the old one.  So the
 * address at which a range is attached first is the name of the range: the outcome of
 * MPI_Win_attach, which a replay repeats (ftk_det_decide()).  The address in this process is good,
 * too, because the program may send it again.
 *
 * A set has the names of each range and its place in a region of the program.  A job that goes on
 * from files attaches the range in set-up at another address, and sends this one: a further
 * name. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/grow.h"
#include "log/base/saved.h"
#include "log/determinant/det.h"
#include "log/win/win.h"
#include "mpi_calls.h"
#include "set/region.h"

/* ---- addresses ----------------------------------------------------------------------- */

static uint64_t address_of(const struct ftk_win_range *r)
{
    return (uintptr_t)r->base;
}

/* Whether the bytes from first lie in a range of so many bytes at an address. */
static bool is_in(uint64_t first, uint64_t bytes, uint64_t address, size_t range)
{
    return first >= address && first - address <= range && bytes <= range - (first - address);
}

/* An address of the range: its names, then where it is in this process.  0: none. */
static uint64_t known_as(const struct ftk_win_range *r, int k)
{
    return k < FTK_WIN_NAMES ? r->name[k] : address_of(r);
}

bool ftk_win_attached(
    const struct ftk_win *w, uint64_t address, ptrdiff_t low, ptrdiff_t end, char **at)
{
    const uint64_t first = address + (uint64_t)low, bytes = (uint64_t)(end - low);
    if (bytes == 0)
        return true;
    for (int k = 0; k <= FTK_WIN_NAMES; k++)
        for (size_t i = 0; i < w->nrange; i++) {
            const struct ftk_win_range *r = &w->range[i];
            const uint64_t begin = known_as(r, k);
            if (begin == 0 || !is_in(first, bytes, begin, r->bytes))
                continue;
            *at = (char *)((uintptr_t)r->base + (uintptr_t)(address - begin));
            return true;
        }
    return false;
}

static bool overlaps(uint64_t a, size_t na, uint64_t b, size_t nb)
{
    return na > 0 && nb > 0 && a < b + nb && b < a + na;
}

/* Whether the bytes that an address names are also those of another address of the two ranges, or
 * of one range at another place of it. */
static bool is_ambiguous(const struct ftk_win_range *a, const struct ftk_win_range *b)
{
    for (int i = 0; i <= FTK_WIN_NAMES; i++)
        for (int k = 0; k <= FTK_WIN_NAMES; k++) {
            const uint64_t x = known_as(a, i), y = known_as(b, k);
            if (x != 0 && y != 0 && (a != b || x != y) && overlaps(x, a->bytes, y, b->bytes))
                return true;
        }
    return false;
}

/* ---- ranges -------------------------------------------------------------------------- */

static bool is_clear(const struct ftk_win *w, const struct ftk_win_range *range)
{
    bool clear = !is_ambiguous(range, range);
    for (size_t i = 0; i < w->nrange; i++)
        clear = clear && !is_ambiguous(&w->range[i], range);
    return clear;
}

/* MPI_ERR_RMA_ATTACH: an address of the range would name other memory, too. */
static int add_range(struct ftk_win *w, struct ftk_win_range range)
{
    if (!is_clear(w, &range))
        return MPI_ERR_RMA_ATTACH;
    if (!ftk_grow(&w->range, &w->range_room, w->nrange + 1, sizeof *w->range))
        return MPI_ERR_NO_MEM;
    w->range[w->nrange++] = range;
    return MPI_SUCCESS;
}

/* Set-up has attached the range by this name: others may know it.  The oldest name but the first
 * goes, if there is no room. */
static void add_name(struct ftk_win_range *range, uint64_t name)
{
    int k = 0;
    while (k < FTK_WIN_NAMES && range->name[k] != name && (k == 0 || range->name[k] != 0))
        k++;
    if (k == FTK_WIN_NAMES)
        memmove(&range->name[1], &range->name[2], (FTK_WIN_NAMES - 2) * sizeof *range->name);
    range->name[k < FTK_WIN_NAMES ? k : FTK_WIN_NAMES - 1] = name;
}

const char *ftk_win_ranges_unfit(const struct ftk_win *w)
{
    for (size_t i = 0; i < w->nrange; i++) {
        if (w->range[i].bytes > 0 && !ftk_win_memory_fits(w->range[i].base, w->range[i].bytes))
            return "memory is attached that is not in one region, or in one whose items have holes "
                   "(register all of the memory before, or call MPI_Win_detach)";
    }
    return NULL;
}

/* ---- in a set: the number of ranges, then for each of them these words ---------------- */

enum { NAME, MEMORY = NAME + FTK_WIN_NAMES, WORDS = MEMORY + FTK_WIN_MEMORY_WORDS };

size_t ftk_win_ranges_words(const struct ftk_win *w)
{
    return 1 + w->nrange * WORDS;
}

/* The cut has found a region for each of them that has bytes. */
uint64_t *ftk_win_ranges_save(const struct ftk_win *w, uint64_t *to)
{
    *to++ = w->nrange;
    for (size_t i = 0; i < w->nrange; i++, to += WORDS) {
        const struct ftk_win_range *r = &w->range[i];
        memcpy(to + NAME, r->name, sizeof r->name);
        ftk_win_memory_save(r->base, r->bytes, to + MEMORY);
    }
    return to;
}

/* A range of no bytes needs no region.  old [n]: see load_range(). */
static char *without_region(
    const struct ftk_win *w, uint64_t name, const struct ftk_win_range *old, size_t n)
{
    char *other = NULL;
    for (size_t i = 0; i < n; i++) {
        bool used = old[i].bytes > 0;
        if (!used && old[i].name[0] == name)
            return old[i].base;
        for (size_t k = 0; k < w->nrange; k++)
            used = used || w->range[k].base == old[i].base;
        if (!used && !other)
            other = old[i].base; /* another start of the job has another address */
    }
    return other ? other : (char *)(uintptr_t)name; // NOLINT(performance-no-int-to-ptr)
}

/* old [n]: the ranges that set-up of this start has attached. */
static int load_range(
    struct ftk_win *w, const uint64_t *from, const struct ftk_win_range *old, size_t n)
{
    struct ftk_win_range range = { .base = NULL };
    int rc = FTKIT_OK;
    if (ftk_win_memory_is_none(from + MEMORY))
        range.base = without_region(w, from[NAME], old, n);
    else
        rc = ftk_win_memory_load(from + MEMORY, &range.base, &range.bytes);
    if (rc != FTKIT_OK)
        return rc;
    memcpy(range.name, from + NAME, sizeof range.name);
    for (size_t i = 0; i < n; i++)
        if (old[i].base == range.base)
            add_name(&range, old[i].name[0]);
    rc = add_range(w, range);
    if (rc == MPI_ERR_NO_MEM)
        return ftk_fail(FTKIT_ERR_NOMEM, "windows of a set");
    return rc == MPI_SUCCESS ? FTKIT_OK
                             : ftk_fail(FTKIT_ERR_STATE,
                                 "memory of a dynamic window is at 0x%" PRIx64
                                 ", where the lost process had other memory of the window",
                                 address_of(&range));
}

int ftk_win_ranges_load(struct ftk_win *w, const uint64_t **from, const uint64_t *end)
{
    const uint64_t n = *from < end ? **from : UINT64_MAX;
    if (n > (uint64_t)(end - *from - 1) / WORDS || (w && !w->dynamic))
        return ftk_fail(FTKIT_ERR_FORMAT, "windows of a set: damaged");
    const uint64_t *at = *from + 1;
    int rc = FTKIT_OK;
    *from = at + n * WORDS;
    if (!w)
        return rc;
    /* what set-up has attached is in the set, unless the loop has detached it */
    struct ftk_win_range *old = w->range;
    const size_t nold = w->nrange;
    w->range = NULL;
    w->nrange = w->range_room = 0;
    for (; rc == FTKIT_OK && at < *from; at += WORDS)
        rc = load_range(w, at, old, nold);
    free(old);
    return rc;
}

/* ---- the calls ----------------------------------------------------------------------- */

/* The queues of the origins may come at any time of an exposure.  A replay would apply them in
 * another place among these calls. */
static int check_exposure(const struct ftk_win *w, const char *call)
{
    if (!w->exposure)
        return MPI_SUCCESS;
    ftk_report(FTKIT_ERROR,
        "rank %d: %s while the window is exposed by MPI_Win_post: a replay would not repeat the "
        "order (call %s before MPI_Win_post or after MPI_Win_wait)",
        ftk_log.me, call, call);
    return MPI_ERR_RMA_SYNC;
}

static int attach(struct ftk_win *w, void *base, MPI_Aint size)
{
    struct ftk_win_range range = { { (uintptr_t)base }, base, (size_t)size };
    if (ftk_log_is_rolling_back())
        return ftk_log_error();
    if (!w->dynamic)
        return MPI_ERR_RMA_FLAVOR;
    if (size < 0)
        return MPI_ERR_SIZE;
    int rc = check_exposure(w, "MPI_Win_attach");
    if (rc == MPI_SUCCESS && !ftk_win_check_memory("MPI_Win_attach", base))
        rc = MPI_ERR_RMA_ATTACH;
    if (rc != MPI_SUCCESS)
        return rc;
    rc = ftk_det_decide(&range.name[0], sizeof range.name[0]);
    if (rc != FTKIT_OK)
        ftk_report(FTKIT_ERROR, "rank %d: MPI_Win_attach: %s", ftk_log.me, ftk_detail_text());
    if (rc != FTKIT_OK)
        return rc == FTKIT_ERR_UNSUPPORTED ? MPI_ERR_UNSUPPORTED_OPERATION : MPI_ERR_RMA_ATTACH;
    (void)FTK_FAULT("win.attached");
    return add_range(w, range);
}

int ftk_mpi_Win_attach(MPI_Win win, void *base, MPI_Aint size)
{
    struct ftk_win *w = ftk_win_find(win);
    if (!w)
        return ftk_win_is_gone(win) ? ftk_log_error() : PMPI_Win_attach(win, base, size);
    return ftk_win_end(w, attach(w, base, size));
}

static int detach(struct ftk_win *w, const void *base)
{
    size_t i = 0;
    if (ftk_log_is_rolling_back())
        return ftk_log_error();
    if (!w->dynamic)
        return MPI_ERR_RMA_FLAVOR;
    const int rc = check_exposure(w, "MPI_Win_detach");
    if (rc != MPI_SUCCESS)
        return rc;
    while (i < w->nrange && w->range[i].base != base)
        i++;
    if (i == w->nrange)
        return MPI_ERR_BASE;
    w->range[i] = w->range[--w->nrange];
    return MPI_SUCCESS;
}

int ftk_mpi_Win_detach(MPI_Win win, const void *base)
{
    struct ftk_win *w = ftk_win_find(win);
    if (!w)
        return ftk_win_is_gone(win) ? ftk_log_error() : PMPI_Win_detach(win, base);
    return ftk_win_end(w, detach(w, base));
}
