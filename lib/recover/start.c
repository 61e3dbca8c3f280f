/* From which set a start may continue (see start.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/access.h"
#include "core/hash.h"
#include "core/run_state.h"
#include "set/checkpoint.h"
#include "set/number.h"
#include "start.h"
#include "store/durable/sets.h"
#include "store/sets_dir.h"

#define ADVICE                                                                                     \
    "see `ftkit verify`, mend it with `ftkit repair`, choose another with --set N, or "            \
    "begin anew with --fresh (recover.start)"

/* With --fresh all attempts of one `ftkit run` have the same run number.  So the first attempt
 * begins anew, and relaunches continue from the sets of this run. */
void ftk_start_begin(struct ftkit_ctx *ctx)
{
    const char *id = getenv("FTKIT_RUN_ID");
    if (ctx->cfg.start != FTK_START_FRESH || !id || !*id)
        return; /* ctx->run is a random number, which no set has yet */
    uint64_t run = ftk_xxh3(id, strlen(id));
    ftk_set_number_run(ctx, run ? run : 1);
}

bool ftk_start_may_use(const struct ftkit_ctx *ctx, uint64_t set, uint64_t run)
{
    uint64_t start = ctx->cfg.start;
    if (ctx->repair.pending != FTK_PENDING_LOAD || start == FTK_START_FRESH)
        return run == ctx->run;
    return ftk_start_is_newest(start) || set == start; /* older: only sets in the files */
}

/* Whether this start looks for an older set in the files. */
static bool wants_older(const struct ftkit_ctx *ctx)
{
    return ctx->repair.pending == FTK_PENDING_LOAD && ctx->cfg.start == FTK_START_OLDER;
}

/* ---- picking ------------------------------------------------------------------------- */

/* The sets that a search has passed over. */
struct look {
    uint64_t set; /* the newest that is damaged or cannot be read; 0: none */
    int rc;       /* its error */
    char why[256];
    uint64_t unfinished, earlier; /* numbers of sets: not finished; of runs that may not be used */
};

static int other_program(const struct ftkit_ctx *ctx, const struct ftk_manifest *m)
{
    return ftk_fail(FTKIT_ERR_FORMAT,
        "set %" PRIu64 " was written by '%s', this is '%s': set context.program = %s if it is "
        "the same program, else use another directory or context.name, or --fresh; sets "
        "in %s",
        m->set, m->program, ctx->identity.program, m->program, ctx->cfg.h5_dir);
}

/* A set could not be opened (error rc, with a detail): note why, and report it. */
static int examine(const struct ftkit_ctx *ctx, uint64_t set, int rc, struct look *l)
{
    struct ftk_set_entry e;
    char why[sizeof l->why];
    snprintf(why, sizeof why, "%s", ftk_detail_text());
    int bad = ftk_sets_examine(ctx->cfg.h5_dir, ctx->cfg.name, set, &e);
    if (bad == FTKIT_ERR_NOT_FOUND)
        return FTKIT_OK; /* removed meanwhile, or not the directory of a set */
    if (bad != FTKIT_OK)
        return bad;
    if (e.state == FTK_SET_INCOMPLETE) {
        ftk_report(FTKIT_INFO,
            "context %s: set %" PRIu64 " in %s is passed over: it was being written when its "
            "job ended",
            ctx->cfg.name, set, ctx->cfg.h5_dir);
        l->unfinished++;
        return FTKIT_OK;
    }
    ftk_report(FTKIT_WARNING, "context %s: set %" PRIu64 " in %s is passed over: %s", ctx->cfg.name,
        set, ctx->cfg.h5_dir, why);
    if (l->set == 0) {
        l->set = set;
        l->rc = rc == FTKIT_ERR_NOT_FOUND ? FTKIT_ERR_CORRUPT : rc; /* a file is missing */
        memcpy(l->why, why, sizeof l->why);
    }
    return FTKIT_OK;
}

