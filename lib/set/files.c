/* Regions of files (see files.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A region has a scratch directory.  With callbacks the directory is empty outside of a set and a
 * restore.  Without callbacks the program has the directory between its calls, and `held` says
 * whose files are in it. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "files.h"
#include "files_given.h"
#include "files_joint.h"
#include "region.h"
#include "store/archive.h"
#include "store/durable/sets.h"
#include "store/scratch.h"
#include "store/tree.h"

struct files {
    struct ftkit_ctx *ctx;
    char name[FTKIT_NAME_MAX + 1];
    bool calls; /* without callbacks */
    ftkit_files ops;
    void *arg;
    struct ftk_scratch scratch;
    struct ftk_archive *archive; /* of the set that is written; or NULL */
    struct ftk_given given;
    bool any_ranks;                   /* ftkit_files_any_ranks() */
    ftkit_files_ranks_fn *read_ranks; /* its function, with callbacks */
    /* The set that was restored last, if another number of ranks wrote the set. */
    struct {
        int nranks; /* 0: there is none, or a newer set is committed */
        uint64_t set, run;
        bool failed; /* an ftkit_files_of() has failed */
    } old;
};

/* Add the name of the region to an error. */
static int of(const struct files *f, int rc)
{
    char why[FTK_DETAIL_MAX];
    if (rc == FTKIT_OK)
        return rc;
    snprintf(why, sizeof why, "%s", ftk_detail_text());
    return ftk_fail(rc, "files '%s': %s", f->name, why);
}

static void drop_archive(struct files *f)
{
    ftk_archive_free(f->archive);
    f->archive = NULL;
}

/* Empty the directory where an error would be too late for the set. */
static void clean(struct files *f)
{
    if (ftk_scratch_empty(&f->scratch) != FTKIT_OK)
        ftk_report(FTKIT_WARNING, "files '%s': %s", f->name, ftk_detail_text());
}

/* ---- a set --------------------------------------------------------------------------- */

static int write_by_callback(struct files *f)
{
    int rc = ftk_scratch_empty(&f->scratch);
    if (rc != FTKIT_OK)
        return of(f, rc);
    (void)FTK_FAULT("files.write");
    errno = 0;
    int bad = f->ops.write(f->arg, f->scratch.path);
    const int err = errno;
    if (bad == 0)
        return FTKIT_OK;
    /* the program knows that a call has failed, and seldom why; another rank may have made room */
    if (err == ENOSPC || err == EDQUOT || ftk_scratch_full(&f->scratch))
        return ftk_fail(FTKIT_ERR_NOSPACE,
            "write() of files '%s' returned %d, and the file system of %s (files.directory) is "
            "full, or was",
            f->name, bad, f->scratch.path);
    return ftk_fail(FTKIT_ERR_CALLBACK, "write() of files '%s' returned %d", f->name, bad);
}

static int measure(void *arg, size_t *bytes)
{
    struct files *f = arg;
    bool absent = false;
    drop_archive(f);
    int rc = f->calls ? ftk_given_check(f->ctx, &f->given, f->name, &absent) : write_by_callback(f);
    if (rc == FTKIT_OK)
        rc = of(f, ftk_archive_scan(absent ? NULL : f->scratch.path, &f->archive));
    (void)FTK_FAULT("files.scanned");
    if (rc == FTKIT_OK)
        *bytes = ftk_archive_bytes(f->archive);
    else if (!f->calls)
        clean(f);
    return rc;
}

/* The archive is packed, or cannot be. */
static void end_pack(struct files *f)
{
    drop_archive(f);
    if (!f->calls)
        clean(f);
    else if (f->given.held == FTK_HELD_GIVEN)
        f->given.held = FTK_HELD_TAKEN;
}

static int pack_piece(void *arg, char *to, size_t at, size_t bytes)
{
    struct files *f = arg;
    if (!f->archive)
        return ftk_fail(FTKIT_ERR_IO, "files '%s' could not be taken", f->name);
    (void)FTK_FAULT("files.take");
    const size_t all = ftk_archive_bytes(f->archive);
    int rc = of(f, ftk_archive_read(f->archive, to, at, bytes));
    if (rc != FTKIT_OK || at + bytes == all)
        end_pack(f);
    return rc;
}

static int pack(void *arg, void *buf, size_t bytes)
{
    return pack_piece(arg, buf, 0, bytes);
}

/* ---- a restore ----------------------------------------------------------------------- */

