/* Files of a checkpoint (see files.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * They are a region of ftkit_register_files() without callbacks.  Each checkpoint begins and ends
 * them, also without a file, because a set is due with them only.  The name that the program
 * chooses is one part of a path here: '/' becomes %2F, and '%' %25. */
#define _GNU_SOURCE
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/compat.h"
#include "files.h"
#include "veloc.h"

#define FILES "files"

static struct {
    bool there;     /* the sets have files */
    char dir[1100]; /* of the files; "": there is none */
} files;

static bool failure(const char *call, const char *why)
{
    ftk_compat_say("%s: %s", call, why);
    return false;
}

/* A call of ftkit has failed. */
static bool failed(const char *call)
{
    files.dir[0] = '\0';
    return failure(call, ftkit_detail(ftk_compat.ft));
}

int ftk_veloc_files_register(void)
{
    const int rc = ftkit_register_files(ftk_compat.ft, FILES, NULL, NULL);
    files.there = rc == FTKIT_OK;
    if (rc == FTKIT_OK || rc == FTKIT_ERR_UNSUPPORTED)
        return FTKIT_OK;
    (void)failed("VELOC_Init");
    return rc;
}

bool ftk_veloc_files_begin(void)
{
    if (!files.there)
        return true;
    return ftkit_files_begin(ftk_compat.ft, FILES, files.dir, sizeof files.dir) == FTKIT_OK
           || failed("VELOC_Checkpoint_begin");
}

bool ftk_veloc_files_end(bool ok)
{
    files.dir[0] = '\0';
    if (!files.there)
        return true;
    return ftkit_files_end(ftk_compat.ft, FILES, ok) == FTKIT_OK || failed("VELOC_Checkpoint_end");
}

bool ftk_veloc_files_read(void)
{
    files.dir[0] = '\0';
    if (!files.there)
        return true;
    return ftkit_files_read(ftk_compat.ft, FILES, files.dir, sizeof files.dir) >= FTKIT_OK
           || failed("VELOC_Restart_begin");
}

/* ---- paths --------------------------------------------------------------------------- */

/* A name as one part of a path.  false: it is empty, too long, or has a meaning in paths. */
static bool encode(const char *original, char name[NAME_MAX + 1])
{
    size_t n = 0;
    for (const char *c = original; *c; c++) {
        const char *as = *c == '/' ? "%2F" : *c == '%' ? "%25" : NULL;
        const size_t bytes = as ? 3 : 1;
        if (n + bytes > NAME_MAX)
            return false;
        memcpy(name + n, as ? as : c, bytes);
        n += bytes;
    }
    name[n] = '\0';
    return n > 0 && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* The name of the only file of the checkpoint; else `name` stays. */
static bool only_file(char name[NAME_MAX + 1])
{
    char found[NAME_MAX + 1] = "";
    int n = 0;
    DIR *d = opendir(files.dir);
    if (!d)
        return false;
    for (const struct dirent *e; (e = readdir(d));) {
        if (strcmp(e->d_name, name) == 0)
            n = 2;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        n++;
        snprintf(found, sizeof found, "%s", e->d_name);
    }
    closedir(d);
    if (n == 1)
        memcpy(name, found, sizeof found);
    return true;
}

bool ftk_veloc_files_route(const char *original, bool reading, char *routed)
{
    const char *const call = "VELOC_Route_file";
    char name[NAME_MAX + 1];
    if (!original || !routed || !encode(original, name))
        return failure(call, "the name of a file has 1 to 255 bytes, '/' and '%' count three");
    if (!files.there)
        return failure(call, "lines apart (checkpoint.line) and replicas (replicas.count) have no "
                             "files of VeloC");
    if (files.dir[0] == '\0')
        return failure(call, reading ? "the checkpoint has no files" : "there is no directory");
    if (reading && !only_file(name))
        return failure(call, "the files of the checkpoint cannot be listed");
    const int n = snprintf(routed, VELOC_MAX_NAME, "%s/%s", files.dir, name);
    return (n > 0 && n < VELOC_MAX_NAME) || failure(call, "the path of the file is too long");
}
