/* Several nodes on one machine, to show what one node hides: mpirun starts each daemon
 * through an "ssh" that only changes the host name in a UTS name space of its own.  All
 * names resolve to loopback by a hosts file that only mpirun and its children see.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools.h"

#define HOSTS "/etc/hosts"

/* A mount name space in which path is what everybody reads as /etc/hosts. */
static int enter(const char *path)
{
    if (unshare(CLONE_NEWNS) != 0)
        return -1;
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return -1;
    return mount(path, HOSTS, NULL, MS_BIND, NULL);
}

bool ftk_emulate_possible(int *why)
{
    int status = 0;
    pid_t pid = fork();
    if (pid < 0) {
        *why = errno;
        return false;
    }
    if (pid == 0) /* a dress rehearsal, in a process that ends with it */
        _exit(unshare(CLONE_NEWUTS) == 0 && enter(HOSTS) == 0 ? 0 : errno & 0xff);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    *why = WIFEXITED(status) ? WEXITSTATUS(status) : EPERM;
    return *why == 0;
}

int ftk_emulate_enter(const struct ftk_run *r)
{
    char path[FTK_PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/hosts", r->dir);
    return enter(path);
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
    if (!out || ferror(out) || fclose(out) != 0) {
        ftk_run_say("cannot write %s: %s", path, strerror(errno));
        return TOOL_FAIL;
    }
    return 0;
}

int ftk_emulate_files(const struct ftk_run *r)
{
    char path[FTK_PATH_MAX + 16], self[FTK_PATH_MAX];
    snprintf(path, sizeof path, "%s/hosts", r->dir);
    if (write_hosts(r, path) != 0)
        return TOOL_FAIL;
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    if (len < 0) {
        ftk_run_say("cannot find myself: %s", strerror(errno));
        return TOOL_FAIL;
    }
    self[len] = '\0';
    /* mpirun splits the agent at blanks and colons, which our own path may contain */
    snprintf(path, sizeof path, "%s/ftkit", r->dir);
    if (symlink(self, path) != 0) {
        ftk_run_say("cannot make %s: %s", path, strerror(errno));
        return TOOL_FAIL;
    }
    return 0;
}

/* Blocks of consecutive ranks, the first nodes one larger when it does not divide.  The
 * node of mpirun itself is not in the list and carries no rank. */
void ftk_emulate_arguments(const struct ftk_run *r, struct ftk_list *cmd)
{
    static const char *const fixed[] = { "--prtemca", "prte_retain_aliases", "1",
        "--prtemca", "plm_ssh_no_tree_spawn", "1", "--map-by", "slot:OVERSUBSCRIBE",
        "--bind-to", "none", "--mca", "btl_tcp_if_include", "lo" };
    size_t room = 32 * (size_t)r->emulate, at = 0;
    char *hosts = ftk_tool_alloc(room);
    for (int i = 0; i < r->emulate; i++)
        at += (size_t)snprintf(hosts + at, room - at, "%sftnode%d:%d", i ? "," : "",
            i + 1, r->total / r->emulate + (i < r->total % r->emulate));
    ftk_list_add(cmd, "--prtemca");
    ftk_list_add(cmd, "plm_ssh_agent");
    ftk_list_add(cmd, "%s/ftkit emulate-agent", r->dir);
    ftk_list_add(cmd, "--host");
    ftk_list_add(cmd, "%s", hosts);
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        ftk_list_add(cmd, "%s", fixed[i]);
    free(hosts);
}

/* emulate-agent HOST WORD...: as ssh does, the words joined by blanks are for a shell. */
int ftk_emulate_agent(int argc, char **argv)
{
    if (argc < 3) {
        fputs("ftkit emulate-agent: for mpirun only\n", stderr);
        return TOOL_USAGE;
    }
    size_t bytes = 1;
    for (int i = 2; i < argc; i++)
        bytes += strlen(argv[i]) + 1;
    char *line = ftk_tool_alloc(bytes);
    for (int i = 2; i < argc; i++) {
        strcat(line, argv[i]);
        strcat(line, i + 1 < argc ? " " : "");
    }
    if (unshare(CLONE_NEWUTS) != 0 || sethostname(argv[1], strlen(argv[1])) != 0) {
        fprintf(stderr, "ftkit emulate-agent: %s: %s\n", argv[1], strerror(errno));
        return 255;
    }
    execl("/bin/sh", "sh", "-c", line, (char *)NULL);
    perror("ftkit emulate-agent: /bin/sh");
    return 255;
}