static int read_by_callback(struct files *f)
{
    int bad = f->ops.read(f->arg, f->scratch.path);
    clean(f);
    return bad == 0
               ? FTKIT_OK
               : ftk_fail(FTKIT_ERR_CALLBACK, "read() of files '%s' returned %d", f->name, bad);
}

static int unpack(void *arg, const void *buf, size_t bytes)
{
    struct files *f = arg;
    bool absent = false;
    drop_archive(f);
    int rc = ftk_scratch_empty(&f->scratch);
    f->given.held = FTK_HELD_NOTHING;
    f->old.nranks = 0;
    (void)FTK_FAULT("files.restore");
    if (rc == FTKIT_OK)
        rc = ftk_archive_unpack(buf, bytes, f->scratch.path, &absent);
    if (rc != FTKIT_OK) {
        rc = of(f, rc);
        clean(f);
        return rc;
    }
    (void)FTK_FAULT("files.read");
    if (!f->calls)
        return read_by_callback(f);
    f->given.held = absent ? FTK_HELD_NOTHING : FTK_HELD_RESTORED;
    return FTKIT_OK;
}

/* ---- registration -------------------------------------------------------------------- */

static void release(void *arg)
{
    struct files *f = arg;
    drop_archive(f);
    ftk_scratch_remove(&f->scratch);
}

static const struct ftk_system_region files_region = {
    .ops = { sizeof(ftkit_serializer), measure, pack, unpack },
    .pack_piece = pack_piece,
    .release = release,
};

/* The next region of files behind *i; NULL: there is none. */
static struct files *next_files(const struct ftkit_ctx *ctx, int *i)
{
    while (*i < ctx->regions.n) {
        const struct ftk_region *r = &ctx->regions.list[(*i)++];
        if (r->system == &files_region)
            return r->arg;
    }
    return NULL;
}

/* The next region of joint files behind *i; NULL: there is none. */
static struct ftk_joint_files *next_joint(const struct ftkit_ctx *ctx, int *i)
{
    struct ftk_joint_files *f = NULL;
    while (!f && *i < ctx->regions.n)
        f = ftk_joint_of(&ctx->regions.list[(*i)++]);
    return f;
}

void ftk_files_committed(struct ftkit_ctx *ctx)
{
    struct ftk_joint_files *joint;
    struct files *f;
    for (int i = 0; (joint = next_joint(ctx, &i)) != NULL;)
        ftk_joint_committed(joint);
    for (int i = 0; (f = next_files(ctx, &i)) != NULL;) {
        f->old.nranks = 0;
        if (f->given.held == FTK_HELD_TAKEN) {
            f->given.held = FTK_HELD_NOTHING;
            clean(f);
        }
    }
}

void ftk_files_given_up(struct ftkit_ctx *ctx)
{
    struct ftk_joint_files *joint;
    struct files *f;
    for (int i = 0; (joint = next_joint(ctx, &i)) != NULL;)
        ftk_joint_given_up(joint);
    for (int i = 0; (f = next_files(ctx, &i)) != NULL;)
        if (f->archive) { /* measured and not packed */
            drop_archive(f);
            if (!f->calls)
                clean(f);
        }
}

void ftk_files_close(struct ftkit_ctx *ctx)
{
    struct ftk_joint_files *joint;
    for (int i = 0; (joint = next_joint(ctx, &i)) != NULL;)
        ftk_joint_close(joint);
}

/* If a rank is lost in the first set, the others try this set again.  With ftkit_step() the
 * replacement does the same.  Without ftkit_step() the replacement would first write files, alone.
 * The message log repeats the messages of other ranks that this needs.  With recover.supply = end
 * and without spares no rank is replaced. */
int ftk_files_check_loop(struct ftkit_ctx *ctx)
{
    if (ctx->mode != FTKIT_MODE_GLOBAL
        || (ctx->nspares == 0 && ctx->cfg.supply[0] == FTK_SUPPLY_END))
        return FTKIT_OK;
    for (int i = 0; i < ctx->regions.n; i++) {
        const struct ftk_region *r = &ctx->regions.list[i];
        const bool calls = r->system == &files_region && ((const struct files *)r->arg)->calls;
        if ((calls || ftk_joint_of(r)) && !ftk_region_has_step(ctx))
            return ftk_fail(FTKIT_ERR_UNSUPPORTED,
                "ftkit_recover: files '%s' have no callbacks, and so need ftkit_step(): a rank "
                "that replaces another one would write its first files while the others wait for "
                "it in the set",
                r->name);
    }
    return FTKIT_OK;
}

