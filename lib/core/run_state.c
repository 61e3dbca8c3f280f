/* Messages of this process to `ftkit run` (see run_state.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access.h"
#include "format.h"
#include "hash.h"
#include "mpi_shim.h"
#include "run_state.h"

#define LOST_NAMED 64 /* most processes that one repair reports as lost */

void ftk_run_state(const char *fmt, ...)
{
    char line[512];
    const char *path = getenv("FTKIT_RUN_STATE");
    if (!path || !*path)
        return;
    va_list ap;
    va_start(ap, fmt);
    int n = ftk_vformat(line, sizeof line - 1, fmt, ap);
    va_end(ap);
    n = n < (int)sizeof line - 2 ? n : (int)sizeof line - 2;
    line[n++] = '\n';
    /* on another node the name may lead to a file of another user, or to a pipe */
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    const bool ours = fd >= 0 && ftk_access_own_file(fd) == 0;
    ssize_t done = ours ? write(fd, line, (size_t)n) : -1;
    if (done != n)
        ftk_report(FTKIT_WARNING, "cannot write %s: ftkit run may not notice '%.60s'", path, line);
    if (fd >= 0)
        (void)close(fd); /* an error would only repeat the warning above */
}

/* The number of mpirun's job, which is that of MPI_COMM_WORLD, as text: "1" of
 * "prterun-host-4711@1".  NULL: not known. */
static const char *job_text(void)
{
    const char *space = getenv("PMIX_NAMESPACE");
    const char *at = space ? strrchr(space, '@') : NULL;
    return at ? at + 1 : NULL;
}

void ftk_run_process(const char *what, int world_rank)
{
    if (job_text())
        ftk_run_state("%s %s %d", what, job_text(), world_rank);
}

void ftk_run_lost(MPI_Comm before, MPI_Comm now, int repair, const char *context)
{
    int lost[LOST_NAMED], all = 0;
    const int n = job_text() ? ftk_mpi_missing_in(before, now, lost, LOST_NAMED, &all) : 0;
    for (int i = 0; i < n; i++)
        ftk_run_state("lost %s %d %d %d %s", job_text(), lost[i], repair, all, context);
}

uint64_t ftk_run_number(void)
{
    const char *id = getenv("FTKIT_RUN_ID");
    return id ? strtoull(id, NULL, 16) : 0;
}

uint64_t ftk_run_mpi(void)
{
    const char *space = getenv("PMIX_NAMESPACE"); /* spawned processes have another number */
    const char *at = space ? strrchr(space, '@') : NULL;
    return at ? ftk_xxh3(space, (size_t)(at - space)) : 0;
}

bool ftk_run_survives_nodes(void)
{
    const char *what = getenv("FTKIT_RUN_SURVIVES");
    return what && strcmp(what, "nodes") == 0;
}

void *ftk_run_map(const char *name, size_t bytes)
{
    char path[FTK_PATH_MAX];
    struct stat st;
    const char *state = getenv("FTKIT_RUN_STATE");
    const char *slash = state ? strrchr(state, '/') : NULL;
    if (!slash || (size_t)(slash - state) + strlen(name) + 2 > sizeof path)
        return NULL;
    snprintf(path, sizeof path, "%.*s/%s", (int)(slash - state), state, name);
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    void *at = MAP_FAILED;
    if (fd >= 0 && ftk_access_own_file(fd) == 0 && fstat(fd, &st) == 0
        && st.st_size == (off_t)bytes)
        at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        (void)close(fd); /* the mapping stays */
    return at == MAP_FAILED ? NULL : at;
}

bool ftk_run_sees(void)
{
    const char *path = getenv("FTKIT_RUN_STATE");
    return path && access(path, W_OK) == 0;
}

void ftk_run_hopeless(int rc)
{
    /* errors of the call or of the data; an I/O error may be gone at the next attempt */
    bool same = (rc <= FTKIT_ERR_ARG && rc >= FTKIT_ERR_MISMATCH) || rc == FTKIT_ERR_CORRUPT
                || rc == FTKIT_ERR_FORMAT;
    if (same && ftk_run_sees())
        ftk_run_state("hopeless %s", ftk_detail_text());
}
