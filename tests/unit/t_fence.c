/* A process that was given up, and comes back in the middle of a call, changes nothing in a set
 * that others have made since.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <sys/syscall.h>

#include "t_h5.h"

#define SET 7
enum { LATE = 11, NEW = 22 }; /* numbers of the two attempts */

/* What the others do while the process stands still. */
enum what { MAKE, WRITE, COMMIT };

/* ---- the others ----------------------------------------------------------------------- */

static void write_by(uint64_t flush, uint32_t part, struct ftk_manifest_part *out)
{
    const void *segs[NRANKS];
    int n = 0;
    for (uint32_t r = 0; r < NRANKS; r++)
        if (part_of[r] == part)
            segs[n++] = make_segment(SET, r);
    const void *const *next = segs;
    const struct ftk_part_job job = { .dir = dir,
        .context = CONTEXT,
        .set = SET,
        .flush = flush,
        .part = part_number[part],
        .nsegs = n,
        .next = next_in_memory,
        .arg = (void *)&next };
    CHECK_RC(FTKIT_OK, ftk_h5_write_job(&job, out));
    for (int i = 0; i < n; i++)
        free((void *)(uintptr_t)segs[i]);
}

/* Name, size, time and inode of each file of the set. */
static char seen[2048];

static void look(char text[sizeof seen])
{
    struct dirent **e = NULL;
    struct stat st;
    size_t at = 0;
    const int n = scandir(path_of(SET, ""), &e, NULL, alphasort);
    text[0] = '\0';
    for (int i = 0; i < n; i++) {
        if (e[i]->d_name[0] != '.' && stat(path_of(SET, e[i]->d_name), &st) == 0)
            at += (size_t)snprintf(text + at, sizeof seen - at, "%s %lld %lld.%09ld %llu\n",
                e[i]->d_name, (long long)st.st_size, (long long)st.st_mtim.tv_sec,
                st.st_mtim.tv_nsec, (unsigned long long)st.st_ino);
        free(e[i]);
    }
    free(e);
}

static void others(enum what what)
{
    struct ftk_manifest m = make_manifest(SET);
    CHECK_RC(FTKIT_OK, ftk_h5_make(dir, CONTEXT, SET, NEW, NULL));
    for (uint32_t p = 0; what >= WRITE && p < (what == WRITE ? 1 : NPARTS); p++)
        write_by(NEW, p, &m.parts[p]);
    if (what == COMMIT)
        CHECK_RC(FTKIT_OK, ftk_h5_commit(dir, NEW, &m));
    ftk_manifest_free(&m);
    look(seen);
}

/* Nothing has changed in the directory of the set since look(seen). */
static void is_as_seen(void)
{
    char now[sizeof seen];
    look(now);
    assert_string_equal(now, seen);
}

/* The set is what the others have made of it. */
static void is_theirs(enum what what)
{
    is_as_seen();
    if (what == COMMIT)
        CHECK_RC(FTKIT_OK, verify_set(SET));
    else
        CHECK_RC(FTKIT_OK, ftk_h5_marked(dir, CONTEXT, SET, NEW));
}

/* ---- making --------------------------------------------------------------------------- */

/* Where the process stands still. */
enum where { NOWHERE, AT_THE_ASK, BEFORE_RMDIR, BEFORE_MKDIR, AFTER_MKDIR, BEFORE_MARK };
static enum where where;
static enum what meanwhile;
static bool came_back;

static void point(enum where here)
{
    if (where != here)
        return;
    where = NOWHERE;
    others(meanwhile);
    came_back = true;
}

int mkdirat(int fd, const char *name, mode_t mode)
{
    point(BEFORE_MKDIR);
    const int rc = (int)syscall(SYS_mkdirat, fd, name, mode);
    point(AFTER_MKDIR);
    return rc;
}

int unlinkat(int fd, const char *name, int flags)
{
    if (flags & AT_REMOVEDIR)
        point(BEFORE_RMDIR);
    return (int)syscall(SYS_unlinkat, fd, name, flags);
}

/* A writer of the attempt LATE, which names its part as soon as it sees the mark of this attempt:
 * a call of the maker may come after that. */
static bool fast_writer;

static void try_to_write(void)
{
    struct ftk_manifest_part out;
    if (!fast_writer)
        return;
    fast_writer = false; /* the look calls openat(), too */
    if (ftk_h5_marked(dir, CONTEXT, SET, LATE) == FTKIT_OK)
        write_by(LATE, 0, &out);
    else
        fast_writer = true;
}

