/* The log entries as messages that replicas compare (replicas.compare = messages).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A rank that goes back logs its messages again, also those that are suppressed.  So the log always
 * has the messages since the line that the program has sent to other teams, and only their order
 * between channels can be another one in each replica. */
#include <stdlib.h>

#include "core/hash.h"
#include "log/base/plane.h"
#include "log/base/runtime.h"

void ftk_slog_seal(struct ftk_entry *e)
{
    if (ftk_log.ctx->cfg.replica_compare != FTK_COMPARED_MESSAGES)
        return;
    e->hash = ftk_log_hash(ftk_entry_data(e), e->bytes);
}

bool ftk_slog_is_intact(struct ftk_entry *e)
{
    return e->hash == 0 || ftk_log_hash(ftk_entry_data(e), e->bytes) == e->hash;
}

static struct ftk_message message_of(int dest, const struct ftk_entry *e)
{
    return (struct ftk_message){ .dest = (int)ftk_log_to_plane(dest),
        .context = e->context,
        .tag = e->tag,
        .collective = e->context == FTK_LOG_COLLS,
        .bytes = e->bytes,
        .hash = e->hash };
}

uint64_t ftk_slog_sum(void)
{
    uint64_t sum = 0;
    for (int i = 0, n = ftk_peers_count(); i < n; i++) {
        const int d = ftk_peers_rank(i);
        for (const struct ftk_entry *e = ftk_peer(d)->first; e; e = e->next) {
            const struct ftk_message m = message_of(d, e);
            sum += ftk_xxh3(&m, sizeof m);
        }
    }
    return sum;
}

static int by_order(const void *a, const void *b)
{
    return ftk_messages_order(a, b);
}

/* Count the messages of each channel: first number has the place of the entry in the log. */
static void number(struct ftk_message *v, size_t n)
{
    qsort(v, n, sizeof *v, by_order);
    for (size_t i = 0; i < n; i++) {
        struct ftk_message next = v[i];
        next.number = i > 0 ? v[i - 1].number + 1 : 1;
        const bool same = i > 0 && next.dest == v[i - 1].dest && next.context == v[i - 1].context
                          && next.tag == v[i - 1].tag;
        v[i].number = same ? next.number : 1;
    }
}

int ftk_slog_list(struct ftk_message **list, size_t *n)
{
    size_t count = 0;
    const int peers = ftk_peers_count();
    for (int i = 0; i < peers; i++)
        for (const struct ftk_entry *e = ftk_peer(ftk_peers_rank(i))->first; e; e = e->next)
            count++;
    struct ftk_message *all = malloc((count + 1) * sizeof *all);
    if (!all)
        return ftk_fail(FTKIT_ERR_NOMEM, "comparing messages");
    size_t at = 0;
    for (int i = 0; i < peers; i++) {
        const int d = ftk_peers_rank(i);
        for (const struct ftk_entry *e = ftk_peer(d)->first; e; e = e->next, at++) {
            all[at] = message_of(d, e);
            all[at].number = at;
        }
    }
    number(all, count);
    *list = all;
    *n = count;
    return FTKIT_OK;
}