/* Set *use to whether the search takes this set.  An error ends the search. */
static int consider(struct ftkit_ctx *ctx, uint64_t set, struct look *l, bool *use)
{
    struct ftk_manifest m = { 0 };
    *use = false;
    if (ctx->repair.pending == FTK_PENDING_LOAD && ctx->cfg.start == FTK_START_FRESH
        && !getenv("FTKIT_RUN_ID")) {
        l->earlier++;
        return FTKIT_OK;
    }
    int rc = ftk_sets_open(ctx->cfg.h5_dir, ctx->cfg.name, set, &m);
    if (rc == FTKIT_ERR_NOMEM)
        return rc;
    if (rc != FTKIT_OK)
        return examine(ctx, set, rc, l);
    *use = wants_older(ctx) || ftk_start_may_use(ctx, set, m.run);
    l->earlier += !*use;
    if (*use && !ftk_identity_fits(&ctx->identity, m.program, 0))
        rc = other_program(ctx, &m);
    if (rc == FTKIT_OK && *use && !*m.program)
        ftk_report(FTKIT_INFO,
            "context %s: set %" PRIu64 " does not name its program: an older ftkit wrote it",
            ctx->cfg.name, set);
    ftk_manifest_free(&m);
    return rc;
}

/* No set can be used: return an error, or report that the job begins anew. */
static int nothing(const struct ftkit_ctx *ctx, const struct look *l)
{
    bool start = ctx->repair.pending == FTK_PENDING_LOAD;
    if (start && l->set > 0 && ctx->cfg.start != FTK_START_FRESH)
        return ftk_fail(l->rc, "set %" PRIu64 " cannot be used%s: %s; " ADVICE "; sets in %s",
            l->set, ftk_start_is_newest(ctx->cfg.start) ? " and no other is complete" : "", l->why,
            ctx->cfg.h5_dir);
    if (start && ctx->cfg.start == FTK_START_FRESH && l->earlier + (l->set > 0) > 0)
        ftk_report(FTKIT_INFO,
            "context %s: a fresh start (recover.start): the sets of earlier runs in %s "
            "stay as "
            "they are",
            ctx->cfg.name, ctx->cfg.h5_dir);
    else if (start && l->unfinished > 0 && l->earlier == 0)
        ftk_report(FTKIT_WARNING,
            "context %s: no set in %s was finished: the job starts from the beginning",
            ctx->cfg.name, ctx->cfg.h5_dir);
    return FTKIT_OK;
}

/* Whether to look at a set: with recover.start = N a start looks at set N only. */
static bool is_asked_for(const struct ftkit_ctx *ctx, uint64_t set)
{
    uint64_t start = ctx->cfg.start;
    return ctx->repair.pending != FTK_PENDING_LOAD || ftk_start_is_newest(start)
           || start == FTK_START_FRESH || start == FTK_START_OLDER || set == start;
}

int ftk_start_pick(
    struct ftkit_ctx *ctx, uint64_t below, bool must, uint64_t *set, uint64_t *newest)
{
    struct look l = { 0 };
    uint64_t *all = NULL;
    size_t n = 0;
    bool use = false, skip = below == 0 && wants_older(ctx);
    *set = *newest = 0;
    int rc = ftk_sets_numbers(ctx->cfg.h5_dir, ctx->cfg.name, &all, &n);
    if (rc == FTKIT_OK && n > 0)
        *newest = all[0];
    for (size_t i = 0; rc == FTKIT_OK && !use && i < n; i++) {
        if ((below > 0 && all[i] >= below) || !is_asked_for(ctx, all[i]))
            continue;
        rc = consider(ctx, all[i], &l, &use);
        if (use && skip) {
            ftk_report(FTKIT_WARNING,
                "context %s: set %" PRIu64 " is passed over: recover.start = older", ctx->cfg.name,
                all[i]);
            use = skip = false;
        }
        if (use)
            *set = all[i];
    }
    free(all);
    if (rc == FTKIT_OK && !use && must && below == 0)
        rc = nothing(ctx, &l);
    return rc;
}

/* ---- the end of a search ------------------------------------------------------------- */

int ftk_start_check(const struct ftkit_ctx *ctx, uint64_t set)
{
    uint64_t start = ctx->cfg.start;
    if (set > 0 || ftk_start_is_newest(start) || start == FTK_START_FRESH
        || start == FTK_START_OLDER)
        return FTKIT_OK;
    return ftk_fail(FTKIT_ERR_NOT_FOUND,
        "recover.start = %" PRIu64 ": there is no such set that can be used, neither in %s nor "
        "in memory; `ftkit ls` tells which there are",
        start, ctx->cfg.h5_dir);
}

