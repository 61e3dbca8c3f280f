/* What the lines of one attempt come to (tools/state.c), in whatever order they come.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* after those, on which it builds */
#include <cmocka.h>

#undef _GNU_SOURCE /* which it defines itself */
#include "../../tools/end.c"
#include "../../tools/losses.c"
#include "../../tools/state.c"

/* of the program, not of the library */
void *ftk_tool_alloc(size_t bytes)
{
    void *p = calloc(1, bytes);
    assert_non_null(p);
    return p;
}

void *ftk_tool_grow(void *v, size_t n, size_t *room, size_t item)
{
    if (n < *room)
        return v;
    *room = n + 1;
    v = realloc(v, *room * item);
    assert_non_null(v);
    return v;
}

void ftk_run_say(const char *fmt, ...)
{
    fail_msg("%s", fmt);
}

#define DAEMON "[node:7] [prterun-node-7@0,0] errmgr:dvm: for proc [prterun-node-7@"
#define DIED(process) DAEMON process "] state ABORTED BY SIGNAL\n"
#define CALLED(process) DAEMON process "] state CALLED ABORT\n"
#define CODE(process, code)                                                                        \
    "[node:7] [prterun-node-7@0,0] errmgr:dvm: proc [prterun-node-7@" process                      \
    "] called abort with exit code " #code "\n" DAEMON process                                     \
    "] state EXITED WITH NON-ZERO STATUS\n"

/* How many lines of the text are read at once does not matter.  code: with which a call of
 * MPI_Abort ends the job, 0: there is no such call. */
static void aborts(const char *text, const char *first, int code)
{
    char path[] = "/tmp/ftkit-state-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    for (size_t step = 1; step <= strlen(text); step += step < 8 ? 1 : strlen(text)) {
        assert_int_equal(unlink(path), 0);
        struct ftk_state *s = ftk_state_begin(path, false);
        assert_non_null(s);
        FILE *f = fopen(path, "a");
        assert_non_null(f);
        for (size_t at = 0; at < strlen(text); at += step) {
            size_t left = strlen(text) - at, n = left < step ? left : step;
            assert_int_equal(fwrite(text + at, 1, n, f), n);
            assert_int_equal(fflush(f), 0);
            ftk_state_read(s);
        }
        char found[40] = "none";
        const struct ftk_end *e = ftk_state_first(s);
        if (e)
            snprintf(found, sizeof found, "%ld,%ld", e->job, e->rank);
        assert_string_equal(found, first);
        assert_int_equal(ftk_state_aborted(s), code > 0);
        assert_int_equal(code > 0 ? ftk_end_code(e) : 0, code);
        assert_true(code == 0 || ftk_end_code(ftk_state_cause(s)) == code);
        assert_int_equal(fclose(f), 0);
        ftk_state_end(s);
    }
    assert_int_equal(unlink(path), 0);
}

static void comes_to(const char *text, const char *first)
{
    aborts(text, first, 0);
}

static void before_and_after(void **state)
{
    (void)state;
    comes_to("open a\nclosed a\n", "none");
    comes_to(DIED("1,3"), "1,3");
    comes_to("open a\nclosed a\n" DIED("1,3"), "1,3");
    comes_to("open a\nclosed a\n" DIED("1,3") DIED("1,4"), "1,3");
    comes_to("open a\n" DIED("1,3") "closed a\n", "1,3"); /* in ftkit_close */
    comes_to("open a\n" DIED("1,3") "idle 1 3\nclosed a\n", "none");
    comes_to("open a\n" DIED("1,3") DIED("1,2") "lost 1 3\nclosed a\n", "1,2");
    comes_to("open a\nopen b\nclosed a\n" DIED("1,3") "closed b\n", "1,3");
}

/* The word of a daemon on another node comes when it comes. */
static void late_word(void **state)
{
    (void)state;
    comes_to("open a\n" DIED("1,3") "lost 1 3\nrepaired 1 a\nclosed a\n", "none");
    comes_to("open a\nlost 1 3\n" DIED("1,3") "repaired 1 a\nclosed a\n", "none");
    comes_to("open a\nlost 1 3\nrepaired 1 a\n" DIED("1,3") "closed a\n", "none");
    comes_to("open a\nlost 1 3\nrepaired 1 a\nclosed a\n" DIED("1,3"), "none");
    comes_to("open a\nlost 1 3\nrepaired 1 a\nclosed a\n" DIED("1,3") DIED("1,2"), "1,2");
    comes_to("open a\nlost 1 3\nrepaired 1 a\nclosed a\n" DIED("1,2") DIED("1,3"), "1,2");
    comes_to(
        "open a\nlost 1 3\nlost 1 2\nrepaired 2 a\nclosed a\n" DIED("1,2") DIED("1,3"), "none");
    comes_to("open a\nlost 1 3\njoined 2 3\nrepaired 1 a\nclosed a\n" DIED("2,3"), "2,3");
    comes_to("open a\nlost 1 3\nrepaired 1 a\nclosed a\n" DIED("2,3"), "none"); /* given up */
    comes_to("open a\nlost 2 0\nrepaired 1 a\nclosed a\n" DIED("2,0"), "none");
    comes_to("open a\nclosed a\n" DIED("1,3") "lost 1 3\n", "none"); /* told last */
}

