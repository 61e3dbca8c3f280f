/* The log's part of a checkpoint set: a section for each part of the log that has a state.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Words of 64 bits, little-endian: a head; then for each section the name of its part (up to 8
 * characters), how many words it has, and the words.  A reader passes over sections that it does
 * not know, so a part may come or go without a new version.  Versions before 7 had the same
 * sections in a fixed order and without names (old_image.c).
 *
 * At a line apart the state is that of the cut.  So the sections that change after the cut are
 * written at the cut, and the others when late and early messages are known. */
#include <stdlib.h>
#include <string.h>

#include "log/base/part.h"
#include "log/base/plane.h"
#include "log/recovery/recovery.h"
#include "log/determinant/set_up.h"
#include "set/region.h"
#include "store/durable/sets.h"
#include "old_image.h"
#include "state.h"
#include "steps.h"

enum { MAGIC, CALLS, RANKS, SECTIONS, HEAD }; /* words of the head */
enum { NAME, LENGTH, SECTION };               /* ... before each section */

/* ---- writing ------------------------------------------------------------------------- */

/* The state at a cut. */
static struct {
    bool there, finished;
    uint64_t calls;           /* of ftkit_checkpoint() */
    struct ftk_words w;       /* of the sections that are not late, one behind the other */
    size_t n[FTK_PARTS_MOST]; /* words of each */
    size_t late;              /* words of the late sections at the cut */
} cut;

#define LEAST_MORE ((size_t)8 << 10)
static size_t more; /* words that come after a cut, by the sets before; 0: none was measured */

static bool has_section(size_t i)
{
    return ftk_parts.v[i]->words != NULL;
}

static bool is_of_cut(size_t i)
{
    return cut.there && !ftk_parts.v[i]->late;
}

/* Words of the late sections. */
static size_t late_words(void)
{
    size_t words = 0;
    for (size_t i = 0; i < ftk_parts.n; i++)
        words += has_section(i) && ftk_parts.v[i]->late ? ftk_parts.v[i]->words() : 0;
    return words;
}

/* After a cut and before late messages are known: as many bytes as the state will probably have. */
static int measure_state(void *arg, size_t *bytes)
{
    size_t words = HEAD;
    (void)arg;
    for (size_t i = 0; i < ftk_parts.n; i++)
        if (has_section(i))
            words += SECTION + (is_of_cut(i) ? cut.n[i] : ftk_parts.v[i]->words());
    if (cut.there && !cut.finished)
        words += LEAST_MORE + more;
    *bytes = words * sizeof(uint64_t);
    return 0;
}

static size_t count_sections(void)
{
    size_t n = 0;
    for (size_t i = 0; i < ftk_parts.n; i++)
        n += has_section(i);
    return n;
}

static uint64_t *write_section(uint64_t *w, size_t i, const uint64_t **from_cut)
{
    uint64_t *const head = w;
    head[NAME] = ftk_state_name(ftk_parts.v[i]);
    w += SECTION;
    if (is_of_cut(i)) {
        if (cut.n[i] > 0)
            memcpy(w, *from_cut, cut.n[i] * sizeof *w);
        *from_cut += cut.n[i];
        w += cut.n[i];
    } else {
        w = ftk_parts.v[i]->save(w);
    }
    head[LENGTH] = (uint64_t)(w - head) - SECTION;
    return w;
}

static int pack_state(void *arg, void *to, size_t bytes)
{
    uint64_t *w = to;
    const uint64_t *from_cut = cut.w.v;
    (void)arg;
    w[MAGIC] = FTK_STATE_MAGIC | (uint64_t)FTK_STATE_VERSION << 32;
    w[CALLS] = cut.there ? cut.calls : ftk_log.ctx->policy.calls;
    w[RANKS] = (uint64_t)ftk_log_plane_size();
    w[SECTIONS] = count_sections();
    w += HEAD;
    for (size_t i = 0; i < ftk_parts.n; i++)
        if (has_section(i))
            w = write_section(w, i, &from_cut);
    return (size_t)((const char *)w - (char *)to) == bytes
               ? FTKIT_OK
               : ftk_fail(FTKIT_ERR_INTERNAL, "state of the message log: another size");
}

/* ---- line apart ---------------------------------------------------------------------- */

