/* Determinants as a part of the log: their life, lines and rollbacks (see det.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "det_inside.h"
#include "log/base/part.h"
#include "log/base/plane.h"
#include "log/mode.h"

/* Count the determinants of one call at once.  A process that dies before that has reported no
 * outcome of the call. */
size_t ftk_det_whole(const struct ftk_det *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (ftk_det_nmore(&v[i]) >= n - i)
            return i;
    return n;
}

int ftk_det_open(const struct ftk_det *before, size_t n, uint64_t line, uint64_t epoch_id)
{
    ftk_det_close(); /* the files of an earlier attempt */
    int rc = ftk_det_open_files(before, ftk_det_whole(before, n), line, epoch_id);
    if (rc != FTKIT_OK)
        ftk_det_close();
    return rc;
}

void ftk_det_close(void)
{
    ftk_det_close_files();
    ftk_det_forget_line();
    ftk_det_begin_again();
    ftk_det_forget_copy();
    ftk_det_hold(false);
}

size_t ftk_det_count(void)
{
    return ftk_det_n();
}

/* ---- the line ----------------------------------------------------------------------------- */

int ftk_det_cut(const uint32_t *wildcards, size_t nw, const uint32_t *receives, size_t nr)
{
    ftk_det_before_send(); /* failed probes and tests before the cut count no more */
    int rc = ftk_det_at_line(wildcards, nw, receives, nr);
    if (rc != FTKIT_OK || !ftk_det_files.now)
        return rc;
    /* no rank asks for the interval before the last line: all know that line */
    ftk_det_begin_file(ftk_det_other_file(), ftk_log.line.count + 1);
    ftk_det_files.to = FTK_DET_SINCE_CUT;
    return rc;
}

static void withdraw(void)
{
    ftk_det_files.to = FTK_DET_ONE_FILE;
}

static void begin_interval(void)
{
    const bool both =
        ftk_det_files.to == FTK_DET_SINCE_CUT; /* the file of the interval has all since the cut */
    size_t n = 0;
    struct ftk_det *v = both ? NULL : ftk_det_since_line(ftk_det_n(), &n);
    uint32_t begun[FTK_DET_COUNTS];
    const uint32_t nothings = ftk_log.apart.open ? ftk_det_course.nothings : 0;
    ftk_det_pass_line(begun);
    ftk_det_begin_again();
    memcpy(ftk_det_course.begun, begun, sizeof begun);
    ftk_det_course.nothings = nothings;
    if (ftk_det_files.now) {
        ftk_det_files.now = &ftk_det_files.file[ftk_log.line.count & 1];
        if (!both)
            ftk_det_begin_file(ftk_det_files.now, ftk_log.line.count);
    }
    for (size_t i = 0; i < n; i++)
        ftk_det_append(v[i]);
    free(v);
    ftk_det_files.to = both ? FTK_DET_SINCE_COMMIT : FTK_DET_ONE_FILE;
}

/* ---- rollback ----------------------------------------------------------------------------- */

/* This process rolls back to the line, and repeats the determinants. */
static int go_back(void)
{
    ftk_det_begin_again();
    ftk_det_files.to = FTK_DET_ONE_FILE;
    ftk_det_course.plan = ftk_det_n();
    return ftk_det_course.plan > 0 ? ftk_det_sort_out() : FTKIT_OK;
}

int ftk_det_restore(const struct ftk_det *v, size_t n)
{
    n = ftk_det_whole(v, n);
    const size_t has = ftk_det_n();
    if (!ftk_det_files.now || has >= n)
        return FTKIT_OK;
    int rc = ftk_det_reserve(ftk_det_files.now, n);
    for (size_t i = has; rc == FTKIT_OK && i < n; i++)
        ftk_det_append(v[i]);
    return rc == FTKIT_OK ? go_back() : rc;
}

void ftk_det_drop(void)
{
    ftk_det_begin_again();
    ftk_det_files.to = FTK_DET_ONE_FILE;
    for (int i = 0; ftk_det_files.now && i < 2; i++)
        atomic_store_explicit(&ftk_det_files.file[i].head->n, 0, memory_order_release);
}

bool ftk_det_learn(const struct ftk_det *v, size_t from, size_t n)
{
    if (!ftk_det_files.now || from > ftk_det_n())
        return false;
    const size_t own = ftk_det_n();
    for (size_t i = from; i < from + n; i++) {
        if (i < own && memcmp(&ftk_det_list()[i], &v[i - from], sizeof *v) != 0)
            return false;
        if (i < own && i >= ftk_det_course.plan)
            ftk_det_pass_own(i);
        if (i < own)
            continue;
        ftk_det_append(v[i - from]);
        if (ftk_det_n() != i + 1 || !ftk_det_add_to_plan(i))
            return false; /* the file is full, or there is no memory */
    }
    return true;
}

/* ---- the part ------------------------------------------------------------------------ */

static void close_det(void)
{
    ftk_det_close();
    ftk_det_clean(ftk_log.ctx->job);
    ftk_det_forget_search();
}

static void pass_line(enum ftk_pass kind, bool first)
{
    (void)kind;
    (void)first;
    begin_interval();
}

static int roll_back(const struct ftk_rollback *b)
{
    (void)b;
    return go_back();
}

static void quiesce(const struct ftk_log_repair *r)
{
    ftk_det_hold(r->back[r->me]);
}

static void quiesced(void)
{
    ftk_det_hold(false);
}

/* Open the files before any rank relies on this process, so that the files are there whenever the
 * process dies. */
static int open_files(const struct ftk_log_repair *r, uint64_t lines, bool nothing)
{
    size_t n = 0;
    const struct ftk_det *before = NULL;
    if (!r->is_new[r->me]) {
        ftk_det_promise(r->epoch_id);
        return FTKIT_OK;
    }
    if (!nothing)
        before = ftk_det_adopted(r->me, lines, &n);
    return ftk_det_open(before, n, r->fresh ? 0 : lines, r->epoch_id);
}

static int exchange(const struct ftk_log_repair *r, uint64_t lines)
{
    const struct ftk_det_mode *mode = ftk_log.mode;
    const bool nothing = r->fresh || ftk_log_plane_is_back(r, ftk_log_plane_of(r->me));
    int rc = !r->fresh && mode->collect ? mode->collect(r, lines) : FTKIT_OK;
    if (rc == FTKIT_OK)
        rc = open_files(r, lines, nothing);
    if (rc == FTKIT_OK && mode->replicate)
        rc = mode->replicate(r, lines, nothing);
    return rc;
}

static int load(const struct ftk_section *in)
{
    (void)in;
    return go_back();
}

static int abandon(void)
{
    if (ftk_log.ctx->rank < 0)
        ftk_det_close(); /* the files of a rank that this process does not carry */
    return FTKIT_OK;
}

static int new_epoch(const struct ftk_log_repair *r)
{
    if (!r->fresh && ftk_log_plane_is_back(r, ftk_log_plane_of(ftk_log.me)))
        ftk_det_drop(); /* before its epoch has begun */
    ftk_det_installed(r->epoch_id);
    return FTKIT_OK;
}

static void figures(ftkit_info *info)
{
    info->log_determinants = ftk_det_count();
}

const struct ftk_part ftk_part_det = { .close = close_det,
    .figures = figures,
    .line = pass_line,
    .discard = withdraw,
    .quiesce = quiesce,
    .quiesced = quiesced,
    .exchange = exchange,
    .abandon = abandon,
    .new_epoch = new_epoch,
    .roll_back = roll_back,
    .load = load };