/* The lines in every order: heap's algorithm. */
static void permuted(
    const char *lines[], int n, int left, const char *first, int code, const char *end)
{
    char text[2048] = "open a\n";
    for (int i = 0; left == 1 && i < n; i++)
        strcat(text, lines[i]);
    if (left == 1) {
        strcat(text, end);
        aborts(text, first, code);
        return;
    }
    for (int i = 0; i < left; i++) {
        permuted(lines, n, left - 1, first, code, end);
        const int k = left % 2 ? 0 : i;
        const char *line = lines[k];
        lines[k] = lines[left - 1];
        lines[left - 1] = line;
    }
}

/* MPI_Abort, and the other ranks have repaired the job before anybody has ended it. */
static void abort_is_repaired(void **state)
{
    static const char *const ends[] = { "", "closed a\n", DIED("1,2"), "open b\nclosed b\n",
        "lost 1 2 2 1 a\n" DIED("1,2") "repaired 1 a\n" };
    const char *one[] = { "lost 1 0 1 1 a\n", "repaired 1 a\n", CALLED("1,0") CODE("1,0", 7) };
    const char *two[] = { "lost 1 0 1 2 a\n", "lost 2 1 1 2 a\n", CALLED("1,0") CODE("1,0", 7),
        "repaired 2 a\n" };
    (void)state;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        permuted(one, 3, 3, "1,0", 7, ends[i]);
    aborts("open a\nlost 1 0 1 1 a\nrepaired 1 a\nclosed a\n" CALLED("1,0"), "1,0", 1);
    /* two of two, also of several worlds: the first that is reported */
    aborts("open a\njoined 2 1\nlost 1 0 1 2 a\n" CALLED("1,0") CODE("1,0", 7)
               CALLED("2,1") "repaired 2 a\nlost 2 1 1 2 a\nclosed a\n",
        "1,0", 7);
    aborts("open a\njoined 2 1\nlost 2 1 1 2 a\nlost 1 0 1 2 a\n" CALLED("2,1") CODE("2,1", 7)
               CALLED("1,0") "repaired 2 a\nclosed a\n",
        "2,1", 7);
    /* beside the repair of another rank, which has no part in the next one */
    aborts("open a\nlost 1 2 1 1 a\n" DIED("1,2") CALLED("1,0")
               CODE("1,0", 7) "repaired 1 a\nlost 1 0 2 1 a\nrepaired 1 a\nclosed a\n",
        "1,0", 7);
    /* beside a repair of the same number of another context */
    aborts("open a\nopen b\nlost 1 5 1 1 b\n" DIED("1,5") CALLED("1,0")
               CODE("1,0", 7) "lost 1 0 1 1 a\nrepaired 1 b\nrepaired 1 a\n",
        "1,0", 7);
    /* the library is sure, and a rank on another node has repaired the loss of the caller */
    aborts("open a\nabort 1 9\nlost 1 1 1 1 a\nrepaired 1 a\n", "1,1", 9);
    /* ... with the other processes of its node, which the library has ended */
    aborts("open a\nabort 1 9\nlost 1 1 1 2 a\nlost 1 0 1 2 a\nrepaired 2 a\n", "1,1", 9);
    /* a node is lost after the call of a process there */
    aborts("open a\nabort 1 9\nlost 1 4 1 1 a\nrepaired 1 a\n", "1,1", 9);
    /* one of two is not known to have called it: it may have failed */
    permuted(two, 4, 4, "none", 0, "repaired 2 a\nclosed a\n");
}

