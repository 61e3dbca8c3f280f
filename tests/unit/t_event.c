/* The event log: lines that any reader of JSON accepts, whole after SIGKILL.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/access.h"
#include "core/event.h"

static char dir[128], path[512];

static int begin(void **state)
{
    char host[256];
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/t_event.XXXXXX");
    assert_non_null(mkdtemp(dir));
    assert_int_equal(gethostname(host, sizeof host), 0);
    snprintf(path, sizeof path, "%s/%s.jsonl", dir, host);
    return ftk_event_open(dir, "main", FTK_ACCESS_OWNER);
}

static int end(void **state)
{
    (void)state;
    ftk_event_open("", "main", FTK_ACCESS_OWNER);
    unlink(path);
    return rmdir(dir);
}

/* The whole file, for free(). */
static char *all(void)
{
    struct stat st;
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_int_equal(fstat(fileno(f), &st), 0);
    char *text = malloc((size_t)st.st_size + 1);
    assert_non_null(text);
    size_t n = fread(text, 1, (size_t)st.st_size, f);
    text[n] = '\0';
    fclose(f);
    return text;
}

/* Without the time and the pid, which differ. */
static const char *last_line(void)
{
    static char line[1 << 18];
    char *text = all();
    assert_non_null(strrchr(text, '\n'));
    const char *last = strrchr(text, '\n') + 1;
    assert_memory_equal(last, "{\"t\":", 5);
    const char *at = strstr(last, ",\"rank\"");
    assert_non_null(at);
    snprintf(line, sizeof line, "%s", at);
    free(text);
    return line;
}

static void members(void **state)
{
    struct ftk_event e;
    (void)state;
    ftk_event_begin(&e, "main", 3, "set");
    ftk_event_int(&e, "a", INT64_MIN);
    ftk_event_int(&e, "b", INT64_MAX);
    ftk_event_seconds(&e, "c", 1.0000005);
    ftk_event_seconds(&e, "d", -1);
    ftk_event_seconds(&e, "e", 0.0 / (double)(e.n == 0));
    ftk_event_list(&e, "f");
    for (int i = 0; i < 2; i++) {
        ftk_event_list(&e, NULL);
        ftk_event_item(&e, i);
        ftk_event_item(&e, -i);
        ftk_event_list_end(&e);
    }
    ftk_event_list_end(&e);
    ftk_event_list(&e, "g");
    ftk_event_list_end(&e);
    ftk_event_end(&e);
    assert_string_equal(last_line(),
        ",\"rank\":3,\"context\":\"main\",\"event\":\"set\",\"a\":-9223372036854775808,"
        "\"b\":9223372036854775807,\"c\":1.000001,\"d\":0.000000,\"e\":0.000000,"
        "\"f\":[[0,0],[1,-1]],\"g\":[]}");
}

/* Names and texts come from programs and from file systems. */
static void texts(void **state)
{
    struct ftk_event e;
    (void)state;
    ftk_event_begin(&e, "main", 0, "text");
    ftk_event_text(&e, "q", "a\"b\\c");
    ftk_event_text(&e, "control",
        "a\nb\x01"
        "c\x7f"
        "d\t");
    ftk_event_text(&e, "good", "\xc3\xa4");
    ftk_event_text(&e, "bad", "\xc3(\xff\xe2\x82");
    ftk_event_text(&e, "empty", "");
    ftk_event_end(&e);
    assert_non_null(strstr(last_line(),
        ",\"q\":\"a\\\"b\\\\c\",\"control\":\"a b c?d \",\"good\":\"\xc3\xa4\",\"bad\":\"?(???\","
        "\"empty\":\"\"}"));
}

/* Lines without a context are of the first one, and of its rank. */
static void contexts(void **state)
{
    struct ftk_event e;
    (void)state;
    ftk_event_begin(&e, "main", 5, "x");
    ftk_event_end(&e);
    ftk_event_begin(&e, "other", 1, "x");
    ftk_event_end(&e);
    assert_non_null(strstr(last_line(), ",\"rank\":1,\"context\":\"other\""));
    ftk_event_begin(&e, NULL, -1, "x");
    ftk_event_end(&e);
    assert_non_null(strstr(last_line(), ",\"rank\":5,\"context\":\"main\""));
}

static void long_line(void **state)
{
    struct ftk_event e;
    (void)state;
    ftk_event_begin(&e, "main", 0, "long");
    ftk_event_list(&e, "v");
    for (int i = 0; i < 20000; i++)
        ftk_event_item(&e, i);
    ftk_event_list_end(&e);
    ftk_event_end(&e);
    const char *line = last_line();
    assert_true(strlen(line) > 100000);
    assert_string_equal(line + strlen(line) - 8, ",19999]}");
}