static int check_ops(const struct ftkit_ctx *ctx, const ftkit_files *ops)
{
    if (!ops && ctx->cfg.replicas > 1) /* a set may put the state of one replica right */
        return ftk_fail(FTKIT_ERR_UNSUPPORTED,
            "ftkit_register_files: replicas (replicas.count) need files with callbacks: a replica "
            "that differs reads its files inside of ftkit_checkpoint()");
    if (!ops && ctx->cfg.log_enabled && ctx->cfg.line == FTK_LINE_APART)
        return ftk_fail(FTKIT_ERR_UNSUPPORTED,
            "ftkit_register_files: lines apart (checkpoint.line) need files with callbacks: a "
            "program does not know in which of its calls it takes part in a set");
    if (!ops || (ops->size >= sizeof *ops && ops->write && ops->read))
        return FTKIT_OK;
    return ftk_fail(FTKIT_ERR_ARG, "ftkit_register_files: callbacks missing, or size not set");
}

static int make(
    struct ftkit_ctx *ctx, const char *name, const ftkit_files *ops, void *arg, struct files **out)
{
    struct files *f = calloc(1, sizeof *f);
    if (!f)
        return ftk_fail(FTKIT_ERR_NOMEM, "ftkit_register_files");
    f->ctx = ctx;
    f->calls = !ops;
    if (ops)
        f->ops = *ops;
    f->arg = arg;
    snprintf(f->name, sizeof f->name, "%s", name);
    int rc = of(f, ftk_scratch_make(ctx->cfg.files_dir, &f->scratch));
    if (rc == FTKIT_OK)
        *out = f;
    else
        free(f);
    return rc;
}

int ftkit_register_files(ftkit_ctx *ctx, const char *name, const ftkit_files *ops, void *arg)
{
    struct files *f = NULL;
    int rc = ftk_region_check_new(ctx, "ftkit_register_files", name);
    if (rc == FTKIT_OK)
        rc = check_ops(ctx, ops);
    if (rc == FTKIT_OK)
        rc = make(ctx, name, ops, arg, &f);
    if (rc == FTKIT_OK)
        rc = ftk_region_add_named(ctx, &files_region, name, f);
    if (rc != FTKIT_OK && f) {
        release(f);
        free(f);
    }
    return ftk_done(ctx, rc);
}

/* ---- calls of the program ------------------------------------------------------------ */

static int find_any(ftkit_ctx *ctx, const char *call, const char *name, struct files **out)
{
    int rc = ftk_check_ctx(ctx, call);
    if (rc == FTKIT_OK && !name)
        rc = ftk_fail(FTKIT_ERR_ARG, "%s: the name is NULL", call);
    if (rc != FTKIT_OK)
        return rc;
    const struct ftk_region *r = ftk_region_find(ctx, name);
    if (r && ftk_joint_of(r))
        return ftk_fail(FTKIT_ERR_STATE,
            "%s: files '%s' are of all ranks together, on any number of them: ftkit_files_read() "
            "has them",
            call, r->name);
    if (!r || r->system != &files_region)
        return ftk_fail(FTKIT_ERR_NOT_FOUND, "%s: no files '%.63s' are registered", call, name);
    *out = r->arg;
    return FTKIT_OK;
}

/* The joint files of that name; NULL: there are none. */
static struct ftk_joint_files *find_joint(ftkit_ctx *ctx, const char *name)
{
    if (!name || ftk_check_ctx(ctx, "files") != FTKIT_OK)
        return NULL;
    const struct ftk_region *r = ftk_region_find(ctx, name);
    return r ? ftk_joint_of(r) : NULL;
}

/* Files without callbacks. */
static int find(ftkit_ctx *ctx, const char *call, const char *name, struct files **out)
{
    int rc = find_any(ctx, call, name, out);
    if (rc == FTKIT_OK && !(*out)->calls)
        rc = ftk_fail(FTKIT_ERR_STATE, "%s: files '%s' have callbacks", call, name);
    return rc;
}

static int copy_path(const struct files *f, const char *call, char *dir, size_t room)
{
    int rc = ftk_given_check_room(f->scratch.path, call, dir, room);
    if (rc == FTKIT_OK)
        strcpy(dir, f->scratch.path);
    return rc;
}

