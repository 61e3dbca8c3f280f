/* The sets of a context in its directory, whichever durable level has them (see sets.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "sets.h"

#define DECLARE(NAME, word, doc) extern const struct ftk_level_ops ftk_level_##word;
FTK_DURABLE_LEVELS(DECLARE)
#undef DECLARE

#define LINE(NAME, word, doc) &ftk_level_##word,
static const struct ftk_level_ops *const levels[] = { FTK_DURABLE_LEVELS(LINE) };
#undef LINE

/* ---- levels -------------------------------------------------------------------------- */

const struct ftk_level_ops *ftk_sets_level(int number)
{
    return levels[number];
}

/* Only the first level is not asked: so with one level no file is looked at. */
const struct ftk_level_ops *ftk_sets_level_of(const char *dir, const char *context, uint64_t set)
{
    for (int i = 1; i < FTK_DURABLES; i++) {
        const int fd = ftk_sets_dir_open_set(dir, context, levels[i]->word, set);
        if (fd < 0)
            continue;
        (void)close(fd);
        return levels[i];
    }
    return levels[0];
}

bool ftk_sets_in_background(const struct ftk_level_ops *level)
{
    return !level->in_background || level->in_background();
}

void ftk_sets_prepare(void)
{
    for (int i = 0; i < FTK_DURABLES; i++)
        (void)ftk_sets_in_background(levels[i]);
}

/* ---- writing ------------------------------------------------------------------------- */

/* The number must be free in this level: an unfinished set goes. */
static int free_number(const struct ftk_level_ops *level, const char *dir, const char *context,
    uint64_t set, const struct ftk_still *still)
{
    struct ftk_set_entry e;
    int rc = level->examine(dir, context, set, &e);
    if (rc == FTKIT_ERR_NOT_FOUND)
        return FTKIT_OK;
    if (rc != FTKIT_OK)
        return rc;
    if (e.state != FTK_SET_INCOMPLETE)
        return ftk_fail(FTKIT_ERR_EXISTS,
            "set %" PRIu64 " of '%s' in %s is there, in another format", set, context, dir);
    rc = still ? still->ask(still->arg) : FTKIT_OK;
    return rc == FTKIT_OK ? level->remove(dir, context, set) : rc;
}

int ftk_sets_make(const struct ftk_level_ops *level, const char *dir, const char *context,
    uint64_t set, uint64_t flush, const struct ftk_still *still)
{
    int rc = FTKIT_OK;
    for (int i = 0; rc == FTKIT_OK && i < FTK_DURABLES; i++)
        if (levels[i] != level)
            rc = free_number(levels[i], dir, context, set, still);
    return rc == FTKIT_OK ? level->make(dir, context, set, flush, still) : rc;
}

int ftk_sets_begin(const struct ftk_level_ops *level, const char *dir, const char *context,
    uint64_t set, uint64_t flush, const struct ftk_still *still)
{
    int rc = ftk_sets_make(level, dir, context, set, flush, still);
    return rc == FTKIT_OK ? ftk_sets_dir_sync(dir, context, set) : rc;
}

/* ---- finding ------------------------------------------------------------------------- */

static int newest_first(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x > y ? -1 : x < y;
}

/* Add the numbers of a level. */
static int add_numbers(const struct ftk_level_ops *level, const char *dir, const char *context,
    uint64_t **sets, size_t *n)
{
    uint64_t *more = NULL;
    size_t nmore = 0;
    int rc = ftk_sets_dir_numbers(dir, context, level->word, &more, &nmore);
    uint64_t *all = rc == FTKIT_OK && nmore > 0 ? realloc(*sets, (*n + nmore) * sizeof *all) : NULL;
    if (rc == FTKIT_OK && nmore > 0 && !all)
        rc = ftk_fail(FTKIT_ERR_NOMEM, "list of sets");
    if (all) {
        *sets = all;
        for (size_t i = 0; i < nmore; i++)
            all[(*n)++] = more[i];
    }
    free(more);
    return rc;
}