static void off(void **state)
{
    struct ftk_event e;
    struct stat st;
    (void)state;
    ftk_event_begin(&e, "main", 0, "x");
    ftk_event_end(&e);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(ftk_event_open("", "main", FTK_ACCESS_OWNER), 0);
    assert_false(ftk_event_on());
    memset(&e, 0xff, sizeof e); /* a structure on the stack is not zero */
    ftk_event_begin(&e, "main", 0, "x");
    ftk_event_text(&e, "a", "b");
    ftk_event_list(&e, "c");
    ftk_event_list_end(&e);
    ftk_event_end(&e);
    off_t was = st.st_size;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, was);
}

static void no_directory(void **state)
{
    (void)state;
    assert_int_equal(ftk_event_open("/proc/no/such", "main", FTK_ACCESS_OWNER), ENOENT);
    assert_false(ftk_event_on());
}

/* A file that cannot grow: the log ends, and the error is kept. */
static void full(void **state)
{
    struct ftk_event e;
    struct rlimit was, small = { 0 };
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    small.rlim_max = was.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    ftk_event_begin(&e, "main", 0, "x");
    ftk_event_end(&e);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    assert_false(ftk_event_on());
    assert_int_equal(ftk_event_trouble(), EFBIG);
    assert_int_equal(ftk_event_trouble(), 0);
}

static void write_for_ever(int number)
{
    char text[200];
    struct ftk_event e;
    memset(text, 'a' + number, sizeof text - 1);
    text[sizeof text - 1] = '\0';
    for (;;) {
        ftk_event_begin(&e, "main", number, "many");
        ftk_event_text(&e, "text", text);
        ftk_event_end(&e);
    }
}

/* Four processes write to one file, and are killed: all lines are whole, but for the one that each
 * was writing. */
static void killed(void **state)
{
    enum { WRITERS = 4 };
    pid_t pid[WRITERS];
    struct stat st = { 0 };
    (void)state;
    for (int i = 0; i < WRITERS; i++) {
        pid[i] = fork();
        assert_true(pid[i] >= 0);
        if (pid[i] == 0)
            write_for_ever(i);
    }
    while (st.st_size < 500000)
        assert_int_equal(stat(path, &st), 0);
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(kill(pid[i], SIGKILL), 0);
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(waitpid(pid[i], NULL, 0), pid[i]);
    int lines = 0, parts = 0;
    char *log = all();
    for (char *line = strtok(log, "\n"); line; line = strtok(NULL, "\n"), lines++) {
        const char *text = strstr(line, "\"text\":\"");
        size_t n = text ? strspn(text + 8, (char[]){ text[8], '\0' }) : 0;
        assert_memory_equal(line, "{\"t\":", strlen(line) < 5 ? strlen(line) : 5);
        if (!text || text[8 + n] == '\0')
            parts++; /* of the line that a process was writing */
        else
            assert_true(n == 199 && strcmp(text + 8 + n, "\"}") == 0);
    }
    free(log);
    assert_true(parts <= WRITERS);
    assert_true(lines > 1000);
}

/* A file system that does not answer, here a pipe that is full, holds one thread: the others wait
 * for a while, and go on without the log. */
static void *fills(void *arg)
{
    (void)arg;
    while (ftk_event_on()) {
        struct ftk_event e;
        ftk_event_begin(&e, "main", 1, "x");
        ftk_event_end(&e);
    }
    return NULL;
}

static void no_answer(void **state)
{
    char drained[4096];
    pthread_t threads[2];
    int trouble = 0;
    (void)state;
    ftk_event_open("", "main", FTK_ACCESS_OWNER);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    const int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(reader >= 0);
    assert_int_equal(ftk_event_open(dir, "main", FTK_ACCESS_OWNER), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, fills, NULL), 0);
    while ((trouble = ftk_event_trouble()) == 0) /* one of them; the other is in write() */
        (void)usleep(1000);
    assert_int_equal(trouble, ETIMEDOUT);
    assert_false(ftk_event_on());
    while (read(reader, drained, sizeof drained) > 0)
        ;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(close(reader), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(members, begin, end),
        cmocka_unit_test_setup_teardown(texts, begin, end),
        cmocka_unit_test_setup_teardown(contexts, begin, end),
        cmocka_unit_test_setup_teardown(long_line, begin, end),
        cmocka_unit_test_setup_teardown(off, begin, end),
        cmocka_unit_test_setup_teardown(no_directory, begin, end),
        cmocka_unit_test_setup_teardown(full, begin, end),
        cmocka_unit_test_setup_teardown(killed, begin, end),
        cmocka_unit_test_setup_teardown(no_answer, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
