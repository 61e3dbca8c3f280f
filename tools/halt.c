/* ftkit halt: ask the job that uses the sets of a directory to halt.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The request is a file beside the record of the owner (lib/set/steer.c reads it). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sets.h"
#include "store/owner.h"

void ftk_halt_usage(FILE *out)
{
    fputs("usage: ftkit halt [--context NAME] [--wait] DIR\n"
          "\n"
          "Ask the job that uses the sets of DIR to write a durable set and to stop:\n"
          "ftkit_checkpoint returns FTKIT_HALT to the program, and ftkit run ends with 75.\n"
          "The job notices the request within checkpoint.react (1 s).  The next start of\n"
          "the program goes on from this set.\n"
          "\n"
          "  --context NAME  only the job of this context\n"
          "  --wait          wait until the job has ended\n"
          "\n"
          "Exit code:\n"
          "  0  the job was asked, and has ended if --wait was given\n"
          "  1  no job uses the sets, or the request could not be written\n"
          "  2  usage, or no sets are there\n",
        out);
}

/* Write the request as a whole: rank 0 may read at any moment.  0 or an errno. */
static int write_request(const char *path, uint64_t job)
{
    char tmp[2 * FTK_PATH_MAX];
    snprintf(tmp, sizeof tmp, "%.*s.tmp", FTK_PATH_MAX + 128, path);
    int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return errno;
    int err = dprintf(fd, "job = %016" PRIx64 "\n", job) > 0 ? 0 : errno;
    if (close(fd) != 0 && err == 0)
        err = errno;
    if (err == 0 && rename(tmp, path) != 0)
        err = errno;
    if (err != 0)
        unlink(tmp);
    return err;
}

static bool is_asked(const char *path, uint64_t job)
{
    char text[64] = "", want[64];
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    snprintf(want, sizeof want, "job = %016" PRIx64 "\n", job);
    return n > 0 && strcmp(text, want) == 0;
}

/* Ask the job of one context.  *job: its number, 0: there is none.  An exit code. */
static int ask(const char *dir, const char *context, uint64_t *job)
{
    char path[FTK_PATH_MAX + 128], who[256];
    struct ftk_owner_record r;
    bool alive = false;
    *job = 0;
    if (ftk_owner_alive(dir, context, &alive, &r) != FTKIT_OK) {
        ftk_tool_say("%s: %s", context, ftk_tool_why(ftk_detail_text()));
        return TOOL_FAIL;
    }
    if (!alive)
        return TOOL_OK;
    *job = r.job;
    ftk_owner_text(&r, who, sizeof who);
    snprintf(path, sizeof path, "%s/%s.ftkit/halt", dir, context);
    if (is_asked(path, r.job)) {
        printf("%s: %s was asked before and has not halted yet\n", context, who);
        return TOOL_OK;
    }
    int err = write_request(path, r.job);
    if (err) {
        ftk_tool_say("%s: %s", path, strerror(err));
        return TOOL_FAIL;
    }
    printf("%s: %s is asked to halt\n", context, who);
    return TOOL_OK;
}

static void await(const char *dir, const char *context, uint64_t job)
{
    const struct timespec turn = { 0, 200000000 };
    struct ftk_owner_record r;
    bool alive = true;
    fflush(stdout);
    while (ftk_owner_alive(dir, context, &alive, &r) == FTKIT_OK && alive && r.job == job)
        nanosleep(&turn, NULL); /* the record of the owner is a file, which only polling sees */
}

int ftk_halt_main(int argc, char **argv)
{
    struct ftk_opts o;
    struct ftk_where w;
    size_t asked = 0;
    int rc = ftk_opts_parse(argc, argv, OPT_CONTEXT | OPT_WAIT, ftk_halt_usage, &o);
    if (rc != 0)
        return rc - 1;
    rc = ftk_opts_args(&o, ftk_halt_usage, 1, "DIR");
    if (rc != 0)
        return rc;
    rc = ftk_where_find(o.args[0], o.context, &w);
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < w.n; i++) {
        uint64_t job;
        int one = ask(w.dir, w.contexts[i], &job);
        rc = one != TOOL_OK ? one : rc;
        asked += job != 0;
        if (job != 0 && o.wait && one == TOOL_OK)
            await(w.dir, w.contexts[i], job);
    }
    if (asked == 0 && rc == TOOL_OK) {
        ftk_tool_say("no job uses the sets of %s", o.args[0]);
        rc = TOOL_FAIL;
    }
    ftk_where_free(&w);
    return ftk_tool_end(rc);
}
