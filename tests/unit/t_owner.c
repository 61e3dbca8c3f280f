/* The record of the job that uses the sets of a context: who gets it, who does not.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "t_h5.h"
#include "store/owner.h"

#define SHORT_S 0.6 /* of silence */
#define LONG_S 60   /* for an event that comes in a moment; only a failing test waits so long */

/* ---- time ------------------------------------------------------------------------------
 * The thread of a test, which waits for owners, has a clock of its own, and does not wait: each nap
 * sets its clock on, and lets others act.  So no test depends on the speed of the machine. */

static __thread bool has_clock;
static __thread double late_s; /* how much its clock is on */
static __thread int naps;      /* of this thread so far */
static void (*at_nap)(void);   /* what others do meanwhile; NULL: nothing */

int nanosleep(const struct timespec *t, struct timespec *left)
{
    if (!has_clock)
        return (int)syscall(SYS_nanosleep, t, left);
    late_s += (double)t->tv_sec + 1e-9 * (double)t->tv_nsec;
    naps++;
    if (at_nap)
        at_nap();
    return 0;
}

int clock_gettime(clockid_t id, struct timespec *t)
{
    const int rc = (int)syscall(SYS_clock_gettime, id, t);
    if (rc == 0 && has_clock && id == CLOCK_MONOTONIC) {
        const double nsec = (double)t->tv_nsec + 1e9 * late_s;
        t->tv_sec += (time_t)(nsec / 1e9);
        t->tv_nsec = (long)(nsec - 1e9 * (double)(time_t)(nsec / 1e9));
    }
    return rc;
}

/* A short pause of the machine, while another thread or process comes to a point. */
static void pause_s(double seconds)
{
    const struct timespec t = { 0, (long)(1e9 * seconds) };
    (void)syscall(SYS_nanosleep, &t, NULL);
}

static void await(bool (*come)(void))
{
    int i = 0;
    while (!come() && i++ < LONG_S * 1000)
        pause_s(0.001);
    assert_true(come());
}

/* ---- records --------------------------------------------------------------------------- */

static const char *record_path(void)
{
    static char path[FTK_PATH_MAX];
    snprintf(path, sizeof path, "%s/%s.ftkit/owner", dir, CONTEXT);
    return path;
}

static char *record(void)
{
    size_t bytes;
    char *text = read_file(record_path(), &bytes);
    text = realloc(text, bytes + 1);
    text[bytes] = '\0';
    return text;
}

/* more: the lines of versions 2 and 3; NULL: version 1 */
static void write_lines(
    const char *machine, long pid, const char *start, uint64_t job, const char *more)
{
    char text[1024];
    int n = snprintf(text, sizeof text,
        "ftkit.owner = %d\njob = %016" PRIx64
        "\nname = -\nhost = elsewhere\nmachine = %s\npid = %ld\nstart = %s\n%s",
        !more                      ? 1
        : strstr(more, "epoch = ") ? 3
                                   : 2,
        job, machine, pid, start, more ? more : "");
    n += snprintf(text + n, sizeof text - (size_t)n, "checksum = %016" PRIx64 "\n",
        (uint64_t)XXH3_64bits(text, (size_t)n));
    unlink(record_path());
    write_file(record_path(), text, (size_t)n);
}

static void write_record(const char *machine, long pid, const char *start, uint64_t job)
{
    write_lines(machine, pid, start, job, NULL);
}

static double waited_s; /* by the clock of the test, for the last owner */

static struct ftk_owner *take_for(int want, const struct ftk_owner_job *job)
{
    struct ftk_owner *o = NULL;
    const double begin = ftk_now_s();
    naps = 0;
    CHECK_RC(want, ftk_owner_take(dir, CONTEXT, job, true, &o));
    waited_s = ftk_now_s() - begin;
    late_s = 0;
    assert_true((want == FTKIT_OK) == (o != NULL));
    return o;
}

static struct ftk_owner *take(int want, uint64_t number)
{
    const struct ftk_owner_job job = { .job = number, .alone = true };
    return take_for(want, &job);
}

