/* The page of the watchdog (see watch_page.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watch_page.h"
#include "core/access.h"
#include "core/grow.h"

#define DIRECTORY directory()
#define NAME_BYTES 280

/* Shared memory; without it a directory of the node on a disk, which all processes choose alike. */
static const char *directory(void)
{
    return access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp";
}

/* ---- opening and closing ------------------------------------------------------------- */

static void path_of(const char *name, char path[NAME_BYTES])
{
    snprintf(path, NAME_BYTES, "%s/%.255s", DIRECTORY, name);
}

/* Whether the descriptor is of the file that has this path now: the file was not removed. */
static bool is_current(int fd, const char *path)
{
    struct stat mine, now;
    return fstat(fd, &mine) == 0 && stat(path, &now) == 0 && mine.st_ino == now.st_ino
           && mine.st_dev == now.st_dev;
}

int ftk_dog_page_open(const char *name, struct ftk_dog_page **page, int *lock)
{
    char path[NAME_BYTES];
    path_of(name, path);
    for (;;) {
        int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
        if (fd < 0)
            return errno;
        int rc, err = ftk_access_own_file(fd); /* a lock of another user could last for ever */
        while (err == 0 && (rc = flock(fd, LOCK_SH)) != 0 && errno == EINTR)
            continue;
        if (err == 0 && rc != 0)
            err = errno;
        if (err == 0 && !is_current(fd, path)) {
            (void)close(fd);
            continue;
        }
        void *p = MAP_FAILED;
        if (err == 0) /* new bytes are zero: free slots; a page without memory would be a SIGBUS */
            err = posix_fallocate(fd, 0, sizeof **page);
        if (err == 0)
            p = mmap(NULL, sizeof **page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (p != MAP_FAILED) {
            *page = p;
            *lock = fd;
            return 0;
        }
        err = err ? err : errno;
        (void)close(fd); /* nothing was written */
        return err;
    }
}

void ftk_dog_page_close(const char *name, struct ftk_dog_page *page, int lock, bool remove)
{
    char path[NAME_BYTES];
    path_of(name, path);
    (void)munmap(page, sizeof *page);
    if (remove && is_current(lock, path)) /* a process that joins later makes a new page */
        (void)unlink(path);
    (void)close(lock);
}

/* ---- leftovers ----------------------------------------------------------------------- */

static struct ftk_dog_page *map_file(int fd)
{
    struct stat st;
    void *p = MAP_FAILED;
    if (fstat(fd, &st) == 0 && (size_t)st.st_size >= sizeof(struct ftk_dog_page))
        p = mmap(NULL, sizeof(struct ftk_dog_page), PROT_READ, MAP_SHARED, fd, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* Whether a page names a living process.  Older versions of ftkit did not lock their pages, so only
 * the process ids show that such a job lives.  A page of another size is of a version with another
 * layout: it cannot be read, and counts as the page of a living job. */
static bool names_living(int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return true;
    if (st.st_size != 0 && (size_t)st.st_size != sizeof(struct ftk_dog_page))
        return true;
    struct ftk_dog_page *p = map_file(fd);
    bool alive = false;
    for (int i = 0; p && !alive && i < FTK_DOG_SLOTS; i++) {
        int pid = abs(atomic_load(&p->slots[i].pid));
        alive = pid != 0 && !(kill(pid, 0) != 0 && errno == ESRCH);
    }
    if (p)
        (void)munmap(p, sizeof *p);
    return alive;
}

/* Open a file of this user: a file descriptor, or -1 with errno. */
static int open_own(int dir, const char *name)
{
    struct stat st;
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid()))
        return fd;
    (void)close(fd); /* nothing was written */
    errno = EPERM;
    return -1;
}

/* Remove a page that no living process uses.  The page is removed under the lock, so that a process
 * that opens it at the same time notices the removal. */
static int sweep_page(int dir, const char *name, bool dry)
{
    int fd = open_own(dir, name), n = 0;
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && !names_living(fd))
        n = dry || unlinkat(dir, name, 0) == 0;
    if (fd >= 0)
        (void)close(fd);
    return n;
}

/* The jobs that have a page, in the order of their names. */
struct job {
    char name[NAME_BYTES];
    bool lives; /* a process of the job, or the page cannot be read */
};
struct jobs {
    struct job *list; /* [n] */
    size_t n;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct job *)a)->name, ((const struct job *)b)->name);
}

int ftk_dog_job_lives(uint64_t job)
{
    char begin[NAME_BYTES];
    int lives = 0;
    DIR *d = opendir(DIRECTORY);
    const struct dirent *e;
    if (!d)
        return -1;
    snprintf(begin, sizeof begin, FTK_DOG_PREFIX "%llx-", (unsigned long long)job);
    while (lives == 0 && (e = readdir(d))) {
        if (strncmp(e->d_name, begin, strlen(begin)) != 0)
            continue;
        int fd = open_own(dirfd(d), e->d_name);
        if (fd < 0) /* also a page of another user, who may have written anything */
            lives = errno == ENOENT ? 0 : -1;
        else /* both: another process may be trying the lock, and a pid may be used again */
            lives = flock(fd, LOCK_EX | LOCK_NB) != 0 && names_living(fd);
        if (fd >= 0)
            (void)close(fd);
    }
    (void)closedir(d);
    return lives;
}

