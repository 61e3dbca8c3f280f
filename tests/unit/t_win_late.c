/* Messages about locks of windows that come late, in a repair or in a replay of set-up, are
 * dropped: this process may have no such window (log/win/passive.h).  Only the window that has
 * asked for memory takes an answer, and only a member may ask.  Many windows leave descriptors to
 * the program.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "log/win/meet.h"
#include "log/win/near.h"
#include "log/win/passive.h"
#include "log/win/share_file.h"
#include "log/win/win.h"

enum { NO_WINDOW = 3, CONTEXT, TOKEN = 4711, SOURCE = 1, WORDS = 8 };
enum { ASK = 4, OFFER }; /* in ftk_win_controls: those about memory are the last ones */

static struct ftkit_ctx ctx;

/* Each kind of message comes: those about memory have the outcome memory, the others want. */
static void all_come(size_t words, int want, int memory)
{
    const uint64_t w[WORDS] = { NO_WINDOW };
    for (size_t i = 0; i < FTK_WIN_CONTROLS; i++) {
        const struct ftk_control c = { FTK_LOG_WIN, SOURCE, w, words };
        assert_int_equal(ftk_win_controls[i].context, FTK_LOG_WIN);
        assert_int_equal(ftk_win_controls[i].handle(&c), i < ASK ? want : memory);
    }
}

static int begin(void **state)
{
    (void)state;
    ctx = (struct ftkit_ctx){ .detect.watch = MPI_REQUEST_NULL };
    ftk_log = (struct ftk_log){ .ctx = &ctx, .phase = FTK_PHASE_NORMAL };
    return 0;
}

static void a_window_that_is_not_there(void **state)
{
    (void)state;
    all_come(WORDS, MPI_ERR_WIN, MPI_SUCCESS); /* the window may be gone */
    all_come(FTK_WIN_HEAD_WORDS - 1, MPI_ERR_INTERN, MPI_ERR_INTERN);
    ftk_log.phase = FTK_PHASE_REPLAY;
    all_come(WORDS, MPI_ERR_WIN, MPI_SUCCESS);
}

static void a_repair(void **state)
{
    (void)state;
    ctx.detect.repairing = true;
    all_come(WORDS, MPI_SUCCESS, MPI_SUCCESS);
    all_come(FTK_WIN_HEAD_WORDS - 1, MPI_SUCCESS, MPI_SUCCESS);
}

static void a_rollback(void **state)
{
    (void)state;
    ftk_log.phase = FTK_PHASE_ROLLING_BACK;
    all_come(WORDS, MPI_SUCCESS, MPI_SUCCESS);
}

static void a_replay_of_set_up(void **state)
{
    (void)state;
    ftk_log.phase = FTK_PHASE_SETUP_REPLAY;
    all_come(WORDS, MPI_SUCCESS, MPI_SUCCESS);
}

/* ---- an offer of memory, which a window of this context had asked for --------------------- */

static bool maps(struct ftk_win *w, uint64_t id, int fd)
{
    const uint64_t words[WORDS] = { CONTEXT, id, ftk_share_file_address(fd), TOKEN };
    const struct ftk_control c = { FTK_LOG_WIN, SOURCE, words, WORDS };
    assert_int_equal(ftk_win_controls[OFFER].handle(&c), MPI_SUCCESS);
    return ftk_win_near_memory(w, SOURCE) != NULL;
}

/* A window of this rank and others, which have a byte each: the only one. */
static struct ftk_win *window_with(struct ftk_vcomm *vc, MPI_Aint own)
{
    const struct ftk_win_making making = { FTK_WIN_ALLOCATED, NULL, own, 1, MPI_INFO_NULL };
    struct ftk_win *w = ftk_win_new();
    assert_non_null(w);
    w->vc = vc;
    w->allocated = true;
    w->place = calloc((size_t)vc->size, sizeof *w->place);
    ftk_log.node = calloc((size_t)vc->size, sizeof *ftk_log.node);
    assert_true(w->place && ftk_log.node);
    for (int i = 1; i < vc->size; i++)
        w->place[i] = (struct ftk_win_place){ .size = 1, .unit = 1 };
    assert_int_equal(ftk_win_near_make(w, vc->size, &making, true), MPI_SUCCESS);
    return ftk_wins = w;
}

static struct ftk_win *only_window(struct ftk_vcomm *vc)
{
    return window_with(vc, 0);
}

static void delete_only(struct ftk_win *w)
{
    ftk_wins = NULL;
    free(ftk_log.node);
    ftk_log.node = NULL;
    assert_int_equal(ftk_win_delete(w, true), MPI_SUCCESS);
}