/* The value of a line in a record. */
static void line_of(const char *text, const char *key, char value[80])
{
    char begin[40];
    snprintf(begin, sizeof begin, "\n%s = ", key);
    const char *p = strstr(text, begin);
    assert_non_null(p);
    p += strlen(begin);
    snprintf(value, 80, "%.*s", (int)strcspn(p, "\n"), p);
}

static void one_at_a_time(void **state)
{
    (void)state;
    struct ftk_owner *none = NULL;
    struct ftk_owner_record r;
    bool alive = true;
    char who[256];
    int before = handles();
    const struct ftk_owner_job job = { .job = 1 };
    CHECK_RC(FTKIT_OK, ftk_owner_take(dir, CONTEXT, &job, false, &none)); /* no directory */
    assert_null(none);
    struct ftk_owner *o = take(FTKIT_OK, 0x1234);
    (void)take(FTKIT_ERR_BUSY, 2);
    snprintf(who, sizeof who, "(process %d)", (int)getpid());
    assert_non_null(strstr(ftk_detail_text(), "0000000000001234"));
    assert_non_null(strstr(ftk_detail_text(), who));
    CHECK_RC(FTKIT_OK, ftk_owner_alive(dir, CONTEXT, NULL, &alive, &r));
    assert_true(alive && r.job == 0x1234 && r.pid == getpid());
    CHECK_RC(FTKIT_OK, ftk_owner_check(o, true));
    assert_int_equal(unlink(record_path()), 0);
    CHECK_RC(FTKIT_OK, ftk_owner_check(o, true)); /* makes it again */
    assert_true(exists(record_path()));
    ftk_owner_release(&o);
    assert_null(o);
    ftk_owner_release(&o);
    assert_false(exists(record_path()));
    CHECK_RC(FTKIT_OK, ftk_owner_alive(dir, CONTEXT, NULL, &alive, &r));
    assert_false(alive);
    assert_int_equal(handles(), before);
}

/* Another process of the same job takes over; who held it before notices nothing of his.
 */
static void same_job(void **state)
{
    (void)state;
    struct ftk_owner *first = take(FTKIT_OK, 7), *second = take(FTKIT_OK, 7);
    CHECK_RC(FTKIT_OK, ftk_owner_check(first, true));
    ftk_owner_release(&second);
    ftk_owner_release(&first);
}

static void killed_owner(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        int status;
        pid_t pid = fork();
        if (pid == 0) {
            struct ftk_owner *o = take(FTKIT_OK, 100 + (uint64_t)i);
            raise(o ? SIGKILL : SIGTERM);
        }
        assert_true(waitpid(pid, &status, 0) == pid && WTERMSIG(status) == SIGKILL);
        assert_true(exists(record_path()));
        struct ftk_owner *o = take(FTKIT_OK, 5);
        assert_int_equal(naps, 0); /* nothing to wait for */
        ftk_owner_release(&o);
    }
}

/* A process of that number is there, but it is another one. */
static void number_used_again(void **state)
{
    (void)state;
    char machine[80], start[80];
    struct ftk_owner *o = take(FTKIT_OK, 5);
    char *text = record();
    line_of(text, "machine", machine);
    line_of(text, "start", start);
    free(text);
    ftk_owner_release(&o);
    write_record(machine, getpid(), start, 8);
    (void)take(FTKIT_ERR_BUSY, 5);
    write_record(machine, getpid(), "1", 8);
    o = take(FTKIT_OK, 5);
    ftk_owner_release(&o);
}

static void touch(void)
{
    static long at; /* two touches have different times, also on a file system with coarse ones */
    struct timespec now, t[2] = { { 0, UTIME_OMIT }, { 0, 0 } };
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &now), 0);
    t[1] = (struct timespec){ now.tv_sec, ++at };
    assert_int_equal(utimensat(AT_FDCWD, record_path(), t, 0), 0);
}

