/* Places that outlive a process (see place.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/access.h"
#include "place_ops.h"

#define DECLARE(NAME, word, flags, doc) extern const struct ftk_place_ops ftk_place_##word;
FTK_PLACE_LIST(DECLARE)
#undef DECLARE
const struct ftk_place_ops ftk_place_memory = { .lacks = NULL }; /* it has no slots */

static const struct ftk_place_ops *ops_of(int place)
{
#define LINE(NAME, word, flags, doc) &ftk_place_##word,
    static const struct ftk_place_ops *const all[] = { FTK_PLACE_LIST(LINE) };
#undef LINE
    assert(place >= 0 && place < FTK_PLACES);
    return all[place];
}

/* ---- slots --------------------------------------------------------------------------- */

/* Whether text is PID.NUMBER. */
static bool is_number(const char *text)
{
    size_t pid = strspn(text, "0123456789");
    size_t n = text[pid] == '.' ? strspn(text + pid + 1, "0123456789") : 0;
    return pid > 0 && n > 0 && text[pid + 1 + n] == '\0';
}

/* Whether name is kind, then prefix without FTK_SLOT_PREFIX, then PID.NUMBER.  The numbers are
 * checked because the name of one context may begin with that of another. */
static bool is_like(const char *prefix, const char *kind, const char *name)
{
    if (!*prefix)
        return false;
    const char *rest = prefix + strlen(FTK_SLOT_PREFIX);
    size_t k = strlen(kind), r = strlen(rest);
    return strlen(name) < FTK_SLOT_NAME && strncmp(name, kind, k) == 0
           && strncmp(name + k, rest, r) == 0 && is_number(name + k + r);
}

/* Whether a slot is of this context, level and job. */
static bool is_own(const struct ftk_place *p, const char *kind, const char *name)
{
    return is_like(p->prefix, kind, name);
}

/* Whether a slot is of this context and level, and of another job. */
static bool is_other(const struct ftk_place *p, const char *name)
{
    char all[sizeof p->prefix];
    int n = snprintf(all, sizeof all, FTK_SLOT_PREFIX "%d-%s-", p->level, p->context);
    if (n < 0 || strncmp(name, all, (size_t)n) != 0 || is_own(p, FTK_SLOT_PREFIX, name))
        return false;
    size_t key = strspn(name + n, "0123456789abcdef");
    return key > 0 && name[(size_t)n + key] == '.' && is_number(name + n + key + 1);
}

bool ftk_place_is_slot(const char *name)
{
    const char *dot = strrchr(name, '.');
    while (dot && dot > name && dot[-1] != '.')
        dot--;
    bool slot = strncmp(name, FTK_SLOT_PREFIX, strlen(FTK_SLOT_PREFIX)) == 0
                || strncmp(name, FTK_SLOT_NEW, strlen(FTK_SLOT_NEW)) == 0;
    return slot && dot && strlen(name) < FTK_SLOT_NAME && is_number(dot);
}

int ftk_place_check(int kind, const char *key)
{
#define WORD(NAME, word, flags, doc) #word,
    static const char *const words[] = { FTK_PLACE_LIST(WORD) };
#undef WORD
    const struct ftk_place_ops *ops = ops_of(kind);
    if (ops->lacks)
        return ftk_fail(FTKIT_ERR_UNSUPPORTED,
            "%s = %s: this ftkit was built without %s; use file or shared", key, words[kind],
            ops->lacks);
    const char *why = ops->load ? ops->load() : NULL;
    if (!why)
        return FTKIT_OK;
    return ftk_fail(
        FTKIT_ERR_UNSUPPORTED, "%s = %s: %s; use file or shared", key, words[kind], why);
}

static void name_slots(const struct ftk_place *p, uint64_t key, char prefix[128])
{
    snprintf(
        prefix, 128, FTK_SLOT_PREFIX "%d-%s-%llx.", p->level, p->context, (unsigned long long)key);
}

void ftk_place_identify(struct ftk_place *p, const struct ftk_identity *id)
{
    p->identity = *id;
    if (!ftk_place_is(p->kind, FTK_OUTLIVES_PROCESS) || ftk_place_is(p->kind, FTK_OF_RUN))
        return; /* the names have the key of the run */
    name_slots(p, id->home, p->prefix);
    name_slots(p, 1, p->older);
}

