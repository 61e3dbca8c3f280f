/* Rights of what ftkit makes, and what another user has planted is not used.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The test is two users of the machine: it needs root, and is skipped otherwise. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/access.h"
#include "core/config.h"
#include "core/event.h"
#include "core/run_state.h"
#include "detect/watch_page.h"
#include "store/file.h"
#include "store/place_ops.h"
#include "store/scratch.h"
#include "store/sets_dir.h"
#include "store/tree.h"

enum { OURS = 65534, OTHERS = 65533 };

static char top[64]; /* sticky, all users may write */

/* From now on the test is this user.  Files that it makes belong to it. */
static void become(uid_t uid)
{
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(setegid(uid), 0);
    if (uid != 0)
        assert_int_equal(seteuid(uid), 0);
}

static const char *at(const char *name)
{
    static char path[8][256];
    static int next;
    char *p = path[next++ % 8];
    snprintf(p, 256, "%s/%s", top, name);
    return p;
}

static int begin(void **state)
{
    (void)state;
    snprintf(top, sizeof top, "/dev/shm/t_access.XXXXXX");
    if (geteuid() != 0)
        return 0;
    (void)umask(0); /* no right is missing because of it */
    return mkdtemp(top) && chmod(top, 01777) == 0 ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    if (getuid() != 0)
        return 0;
    become(0);
    return ftk_tree_empty(AT_FDCWD, top, NULL) == 0 ? rmdir(top) : -1;
}

static void needs_root(void)
{
    if (getuid() != 0)
        skip();
}

static unsigned rights(const char *path)
{
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    return st.st_mode & 07777;
}

static void put(const char *path, const char *text, mode_t mode)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static void has(const char *path, const char *text)
{
    char got[256] = "";
    const int fd = open(path, O_RDONLY);
    assert_true(fd >= 0 && read(fd, got, sizeof got - 1) >= 0);
    close(fd);
    assert_string_equal(got, text);
}

/* ---- rights -------------------------------------------------------------------------- */

/* What is made has the rights of its directory, with any umask; no other user may write. */
static void rights_of_new_files(void **state)
{
    static const struct {
        unsigned above, dir, file;
    } cases[] = { { 0700, 0700, 0600 }, { 0750, 0750, 0640 }, { 0755, 0755, 0644 },
        { 0770, 0770, 0660 }, { 0777, 0775, 0664 }, { 01777, 0700, 0600 }, { 0711, 0711, 0600 } };
    (void)state;
    needs_root();
    become(OURS);
    for (size_t i = 0; i < 2 * sizeof cases / sizeof cases[0]; i++) {
        const unsigned above = cases[i / 2].above;
        char name[32];
        snprintf(name, sizeof name, "rights%zu", i);
        assert_int_equal(mkdir(at(name), 0700), 0);
        assert_int_equal(chmod(at(name), above), 0);
        (void)umask(i % 2 ? 077 : 0);
        const int dir = ftk_access_open_dir(at(name));
        assert_true(dir >= 0);
        assert_int_equal(ftk_access_make_dir(dir, "dir"), 0);
        assert_int_equal(ftk_access_make_dir(dir, "dir"), EEXIST);
        const int fd = ftk_access_make_file(dir, "file", O_WRONLY);
        assert_true(fd >= 0);
        assert_int_equal(ftk_access_make_file(dir, "file", O_WRONLY), -1);
        assert_int_equal(errno, EEXIST);
        close(fd);
        close(dir);
        snprintf(name, sizeof name, "rights%zu/dir", i);
        assert_int_equal(rights(at(name)), cases[i / 2].dir);
        snprintf(name, sizeof name, "rights%zu/file", i);
        assert_int_equal(rights(at(name)), cases[i / 2].file);
        assert_int_equal(ftk_save_text(at(name), "text", 4), FTKIT_OK);
        assert_int_equal(rights(at(name)), cases[i / 2].file);
    }
    (void)umask(0);
}