/* The owner is on a machine that cannot be asked: it touches its record, or not. */
static void other_machine(void **state)
{
    (void)state;
    CHECK_RC(FTKIT_OK, begin_set(dir, CONTEXT, 1));
    write_record("another-1", 1, "77", 8);
    struct ftk_owner *o = take(FTKIT_OK, 5);
    assert_true(waited_s >= SHORT_S);
    ftk_owner_release(&o);
    write_record("another-1", 1, "77", 8);
    at_nap = touch;
    (void)take(FTKIT_ERR_BUSY, 5);
    at_nap = NULL;
    assert_non_null(strstr(ftk_detail_text(), "elsewhere"));
    o = take(FTKIT_OK, 5);
    /* suspended for long, then going on: another job has it now */
    write_record("another-1", 1, "77", 8);
    CHECK_RC(FTKIT_ERR_BUSY, ftk_owner_check(o, true));
    ftk_owner_release(&o);
    assert_true(exists(record_path())); /* it is not ours */
    /* a very old one needs no watching */
    struct timespec old[2] = { { 1000, 0 }, { 1000, 0 } };
    assert_int_equal(utimensat(AT_FDCWD, record_path(), old, 0), 0);
    o = take(FTKIT_OK, 5);
    assert_int_equal(naps, 0);
    ftk_owner_release(&o);
}

/* Whatever is there instead of a record stands in nobody's way for long. */
static void no_record(void **state)
{
    (void)state;
    static const char *const texts[] = { "", "x", "ftkit.owner = 1\n",
        ("ftkit.owner = 1\njob = 0000000000000001\nname = -\nhost = h\nmachine = m\n"
         "pid = 1\nstart = 1\nchecksum = 0000000000000000\n") };
    char *big = calloc(1, 100000);
    CHECK_RC(FTKIT_OK, begin_set(dir, CONTEXT, 1));
    for (size_t i = 0; i <= COUNT(texts); i++) {
        unlink(record_path());
        if (i < COUNT(texts))
            write_file(record_path(), texts[i], strlen(texts[i]));
        else
            write_file(record_path(), memset(big, 'a', 100000), 100000);
        struct ftk_owner *o = take(FTKIT_OK, 5);
        ftk_owner_release(&o);
    }
    free(big);
    const struct ftk_owner_job five = { .job = 5 };
    /* links, pipes and directories are not followed, waited for or removed */
    struct ftk_owner *o = NULL;
    assert_int_equal(symlink("/etc/passwd", record_path()), 0);
    CHECK_RC(FTKIT_OK, ftk_owner_take(dir, CONTEXT, &five, true, &o));
    assert_null(o);
    assert_int_equal(unlink(record_path()), 0);
    assert_int_equal(mkdir(record_path(), 0777), 0);
    CHECK_RC(FTKIT_OK, ftk_owner_take(dir, CONTEXT, &five, true, &o));
    assert_null(o);
    assert_true(exists(record_path()));
    CHECK_RC(FTKIT_OK, ftk_owner_take("/nonexistent/dir", CONTEXT, &five, true, &o));
    assert_null(o);
}

/* ---- the job holds the record, not a process ---------------------------------------------- */

static int somebody_lives, asked;
static int lives(uint64_t job)
{
    asked += job == 8;
    return somebody_lives;
}

/* The lines that a record of this machine has. */
static void own_machine(char machine[80])
{
    struct ftk_owner *o = take(FTKIT_OK, 5);
    char *text = record();
    line_of(text, "machine", machine);
    free(text);
    ftk_owner_release(&o);
}

/* Rank 0 is lost, and its job lives: nobody gets the sets, and a tool sees the job.  Then the
 * processes that are left decide, and where they may be. */
