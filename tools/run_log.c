/* The lines of `ftkit run` in the event log (docs/events.md).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/access.h"
#include "core/event.h"
#include "tools.h"

int ftk_run_log_option(const char *directory)
{
    char here[FTK_PATH_MAX] = "", path[2 * FTK_PATH_MAX];
    if (*directory != '/' && !getcwd(here, sizeof here)) {
        ftk_run_say("the path of the working directory is too long");
        return TOOL_USAGE;
    }
    int n = snprintf(path, sizeof path, "%s%s%s", here, *here ? "/" : "", directory);
    if (!*directory || n >= FTK_PATH_MAX) {
        ftk_run_say("--events: the path is %s", *directory ? "too long" : "empty");
        return TOOL_USAGE;
    }
    return setenv("FTKIT_REPORT_EVENTS", path, 1) == 0 ? TOOL_OK : TOOL_FAIL;
}

void ftk_run_log_open(void)
{
    const char *directory = getenv("FTKIT_REPORT_EVENTS");
    int readers = FTK_ACCESS_OWNER;
    (void)ftk_config_word_of("context", "access", &readers); /* the job reports a mistake */
    int err = directory ? ftk_event_open(directory, "", readers) : 0;
    if (err)
        ftk_run_say("%s: %s: there is no event log", directory, strerror(err));
}

void ftk_run_log_attempt(const struct ftk_run *r, int attempt)
{
    char run[24];
    struct ftk_event e;
    char *command = ftk_tool_join(r->program);
    snprintf(run, sizeof run, "%llx", (unsigned long long)r->id);
    ftk_event_begin(&e, NULL, -1, "attempt");
    ftk_event_text(&e, "run", run);
    ftk_event_int(&e, "attempt", attempt);
    ftk_event_text(&e, "command", command);
    ftk_event_end(&e);
    free(command);
}

void ftk_run_log_attempt_end(int attempt, const char *how, bool again)
{
    struct ftk_event e;
    ftk_event_begin(&e, NULL, -1, "attempt_end");
    ftk_event_int(&e, "attempt", attempt);
    ftk_event_text(&e, "how", how);
    ftk_event_bool(&e, "again", again);
    ftk_event_end(&e);
}

void ftk_run_log_end(int code)
{
    struct ftk_event e;
    ftk_event_begin(&e, NULL, -1, "run_end");
    ftk_event_int(&e, "code", code);
    ftk_event_end(&e);
}
