/* Relay of determinants to other nodes.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Determinants are in shared memory of the node (det.h), which is enough while the node
 * lives.  With log.determinants = causal or pessimistic they also survive the loss of a node,
 * one node at a time: every process of another node that has a message which depends on a
 * determinant has the determinant, too, or a replica on another node has it.
 *
 * causal: before a message leaves the node, the sender sends to the receiver, on the same
 * communicator, all determinants of this node that the receiver has not got yet.  The MPI keeps
 * the order of the two, so the receiver of the message has the determinants.  No message waits.
 * (Elnozahy & Zwaenepoel, IEEE Trans. Comput. 41(5), 1992; Meneses, Ni & Kalé, FTXS 2012, for
 * the shared memory of a node.)
 *
 * pessimistic: a message that leaves the node is held back until the replica, a rank of
 * another node, has acknowledged all determinants of this node.  Determinants are sent in
 * rounds, so that several messages wait for one round.
 * (Bouteiller et al., IJHPCA 20(3), 2006.)
 *
 * A repair sends all determinants since the line again, to the replicas of the new epoch, before
 * the ranks agree on that epoch. */
#ifndef FTK_LOG_RELAY_H
#define FTK_LOG_RELAY_H

#include "core/log_ops.h"
#include "log/det.h"

/* Whether control messages travel among the program's messages: with log.determinants = causal,
 * and for dependency vectors (depend.h). */
bool ftk_relay_in_band(void);
/* Whether determinants go to replicas: with log.determinants = pessimistic.  ftk_log.relays is
 * true for causal and for pessimistic. */
bool ftk_relay_replicates(void);
void ftk_relay_close(void);

/* Call this before a message to dest goes out on a context: the function sends the determinants
 * that dest has to have first.  MPI codes. */
int ftk_relay_send(int dest, int context);
static inline int ftk_relay_before(int dest, int context)
{
    return ftk_log.relays ? ftk_relay_send(dest, context) : MPI_SUCCESS;
}
/* Call this when a message of source has been received or found: the function receives the
 * determinants that were sent before that message.  MPI codes. */
int ftk_relay_recv_all(int context, int source);
static inline int ftk_relay_absorb(int context, int source)
{
    return ftk_log.relays ? ftk_relay_recv_all(context, source) : MPI_SUCCESS;
}
/* Receive a control message that a matched probe has found.  MPI codes. */
int ftk_relay_recv(int context, MPI_Message *m, const MPI_Status *s);

/* Whether the send is held back.  Then ftk_p2p_release() sends it later. */
bool ftk_relay_must_hold(struct ftk_req *r);
static inline bool ftk_relay_hold(struct ftk_req *r)
{
    return ftk_log.relays && ftk_relay_must_hold(r);
}
/* Whether a send is held back: any, or one to dest. */
bool ftk_relay_holds_any(void);
bool ftk_relay_holds(int dest);
/* The send is not held back any more. */
void ftk_relay_let_go(struct ftk_req *r);
static inline void ftk_relay_unhold(struct ftk_req *r)
{
    if (r->state == FTK_REQ_HELD)
        ftk_relay_let_go(r);
}
/* Receive what replicas and their clients have sent, release sends, begin a round. */
void ftk_relay_poll(void);
static inline void ftk_relay_progress(void)
{
    if (ftk_log.relays)
        ftk_relay_poll();
}

/* Collective in a repair, over r->act: collect the determinants of lost ranks that no process
 * of their node can read.  The member that has most of a rank's determinants sends them to all;
 * they are adopted then (det.h). */
int ftk_relay_collect(const struct ftk_log_repair *r, uint64_t lines);
/* Collective in a repair, over r->act: send the determinants of this rank since the line to its
 * replica; nothing: all ranks roll back, and determinants do not count. */
int ftk_relay_replicate(const struct ftk_log_repair *r, uint64_t lines, bool nothing);
/* The ranks have agreed on the epoch. */
int ftk_relay_install(const struct ftk_log_repair *r);

#endif