static void job_outlives_rank_0(void **state)
{
    (void)state;
    char machine[80];
    bool alive;
    struct ftk_owner_record r;
    const char *here = "run = 0000000000000000\nmpi = 0000000000000000\nalone = 1\n";
    const char *spread = "run = 00000000000000aa\nmpi = 0000000000000000\nalone = 0\n";
    struct ftk_owner_job other = { .job = 5, .run = 0xbb, .lives = lives };
    own_machine(machine);
    for (somebody_lives = -1; somebody_lives <= 1; somebody_lives++)
        for (int alone = 0; alone < 2; alone++) {
            asked = 0;
            write_lines(machine, getpid(), "1", 8, alone ? here : spread);
            CHECK_RC(FTKIT_OK, ftk_owner_alive(dir, CONTEXT, lives, &alive, &r));
            assert_int_equal(alive, somebody_lives == 1);
            assert_true(r.job == 8);
            struct ftk_owner *o = take_for(somebody_lives == 1 ? FTKIT_ERR_BUSY : FTKIT_OK, &other);
            ftk_owner_release(&o);
            assert_true(asked > 0);
            /* the record of processes that may be elsewhere is watched */
            assert_int_equal(naps > 0, somebody_lives != 0 || !alone);
        }
    /* a relaunch by the same `ftkit run` need not watch; it waits for processes, not for ever */
    other.run = 0xaa;
    for (somebody_lives = 0; somebody_lives < 2; somebody_lives++) {
        write_lines(machine, getpid(), "1", 8, spread);
        struct ftk_owner *o = take_for(FTKIT_OK, &other);
        assert_int_equal(naps > 0, somebody_lives);
        ftk_owner_release(&o);
    }
}

static _Atomic int looks; /* of other threads at the record */
static bool many_looks(void)
{
    return atomic_load(&looks) >= 10;
}

static struct timespec touched;
static bool is_touched(void)
{
    struct stat st;
    return stat(record_path(), &st) == 0
           && (st.st_mtim.tv_sec != touched.tv_sec || st.st_mtim.tv_nsec != touched.tv_nsec);
}

/* A tenth of a job's patience passes only when its stand-in has touched the record. */
static void await_touch(void)
{
    struct stat st;
    if (naps % 10 != 0)
        return;
    await(is_touched);
    assert_int_equal(stat(record_path(), &st), 0);
    touched = st.st_mtim;
}

static bool is_own(void)
{
    char *text = record(), pid[80];
    line_of(text, "pid", pid);
    free(text);
    return atoi(pid) == (int)getpid();
}

/* Other ranks touch the record while nobody else does, and the new rank 0 writes it again. */
static void standing_in(void **state)
{
    (void)state;
    const struct ftk_owner_job job = { .job = 8, .alone = true }, other = { .job = 9 };
    struct ftk_owner *second = ftk_owner_stand_in(dir, CONTEXT, &job, 1);
    struct ftk_owner *third = ftk_owner_stand_in(dir, CONTEXT, &job, 2);
    struct ftk_owner *idle = ftk_owner_stand_in(dir, CONTEXT, &job, -1);
    assert_true(second && third && idle);
    CHECK_RC(FTKIT_OK, begin_set(dir, CONTEXT, 1));
    atomic_store(&looks, 0);
    await(many_looks);
    assert_false(exists(record_path())); /* they make none */
    write_record("another-1", 1, "77", 8);
    at_nap = await_touch;
    (void)take_for(FTKIT_ERR_BUSY, &other);
    ftk_owner_release(&second); /* the next one is left */
    assert_true(exists(record_path()));
    (void)take_for(FTKIT_ERR_BUSY, &other);
    at_nap = NULL;
    ftk_owner_turn(idle, 0, 1); /* it has become rank 0 */
    await(is_own);
    CHECK_RC(FTKIT_OK, ftk_owner_check(idle, true));
    (void)take_for(FTKIT_ERR_BUSY, &other);
    ftk_owner_release(&third);
    assert_true(exists(record_path()));
    ftk_owner_release(&idle);
    assert_false(exists(record_path()));
}

static void set_pace(void)
{
    ftk_owner_pace(0.1, SHORT_S, 2 * SHORT_S, SHORT_S);
}

static void write_epoch(int epoch)
{
    char more[128];
    snprintf(more, sizeof more,
        "run = 0000000000000000\nmpi = 0000000000000000\nalone = 0\nepoch = %d\n", epoch);
    write_lines("another-1", 1, "77", 8, more);
}

