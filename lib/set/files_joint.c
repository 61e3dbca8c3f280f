/* Joint files: all ranks write them together, into one directory (see files_joint.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The directory is on the file system of all nodes, and only passes the files on.  When all ranks
 * have closed them, each rank takes a slice (store/slice.h) into its segment.  So a set has the
 * files as it has arrays: in each level, with each scheme.  After a restore each rank has its slice
 * in memory, and ftkit_files_read() lays out all slices in a new directory.
 *
 * A vote in which rank 0 hands out the number of the directory begins each of the three calls.  A
 * rank that cannot go on says so in the next vote, so no rank waits for it in the program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint.h"
#include "core/hash.h"
#include "detect/detect.h"
#include "detect/misuse.h"
#include "detect/watchdog.h"
#include "files_given.h"
#include "files_joint.h"
#include "region.h"
#include "store/archive.h"
#include "store/durable/sets.h"
#include "store/joint_dir.h"
#include "store/slice.h"

struct ftk_joint_files {
    struct ftkit_ctx *ctx;
    char name[FTKIT_NAME_MAX + 1];
    struct ftk_joint place;
    uint64_t id; /* of the directory that the program has; 0: none */
    char path[FTK_JOINT_PATH_MAX];
    struct ftk_archive *archive; /* of the set that is written; or NULL */
    struct ftk_given given;
    uint64_t sum; /* given: of names and lengths, which all ranks have seen */
    /* Restored, and not laid out yet. */
    char *slice; /* [slice_bytes]; NULL: laid out, or of another number of ranks */
    size_t slice_bytes;
    int old_nranks; /* another number of ranks; 0: as many */
    uint64_t old_set, old_run;
};

/* ---- votes --------------------------------------------------------------------------- */

/* The words of the votes; WORD_SAME takes two.  FTK_VOTE_CALLS has a number that no vote of
 * ftkit_checkpoint() has, and that differs between the calls. */
enum { WORD_ERROR, WORD_ID, WORD_SAME };
#define VOTE_OF_FILES ((uint64_t)1 << 62)

/* Vote on the result of this rank: all ranks return the most severe one.  same: a number that all
 * ranks have to have.  *id: the number of rank 0. */
static int agree(struct ftk_joint_files *f, const char *call, int rc, uint64_t same, uint64_t *id)
{
    struct ftkit_ctx *ctx = f->ctx;
    struct ftk_chan ch = ftk_chan_of(ctx);
    struct ftk_vote v;
    ftk_vote_init(&v);
    v.min[WORD_ERROR] = rc;
    if (ctx->rank == 0)
        v.min[WORD_ID] = (int64_t)*id;
    ftk_vote_same(&v, WORD_SAME, same);
    ftk_vote_same(&v, FTK_VOTE_CALLS, VOTE_OF_FILES + ftk_xxh3(call, strlen(call)) % 65536);
    int voted = ftk_vote(&ch, ctx->nranks, &v);
    if (voted != FTKIT_OK)
        return voted;
    if (!ftk_vote_is_same(&v, FTK_VOTE_CALLS))
        return ftk_fail(FTKIT_ERR_MISMATCH,
            "%s of '%s': the ranks are in different calls. Rule: all ranks make this call", call,
            f->name);
    *id = (uint64_t)v.min[WORD_ID];
    if (v.min[WORD_ERROR] != FTKIT_OK)
        return rc == v.min[WORD_ERROR]
                   ? rc
                   : ftk_fail((int)v.min[WORD_ERROR], "%s of '%s': another rank: %s", call, f->name,
                       ftkit_strerror((int)v.min[WORD_ERROR]));
    if (!ftk_vote_is_same(&v, WORD_SAME))
        return ftk_fail(FTKIT_ERR_STATE,
            "%s of '%s': the ranks see different files. Rule: each rank has closed them, and all "
            "nodes see one file system at level.hdf5.directory",
            call, f->name);
    return FTKIT_OK;
}

/* Add the name of the region to an error. */
static int of(const struct ftk_joint_files *f, int rc)
{
    char why[FTK_DETAIL_MAX];
    if (rc == FTKIT_OK || rc == FTKIT_ERR_PEER)
        return rc;
    snprintf(why, sizeof why, "%s", ftk_detail_text());
    return ftk_fail(rc, "files '%s': %s", f->name, why);
}

/* Run a call that all ranks make together, in the loop of the program. */
struct call {
    const char *name;
    int (*run)(struct ftk_joint_files *f, const struct call *c);
    char *dir;
    size_t room;
    bool ok;
};