/* Each word of context.access; a directory that exists keeps its rights. */
static void rights_of_sets(void **state)
{
    static const unsigned want[] = { 0700, 0750, 0755 };
    (void)state;
    needs_root();
    become(OURS);
    for (int access = FTK_ACCESS_OWNER; access <= FTK_ACCESS_ALL; access++) {
        char name[32], path[64];
        snprintf(name, sizeof name, "access%d", access);
        snprintf(path, sizeof path, "%s.ftkit", name);
        (void)umask(access == FTK_ACCESS_OWNER ? 0 : 077);
        assert_int_equal(ftk_sets_dir_make(top, name, ftk_access_rights(access)), 0);
        assert_int_equal(rights(at(path)), want[access]);
        assert_int_equal(chmod(at(path), 0710), 0);
        assert_int_equal(ftk_sets_dir_make(top, name, ftk_access_rights(access)), 0);
        assert_int_equal(rights(at(path)), 0710);
        snprintf(path, sizeof path, "events%d", access);
        assert_int_equal(ftk_event_open(at(path), "main", access), 0);
        assert_int_equal(rights(at(path)), want[access]);
        char host[256] = "", file[320];
        assert_int_equal(gethostname(host, sizeof host - 1), 0);
        snprintf(file, sizeof file, "events%d/%.200s.jsonl", access, host);
        assert_int_equal(rights(at(file)), want[access] & 0666);
        assert_int_equal(ftk_event_open("", "main", access), 0);
    }
    (void)umask(0);
}

/* ---- planted names --------------------------------------------------------------------- */

/* What another user can put in place of a file, and leave behind it. */
enum planted {
    A_LINK,
    A_DANGLING_LINK,
    A_FILE,
    A_LOCKED_FILE,
    A_FIFO,
    A_DIRECTORY,
    A_HARD_LINK,
    ALL
};

/* Put it at the name `name`; what it leads to is "victim", a file of the first user. */
static int plant(enum planted what, const char *name)
{
    int fd = -1;
    become(OURS);
    put(at("victim"), "mine\n", 0600);
    become(what == A_HARD_LINK ? 0 : OTHERS); /* a kernel may keep the user from it */
    switch (what) {
    case A_LINK:
        assert_int_equal(symlink(at("victim"), at(name)), 0);
        break;
    case A_DANGLING_LINK:
        assert_int_equal(symlink(at("victim.new"), at(name)), 0);
        break;
    case A_FIFO:
        assert_int_equal(mkfifo(at(name), 0666), 0);
        break;
    case A_DIRECTORY:
        assert_int_equal(mkdir(at(name), 0777), 0);
        break;
    case A_HARD_LINK:
        assert_int_equal(link(at("victim"), at(name)), 0);
        break;
    default:
        put(at(name), "theirs\n", 0666);
        fd = open(at(name), O_RDWR);
        assert_true(fd >= 0 && (what == A_FILE || flock(fd, LOCK_EX) == 0));
    }
    become(OURS);
    return fd;
}