/* The set of the cut is over. */
static void drop(void)
{
    ftk_words_free(&cut.w);
    memset(&cut, 0, sizeof cut);
}

static size_t measure_cut(void)
{
    size_t words = 0;
    for (size_t i = 0; i < ftk_parts.n; i++) {
        cut.n[i] = has_section(i) && !ftk_parts.v[i]->late ? ftk_parts.v[i]->words() : 0;
        words += cut.n[i];
    }
    return words;
}

int ftk_image_cut(void)
{
    drop();
    const size_t words = measure_cut();
    uint64_t *w = ftk_words_extend(&cut.w, words);
    if (!w && words > 0)
        return ftk_fail(FTKIT_ERR_NOMEM, "state of the message log");
    for (size_t i = 0; i < ftk_parts.n; i++) {
        uint64_t *const end = cut.n[i] > 0 ? ftk_parts.v[i]->save(w) : w;
        if ((size_t)(end - w) != cut.n[i])
            return ftk_fail(FTKIT_ERR_INTERNAL, "state of the message log: another size");
        w = end;
    }
    cut.calls = ftk_log.ctx->policy.calls;
    cut.late = late_words();
    cut.there = true;
    return FTKIT_OK;
}

int ftk_image_finish(void)
{
    int rc = ftk_parts_finish();
    cut.finished = true;
    if (rc != FTKIT_OK)
        return rc; /* the set is given up */
    const size_t words = late_words() - cut.late;
    more = 2 * words > more ? 2 * words : more;
    return rc;
}

static void close_image(void)
{
    drop();
    more = 0;
}

const struct ftk_part ftk_part_image = {
    .close = close_image, .cut_over = drop, .region = &ftk_image_region
};

/* ---- reading: every number is checked, the state may come from a damaged file ---------- */

static int damaged(void)
{
    return ftk_fail(FTKIT_ERR_FORMAT, "state of the message log: cut short");
}

/* Find the sections of a state with names. */
static int split(struct ftk_state *s, const uint64_t *w, const uint64_t *end)
{
    const uint64_t *const head = w;
    if (end - w < HEAD || head[SECTIONS] > FTK_PARTS_MOST)
        return damaged();
    s->calls = head[CALLS];
    s->ranks = head[RANKS];
    w += HEAD;
    for (; s->n < head[SECTIONS]; s->n++) {
        if (end - w < SECTION || w[LENGTH] > (uint64_t)(end - w - SECTION))
            return damaged();
        s->v[s->n] = (struct ftk_state_section){ w[NAME], w + SECTION, w + SECTION + w[LENGTH] };
        w += SECTION + w[LENGTH];
    }
    return w == end ? FTKIT_OK : damaged();
}

static int read_state(const void *from, size_t bytes, struct ftk_state *s)
{
    const uint64_t *w = from, *const end = w + bytes / sizeof *w;
    *s = (struct ftk_state){ 0 };
    if (bytes < sizeof *w || (uint32_t)w[MAGIC] != FTK_STATE_MAGIC)
        return ftk_fail(FTKIT_ERR_FORMAT, "state of the message log: not one");
    s->version = w[MAGIC] >> 32;
    if (s->version < FTK_STATE_OLDEST || s->version > FTK_STATE_VERSION)
        return ftk_fail(FTKIT_ERR_FORMAT, "state of the message log: not one");
    return s->version < FTK_STATE_NAMES ? ftk_old_image_split(s, w, end) : split(s, w, end);
}

static void find_section(
    const struct ftk_state *s, const struct ftk_part *p, struct ftk_section *in)
{
    in->w = in->end = NULL;
    for (size_t i = 0; p->name && i < s->n && !in->w; i++)
        if (s->v[i].name == ftk_state_name(p)) {
            in->w = s->v[i].w;
            in->end = s->v[i].end;
        }
}

static int unpack_state(void *arg, const void *from, size_t bytes)
{
    const struct ftk_log *l = &ftk_log;
    struct ftk_state s;
    (void)arg;
    int rc = read_state(from, bytes, &s);
    if (rc != FTKIT_OK)
        return rc;
    struct ftk_section in = { .calls = s.calls,
        .as_many = s.ranks == (uint64_t)ftk_log_plane_size(),
        .first = l->ctx->where < FTK_IN_LOOP || l->line.of_sibling };
    ftk_requests_drop();
    if (ftk_log_is_rolling_back())
        ftk_parts_forget();
    for (size_t i = 0; rc == FTKIT_OK && i < ftk_parts.n; i++) {
        const struct ftk_part *p = ftk_parts.v[i];
        find_section(&s, p, &in);
        if (p->needed && !in.w)
            rc = damaged();
        else if (p->load)
            rc = p->load(&in);
    }
    return rc;
}