static int together(struct ftk_joint_files *f, const struct call *c)
{
    struct ftkit_ctx *ctx = f->ctx;
    if (ctx->where != FTK_IN_LOOP)
        return ftk_fail(FTKIT_ERR_STATE, "%s outside of the loop", c->name);
    if (ctx->detect.failed || ftk_detect_poll(ctx))
        return ftk_fail(FTKIT_ERR_PEER, "%s: a rank has failed", c->name);
    ftk_watchdog_at(ctx->dog, FTK_AT_CHECKPOINT, ctx->rank, ctx->policy.calls);
    ftk_misuse_enter(ctx, c->name);
    ftk_misuse_serve(ctx, true);
    ftk_watchdog_state(ctx->dog, FTK_DOG_BUSY);
    int rc = c->run(f, c);
    ftk_watchdog_state(ctx->dog, FTK_DOG_RUN);
    ftk_misuse_serve(ctx, false);
    ftk_watchdog_at(ctx->dog, FTK_AT_LOOP, ctx->rank, ctx->policy.calls);
    return of(f, rc);
}

/* ---- directories --------------------------------------------------------------------- */

/* On rank 0: a new directory; those before it go. */
static int make_dir(struct ftk_joint_files *f, uint64_t *id)
{
    size_t n;
    int rc = ftk_durable_own(f->ctx, true);
    if (rc == FTKIT_OK)
        rc = ftk_joint_make(&f->place, id);
    if (rc == FTKIT_OK)
        rc = ftk_joint_sweep(&f->place, *id, ftk_durable_own_behind, f->ctx, false, &n);
    return rc;
}

/* Hand out a new, empty directory to all ranks.  rc: of this rank before. */
static int new_dir(struct ftk_joint_files *f, const struct call *c, int rc, uint64_t same)
{
    uint64_t id = 0;
    f->id = 0;
    if (rc == FTKIT_OK && f->ctx->rank == 0)
        rc = make_dir(f, &id);
    (void)FTK_FAULT("joint.made");
    rc = agree(f, c->name, rc, same, &id);
    if (rc != FTKIT_OK)
        return rc;
    f->id = id;
    rc = ftk_joint_path(&f->place, id, f->path);
    if (rc == FTKIT_OK)
        rc = ftk_given_check_room(f->path, c->name, c->dir, c->room);
    if (rc == FTKIT_OK)
        rc = ftk_joint_look(&f->place, id);
    return rc;
}

/* On rank 0: the files of the directory have been taken, or are of no use. */
static void remove_dir(struct ftk_joint_files *f)
{
    if (f->id > 0 && f->ctx->rank == 0 && ftk_joint_remove(&f->place, f->id) != FTKIT_OK)
        ftk_report(FTKIT_WARNING, "files '%s': %s", f->name, ftk_detail_text());
    f->id = 0;
}

/* ---- a set --------------------------------------------------------------------------- */

static void drop_archive(struct ftk_joint_files *f)
{
    ftk_archive_free(f->archive);
    f->archive = NULL;
}

static void drop_restored(struct ftk_joint_files *f)
{
    free(f->slice);
    f->slice = NULL;
    f->old_nranks = 0;
}

static int measure(void *arg, size_t *bytes)
{
    struct ftk_joint_files *f = arg;
    bool absent = false;
    drop_archive(f);
    int rc = ftk_given_check(f->ctx, &f->given, f->name, &absent);
    if (rc == FTKIT_OK)
        rc = of(f, ftk_archive_scan(absent ? NULL : f->path, &f->archive));
    (void)FTK_FAULT("joint.scanned");
    if (rc == FTKIT_OK && !absent && ftk_archive_head(f->archive)->sum != f->sum)
        rc = ftk_fail(FTKIT_ERR_STATE,
            "files '%s': names or lengths below %s have changed since ftkit_files_end()", f->name,
            f->path);
    if (rc == FTKIT_OK)
        *bytes = ftk_slice_bytes(f->archive, f->ctx->rank, f->ctx->nranks);
    return rc;
}

static int pack_piece(void *arg, char *to, size_t at, size_t bytes)
{
    struct ftk_joint_files *f = arg;
    if (!f->archive)
        return ftk_fail(FTKIT_ERR_IO, "files '%s' could not be taken", f->name);
    (void)FTK_FAULT("joint.take");
    const int rank = f->ctx->rank, nranks = f->ctx->nranks;
    const size_t all = ftk_slice_bytes(f->archive, rank, nranks);
    int rc = of(f, ftk_slice_read(f->archive, rank, nranks, to, at, bytes));
    if (rc == FTKIT_OK && at + bytes < all)
        return rc;
    drop_archive(f);
    if (f->given.held == FTK_HELD_GIVEN)
        f->given.held = FTK_HELD_TAKEN;
    return rc;
}

