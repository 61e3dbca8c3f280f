/* The paths of the configuration (see paths.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "paths.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/event.h"

int ftk_paths_absolute(const struct ftkit_ctx *ctx, char path[FTK_PATH_MAX])
{
    char here[FTK_PATH_MAX], all[2 * FTK_PATH_MAX];
    if (path[0] == '/' || path[0] == '\0')
        return FTKIT_OK;
    if (ctx->programs.directory[0])
        memcpy(here, ctx->programs.directory, sizeof here);
    else if (!getcwd(here, sizeof here))
        return ftk_fail_errno(errno, "working directory");
    int n = strcmp(path, ".") == 0 ? snprintf(all, sizeof all, "%s", here)
                                   : snprintf(all, sizeof all, "%s/%s", here, path);
    if (n >= FTK_PATH_MAX)
        return ftk_fail(FTKIT_ERR_ARG, "%s: the path of the working directory is too long", path);
    memcpy(path, all, (size_t)n + 1);
    return FTKIT_OK;
}

int ftk_paths_make_absolute(struct ftkit_ctx *ctx)
{
    struct ftk_config *cfg = &ctx->cfg;
    char *const paths[] = { cfg->h5_dir, cfg->place_dir, cfg->log_dir, cfg->log_matrix, cfg->sysfs,
        cfg->local_dir, cfg->files_dir };
    int rc = FTKIT_OK;
    for (size_t i = 0; rc == FTKIT_OK && i < sizeof paths / sizeof *paths; i++)
        rc = ftk_paths_absolute(ctx, paths[i]);
    return rc;
}

void ftk_paths_report(struct ftkit_ctx *ctx)
{
    struct ftk_config *cfg = &ctx->cfg;
    ftk_report_setup(cfg->stderr_level);
    int rc = ftk_paths_absolute(ctx, cfg->events);
    int err = rc == FTKIT_OK ? ftk_event_open(cfg->events, cfg->name, cfg->access) : 0;
    if (rc != FTKIT_OK)
        ftk_report(FTKIT_WARNING, "report.events: %s", ftk_detail_text());
    else if (err)
        ftk_report(FTKIT_WARNING, "report.events = %s: %s: there is no event log of this process",
            cfg->events, strerror(err));
}