int ftk_sets_numbers(const char *dir, const char *context, uint64_t **sets, size_t *n)
{
    uint64_t *all = NULL;
    size_t have = 0, used = 0;
    int rc = FTKIT_OK;
    for (int i = 0; rc == FTKIT_OK && i < FTK_DURABLES; i++)
        rc = add_numbers(levels[i], dir, context, &all, &have);
    if (rc != FTKIT_OK) {
        free(all);
        return rc;
    }
    if (have > 0)
        qsort(all, have, sizeof *all, newest_first);
    for (size_t i = 0; i < have; i++) /* a number that two levels have counts once */
        if (used == 0 || all[used - 1] != all[i])
            all[used++] = all[i];
    *sets = all;
    *n = used;
    return FTKIT_OK;
}

static int open_set(
    const char *dir, const char *context, uint64_t set, bool parts, struct ftk_manifest *m)
{
    const struct ftk_level_ops *level = ftk_sets_level_of(dir, context, set);
    int rc = level->open(dir, context, set, parts, m);
    if (rc == FTKIT_OK)
        m->level = level;
    return rc;
}

int ftk_sets_open(const char *dir, const char *context, uint64_t set, struct ftk_manifest *m)
{
    return open_set(dir, context, set, true, m);
}

int ftk_sets_manifest(const char *dir, const char *context, uint64_t set, struct ftk_manifest *m)
{
    return open_set(dir, context, set, false, m);
}

int ftk_sets_examine(const char *dir, const char *context, uint64_t set, struct ftk_set_entry *e)
{
    return ftk_sets_level_of(dir, context, set)->examine(dir, context, set, e);
}

int ftk_sets_remove(const char *dir, const char *context, uint64_t set)
{
    return ftk_sets_level_of(dir, context, set)->remove(dir, context, set);
}

/* The set of one number. */
struct one {
    uint64_t set;
    int how;         /* result of ftk_sets_open() */
    uint64_t run;    /* of a complete set */
    bool unfinished; /* never finished: FTK_SET_INCOMPLETE */
};

static int evaluate(const char *dir, const char *context, struct one *v)
{
    struct ftk_manifest m = { 0 };
    struct ftk_set_entry e;
    v->how = ftk_sets_open(dir, context, v->set, &m);
    v->run = m.run;
    ftk_manifest_free(&m);
    if (v->how == FTKIT_ERR_NOMEM)
        return v->how;
    v->unfinished = v->how != FTKIT_OK && ftk_sets_examine(dir, context, v->set, &e) == FTKIT_OK
                    && e.state == FTK_SET_INCOMPLETE;
    return FTKIT_OK;
}

/* All sets, newest first, malloc'd, also after an error. */
static int evaluate_all(const char *dir, const char *context, struct one **v, size_t *n)
{
    uint64_t *sets = NULL;
    size_t all = 0;
    *v = NULL;
    *n = 0;
    int rc = ftk_sets_numbers(dir, context, &sets, &all);
    if (rc == FTKIT_OK && !(*v = calloc(all + 1, sizeof **v)))
        rc = ftk_fail(FTKIT_ERR_NOMEM, "list of sets");
    for (size_t i = 0; rc == FTKIT_OK && i < all; i++) {
        (*v)[i].set = sets[i];
        rc = evaluate(dir, context, &(*v)[i]);
        if (rc == FTKIT_OK)
            *n = i + 1;
    }
    free(sets);
    return rc;
}