int ftk_place_open(
    struct ftk_place *p, int kind, const char *dir, const char *context, int level, uint64_t key)
{
    struct stat st;
    memset(p, 0, sizeof *p);
    p->kind = kind;
    p->ops = ops_of(kind);
    p->access = p->ops->map ? &ftk_slot_file : &ftk_slot_object;
    if (!ftk_place_is(kind, FTK_OUTLIVES_PROCESS))
        return FTKIT_OK;
    snprintf(p->dir, sizeof p->dir, "%s", dir && *dir ? dir : "/dev/shm");
    snprintf(p->context, sizeof p->context, "%s", context);
    p->level = level;
    name_slots(p, key, p->prefix);
    p->found_again = key != 0;
    if (!p->ops->map) /* such a place may use a dir that is no path */
        return FTKIT_OK;
    p->absent =
        ftk_place_is(kind, FTK_OF_RUN) && !(dir && *dir) && access(p->dir, W_OK | X_OK) != 0;
    if (p->absent) /* see ftk_mem_take() */
        return FTKIT_OK;
    if (ftk_access_link(p->dir) != 0)
        return ftk_fail_errno(ELOOP, "%s is a link of another user", p->dir);
    if (stat(p->dir, &st) != 0)
        return ftk_fail_errno(errno, "%s", p->dir);
    if (!S_ISDIR(st.st_mode) || access(p->dir, W_OK | X_OK) != 0)
        return ftk_fail(FTKIT_ERR_IO, "%s is not a writable directory", p->dir);
    return FTKIT_OK;
}

/* ---- removing ------------------------------------------------------------------------ */

static void sweep_own(void *arg, const char *name)
{
    struct ftk_place *p = arg;
    if (is_own(p, FTK_SLOT_PREFIX, name) || is_own(p, FTK_SLOT_NEW, name))
        p->access->sweep(p, name);
}

static void sweep(struct ftk_place *p)
{
    p->kept = false;
    (void)p->access->list(p, sweep_own, p);
}

void ftk_place_sweep(struct ftk_place *p, uint64_t when)
{
    if (!ftk_place_is(p->kind, FTK_OUTLIVES_PROCESS) || p->swept == when)
        return;
    p->swept = when;
    sweep(p);
}

/* ---- in use -------------------------------------------------------------------------- */

static int make_slot(struct ftk_place *p, struct ftk_mem_seg *s, size_t bytes)
{
    int rc = p->access->make(p, s, bytes);
    if (rc != FTKIT_OK && s->fd >= 0)
        ftk_place_unmap(p, s, false);
    return rc;
}

int ftk_place_map(struct ftk_place *p, struct ftk_mem_seg *s, size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        return ftk_fail(FTKIT_ERR_NOMEM, "a segment of %zu bytes", bytes);
    size_t unit = bytes >= FTK_HUGE_PAGE ? FTK_HUGE_PAGE : FTK_SLOT_BYTES;
    bytes = (bytes + FTK_SLOT_BYTES + unit - 1) / unit * unit;
    int rc = make_slot(p, s, bytes);
    if (rc == FTKIT_ERR_NOSPACE && p->kept) { /* otherwise no further set could be written */
        ftk_report(FTKIT_WARNING,
            "%s: slots of an earlier job that were not needed are removed, because space is short",
            p->dir);
        sweep(p);
        rc = make_slot(p, s, bytes);
    }
    return rc;
}

void ftk_place_unmap(struct ftk_place *p, struct ftk_mem_seg *s, bool keep)
{
    p->access->close(p, s, keep);
    s->fd = -1;
    s->buf = NULL;
    s->cap = 0;
}

/* Wait until bytes have reached the place.  A slot can be trusted because its header is written
 * only after this wait for its segment. */
static int persist(struct ftk_place *p, struct ftk_mem_seg *s, const void *at, size_t bytes)
{
    int err = FTK_FAULT("place.persist");
    if (err == 0)
        err = p->access->persist(p, s, at, bytes);
    return err == 0 ? FTKIT_OK : ftk_fail_errno(err, "%s/%s", p->dir, s->name);
}

