/* Which process of this machine carries a rank, and which processes belong to an emulated node.
 *
 * The number of a rank in the environment of its process is that of the start; a spare that has
 * replaced a rank carries another number now.  The watchdog's pages have the present numbers.  With
 * an MPI without ULFM there are neither replacements nor pages.  An emulated node has a /dev/shm of
 * its own, which /proc/PID/root shows.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "detect/watch_page.h"
#include "detect/watchdog.h"
#include "kill.h"

/* A search for the process of a rank. */
struct search {
    const struct ftk_proc *p; /* [n] living processes of the run */
    size_t n;
    int rank;
    pid_t found;
    double at_s; /* when it came to its place: of two processes the later one carries the rank */
};

static bool is_of_run(const struct search *s, pid_t pid)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->p[i].pid == pid && s->p[i].state != 'Z')
            return true;
    return false;
}

static void search_page(struct search *s, const struct ftk_dog_page *page)
{
    for (int i = 0; i < FTK_DOG_SLOTS; i++) {
        const struct ftk_dog_slot *slot = &page->slots[i];
        pid_t pid = atomic_load(&slot->pid);
        double at_s = atomic_load(&slot->at_s);
        if (pid <= 0 || atomic_load(&slot->rank) != s->rank || !is_of_run(s, pid)
            || atomic_load(&slot->state) == FTK_DOG_LEFT || (s->found && at_s < s->at_s))
            continue;
        s->found = pid;
        s->at_s = at_s;
    }
}

static void search_dir(struct search *s, const char *path)
{
    DIR *d = opendir(path);
    const struct dirent *e;
    while (d && (e = readdir(d))) {
        struct stat st;
        if (strncmp(e->d_name, FTK_DOG_PREFIX, strlen(FTK_DOG_PREFIX)) != 0)
            continue;
        int fd = openat(dirfd(d), e->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        void *at = MAP_FAILED;
        if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid()
            && st.st_size == (off_t)sizeof(struct ftk_dog_page))
            at = mmap(NULL, sizeof(struct ftk_dog_page), PROT_READ, MAP_SHARED, fd, 0);
        if (at != MAP_FAILED) {
            search_page(s, at);
            (void)munmap(at, sizeof(struct ftk_dog_page));
        }
        if (fd >= 0)
            (void)close(fd);
    }
    if (d)
        (void)closedir(d);
}

/* The path by which a process's /dev/shm can be seen, and its identity; false: it cannot be. */
static bool memory_of(pid_t pid, char path[64], struct stat *st)
{
    snprintf(path, 64, "/proc/%d/root/dev/shm", (int)pid);
    return stat(path, st) == 0;
}

/* Without ULFM there are no pages, and no process replaces another: the number of the start holds.
 * Of a wrapper and the process that it has started, which have the same number, the process carries
 * the rank. */
static pid_t find_started(struct ftk_proc *p, size_t n, int rank)
{
    pid_t found = 0;
    for (size_t i = 0; i < n; i++)
        if (p[i].state != 'Z')
            ftk_proc_rank(&p[i]);
    for (size_t i = 0; i < n; i++) {
        bool wraps = false;
        for (size_t j = 0; j < n && p[i].rank == rank; j++)
            wraps = wraps || (p[j].ppid == p[i].pid && p[j].rank == rank);
        if (p[i].rank == rank && !wraps)
            found = p[i].pid;
    }
    return found;
}

pid_t ftk_carrier_find(int rank)
{
    struct ftk_proc *p;
    size_t n = ftk_proc_list(&p), nseen = 0;
    struct search s = { .p = p, .n = n, .rank = rank };
    struct stat *seen = ftk_tool_alloc((n + 1) * sizeof *seen);
    for (size_t i = 0; i < n; i++) {
        char path[64];
        size_t k = 0;
        if (p[i].state == 'Z' || !memory_of(p[i].pid, path, &seen[nseen]))
            continue;
        while (seen[k].st_ino != seen[nseen].st_ino || seen[k].st_dev != seen[nseen].st_dev)
            k++;
        if (k < nseen)
            continue; /* processes of one node see the same directory */
        search_dir(&s, path);
        nseen++;
    }
    if (!ftk_mpirun_ulfm())
        s.found = find_started(p, n, rank);
    else if (nseen == 0) /* a system on which /proc does not show the roots of processes */
        search_dir(&s, "/dev/shm");
    free(seen);
    free(p);
    return s.found;
}

/* A node that is lost does not come back: the next attempt does without it. */
static void leave_out(const struct ftk_run *r, int node)
{
    char path[FTK_PATH_MAX];
    snprintf(path, sizeof path, "%.*s/gone-ftnode%d", FTK_PATH_MAX - 64, r->dir, node);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || close(fd) != 0)
        ftk_run_say("cannot make %s: %s; the node will answer again", path, strerror(errno));
}

/* Whether a process is on a node: it has the memory of this emulated node, or its rank is one of
 * those consecutive ranks of the start. */
static bool is_on(const struct ftk_run *r, int node, const struct stat *memory, struct ftk_proc *p)
{
    char of[64];
    struct stat st;
    if (p->state == 'Z')
        return false;
    if (r->emulate > 0)
        return memory_of(p->pid, of, &st) && st.st_ino == memory->st_ino
               && st.st_dev == memory->st_dev;
    ftk_proc_rank(p);
    return p->rank >= 0 && p->rank / r->ranks_per_node == node - 1;
}

/* A node is lost in one moment.  So all its processes stop first: none of them can learn of the end
 * of another one, and act. */
int ftk_carrier_end_node(const struct ftk_run *r, int node)
{
    char path[FTK_PATH_MAX];
    struct stat memory = { 0 };
    struct ftk_proc *p;
    size_t stopped = 0;
    int killed = 0;
    const char *base = strrchr(r->dir, '/');
    snprintf(path, sizeof path, "/dev/shm/%.100s-ftnode%d", base ? base + 1 : r->dir, node);
    if (r->emulate > 0 && stat(path, &memory) != 0)
        return 0;
    if (r->emulate > 0)
        leave_out(r, node);
    size_t n = ftk_proc_list(&p);
    for (size_t i = 0; i < n; i++)
        if (is_on(r, node, &memory, &p[i]) && kill(p[i].pid, SIGSTOP) == 0)
            p[stopped++] = p[i];
    for (size_t i = 0; i < stopped; i++)
        killed += kill(p[i].pid, SIGKILL) == 0;
    free(p);
    return killed;
}