/* A writer of an attempt before LATE, whose part gets its name in a directory that stays. */
static bool old_writer;

static void name_old_part(int fd)
{
    if (!old_writer)
        return;
    old_writer = false;
    const int file =
        (int)syscall(SYS_openat, fd, "part-00000.h5", O_WRONLY | O_CREAT | O_EXCL, 0666);
    assert_true(file >= 0);
    assert_int_equal(close(file), 0);
}

int openat(int fd, const char *name, int flags, ...)
{
    mode_t mode = 0;
    va_list args;
    if (flags & O_CREAT) {
        va_start(args, flags);
        mode = va_arg(args, mode_t);
        va_end(args);
    }
    if (flags & O_CREAT) {
        point(BEFORE_MARK);
        name_old_part(fd);
    } else {
        try_to_write();
    }
    return (int)syscall(SYS_openat, fd, name, flags, mode);
}

/* The new rank 0 has written its record before it makes a set: the answer is no after that. */
static int is_still(void *arg)
{
    (void)arg;
    if (came_back)
        return ftk_fail(FTKIT_ERR_BUSY, "another process is rank 0");
    point(AT_THE_ASK);
    return FTKIT_OK;
}

/* What the process finds when it looks for the first time. */
enum found { NOTHING, LEFTOVER, PARTS };

static void leave(enum found found)
{
    struct ftk_manifest_part part;
    if (found == NOTHING)
        return;
    CHECK_RC(FTKIT_OK, ftk_h5_make(dir, CONTEXT, SET, LATE, NULL));
    if (found == PARTS)
        write_by(LATE, 0, &part);
}

static void maker_comes_back(void **state)
{
    (void)state;
    const struct ftk_still still = { is_still, NULL };
    const int before = handles();
    const int next = getenv("FTKIT_TEST_FEW") ? 2 : 1; /* where each takes long */
    for (enum where at = AT_THE_ASK; at <= BEFORE_MARK; at++) {
        for (int i = 0; i < 9; i += next) {
            remove_tree(dir);
            assert_int_equal(mkdir(dir, 0777), 0);
            leave(i / 3);
            came_back = false;
            where = i < 3 && at == BEFORE_RMDIR ? BEFORE_MKDIR : at;
            meanwhile = i % 3;
            const int rc = ftk_h5_make(dir, CONTEXT, SET, LATE + 1, &still);
            assert_true(came_back);
            if (rc != FTKIT_ERR_BUSY && rc != FTKIT_ERR_EXISTS)
                fail_msg("at %d, case %d: %d", at, i, rc);
            is_theirs(i % 3);
        }
    }
    assert_int_equal(handles(), before);
}

static int was_replaced(void *arg)
{
    (void)arg;
    return ftk_fail(FTKIT_ERR_PEER, "another process is rank 0");
}

/* A process that is told before it removes anything removes nothing. */
static void maker_asks(void **state)
{
    (void)state;
    const struct ftk_still still = { was_replaced, NULL };
    char before[sizeof seen], after[sizeof seen];
    leave(PARTS);
    look(before);
    CHECK_RC(FTKIT_ERR_PEER, ftk_h5_make(dir, CONTEXT, SET, NEW, &still));
    look(after);
    assert_string_equal(before, after);
    CHECK_RC(FTKIT_OK, ftk_h5_marked(dir, CONTEXT, SET, LATE));
}

static int no_longer(void *arg)
{
    int *asked = arg;
    return (*asked)++ == 0 ? FTKIT_OK : was_replaced(NULL);
}

/* A process that has made a set too late gives no part of this set its name. */
static void maker_asks_again(void **state)
{
    (void)state;
    int asked = 0;
    const struct ftk_still still = { no_longer, &asked };
    CHECK_RC(FTKIT_ERR_PEER, ftk_h5_make(dir, CONTEXT, SET, LATE, &still));
    assert_int_equal(asked, 2);
}

static void complete_and_verify(void)
{
    struct ftk_manifest m = make_manifest(SET);
    for (uint32_t p = 0; p < NPARTS; p++)
        write_by(LATE, p, &m.parts[p]);
    CHECK_RC(FTKIT_OK, ftk_h5_commit(dir, LATE, &m));
    CHECK_RC(FTKIT_OK, verify_set(SET));
    ftk_manifest_free(&m);
}

