/* Segments in anonymous memory (see memory.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "memory.h"

#define PAGE 4096u
#define HUGE_PAGE (2u << 20)
#define HUGE_FROM (8u << 20) /* below, rounding to huge pages would waste too much */

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

static int map(struct ftk_mem_seg *s, size_t bytes)
{
    bool huge = bytes >= HUGE_FROM;
    if (bytes > SIZE_MAX - HUGE_PAGE)
        return ftk_fail(FTKIT_ERR_NOMEM, "a segment of %zu bytes", bytes);
    size_t cap = round_up(bytes, huge ? HUGE_PAGE : PAGE);
    char *p = MAP_FAILED;
    if (!FTK_FAULT("memory.map"))
        p = mmap(NULL, cap, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return ftk_fail_errno(ENOMEM, "%zu bytes of checkpoint memory", cap);
    if (huge) /* a hint: without huge pages everything works the same, slower */
        (void)madvise(p, cap, MADV_HUGEPAGE);
    s->buf = p;
    s->cap = cap;
    return FTKIT_OK;
}

static void unmap(struct ftk_mem_seg *s)
{
    if (s->buf)
        (void)munmap(s->buf, s->cap);
    s->buf = NULL;
    s->cap = 0;
}

int ftk_mem_reserve(struct ftk_mem_seg *s, size_t bytes)
{
    if (s->cap >= bytes)
        return FTKIT_OK;
    unmap(s);
    /* a little room, so that growing regions do not map anew at every set */
    return map(s, bytes + bytes / 64);
}

/* The free buffer that fits best: the smallest that is large enough, else the largest. */
static struct ftk_mem_seg *best_free(const struct ftk_mem *m, size_t bytes)
{
    struct ftk_mem_seg *best = NULL;
    for (int i = 0; i < m->nsegs; i++) {
        struct ftk_mem_seg *s = m->segs[i];
        if (s->set != 0 || s->held)
            continue;
        bool fits = s->cap >= bytes;
        bool best_fits = best && best->cap >= bytes;
        if (!best || (fits && !best_fits) || (fits && s->cap < best->cap)
            || (!fits && !best_fits && s->cap > best->cap))
            best = s;
    }
    return best;
}

int ftk_mem_take(struct ftk_mem *m, uint64_t set, int rank, int nranks, size_t bytes,
    struct ftk_mem_seg **out)
{
    struct ftk_mem_seg *s = best_free(m, bytes);
    if (!s) {
        struct ftk_mem_seg **segs
            = realloc(m->segs, ((size_t)m->nsegs + 1) * sizeof *segs);
        if (!segs)
            return ftk_fail(FTKIT_ERR_NOMEM, "list of segments");
        m->segs = segs;
        s = calloc(1, sizeof *s);
        if (!s)
            return ftk_fail(FTKIT_ERR_NOMEM, "list of segments");
        m->segs[m->nsegs++] = s;
    }
    int rc = ftk_mem_reserve(s, bytes);
    if (rc != FTKIT_OK)
        return rc;
    s->set = set;
    s->rank = rank;
    s->nranks = nranks;
    s->bytes = bytes;
    s->sealed = s->verified = false;
    *out = s;
    return FTKIT_OK;
}

struct ftk_mem_seg *ftk_mem_find(const struct ftk_mem *m, uint64_t set, int rank)
{
    for (int i = 0; i < m->nsegs; i++) {
        struct ftk_mem_seg *s = m->segs[i];
        if (s->set == set && set != 0 && s->rank == rank && s->sealed)
            return s;
    }
    return NULL;
}

int ftk_mem_verify_head(const struct ftk_mem_seg *s, const char *what)
{
    bool good = s->verified || ftk_seg_check_head(s->buf, s->bytes, what) == FTKIT_OK;
    return good ? FTKIT_OK : FTKIT_ERR_CORRUPT;
}

int ftk_mem_verify(struct ftk_mem_seg *s, const char *what)
{
    if (s->verified)
        return FTKIT_OK;
    int rc = ftk_mem_verify_head(s, what);
    if (rc == FTKIT_OK)
        rc = ftk_seg_check_data(s->buf, what);
    s->verified = rc == FTKIT_OK;
    return rc;
}

/* Only lowers the memory in use; the buffer stays valid without it. */
static void give_pages_back(const struct ftk_mem_seg *s)
{
    if (s->buf)
        (void)madvise(s->buf, s->cap, MADV_FREE);
}

void ftk_mem_release(struct ftk_mem_seg *s)
{
    if (s->set == 0)
        return;
    s->set = 0;
    s->sealed = s->verified = false;
    s->bytes = 0;
    if (!s->held)
        give_pages_back(s);
}

void ftk_mem_hold(struct ftk_mem *m, struct ftk_mem_seg *s)
{
    int n = 1;
    for (int i = 0; i < m->nsegs; i++)
        n += m->segs[i]->held;
    m->nheld_max = n > m->nheld_max ? n : m->nheld_max;
    s->held = true;
    s->held_bytes = s->bytes;
}

void ftk_mem_unhold(struct ftk_mem_seg *s)
{
    s->held = false;
    if (s->set == 0)
        give_pages_back(s);
}

void ftk_mem_drop_others(struct ftk_mem *m, uint64_t keep)
{
    for (int i = 0; i < m->nsegs; i++)
        if (m->segs[i]->set != keep)
            ftk_mem_release(m->segs[i]);
    ftk_mem_trim(m);
}

size_t ftk_mem_used(const struct ftk_mem *m)
{
    size_t sum = 0;
    for (int i = 0; i < m->nsegs; i++)
        sum += m->segs[i]->set    ? m->segs[i]->bytes
               : m->segs[i]->held ? m->segs[i]->held_bytes
                                  : 0;
    return sum;
}

void ftk_mem_trim(struct ftk_mem *m)
{
    int used = m->nheld_max;
    int spare = 0;
    int kept = 0;
    for (int i = 0; i < m->nsegs; i++)
        used += m->segs[i]->set != 0;
    for (int i = 0; i < m->nsegs; i++) {
        struct ftk_mem_seg *s = m->segs[i];
        if (s->set == 0 && !s->held && ++spare > used) {
            unmap(s);
            free(s);
        } else {
            m->segs[kept++] = s;
        }
    }
    m->nsegs = kept;
}

void ftk_mem_close(struct ftk_mem *m)
{
    for (int i = 0; i < m->nsegs; i++) {
        unmap(m->segs[i]);
        free(m->segs[i]);
    }
    free(m->segs);
    m->segs = NULL;
    m->nsegs = 0;
}