static int pack(void *arg, void *buf, size_t bytes)
{
    return pack_piece(arg, buf, 0, bytes);
}

void ftk_joint_given_up(struct ftk_joint_files *f)
{
    drop_archive(f);
}

void ftk_joint_committed(struct ftk_joint_files *f)
{
    if (f->given.held != FTK_HELD_TAKEN)
        return;
    f->given.held = FTK_HELD_NOTHING;
    remove_dir(f);
}

/* ---- a restore ----------------------------------------------------------------------- */

/* Check that the slice is that of this rank. */
static int check_own(const struct ftk_joint_files *f, const struct ftk_slice *s)
{
    if (s->head.rank == (uint32_t)f->ctx->rank && s->head.nranks == (uint32_t)f->ctx->nranks)
        return FTKIT_OK;
    return ftk_fail(FTKIT_ERR_CORRUPT, "the slice is of rank %u of %u, and not of rank %d of %d",
        s->head.rank, s->head.nranks, f->ctx->rank, f->ctx->nranks);
}

static int unpack(void *arg, const void *buf, size_t bytes)
{
    struct ftk_joint_files *f = arg;
    struct ftk_slice s = { .from = 0 };
    drop_archive(f);
    drop_restored(f);
    f->given.held = FTK_HELD_NOTHING;
    (void)FTK_FAULT("joint.restore");
    int rc = ftk_slice_check(buf, bytes, &s);
    if (rc != FTKIT_OK)
        return of(f, rc);
    rc = check_own(f, &s);
    const bool absent = (s.list.head.flags & FTK_ARCHIVE_ABSENT) != 0;
    free(s.list.v);
    if (rc != FTKIT_OK || absent)
        return of(f, rc);
    f->slice = malloc(bytes);
    if (!f->slice)
        return ftk_fail(FTKIT_ERR_NOMEM, "files '%s': %zu bytes", f->name, bytes);
    memcpy(f->slice, buf, bytes);
    f->slice_bytes = bytes;
    f->given.held = FTK_HELD_RESTORED;
    return FTKIT_OK;
}

void ftk_joint_restore_others(struct ftk_joint_files *f)
{
    drop_archive(f);
    drop_restored(f);
    f->given.held = FTK_HELD_RESTORED;
    f->old_nranks = f->ctx->repair.line_nranks;
    f->old_set = f->ctx->repair.line;
    f->old_run = f->ctx->run;
}

/* Lay out a slice.  *sum: of the entries; finish: also do what comes after all slices. */
static int lay_out(const struct ftk_joint_files *f, const void *buf, size_t bytes, bool finish)
{
    struct ftk_slice s = { .from = 0 };
    int rc = ftk_slice_check(buf, bytes, &s);
    if (rc != FTKIT_OK)
        return rc;
    (void)FTK_FAULT("joint.spread");
    rc = finish ? ftk_slice_finish(&s, f->path) : ftk_slice_spread(&s, f->path);
    free(s.list.v);
    return rc;
}

/* The sum of the entries of a slice that was checked: all slices of a set have the same. */
static uint64_t sum_of(const void *slice)
{
    struct ftk_slice_head h;
    memcpy(&h, slice, sizeof h);
    return h.entries_sum;
}

/* What is done with the slices of this rank. */
enum work { WORK_LOOK, WORK_SPREAD, WORK_FINISH };
struct slices {
    uint64_t sum; /* of the entries of all; 0: none was seen */
    bool absent;  /* they have no files */
};

/* Do it with a slice of the set of another number of ranks. */
static int work_old(struct ftk_joint_files *f, const struct ftk_manifest *m, int q, enum work work,
    struct slices *all)
{
    const struct ftk_seg_region *r = NULL;
    struct ftk_slice s = { .from = 0 };
    void *seg = NULL;
    int rc = ftk_sets_region(f->ctx->cfg.h5_dir, m, (uint32_t)q, f->name, &seg, &r);
    const char *at = rc == FTKIT_OK ? ftk_seg_data_c(seg) + r->offset : NULL;
    if (rc == FTKIT_OK)
        rc = ftk_slice_check(at, (size_t)r->bytes, &s);
    if (rc == FTKIT_OK && (s.head.rank != (uint32_t)q || s.head.nranks != m->nranks))
        rc = ftk_fail(FTKIT_ERR_CORRUPT, "the slice of rank %d is that of another rank", q);
    if (rc == FTKIT_OK && all->sum != 0 && all->sum != s.head.entries_sum)
        rc = ftk_fail(FTKIT_ERR_CORRUPT, "the slices of the ranks are of different files");
    if (rc == FTKIT_OK) {
        all->sum = s.head.entries_sum;
        all->absent = (s.list.head.flags & FTK_ARCHIVE_ABSENT) != 0;
    }
    free(s.list.v);
    if (rc == FTKIT_OK && work != WORK_LOOK)
        rc = lay_out(f, at, (size_t)r->bytes, work == WORK_FINISH);
    free(seg);
    return rc;
}

