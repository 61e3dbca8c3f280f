/* The program and the log of t_match.c and t_match_cases.c: one rank over an MPI of the test.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_TESTS_T_MATCH_LOG_H
#define FTK_TESTS_T_MATCH_LOG_H

#include "log/request/progress.h"
#include "t_match_mpi.h"

#include <unistd.h>

#include "detect/watch_page.h"
#include "log/base/figures.h"
#include "log/base/part.h"
#include "log/determinant/det.h"
#include "log/mode.h"
#include "log/recovery/recovery.h"
#include "log/vcomm/comm.h"
#include "mpi_calls.h"

enum { SLOTS = 6, EVENTS = 64, OPS = 256, NOTHING = 1000, NEVER = 1 << 30 };

/* A receive or a probe of the program. */
struct op {
    bool takes, receives; /* receives: by a request */
    bool replays;         /* its outcome may be one of determinants */
    int context, source, tag;
    int got;            /* number of the message; -1: none */
    uint64_t seen;      /* tick when the program knew */
    uint64_t cancelled; /* tick of the cancel; 0: none */
    int after;          /* the probe with the same arguments just before; -1: none */
    int found_source, found_tag;
};

static struct model {
    struct ftkit_ctx ctx;
    struct ftk_vcomm *vc[CONTEXTS];
    uint64_t hash, seen[EVENTS], job, epoch;
    int at, sure, nops, deaths;
    bool records;
    size_t recorded;
    bool depends;
    struct op op[OPS];
    struct slot {
        MPI_Request h;
        uint64_t buf[BYTES / 8];
        int op;
    } slot[SLOTS];
    MPI_Message matched; /* by MPI_Improbe, not received */
    int matched_op;
} model;

static MPI_Comm handle[CONTEXTS];
static const int context_of[CONTEXTS] = { 0, FTK_LOG_EXTRA, FTK_LOG_EXTRA + 1 };
static const int teams[RANKS] = { 0, 1, 2, 3 };

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 29);
}

/* ---- calls ------------------------------------------------------------------------------- */

static int wants(unsigned salt, int n)
{
    return (int)((mix(model.hash, salt) >> 8) % (uint64_t)n);
}

static struct op *new_op(bool takes, bool receives)
{
    EXPECT(model.nops < OPS);
    struct op *o = &model.op[model.nops++];
    *o = (struct op){ .takes = takes,
        .receives = receives,
        .replays = model.at < model.sure,
        .got = -1,
        .after = -1 };
    return o;
}

static int free_slot(bool used)
{
    const int from = wants(1, SLOTS);
    for (int i = 0; i < SLOTS; i++)
        if ((model.slot[(from + i) % SLOTS].h != MPI_REQUEST_NULL) == used)
            return (from + i) % SLOTS;
    return -1;
}

/* The slot of the new receive; -1: all are in use. */
static int receive_as(const struct op *like, int after)
{
    const int k = free_slot(false);
    if (k < 0)
        return k;
    struct op *o = new_op(true, true);
    o->context = like->context;
    o->source = like->source;
    o->tag = like->tag;
    o->after = after;
    model.slot[k].op = model.nops - 1;
    model.slot[k].buf[0] = NOTHING;
    EXPECT(ftk_mpi_Irecv(model.slot[k].buf, BYTES, MPI_BYTE, o->source, o->tag, handle[o->context],
               &model.slot[k].h)
           == MPI_SUCCESS);
    return k;
}

/* The message that the program has got from a request. */
static uint64_t note_received(int k, const MPI_Status *s)
{
    struct op *o = &model.op[model.slot[k].op];
    int cancelled = 0;
    EXPECT(MPI_Test_cancelled(s, &cancelled) == MPI_SUCCESS);
    o->seen = ++fake.tick;
    if (cancelled) {
        EXPECT(o->cancelled != 0 && model.slot[k].buf[0] == NOTHING);
        return NOTHING + 1;
    }
    EXPECT(model.slot[k].buf[0] < (uint64_t)fake.nmessages);
    o->got = (int)model.slot[k].buf[0];
    const struct fake_message *m = &sent[o->got];
    EXPECT(m->source == s->MPI_SOURCE && m->tag == s->MPI_TAG);
    EXPECT(m->context == context_of[o->context]);
    return (uint64_t)o->got;
}

static uint64_t step_test(int k)
{
    MPI_Status s;
    int flag;
    if (k < 0)
        return 0;
    EXPECT(ftk_mpi_Test(&model.slot[k].h, &flag, &s) == MPI_SUCCESS);
    return flag ? note_received(k, &s) : NOTHING;
}

static void step_cancel(int k)
{
    if (k < 0 || model.op[model.slot[k].op].cancelled != 0)
        return;
    model.op[model.slot[k].op].cancelled = ++fake.tick;
    EXPECT(ftk_mpi_Cancel(&model.slot[k].h) == MPI_SUCCESS);
}

/* ---- the log ------------------------------------------------------------------------------- */

static const struct ftk_det_mode records_nothing;

