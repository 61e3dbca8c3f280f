/* Teams that keep no messages: log.silent.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Teams whose members keep no message are the "non-loggers" of E. Meneses (thesis, 2013, A.2).  A
 * silent team rolls back with every team to which it has sent a message since the line.  So it
 * sends these messages again, and nobody else has to.  Each rank of a silent team notes to which
 * teams it has sent.  The census of a repair has these notes, and the plan closes the set of teams
 * that roll back over them (recover/plan_silent.c).
 *
 * A rank that has not seen the commit of a set notes since the line before: it rolls back where it
 * need not, and never stays where it must not.  All else is as for other teams: receivers count the
 * messages, and a replay does not send again what a staying team has. */
#include "log/base/part.h"
#include "log/recovery/recovery.h"

bool ftk_silent_sent_to(uint64_t *teams)
{
    const struct ftk_log *l = &ftk_log;
    if (!l->silent || !l->silent[l->me])
        return false;
    for (int i = 0, n = ftk_peers_count(); i < n; i++) {
        const int r = ftk_peers_rank(i), team = l->team[r];
        if (ftk_peer(r)->unkept)
            teams[team / 64] |= (uint64_t)1 << (team % 64);
    }
    return true;
}

/* ---- the part ------------------------------------------------------------------------ */

static int cut(bool apart)
{
    (void)apart;
    for (int i = 0, n = ftk_peers_count(); i < n; i++)
        ftk_peer(ftk_peers_rank(i))->unkept_since_cut = false;
    return FTKIT_OK;
}

static void pass_line(enum ftk_pass kind, bool first)
{
    (void)kind;
    (void)first;
    for (int i = 0, n = ftk_peers_count(); i < n; i++) {
        struct ftk_peer *p = ftk_peer(ftk_peers_rank(i));
        p->unkept = p->unkept_since_cut;
    }
}

static int roll_back(const struct ftk_rollback *b)
{
    (void)b;
    for (int i = 0, n = ftk_peers_count(); i < n; i++) {
        struct ftk_peer *p = ftk_peer(ftk_peers_rank(i));
        p->unkept = p->unkept_since_cut = false;
    }
    return FTKIT_OK;
}

const struct ftk_part ftk_part_silent = { .cut = cut, .line = pass_line, .roll_back = roll_back };
