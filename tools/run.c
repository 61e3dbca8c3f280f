/* ftkit run: start a job under mpirun with the flags that a resilient job needs, and start the job
 * again when it is lost as a whole.  run_attempt.h has the parts.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "asks.h"
#include "input.h"
#include "kill.h"
#include "run_attempt.h"
#include "sets.h"
#include "detect/watch_page.h"
#include "store/scratch.h"

void ftk_run_say(const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0)
        text = NULL;
    va_end(ap);
    /* in one write: mpirun and the ranks have this stderr, too */
    fprintf(stderr, "ftkit run: %s\n", text ? text : "no memory for a message");
    free(text);
}

/* After an attempt that is not lost: the exit code of the run. */
static int last_word(const struct ftk_run *r, const struct ftk_try *a, bool opened)
{
    const struct ftk_state_facts *facts = ftk_state_facts(a->state);
    int code = ftk_try_verdict(a);
    bool wanted = a->how == BY_SIGNAL || a->how == BY_TIMEOUT;
    ftk_try_report(a);
    if (!wanted && code != 0 && !facts->opened && !ftk_state_first(a->state))
        ftk_parts_say_directories(r);
    if (!wanted && code != 0 && !facts->opened && facts->hopeless[0]) {
        ftk_run_say("no context could be opened: %s", ftk_tool_why(facts->hopeless));
        return TOOL_USAGE;
    }
    if (!wanted && code == 0 && !opened && r->spares > 0) {
        ftk_run_say("the program has opened no context, so its %d spare%s ran as %s of "
                    "MPI_COMM_WORLD: start it with --spares 0",
            r->spares, r->spares == 1 ? "" : "s", r->spares == 1 ? "a rank" : "ranks");
        return TOOL_USAGE;
    }
    return code;
}

static int lost_while_halting(const struct ftk_try *a)
{
    char how[512];
    ftk_try_describe(a, how, sizeof how);
    ftk_run_say("the job ended while it halted, %s: %s", how,
        ftk_state_fileless(a->state)
            ? "level.hdf5.enabled is false, so there is no set to go on from"
            : "start it again to go on from its newest complete set");
    return TOOL_HALTED;
}

/* Whether mpirun has ended badly, and no process of the job was ever seen. */
static bool has_no_process(const struct ftk_try *a)
{
    const struct ftk_state_facts *facts = ftk_state_facts(a->state);
    return ftk_try_verdict(a) != 0 && !facts->opened && !facts->met
           && ftk_state_ends(a->state) == 0;
}

static void log_end(const struct ftk_try *a, bool again)
{
    char how[512] = "well";
    if (ftk_try_lost(a))
        ftk_try_describe(a, how, sizeof how);
    else if (ftk_try_verdict(a) != 0)
        snprintf(how, sizeof how, "with code %d", ftk_try_verdict(a));
    ftk_run_log_attempt_end(a->number, how, again);
}

static int run_all(struct ftk_run *r, const sigset_t *set)
{
    double end = r->timeout_s > 0 ? ftk_now_s() + r->timeout_s : 1e300;
    struct ftk_past past = { 0 };
    bool opened = false; /* a context, in any attempt */
    bool looked = false; /* at the names of the nodes */
    ftk_past_begin(r, &past);
    ftk_asks_begin(r);
    ftk_input_begin(r);
    for (int number = 0;; number++) {
        struct ftk_try a = { .number = number };
        ftk_run_log_attempt(r, number);
        int rc = ftk_try_run(r, &a, set, end);
        if (rc != 0)
            return rc;
        bool again = false;
        opened = opened || ftk_state_facts(a.state)->opened;
        if (!opened && !looked && has_no_process(&a)) {
            ftk_nodes_say_unresolved(r);
            looked = true;
        }
        if (ftk_try_lost(&a)) {
            rc = ftk_try_verdict(&a);
            const bool halts = a.halting || ftk_state_halts(a.state);
            again = !halts && ftk_past_again(r, &a, &past, &rc);
            if (halts)
                rc = lost_while_halting(&a);
        } else {
            rc = last_word(r, &a, opened);
        }
        log_end(&a, again);
        r->resumes = r->resumes || ftk_state_facts(a.state)->set > 0;
        ftk_state_end(a.state);
        if (!again)
            return rc;
        ftk_nodes_look(r);
    }
}