/* Do it with the slices that old ranks of this one wrote; all ranks look at that of old rank 0. */
static int work_others(struct ftk_joint_files *f, enum work work, struct slices *all)
{
    const struct ftkit_ctx *ctx = f->ctx;
    struct ftk_manifest m = { 0 };
    int rc = ftk_sets_open(ctx->cfg.h5_dir, ctx->cfg.name, f->old_set, &m);
    if (rc == FTKIT_ERR_NOT_FOUND
        || (rc == FTKIT_OK && (m.run != f->old_run || m.nranks != (uint32_t)f->old_nranks)))
        rc = ftk_fail(FTKIT_ERR_LOST, "set %llu is no longer in %s", (unsigned long long)f->old_set,
            ctx->cfg.h5_dir);
    const int step = work == WORK_SPREAD ? ctx->nranks : f->old_nranks;
    for (int q = work == WORK_SPREAD ? ctx->rank : 0; rc == FTKIT_OK && q < f->old_nranks;
         q += step)
        rc = work_old(f, &m, q, work, all);
    ftk_manifest_free(&m);
    return rc;
}

static int work_on(struct ftk_joint_files *f, enum work work, struct slices *all)
{
    if (f->old_nranks > 0)
        return work_others(f, work, all);
    all->sum = sum_of(f->slice);
    return work == WORK_LOOK ? FTKIT_OK : lay_out(f, f->slice, f->slice_bytes, work == WORK_FINISH);
}

/* ---- calls of the program ------------------------------------------------------------ */

static int begin(struct ftk_joint_files *f, const struct call *c)
{
    uint64_t none = 0;
    drop_archive(f);
    drop_restored(f);
    f->given.held = FTK_HELD_NOTHING;
    int rc = new_dir(f, c, FTKIT_OK, 0);
    if (rc != FTKIT_ERR_PEER)
        rc = agree(f, c->name, rc, f->id, &none);
    if (rc != FTKIT_OK)
        return rc;
    f->given.held = FTK_HELD_BEGUN;
    strcpy(c->dir, f->path);
    return FTKIT_OK;
}

/* All ranks have closed the files; now each one looks whether it sees the same ones. */
static int end(struct ftk_joint_files *f, const struct call *c)
{
    struct ftk_archive *a = NULL;
    uint64_t none = 0;
    const bool begun = f->given.held == FTK_HELD_BEGUN;
    int rc = ftk_given_check_end(&f->given, f->name, c->ok);
    if (rc == FTKIT_OK && !c->ok)
        rc = ftk_fail(FTKIT_ERR_CALLBACK, "the program says that they are of no use");
    (void)FTK_FAULT("joint.closed");
    rc = agree(f, c->name, rc, 0, &none);
    if (rc == FTKIT_OK) {
        rc = ftk_archive_scan(f->path, &a);
        f->sum = a ? ftk_archive_head(a)->sum : 0;
        ftk_archive_free(a);
        if (FTK_FAULT("joint.seen")) /* injected: this rank sees other files */
            f->sum ^= 1;
        rc = agree(f, c->name, rc, f->sum, &none);
    }
    if (rc == FTKIT_OK)
        ftk_given_end(f->ctx, &f->given, true);
    else if (begun)
        f->given.held = FTK_HELD_NOTHING;
    if (rc != FTKIT_OK && rc != FTKIT_ERR_PEER && begun)
        remove_dir(f);
    return rc;
}

/* Lay out all slices in a new directory. */
static int lay_out_all(struct ftk_joint_files *f, const struct call *c, struct slices *all)
{
    uint64_t none = 0;
    int rc = work_on(f, WORK_LOOK, all);
    rc = new_dir(f, c, rc, all->sum);
    if (rc == FTKIT_OK && !all->absent)
        rc = work_on(f, WORK_SPREAD, all);
    if (rc != FTKIT_ERR_PEER)
        rc = agree(f, c->name, rc, all->sum, &none);
    if (rc == FTKIT_OK && !all->absent && f->ctx->rank == 0)
        rc = work_on(f, WORK_FINISH, all);
    (void)FTK_FAULT("joint.finished");
    return rc == FTKIT_ERR_PEER ? rc : agree(f, c->name, rc, 0, &none);
}

