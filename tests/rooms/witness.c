/* A part of the message log for tests/rooms.t: it sees all that happens to the log, and reports it
 * at the end.  The number of lines is its state in a set, once in the region of the log, and once
 * in a system region of its own.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "log/base/part.h"
#include "set/region.h"

static struct {
    int ranks;
    uint64_t begun, started, in_loop, stopped, asked; /* the life of the log, and its figures */
    uint64_t looks, served, turns, cuts, back, forgotten, waits;
    uint64_t settled, given_up, over; /* sets */
    uint64_t frozen, quiet_begun, abandoned, epochs, sets, installed, stayed, replayed, again;
    uint64_t prepared, heard, wrong, drained, withdrawn, quiet, exchanged; /* in repairs */
    uint64_t restored; /* by the system region, which is restored before the region of the log */
    uint64_t lines;    /* of the job: a rank that rolls back has them from its set */
} seen;

static int measure_region(void *arg, size_t *bytes)
{
    (void)arg;
    *bytes = sizeof seen.lines;
    return FTKIT_OK;
}

static int save_region(void *arg, void *to, size_t bytes)
{
    (void)arg;
    memcpy(to, &seen.lines, bytes);
    return FTKIT_OK;
}

static int load_region(void *arg, const void *from, size_t bytes)
{
    (void)arg;
    if (bytes != sizeof seen.restored)
        return ftk_fail(FTKIT_ERR_FORMAT, "the region of the witness has another size");
    memcpy(&seen.restored, from, bytes);
    return FTKIT_OK;
}

static const struct ftk_system_region region = { .name = "ftkit.witness",
    .ops = { sizeof(ftkit_serializer), measure_region, save_region, load_region },
    .differs_in_ranks = true,
    .differs_in_replicas = true };

static void begin(void)
{
    seen.wrong += seen.begun > 0 || seen.ranks > 0;
    seen.begun++;
}

static int start(void)
{
    seen.wrong += seen.epochs == 0; /* the first repair comes before */
    seen.started++;
    return FTKIT_OK;
}

static void enter_loop(void)
{
    seen.wrong += seen.started == 0;
    seen.in_loop++;
}

static void stop(void)
{
    seen.stopped++;
}

static void figures(ftkit_info *info)
{
    (void)info;
    seen.asked++;
}

static int open_witness(int n)
{
    seen.ranks = n;
    return FTKIT_OK;
}

static void forget(void)
{
    seen.forgotten++;
}

static void progress(void)
{
    seen.looks++;
}

static void serve(void)
{
    seen.served++;
}

static void turn(unsigned turns)
{
    (void)turns;
    seen.turns++;
}

static bool sends(void)
{
    seen.waits++;
    return false;
}

static int cut(bool apart)
{
    (void)apart;
    seen.cuts++;
    return FTKIT_OK;
}

static void pass_line(enum ftk_pass kind, bool first)
{
    (void)kind;
    (void)first;
    seen.lines++;
}

static void discard(void)
{
    seen.given_up++;
}

static void cut_over(void)
{
    seen.over++;
}

static int finish(void)
{
    seen.settled++;
    return FTKIT_OK;
}

/* ---- a repair: what this part announces to a rank is as if it had sent messages to it ---- */

static int prepare(const struct ftk_log_repair *r)
{
    (void)r;
    seen.prepared++;
    return FTKIT_OK;
}

static void quiesce(const struct ftk_log_repair *r)
{
    seen.wrong += r->fresh != 0;
    seen.quiet_begun++;
}

static uint64_t number_of(int from, int to)
{
    return 1000 + (uint64_t)(from * seen.ranks + to);
}

static void announce(int rank, uint64_t *numbers)
{
    numbers[0] = number_of(ftk_log.me, rank);
    numbers[1] = ~numbers[0];
}

/* A rank whose partner this one is not announces 0. */
static void announced(int rank, const uint64_t *numbers)
{
    const uint64_t right = number_of(rank, ftk_log.me);
    if (numbers[0] == 0 && numbers[1] == 0)
        return;
    seen.wrong += numbers[0] != right || numbers[1] != ~right;
    seen.heard++;
}

static int drain(const struct ftk_quiescing *q)
{
    seen.wrong += seen.drained != seen.withdrawn || seen.heard == 0;
    seen.drained++;
    return q->look(q->arg);
}

static int withdraw(const struct ftk_quiescing *q)
{
    seen.withdrawn++;
    seen.wrong += seen.drained != seen.withdrawn;
    return q->look(q->arg);
}

static void quiesced(void)
{
    seen.quiet++;
}

static int exchange(const struct ftk_log_repair *r, uint64_t lines)
{
    seen.wrong += lines < seen.lines || (r->fresh && lines > 0);
    seen.exchanged++;
    return FTKIT_OK;
}

static void freeze(void)
{
    seen.frozen++;
}

static int abandon(void)
{
    seen.abandoned++;
    return FTKIT_OK;
}

static int new_epoch(const struct ftk_log_repair *r)
{
    (void)r;
    seen.wrong += seen.exchanged == 0;
    seen.epochs++;
    return FTKIT_OK;
}