/* Remove the files of a directory whose names begin with begin. */
static void remove_files(const char *path, const char *begin)
{
    DIR *d = opendir(path);
    struct dirent *e;
    while (d && (e = readdir(d)))
        if (e->d_name[0] != '.' && strncmp(e->d_name, begin, strlen(begin)) == 0)
            unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
}

static void remove_dir(const char *path)
{
    remove_files(path, "");
    rmdir(path);
}

/* Remove the files of determinants that jobs of this run have left. */
static void remove_determinants(const struct ftk_run *r)
{
    char begin[48];
    snprintf(begin, sizeof begin, "ftkit-det-%llx-", (unsigned long long)r->id);
    remove_files("/dev/shm", begin);
}

/* Whether path is on no network file system.  There, two nodes that append to one file may
 * overwrite each other's lines. */
static bool is_local(const char *path)
{
    static const unsigned long remote[] = { NFS_SUPER_MAGIC, SMB_SUPER_MAGIC, CIFS_SUPER_MAGIC,
        AFS_SUPER_MAGIC, CODA_SUPER_MAGIC, V9FS_MAGIC, FUSE_SUPER_MAGIC, CEPH_SUPER_MAGIC,
        0x0bd00bd0 /* Lustre */, 0x47504653 /* GPFS */, 0x19830326 /* BeeGFS */ };
    struct statfs fs;
    if (statfs(path, &fs) != 0)
        return true;
    for (size_t i = 0; i < sizeof remote / sizeof remote[0]; i++)
        if ((unsigned long)fs.f_type == remote[i]) {
            ftk_run_say("TMPDIR is on a network file system: mpirun cannot report how processes "
                        "end, and a process that is killed with no context open is not noticed");
            return false;
        }
    return true;
}

static int make_dir(struct ftk_run *r)
{
    const char *tmp = getenv("TMPDIR");
    int len = snprintf(r->dir, sizeof r->dir, "%s/ftkit-run.XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (len > (int)sizeof r->dir - 64) {
        ftk_run_say("TMPDIR is too long: set it to a directory with a shorter name");
        return TOOL_USAGE;
    }
    if (r->print)
        return 0;
    if (mkdtemp(r->dir)) {
        r->reports = ftk_mpirun_ulfm() && is_local(r->dir);
        return 0;
    }
    ftk_run_say("cannot make %s: %s", r->dir, strerror(errno));
    return TOOL_FAIL;
}

int ftk_run_main(int argc, char **argv)
{
    static const int taken[] = { SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 };
    struct ftk_run r;
    sigset_t set;
    int rc = ftk_run_parse(&r, argc, argv);
    r.id = ftk_random();
    if (rc == 0)
        rc = ftk_mpirun_plan(&r);
    if (rc == 0)
        rc = make_dir(&r);
    if (rc != 0 || r.print) {
        if (rc == 0)
            ftk_mpirun_show(stdout, &r, 0);
        ftk_kill_end(&r);
        ftk_list_free(&r.extra);
        ftk_parts_free(&r);
        return rc;
    }
    if (!ftk_mpirun_ulfm())
        ftk_run_say("this MPI has no ULFM: restart only, the loss of a rank ends the job");
    /* blocked, and taken only by watch(): else the end of mpirun could be missed between test and
     * wait */
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        sigaddset(&set, taken[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGCHLD, SIG_DFL); /* if our parent ignores SIGCHLD, there are no exit codes */
    if (ftk_tree_init() != 0)
        ftk_run_say("no subreaper: %s; processes of a lost job may stay", strerror(errno));
    if (r.slurm.n > 0)
        rc = ftk_slurm_files(&r);
    if (r.emulate > 0)
        rc = ftk_emulate_files(&r);
    (void)ftk_dog_sweep(false); /* files of earlier runs that were killed */
    ftk_run_log_open();
    if (rc == 0)
        rc = run_all(&r, &set);
    ftk_run_log_end(rc);
    ftk_kill_end(&r);
    (void)ftk_dog_sweep(false);
    ftk_litter_slots(r.id);
    ftk_scratch_sweep("");
    ftk_emulate_remove(&r);
    remove_determinants(&r);
    remove_dir(r.dir);
    ftk_list_free(&r.extra);
    ftk_list_free(&r.gone);
    ftk_list_free(&r.slurm);
    ftk_parts_free(&r);
    return rc;
}