static int read_files(struct ftk_joint_files *f, const struct call *c)
{
    struct slices all = { 0 };
    int rc = lay_out_all(f, c, &all);
    if (rc == FTKIT_ERR_PEER)
        return rc;
    if (rc != FTKIT_OK || all.absent)
        remove_dir(f);
    if (rc != FTKIT_OK)
        return rc;
    drop_restored(f);
    if (all.absent) {
        f->given.held = FTK_HELD_NOTHING;
        return FTKIT_NO_SET;
    }
    strcpy(c->dir, f->path);
    return FTKIT_OK;
}

int ftk_joint_begin(struct ftk_joint_files *f, char *dir, size_t room)
{
    return together(f, &(struct call){ "ftkit_files_begin", begin, dir, room, true });
}

int ftk_joint_end(struct ftk_joint_files *f, bool ok)
{
    return together(f, &(struct call){ "ftkit_files_end", end, NULL, 0, ok });
}

int ftk_joint_read(struct ftk_joint_files *f, char *dir, size_t room)
{
    if (f->given.held != FTK_HELD_RESTORED)
        return FTKIT_NO_SET;
    if (f->slice || f->old_nranks > 0)
        return together(f, &(struct call){ "ftkit_files_read", read_files, dir, room, true });
    int rc = ftk_given_check_room(f->path, "ftkit_files_read", dir, room); /* once more */
    if (rc == FTKIT_OK)
        strcpy(dir, f->path);
    return rc;
}

/* ---- registration -------------------------------------------------------------------- */

static void release(void *arg)
{
    struct ftk_joint_files *f = arg;
    drop_archive(f);
    drop_restored(f);
}

/* The owner of the sets leaves nothing behind. */
void ftk_joint_close(struct ftk_joint_files *f)
{
    size_t n;
    if (!f->ctx->owner || f->ctx->rank != 0)
        return;
    int rc = ftk_joint_sweep(&f->place, 0, ftk_durable_own_behind, f->ctx, false, &n);
    if (rc == FTKIT_OK)
        rc = ftk_joint_remove(&f->place, 0);
    if (rc != FTKIT_OK)
        ftk_report(FTKIT_WARNING, "files '%s': %s", f->name, ftk_detail_text());
}

static const struct ftk_system_region joint_region = {
    .ops = { sizeof(ftkit_serializer), measure, pack, unpack },
    .pack_piece = pack_piece,
    .release = release,
};

struct ftk_joint_files *ftk_joint_of(const struct ftk_region *r)
{
    return r->system == &joint_region ? r->arg : NULL;
}

static int check_job(const struct ftkit_ctx *ctx)
{
    const char *const why =
        !ctx->cfg.h5_enabled    ? "level.hdf5 is off, and its directory is the file system of all "
                                  "nodes"
        : ctx->cfg.log_enabled  ? "with the message log (log.enabled) a rank that rolls back would "
                                  "write them alone"
        : ctx->cfg.replicas > 1 ? "replicas (replicas.count) would write them twice"
                                : NULL;
    return why ? ftk_fail(FTKIT_ERR_UNSUPPORTED, "ftkit_register_joint_files: %s", why) : FTKIT_OK;
}

int ftkit_register_joint_files(ftkit_ctx *ctx, const char *name)
{
    int rc = ftk_region_check_new(ctx, "ftkit_register_joint_files", name);
    if (rc == FTKIT_OK)
        rc = check_job(ctx);
    if (rc != FTKIT_OK)
        return ftk_done(ctx, rc);
    struct ftk_joint_files *f = calloc(1, sizeof *f);
    if (!f)
        return ftk_done(ctx, ftk_fail(FTKIT_ERR_NOMEM, "ftkit_register_joint_files"));
    f->ctx = ctx;
    snprintf(f->name, sizeof f->name, "%s", name);
    f->place = (struct ftk_joint){ ctx->cfg.h5_dir, ctx->cfg.name, f->name };
    rc = ftk_joint_path(&f->place, 1, f->path);
    if (rc == FTKIT_OK)
        rc = ftk_region_add_named(ctx, &joint_region, name, f);
    if (rc != FTKIT_OK)
        free(f);
    return ftk_done(ctx, rc);
}