static void open_log(void)
{
    struct ftkit_ctx *ctx = &model.ctx;
    memset(ctx, 0, sizeof *ctx);
    ctx->where = FTK_IN_LOOP;
    ctx->cfg.replicas = 1;
    ctx->job = model.job;
    ctx->detect.watch = MPI_REQUEST_NULL;
    strcpy(ctx->cfg.name, "unit");
    ftk_log.ctx = ctx;
    ftk_log.n = RANKS;
    ftk_log.team = teams;
    ftk_log.line.count = 1;
    ftk_log.mode = model.records ? ftk_mode_of(FTK_DETS_NODE) : &records_nothing;
    ftk_log.epoch.real[0] = MPI_COMM_SELF;
    ftk_log.vcomms.ncontexts = 8;
    ftk_session_begin();
    EXPECT(ftk_part_peers.open(RANKS) == FTKIT_OK);
    EXPECT(ftk_vcomm_open() == MPI_SUCCESS);
    ftk_log.epoch.real[0] = (MPI_Comm)(void *)&fake.comm[0];
    ftk_log.epoch.real[FTK_LOG_SHARED] = (MPI_Comm)(void *)&fake.comm[1];
    for (int i = 0; i < CONTEXTS; i++) {
        struct ftk_vcomm *vc = calloc(1, sizeof *vc);
        EXPECT(vc != NULL);
        vc->handle = handle[i];
        vc->context = context_of[i];
        vc->size = RANKS;
        ftk_vcomm_publish(vc);
    }
    ftk_log.on = true;
    for (int k = 0; k < SLOTS; k++)
        model.slot[k].h = MPI_REQUEST_NULL;
    model.matched = MPI_MESSAGE_NULL;
}

/* The process dies, or the run is over. */
static void close_log(void)
{
    EXPECT(ftk_figures_differences() == 0);
    ftk_log.on = false;
    ftk_log_begin_rollback();
    ftk_part_requests.forget();
    ftk_part_unexp.forget();
    ftk_part_match.close();
    ftk_part_overtake.close();
    ftk_part_requests.close();
    ftk_part_unexp.close();
    ftk_part_det.close();
    ftk_part_vcomm.close();
    ftk_part_channels.close();
    ftk_part_types.close();
    ftk_part_peers.close();
    memset(&ftk_log, 0, sizeof ftk_log);
}

/* A replacement has the determinants of the lost process. */
static void begin(const struct ftk_det *v, size_t n)
{
    static const struct ftk_rollback b = { .others_stay = true };
    open_log();
    EXPECT(ftk_det_open(v, n, 1, ++model.epoch) == FTKIT_OK);
    ftk_det_installed(model.epoch);
    EXPECT(ftk_part_det.roll_back(&b) == FTKIT_OK);
    fake_begin_again();
    model.hash = fake.s->seed;
    model.at = model.nops = 0;
    model.recorded = ftk_det_count();
}

static void die(void)
{
    size_t n;
    const struct ftk_det *v = ftk_det_own(1, &n);
    struct ftk_det *copy = malloc((n + 1) * sizeof *copy);
    EXPECT(copy != NULL);
    memcpy(copy, v, n * sizeof *copy);
    close_log();
    begin(copy, n);
    free(copy);
}

static void begin_run(struct stepping *s)
{
    const uint64_t job = model.job;
    memset(&model, 0, sizeof model);
    memset(&fake, 0, sizeof fake);
    fake.s = s;
    s->n = 1;
    model.job = job;
    model.records = true;
    model.epoch = s->seed * 16;
}

/* A program by hand.  Nothing comes by chance. */
static inline void begin_case(struct stepping *s, int nmessages)
{
    begin_run(s);
    fake.is_quiet = true;
    fake.nmessages = nmessages;
    begin(NULL, 0);
    model.ctx.mode = FTKIT_MODE_RESTART; /* nobody is informed of a failure */
}

static struct fake_message message_of(int of, int source, int tag, bool is_long)
{
    return (struct fake_message){ .comm = of > 0,
        .context = context_of[of],
        .source = source,
        .tag = tag,
        .wire = ftk_context_wire(context_of[of], tag),
        .is_long = is_long };
}

/* ---- the tests --------------------------------------------------------------------------- */

typedef int match_tests(void);

/* Run the tests with a page of this job; returns what main() returns. */
static int match_main(int argc, char **argv, match_tests *tests)
{
    struct ftk_dog_page *page;
    char name[64];
    int lock;
    if (MPI_Init(&argc, &argv) != MPI_SUCCESS)
        return 1;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < CONTEXTS; i++)
        if (MPI_Comm_dup(MPI_COMM_SELF, &handle[i]) != MPI_SUCCESS
            || MPI_Comm_set_errhandler(handle[i], MPI_ERRORS_RETURN) != MPI_SUCCESS)
            return 1;
    /* jobs that begin meanwhile remove the files of jobs that have no page */
    model.job = (uint64_t)getpid() << 32 | 0x3a7;
    snprintf(name, sizeof name, "/" FTK_DOG_PREFIX "%llx-0", (unsigned long long)model.job);
    if (ftk_dog_page_open(name, &page, &lock) != 0)
        return 1;
    fake_install();
    const int failed = tests();
    ftk_dog_page_close(name, page, lock, true);
    for (int i = 0; i < CONTEXTS; i++)
        MPI_Comm_free(&handle[i]);
    MPI_Finalize();
    return failed;
}

#endif
