/* Memory that the program does not change until the next set (ftkit_share()): the log has no copies
 * of messages from there.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * An entry of a range points into the program's memory.  The send of such a message is complete
 * when the MPI has sent the message, as inside a team.  Before messages are sent again, and in
 * ftkit_unshare(), the log makes its own copy, so the MPI never reads memory that the program may
 * change.
 *
 * With log.check a range has a hash.  When a range has changed, no process has the bytes any more
 * that were sent, so a failure sends all ranks back.  This is found before the ranks agree. */
#include <stdlib.h>
#include <string.h>

#include "core/grow.h"
#include "core/repair_state.h"
#include "log/base/dtype.h"
#include "log/base/figures.h"
#include "log/base/part.h"
#include "log/base/runtime.h"
#include "log/payload/range.h"
#include "set/region.h"

struct ftk_range {
    const char *at;
    size_t bytes;
    uint64_t hash;             /* with log.check */
    struct ftk_entry *entries; /* that point into it, by struct ftk_away */
    struct ftk_range *next;    /* in the list of broken ones */
};

size_t ftk_nranges;
static struct ftk_range **ranges; /* [ftk_nranges] rising, without an overlap */
static size_t ranges_room;
static struct ftk_range *broken; /* not shared any more, and changed before that */

/* ---- the list ------------------------------------------------------------------------ */