/* Another process has become rank 0 of the same job: this process was given up, and comes back. */
static void given_up(void **state)
{
    (void)state;
    const struct ftk_owner_job job = { .job = 8, .epoch = 2 };
    struct ftk_owner *o = take_for(FTKIT_OK, &job);
    char value[80];
    char *text = record();
    line_of(text, "epoch", value);
    assert_string_equal(value, "2");
    free(text);
    write_epoch(3);
    text = record();
    CHECK_RC(FTKIT_ERR_BUSY, ftk_owner_check(o, true));
    assert_non_null(strstr(ftk_detail_text(), "process 1 on elsewhere"));
    atomic_store(&looks, 0);
    await(many_looks);
    ftk_owner_release(&o);
    char *after = record();
    assert_string_equal(after, text); /* neither replaced nor removed */
    free(text);
    free(after);
}

/* The new rank 0 writes its record at once in the background, and at the latest before it makes a
 * set; not only with the next beat. */
static void take_over(bool behind)
{
    const struct ftk_owner_job job = { .job = 8, .epoch = 2 };
    CHECK_RC(FTKIT_OK, begin_set(dir, CONTEXT, 1));
    for (int turns = 0; turns < 2; turns++) { /* in the epoch 2; in an epoch after its start */
        ftk_owner_pace(3 * LONG_S, SHORT_S, 2 * SHORT_S, LONG_S); /* no beat */
        write_epoch(turns ? 4 : 1);
        struct ftk_owner *o = ftk_owner_stand_in(dir, CONTEXT, &job, turns);
        assert_non_null(o);
        if (turns)
            ftk_owner_turn(o, 0, 5);
        if (behind)
            await(is_own);
        else
            CHECK_RC(FTKIT_OK, ftk_owner_check(o, true));
        char value[80];
        char *text = record();
        line_of(text, "epoch", value);
        assert_string_equal(value, turns ? "5" : "2");
        line_of(text, "pid", value);
        assert_int_equal(atol(value), getpid());
        free(text);
        ftk_owner_release(&o);
        assert_false(exists(record_path()));
    }
    set_pace();
}

static void taken_over(void **state)
{
    (void)state;
    take_over(false);
    take_over(true);
}

/* A rank that replaces rank 0 while the job opens finds the record of an earlier job. */
static void never_held(void **state)
{
    (void)state;
    const struct ftk_owner_job job = { .job = 8, .alone = true };
    struct ftk_owner *o = ftk_owner_stand_in(dir, CONTEXT, &job, 0);
    assert_non_null(o);
    CHECK_RC(FTKIT_OK, begin_set(dir, CONTEXT, 1));
    struct ftk_owner *living = take(FTKIT_OK, 7);
    CHECK_RC(FTKIT_ERR_BUSY, ftk_owner_check(o, true));
    ftk_owner_release(&living);
    write_record("another-1", 1, "77", 7);
    CHECK_RC(FTKIT_OK, ftk_owner_check(o, true));
    ftk_owner_release(&o);
    assert_false(exists(record_path()));
}

/* Two contexts of one MPI job: refused at once, and both are named. */
static void twins(void **state)
{
    (void)state;
    const struct ftk_owner_job a = { .job = 8, .mpi = 3 }, b = { .job = 9, .mpi = 3 };
    char who[64];
    struct ftk_owner *o = take_for(FTKIT_OK, &a);
    (void)take_for(FTKIT_ERR_BUSY, &b);
    assert_int_equal(naps, 0);
    snprintf(who, sizeof who, "one with rank 0 in process %d", (int)getpid());
    assert_non_null(strstr(ftk_detail_text(), "two contexts of this program"));
    const char *first = strstr(ftk_detail_text(), who);
    assert_true(first && strstr(first + 1, who));
    ftk_owner_release(&o);
}

