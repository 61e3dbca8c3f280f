/* Determinants: random programs of one rank, with lines and deaths between any two steps.  The
 * replay repeats each outcome in order.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A program begins receives, cancels them and waits for them, probes, tests, decides values, sends,
 * and comes to lines, together or apart.  What it does next follows from all outcomes so far.  The
 * model decides the outcomes that are free, completes receives at any moment, and records as the
 * callers of det.h do.  The rank dies between any two steps: another process reads the files that
 * it has left, and a replacement goes on from a line.  The rank may also live and go back, or all
 * ranks go back, with the determinants of the set only.  What holds:
 *
 *   - the program repeats all outcomes up to the last send, and up to the last determinant of the
 *     list.  When all ranks go back: up to the last determinant of the set
 *   - a determinant of a receive is of that receive: its tag matches
 *   - when a message is sent, the file has all determinants
 *   - a replay of set-up repeats the outcomes of set-up
 *
 * Not here: the ways to other nodes (t_relay), and replicas that follow a leader. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "t_det_program.h"

#include "log/base/figures.h"
#include "log/determinant/det.h"
#include "log/request/receives.h"

/* ---- lines --------------------------------------------------------------------------------- */

static void save_line(struct line *l)
{
    free(l->window);
    *l = (struct line){ .program = model.now, .sure = model.sure };
    l->program.at++; /* behind the step of the line */
    l->program.hash = mix(l->program.hash, 17);
    for (int i = 0; i < RECEIVES; i++)
        l->program.r[i].complete = model.now.r[i].used && !is_under_way(i);
}

/* The line is committed; the other ranks may not know. */
static void commit(struct line *l, enum ftk_pass kind)
{
    ftk_log.line.count++;
    struct line *to = &model.line[ftk_log.line.count & 1];
    free(to->window);
    *to = *l;
    *l = (struct line){ .set = 0 };
    ftk_part_det.line(kind, false);
    ftk_part_receives.line(kind, false);
    model.recorded = ftk_det_count();
    model.open = ftk_log.apart.open = false;
    model.alone = choose(2);
}

static void roll_back(bool dead, bool all);

/* The messages before a line are drained, also those that a replay receives again. */
static void drain(void)
{
    for (int i = 0; i < RECEIVES; i++) {
        const struct ftk_req *r = model.real[i];
        if (is_under_way(i)
            && (r->recv.cancelled || r->replay.match != FTK_MATCH_OPEN
                || r->replay.cancel == FTK_CANCEL_TOO_LATE || choose(3) == 0))
            look(i);
    }
}

/* All ranks are at the line.  A replay repeats the outcome of a call that others know: no set. */
static bool step_line(void)
{
    if (ftk_det_plan_left() || model.now.at < model.sure)
        return false;
    drain();
    EXPECT(ftk_part_receives.cut(false) == FTKIT_OK);
    save_line(&model.cut);
    happened(0);
    if (choose(8) == 0) { /* not committed, or nobody knows */
        roll_back(choose(2), false);
        return true;
    }
    if (choose(8) == 0)
        return true; /* given up */
    commit(&model.cut, FTK_PASS_MET);
    return true;
}

static bool step_cut(void)
{
    if (model.open || ftk_det_plan_left() || !ftk_receives_may_cut())
        return false;
    model.alone = false; /* all ranks have seen the line before */
    EXPECT(ftk_part_receives.cut(true) == FTKIT_OK);
    model.open = ftk_log.apart.open = true;
    model.stopped = false;
    save_line(&model.cut);
    model.cut.set = model.now.at + 1;
    model.depends = true;
    happened(0);
    model.cut.set = model.now.at;
    return true;
}

/* The rank stops recording. */
static void stop_recording(struct line *l)
{
    ftk_det_stop();
    ftk_det_stop(); /* at a stop message, and when the round is over: the first one counts */
    model.stopped = true;
    l->window = ftk_det_window(&l->nwindow);
    EXPECT(l->window != NULL);
    l->set = l->nwindow > 0 ? model.sure : l->program.at;
}

/* The next round of the open set, at any moment. */
static void go_on_with_set(void)
{
    const int what = choose(model.often);
    if (!model.open || what > 3)
        return;
    if (what == 0) {
        ftk_part_det.discard();
        model.open = ftk_log.apart.open = false;
        return;
    }
    if (model.stopped)
        commit(&model.cut, FTK_PASS_CUT);
    else
        stop_recording(&model.cut);
}

