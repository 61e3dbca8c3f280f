/* ftkit export --format files: the files that a program has written (ftkit_register_files() and
 * ftkit_register_joint_files()).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The files are made in a directory beside the one that was asked for, which gets its name when all
 * are there. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sets.h"
#include "store/archive.h"
#include "store/slice.h"

/* One export; the work runs in a process of its own. */
struct job {
    const char *dir;
    const struct ftk_manifest *m;
    const char *region;
    int rank;              /* -1: not given */
    char to[FTK_PATH_MAX]; /* an empty directory */
};

/* The region of a rank.  *at: in *seg, which is malloc'd. */
static int load(const struct job *j, uint32_t rank, void **seg, const char **at, size_t *bytes)
{
    const struct ftk_seg_region *r = NULL;
    int rc = ftk_sets_region(j->dir, j->m, rank, j->region, seg, &r);
    if (rc == FTKIT_OK && r->kind != FTK_KIND_SERIALIZED)
        rc = ftk_fail(FTKIT_ERR_FORMAT, "'%s' has no files", j->region);
    if (rc != FTKIT_OK)
        return rc;
    *at = ftk_seg_data_c(*seg) + r->offset;
    *bytes = (size_t)r->bytes;
    return FTKIT_OK;
}

/* Lay out the slice of a rank, or do what comes behind all slices. */
static int spread(const struct job *j, uint32_t rank, bool finish)
{
    struct ftk_slice s = { .from = 0 };
    const char *at = NULL;
    void *seg = NULL;
    size_t bytes = 0;
    int rc = load(j, rank, &seg, &at, &bytes);
    if (rc == FTKIT_OK)
        rc = ftk_slice_check(at, bytes, &s);
    if (rc == FTKIT_OK && (s.head.rank != rank || s.head.nranks != j->m->nranks))
        rc = ftk_fail(FTKIT_ERR_CORRUPT, "the slice of rank %u is of another rank", rank);
    if (rc == FTKIT_OK && (s.list.head.flags & FTK_ARCHIVE_ABSENT))
        rc = ftk_fail(FTKIT_ERR_NOT_FOUND, "the set is of the first step: it has no files yet");
    if (rc == FTKIT_OK)
        rc = finish ? ftk_slice_finish(&s, j->to) : ftk_slice_spread(&s, j->to);
    free(s.list.v);
    free(seg);
    return rc;
}

static int spread_all(const struct job *j)
{
    int rc = FTKIT_OK;
    for (uint32_t q = 0; rc == FTKIT_OK && q < j->m->nranks; q++)
        rc = spread(j, q, false);
    return rc == FTKIT_OK ? spread(j, 0, true) : rc;
}

static int unpack_rank(const char *at, size_t bytes, const char *to)
{
    bool absent = false;
    int rc = ftk_archive_unpack(at, bytes, to, &absent);
    if (rc == FTKIT_OK && absent)
        rc = ftk_fail(FTKIT_ERR_NOT_FOUND, "the set is of the first step: it has no files yet");
    return rc;
}

static int unpack(void *arg, FILE *out)
{
    const struct job *j = arg;
    const char *at = NULL, *wrong = NULL;
    void *seg = NULL;
    size_t bytes = 0;
    (void)out;
    int rc = load(j, j->rank < 0 ? 0 : (uint32_t)j->rank, &seg, &at, &bytes);
    const bool joint = rc == FTKIT_OK && ftk_slice_is(at, bytes);
    if (joint && j->rank >= 0)
        wrong = "has files of all ranks together: leave out --rank";
    else if (rc == FTKIT_OK && !joint && j->rank < 0 && j->m->nranks > 1)
        wrong = "has files of each rank: add --rank";
    else if (rc == FTKIT_OK)
        rc = joint ? spread_all(j) : unpack_rank(at, bytes, j->to);
    free(seg);
    if (wrong)
        ftk_tool_say("'%s' %s", j->region, wrong);
    else if (rc != FTKIT_OK)
        ftk_tool_say("%s", ftk_tool_why(ftk_detail_text()));
    return wrong ? TOOL_USAGE : rc == FTKIT_OK ? TOOL_OK : TOOL_FAIL;
}

int ftk_export_files(const char *dir, const struct ftk_manifest *m, const char *region, int rank,
    const char *path, uint64_t bytes)
{
    struct job j = { .dir = dir, .m = m, .region = region, .rank = rank };
    struct ftk_isolated r;
    struct stat st;
    errno = EEXIST;
    bool bad = lstat(path, &st) == 0; /* a directory with files is not replaced */
    if (!bad)
        errno = ENAMETOOLONG;
    bad =
        bad || snprintf(j.to, sizeof j.to, "%s.XXXXXX", path) >= (int)sizeof j.to || !mkdtemp(j.to);
    if (bad) {
        ftk_tool_say("%s: %s", path, strerror(errno));
        return TOOL_FAIL;
    }
    ftk_progress_work(
        0, "exporting the files '%s' of set %llu", region, (unsigned long long)m->set);
    ftk_isolate(unpack, &j, bytes, &r);
    ftk_progress_clear();
    free(r.text);
    if (r.why[0])
        ftk_tool_say("set %llu: %s", (unsigned long long)m->set, r.why);
    mode_t mask = umask(0);
    (void)umask(mask);
    if (r.code == TOOL_OK && (chmod(j.to, 0777 & ~mask) != 0 || rename(j.to, path) != 0)) {
        ftk_tool_say("%s: %s", path, strerror(errno));
        r.code = TOOL_FAIL;
    }
    if (r.code != TOOL_OK)
        ftk_litter_tree(j.to);
    return r.code;
}