int ftk_place_seal(struct ftk_place *p, struct ftk_mem_seg *s)
{
    const struct ftk_seg_header *h = (const void *)s->buf;
    struct ftk_slot slot = { .version = FTK_SLOT_VERSION,
        .byte_order = FTK_SEG_BYTE_ORDER,
        .bytes = s->bytes,
        .set = s->set,
        .run = h->run,
        .epoch_id = h->epoch_id,
        .rank = (uint32_t)s->rank,
        .nranks = (uint32_t)s->nranks,
        .parity = s->parity,
        .home = p->identity.home };
    memcpy(slot.program, p->identity.program, sizeof slot.program);
    memcpy(slot.directory, p->identity.directory, sizeof slot.directory);
    memcpy(slot.magic, FTK_SLOT_MAGIC, sizeof slot.magic);
    memcpy(slot.context, h->context, sizeof slot.context);
    slot.sum = ftk_slot_sum(&slot);
    int rc = persist(p, s, s->buf, s->bytes);
    (void)FTK_FAULT("place.written");
    if (rc != FTKIT_OK)
        return rc;
    memcpy(s->buf - FTK_SLOT_BYTES, &slot, sizeof slot);
    rc = persist(p, s, s->buf - FTK_SLOT_BYTES, sizeof slot);
    if (rc != FTKIT_OK) /* no process must find it beside the slots of another attempt */
        memset(s->buf - FTK_SLOT_BYTES, 0, sizeof slot);
    (void)FTK_FAULT("place.sealed");
    return rc;
}

int ftk_place_wipe(struct ftk_place *p, struct ftk_mem_seg *s)
{
    memset(s->buf - FTK_SLOT_BYTES, 0, sizeof(struct ftk_slot));
    return persist(p, s, s->buf - FTK_SLOT_BYTES, sizeof(struct ftk_slot));
}

/* ---- what is left of earlier processes ----------------------------------------------- */

static const struct ftk_mem_seg *find_same(const struct ftk_mem *m, const struct ftk_slot *slot)
{
    for (int i = 0; i < m->nsegs; i++) {
        const struct ftk_mem_seg *s = m->segs[i];
        const struct ftk_seg_header *h = (const void *)s->buf;
        if (s->set == slot->set && s->sealed && s->rank == (int)slot->rank
            && s->parity == (slot->parity != 0) && h->run == slot->run
            && h->epoch_id == slot->epoch_id)
            return s;
    }
    return NULL;
}

/* Read and check the header of a slot, locked or not.  FTKIT_ERR_STATE: not a slot of this user and
 * context; FTKIT_ERR_BUSY: of another job; other codes as of ftk_slot_check(), or of the system. */
static int read_header(
    const struct ftk_place *p, const struct ftk_mem_seg *s, struct ftk_slot *slot, size_t *room)
{
    int rc = p->access->read(p, s, slot, room);
    if (rc == FTKIT_OK)
        rc = ftk_slot_check(slot, *room);
    if (rc == FTKIT_OK && strncmp(slot->context, p->context, sizeof slot->context) != 0)
        rc = ftk_fail(FTKIT_ERR_STATE, "another context's");
    if (rc == FTKIT_OK && !ftk_identity_fits(&p->identity, slot->program, slot->home))
        rc = ftk_fail(FTKIT_ERR_BUSY, "another job's");
    return rc;
}

/* Whether a slot with this result is removed: it was read, and is of no use.  A slot that cannot be
 * read now may be readable later. */
static bool is_worthless(int rc)
{
    return rc == FTKIT_ERR_NOT_FOUND || rc == FTKIT_ERR_CORRUPT;
}

static void report_unusable(struct ftk_place *p, const struct ftk_mem_seg *s, int rc)
{
    if (rc == FTKIT_ERR_NOT_FOUND || rc == FTKIT_ERR_STATE
        || (rc == FTKIT_ERR_FORMAT && p->foreign))
        return;
    p->foreign = p->foreign || rc == FTKIT_ERR_FORMAT;
    ftk_report(FTKIT_WARNING, "%s/%s: %s; %s", p->dir, s->name, ftk_detail_text(),
        is_worthless(rc) ? "removed" : "not used");
}

