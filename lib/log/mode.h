/* Modes of log.determinants: how a replay repeats the choices that MPI leaves open.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A mode is a table of functions.  The log calls them at the points below, and nothing else in the
 * log depends on the mode.  A function that is NULL does nothing.
 *
 * To add a mode: write one file in mode/ that defines `const struct ftk_det_mode
 * ftk_mode_<word>`, and add one line to core/det_modes.h. */
#ifndef FTK_LOG_MODE_H
#define FTK_LOG_MODE_H

#include "log/base/part.h"

struct ftk_det_mode {
    bool records;  /* determinants are recorded on the node, and repeated (det.h) */
    bool refuses;  /* a call whose outcome would be a determinant is an error */
    bool off_node; /* determinants survive the loss of one node */

    /* The mode as a part of the log.  controls: in band, or on FTK_LOG_DET_COMM.  roll_back:
     * without the determinants of this rank.  may_sleep: ftk_mode_stays_awake if other ranks wait
     * for answers of this rank. */
    struct ftk_part part;

    /* ---- a send; MPI codes ---- */

    /* A send begins; internal: of a collective. */
    void (*begin_send)(bool internal);
    /* Whether a small message to a rank of the world needs a request. */
    bool (*needs_request)(int world);
    /* A message gets a log entry. */
    int (*log_entry)(struct ftk_entry *e);
    /* A message is about to go out: send the control messages that come before it.  e: its log
     * entry, or NULL. */
    int (*before)(int dest, int context, int tag, const struct ftk_entry *e);
    /* Whether the send is held for stability: it is HELD then, and part.serve() releases it. */
    bool (*hold)(struct ftk_req *r);
    /* A HELD send is released, or has failed. */
    void (*unhold)(struct ftk_req *r);
    /* Whether any send is held. */
    bool (*holds_any)(void);

    /* ---- a message that comes; MPI codes ---- */

    /* A message of source has been received or found: receive the control messages before it. */
    int (*absorb)(int context, int source);
    /* A message has been drained. */
    int (*drained)(struct ftk_unexp *h);

    /* ---- delivery, while this rank replays without determinants; MPI codes ---- */

    /* Whether the mode delivers messages itself.  Then this rank posts no receives. */
    bool (*delivers)(void);
    /* One look for a message that the receive can have; the receive is complete if there is one. */
    int (*receive)(struct ftk_req *r);
    /* The same for a probe: *h stays in the list unless out is true; NULL: no message. */
    int (*probe)(const struct ftk_envelope *want, bool out, struct ftk_unexp **h);

    /* ---- replicas: one replica of a rank leads, the others follow (mode/lead.c) ---- */

    /* This rank has recorded determinants. */
    void (*recorded)(void);
    /* This rank waits in a call of ftkit. */
    void (*waits)(void);
    /* Whether this rank follows: it takes over the outcomes of another replica. */
    bool (*follows)(void);
    /* This rank needs an outcome that it has not got yet.  If it follows: one look, and whether to
     * look again; turns as for ftk_log_progress().  False: this rank decides, or rolls back. */
    bool (*await)(unsigned *turns);
    /* A receive is not posted until the leader announces its match. */
    void (*withheld)(void);
    /* This rank has received all messages for the set of this call of ftkit_checkpoint().  One look
     * whether it has all determinants before the set. */
    bool (*settled)(uint64_t call);

    /* ---- lines and failures; codes of ftkit ---- */

    /* Collective in a repair, over r->act: collect the determinants of lost ranks that no process
     * of their node can read.  lines: committed so far. */
    int (*collect)(const struct ftk_log_repair *r, uint64_t lines);
    /* Collective in a repair, over r->act: send the determinants of this rank since the line to
     * where they are safe.  nothing: all ranks roll back, and determinants do not count. */
    int (*replicate)(const struct ftk_log_repair *r, uint64_t lines, bool nothing);
};

/* The mode of a word of the configuration (enum ftk_determinants). */
const struct ftk_det_mode *ftk_mode_of(int dets);
struct ftk_config;
/* The mode of a context: lines apart and replicas have modes of their own. */
const struct ftk_det_mode *ftk_mode_for(const struct ftk_config *cfg);
/* The mode node, where lines are apart (mode/stop.c). */
extern const struct ftk_det_mode ftk_mode_node_apart;
/* The mode node, with replicas (mode/lead.c). */
extern const struct ftk_det_mode ftk_mode_node_led;

/* For part.may_sleep of a mode. */
static inline bool ftk_mode_stays_awake(void)
{
    return false;
}
static inline bool ftk_mode_follows(void)
{
    return ftk_log.mode->follows && ftk_log.mode->follows();
}
static inline bool ftk_mode_await(unsigned *turns)
{
    return ftk_log.mode->await && ftk_log.mode->await(turns);
}
static inline int ftk_mode_before(int dest, int context, int tag, const struct ftk_entry *e)
{
    const struct ftk_det_mode *m = ftk_log.mode;
    return m->before ? m->before(dest, context, tag, e) : MPI_SUCCESS;
}
static inline bool ftk_mode_hold(struct ftk_req *r)
{
    return ftk_log.mode->hold && ftk_log.mode->hold(r);
}
static inline void ftk_mode_unhold(struct ftk_req *r)
{
    if (r->state == FTK_REQ_HELD)
        ftk_log.mode->unhold(r);
}
static inline int ftk_mode_absorb(int context, int source)
{
    const struct ftk_det_mode *m = ftk_log.mode;
    return m->absorb ? m->absorb(context, source) : MPI_SUCCESS;
}
static inline int ftk_mode_drained(struct ftk_unexp *h)
{
    const struct ftk_det_mode *m = ftk_log.mode;
    return m->drained ? m->drained(h) : MPI_SUCCESS;
}
static inline bool ftk_mode_delivers(void)
{
    return ftk_log.mode->delivers && ftk_log.mode->delivers();
}

#endif