/* Wait until n processes have come here. */
static void meet(_Atomic int *here, int n)
{
    atomic_fetch_add(here, 1);
    while (atomic_load(here) < n)
        usleep(1000);
}

/* Many start at once over the record of a dead job: one of them gets it. */
static void race(void **state)
{
    (void)state;
    enum { N = 8 };
    _Atomic int *decided =
        mmap(NULL, sizeof *decided, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(decided != MAP_FAILED);
    for (int round = 0; round < 10; round++) {
        pid_t pid[N];
        int owners = 0;
        CHECK_RC(FTKIT_OK, begin_set(dir, CONTEXT, 1));
        char machine[80];
        struct ftk_owner *o = take(FTKIT_OK, 5);
        char *text = record();
        line_of(text, "machine", machine);
        free(text);
        ftk_owner_release(&o);
        write_record(machine, getpid(), "1", 99);
        for (int i = 0; i < N; i++) {
            if ((pid[i] = fork()) != 0)
                continue;
            const struct ftk_owner_job job = { .job = 200 + (uint64_t)i, .alone = true };
            int rc = ftk_owner_take(dir, CONTEXT, &job, true, &o);
            meet(decided, (round + 1) * N); /* the owner lives until all have decided */
            bool mine = rc == FTKIT_OK && o && ftk_owner_check(o, true) == FTKIT_OK;
            ftk_owner_release(&o);
            _exit(mine);
        }
        for (int i = 0; i < N; i++) {
            int status = 0;
            assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
            assert_true(WIFEXITED(status));
            owners += WEXITSTATUS(status);
        }
        assert_int_equal(owners, 1);
    }
    assert_int_equal(munmap((void *)decided, sizeof *decided), 0);
}

/* A file system that does not answer: this file's openat() is called in place of that of libc. */
static _Atomic bool hangs;
static _Atomic int waits; /* calls that wait for it */

int openat(int at, const char *path, int flags, ...)
{
    mode_t mode = 0;
    va_list list;
    va_start(list, flags);
    if (flags & O_CREAT)
        mode = va_arg(list, mode_t);
    va_end(list);
    looks += !has_clock;
    waits++;
    while (hangs)
        pause_s(0.001);
    waits--;
    return (int)syscall(SYS_openat, at, path, flags, mode);
}

/* The end of a context does not wait for it for ever; the record goes when it answers. */
static void no_answer(void **state)
{
    (void)state;
    struct ftk_owner *o = take(FTKIT_OK, 1);
    hangs = true;
    while (waits == 0)
        pause_s(0.001);
    double begin = ftk_now_s();
    ftk_owner_release(&o);
    assert_null(o);
    assert_true(ftk_now_s() - begin >= SHORT_S && ftk_now_s() - begin < 20);
    assert_true(exists(record_path()));
    hangs = false;
    while (exists(record_path()))
        pause_s(0.001);
}

/* ---- a record is whole when it has its name ------------------------------------------------ */

/* The first record that another thread writes is held before its first byte. */
static _Atomic bool holds, held, no_links;

ssize_t write(int fd, const void *buf, size_t bytes)
{
    char proc[40], path[FTK_PATH_MAX] = "";
    snprintf(proc, sizeof proc, "/proc/self/fd/%d", fd);
    if (!has_clock && holds && readlink(proc, path, sizeof path - 1) > 0
        && strstr(path, ".ftkit/owner") && atomic_exchange(&holds, false)) {
        held = true;
        while (held)
            pause_s(0.001);
    }
    return syscall(SYS_write, fd, buf, bytes);
}

int linkat(int from, const char *old, int to, const char *new, int flags)
{
    if (no_links) {
        errno = EPERM;
        return -1;
    }
    return (int)syscall(SYS_linkat, from, old, to, new, flags);
}

static bool is_held(void)
{
    return held;
}

/* The number of files of records. */
static int files(void)
{
    char path[FTK_PATH_MAX];
    int n = 0;
    snprintf(path, sizeof path, "%s/%s.ftkit", dir, CONTEXT);
    DIR *d = opendir(path);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d));)
        n += strncmp(e->d_name, "owner", 5) == 0;
    closedir(d);
    return n;
}

