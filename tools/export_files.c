/* ftkit export --format files: the files that a program has written (ftkit_register_files()).
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

/* One export; the work runs in a process of its own. */
struct job {
    const char *dir;
    const struct ftk_manifest *m;
    const char *region;
    uint32_t rank;
    char to[FTK_PATH_MAX]; /* an empty directory */
};

static int unpack(void *arg, FILE *out)
{
    const struct job *j = arg;
    void *seg = NULL;
    const struct ftk_seg_region *r = NULL;
    bool absent = false;
    (void)out;
    int rc = ftk_sets_region(j->dir, j->m, j->rank, j->region, &seg, &r);
    if (rc == FTKIT_OK && r->kind != FTK_KIND_SERIALIZED)
        rc = ftk_fail(FTKIT_ERR_FORMAT, "'%s' has no files", j->region);
    if (rc == FTKIT_OK)
        rc = ftk_archive_unpack(ftk_seg_data_c(seg) + r->offset, (size_t)r->bytes, j->to, &absent);
    if (rc == FTKIT_OK && absent)
        rc = ftk_fail(FTKIT_ERR_NOT_FOUND, "the set is of the first step: it has no files yet");
    free(seg);
    if (rc == FTKIT_OK)
        return TOOL_OK;
    ftk_tool_say("%s", ftk_tool_why(ftk_detail_text()));
    return TOOL_FAIL;
}

int ftk_export_files(const char *dir, const struct ftk_manifest *m, const char *region,
    uint32_t rank, const char *path, uint64_t bytes)
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