/* The number of ranges that begin at or before an address. */
static size_t count_to(const char *at)
{
    size_t low = 0, high = ftk_nranges;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if ((uintptr_t)ranges[middle]->at <= (uintptr_t)at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool overlaps(const struct ftk_range *r, const char *at, size_t bytes)
{
    return (uintptr_t)r->at < (uintptr_t)at + bytes && (uintptr_t)at < (uintptr_t)r->at + r->bytes;
}

struct ftk_range *ftk_range_find(const void *buf, MPI_Datatype type, size_t bytes)
{
    const struct ftk_dtype *f;
    const size_t i = count_to(buf);
    struct ftk_range *r = i > 0 ? ranges[i - 1] : NULL;
    return r && (uintptr_t)buf + bytes <= (uintptr_t)r->at + r->bytes
                   && ftk_dtype_facts(type, &f) == MPI_SUCCESS && ftk_dtype_is_flat(f, buf)
               ? r
               : NULL;
}

void ftk_range_refer(struct ftk_range *r, struct ftk_entry *e, int dest, const void *buf)
{
    *ftk_entry_away(e) =
        (struct ftk_away){ .data = (char *)(uintptr_t)buf, .dest = dest, .next = r->entries };
    r->entries = e;
}

static void remove_range(size_t i)
{
    memmove(ranges + i, ranges + i + 1, (ftk_nranges - i - 1) * sizeof(struct ftk_range *));
    ftk_nranges--;
}

static void clear(void)
{
    while (ftk_nranges > 0)
        free(ranges[--ftk_nranges]);
    while (broken) {
        struct ftk_range *r = broken;
        broken = r->next;
        free(r);
    }
}

/* ---- changes ------------------------------------------------------------------------- */

static bool is_intact(const struct ftk_range *r)
{
    return !ftk_log.ctx->cfg.log_check || ftk_log_hash(r->at, r->bytes) == r->hash;
}

static void report_change(const struct ftk_range *r, const char *then)
{
    const uintptr_t first = (uintptr_t)r->at;
    const struct ftk_region *in = ftk_region_around(ftk_log.ctx, first, first + r->bytes);
    ftk_report(FTKIT_ERROR,
        "context %s: rank %d: %zu bytes at %p, in %s%s, were shared by ftkit_share() and have "
        "changed before the next set or ftkit_unshare(): %s",
        ftk_log.ctx->cfg.name, ftk_log.me, r->bytes, (const void *)r->at,
        in ? "region " : "no region", in ? in->name : "", then);
    ftk_figures_differs();
}

/* Give the entries a copy in the log. */
static int copy_entries(struct ftk_range *r)
{
    uintptr_t low = UINTPTR_MAX, high = 0;
    for (struct ftk_entry *e = r->entries; e; e = ftk_entry_away(e)->next) {
        const uintptr_t at = (uintptr_t)ftk_entry_data(e);
        low = at < low ? at : low;
        high = at + e->bytes > high ? at + e->bytes : high;
    }
    if (!r->entries)
        return FTKIT_OK;
    char *copy = ftk_slog_room(high - low);
    if (!copy)
        return ftk_fail(FTKIT_ERR_NOMEM, "a copy of %zu bytes that were shared by ftkit_share()",
            (size_t)(high - low));
    memcpy(copy, (const void *)low, high - low);
    for (struct ftk_entry *e = r->entries; e; e = ftk_entry_away(e)->next)
        ftk_entry_away(e)->data = copy + ((uintptr_t)ftk_entry_data(e) - low);
    r->entries = NULL;
    return FTKIT_OK;
}

/* ---- ftkit_share(), ftkit_unshare() --------------------------------------------------- */

/* Whether ranges can be shared.  With lines apart a set is committed while the program goes on, and
 * a replica takes over the regions of another one. */
static int check_mode(void)
{
    const struct ftk_config *cfg = &ftk_log.ctx->cfg;
    if (cfg->line == FTK_LINE_APART)
        return ftk_fail(FTKIT_ERR_UNSUPPORTED, "ftkit_share: not with checkpoint.line = apart");
    return cfg->replicas > 1
               ? ftk_fail(FTKIT_ERR_UNSUPPORTED, "ftkit_share: not with replicas.count > 1")
               : FTKIT_OK;
}

static int check_memory(const char *at, size_t bytes)
{
    const enum ftk_memory_kind first = ftk_memory_look(at), last = ftk_memory_look(at + bytes - 1);
    if (ftk_memory_is_host(first) && ftk_memory_is_host(last))
        return FTKIT_OK;
    return ftk_fail(FTKIT_ERR_ARG, "ftkit_share: %zu bytes at %p are %s memory", bytes,
        (const void *)at, ftk_memory_name(ftk_memory_is_host(first) ? last : first));
}

int ftk_range_share(const void *buf, size_t bytes)
{
    const char *at = buf;
    if (ftk_log_is_rolling_back())
        return FTKIT_OK; /* the restore ends all ranges */
    int rc = check_memory(at, bytes);
    if (rc == FTKIT_OK)
        rc = check_mode();
    if (rc != FTKIT_OK)
        return rc;
    const size_t i = count_to(at);
    for (size_t k = i > 0 ? i - 1 : 0; k < ftk_nranges && k <= i; k++)
        if (overlaps(ranges[k], at, bytes))
            return ftk_fail(FTKIT_ERR_EXISTS,
                "ftkit_share: %zu bytes at %p overlap %zu bytes at %p that are shared", bytes, buf,
                ranges[k]->bytes, (const void *)ranges[k]->at);
    struct ftk_range *r = malloc(sizeof *r);
    if (!r || !ftk_grow(&ranges, &ranges_room, ftk_nranges + 1, sizeof(struct ftk_range *))) {
        free(r);
        return ftk_fail(FTKIT_ERR_NOMEM, "ftkit_share");
    }
    *r = (struct ftk_range){
        .at = at, .bytes = bytes, .hash = ftk_log.ctx->cfg.log_check ? ftk_log_hash(at, bytes) : 0
    };
    memmove(ranges + i + 1, ranges + i, (ftk_nranges - i) * sizeof(struct ftk_range *));
    ranges[i] = r;
    ftk_nranges++;
    return FTKIT_OK;
}

int ftk_range_unshare(const void *buf)
{
    if (ftk_log_is_rolling_back())
        return FTKIT_OK;
    const size_t i = count_to(buf);
    struct ftk_range *r = i > 0 && ranges[i - 1]->at == buf ? ranges[i - 1] : NULL;
    if (!r)
        return ftk_fail(FTKIT_ERR_NOT_FOUND, "ftkit_unshare: no shared range begins at %p", buf);
    if (r->entries && !is_intact(r)) {
        report_change(r, "a failure before the next set sends all ranks back");
        remove_range(i - 1);
        r->next = broken;
        broken = r;
        return ftk_fail(FTKIT_ERR_STATE,
            "ftkit_unshare: %zu bytes at %p have changed while they were shared", r->bytes, buf);
    }
    const int rc = copy_entries(r);
    if (rc != FTKIT_OK)
        return rc;
    remove_range(i - 1);
    free(r);
    return FTKIT_OK;
}

/* ---- a failure ----------------------------------------------------------------------- */

/* Whether a message from the range will be sent again. */
static bool is_needed(const struct ftk_range *r, const struct ftk_log_repair *repair)
{
    for (struct ftk_entry *e = r->entries; e; e = ftk_entry_away(e)->next)
        if (repair->back[ftk_entry_away(e)->dest])
            return true;
    return false;
}

static int send_all_back(void)
{
    ftk_repair_ambiguous(ftk_log.ctx);
    return ftk_fail(FTKIT_ERR_PEER, "memory that was shared by ftkit_share() has changed");
}

/* The last step in which this rank can say that it cannot send its messages again. */
static int exchange(const struct ftk_log_repair *r, uint64_t lines)
{
    (void)lines;
    if (r->fresh || r->back[r->me])
        return FTKIT_OK;
    for (const struct ftk_range *b = broken; b; b = b->next)
        if (is_needed(b, r))
            return send_all_back();
    for (size_t i = 0; i < ftk_nranges; i++) {
        if (!is_needed(ranges[i], r))
            continue;
        if (!is_intact(ranges[i])) {
            report_change(ranges[i], "all ranks roll back");
            return send_all_back();
        }
        const int rc = copy_entries(ranges[i]);
        if (rc != FTKIT_OK)
            return rc;
    }
    return FTKIT_OK;
}

/* ---- the part ------------------------------------------------------------------------ */

/* The log is empty.  In set-up the restore of a set has changed the memory. */
static void pass_line(enum ftk_pass kind, bool first)
{
    (void)kind;
    (void)first;
    for (size_t i = 0; i < ftk_nranges && !ftk_log.in_set_up; i++)
        if (ranges[i]->entries && !is_intact(ranges[i]))
            report_change(ranges[i], "a failure would have sent all ranks back");
    clear();
}

static int roll_back(const struct ftk_rollback *b)
{
    (void)b;
    clear();
    return FTKIT_OK;
}

static void close_ranges(void)
{
    clear();
    free(ranges);
    ranges = NULL;
    ranges_room = 0;
}

const struct ftk_part ftk_part_ranges = { .close = close_ranges,
    .exchange = exchange,
    .line = pass_line,
    .roll_back = roll_back,
    .set_up_over = clear }; /* the lost process has shared that before the line */
