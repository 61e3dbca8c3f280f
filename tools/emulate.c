/* Several emulated nodes on one machine.  mpirun starts each daemon by an agent in the place of
 * ssh.  The agent does two things in name spaces of its own: it changes the host name, and it
 * makes a directory of the node appear as /dev/shm.  This directory exists as long as `ftkit run`
 * runs.  All names of nodes resolve to loopback by a hosts file that only mpirun and its children
 * see.  A node no longer answers when the run's directory contains a file gone-NODE.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools.h"

#define HOSTS "/etc/hosts"
#define SHM "/dev/shm"

/* Enter a mount name space in which path is mounted over at. */
static int enter(const char *path, const char *at)
{
    if (unshare(CLONE_NEWNS) != 0)
        return -1;
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return -1;
    return mount(path, at, NULL, MS_BIND, NULL);
}

static void name_of(int node, char *name, size_t bytes)
{
    snprintf(name, bytes, "ftnode%d", node);
}

/* The directory that a node has as /dev/shm; dir: the directory of the run. */
static void shm_of(const char *dir, const char *node, char *path)
{
    const char *base = strrchr(dir, '/');
    snprintf(path, FTK_PATH_MAX, SHM "/%.*s-%.*s", 100, base ? base + 1 : dir, 100, node);
}

bool ftk_emulate_possible(int *why)
{
    int status = 0;
    pid_t pid = fork();
    if (pid < 0) {
        *why = errno;
        return false;
    }
    if (pid == 0) /* try the calls in a child: its name spaces end with the child */
        _exit(unshare(CLONE_NEWUTS) == 0 && enter(HOSTS, HOSTS) == 0 ? 0 : errno & 0xff);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    *why = WIFEXITED(status) ? WEXITSTATUS(status) : EPERM;
    return *why == 0;
}

int ftk_emulate_enter(const struct ftk_run *r)
{
    char path[FTK_PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/hosts", r->dir);
    return enter(path, HOSTS);
}

static int write_hosts(const struct ftk_run *r, const char *path)
{
    FILE *in = fopen(HOSTS, "re");
    FILE *out = fopen(path, "we");
    int c = '\n', last = '\n';
    while (in && out && (c = getc(in)) != EOF) {
        putc(c, out);
        last = c;
    }
    if (out && last != '\n')
        putc('\n', out);
    for (int i = 1; out && i <= r->emulate; i++)
        fprintf(out, "127.0.0.1 ftnode%d\n", i);
    if (in)
        fclose(in);
    bool bad = !out || ferror(out) != 0;
    bad |= out && fclose(out) != 0;
    if (bad) {
        ftk_run_say("cannot write %s: %s", path, strerror(errno));
        return TOOL_FAIL;
    }
    return 0;
}

/* Open and lock the directory of a node.  The lock ends with this process; see sweep(). */
static int lock_node(const char *path)
{
    struct stat open_one, named;
    for (;;) {
        if (mkdir(path, S_IRWXU) != 0 && errno != EEXIST)
            return -1;
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && errno != ENOENT)
            return -1;
        if (fd < 0)
            continue; /* another run has swept it before the lock */
        if (fstat(fd, &open_one) != 0 || open_one.st_uid != geteuid()) {
            close(fd);
            errno = EPERM; /* a directory of another user */
            return -1;
        }
        if (flock(fd, LOCK_EX) == 0 && stat(path, &named) == 0 && open_one.st_ino == named.st_ino)
            return fd;
        close(fd);
    }
}

/* Remove the directories of nodes that a killed run has left: nobody holds a lock on them. */
static void sweep(void)
{
    DIR *d = opendir(SHM);
    const struct dirent *e;
    while (d && (e = readdir(d))) {
        char path[FTK_PATH_MAX];
        struct stat st;
        if (strncmp(e->d_name, "ftkit-run.", 10) != 0 || !strstr(e->d_name, "-ftnode"))
            continue;
        snprintf(path, sizeof path, SHM "/%s", e->d_name);
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid()
            && flock(fd, LOCK_EX | LOCK_NB) == 0)
            ftk_litter_tree(path);
        if (fd >= 0)
            close(fd);
    }
    if (d)
        closedir(d);
}

