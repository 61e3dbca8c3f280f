/* A part of the message log for tests/rooms.t: ranks send amounts to each other by control messages
 * that change the state of a set.  The state is, for each other rank, how many amounts have come
 * and gone, and their sums; and the amounts that wait for a look.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "log/base/control.h"
#include "log/base/plane.h"
#include "log/base/words.h"
#include "log/base/runtime.h"

int courier_post(int dest, uint64_t amount, size_t words, bool later);
int courier_wait(int source, uint64_t count);
void courier_account(int rank, uint64_t account[4]);

enum { CAME, CAME_SUM, GONE, GONE_SUM, ACCOUNT };
enum { TAG_AMOUNT = 1, TAG_LONG };

static struct {
    uint64_t (*v)[ACCOUNT]; /* [n] */
    int n;
    uint64_t again;           /* amounts that were posted while this rank replayed */
    struct ftk_words waiting; /* amounts that the next look sends: rank, amount, words */
} accounts;

enum { WAITING = 3 };

static int open_courier(int n)
{
    if (accounts.v)
        return FTKIT_OK;
    accounts.v = calloc((size_t)n, sizeof *accounts.v);
    accounts.n = n;
    return accounts.v ? FTKIT_OK : ftk_fail(FTKIT_ERR_NOMEM, "accounts");
}

static void close_courier(void)
{
    if (accounts.v)
        ftk_report(FTKIT_DEBUG,
            "context %s: rank %d: the courier has posted %llu amounts in replays",
            ftk_log.ctx->cfg.name, ftk_log.me, (unsigned long long)accounts.again);
    free(accounts.v);
    ftk_words_free(&accounts.waiting);
    memset(&accounts, 0, sizeof accounts);
}

/* An amount, and as many words as the sender wanted. */
static int take_amount(const struct ftk_control *c)
{
    (void)FTK_FAULT("courier.take");
    if (c->words < 2 || c->w[1] != c->words)
        return MPI_ERR_INTERN;
    accounts.v[c->source][CAME]++;
    accounts.v[c->source][CAME_SUM] += c->w[0];
    return MPI_SUCCESS;
}

static const struct ftk_control_kind amounts[] = {
    { .context = FTK_LOG_COURIER, .tag = TAG_AMOUNT, .handle = take_amount, .of_state = true },
    { .context = FTK_LOG_COURIER, .tag = TAG_LONG, .handle = take_amount, .of_state = true }
};

static int send_now(int dest, uint64_t amount, size_t words)
{
    uint64_t *w = calloc(words, sizeof *w);
    if (!w)
        return MPI_ERR_NO_MEM;
    w[0] = amount;
    w[1] = words;
    (void)FTK_FAULT("courier.post");
    const int rc =
        ftk_control_send(w, words, dest, words > 2 ? TAG_LONG : TAG_AMOUNT, FTK_LOG_COURIER);
    free(w);
    return rc;
}

/* A few amounts a look, while no set is written. */
static void progress(void)
{
    struct ftk_words *q = &accounts.waiting;
    for (int i = 0; i < 4 && q->n > 0; i++) {
        if (ftk_log_is_rolling_back() || ftk_log.ctx->detect.failed
            || send_now(ftk_log_from_plane((int)q->v[0]), q->v[1], (size_t)q->v[2]) != MPI_SUCCESS)
            return;
        q->n -= WAITING;
        memmove(q->v, q->v + WAITING, q->n * sizeof *q->v);
    }
}

static int roll_back(const struct ftk_rollback *b)
{
    (void)b;
    memset(accounts.v, 0, (size_t)accounts.n * sizeof *accounts.v);
    accounts.waiting.n = 0;
    return FTKIT_OK;
}

static size_t words(void)
{
    return (size_t)ftk_log_plane_size() * ACCOUNT + accounts.waiting.n;
}

static uint64_t *save(uint64_t *w)
{
    const size_t n = (size_t)ftk_log_plane_size() * ACCOUNT;
    memcpy(w, accounts.v, n * sizeof *w);
    return ftk_words_save(&accounts.waiting, w + n);
}

static int load(const struct ftk_section *in)
{
    const size_t n = (size_t)ftk_log_plane_size() * ACCOUNT, all = (size_t)(in->end - in->w);
    accounts.waiting.n = 0;
    if (all < n || (all - n) % WAITING != 0)
        return ftk_fail(FTKIT_ERR_FORMAT, "the accounts of a set are others");
    memcpy(accounts.v, in->w, n * sizeof *in->w);
    uint64_t *w = ftk_words_extend(&accounts.waiting, all - n);
    if (!w && all > n)
        return ftk_fail(FTKIT_ERR_NOMEM, "accounts");
    if (all > n)
        memcpy(w, in->w + n, (all - n) * sizeof *w);
    return FTKIT_OK;
}

const struct ftk_part ftk_part_courier = { .open = open_courier,
    .close = close_courier,
    .controls = amounts,
    .ncontrols = sizeof amounts / sizeof amounts[0],
    .progress = progress,
    .roll_back = roll_back,
    .name = "courier",
    .words = words,
    .save = save,
    .load = load };

/* ---- for the program ----------------------------------------------------------------------- */

/* later: a look of a wait sends it.  The order of posting is kept. */
int courier_post(int dest, uint64_t amount, size_t words, bool later)
{
    uint64_t *w = NULL;
    if (ftk_log_is_rolling_back())
        return ftk_log_error();
    if (later || accounts.waiting.n > 0) {
        w = ftk_words_extend(&accounts.waiting, WAITING);
        if (!w)
            return MPI_ERR_NO_MEM;
        w[0] = ftk_log_to_plane(dest);
        w[1] = amount;
        w[2] = words;
    }
    const int rc = w ? MPI_SUCCESS : send_now(dest, amount, words);
    if (rc != MPI_SUCCESS)
        return rc;
    accounts.again += ftk_log.phase != FTK_PHASE_NORMAL;
    accounts.v[dest][GONE]++;
    accounts.v[dest][GONE_SUM] += amount;
    return rc;
}

int courier_wait(int source, uint64_t count)
{
    unsigned turns = 0;
    int rc = MPI_SUCCESS;
    while (rc == MPI_SUCCESS && accounts.v[source][CAME] < count) {
        int found = 0;
        rc = ftk_log_progress(&turns);
        if (rc == MPI_SUCCESS && !ftk_log.ctx->detect.failed)
            (void)ftk_control_take(FTK_LOG_COURIER, source, &found); /* control.deaf */
    }
    return rc;
}

void courier_account(int rank, uint64_t account[4])
{
    memcpy(account, accounts.v[rank], sizeof accounts.v[rank]);
}