static void uproot(enum planted what, const char *name, int fd)
{
    struct stat st;
    become(0);
    has(at("victim"), "mine\n");
    assert_int_equal(lstat(at("victim"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_true(lstat(at("victim.new"), &st) != 0 && errno == ENOENT);
    if (what == A_FILE || what == A_LOCKED_FILE)
        has(at(name), "theirs\n");
    if (fd >= 0)
        close(fd);
    assert_int_equal(what == A_DIRECTORY ? rmdir(at(name)) : unlink(at(name)), 0);
    assert_int_equal(unlink(at("victim")), 0);
}

/* A test that waits for a pipe or a lock of the other user ends here. */
static void hang(int sig)
{
    (void)sig;
    static const char text[] = "t_access: a call waits for what another user has planted\n";
    (void)!write(2, text, sizeof text - 1);
    _exit(1);
}

static void events(void **state)
{
    char host[256] = "", name[320];
    (void)state;
    needs_root();
    assert_int_equal(gethostname(host, sizeof host - 1), 0);
    snprintf(name, sizeof name, "%.200s.jsonl", host);
    for (int what = 0; what < ALL; what++) {
        const int fd = plant(what, name);
        const int err = ftk_event_open(top, "main", FTK_ACCESS_OWNER);
        assert_true(err == ELOOP || err == EPERM || err == EMLINK || err == EISDIR || err == ENXIO
                    || err == EACCES);
        assert_false(ftk_event_on());
        uproot(what, name, fd);
    }
    /* the directory itself is a link: the file would be in a directory of the victim */
    become(OURS);
    assert_int_equal(mkdir(at("mine"), 0700), 0);
    become(OTHERS);
    assert_int_equal(symlink(at("mine"), at("log")), 0);
    become(OURS);
    assert_int_equal(ftk_event_open(at("log"), "main", FTK_ACCESS_OWNER), ELOOP);
    assert_int_equal(rmdir(at("mine")), 0);
}

static void pages(void **state)
{
    char name[128], path[160];
    (void)state;
    needs_root();
    snprintf(name, sizeof name, FTK_DOG_PREFIX "%lx-test", (unsigned long)getpid());
    snprintf(path, sizeof path, "/dev/shm/%s", name);
    for (int what = 0; what < ALL; what++) {
        struct ftk_dog_page *page = NULL;
        int lock = -1;
        const int fd = plant(what, "page");
        become(0);
        assert_int_equal(rename(at("page"), path), 0);
        become(OURS);
        const int err = ftk_dog_page_open(name, &page, &lock);
        assert_true(
            err == ELOOP || err == EPERM || err == EMLINK || err == EISDIR || err == EACCES);
        assert_null(page);
        /* a planted page says nothing of a job: neither that it lives nor that it does not */
        assert_int_equal(ftk_dog_job_lives((uint64_t)getpid()), what == A_HARD_LINK ? 0 : -1);
        become(0);
        assert_int_equal(rename(path, at("page")), 0);
        uproot(what, "page", fd);
    }
}

static void messages(void **state)
{
    (void)state;
    needs_root();
    ftk_report_setup(-1);
    assert_int_equal(setenv("FTKIT_RUN_STATE", at("state"), 1), 0);
    for (int what = 0; what < ALL; what++) {
        const int fd = plant(what, "state");
        ftk_run_state("open default 0");
        assert_null(ftk_run_map("state", strlen("theirs\n")));
        uproot(what, "state", fd);
    }
    become(OURS);
    ftk_run_state("open default 0");
    has(at("state"), "open default 0\n");
    assert_non_null(ftk_run_map("state", strlen("open default 0\n")));
    assert_int_equal(unsetenv("FTKIT_RUN_STATE"), 0);
}

/* A temporary name that is planted is replaced, if the directory lets it, and never followed. */
static void texts(void **state)
{
    (void)state;
    needs_root();
    for (int what = 0; what < ALL; what++) {
        const int fd = plant(what, "text.tmp");
        const int rc = ftk_save_text(at("text"), "new\n", 4);
        if (what == A_HARD_LINK) { /* the name is of a file of ours, so it can be removed */
            assert_int_equal(rc, FTKIT_OK);
            has(at("text"), "new\n");
            assert_int_equal(rename(at("text"), at("text.tmp")), 0);
        } else {
            assert_true(rc != FTKIT_OK);
        }
        uproot(what, "text.tmp", fd);
    }
    become(OURS);
    assert_int_equal(ftk_save_text(at("text"), "new\n", 4), FTKIT_OK);
    has(at("text"), "new\n");
}

/* ---- directories ------------------------------------------------------------------------ */

static void directories(void **state)
{
    (void)state;
    needs_root();
    /* a directory that another user has made where all may make one */
    become(OTHERS);
    assert_int_equal(mkdir(at("theirs.ftkit"), 0777), 0);
    assert_int_equal(mkdir(at("target.ftkit"), 0777), 0);
    assert_int_equal(symlink(at("target.ftkit"), at("link.ftkit")), 0);
    become(OURS);
    assert_int_equal(ftk_sets_dir_open(top, "theirs"), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(ftk_sets_dir_make(top, "theirs", 0700), EPERM);
    assert_int_equal(ftk_sets_dir_open(top, "link"), -1);
    assert_int_equal(errno, ELOOP);
    assert_int_equal(ftk_sets_dir_make(top, "link", 0700), ELOOP);
    /* a link of the other user to a directory of ours */
    assert_int_equal(mkdir(at("own.ftkit"), 0700), 0);
    become(OTHERS);
    assert_int_equal(symlink(at("own.ftkit"), at("bait.ftkit")), 0);
    become(OURS);
    assert_int_equal(ftk_sets_dir_open(top, "bait"), -1);
    assert_int_equal(errno, ELOOP);
    /* links of this user, and of root, are its own business */
    assert_int_equal(symlink(at("own.ftkit"), at("mine.ftkit")), 0);
    become(0);
    assert_int_equal(symlink(at("own.ftkit"), at("root.ftkit")), 0);
    become(OURS);
    static const char *const good[] = { "own", "mine", "root" };
    for (int i = 0; i < 3; i++) {
        const int fd = ftk_sets_dir_open(top, good[i]);
        assert_true(fd >= 0);
        close(fd);
    }
    /* a team works in a directory that not all users can write to */
    become(0);
    assert_int_equal(mkdir(at("project"), 0775), 0);
    assert_int_equal(mkdir(at("project/team.ftkit"), 0775), 0);
    assert_int_equal(chown(at("project/team.ftkit"), OTHERS, OTHERS), 0);
    become(OURS);
    const int fd = ftk_sets_dir_open(at("project"), "team");
    assert_true(fd >= 0);
    close(fd);
}

/* The other user has a slot with our name, or gives the whole directory by a link. */
static void slots(void **state)
{
    struct ftk_place p;
    struct ftk_slot slot;
    struct ftk_mem_seg s = { .fd = -1 };
    size_t room = 0;
    (void)state;
    needs_root();
    become(OURS);
    assert_int_equal(ftk_place_open(&p, FTK_PLACE_FILE, top, "default", 1, 4711), FTKIT_OK);
    for (int what = 0; what < ALL; what++) {
        if (what == A_HARD_LINK)
            continue; /* to a slot it would be one of ours */
        snprintf(s.name, sizeof s.name, "%s99.1", p.prefix);
        const int fd = plant(what, s.name);
        const int rc = p.access->peek(&p, s.name, &slot);
        const bool is_file = what == A_FILE || what == A_LOCKED_FILE;
        assert_true(is_file ? rc == FTKIT_ERR_STATE : rc != FTKIT_OK); /* as if it were gone */
        if (p.access->open(&p, &s) == FTKIT_OK) {
            assert_int_equal(p.access->read(&p, &s, &slot, &room), FTKIT_ERR_STATE);
            close(s.fd);
        }
        uproot(what, s.name, fd);
    }
    become(OTHERS);
    assert_int_equal(symlink("/dev/shm", at("slots")), 0);
    become(OURS);
    assert_int_equal(
        ftk_place_open(&p, FTK_PLACE_FILE, at("slots"), "default", 1, 4711), FTKIT_ERR_IO);
    struct ftk_scratch scratch;
    assert_int_equal(ftk_scratch_make(at("slots"), &scratch), FTKIT_ERR_IO);
    assert_int_equal(ftk_scratch_make(top, &scratch), FTKIT_OK);
    assert_int_equal(rights(scratch.path), 0700);
    ftk_scratch_remove(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(rights_of_new_files),
        cmocka_unit_test(rights_of_sets), cmocka_unit_test(events), cmocka_unit_test(pages),
        cmocka_unit_test(messages), cmocka_unit_test(texts), cmocka_unit_test(directories),
        cmocka_unit_test(slots) };
    (void)signal(SIGALRM, hang);
    (void)alarm(30);
    return cmocka_run_group_tests(tests, begin, end);
}