/* Another rank may name its part before rank 0 has looked at the directory that it has marked. */
static void writer_is_faster(void **state)
{
    (void)state;
    for (enum found found = NOTHING; found <= PARTS; found++) {
        remove_tree(dir);
        assert_int_equal(mkdir(dir, 0777), 0);
        leave(found);
        if (found != NOTHING)
            write_file(path_of(SET, "notes of the user"), "x", 1);
        fast_writer = found == NOTHING; /* the number of what is left is the same */
        old_writer = found != NOTHING;
        CHECK_RC(FTKIT_OK, ftk_h5_make(dir, CONTEXT, SET, LATE, NULL));
        assert_false(old_writer);
        fast_writer = false;
        complete_and_verify();
    }
}

/* A directory with a file of somebody else stays, and is used again. */
static void foreign_file(void **state)
{
    (void)state;
    leave(PARTS);
    write_file(path_of(SET, "notes of the user"), "x", 1);
    others(COMMIT);
    is_theirs(COMMIT);
    assert_true(exists(path_of(SET, "notes of the user")));
}

/* ---- writing -------------------------------------------------------------------------- */

/* A writer that stands still before the segment AT, or inside it, after a block. */
struct late {
    enum what what;
    int at, n;
    bool inside;
    void *seg;
};

static int next_late(void *arg, const void **seg)
{
    struct late *l = arg;
    if (!l->inside && l->n == l->at)
        others(l->what);
    free(l->seg);
    *seg = l->seg = make_segment(SET, l->n++ == 0 ? 0 : 2);
    return FTKIT_OK;
}

static int pace_late(void *arg, size_t bytes)
{
    struct late *l = arg;
    (void)bytes;
    if (l->inside) {
        l->inside = false;
        others(l->what);
    }
    return FTKIT_OK;
}

static int write_late(struct late *l)
{
    struct ftk_manifest_part out;
    const struct ftk_part_job job = { .dir = dir,
        .context = CONTEXT,
        .set = SET,
        .flush = LATE,
        .nsegs = 2,
        .next = next_late,
        .pace = pace_late,
        .arg = l };
    const int rc = ftk_h5_write_job(&job, &out);
    free(l->seg);
    return rc;
}

/* An empty directory, but for the set that the process has made before it stands still. */
static void begin_again(void)
{
    remove_tree(dir);
    assert_int_equal(mkdir(dir, 0777), 0);
    leave(LEFTOVER);
}

static void writer_comes_back(void **state)
{
    (void)state;
    const int before = handles();
    for (int at = 0; at < 3; at++) {
        for (enum what what = MAKE; what <= COMMIT; what++) {
            struct late l = { .what = what, .at = at < 2 ? at : -1, .inside = at == 2 };
            begin_again();
            assert_int_not_equal(write_late(&l), FTKIT_OK);
            is_theirs(what);
        }
    }
    assert_int_equal(handles(), before);
}

/* A writer that comes back before it has opened the directory. */
static void writer_comes_late(void **state)
{
    (void)state;
    for (enum what what = MAKE; what <= COMMIT; what++) {
        struct late l = { .what = what, .at = -1 };
        begin_again();
        others(what);
        CHECK_RC(FTKIT_ERR_IO, write_late(&l));
        is_theirs(what);
    }
}

/* ---- giving up ------------------------------------------------------------------------ */

/* What an attempt has left goes, with the directory; another attempt and a complete set stay. */
static void drops_its_own(void **state)
{
    (void)state;
    const int before = handles();
    leave(PARTS);
    CHECK_RC(FTKIT_OK, ftk_h5_drop(dir, CONTEXT, SET, LATE, NULL));
    assert_false(exists(path_of(SET, "")));
    CHECK_RC(FTKIT_OK, ftk_h5_drop(dir, CONTEXT, SET, LATE, NULL));
    for (enum what what = MAKE; what <= COMMIT; what++) {
        remove_tree(path_of(SET, ""));
        others(what);
        CHECK_RC(FTKIT_OK, ftk_h5_drop(dir, CONTEXT, SET, LATE, NULL));
        is_theirs(what);
    }
    CHECK_RC(FTKIT_OK, ftk_h5_drop(dir, CONTEXT, SET, NEW, NULL));
    is_theirs(COMMIT);
    write_file(path_of(SET, "unfinished"), "flush = 0000000000000016\n", 25); /* NEW */
    look(seen);
    CHECK_RC(FTKIT_OK, ftk_h5_drop(dir, CONTEXT, SET, NEW, NULL));
    is_theirs(COMMIT); /* a manifest makes the set complete, whatever else is there */
    assert_int_equal(handles(), before);
}