int ftkit_files_begin(ftkit_ctx *ctx, const char *name, char *dir, size_t room)
{
    struct ftk_joint_files *joint = find_joint(ctx, name);
    struct files *f = NULL;
    if (joint)
        return ftk_done(ctx, ftk_joint_begin(joint, dir, room));
    int rc = find(ctx, "ftkit_files_begin", name, &f);
    if (rc == FTKIT_OK)
        rc = copy_path(f, "ftkit_files_begin", dir, room);
    if (rc == FTKIT_OK)
        rc = of(f, ftk_scratch_empty(&f->scratch));
    if (rc == FTKIT_OK)
        f->given.held = FTK_HELD_BEGUN;
    return ftk_done(ctx, rc);
}

int ftkit_files_end(ftkit_ctx *ctx, const char *name, int ok)
{
    struct ftk_joint_files *joint = find_joint(ctx, name);
    struct files *f = NULL;
    if (joint)
        return ftk_done(ctx, ftk_joint_end(joint, ok != 0));
    int rc = find(ctx, "ftkit_files_end", name, &f);
    if (rc == FTKIT_OK)
        rc = ftk_given_check_end(&f->given, f->name, ok);
    if (rc != FTKIT_OK)
        return ftk_done(ctx, rc);
    ftk_given_end(ctx, &f->given, ok);
    return ftk_done(ctx, ok ? FTKIT_OK : of(f, ftk_scratch_empty(&f->scratch)));
}

int ftkit_files_read(ftkit_ctx *ctx, const char *name, char *dir, size_t room)
{
    struct ftk_joint_files *joint = find_joint(ctx, name);
    struct files *f = NULL;
    if (joint)
        return ftk_done(ctx, ftk_joint_read(joint, dir, room));
    int rc = find(ctx, "ftkit_files_read", name, &f);
    if (rc == FTKIT_OK && f->old.nranks > 0)
        rc = ftk_fail(FTKIT_ERR_SIZE,
            "ftkit_files_read: the restored set is of %d ranks: ftkit_files_of() has the files of "
            "each",
            f->old.nranks);
    if (rc == FTKIT_OK && f->given.held != FTK_HELD_RESTORED)
        return FTKIT_NO_SET;
    if (rc == FTKIT_OK)
        rc = copy_path(f, "ftkit_files_read", dir, room);
    return ftk_done(ctx, rc);
}

/* ---- a set of another number of ranks ------------------------------------------------ */

int ftkit_files_any_ranks(ftkit_ctx *ctx, const char *name, ftkit_files_ranks_fn *read)
{
    static const char *const call = "ftkit_files_any_ranks";
    struct files *f = NULL;
    int rc = find_any(ctx, call, name, &f);
    if (rc == FTKIT_OK && ctx->where == FTK_IN_LOOP)
        rc = ftk_fail(FTKIT_ERR_STATE, "%s after ftkit_recover or ftkit_step", call);
    if (rc == FTKIT_OK && f->calls != (read == NULL))
        rc = ftk_fail(FTKIT_ERR_ARG, "%s: files '%s' have %s", call, f->name,
            f->calls ? "no callbacks: read must be NULL" : "callbacks: read is missing");
    if (rc == FTKIT_OK) {
        f->any_ranks = true;
        f->read_ranks = read;
    }
    return ftk_done(ctx, rc);
}

bool ftk_files_are(const struct ftk_region *r)
{
    return r->system == &files_region || ftk_joint_of(r);
}

bool ftk_files_any_ranks(const struct ftk_region *r)
{
    return ftk_joint_of(r)
           || (r->system == &files_region && ((const struct files *)r->arg)->any_ranks);
}

/* Go to the files of each old rank, which the program asks for. */
static int restore_others(struct files *f)
{
    struct ftkit_ctx *ctx = f->ctx;
    int rc = of(f, ftk_scratch_empty(&f->scratch));
    drop_archive(f);
    f->given.held = FTK_HELD_NOTHING;
    f->old.nranks = ctx->repair.line_nranks;
    f->old.set = ctx->repair.line;
    f->old.run = ctx->run;
    if (rc != FTKIT_OK || f->calls)
        return rc;
    f->old.failed = false;
    int bad = f->read_ranks(f->arg, ctx, f->name, f->old.nranks);
    clean(f);
    if (bad == 0)
        return FTKIT_OK;
    return ftk_fail(FTKIT_ERR_CALLBACK, "read() of files '%s' of %d ranks returned %d%s%s", f->name,
        f->old.nranks, bad, f->old.failed ? ": " : "", f->old.failed ? ctx->detail : "");
}