static int make_nodes(const struct ftk_run *r)
{
    char name[32], path[FTK_PATH_MAX];
    sweep();
    for (int i = 1; i <= r->emulate; i++) {
        name_of(i, name, sizeof name);
        shm_of(r->dir, name, path);
        if (lock_node(path) < 0) {
            ftk_run_say("cannot make %s: %s", path, strerror(errno));
            return TOOL_FAIL;
        }
    }
    return 0;
}

int ftk_emulate_files(const struct ftk_run *r)
{
    char path[FTK_PATH_MAX + 16];
    if (make_nodes(r) != 0)
        return TOOL_FAIL;
    snprintf(path, sizeof path, "%s/hosts", r->dir);
    return write_hosts(r, path) == 0 ? ftk_nodes_agent(r) : TOOL_FAIL;
}

/* Each node gets a block of consecutive ranks; the first nodes get one rank more when the number
 * of ranks is no multiple.  The node of mpirun itself is not in the list and carries no rank. */
static char *list_hosts(const struct ftk_run *r)
{
    size_t room = 32 * (size_t)r->emulate, at = 0;
    char *hosts = ftk_tool_alloc(room), name[32];
    int there = r->emulate - (int)r->gone.n, ranks = r->total;
    for (int i = 1; i <= r->emulate; i++) {
        name_of(i, name, sizeof name);
        if (ftk_list_has(&r->gone, name, strlen(name)))
            continue;
        int here = (ranks + there - 1) / there;
        at += (size_t)snprintf(hosts + at, room - at, "%s%s:%d", at ? "," : "", name, here);
        ranks -= here;
        there--;
    }
    return hosts;
}

void ftk_emulate_arguments(const struct ftk_run *r, struct ftk_list *cmd)
{
    static const char *const fixed[] = { "--prtemca", "prte_retain_aliases", "1", "--prtemca",
        "plm_ssh_no_tree_spawn", "1", "--map-by", "slot:OVERSUBSCRIBE", "--bind-to", "none",
        "--mca", "btl_tcp_if_include", "lo" };
    char *hosts = list_hosts(r);
    ftk_list_add(cmd, "--prtemca");
    ftk_list_add(cmd, "plm_ssh_agent");
    ftk_list_add(cmd, "%s/ftkit emulate-agent %s", r->dir, r->dir);
    ftk_list_add(cmd, "--host");
    ftk_list_add(cmd, "%s", hosts);
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        ftk_list_add(cmd, "%s", fixed[i]);
    free(hosts);
}

void ftk_emulate_names(const struct ftk_run *r, struct ftk_list *names)
{
    char name[32];
    for (int i = 1; i <= r->emulate; i++) {
        name_of(i, name, sizeof name);
        ftk_list_add(names, "%s", name);
    }
}

void ftk_emulate_remove(const struct ftk_run *r)
{
    char name[32], path[FTK_PATH_MAX];
    for (int i = 1; i <= r->emulate; i++) {
        name_of(i, name, sizeof name);
        shm_of(r->dir, name, path);
        ftk_litter_tree(path);
    }
}

/* ---- the agent ----------------------------------------------------------------------- */

static int become_node(const char *dir, const char *node)
{
    char path[FTK_PATH_MAX];
    snprintf(path, sizeof path, "%.*s/gone-%.*s", FTK_PATH_MAX - 128, dir, 100, node);
    if (access(path, F_OK) == 0) {
        errno = EHOSTUNREACH;
        return -1;
    }
    shm_of(dir, node, path);
    if (unshare(CLONE_NEWUTS) != 0 || sethostname(node, strlen(node)) != 0)
        return -1;
    return enter(path, SHM);
}

/* emulate-agent DIRECTORY HOST WORD...: like ssh, run the words, joined by blanks, in a shell. */
int ftk_emulate_agent(int argc, char **argv)
{
    if (argc < 4) {
        fputs("ftkit emulate-agent: for mpirun only\n", stderr);
        return TOOL_USAGE;
    }
    char *line = ftk_tool_join(argv + 3);
    if (become_node(argv[1], argv[2]) != 0) {
        fprintf(stderr, "ftkit emulate-agent: %s: %s\n", argv[2], strerror(errno));
        free(line);
        return 255;
    }
    execl("/bin/sh", "sh", "-c", line, (char *)NULL);
    perror("ftkit emulate-agent: /bin/sh");
    free(line);
    return 255;
}