/* Load the locked slot s, and add its segment to m. */
static int use_slot(struct ftk_place *p, struct ftk_mem *m, struct ftk_mem_seg *s)
{
    size_t room;
    struct ftk_slot slot;
    int rc = read_header(p, s, &slot, &room);
    if (rc != FTKIT_OK)
        return rc;
    const struct ftk_mem_seg *same = find_same(m, &slot);
    if (same)
        return ftk_fail(same->verified ? FTKIT_ERR_NOT_FOUND : FTKIT_ERR_STATE,
            "%s/%s is there already", p->dir, s->name);
    rc = p->access->load(p, s, room);
    if (rc == FTKIT_OK) {
        rc = ftk_slot_check_segment(&slot, s->buf);
        if (rc != FTKIT_OK && rc != FTKIT_ERR_NOMEM)
            rc = FTKIT_ERR_CORRUPT; /* for any defect: the header says that the segment is whole */
    }
    if (rc != FTKIT_OK)
        return rc;
    s->set = slot.set;
    s->rank = (int)slot.rank;
    s->nranks = (int)slot.nranks;
    s->bytes = (size_t)slot.bytes;
    s->parity = slot.parity != 0;
    s->sealed = s->verified = s->found = true;
    return ftk_mem_add(m, s);
}

/* Note a slot that a process has locked: a process of this job that keeps it, a process that is
 * ending, or a tool that reads it. */
static int note_busy(struct ftk_place *p, const struct ftk_mem *m, const struct ftk_slot *slot)
{
    if (find_same(m, slot))
        return FTKIT_OK;
    struct ftk_slot *busy = realloc(p->busy, ((size_t)p->nbusy + 1) * sizeof *busy);
    if (!busy)
        return ftk_fail(FTKIT_ERR_NOMEM, "list of slots");
    p->busy = busy;
    p->busy[p->nbusy++] = *slot;
    return FTKIT_OK;
}

/* Count a slot of another job, for the report.  The slot stays. */
static void note_other(struct ftk_place *p, const struct ftk_slot *slot)
{
    if (p->others++ == 0 || p->other.set == 0)
        p->other = *slot;
}

/* The same for a slot whose name shows that it is of another job. */
static void look_at_other(struct ftk_place *p, const char *name)
{
    struct ftk_slot slot = { .set = 0 };
    int rc = p->access->peek(p, name, &slot);
    if (rc != FTKIT_OK)
        memset(&slot, 0, sizeof slot);
    if (rc != FTKIT_ERR_NOT_FOUND && rc != FTKIT_ERR_STATE) /* it is neither empty nor gone */
        note_other(p, &slot);
}

/* One look of a rank at all slots. */
struct look {
    struct ftk_place *p;
    struct ftk_mem *m;
    const bool *wanted; /* [nwanted] the ranks whose slots are taken; NULL: all */
    int nwanted;
    int rc;
};

static bool wants(const struct look *l, const struct ftk_slot *slot)
{
    return (int64_t)slot->rank < l->nwanted && l->wanted[slot->rank] && !find_same(l->m, slot);
}

/* Take over the open slot s.  If it is not wanted, close it and return FTKIT_OK, too.  A rank that
 * looks for the slots of some ranks does not lock other slots. */
static int take_slot(const struct look *l, struct ftk_mem_seg *s)
{
    size_t room;
    struct ftk_slot slot;
    struct ftk_place *p = l->p;
    const bool all = !l->wanted;
    int rc = read_header(p, s, &slot, &room);
    if (rc == FTKIT_ERR_BUSY && all)
        note_other(p, &slot);
    int err = 0;
    if (rc == FTKIT_ERR_BUSY || (!all && (rc != FTKIT_OK || !wants(l, &slot)))) {
        rc = FTKIT_ERR_STATE;
    } else if ((err = p->access->lock(p, s)) == 0) {
        rc = use_slot(p, l->m, s);
        if (rc == FTKIT_OK)
            return rc;
        report_unusable(p, s, rc);
    } else if (err != EWOULDBLOCK) {
        rc = ftk_fail_errno(err, "%s/%s", p->dir, s->name);
        report_unusable(p, s, rc);
    } else {
        rc = rc == FTKIT_OK && all ? note_busy(p, l->m, &slot) : FTKIT_ERR_STATE;
    }
    ftk_place_unmap(p, s, !is_worthless(rc));
    free(s);
    bool nothing_for_us = rc == FTKIT_ERR_STATE || rc == FTKIT_ERR_FORMAT;
    return nothing_for_us || is_worthless(rc) ? FTKIT_OK : rc;
}