/* ... because of a failure: the process counts as lost, too. */
static void abort_is_explained(void **state)
{
    const char *lines[] = { "lost 1 0 1 2 a\n", "lost 1 2 1 2 a\n", CALLED("1,0") CODE("1,0", 7),
        DIED("1,2") };
    (void)state;
    permuted(lines, 4, 4, "none", 0, "repaired 2 a\nclosed a\n");
    lines[3] = "repaired 2 a\n";
    permuted(lines, 4, 4, "none", 0, DIED("1,2") "closed a\n"); /* of another node, late */
    /* the repair of another context, or another one, has lost that process alone */
    aborts("open a\nopen b\n" CALLED("1,0") "lost 1 0 1 2 a\nlost 1 5 1 1 b\nrepaired 1 b\n",
        "none", 0);
    aborts("open a\n" CALLED("1,0") "lost 1 0 1 2 a\nlost 1 2 2 1 a\nrepaired 2 a\n", "none", 0);
    /* a library that does not number its repairs */
    aborts("open a\n" CALLED("1,0") "lost 1 0\nrepaired 1 a\nclosed a\n", "none", 0);
}

/* A program calls MPI_Abort when ftkit has ended a context with an error: a relaunch may help. */
static void abort_is_answer(void **state)
{
    const char *lines[] = { "ended 1 1\nended 1 0\nfatal x\n", CALLED("1,1") CODE("1,1", 5),
        CALLED("1,0") CODE("1,0", 5) };
    (void)state;
    /* the line may come late: its writer is another process */
    aborts("open a\nended 1 1\nended 1 0\nfatal x\n" CALLED("1,1") CODE("1,1", 5), "1,1", 0);
    aborts("open a\n" CALLED("1,1") CODE("1,1", 5) "ended 1 1\nended 1 0\nfatal x\n", "1,1", 0);
    aborts("open a\nended 1 1\nfatal x\nclosed a\n" CALLED("1,1") CODE("1,1", 5), "1,1", 0);
    permuted(lines, 2, 2, "1,1", 0, lines[2]);
    /* the error follows from the call, or the process knows of none */
    aborts("open a\n" CALLED("1,1") CODE("1,1", 5) "ended 1 0\nfatal x\n", "1,1", 5);
    aborts("open a\nended 1 0\nfatal x\n" CALLED("1,1") CODE("1,1", 5), "1,1", 5);
    aborts("open a\nfatal an MPI call failed\n" CALLED("1,1") CODE("1,1", 5), "1,1", 5);
    aborts("open a\nabort 1 9\nended 1 0\nfatal x\n" DIED("1,1"), "1,1", 9);
    /* a relaunch would meet a mistake again */
    aborts("open a\nmistake x\n" CALLED("1,1") CODE("1,1", 5), "1,1", 5);
}

/* A spare of a closed context, and a context whose opening nobody has told. */
static void others(void **state)
{
    (void)state;
    comes_to("open a\nidle 1 5\nclosed a\n" DIED("1,5"), "none");
    comes_to("open a\nidle 1 5\nclosed a\n" DIED("1,4"), "1,4");
    comes_to("lost 1 0\nrepaired 1 a\nclosed a\n" DIED("1,0"), "none");
    comes_to("repaired 1 a b\n" DIED("1,2") "closed a b\n", "1,2");
    comes_to("open a\nrepaired 1 a\nclosed a\n" DIED("1,2"), "1,2");
}

/* Who dies of a mistake that ends the job is not the cause. */
static void mistakes(void **state)
{
    (void)state;
    struct ftk_state *s = ftk_tool_alloc(sizeof *s);
    char open[] = "open a", mistake[] = "mistake rank 1: x", late[] = "repaired 1 a";
    library_line(s, open);
    assert_true(ftk_state_is_open(s));
    library_line(s, mistake);
    assert_false(ftk_state_is_open(s));
    assert_true(ftk_state_facts(s)->mistake);
    assert_string_equal(ftk_state_facts(s)->fatal, "rank 1: x");
    library_line(s, late); /* of a rank that is killed a moment later */
    assert_false(ftk_state_is_open(s));
    free(s->contexts[0].name);
    free(s->contexts);
    free(s);
}

/* At most n lines, up to the first that is NULL. */
static void take_lines(struct ftk_state *s, const char *const lines[], size_t n)
{
    for (size_t i = 0; i < n && lines[i]; i++) {
        char line[32];
        snprintf(line, sizeof line, "%s", lines[i]);
        library_line(s, line);
    }
}

static void free_lines(struct ftk_state *s)
{
    for (size_t i = 0; i < s->ncontexts; i++)
        free(s->contexts[i].name);
    free(s->contexts);
    free(s);
}