const struct ftk_system_region ftk_image_region = {
    .name = "ftkit.log",
    .ops = { sizeof(ftkit_serializer), measure_state, pack_state, unpack_state },
    .order = FTK_RESTORE_OBJECTS,
    .late = true,
    .may_lack = true,
    .differs_in_ranks = true,
    .differs_in_replicas = true,
};

/* ---- the replay of set-up --------------------------------------------------------------- */

/* Read the set-up log from the state in the segment of this rank. */
static int read_setup_log(const void *seg)
{
    struct ftk_state s;
    struct ftk_section in = { 0 };
    const struct ftk_seg_region *rec = ftk_seg_find(seg, ftk_image_region.name);
    if (!rec)
        return ftk_fail(FTKIT_ERR_NOT_FOUND, "the set has no state of the message log");
    int rc = read_state(ftk_seg_data_c(seg) + rec->offset, rec->bytes, &s);
    if (rc == FTKIT_OK && s.version < FTK_STATE_SET_UP)
        rc = ftk_fail(FTKIT_ERR_FORMAT, "the set is of an earlier job, with another set-up");
    if (rc != FTKIT_OK)
        return rc;
    struct ftk_section calls = { 0 };
    find_section(&s, &ftk_part_set_up_log, &in);
    find_section(&s, &ftk_part_set_up, &calls);
    if (!in.w || !calls.w)
        return ftk_fail(FTKIT_ERR_CORRUPT, "the state of the message log has no set-up");
    rc = ftk_messages_read(in.w, in.end, ftk_unexp_add);
    return rc == FTKIT_OK ? ftk_set_up_read(calls.w, (size_t)(calls.end - calls.w)) : rc;
}

static int read_setup_log_of(struct ftkit_ctx *ctx, uint64_t set)
{
    struct ftk_manifest m = { 0 };
    void *seg = NULL;
    size_t bytes;
    int rc = ftk_sets_open(ctx->cfg.h5_dir, ctx->cfg.name, set, &m);
    if (rc == FTKIT_OK && m.nranks != (uint32_t)ftk_log_plane_size())
        rc = ftk_fail(FTKIT_ERR_SIZE, "set %llu is of %u ranks", (unsigned long long)set, m.nranks);
    if (rc == FTKIT_OK)
        rc = ftk_sets_read(ctx->cfg.h5_dir, &m, (int)ftk_log_to_plane(ctx->rank), &seg, &bytes);
    if (rc == FTKIT_OK)
        rc = read_setup_log(seg);
    free(seg);
    ftk_manifest_free(&m);
    return rc;
}

/* Read the set-up log from any set of the files: set-up precedes all sets.  Only ftkit_recover()
 * finds which set all ranks can use. */
static int read_setup_log_of_files(struct ftkit_ctx *ctx)
{
    uint64_t *sets = NULL;
    int n = 0;
    int rc =
        ctx->cfg.h5_enabled ? ftk_sets_list(ctx->cfg.h5_dir, ctx->cfg.name, &sets, &n) : FTKIT_OK;
    bool read = false;
    for (int i = 0; i < n && !read; i++) {
        read = read_setup_log_of(ctx, sets[i]) == FTKIT_OK;
        if (!read)
            ftk_unexp_clear(); /* messages of a damaged state */
    }
    free(sets);
    ftk_line_setup_unread(!read);
    return rc;
}

int ftk_log_read_setup(struct ftkit_ctx *ctx, uint64_t line)
{
    struct ftk_mem_seg *s = ftk_mem_find(&ctx->level[FTK_LEVEL_MEMORY].mem, line, ctx->rank);
    if (!s)
        return read_setup_log_of_files(ctx);
    int rc = ftk_mem_verify(s, "own copy");
    return rc == FTKIT_OK ? read_setup_log(s->buf) : rc;
}
