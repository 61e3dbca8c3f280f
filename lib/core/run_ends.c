/* How processes of the job have ended (see run_ends.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hash.h"
#include "mpirun_text.h"
#include "run_ends.h"

uint64_t ftk_run_node(void)
{
    const char *name = getenv("PMIX_HOSTNAME");
    return name && *name ? ftk_xxh3(name, strlen(name)) : 0;
}

/* The text behind a beginning; NULL: it begins otherwise. */
static const char *behind(const char *text, const char *begin)
{
    size_t len = strlen(begin);
    return strncmp(text, begin, len) == 0 ? text + len : NULL;
}

/* text is "[prterun-host-4711@1,3] ...": the process among n, and what follows; NULL: none. */
static struct ftk_run_end *process_of(
    const char *text, struct ftk_run_end *e, int n, const char **what)
{
    const char *at = strchr(text, '@'), *end = strchr(text, ']');
    int job = -1, rank = -1;
    if (!at || !end || at > end || sscanf(at, "@%d,%d]", &job, &rank) != 2)
        return NULL;
    *what = end + 1;
    for (int i = 0; i < n; i++)
        if (e[i].job == job && e[i].world_rank == rank)
            return &e[i];
    return NULL;
}

static void take_state(const char *text, struct ftk_run_end *all, int n)
{
    const char *what;
    struct ftk_run_end *e = process_of(text, all, n, &what);
    if (!e || e->reason != FTKIT_LOST_UNKNOWN)
        return;
    if (strcmp(what, FTK_MPIRUN_BY_SIGNAL) == 0)
        e->reason = FTKIT_LOST_SIGNAL;
    else if (strcmp(what, FTK_MPIRUN_NO_FINALIZE) == 0)
        e->reason = FTKIT_LOST_EXIT; /* with 0, unless another line says so */
}

static void take_code(const char *text, struct ftk_run_end *all, int n)
{
    const char *what, *code;
    struct ftk_run_end *e = process_of(text, all, n, &what);
    if (!e || (e->reason != FTKIT_LOST_UNKNOWN && e->reason != FTKIT_LOST_EXIT))
        return;
    if ((code = behind(what, FTK_MPIRUN_ABORT_CODE)))
        e->reason = FTKIT_LOST_ABORT;
    else if ((code = behind(what, FTK_MPIRUN_EXIT_CODE))
             || (code = behind(what, FTK_MPIRUN_SYNC_CODE)))
        e->reason = FTKIT_LOST_EXIT;
    if (code)
        e->code = (int)strtol(code, NULL, 10);
}

/* mpirun has the names of the C locale. */
static bool is_named(int sig, const char *name)
{
    const char *own = sigdescr_np(sig);
    return own && strcmp(own, name) == 0;
}

static void take_child(const char *text, struct ftk_run_end *all, int n)
{
    const char *what;
    struct ftk_run_end *e = process_of(text, all, n, &what);
    const char *name = e ? behind(what, FTK_MPIRUN_CHILD_SIGNAL) : NULL;
    if (!name || (e->reason != FTKIT_LOST_UNKNOWN && e->reason != FTKIT_LOST_SIGNAL))
        return;
    e->reason = FTKIT_LOST_SIGNAL;
    for (int sig = 1; sig < NSIG; sig++)
        if (is_named(sig, name))
            e->code = sig;
}

static void take_node(const char *text, struct ftk_run_end *all, int n)
{
    const char *end = strstr(text, FTK_MPIRUN_NODE_LOST);
    uint64_t node = end ? ftk_xxh3(text, (size_t)(end - text)) : 0;
    for (int i = 0; end && i < n; i++)
        if (all[i].node == node && all[i].reason == FTKIT_LOST_UNKNOWN)
            all[i].reason = FTKIT_LOST_NODE;
}

static void take_line(const char *line, struct ftk_run_end *e, int n)
{
    static const struct {
        const char *begin;
        void (*take)(const char *text, struct ftk_run_end *e, int n);
    } kinds[] = { { FTK_MPIRUN_STATE, take_state }, { FTK_MPIRUN_CODE, take_code },
        { FTK_MPIRUN_CHILD, take_child }, { FTK_MPIRUN_NODE, take_node } };
    const char *from = strstr(line, "] ["); /* [host:4711] [prterun-host-4711@0,0] ... */
    const char *text = from ? strchr(from + 3, ']') : NULL;
    for (size_t i = 0; text && i < sizeof kinds / sizeof kinds[0]; i++) {
        const char *rest = behind(text + 1, kinds[i].begin);
        if (rest)
            kinds[i].take(rest, e, n);
    }
}

/* On another node the name may lead to a file of another user, or to a pipe. */
static FILE *open_own(const char *path)
{
    struct stat st;
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    FILE *f = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() ? fdopen(fd, "r")
                                                                                   : NULL;
    if (!f)
        (void)close(fd); /* nothing was written */
    return f;
}

void ftk_run_ends(struct ftk_run_end *e, int n)
{
    const char *path = getenv("FTKIT_RUN_STATE");
    FILE *f = path && *path ? open_own(path) : NULL;
    char *line = NULL;
    size_t room = 0;
    ssize_t len;
    while (f && (len = getline(&line, &room, f)) > 0 && line[len - 1] == '\n') {
        line[len - 1] = '\0';
        if (line[0] == '[')
            take_line(line, e, n);
    }
    free(line);
    if (f)
        (void)fclose(f); /* nothing was written */
}