static void settle_set(const struct ftk_log_repair *r)
{
    seen.wrong += r->fresh || seen.epochs == 0;
    seen.sets++;
}

static int install(const struct ftk_log_repair *r)
{
    (void)r;
    seen.installed++;
    seen.wrong += seen.installed != seen.epochs;
    return FTKIT_OK;
}

static int stay(const struct ftk_log_repair *r)
{
    seen.wrong += r->back[r->me] != 0 || seen.installed != seen.epochs;
    seen.stayed++;
    return FTKIT_OK;
}

static void set_up_over(void)
{
    seen.replayed++;
}

static int restored(void)
{
    seen.wrong += ftk_log_is_rolling_back() || ftk_log_replays_setup();
    seen.again++;
    return FTKIT_OK;
}

static int roll_back(const struct ftk_rollback *b)
{
    seen.back += b->others_stay;
    return FTKIT_OK;
}

static size_t words(void)
{
    return 2;
}

static uint64_t *save(uint64_t *w)
{
    w[0] = seen.lines;
    w[1] = ~seen.lines;
    return w + 2;
}

/* The set is the line, which its rank had not passed when it wrote this. */
static int load(const struct ftk_section *in)
{
    if (in->end - in->w != 2 || in->w[1] != ~in->w[0] || in->w[0] != seen.restored)
        return ftk_fail(FTKIT_ERR_FORMAT, "the witness of a set is another one");
    seen.lines = in->w[0] + 1;
    return FTKIT_OK;
}

static void close_witness(void)
{
    ftk_report(FTKIT_DEBUG,
        "context %s: rank %d: the witness of %d ranks saw %llu cuts, %llu lines, %llu rollbacks, "
        "%llu forgets, %llu waits%s",
        ftk_log.ctx->cfg.name, ftk_log.me, seen.ranks, (unsigned long long)seen.cuts,
        (unsigned long long)seen.lines, (unsigned long long)seen.back,
        (unsigned long long)seen.forgotten, (unsigned long long)seen.waits,
        seen.looks > 0 && seen.turns > 0 ? "" : ", no wait");
    ftk_report(FTKIT_DEBUG,
        "context %s: rank %d: the witness has prepared %llu, drained %llu, withdrawn %llu, been "
        "quiet %llu, exchanged %llu times; %llu numbers, %llu wrong",
        ftk_log.ctx->cfg.name, ftk_log.me, (unsigned long long)seen.prepared,
        (unsigned long long)seen.drained, (unsigned long long)seen.withdrawn,
        (unsigned long long)seen.quiet, (unsigned long long)seen.exchanged,
        (unsigned long long)seen.heard, (unsigned long long)seen.wrong);
    if (seen.ranks == 0) { /* a spare */
        memset(&seen, 0, sizeof seen);
        return;
    }
    ftk_report(FTKIT_DEBUG,
        "context %s: rank %d: the witness has begun %llu, started %llu, entered the loop %llu, "
        "stopped %llu times; it has served: %d, told figures: %d",
        ftk_log.ctx->cfg.name, ftk_log.me, (unsigned long long)seen.begun,
        (unsigned long long)seen.started, (unsigned long long)seen.in_loop,
        (unsigned long long)seen.stopped, seen.served > 0, seen.asked > 0);
    ftk_report(FTKIT_DEBUG,
        "context %s: rank %d: the witness saw %llu quiesces, %llu epochs, %llu sets, %llu "
        "installs, %llu stays, %llu set-ups, %llu restores; %llu freezes, %llu settled, %llu given "
        "up, %llu over, %llu abandoned",
        ftk_log.ctx->cfg.name, ftk_log.me, (unsigned long long)seen.quiet_begun,
        (unsigned long long)seen.epochs, (unsigned long long)seen.sets,
        (unsigned long long)seen.installed, (unsigned long long)seen.stayed,
        (unsigned long long)seen.replayed, (unsigned long long)seen.again,
        (unsigned long long)seen.frozen, (unsigned long long)seen.settled,
        (unsigned long long)seen.given_up, (unsigned long long)seen.over,
        (unsigned long long)seen.abandoned);
    memset(&seen, 0, sizeof seen);
}

const struct ftk_part ftk_part_witness = { .begin = begin,
    .open = open_witness,
    .start = start,
    .enter_loop = enter_loop,
    .stop = stop,
    .figures = figures,
    .forget = forget,
    .close = close_witness,
    .progress = progress,
    .serve = serve,
    .turn = turn,
    .sends = sends,
    .cut = cut,
    .line = pass_line,
    .discard = discard,
    .cut_over = cut_over,
    .finish = finish,
    .prepare = prepare,
    .quiesce = quiesce,
    .announces = 2,
    .announce = announce,
    .announced = announced,
    .drain = drain,
    .withdraw = withdraw,
    .quiesced = quiesced,
    .exchange = exchange,
    .freeze = freeze,
    .abandon = abandon,
    .new_epoch = new_epoch,
    .settle_set = settle_set,
    .install = install,
    .stay = stay,
    .roll_back = roll_back,
    .set_up_over = set_up_over,
    .restored = restored,
    .region = &region,
    .name = "witness",
    .words = words,
    .save = save,
    .load = load };