static bool page_lives(int dir, const char *name)
{
    int fd = open_own(dir, name);
    bool lives = fd < 0 ? errno != ENOENT : flock(fd, LOCK_EX | LOCK_NB) != 0 || names_living(fd);
    if (fd >= 0)
        (void)close(fd);
    return lives;
}

/* List the jobs of all pages; the caller frees the list.  false: that is not possible. */
static bool list_jobs(DIR *d, struct jobs *all)
{
    const struct dirent *e;
    *all = (struct jobs){ NULL, 0 };
    rewinddir(d);
    while ((e = readdir(d))) {
        const char *job = e->d_name + strlen(FTK_DOG_PREFIX);
        if (strncmp(e->d_name, FTK_DOG_PREFIX, strlen(FTK_DOG_PREFIX)) != 0)
            continue;
        struct job *more = realloc(all->list, (all->n + 1) * sizeof *more);
        if (!more)
            return false;
        all->list = more;
        snprintf(more[all->n].name, NAME_BYTES, "%.*s", (int)strcspn(job, "-"), job);
        more[all->n++].lives = page_lives(dirfd(d), e->d_name);
    }
    if (all->n > 0)
        qsort(all->list, all->n, sizeof *all->list, by_name);
    size_t kept = 0; /* a job has a page for each of its nodes that are here */
    for (size_t i = 0; i < all->n; i++) {
        if (kept > 0 && by_name(&all->list[kept - 1], &all->list[i]) == 0)
            all->list[kept - 1].lives = all->list[kept - 1].lives || all->list[i].lives;
        else
            all->list[kept++] = all->list[i];
    }
    all->n = kept;
    return true;
}

/* The files of determinants, in the order of the directory. */
struct files {
    char (*list)[NAME_BYTES]; /* [n] */
    size_t n, room;
};

static bool list_determinants(DIR *d, struct files *all)
{
    const struct dirent *e;
    *all = (struct files){ NULL, 0, 0 };
    while ((e = readdir(d))) {
        if (strncmp(e->d_name, FTK_DET_PREFIX, strlen(FTK_DET_PREFIX)) != 0)
            continue;
        if (!ftk_grow(&all->list, &all->room, all->n + 1, sizeof *all->list))
            return false;
        snprintf(all->list[all->n++], NAME_BYTES, "%s", e->d_name);
    }
    return true;
}

static int sweep_determinants(int dir, const char *name, bool dry, const struct jobs *jobs)
{
    struct job key = { .lives = false };
    const char *run = name + strlen(FTK_DET_PREFIX);
    const char *job = run + strcspn(run, "-");
    job += *job == '-';
    size_t len = strcspn(job, "-");
    if (len == 0 || job[len] != '-')
        return 0;
    snprintf(key.name, sizeof key.name, "%.*s", (int)len, job);
    const struct job *of =
        jobs->n > 0 ? bsearch(&key, jobs->list, jobs->n, sizeof key, by_name) : NULL;
    if (of && of->lives)
        return 0;
    int fd = open_own(dir, name), n = 0;
    if (fd >= 0) {
        n = dry || unlinkat(dir, name, 0) == 0;
        (void)close(fd);
    }
    return n;
}

/* The determinants are listed before the pages: a job that begins meanwhile makes its page before
 * its determinants, so the page of each file in the list is found.  Each file is looked at once. */
int ftk_dog_sweep(bool dry)
{
    struct jobs jobs = { NULL, 0 };
    struct files files = { NULL, 0, 0 };
    const struct dirent *e;
    int n = 0;
    DIR *d = opendir(DIRECTORY);
    if (!d)
        return 0;
    if (list_determinants(d, &files) && list_jobs(d, &jobs))
        for (size_t i = 0; i < files.n; i++)
            n += sweep_determinants(dirfd(d), files.list[i], dry, &jobs);
    for (rewinddir(d); (e = readdir(d));)
        if (strncmp(e->d_name, FTK_DOG_PREFIX, strlen(FTK_DOG_PREFIX)) == 0)
            n += sweep_page(dirfd(d), e->d_name, dry);
    free(files.list);
    free(jobs.list);
    (void)closedir(d);
    return n;
}

/* ---- the state of a process ---------------------------------------------------------- */

static bool ask_page(const struct ftk_dog_page *p, pid_t pid, struct ftk_dog_word *word)
{
    double now = ftk_now_s();
    for (int i = 0; i < FTK_DOG_SLOTS; i++) {
        const struct ftk_dog_slot *s = &p->slots[i];
        if (atomic_load(&s->pid) != pid)
            continue;
        double progress = atomic_load(&s->progress_s);
        *word = (struct ftk_dog_word){ .state = atomic_load(&s->state),
            .since_s = now - atomic_load(&s->since_s),
            .silent_s = progress > 0 ? now - progress : -1 };
        return true;
    }
    return false;
}

bool ftk_dog_ask(pid_t pid, struct ftk_dog_word *word)
{
    bool found = false;
    DIR *d = opendir(DIRECTORY);
    const struct dirent *e;
    while (d && !found && (e = readdir(d))) {
        if (strncmp(e->d_name, FTK_DOG_PREFIX, strlen(FTK_DOG_PREFIX)) != 0)
            continue;
        int fd = open_own(dirfd(d), e->d_name);
        struct ftk_dog_page *p = fd >= 0 ? map_file(fd) : NULL;
        found = p && ask_page(p, pid, word);
        if (p)
            (void)munmap(p, sizeof *p);
        if (fd >= 0)
            (void)close(fd);
    }
    if (d)
        (void)closedir(d);
    return found;
}
