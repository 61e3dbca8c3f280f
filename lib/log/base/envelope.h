/* Contexts and envelopes: how messages of different communicators and tags are kept apart.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOG_ENVELOPE_H
#define FTK_LOG_ENVELOPE_H

#include "core/ftk.h"
#include "log/base/own_comms.h"

#define FTK_LOG_CONTEXTS 64 /* plain contexts, at most; log.contexts of them are made */
/* Communicators of the MPI behind the contexts: one for each plain context, one for collectives,
 * and one for all contexts from FTK_LOG_EXTRA on.  These have messages of the program.  Then come
 * those of own_comms.h. */
enum {
    FTK_LOG_COLLS = FTK_LOG_CONTEXTS,
    FTK_LOG_SHARED,
    FTK_LOG_PROGRAM_COMMS,
    FTK_LOG_BEFORE_OWN = FTK_LOG_PROGRAM_COMMS - 1,
#define FTK_OWN_COMM(name) FTK_LOG_##name,
    FTK_LOG_OWN_COMMS(FTK_OWN_COMM)
#undef FTK_OWN_COMM
        FTK_LOG_COMMS
};
#define FTK_LOG_EXTRA 128   /* the first context that shares its communicator */
#define FTK_LOG_EXTRAS 2047 /* how many of these there are */
#define FTK_LOG_ALL (FTK_LOG_EXTRA + FTK_LOG_EXTRAS)
_Static_assert(FTK_LOG_COMMS <= FTK_LOG_EXTRA, "the contexts are different numbers");
#define FTK_TAG_BITS 20                       /* bits of a tag that they leave to the program */
#define FTK_TAG_MAX ((1 << FTK_TAG_BITS) - 1) /* MPI_TAG_UB of the program */
#define FTK_COLL_INIT (UINT64_C(1) << 40)
#define FTK_COLL_SLOTS 64 /* collectives of a communicator that can send at once */

/* ---- contexts ------------------------------------------------------------------------ */

static inline bool ftk_context_shares(int context)
{
    return context >= FTK_LOG_EXTRA;
}
/* The communicator behind a context, as an index of ftk_log.epoch.real. */
static inline int ftk_context_comm(int context)
{
    return ftk_context_shares(context) ? FTK_LOG_SHARED : context;
}
/* Messages are counted in one sum for all contexts of the program, and apart for each other
 * context.  Of a context: the number of its counters (peers.h). */
enum {
    FTK_COUNT_PROGRAM,
    FTK_COUNT_OWN,
    FTK_COUNTS = FTK_COUNT_OWN + FTK_LOG_COMMS - FTK_LOG_PROGRAM_COMMS
};
static inline int ftk_context_counter(int context)
{
    const unsigned own = (unsigned)(context - FTK_LOG_PROGRAM_COMMS);
    return own < FTK_LOG_COMMS - FTK_LOG_PROGRAM_COMMS ? FTK_COUNT_OWN + (int)own
                                                       : FTK_COUNT_PROGRAM;
}
/* The tag that a message has on that communicator; from such a tag: the program's tag, and the
 * context. */
static inline int ftk_context_wire(int context, int tag)
{
    return ftk_context_shares(context) ? (context - FTK_LOG_EXTRA) << FTK_TAG_BITS | tag : tag;
}
static inline int ftk_context_tag(int context, int wire)
{
    return ftk_context_shares(context) ? wire & FTK_TAG_MAX : wire;
}
static inline int ftk_context_of(int channel, int wire)
{
    return channel == FTK_LOG_SHARED ? FTK_LOG_EXTRA + (wire >> FTK_TAG_BITS) : channel;
}
/* Whether a communicator can have this context. */
static inline bool ftk_context_is_one(uint64_t context)
{
    return context < FTK_LOG_CONTEXTS || (context >= FTK_LOG_EXTRA && context < FTK_LOG_ALL);
}

/* A set of contexts. */
struct ftk_contexts {
    uint64_t word[FTK_LOG_ALL / 64 + 1]; /* word[0]: the plain contexts */
};
static inline bool ftk_contexts_has(const struct ftk_contexts *s, int context)
{
    return s->word[context / 64] >> context % 64 & 1;
}
static inline void ftk_contexts_add(struct ftk_contexts *s, int context)
{
    s->word[context / 64] |= UINT64_C(1) << context % 64;
}

/* ---- envelopes --------------------------------------------------------------------------
 * The envelope of a message, or of what a receive or a probe asks for: then source and tag may be
 * wildcards.  Source: rank of the world.  [MPI 3.2.3] */

struct ftk_envelope {
    int context, source, tag;
};

/* Whether both can be the envelope of one message.  The only place that knows the rules of
 * matching. */
static inline bool ftk_envelope_matches(const struct ftk_envelope *a, const struct ftk_envelope *b)
{
    return a->context == b->context
           && (a->source == b->source || a->source == MPI_ANY_SOURCE || b->source == MPI_ANY_SOURCE)
           && (a->tag == b->tag || a->tag == MPI_ANY_TAG || b->tag == MPI_ANY_TAG);
}

#endif