/* The process that replaces rank 0 is in the middle of its record: a writer of its sets finds the
 * record of its own job, and another job never finds none. */
static void held_replacement(void **state)
{
    (void)state;
    const struct ftk_owner_job job = { .job = 8, .alone = true }, other = { .job = 9 };
    CHECK_RC(FTKIT_OK, begin_set(dir, CONTEXT, 1));
    write_record("another-1", 1, "77", 8);
    holds = true;
    struct ftk_owner *o = ftk_owner_stand_in(dir, CONTEXT, &job, 0);
    await(is_held);
    assert_true(exists(record_path()));
    CHECK_RC(FTKIT_OK, ftk_owner_check(o, true));
    at_nap = touch; /* by a rank that stands in */
    (void)take_for(FTKIT_ERR_BUSY, &other);
    at_nap = NULL;
    struct ftk_owner *more = ftk_owner_stand_in(dir, CONTEXT, &job, 0);
    await(is_own); /* two writers at once */
    (void)take_for(FTKIT_ERR_BUSY, &other);
    held = false;
    CHECK_RC(FTKIT_OK, ftk_owner_check(o, true));
    ftk_owner_release(&more);
    ftk_owner_release(&o);
    assert_int_equal(files(), 0);
}

static void *take_eight(void *arg)
{
    const struct ftk_owner_job job = { .job = 8, .alone = true };
    (void)ftk_owner_take(dir, CONTEXT, &job, true, arg);
    return NULL;
}

/* The first record of a job has no name either before it is whole; another process of the job that
 * takes the record over leaves no moment without one. */
static void held_first(void **state)
{
    (void)state;
    const struct ftk_owner_job other = { .job = 9 };
    struct ftk_owner *o = NULL, *next = NULL;
    char left[FTK_PATH_MAX + 64];
    pthread_t thread;
    CHECK_RC(FTKIT_OK, begin_set(dir, CONTEXT, 1));
    holds = true;
    assert_int_equal(pthread_create(&thread, NULL, take_eight, &o), 0);
    await(is_held);
    assert_false(exists(record_path()));
    held = false;
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(o && is_own());
    (void)take_for(FTKIT_ERR_BUSY, &other);
    assert_int_equal(files(), 1);
    holds = true;
    assert_int_equal(pthread_create(&thread, NULL, take_eight, &next), 0);
    await(is_held);
    assert_true(exists(record_path()));
    held = false;
    assert_int_equal(pthread_join(thread, NULL), 0);
    ftk_owner_release(&next); /* it removes the record, which the next line makes again */
    /* a writer that was killed in the middle */
    snprintf(left, sizeof left, "%s.%016d.%016d.new", record_path(), 8, 1);
    write_file(left, "ftk", 3);
    CHECK_RC(FTKIT_OK, ftk_owner_check(o, true));
    ftk_owner_release(&o);
    assert_int_equal(files(), 0);
}

/* A file system without links. */
static void without_links(void **state)
{
    (void)state;
    const struct ftk_owner_job other = { .job = 9 };
    no_links = true;
    struct ftk_owner *o = take(FTKIT_OK, 8);
    assert_true(is_own());
    (void)take_for(FTKIT_ERR_BUSY, &other);
    assert_int_equal(files(), 1);
    ftk_owner_release(&o);
    assert_int_equal(files(), 0);
    no_links = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_at_a_time),
        TEST(same_job),
        TEST(killed_owner),
        TEST(number_used_again),
        TEST(other_machine),
        TEST(no_record),
        TEST(job_outlives_rank_0),
        TEST(standing_in),
        TEST(given_up),
        TEST(taken_over),
        TEST(never_held),
        TEST(twins),
        TEST(race),
        TEST(no_answer),
        TEST(held_replacement),
        TEST(held_first),
        TEST(without_links),
    };
    has_clock = true;
    set_pace();
    return cmocka_run_group_tests(tests, make_work, remove_work);
}
