/* Files to which the program appends (see output.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A set has the offset only.  It is right when the file has just so many bytes at the set: more or
 * fewer mean that bytes are in a buffer of the program, or are not counted.  So this is checked,
 * and a set with a wrong offset is not written. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "output.h"
#include "region.h"

struct output {
    char name[FTKIT_NAME_MAX + 1];
    int64_t *offset;
    char path[]; /* absolute; "": this rank has no file */
};

/* The bytes that the file has; 0 if there is none. */
static int size_of(const struct output *o, int64_t *size)
{
    struct stat st;
    *size = *o->path ? 0 : *o->offset;
    if (!*o->path)
        return FTKIT_OK;
    if (stat(o->path, &st) != 0)
        return errno == ENOENT ? FTKIT_OK : ftk_fail_errno(errno, "'%s': %s", o->name, o->path);
    if (!S_ISREG(st.st_mode))
        return ftk_fail(FTKIT_ERR_IO, "'%s': %s is not a regular file", o->name, o->path);
    *size = st.st_size;
    return FTKIT_OK;
}

static int measure(void *arg, size_t *bytes)
{
    const struct output *o = arg;
    int64_t size;
    *bytes = sizeof size;
    int rc = size_of(o, &size);
    if (rc == FTKIT_OK && size != *o->offset)
        rc = ftk_fail(FTKIT_ERR_STATE,
            "'%s': %s has %" PRId64 " bytes, and the offset is %" PRId64
            ". Rule: before a set write out all data (fflush), and set the offset to the size",
            o->name, o->path, size, *o->offset);
    return rc;
}

static int pack(void *arg, void *buf, size_t bytes)
{
    const struct output *o = arg;
    if (bytes != sizeof *o->offset)
        return ftk_fail(FTKIT_ERR_INTERNAL, "'%s' has another size", o->name);
    memcpy(buf, o->offset, bytes);
    return FTKIT_OK;
}

/* Shorten the file to the offset. */
static int shorten(const struct output *o, int64_t offset)
{
    int64_t size;
    int rc = size_of(o, &size);
    if (rc != FTKIT_OK || size == offset || !*o->path)
        return rc;
    if (size < offset)
        return ftk_fail(FTKIT_ERR_IO,
            "'%s': %s has %" PRId64 " bytes, and had %" PRId64
            " at the set: the rest is lost, or it is another file",
            o->name, o->path, size, offset);
    if (truncate(o->path, offset) != 0)
        return ftk_fail_errno(errno, "'%s': shortening %s", o->name, o->path);
    return FTKIT_OK;
}

static int unpack(void *arg, const void *buf, size_t bytes)
{
    const struct output *o = arg;
    int64_t offset;
    if (bytes != sizeof offset)
        return ftk_fail(FTKIT_ERR_SIZE, "'%s' was saved by another function", o->name);
    memcpy(&offset, buf, sizeof offset);
    int rc = shorten(o, offset);
    if (rc == FTKIT_OK)
        *o->offset = offset;
    return rc;
}

static void variables(const void *arg, const void **at, size_t *bytes)
{
    const struct output *o = arg;
    *at = o->offset;
    *bytes = sizeof *o->offset;
}

static const struct ftk_system_region output_region = {
    .ops = { sizeof(ftkit_serializer), measure, pack, unpack },
    .differs_in_ranks = true, /* files are of the ranks that write them */
    .variables = variables,
};

int ftk_output_begin(struct ftkit_ctx *ctx)
{
    int rc = FTKIT_OK;
    for (int i = 0; rc == FTKIT_OK && i < ctx->regions.n; i++) {
        const struct ftk_region *r = &ctx->regions.list[i];
        const struct output *o = r->arg;
        if (r->system == &output_region)
            rc = shorten(o, *o->offset);
    }
    return rc;
}

static int make(const char *name, const char *path, int64_t *offset, struct output **out)
{
    char here[PATH_MAX] = "";
    path = path ? path : "";
    if (!offset)
        return ftk_fail(FTKIT_ERR_ARG, "ftkit_register_offset: offset is NULL");
    int rc = ftk_region_check_variables("ftkit_register_offset", name, offset);
    if (rc != FTKIT_OK)
        return rc;
    if (*offset < 0)
        return ftk_fail(FTKIT_ERR_ARG, "ftkit_register_offset: the offset is negative");
    if (*path && *path != '/' && !getcwd(here, sizeof here))
        return ftk_fail_errno(errno, "ftkit_register_offset: the working directory");
    size_t room = strlen(here) + strlen(path) + 2;
    struct output *o = malloc(sizeof *o + room);
    if (!o)
        return ftk_fail(FTKIT_ERR_NOMEM, "ftkit_register_offset");
    snprintf(o->path, room, "%s%s%s", here, *here ? "/" : "", path);
    snprintf(o->name, sizeof o->name, "%s", name);
    o->offset = offset;
    *out = o;
    return FTKIT_OK;
}

int ftkit_register_offset(ftkit_ctx *ctx, const char *name, const char *path, int64_t *offset)
{
    struct output *o = NULL;
    int rc = ftk_region_check_new(ctx, "ftkit_register_offset", name);
    if (rc == FTKIT_OK)
        rc = make(name, path, offset, &o);
    if (rc == FTKIT_OK)
        rc = ftk_region_add_named(ctx, &output_region, name, o);
    if (rc != FTKIT_OK)
        free(o);
    return ftk_done(ctx, rc);
}