/* The window that has asked is gone, another one has its context, and has asked too. */
static void another_window_in_the_context(void **state)
{
    static struct ftk_vcomm vc = { .context = CONTEXT, .size = 2, .state = FTK_VCOMM_LIVE };
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int fd = -1;
    (void)state;
    struct ftk_win *w = only_window(&vc);
    assert_int_equal(ftk_share_file_make_sparse(2 * page, TOKEN, &fd), 0); /* a head, a byte */
    assert_true(ftk_win_near_may_ask(w, SOURCE));
    assert_false(maps(w, w->id, fd)); /* it has not asked */
    ftk_win_near_asked(w, SOURCE);
    assert_false(maps(w, w->id - 1, fd));
    assert_true(maps(w, w->id, fd));
    close(fd);
    delete_only(w);
}

/* ... and the source is no member of that one. */
static void another_window_without_the_source(void **state)
{
    static int member[] = { 0, 2 }, index[] = { 0, -1, 1 };
    static struct ftk_vcomm vc = {
        .context = CONTEXT, .size = 2, .member = member, .index = index, .state = FTK_VCOMM_LIVE
    };
    (void)state;
    struct ftk_win *w = only_window(&vc);
    for (size_t i = ASK; i <= OFFER; i++) {
        const uint64_t words[WORDS] = { CONTEXT, w->id };
        const struct ftk_control c = { FTK_LOG_WIN, SOURCE, words, WORDS };
        assert_int_equal(ftk_win_controls[i].handle(&c), MPI_SUCCESS);
    }
    delete_only(w);
}

/* ---- cores, and children of fork() --------------------------------------------------------- */

/* The flags of the mapping that begins there; "": there is none. */
static const char *flags_at(const char *at)
{
    static char line[256];
    FILE *f = fopen("/proc/self/smaps", "r");
    unsigned long begin, end;
    bool here = false;
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
            here = begin == (uintptr_t)at;
        if (here && strncmp(line, "VmFlags:", 8) == 0)
            break;
        line[0] = '\0';
    }
    fclose(f);
    return line;
}

