/* The record of the job that uses the sets of a context: who gets it, who does not.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/wait.h>

#include "t_h5.h"
#include "store/owner.h"

#define SHORT_S 0.6 /* of silence */

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

static void write_record(const char *machine, long pid, const char *start, uint64_t job)
{
    char text[1024];
    int n = snprintf(text, sizeof text,
        "ftkit.owner = 1\njob = %016" PRIx64
        "\nname = -\nhost = elsewhere\nmachine = %s\npid = %ld\nstart = %s\n",
        job, machine, pid, start);
    n += snprintf(text + n, sizeof text - (size_t)n, "checksum = %016" PRIx64 "\n",
        (uint64_t)XXH3_64bits(text, (size_t)n));
    unlink(record_path());
    write_file(record_path(), text, (size_t)n);
}

static struct ftk_owner *take(int want, uint64_t job)
{
    struct ftk_owner *o = NULL;
    CHECK_RC(want, ftk_owner_take(dir, CONTEXT, job, true, &o));
    assert_true((want == FTKIT_OK) == (o != NULL));
    return o;
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
    CHECK_RC(FTKIT_OK, ftk_owner_take(dir, CONTEXT, 1, false, &none)); /* no directory */
    assert_null(none);
    struct ftk_owner *o = take(FTKIT_OK, 0x1234);
    (void)take(FTKIT_ERR_BUSY, 2);
    snprintf(who, sizeof who, "(process %d)", (int)getpid());
    assert_non_null(strstr(ftk_detail_text(), "0000000000001234"));
    assert_non_null(strstr(ftk_detail_text(), who));
    CHECK_RC(FTKIT_OK, ftk_owner_alive(dir, CONTEXT, &alive, &r));
    assert_true(alive && r.job == 0x1234 && r.pid == getpid());
    CHECK_RC(FTKIT_OK, ftk_owner_check(o));
    assert_int_equal(unlink(record_path()), 0);
    CHECK_RC(FTKIT_OK, ftk_owner_check(o)); /* makes it again */
    assert_true(exists(record_path()));
    ftk_owner_release(&o);
    assert_null(o);
    ftk_owner_release(&o);
    assert_false(exists(record_path()));
    CHECK_RC(FTKIT_OK, ftk_owner_alive(dir, CONTEXT, &alive, &r));
    assert_false(alive);
    assert_int_equal(handles(), before);
}

/* Another process of the same job takes over; who held it before notices nothing of his.
 */
static void same_job(void **state)
{
    (void)state;
    struct ftk_owner *first = take(FTKIT_OK, 7), *second = take(FTKIT_OK, 7);
    CHECK_RC(FTKIT_OK, ftk_owner_check(first));
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
        double begin = ftk_now_s();
        struct ftk_owner *o = take(FTKIT_OK, 5);
        assert_true(ftk_now_s() - begin < SHORT_S / 2); /* nothing to wait for */
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

/* The owner is on a machine that cannot be asked: it touches its record, or not. */
static void other_machine(void **state)
{
    (void)state;
    CHECK_RC(FTKIT_OK, ftk_h5_begin(dir, CONTEXT, 1));
    write_record("another-1", 1, "77", 8);
    double begin = ftk_now_s();
    struct ftk_owner *o = take(FTKIT_OK, 5);
    assert_true(ftk_now_s() - begin > SHORT_S / 2);
    ftk_owner_release(&o);
    write_record("another-1", 1, "77", 8);
    pid_t pid = fork();
    if (pid == 0) {
        for (;;) {
            utimensat(AT_FDCWD, record_path(), NULL, 0);
            usleep(50000);
        }
    }
    (void)take(FTKIT_ERR_BUSY, 5);
    assert_non_null(strstr(ftk_detail_text(), "elsewhere"));
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    o = take(FTKIT_OK, 5);
    /* suspended for long, then going on: another job has it now */
    write_record("another-1", 1, "77", 8);
    CHECK_RC(FTKIT_ERR_BUSY, ftk_owner_check(o));
    ftk_owner_release(&o);
    assert_true(exists(record_path())); /* it is not ours */
    /* a very old one needs no watching */
    struct timespec old[2] = { { 1000, 0 }, { 1000, 0 } };
    assert_int_equal(utimensat(AT_FDCWD, record_path(), old, 0), 0);
    begin = ftk_now_s();
    o = take(FTKIT_OK, 5);
    assert_true(ftk_now_s() - begin < SHORT_S / 2);
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
    CHECK_RC(FTKIT_OK, ftk_h5_begin(dir, CONTEXT, 1));
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
    /* links, pipes and directories are not followed, waited for or removed */
    struct ftk_owner *o = NULL;
    assert_int_equal(symlink("/etc/passwd", record_path()), 0);
    CHECK_RC(FTKIT_OK, ftk_owner_take(dir, CONTEXT, 5, true, &o));
    assert_null(o);
    assert_int_equal(unlink(record_path()), 0);
    assert_int_equal(mkdir(record_path(), 0777), 0);
    CHECK_RC(FTKIT_OK, ftk_owner_take(dir, CONTEXT, 5, true, &o));
    assert_null(o);
    assert_true(exists(record_path()));
    CHECK_RC(FTKIT_OK, ftk_owner_take("/nonexistent/dir", CONTEXT, 5, true, &o));
    assert_null(o);
}

/* Many start at once over the record of a dead job: one of them gets it. */
static void race(void **state)
{
    (void)state;
    enum { N = 8 };
    for (int round = 0; round < 10; round++) {
        pid_t pid[N];
        int owners = 0;
        CHECK_RC(FTKIT_OK, ftk_h5_begin(dir, CONTEXT, 1));
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
            int rc = ftk_owner_take(dir, CONTEXT, 200 + (uint64_t)i, true, &o);
            usleep(700000);
            bool mine = rc == FTKIT_OK && o && ftk_owner_check(o) == FTKIT_OK;
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
        TEST(race),
    };
    ftk_owner_pace(0.1, SHORT_S, 2 * SHORT_S);
    return cmocka_run_group_tests(tests, make_work, remove_work);
}