int ftk_files_restore_others(struct ftkit_ctx *ctx)
{
    struct ftk_joint_files *joint;
    struct files *f;
    int rc = FTKIT_OK;
    for (int i = 0; (joint = next_joint(ctx, &i)) != NULL;)
        ftk_joint_restore_others(joint);
    for (int i = 0; rc == FTKIT_OK && (f = next_files(ctx, &i)) != NULL;)
        rc = restore_others(f);
    return rc;
}

int ftkit_files_ranks(ftkit_ctx *ctx, const char *name, int *ranks)
{
    struct files *f = NULL;
    int rc = find_any(ctx, "ftkit_files_ranks", name, &f);
    if (rc == FTKIT_OK && !ranks)
        rc = ftk_fail(FTKIT_ERR_ARG, "ftkit_files_ranks: ranks is NULL");
    if (rc == FTKIT_OK && f->old.nranks == 0)
        return FTKIT_NO_SET;
    if (rc == FTKIT_OK)
        *ranks = f->old.nranks;
    return ftk_done(ctx, rc);
}

/* The directory of an old rank, in that of this rank. */
static int make_old_dir(const struct files *f, const char *name, const char *path)
{
    int err = FTK_FAULT("files.of");
    if (err == 0)
        err = ftk_tree_empty(f->scratch.fd, name, NULL);
    if (err == ENOENT)
        err = mkdirat(f->scratch.fd, name, 0700) == 0 ? 0 : errno;
    return err == 0 ? FTKIT_OK : ftk_fail_errno(err, "making %s", path);
}

/* Read the files of an old rank from the set, and make them in the directory. */
static int read_old(const struct files *f, int old_rank, const char *path, bool *absent)
{
    const char *dir = f->ctx->cfg.h5_dir;
    const struct ftk_seg_region *r = NULL;
    struct ftk_manifest m = { 0 };
    void *seg = NULL;
    int rc = ftk_sets_open(dir, f->ctx->cfg.name, f->old.set, &m);
    if (rc == FTKIT_ERR_NOT_FOUND
        || (rc == FTKIT_OK && (m.run != f->old.run || m.nranks != (uint32_t)f->old.nranks)))
        rc = ftk_fail(
            FTKIT_ERR_LOST, "set %llu is no longer in %s", (unsigned long long)f->old.set, dir);
    if (rc == FTKIT_OK)
        rc = ftk_sets_region(dir, &m, (uint32_t)old_rank, f->name, &seg, &r);
    if (rc == FTKIT_OK)
        rc = ftk_archive_unpack(ftk_seg_data_c(seg) + r->offset, (size_t)r->bytes, path, absent);
    free(seg);
    ftk_manifest_free(&m);
    return rc;
}

/* Whether there is something to read. */
static int check_of(const struct files *f, const char *call, int old_rank)
{
    if (f->given.held != FTK_HELD_NOTHING && f->given.held != FTK_HELD_RESTORED)
        return ftk_fail(
            FTKIT_ERR_STATE, "%s between ftkit_files_begin() and the set: '%s'", call, f->name);
    if (f->old.nranks == 0)
        return FTKIT_NO_SET;
    if (old_rank >= 0 && old_rank < f->old.nranks)
        return FTKIT_OK;
    return ftk_fail(FTKIT_ERR_ARG, "%s: files '%s' are of the ranks 0 to %d, not of rank %d", call,
        f->name, f->old.nranks - 1, old_rank);
}

int ftkit_files_of(ftkit_ctx *ctx, const char *name, int old_rank, char *dir, size_t room)
{
    static const char *const call = "ftkit_files_of";
    struct files *f = NULL;
    char path[sizeof f->scratch.path + 32], below[32];
    bool absent = false;
    int rc = find_any(ctx, call, name, &f);
    if (rc == FTKIT_OK)
        rc = check_of(f, call, old_rank);
    if (rc != FTKIT_OK)
        return ftk_done(ctx, rc);
    snprintf(below, sizeof below, "rank-%05d", old_rank);
    snprintf(path, sizeof path, "%s/%s", f->scratch.path, below);
    rc = ftk_given_check_room(path, call, dir, room);
    if (rc == FTKIT_OK)
        rc = of(f, make_old_dir(f, below, path));
    if (rc == FTKIT_OK)
        rc = of(f, read_old(f, old_rank, path, &absent));
    if (rc != FTKIT_OK) {
        f->old.failed = true;
        rc = ftk_done(ctx, rc);
        (void)ftk_tree_empty(f->scratch.fd, below, NULL); /* half of the files is worse than none */
        return rc;
    }
    if (absent)
        return FTKIT_NO_SET;
    strcpy(dir, path);
    return FTKIT_OK;
}