static void is_in_no_core_and_no_child(void **state)
{
    static struct ftk_vcomm vc = { .context = CONTEXT, .size = 2, .state = FTK_VCOMM_LIVE };
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int fd = -1, status = -1;
    (void)state;
    struct ftk_win *w = only_window(&vc);
    assert_int_equal(ftk_share_file_make_sparse(2 * page, TOKEN, &fd), 0);
    ftk_win_near_asked(w, SOURCE);
    assert_true(maps(w, w->id, fd));
    const char *head = ftk_win_near_memory(w, SOURCE) - page;
    assert_non_null(strstr(flags_at(head), " dd"));
    assert_non_null(strstr(flags_at(head), " dc"));
    const pid_t child = fork();
    if (child == 0) {
        const bool has = *flags_at(head) != '\0';
        ftk_win_near_free(w);
        exit(has);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(fd);
    delete_only(w);
}

/* ---- a rank that has the memory for itself, and is lost ------------------------------------ */

/* The number of its process may be that of another one by then. */
static void a_failure_ends_the_wait(void **state)
{
    static struct ftk_vcomm vc = { .context = CONTEXT, .size = 2, .state = FTK_VCOMM_LIVE };
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const uint32_t other = (uint32_t)getppid();
    int fd = -1;
    (void)state;
    struct ftk_win *w = only_window(&vc);
    assert_int_equal(ftk_share_file_make_sparse(2 * page, TOKEN, &fd), 0);
    ftk_win_near_asked(w, SOURCE);
    assert_true(maps(w, w->id, fd));
    assert_int_equal(pwrite(fd, &other, sizeof other, 8), sizeof other); /* behind the token */
    ctx.detect.failed = true;
    alarm(20); /* a wait without an end */
    assert_false(ftk_win_near_lock(w, SOURCE));
    alarm(0);
    close(fd);
    delete_only(w);
}

/* ---- meetings ------------------------------------------------------------------------------ */

/* The other rank is always there first, so this one waits for nobody.  It looks at messages. */
static void the_last_one_looks(void **state)
{
    enum { FIRST = 2, MEETINGS = 200 };
    static struct ftk_vcomm vc = { .context = CONTEXT, .size = 2, .state = FTK_VCOMM_LIVE };
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    bool idle = false;
    int fd = -1;
    (void)state;
    struct ftk_win *w = window_with(&vc, 1);
    assert_int_equal(ftk_share_file_make_sparse(2 * page, TOKEN, &fd), 0);
    assert_false(ftk_win_meet_is_agreed(w));
    ftk_win_near_asked(w, SOURCE);
    assert_true(maps(w, w->id, fd));
    assert_true(ftk_win_meet_is_ready(w));
    ftk_win_meet_agree(w);
    for (uint64_t i = FIRST; i < FIRST + MEETINGS; i++) {
        ftk_win_near_words(w, SOURCE)[i % 2] = i << 1 | (i % 3 == 0);
        assert_int_equal(ftk_win_meet(w, true, &idle), MPI_SUCCESS);
        assert_int_equal(idle, i % 3 == 0);
        assert_int_equal(ftk_win_near_words(w, 0)[i % 2], i << 1 | 1);
    }
    assert_true(w->turns >= MEETINGS / 64);
    ftk_win_near_forget(w);
    assert_false(ftk_win_meet_is_agreed(w));
    assert_int_equal(ftk_win_near_words(w, 0)[0] | ftk_win_near_words(w, 0)[1], 0);
    close(fd);
    delete_only(w);
}

/* ---- many ranks ---------------------------------------------------------------------------- */

/* All ranks have their memory in one file here.  Those behind the limit stay ranks of messages. */
static void more_ranks_than_mappings(void **state)
{
    enum { RANKS = 8200, MOST = 8192 };
    static struct ftk_vcomm vc = { .context = CONTEXT, .size = RANKS, .state = FTK_VCOMM_LIVE };
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t head = (16 + RANKS * sizeof(uint32_t) + page - 1) / page * page;
    (void)state;
    for (int round = 0; round < 2; round++) {
        struct ftk_win *w = only_window(&vc);
        int fd = -1, mapped = 0;
        assert_int_equal(ftk_share_file_make_sparse(head + page, TOKEN, &fd), 0);
        for (int i = 1; i < RANKS; i++) {
            ftk_win_near_asked(w, i);
            ftk_win_near_offered(w, i, ftk_share_file_address(fd), TOKEN);
            mapped += ftk_win_near_memory(w, i) != NULL;
        }
        assert_int_equal(mapped, MOST);
        close(fd);
        delete_only(w); /* and all are free again */
    }
}

/* ---- many windows --------------------------------------------------------------------- */

/* Each window has a descriptor, and leaves half of them to the program. */
static void more_windows_than_descriptors(void **state)
{
    enum { WINDOWS = 160, FILES = 200 };
    static struct ftk_vcomm vc = { .context = CONTEXT, .size = 2, .state = FTK_VCOMM_LIVE };
    const struct ftk_win_making one = { FTK_WIN_ALLOCATED, NULL, 1, 1, MPI_INFO_NULL };
    struct ftk_win *w[WINDOWS];
    struct rlimit was, low;
    int with_file = 0, fd;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    low = was;
    low.rlim_cur = FILES;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    for (int i = 0; i < WINDOWS; i++) {
        w[i] = ftk_win_new();
        assert_non_null(w[i]);
        w[i]->vc = &vc;
        assert_int_equal(ftk_win_near_make(w[i], 2, &one, true), MPI_SUCCESS);
        with_file += ftk_win_near_has_file(w[i]);
    }
    assert_true(with_file > 0 && with_file < WINDOWS);
    assert_true((fd = open("/dev/null", O_RDONLY)) >= 0 && fd <= FILES / 2);
    close(fd);
    for (int i = 0; i < WINDOWS; i++)
        assert_int_equal(ftk_win_delete(w[i], true), MPI_SUCCESS);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_window_that_is_not_there, begin),
        cmocka_unit_test_setup(a_repair, begin),
        cmocka_unit_test_setup(a_rollback, begin),
        cmocka_unit_test_setup(a_replay_of_set_up, begin),
        cmocka_unit_test_setup(another_window_in_the_context, begin),
        cmocka_unit_test_setup(another_window_without_the_source, begin),
        cmocka_unit_test_setup(is_in_no_core_and_no_child, begin),
        cmocka_unit_test_setup(a_failure_ends_the_wait, begin),
        cmocka_unit_test_setup(the_last_one_looks, begin),
        cmocka_unit_test_setup(more_ranks_than_mappings, begin),
        cmocka_unit_test_setup(more_windows_than_descriptors, begin),
    };
    if (MPI_Init(&argc, &argv) != MPI_SUCCESS)
        return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return MPI_Finalize() == MPI_SUCCESS ? failed : 1;
}