int ftk_sets_list(const char *dir, const char *context, uint64_t **sets, int *nsets)
{
    struct one *v;
    size_t all;
    int n = 0;
    int rc = evaluate_all(dir, context, &v, &all);
    uint64_t *good = rc == FTKIT_OK ? malloc((all + 1) * sizeof *good) : NULL;
    if (rc == FTKIT_OK && !good)
        rc = ftk_fail(FTKIT_ERR_NOMEM, "list of sets");
    for (size_t i = 0; good && i < all; i++)
        if (v[i].how == FTKIT_OK)
            good[n++] = v[i].set;
    if (good) {
        *sets = good;
        *nsets = n;
    }
    free(v);
    return rc;
}

int ftk_sets_survey(const char *dir, const char *context, struct ftk_set_entry **v, size_t *n)
{
    uint64_t *sets = NULL;
    size_t all = 0, have = 0;
    int rc = ftk_sets_numbers(dir, context, &sets, &all);
    if (rc != FTKIT_OK)
        return rc;
    struct ftk_set_entry *e = calloc(all ? all : 1, sizeof *e);
    if (!e)
        rc = ftk_fail(FTKIT_ERR_NOMEM, "list of sets");
    for (size_t i = 0; i < all && rc == FTKIT_OK; i++) {
        rc = ftk_sets_examine(dir, context, sets[i], &e[have]);
        if (rc == FTKIT_OK)
            have++;
        else if (rc == FTKIT_ERR_NOT_FOUND) /* just removed, or no directory */
            rc = FTKIT_OK;
    }
    free(sets);
    if (rc != FTKIT_OK) {
        free(e);
        return rc;
    }
    *v = e;
    *n = have;
    return FTKIT_OK;
}

int ftk_sets_prune(const char *dir, const char *context, uint64_t run, int keep)
{
    struct one *v;
    size_t n;
    int complete = 0;
    if (keep < 1)
        return ftk_fail(FTKIT_ERR_ARG, "cannot keep %d sets", keep);
    int rc = evaluate_all(dir, context, &v, &n);
    for (size_t i = 0; i < n; i++) {
        bool own = v[i].how == FTKIT_OK && v[i].run == run;
        complete += own;
        /* a set that is newer than the newest complete set stays: it may still be written */
        if (complete == 0 || !(own ? complete > keep : v[i].unfinished))
            continue;
        int failed = ftk_sets_remove(dir, context, v[i].set);
        if (rc == FTKIT_OK)
            rc = failed;
    }
    free(v);
    return rc;
}

/* ---- reading ------------------------------------------------------------------------- */

/* arg: the pointer that the caller frees. */
static int heap_room(void *arg, size_t bytes, void **at)
{
    void **seg = arg;
    *seg = aligned_alloc(FTK_SEG_REGION_ALIGN,
        (bytes + FTK_SEG_REGION_ALIGN - 1) & ~(size_t)(FTK_SEG_REGION_ALIGN - 1));
    *at = *seg;
    return *seg ? FTKIT_OK : ftk_fail(FTKIT_ERR_NOMEM, "a segment of %zu bytes", bytes);
}

int ftk_sets_read(
    const char *dir, const struct ftk_manifest *m, int rank, void **seg, size_t *bytes)
{
    void *s = NULL;
    int rc = m->level->read(dir, m, rank, heap_room, &s);
    if (rc == FTKIT_OK) {
        *seg = s;
        *bytes = ftk_seg_bytes(s);
    } else {
        free(s);
    }
    return rc;
}

int ftk_sets_region(const char *dir, const struct ftk_manifest *m, uint32_t rank,
    const char *region, void **seg, const struct ftk_seg_region **record)
{
    size_t bytes;
    if (m->level->region)
        return m->level->region(dir, m, rank, region, seg, record);
    int rc = ftk_sets_read(dir, m, (int)rank, seg, &bytes);
    if (rc != FTKIT_OK)
        return rc;
    *record = ftk_seg_find(*seg, region);
    if (*record)
        return FTKIT_OK;
    free(*seg);
    *seg = NULL;
    return ftk_fail(
        FTKIT_ERR_NOT_FOUND, "set %" PRIu64 ", rank %u: no region '%s'", m->set, rank, region);
}