/* ---- going back -------------------------------------------------------------------------- */

static void forget_requests(void)
{
    for (int i = 0; i < RECEIVES; i++) {
        struct ftk_req *r = model.real[i];
        if (r && !ftk_req_is_done(r))
            (void)ftk_req_fail(r, MPI_ERR_OTHER);
        if (r)
            ftk_req_delete(r);
        model.real[i] = NULL;
    }
}

/* The requests of the line: those under way begin again, in their order. */
static void restore(const struct line *l)
{
    model.now = l->program;
    for (uint64_t order = 1; order <= model.now.begun; order++)
        for (int i = 0; i < RECEIVES; i++) {
            struct receive *p = &model.now.r[i];
            if (!p->used || p->order != order)
                continue;
            if (!p->complete) {
                begin_real(i);
                continue;
            }
            model.real[i] = ftk_req_new(&comm);
            EXPECT(model.real[i] != NULL);
            model.real[i]->kind = FTK_REQ_RECV;
            model.real[i]->recv.cancelled = p->outcome == CANCELLED;
        }
}

/* Another process reads the files of the dead one; a replacement opens its own. */
static void replace(uint64_t line)
{
    size_t n;
    const struct ftk_det *v = ftk_det_own(line, &n);
    struct ftk_det *copy = malloc((n + 1) * sizeof *copy);
    EXPECT(copy != NULL);
    if (n > 0)
        memcpy(copy, v, n * sizeof *copy);
    EXPECT(ftk_det_open(copy, n, line, ++model.epoch) == FTKIT_OK);
    free(copy);
    ftk_det_installed(model.epoch);
}

/* Whether the line of the set that is being written may count. */
static bool may_be_committed(void)
{
    return model.open && model.stopped;
}

static void roll_back(bool dead, bool all)
{
    static const struct ftk_rollback b = { .others_stay = true };
    struct line *l = &model.line[ftk_log.line.count & 1];
    uint64_t line = ftk_log.line.count;
    step_note(model.s, "back", dead, all, (int)line);
    if (dead && !all && model.alone && choose(2)) {
        line--;
        if (!model.apart && model.sure > l->sure)
            model.sure = l->sure; /* nobody has gone on from the line that is lost */
        l = &model.line[line & 1];
    } else if (dead && may_be_committed() && choose(2)) {
        line++;
        l = &model.line[line & 1];
        free(l->window);
        *l = model.cut;
        model.cut = (struct line){ .set = 0 };
    }
    if (model.open)
        ftk_part_det.discard();
    model.open = ftk_log.apart.open = false;
    model.alone = false;
    forget_requests();
    if (dead)
        replace(line);
    ftk_log.line.count = line;
    if (all) {
        ftk_det_drop();
        model.sure = l->set > l->program.at ? l->set : l->program.at;
    }
    const long id[1] = { (long)getpid() };
    const int me[1] = { 0 };
    EXPECT(ftk_det_peers(me, id, 1) == FTKIT_OK);
    EXPECT(ftk_part_det.roll_back(&b) == FTKIT_OK);
    if (l->window)
        EXPECT(ftk_det_restore(l->window, l->nwindow) == FTKIT_OK);
    model.recorded = ftk_det_count();
    restore(l);
}

/* ---- a run ------------------------------------------------------------------------------- */

static void make_step(void)
{
    uint64_t outcome = 0;
    const bool may_be_line = model.now.at % 4 == 3;
    int what = may_be_line && wants(6, 2) == 0 ? 14 : wants(7, 14);
    if (model.plain && what >= 6 && what <= 10)
        what = what % 2 == 0 ? 3 : 5; /* a cancel or a wait */
    switch (what) {
    case 0:
    case 1:
    case 2:
        step_begin_receive();
        break;
    case 3:
    case 4:
        step_cancel();
        break;
    case 5:
        outcome = step_wait();
        break;
    case 6:
    case 7:
        outcome = step_probe();
        break;
    case 8:
        outcome = step_test();
        break;
    case 9:
        outcome = step_some();
        break;
    case 10:
        outcome = step_decide();
        break;
    case 11:
    case 12:
    case 13:
        step_send_one();
        break;
    default:
        if (model.apart ? step_cut() : step_line())
            return;
    }
    happened(outcome);
}

/* Jobs that begin meanwhile on this machine remove the files of jobs that have no page. */
static uint64_t job;
static struct ftk_dog_page *page;
static int lock;

