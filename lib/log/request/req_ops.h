/* What the log asks of each kind of request.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Sends and receives are messages.  They alone are in ftk_log.queue while they are under way, and a
 * failure takes them from the MPI.  A request of another kind goes on when the program waits for
 * it or tests it.  A kind that has to go on in other waits, too, needs a list of its own and a part
 * of the log (part.h).  The state of a request may be in `own`, which is freed with the request.
 *
 * A function that is NULL does nothing, unless its comment says otherwise. */
#ifndef FTK_LOG_REQ_OPS_H
#define FTK_LOG_REQ_OPS_H

#include "log/log.h"
#include "log/base/saved.h"

struct ftk_req_ops {
    /* A complete request still needs its datatype: a set finds its memory by the datatype. */
    bool keeps_type;

    /* ---- the life of a request; MPI codes ---- */

    /* MPI_Start: a persistent request at rest begins.  Needed by kinds with persistent requests. */
    int (*start)(struct ftk_req *r);
    /* One look at a request under way; ftk_req_finish() when it is complete.  While this rank rolls
     * back, a request that is still under way after the look ends with ftk_log_error().  Needed,
     * unless the kind is a message. */
    int (*progress)(struct ftk_req *r);
    /* A failure has taken a message from the MPI: the state in which the message waits for the
     * repair.  Needed by messages. */
    enum ftk_req_state (*taken)(const struct ftk_req *r);
    /* The program cancels the request, complete or not. */
    int (*cancel)(struct ftk_req *r);
    /* The program frees a request that is complete or at rest: free what the kind keeps for it. */
    void (*free)(struct ftk_req *r);
    /* What the request is, for messages of the library.  Needed.  Of collectives: also what the
     * collective is that a message belongs to (request.h: coll). */
    void (*describe)(const struct ftk_req *r, char *text, size_t room);

    /* ---- the request in a set (recovery/requests.c); codes of ftkit ---- */

    /* A request under way counts as complete at a line: its message has been drained. */
    bool ends_at_line;
    /* Why a set cannot have the request; NULL: it can. */
    const char *(*unfit)(const struct ftk_req *r);
    /* Write what the kind knows: change head [FTK_HEAD_WORDS], which has the rest, and append
     * words.  An error names the request: ftk_saved_refuse(). */
    int (*save)(struct ftk_saving *s, const struct ftk_req *r, uint64_t *head);
    /* Whether the head can be one of this kind.  Nothing is trusted. */
    bool (*sane)(const uint64_t *head);
    /* Whether r, a persistent request of this process, has the arguments of the head. */
    bool (*same)(const struct ftk_req *r, const uint64_t *head);
    /* Read what save() has written.  known: r is a persistent request of this process, at rest.
     * Otherwise r is new and has what all kinds have; after an error free() is called.  *rest:
     * memory for resume(), from malloc(); the caller frees it. */
    int (*load)(
        struct ftk_loading *l, struct ftk_req *r, const uint64_t *head, bool known, void **rest);
    /* A persistent request that set-up has started comes to rest: no call waits for it.  A request
     * that is under way afterwards ends with an error. */
    void (*halt)(struct ftk_req *r);
    /* The request was under way at the line, and goes on from there.  Needed by kinds that are not
     * always complete at a line. */
    void (*resume)(struct ftk_req *r, const void *rest);
};

#define FTK_DECLARE_REQ_KIND(NAME, word) extern const struct ftk_req_ops ftk_req_kind_##word;
FTK_REQ_KINDS(FTK_DECLARE_REQ_KIND)
#undef FTK_DECLARE_REQ_KIND

/* ---- request/saved.c: for kinds in a set ----------------------------------------------- */

/* Whether a request is complete at the line.  At a cut a send counts as complete: its message is in
 * the set of its receiver, or comes there as a late message. */
bool ftk_saved_is_complete(const struct ftk_req *r);
/* An error of ftkit_checkpoint() that names the request; why: a sentence. */
int ftk_saved_refuse(const struct ftk_req *r, int code, const char *why);
/* ... because its memory, the bytes [low, end) of p, is in no region. */
int ftk_saved_nowhere(const struct ftkit_ctx *ctx, const struct ftk_req *r, const char *p,
    ptrdiff_t low, ptrdiff_t end);

static inline const struct ftk_req_ops *ftk_req_ops_of(const struct ftk_req *r)
{
    return ftk_log.kinds[r->kind];
}

#endif
