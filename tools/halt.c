/* ftkit halt: ask the job that uses the sets of a directory to halt.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The request is a file beside the record of the owner (lib/store/halt_file.h).  Rank 0 of the
 * job looks for the file (lib/set/steer.c). */
#define _GNU_SOURCE
#include <string.h>
#include <time.h>

#include "sets.h"
#include "detect/watch_page.h"
#include "store/halt_file.h"
#include "store/owner.h"

void ftk_halt_usage(FILE *out)
{
    fputs("usage: ftkit halt [--context NAME] [--wait] DIR\n"
          "\n"
          "Ask the job that uses the sets of DIR to write a durable set and to stop:\n"
          "ftkit_checkpoint returns FTKIT_HALT to the program, and ftkit run ends with 75.\n"
          "The job notices the request after about checkpoint.react (1 s), or later: at\n"
          "most ten times that, with the message log a hundred times.  The next start\n"
          "of the program goes on from this set.\n"
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

/* Ask the job of one context.  *job: its number, 0: there is none.  An exit code. */
static int ask(const char *dir, const char *context, uint64_t *job)
{
    char who[256];
    struct ftk_owner_record r;
    bool alive = false;
    *job = 0;
    if (ftk_owner_alive(dir, context, ftk_dog_job_lives, &alive, &r) != FTKIT_OK) {
        ftk_tool_say("%s: %s", context, ftk_tool_why(ftk_detail_text()));
        return TOOL_FAIL;
    }
    if (!alive)
        return TOOL_OK;
    *job = r.job;
    ftk_owner_text(&r, who, sizeof who);
    if (ftk_halt_file_asks(dir, context, r.job)) {
        printf("%s: %s was asked before and has not halted yet\n", context, who);
        return TOOL_OK;
    }
    if (ftk_halt_file_write(dir, context, r.job) != FTKIT_OK) {
        ftk_tool_say("%s: %s", context, ftk_tool_why(ftk_detail_text()));
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
    while (ftk_owner_alive(dir, context, ftk_dog_job_lives, &alive, &r) == FTKIT_OK && alive
           && r.job == job)
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