static int adopt_slot(const struct look *l, const char *name)
{
    struct ftk_place *p = l->p;
    struct ftk_mem_seg *s = calloc(1, sizeof *s);
    if (!s)
        return ftk_fail(FTKIT_ERR_NOMEM, "list of segments");
    snprintf(s->name, sizeof s->name, "%s", name);
    s->fd = -1;
    int rc = p->access->open(p, s);
    if (rc == FTKIT_OK)
        return take_slot(l, s);
    if (rc != FTKIT_ERR_STATE) /* STATE: it is gone, or not ours */
        report_unusable(p, s, rc);
    free(s);
    return rc == FTKIT_ERR_STATE ? FTKIT_OK : rc;
}

void ftk_place_forget_busy(struct ftk_place *p)
{
    free(p->busy);
    p->busy = NULL;
    p->nbusy = 0;
}

static void look_at_slot(void *arg, const char *name)
{
    struct look *l = arg;
    struct ftk_place *p = l->p;
    bool ours = is_own(p, FTK_SLOT_PREFIX, name) || is_like(p->older, FTK_SLOT_PREFIX, name);
    if (!ours && !l->wanted && *p->older && is_other(p, name))
        look_at_other(p, name);
    int bad = ours ? adopt_slot(l, name) : FTKIT_OK;
    l->rc = bad != FTKIT_OK ? bad : l->rc;
}

int ftk_place_adopt(struct ftk_place *p, struct ftk_mem *m, const bool *wanted, int nwanted)
{
    struct look l = { p, m, wanted, nwanted, FTKIT_OK };
    ftk_place_forget_busy(p);
    p->others = 0;
    int err = p->found_again && !p->absent ? p->access->list(p, look_at_slot, &l) : 0;
    return err == 0 ? l.rc : ftk_fail_errno(err, "%s", p->dir);
}

/* ---- slots that do not fit any more ---------------------------------------------------- */

struct drop {
    struct ftk_place *p;
    const struct ftk_slot *like; /* set, run and epoch_id */
    const int *ranks;            /* [n] */
    int n;
};

static bool drops(const struct drop *d, const struct ftk_slot *slot)
{
    bool hit = false;
    for (int i = 0; i < d->n; i++)
        hit = hit || (uint32_t)d->ranks[i] == slot->rank;
    return hit && slot->set == d->like->set && slot->run == d->like->run
           && slot->epoch_id == d->like->epoch_id;
}

static void drop_slot(void *arg, const char *name)
{
    const struct drop *d = arg;
    struct ftk_place *p = d->p;
    struct ftk_mem_seg s = { .fd = -1 };
    struct ftk_slot slot;
    size_t room;
    if (!is_own(p, FTK_SLOT_PREFIX, name) && !is_like(p->older, FTK_SLOT_PREFIX, name))
        return;
    snprintf(s.name, sizeof s.name, "%s", name);
    if (p->access->open(p, &s) != FTKIT_OK)
        return; /* it is gone, or not ours */
    bool drop = read_header(p, &s, &slot, &room) == FTKIT_OK && drops(d, &slot)
                && p->access->lock(p, &s) == 0;
    if (drop)
        ftk_report(FTKIT_DEBUG, "%s/%s: left by an ended process, does not fit any more, removed",
            p->dir, name);
    ftk_place_unmap(p, &s, !drop);
}

void ftk_place_drop(struct ftk_place *p, const struct ftk_slot *like, const int *ranks, int n)
{
    struct drop d = { p, like, ranks, n };
    if (ftk_place_is(p->kind, FTK_OUTLIVES_PROCESS) && !p->absent)
        (void)p->access->list(p, drop_slot, &d);
}