static int open_page(void **state)
{
    char name[64];
    (void)state;
    job = (uint64_t)getpid() << 32 | 0xde7;
    snprintf(name, sizeof name, "/" FTK_DOG_PREFIX "%llx-0", (unsigned long long)job);
    return ftk_dog_page_open(name, &page, &lock);
}

static int close_page(void **state)
{
    char name[64];
    (void)state;
    snprintf(name, sizeof name, "/" FTK_DOG_PREFIX "%llx-0", (unsigned long long)job);
    ftk_dog_page_close(name, page, lock, true);
    return 0;
}

static void open_log(void)
{
    memset(&ctx, 0, sizeof ctx);
    ctx.where = FTK_IN_LOOP;
    ctx.cfg.replicas = 1;
    ctx.job = job;
    strcpy(ctx.cfg.name, "unit");
    comm = (struct ftk_vcomm){ .size = RANKS };
    ftk_log.ctx = &ctx;
    ftk_log.n = RANKS;
    ftk_log.team = teams;
    ftk_log.on = true;
    ftk_log.line.count = 1;
    ftk_log.mode = model.apart ? &ftk_mode_node_apart : ftk_mode_of(FTK_DETS_NODE);
    ftk_session_begin();
}

static void close_log(void)
{
    forget_requests();
    EXPECT(ftk_log.queue.nwildcards == 0 && !ftk_log.queue.first);
    EXPECT(ftk_figures_differences() == 0);
    EXPECT(ftk_det_peers(NULL, NULL, 0) == FTKIT_OK);
    ftk_det_close();
    ftk_part_set_up.close();
    ftk_part_requests.close();
    memset(&ftk_log, 0, sizeof ftk_log);
    free(model.cut.window);
    free(model.line[0].window);
    free(model.line[1].window);
}

static void run(struct stepping *s)
{
    const int steps = 1 + step_choose(s, STEPS);
    int backs = step_choose(s, 7);
    memset(&model, 0, sizeof model);
    model.s = s;
    model.apart = step_choose(s, 2);
    model.often = 4 << step_choose(s, 4);
    model.plain = step_choose(s, 2);
    model.slots = model.plain ? 2 + step_choose(s, 4) : RECEIVES;
    s->n = 1;
    open_log();
    model.epoch = s->seed * 16;
    model.now.hash = s->seed;
    model.line[1].program = model.line[0].program = model.now;
    replace(1);
    roll_back(false, false);
    for (int i = 0; i < steps || backs > 0 || model.now.at < model.sure; i++) {
        step_note(s, "step", (int)model.now.at, (int)model.sure, (int)ftk_det_count());
        if (choose(3) == 0)
            look(choose(model.slots));
        if (model.apart)
            go_on_with_set();
        if (backs > 0 && choose(model.often) == 0) {
            backs--;
            const bool all = model.apart && choose(4) == 0;
            roll_back(all ? false : choose(2), all);
        }
        make_step();
        if (model.now.at + 4 > EVENTS)
            break;
    }
    close_log();
}

/* A receive is complete at the cut, and its cancel comes behind the line, too late.  The interval
 * before the line may still count, and has the outcome; behind the line no receive has the
 * number. */
static void late_cancel(void **state)
{
    static struct stepping s;
    size_t n;
    (void)state;
    s.n = 1;
    memset(&model, 0, sizeof model);
    model.s = &s;
    model.apart = true;
    model.slots = RECEIVES;
    open_log();
    replace(1);
    roll_back(false, false);
    step_begin_receive();
    const int slot = slot_wanted(true);
    receive(slot);
    const size_t before = ftk_det_count();
    assert_true(step_cut());
    stop_recording(&model.cut);
    commit(&model.cut, FTK_PASS_CUT);
    cancel(slot);
    const struct ftk_det *v = ftk_det_own(1, &n);
    assert_int_equal(n, before + 1);
    assert_true(v[before].kind == FTK_DET_CANCEL && v[before].n == 1 && v[before].a == 0);
    assert_non_null(ftk_det_own(2, &n));
    assert_int_equal(n, 0);
    assert_int_equal(ftk_det_number_of_complete(model.real[slot]->recv.number), 0);
    close_log();
}

/* ---- set-up -------------------------------------------------------------------------------- */