/* The sets of one attempt have the same mark.  A drop removes only the set with its number. */
static void drops_one_set(void **state)
{
    (void)state;
    const int before = handles();
    leave(PARTS);
    CHECK_RC(FTKIT_OK, ftk_h5_make(dir, CONTEXT, SET + 1, LATE, NULL));
    CHECK_RC(FTKIT_OK, ftk_h5_make(dir, CONTEXT, SET - 1, LATE, NULL));
    look(seen);
    CHECK_RC(FTKIT_OK, ftk_h5_drop(dir, CONTEXT, SET + 1, LATE, NULL));
    is_as_seen();
    assert_false(exists(path_of(SET + 1, "")));
    CHECK_RC(FTKIT_OK, ftk_h5_marked(dir, CONTEXT, SET - 1, LATE));
    CHECK_RC(FTKIT_OK, ftk_h5_drop(dir, CONTEXT, SET + 1, LATE, NULL)); /* not there */
    is_as_seen();
    CHECK_RC(FTKIT_OK, ftk_h5_drop(dir, CONTEXT, SET, LATE, NULL));
    assert_false(exists(path_of(SET, "")));
    CHECK_RC(FTKIT_OK, ftk_h5_marked(dir, CONTEXT, SET - 1, LATE));
    assert_int_equal(handles(), before);
}

/* Others make the set again while this process stands still in the call. */
static void dropper_comes_back(void **state)
{
    (void)state;
    const struct ftk_still still = { is_still, NULL };
    const int before = handles();
    for (int i = 0; i < 6; i++) {
        remove_tree(dir);
        assert_int_equal(mkdir(dir, 0777), 0);
        leave(PARTS);
        came_back = false;
        where = i < 3 ? AT_THE_ASK : BEFORE_RMDIR;
        meanwhile = i % 3;
        CHECK_RC(FTKIT_OK, ftk_h5_drop(dir, CONTEXT, SET, LATE, &still));
        assert_true(came_back);
        is_theirs(i % 3);
    }
    assert_int_equal(handles(), before);
}

/* A process that is told so removes nothing. */
static void dropper_asks(void **state)
{
    (void)state;
    const struct ftk_still still = { was_replaced, NULL };
    char before[sizeof seen], after[sizeof seen];
    leave(PARTS);
    look(before);
    CHECK_RC(FTKIT_ERR_PEER, ftk_h5_drop(dir, CONTEXT, SET, LATE, &still));
    look(after);
    assert_string_equal(before, after);
}

/* ---- completing ----------------------------------------------------------------------- */

static void committer_comes_back(void **state)
{
    (void)state;
    struct ftk_manifest m = make_manifest(SET);
    leave(LEFTOVER);
    for (uint32_t p = 0; p < NPARTS; p++)
        write_by(LATE, p, &m.parts[p]);
    for (enum what what = MAKE; what <= COMMIT; what++) {
        if (what > MAKE)
            remove_tree(path_of(SET, ""));
        others(what);
        CHECK_RC(FTKIT_ERR_IO, ftk_h5_commit(dir, LATE, &m));
        is_theirs(what);
    }
    ftk_manifest_free(&m);
}

/* Its own attempt, which nobody has removed, may be completed: all ranks have written it. */
static void own_attempt(void **state)
{
    (void)state;
    struct ftk_manifest m = make_manifest(SET);
    leave(LEFTOVER);
    for (uint32_t p = 0; p < NPARTS; p++)
        write_by(LATE, p, &m.parts[p]);
    CHECK_RC(FTKIT_OK, ftk_h5_commit(dir, LATE, &m));
    CHECK_RC(FTKIT_OK, verify_set(SET));
    CHECK_RC(FTKIT_ERR_EXISTS, ftk_h5_make(dir, CONTEXT, SET, NEW, NULL));
    ftk_manifest_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = { TEST(maker_comes_back), TEST(maker_asks),
        TEST(maker_asks_again), TEST(writer_is_faster), TEST(foreign_file), TEST(writer_comes_back),
        TEST(writer_comes_late), TEST(committer_comes_back), TEST(own_attempt), TEST(drops_its_own),
        TEST(drops_one_set), TEST(dropper_comes_back), TEST(dropper_asks) };
    return cmocka_run_group_tests(tests, make_work, remove_work);
}
