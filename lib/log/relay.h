/* News: determinants that are told to other nodes.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Determinants lie in shared memory of the node (det.h), which is enough while the node
 * lives.  With log.determinants = causal or pessimistic they also survive it, as long as one
 * node at a time is lost: whoever outside the node has a message that depends on them has
 * them, too, or somebody keeps them for all.
 *
 * causal: a message that leaves the node is preceded, on the same communicator, by what the
 * ranks of this node have seen decided and its receiver has not been told yet.  The MPI keeps
 * them in this order, so who has the message has the news.  Nothing waits.
 * (Elnozahy & Zwaenepoel, IEEE Trans. Comput. 41(5), 1992; Meneses, Ni & Kalé, FTXS 2012, for
 * the shared memory of a node.)
 *
 * pessimistic: a message that leaves the node is held back until what the ranks of this node
 * have seen decided is kept by a rank of another node, which says so.  What comes together is
 * told together, in rounds.  (Bouteiller et al., IJHPCA 20(3), 2006.)
 *
 * A repair tells everything again, to keepers of the new epoch, before anybody agrees to it. */
#ifndef FTK_LOG_NEWS_H
#define FTK_LOG_NEWS_H

#include "core/log_ops.h"
#include "log/det.h"

/* Do letters travel among messages (also those of gate.h), do they go to keepers?
 * ftk_log.tells: any of determinants at all. */
bool ftk_news_in_band(void);
bool ftk_news_kept(void);
void ftk_news_close(void);

/* A message goes out on a context: the news its receiver has to have before it.  MPI codes. */
int ftk_news_tell(int dest, int context);
static inline int ftk_news_before(int dest, int context)
{
    return ftk_log.tells ? ftk_news_tell(dest, context) : MPI_SUCCESS;
}
/* A message of that source has been received or found: so have the news before it. */
int ftk_news_take_all(int context, int source);
static inline int ftk_news_absorb(int context, int source)
{
    return ftk_log.tells ? ftk_news_take_all(context, source) : MPI_SUCCESS;
}
/* A letter that a probe has matched. */
int ftk_news_take(int context, MPI_Message *m, const MPI_Status *s);

/* Whether a send is held back; then it is let go by ftk_p2p_release(). */
bool ftk_news_hold_back(struct ftk_req *r);
static inline bool ftk_news_hold(struct ftk_req *r)
{
    return ftk_log.tells && ftk_news_hold_back(r);
}
bool ftk_news_holds_any(void);
bool ftk_news_holds(int dest); /* one to that rank */
void ftk_news_let(struct ftk_req *r);
static inline void ftk_news_unhold(struct ftk_req *r)
{
    if (r->waits)
        ftk_news_let(r);
}
/* Look after what has come, and after rounds. */
void ftk_news_look(void);
static inline void ftk_news_turn(void)
{
    if (ftk_log.tells)
        ftk_news_look();
}

/* In a repair, over its communicator: what the lost ranks of which nobody has the file had seen
 * decided since the line, of those that were told most; it is inherited then (det.h). */
int ftk_news_collect(const struct ftk_log_repair *r, uint64_t lines);
/* What this rank has seen decided is told to its keeper, but when nothing of it counts any
 * more. */
int ftk_news_spread(const struct ftk_log_repair *r, uint64_t lines, bool nothing);
/* Everybody has agreed. */
int ftk_news_install(const struct ftk_log_repair *r);

#endif
