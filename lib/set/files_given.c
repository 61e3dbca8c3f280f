/* Files that the program has given (see files_given.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "files_given.h"
#include "region.h"

static bool is_first_of_step(struct ftkit_ctx *ctx)
{
    return ctx->committed == 0 && ctx->loop.at == FTK_LOOP_NONE && ftk_region_has_step(ctx);
}

int ftk_given_check(
    struct ftkit_ctx *ctx, const struct ftk_given *g, const char *name, bool *absent)
{
    *absent = g->held == FTK_HELD_NOTHING && is_first_of_step(ctx);
    if (*absent)
        return FTKIT_OK;
    if ((g->held == FTK_HELD_GIVEN || g->held == FTK_HELD_TAKEN) && ctx->policy.made == g->of_call)
        return FTKIT_OK;
    return ftk_fail(FTKIT_ERR_STATE,
        "files '%s': %s. Rule: if ftkit_due(), the program writes the files between "
        "ftkit_files_begin() and ftkit_files_end(), and calls ftkit_checkpoint() next",
        name,
        g->held == FTK_HELD_BEGUN      ? "a set is due before ftkit_files_end()"
        : g->held == FTK_HELD_GIVEN    ? "a set is due, and the files are of an earlier call"
        : g->held == FTK_HELD_RESTORED ? "a set is due, and the files are those of the last restore"
                                       : "a set is due, and there are no files for it");
}

int ftk_given_check_end(const struct ftk_given *g, const char *name, bool ok)
{
    if (ok && g->held != FTK_HELD_BEGUN)
        return ftk_fail(FTKIT_ERR_STATE, "ftkit_files_end: no ftkit_files_begin() of '%s'", name);
    if (g->held == FTK_HELD_RESTORED)
        return ftk_fail(FTKIT_ERR_STATE,
            "ftkit_files_end: '%s' has the files of a restored set, for ftkit_files_read()", name);
    return FTKIT_OK;
}

void ftk_given_end(const struct ftkit_ctx *ctx, struct ftk_given *g, bool ok)
{
    g->held = ok ? FTK_HELD_GIVEN : FTK_HELD_NOTHING;
    g->of_call = ctx->policy.made + 1;
}

int ftk_given_check_room(const char *path, const char *call, const char *dir, size_t room)
{
    if (!dir)
        return ftk_fail(FTKIT_ERR_ARG, "%s: dir is NULL", call);
    const size_t n = strlen(path) + 1;
    if (n > room)
        return ftk_fail(
            FTKIT_ERR_SIZE, "%s: the path has %zu bytes, and dir has %zu", call, n, room);
    return FTKIT_OK;
}