/* Whether the next start of a halt that is cut short has a set to go on from. */
static void cut_short(void **state)
{
    static const struct {
        const char *lines[6];
        bool halts;
    } cases[] = {
        { { "open a", "set 3 a" }, false },
        { { "open a", "halts 0 4 a" }, false },
        { { "open a", "halts 0 4 a", "set 4 a" }, true },
        { { "open a", "halts 3 4 a" }, true },
        { { "open a", "halts - 4 a" }, true }, /* there are no files */
        { { "open a", "halts 3 4 a", "again" }, false },
        { { "open a", "halts 3 4 a", "repaired 1 a", "back 4 a" }, true },
        { { "open a", "halts 3 4 a", "repaired 1 a", "back 3 a" }, false }, /* only rank 0 knew */
        { { "open a", "halts 3 4 a", "repaired 1 b", "back 3 b" }, true },  /* another context */
        { { "open a", "halts 3 4 a", "back 3 a", "halts 3 5 a" }, true },
        { { "open a", "halts 3 4 a", "back 4 a", "halts 3 5 a", "back 4 a" }, true },
        { { "open a", "halts 3 4 a", "halts 0 4 a" }, true }, /* by a replacement of rank 0 */
        /* each of two contexts */
        { { "open a", "open b", "halts 3 4 a" }, true },
        { { "open a", "open b", "halts 3 4 a", "halts 0 4 b" }, false },
        { { "open a", "open b", "halts 0 4 a", "halts 3 4 b" }, false },
        { { "open a", "open b", "halts - 4 a", "halts 0 4 b" }, false },
        { { "open a", "open b", "halts 0 4 a", "halts - 4 b" }, false },
        { { "open a", "open b", "halts - 4 a", "halts 3 4 b" }, true },
        { { "open a", "open b", "halts 0 4 a", "set 4 b" }, false },
        { { "open a", "open b", "set 2 a", "halts 0 4 b", "set 5 b" }, true },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ftk_state *s = ftk_tool_alloc(sizeof *s);
        take_lines(s, cases[i].lines, 6);
        assert_int_equal(ftk_state_halts(s), cases[i].halts);
        assert_true(ftk_state_is_open(s)); /* it is lost all the same */
        free_lines(s);
    }
}

/* What ftkit run says of such a halt. */
static void fileless(void **state)
{
    static const struct {
        const char *lines[3];
        bool fileless;
    } cases[] = {
        { { "open a" }, false },
        { { "halts - 4 a" }, true },
        { { "halts - 4 a", "halts 3 4 b" }, false },
        { { "halts 3 4 b", "halts - 4 a" }, false },
        { { "halts - 4 b", "halts - 4 a" }, true },
        { { "halts 3 4 b", "halts - 4 a", "back 3 b" }, true },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ftk_state *s = ftk_tool_alloc(sizeof *s);
        take_lines(s, cases[i].lines, 3);
        assert_int_equal(ftk_state_fileless(s), cases[i].fileless);
        free_lines(s);
    }
}

/* Sets are numbered by context. */
static void sets(void **state)
{
    static const char *const lines[] = { "set 7 a", "set 1 b", "set 1 b", "set 8 a", "set 2 b" };
    (void)state;
    struct ftk_state *s = ftk_tool_alloc(sizeof *s);
    take_lines(s, lines, 5);
    assert_true(ftk_state_facts(s)->set == 8);
    assert_int_equal(ftk_state_facts(s)->nsets, 4);
    free_lines(s);
}

static void not_ones(void **state)
{
    (void)state;
    comes_to("open a\nlost\nlost 1\nlost x y\nclosed a\n" DIED("1,3"), "1,3");
    comes_to("open a\nclosed a\n" DIED("0,1"), "none"); /* a daemon */
}

/* Lines that mpirun writes for us are not those of a user. */
static void own_lines(void **state)
{
    static const char *const own[] = {
        "[node:7] [prterun-node-7@0,0] odls:launch spawning child [prterun-node-7@1,0]",
        "[node:7] [prterun-node-7@0,0] hwloc:prepare on child [prterun-node-7@1,0] cpuset NULL",
    };
    struct ftk_state s = { 0 };
    (void)state;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        assert_true(mpirun_line(&s, own[i]));
    assert_false(mpirun_line(&s, "[node:7] [prterun-node-7@0,0] hwloc: no topology"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_and_after),
        cmocka_unit_test(late_word),
        cmocka_unit_test(abort_is_repaired),
        cmocka_unit_test(abort_is_explained),
        cmocka_unit_test(abort_is_answer),
        cmocka_unit_test(others),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(cut_short),
        cmocka_unit_test(fileless),
        cmocka_unit_test(sets),
        cmocka_unit_test(not_ones),
        cmocka_unit_test(own_lines),
    };
    return cmocka_run_group_tests_name("state", tests, NULL, NULL);
}
