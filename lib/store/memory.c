/* Segments in memory (see memory.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/memory_kind.h"
#include "memory.h"

#define PAGE 4096u
#define HUGE_FROM (8u << 20) /* below, rounding to huge pages would waste too much */

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

static int map(struct ftk_mem_seg *s, size_t bytes)
{
    bool huge = bytes >= HUGE_FROM;
    if (bytes > SIZE_MAX - FTK_HUGE_PAGE)
        return ftk_fail(FTKIT_ERR_NOMEM, "a segment of %zu bytes", bytes);
    size_t cap = round_up(bytes, huge ? FTK_HUGE_PAGE : PAGE);
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

/* A device would go on using the pages of an address, whatever is mapped there later.  false: it
 * does, and the memory has to stay. */
static bool unpin(struct ftk_mem_seg *s)
{
    const bool free = s->pinned == FTK_MEMORY_HOST || ftk_memory_ops_of(s->pinned)->unpin(s->buf);
    if (!free)
        ftk_report(FTKIT_WARNING, "a device does not release %zu bytes of memory: they stay mapped",
            s->cap);
    s->pinned = FTK_MEMORY_HOST;
    return free;
}

void ftk_mem_pin(struct ftk_mem_seg *s, enum ftk_memory_kind kind, const void *like)
{
    static bool warned;
    const struct ftk_memory_ops *ops = ftk_memory_ops_of(kind);
    if (s->pinned != FTK_MEMORY_HOST || !ops->pin || !s->buf)
        return;
    if (!FTK_FAULT("memory.pin") && ops->pin(s->buf, s->cap, like))
        s->pinned = kind;
    else if (!warned)
        ftk_report(FTKIT_WARNING,
            "%zu bytes of checkpoint memory cannot be pinned for %s memory (a limit of locked "
            "memory, ulimit -l): copies are slower",
            s->cap, ops->name);
    warned = warned || s->pinned == FTK_MEMORY_HOST;
}

static void unmap(struct ftk_mem_seg *s, bool keep)
{
    const bool free = unpin(s);
    if (s->buf && s->place)
        ftk_place_unmap(s->place, s, keep);
    else if (s->buf && free)
        (void)munmap(s->buf, s->cap);
    s->buf = NULL;
    s->cap = 0;
}

static int reserve(struct ftk_mem *m, struct ftk_mem_seg *s, size_t bytes)
{
    if (s->cap >= bytes)
        return FTKIT_OK;
    unmap(s, false);
    /* a little room, so that a growing region does not need a new mapping at every set */
    bytes += bytes / 64;
    if (!ftk_place_is(m->place.kind, FTK_OUTLIVES_PROCESS))
        return map(s, bytes);
    int rc = ftk_place_map(&m->place, s, bytes);
    if (rc == FTKIT_OK || rc == FTKIT_ERR_NOMEM || !ftk_place_is(m->place.kind, FTK_OF_RUN))
        return rc;
    /* shared memory is memory: without room there the segment is in the process, which no relaunch
     * finds; the levels behind this one go on */
    m->lacked = bytes;
    s->place = NULL;
    return map(s, bytes);
}

int ftk_mem_add(struct ftk_mem *m, struct ftk_mem_seg *s)
{
    struct ftk_mem_seg **segs = realloc(m->segs, ((size_t)m->nsegs + 1) * sizeof *segs);
    if (!segs)
        return ftk_fail(FTKIT_ERR_NOMEM, "list of segments");
    m->segs = segs;
    m->segs[m->nsegs++] = s;
    return FTKIT_OK;
}

static bool is_free(const struct ftk_mem_seg *s)
{
    return s->set == 0 && !s->held;
}

/* The free buffer that fits best: the smallest that is large enough, else the largest. */
static struct ftk_mem_seg *best_free(const struct ftk_mem *m, size_t bytes)
{
    struct ftk_mem_seg *best = NULL;
    for (int i = 0; i < m->nsegs; i++) {
        struct ftk_mem_seg *s = m->segs[i];
        if (!is_free(s))
            continue;
        bool fits = s->cap >= bytes;
        bool best_fits = best && best->cap >= bytes;
        if (!best || (fits && !best_fits) || (fits && s->cap < best->cap)
            || (!fits && !best_fits && s->cap > best->cap))
            best = s;
    }
    return best;
}

static int add_empty(struct ftk_mem *m, struct ftk_mem_seg **out)
{
    struct ftk_mem_seg *s = calloc(1, sizeof *s);
    if (!s || ftk_mem_add(m, s) != FTKIT_OK) {
        free(s);
        return ftk_fail(FTKIT_ERR_NOMEM, "list of segments");
    }
    *out = s;
    return FTKIT_OK;
}

int ftk_mem_reserve(struct ftk_mem *m, size_t bytes, int n)
{
    int rc = FTKIT_OK;
    for (int i = 0; i < m->nsegs; i++)
        n -= is_free(m->segs[i]) && m->segs[i]->cap >= bytes;
    for (; rc == FTKIT_OK && n > 0; n--) {
        struct ftk_mem_seg *s;
        rc = add_empty(m, &s);
        if (rc == FTKIT_OK)
            rc = reserve(m, s, bytes);
    }
    return rc;
}

size_t ftk_mem_touch(struct ftk_mem *m, size_t touched, size_t most)
{
    for (int i = 0; i < m->nsegs; i++) {
        struct ftk_mem_seg *s = m->segs[i];
        if (!is_free(s))
            continue;
        if (touched < s->cap) {
            size_t n = s->cap - touched < most ? s->cap - touched : most;
            memset(s->buf + touched, 0, n);
            return n;
        }
        touched -= s->cap;
    }
    return 0;
}

int ftk_mem_take(
    struct ftk_mem *m, uint64_t set, int rank, int nranks, size_t bytes, struct ftk_mem_seg **out)
{
    struct ftk_mem_seg *s = best_free(m, bytes);
    int rc = s ? FTKIT_OK : add_empty(m, &s);
    if (rc == FTKIT_OK)
        rc = reserve(m, s, bytes);
    if (rc != FTKIT_OK)
        return rc;
    s->set = set;
    s->rank = rank;
    s->nranks = nranks;
    s->bytes = bytes;
    s->parity = s->sealed = s->verified = s->found = false;
    *out = s;
    return FTKIT_OK;
}

int ftk_mem_grow(struct ftk_mem *m, struct ftk_mem_seg *s, size_t bytes)
{
    if (s->cap < bytes) {
        struct ftk_mem_seg old = *s;
        s->buf = NULL;
        s->cap = 0;
        s->place = NULL;
        s->fd = -1;
        s->pinned = FTK_MEMORY_HOST;
        int rc = reserve(m, s, bytes);
        if (rc != FTKIT_OK) {
            *s = old;
            return rc;
        }
        memcpy(s->buf, old.buf, old.bytes);
        unmap(&old, false);
    }
    s->bytes = bytes;
    return FTKIT_OK;
}

static struct ftk_mem_seg *find(const struct ftk_mem *m, uint64_t set, int rank, bool parity)
{
    for (int i = 0; i < m->nsegs; i++) {
        struct ftk_mem_seg *s = m->segs[i];
        if (s->set == set && set != 0 && s->rank == rank && s->sealed && s->parity == parity)
            return s;
    }
    return NULL;
}

struct ftk_mem_seg *ftk_mem_find(const struct ftk_mem *m, uint64_t set, int rank)
{
    return find(m, set, rank, false);
}

struct ftk_mem_seg *ftk_mem_find_parity(const struct ftk_mem *m, uint64_t set, int rank)
{
    return find(m, set, rank, true);
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

int ftk_mem_seal(struct ftk_mem_seg *s)
{
    int rc = s->place ? ftk_place_seal(s->place, s) : FTKIT_OK;
    s->sealed = rc == FTKIT_OK;
    return rc;
}

void ftk_mem_unverify(struct ftk_mem *m)
{
    for (int i = 0; i < m->nsegs; i++)
        m->segs[i]->verified = false;
}

/* A hint that lowers the memory in use; the buffer stays valid. */
static void give_pages_back(const struct ftk_mem_seg *s)
{
    if (s->buf && !s->place && s->pinned == FTK_MEMORY_HOST) /* a device holds pinned pages */
        (void)madvise(s->buf, s->cap, MADV_FREE);
}

void ftk_mem_release(struct ftk_mem_seg *s)
{
    if (s->set == 0)
        return;
    /* also if the segment is not sealed: a header may have reached the place */
    if (s->place && ftk_place_wipe(s->place, s) != FTKIT_OK) {
        /* the slot must not be found again with other contents: remove it */
        ftk_report(FTKIT_WARNING, "%s", ftk_detail_text());
        if (!s->held)
            unmap(s, false);
        else
            s->spoilt = true;
    }
    s->set = 0;
    s->sealed = s->verified = s->found = false;
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
    if (s->spoilt)
        unmap(s, false);
    s->spoilt = false;
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

void ftk_mem_drop_newer(struct ftk_mem *m, uint64_t keep)
{
    for (int i = 0; i < m->nsegs; i++)
        if (m->segs[i]->set > keep)
            ftk_mem_release(m->segs[i]);
}

size_t ftk_mem_used(const struct ftk_mem *m)
{
    size_t sum = 0;
    for (int i = 0; i < m->nsegs; i++)
        sum += m->segs[i]->set ? m->segs[i]->bytes : m->segs[i]->held ? m->segs[i]->held_bytes : 0;
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
            unmap(s, false);
            free(s);
        } else {
            m->segs[kept++] = s;
        }
    }
    m->nsegs = kept;
}

void ftk_mem_leave(struct ftk_mem *m, bool all)
{
    int kept = 0;
    for (int i = 0; i < m->nsegs; i++) {
        struct ftk_mem_seg *s = m->segs[i];
        if (s->set == 0 || s->held || !(all || s->found)) {
            if (all)
                ftk_mem_release(s);
            m->segs[kept++] = s;
            continue;
        }
        unmap(s, s->sealed);
        free(s);
    }
    m->nsegs = kept;
}

void ftk_mem_close(struct ftk_mem *m, bool keep)
{
    ftk_place_forget_busy(&m->place);
    for (int i = 0; i < m->nsegs; i++) {
        unmap(m->segs[i], keep && m->segs[i]->sealed);
        free(m->segs[i]);
    }
    free(m->segs);
    m->segs = NULL;
    m->nsegs = 0;
}