/* A step of set-up, with the outcome that the program sees.  The replay has the phase of set-up. */
static uint64_t set_up_step(void)
{
    const uint32_t kind = wants(8, 2) ? FTK_DET_TEST : FTK_DET_SOME;
    const struct ftk_det *d;
    uint64_t sum;
    if (wants(9, 4) == 0) {
        const uint32_t number = ftk_set_up_receive();
        const bool replays = ftk_log_replays_setup();
        const bool now = replays ? ftk_set_up_was_cancelled(number) : choose(2);
        if (now && !replays)
            ftk_set_up_cancelled(number);
        return now;
    }
    const int next = ftk_det_next(kind, &d);
    if (next == FTK_DET_FREE && choose(2)) {
        const int n = 1 + choose(5);
        sum = mix(kind, (uint64_t)n);
        ftk_det_found(kind, n, 0);
        for (int i = 0; kind == FTK_DET_SOME && i < n; i++) {
            const int index = choose(100);
            ftk_det_more(index);
            sum = mix(sum, (uint64_t)index);
        }
        return sum;
    }
    if (next == FTK_DET_THIS) {
        sum = mix(kind, (uint64_t)d->a);
        for (int i = 0; kind == FTK_DET_SOME && i < d->a; i++)
            sum = mix(sum, (uint64_t)d[1 + i].a);
        return sum;
    }
    if (next == FTK_DET_FREE)
        ftk_det_found_nothing();
    return NOTHING;
}

static void set_up_steps(size_t n)
{
    model.now = (struct program){ .hash = model.s->seed };
    while (model.now.at < n)
        happened(set_up_step());
}

/* A replacement repeats set-up alone, with the record of a set. */
static void run_set_up(struct stepping *s)
{
    const size_t n = (size_t)step_choose(s, STEPS);
    memset(&model, 0, sizeof model);
    model.s = s;
    s->n = 1;
    open_log();
    ftk_log.in_set_up = true;
    set_up_steps(n);
    const size_t words = ftk_part_set_up.words();
    uint64_t *w = malloc((words + 1) * sizeof *w);
    EXPECT(w != NULL && ftk_part_set_up.save(w) == w + words);
    ftk_part_set_up.close();
    ftk_log.phase = FTK_PHASE_SETUP_REPLAY;
    EXPECT(ftk_set_up_read(w, words) == FTKIT_OK);
    free(w);
    model.sure = n;
    set_up_steps(n);
    ftk_set_up_end();
    close_log();
}

static void set_ups(void **state)
{
    (void)state;
    step_many(RUNS / 10, run_set_up);
}

static void programs(void **state)
{
    (void)state;
    step_many(RUNS, run);
}

/* A file of determinants with the name of a peer's is taken if the peer's user has made it. */
static void of_this_user(void **state)
{
    enum { EPOCH = 65536 };
    struct {
        struct ftk_det_head head;
        struct ftk_det list[2];
    } file = { .head = { .magic = FTK_DET_MAGIC, .epoch_id = EPOCH, .n = 2 } };
    const long ids[RANKS] = { 0, 1, 0, 0 };
    const int peer = 1;
    char name[112];
    size_t n;
    (void)state;
    if (geteuid() != 0)
        skip(); /* one user cannot be two */
    ctx.job = (uint64_t)getpid();
    ftk_log.ctx = &ctx;
    ftk_log.line.count = 0;
    ftk_det_installed(EPOCH);
    for (int foreign = 0; foreign < 2; foreign++) {
        ftk_det_name_of(peer, ids[peer], 0, name, sizeof name);
        const int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        assert_true(fd >= 0 && write(fd, &file, sizeof file) == (ssize_t)sizeof file);
        assert_int_equal(fchown(fd, foreign ? 65533 : 0, 0), 0);
        assert_int_equal(ftk_det_peers(&peer, ids, 1), FTKIT_OK);
        assert_int_equal(ftk_det_of(0, &n) == NULL, foreign);
        assert_int_equal(n, foreign ? 0 : 2);
        assert_int_equal(ftk_det_peers(NULL, NULL, 0), FTKIT_OK);
        assert_int_equal(shm_unlink(name), 0);
        assert_int_equal(close(fd), 0);
    }
    ftk_det_installed(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(of_this_user),
        cmocka_unit_test(late_cancel), cmocka_unit_test(programs), cmocka_unit_test(set_ups) };
    return cmocka_run_group_tests_name("determinants", tests, open_page, close_page);
}
