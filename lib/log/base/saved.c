/* Places and datatypes of what is under way (see saved.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "log/base/saved.h"
#include "core/grow.h"
#include "set/region.h"

#define NAME_WORDS ((FTKIT_NAME_MAX + 1) / sizeof(uint64_t))
_Static_assert((FTKIT_NAME_MAX + 1) % sizeof(uint64_t) == 0, "a name is whole words");

static bool is_near(ptrdiff_t offset)
{
    return offset >= -FTK_FAR && offset <= FTK_FAR;
}

int ftk_saved_span(size_t count, MPI_Datatype type, ptrdiff_t *low, ptrdiff_t *end)
{
    MPI_Aint lb, extent, true_lb, true_extent = 0;
    *low = *end = 0;
    if (count == 0)
        return MPI_SUCCESS;
    int rc = PMPI_Type_get_extent(type, &lb, &extent);
    if (rc == MPI_SUCCESS)
        rc = PMPI_Type_get_true_extent(type, &true_lb, &true_extent);
    if (rc != MPI_SUCCESS || true_extent == 0)
        return rc;
    ptrdiff_t rest;
    if (__builtin_mul_overflow((ptrdiff_t)count - 1, extent, &rest) || !is_near(rest)
        || !is_near(true_lb) || !is_near(true_extent))
        return MPI_ERR_COUNT;
    *low = true_lb + (rest < 0 ? rest : 0);
    *end = true_lb + true_extent + (rest > 0 ? rest : 0);
    return rc;
}

/* ---- writing ------------------------------------------------------------------------- */

static int number_of(struct ftk_saving *s, const struct ftk_region *r, uint64_t *number)
{
    for (size_t i = 0; i < s->nregions; i++)
        if (s->region[i] == r) {
            *number = i;
            return FTKIT_OK;
        }
    if (!ftk_grow(&s->region, &s->room, s->nregions + 1, sizeof(struct ftk_region *)))
        return ftk_fail(FTKIT_ERR_NOMEM, "requests of a set");
    *number = s->nregions;
    s->region[s->nregions++] = r;
    return FTKIT_OK;
}

int ftk_saving_place(
    struct ftk_saving *s, const void *p, ptrdiff_t low, ptrdiff_t end, uint64_t *place, bool *found)
{
    uintptr_t first, last;
    const uintptr_t at = (uintptr_t)p;
    place[0] = FTK_NO_PLACE;
    place[1] = 0;
    *found = low == end;
    if (*found)
        return FTKIT_OK;
    const struct ftk_region *r =
        ftk_region_around(s->ctx, at + (uintptr_t)low, at + (uintptr_t)end);
    *found = r && ftk_region_memory(r, &first, &last);
    if (!*found)
        return FTKIT_OK;
    place[1] = at - first;
    return number_of(s, r, &place[0]);
}

int ftk_saving_heads(const struct ftk_saving *s, struct ftk_words *out)
{
    uint64_t *w = ftk_words_extend(out, 2 + s->nregions * NAME_WORDS + s->types.w.n);
    if (!w)
        return ftk_fail(FTKIT_ERR_NOMEM, "requests of a set");
    *w++ = s->nregions;
    for (size_t i = 0; i < s->nregions; i++, w += NAME_WORDS)
        memcpy(w, s->region[i]->name, FTKIT_NAME_MAX + 1);
    *w++ = s->types.n;
    if (s->types.w.n > 0)
        memcpy(w, s->types.w.v, s->types.w.n * sizeof *w);
    return FTKIT_OK;
}

void ftk_saving_free(struct ftk_saving *s)
{
    free(s->region);
    ftk_typemap_free(&s->types);
    ftk_words_free(&s->w);
    *s = (struct ftk_saving){ 0 };
}

/* ---- reading ------------------------------------------------------------------------- */

int ftk_loading_damaged(void)
{
    return ftk_fail(FTKIT_ERR_FORMAT, "state of the message log: a request is damaged");
}

const uint64_t *ftk_loading_take(struct ftk_loading *l, uint64_t n)
{
    const uint64_t *w = l->w;
    if (n > (uint64_t)(l->end - l->w))
        return NULL;
    l->w += n;
    return w;
}

static int read_regions(struct ftk_loading *l, uint64_t n)
{
    l->region = calloc((size_t)n + 1, sizeof(struct ftk_region *));
    if (!l->region)
        return ftk_fail(FTKIT_ERR_NOMEM, "requests of a set");
    for (uint64_t i = 0; i < n; i++) {
        char name[FTKIT_NAME_MAX + 1];
        memcpy(name, ftk_loading_take(l, NAME_WORDS), sizeof name);
        if (!memchr(name, '\0', sizeof name))
            return ftk_loading_damaged();
        for (int k = 0; k < l->ctx->regions.n; k++)
            if (strcmp(l->ctx->regions.list[k].name, name) == 0)
                l->region[i] = &l->ctx->regions.list[k];
        if (!l->region[i])
            return ftk_fail(FTKIT_ERR_NOT_FOUND,
                "the set has a request whose memory is in region '%s', which is not registered",
                name);
        l->nregions++;
    }
    return FTKIT_OK;
}

int ftk_loading_heads(struct ftk_loading *l)
{
    const uint64_t *n = ftk_loading_take(l, 1);
    if (!n || *n > (uint64_t)(l->end - l->w) / NAME_WORDS)
        return ftk_loading_damaged();
    int rc = read_regions(l, *n);
    n = rc == FTKIT_OK ? ftk_loading_take(l, 1) : NULL;
    if (rc == FTKIT_OK && !n)
        rc = ftk_loading_damaged();
    return rc == FTKIT_OK ? ftk_types_read(&l->w, l->end, *n, &l->types) : rc;
}

int ftk_loading_address(
    const struct ftk_loading *l, const uint64_t *place, ptrdiff_t low, ptrdiff_t end, void **p)
{
    uintptr_t first = 0, last = 0;
    *p = NULL;
    if (place[0] == FTK_NO_PLACE)
        return low == end ? FTKIT_OK : ftk_loading_damaged();
    if (place[0] >= l->nregions || !is_near((ptrdiff_t)place[1]))
        return ftk_loading_damaged();
    const struct ftk_region *r = l->region[place[0]];
    const bool any = ftk_region_memory(r, &first, &last);
    const int64_t room = (int64_t)(last - first), from = (int64_t)place[1] + low;
    if (!any || from < 0 || from > room || end - low > room - from)
        return ftk_fail(FTKIT_ERR_SIZE,
            "region '%s' is smaller than the memory that a request of the set has in it", r->name);
    *p = (void *)(first + (uintptr_t)place[1]); // NOLINT(performance-no-int-to-ptr)
    return FTKIT_OK;
}

void ftk_loading_free(struct ftk_loading *l, int (*release)(MPI_Datatype *type))
{
    free(l->region);
    ftk_types_free(&l->types, release);
    *l = (struct ftk_loading){ 0 };
}
