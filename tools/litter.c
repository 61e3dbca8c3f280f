/* Remove the files that an Open MPI job leaves behind when its daemons are killed: session
 * directories, and the shared memory of its ranks, which would stay in memory until the next
 * boot.  Both are found by the processes that own them, so no foreign file is touched.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/place.h"
#include "tools.h"

#define SEGMENT "/dev/shm/sm_segment."

static pid_t *pids; /* noted */
static size_t npids;
static struct ftk_list segments;

void ftk_litter_note(pid_t pid, bool alive)
{
    char path[64], *line = NULL;
    size_t room = 0;
    for (size_t i = 0; i < npids; i++)
        if (pids[i] == pid)
            return;
    pid_t *all = ftk_tool_alloc((npids + 1) * sizeof *all);
    if (npids)
        memcpy(all, pids, npids * sizeof *all);
    free(pids);
    pids = all;
    pids[npids++] = pid;
    if (!alive)
        return; /* another process may have this pid by now */
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *f = fopen(path, "re");
    while (f && getline(&line, &room, f) > 0) {
        char *segment = strstr(line, SEGMENT);
        if (segment) /* the name of a removed file ends in " (deleted)": unlink() finds none */
            ftk_list_add(&segments, "%.*s", (int)strcspn(segment, "\n"), segment);
    }
    free(line);
    if (f)
        fclose(f);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    remove(path);
    return 0;
}

/* Whether name ends in before, the pid of a noted process, and after. */
static bool ends_in_pid(const char *name, const char *before, const char *after)
{
    char end[64];
    size_t total = strlen(name);
    for (size_t i = 0; i < npids; i++) {
        snprintf(end, sizeof end, "%s%d%s", before, (int)pids[i], after);
        size_t len = strlen(end);
        if (total > len && strcmp(name + total - len, end) == 0)
            return true;
    }
    return false;
}

/* mpirun has prterun.HOST.PID.UID, a daemon has prted.HOST.PID.UID.  A daemon may have died
 * before it was noted; but its directory has an entry named after its job, and the name of the
 * job contains the pid of mpirun. */
static bool is_session(const char *path, const char *name)
{
    char uid[24];
    struct stat st;
    struct dirent *e;
    bool found = false;
    if (strncmp(name, "prterun.", 8) != 0 && strncmp(name, "prted.", 6) != 0)
        return false;
    /* the directory must be ours: in a foreign one somebody could replace a file by a link
     * while we remove */
    if (lstat(path, &st) != 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid())
        return false;
    snprintf(uid, sizeof uid, ".%u", (unsigned)geteuid());
    if (ends_in_pid(name, ".", uid))
        return true;
    DIR *d = opendir(path);
    while (d && !found && (e = readdir(d)))
        found = strstr(e->d_name, ".prterun-") && ends_in_pid(e->d_name, "-", "@0");
    if (d)
        closedir(d);
    return found;
}

void ftk_litter_tree(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

void ftk_litter_remove(void)
{
    const char *tmp = getenv("TMPDIR");
    char path[2 * FTK_PATH_MAX];
    tmp = tmp && *tmp ? tmp : "/tmp";
    for (size_t i = 0; i < segments.n; i++)
        unlink(segments.v[i]);
    DIR *d = opendir(tmp);
    struct dirent *e;
    while (d && (e = readdir(d))) {
        snprintf(path, sizeof path, "%.*s/%s", FTK_PATH_MAX, tmp, e->d_name);
        if (is_session(path, e->d_name))
            ftk_litter_tree(path);
    }
    if (d)
        closedir(d);
    ftk_list_free(&segments);
    free(pids);
    pids = NULL;
    npids = 0;
}

/* No later attempt will use these slots.  A locked slot belongs to a living process and stays. */
void ftk_litter_slots(uint64_t id)
{
    char end[40], path[FTK_PATH_MAX];
    snprintf(end, sizeof end, "-%llx.", (unsigned long long)id);
    DIR *d = opendir("/dev/shm");
    const struct dirent *e;
    while (d && (e = readdir(d))) {
        if (!ftk_place_is_slot(e->d_name) || !strstr(e->d_name, end))
            continue;
        snprintf(path, sizeof path, "/dev/shm/%s", e->d_name);
        int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
            unlink(path);
        if (fd >= 0)
            close(fd);
    }
    if (d)
        closedir(d);
}