void ftk_start_failed(const struct ftkit_ctx *ctx, int rc)
{
    if (ctx->rank != 0 || ctx->repair.pending != FTK_PENDING_LOAD)
        return;
    switch (rc) {
    case FTKIT_ERR_NOT_FOUND: /* of a region or a set */
    case FTKIT_ERR_TYPE:
    case FTKIT_ERR_SIZE:
    case FTKIT_ERR_MISMATCH:
    case FTKIT_ERR_UNSUPPORTED:
    case FTKIT_ERR_CORRUPT:
    case FTKIT_ERR_FORMAT:
        ftk_run_state("hopeless %s", ftk_detail_text());
        break;
    case FTKIT_ERR_BUSY:
        ftk_run_state("busy %s", ftk_detail_text());
        break;
    default: /* another attempt may have more memory, or a better file system */
        break;
    }
}

/* ---- the directory ------------------------------------------------------------------- */

/* below: the entry of the directory that cannot be used; "": the directory itself. */
static int unusable(const struct ftk_config *cfg, const char *below, int err)
{
    const char *what = err == ENOENT    ? "make the directory"
                       : err == ENOTDIR ? "only a directory will do"
                       : err == EROFS   ? "its file system is read-only"
                                        : "give yourself the right to write there";
    char here[FTK_PATH_MAX] = "", path[FTK_PATH_MAX], users[160];
    struct stat st;
    if (cfg->h5_dir[0] != '/' && !getcwd(here, sizeof here))
        here[0] = '\0';
    const int n = snprintf(path, sizeof path, "%s%s", cfg->h5_dir, below);
    const bool denied = err == EACCES || err == EPERM || err == ELOOP;
    if (denied && n > 0 && (size_t)n < sizeof path
        && (err == ELOOP ? lstat(path, &st) : stat(path, &st)) == 0 && st.st_uid != geteuid()) {
        snprintf(users, sizeof users,
            "the %s belongs to user %lu, and this process belongs to user %lu: %s",
            err == ELOOP ? "link" : "directory", (unsigned long)st.st_uid, (unsigned long)geteuid(),
            err == EACCES ? "ask for the right to write there"
                          : "ftkit does not use it, because another user may have planted it");
        what = users;
    }
    return ftk_fail(FTKIT_ERR_IO,
        "sets cannot be written to level.hdf5.directory = %s%s%s%s: %s; %s, or choose "
        "another "
        "one (FTKIT_LEVEL_HDF5_DIRECTORY)",
        cfg->h5_dir, below, here[0] ? " in " : "", here, strerror(err), what);
}

static int look_at_directory(const char *dir)
{
    struct stat st;
    const int err = ftk_access_link(dir);
    if (err != 0)
        return err;
    if (stat(dir, &st) != 0)
        return errno;
    if (!S_ISDIR(st.st_mode))
        return ENOTDIR;
    return access(dir, W_OK | X_OK) == 0 ? 0 : errno;
}

int ftk_start_directory(const struct ftk_config *cfg)
{
    char below[FTKIT_NAME_MAX + 8], sets[FTK_PATH_MAX];
    if (!cfg->h5_enabled)
        return FTKIT_OK;
    int err = look_at_directory(cfg->h5_dir);
    if (err != 0)
        return unusable(cfg, "", err);
    snprintf(below, sizeof below, "/%s.ftkit", cfg->name);
    int n = snprintf(sets, sizeof sets, "%s%s", cfg->h5_dir, below);
    if (n < 0 || (size_t)n >= sizeof sets)
        return ftk_fail(FTKIT_ERR_CONFIG, "level.hdf5.directory: the path is too long");
    err = look_at_directory(sets); /* an earlier run may have made it */
    if (err == 0) {                /* or another user */
        const int fd = ftk_sets_dir_open(cfg->h5_dir, cfg->name);
        err = fd < 0 ? errno : 0;
        if (fd >= 0)
            (void)close(fd); /* nothing was written */
    }
    return err == 0 || err == ENOENT ? FTKIT_OK : unusable(cfg, below, err);
}
