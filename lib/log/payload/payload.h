/* Payloads: the sender-based log, unexpected messages, the set-up log, channels, suppression.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOG_PAYLOAD_H
#define FTK_LOG_PAYLOAD_H

#include <mpi.h>

#include "log/base/envelope.h"

struct ftk_message;
struct ftkit_ctx;

/* ---- logged and unexpected messages -------------------------------------------------- */

/* A message in the sender-based log; its bytes follow, or those of struct ftk_away. */
struct ftk_entry {
    struct ftk_entry *next; /* to the same rank, in the order of sending */
    MPI_Request real;       /* the MPI's, while it sends; or MPI_REQUEST_NULL */
    uint64_t hash;          /* of the bytes, 0: not known */
    size_t bytes;
    int context, tag;
    bool sync;
    bool unsent;         /* its request is held back */
    bool away;           /* its bytes are elsewhere: FTK_AWAY of them, or more */
    uint32_t generation; /* cuts of this rank before it */
    uint64_t *deps; /* [deps_words] dependency vector, sent before it (mode/depend.c), or NULL */
    size_t deps_words;
};

#define FTK_AWAY 1024 /* bytes of a message that may share them with others */

/* Behind an entry: where its bytes are. */
struct ftk_away {
    char *data; /* [bytes], of this entry and of others (payload/same.c), or in memory of the
                   program (payload/range.c); NULL: not kept yet */
    struct ftk_entry *next; /* of those that point into the same range */
    int dest;               /* of an entry that points into a range */
};
static inline struct ftk_away *ftk_entry_away(struct ftk_entry *e)
{
    return (struct ftk_away *)(void *)(e + 1);
}
static inline char *ftk_entry_data(struct ftk_entry *e)
{
    return e->away ? ftk_entry_away(e)->data : (char *)(e + 1);
}

/* An unexpected message: it has arrived, and the program has not received it yet. */
struct ftk_unexp {
    struct ftk_unexp *next;   /* in the order of arrival */
    int context, source, tag; /* source: rank of the world */
    uint32_t receive; /* in the set-up log: number of its receive (set_up.h); 0: of a collective, a
                         matched probe or a value */
    size_t bytes;
    char *data;   /* [bytes], owned */
    uint64_t seq; /* in the set-up log: sequence number of its receive */
    struct ftk_deps
        *deps;    /* dependency vector that came before it (mode/depend.c), owned; or NULL */
    bool delayed; /* once it was not deliverable */
    int number;   /* of a matched message: its handle in Fortran */
    int rank;     /* of a matched message: its source in its communicator */
    struct ftk_vcomm *vc; /* of a matched message: kept until the program receives it */
};

static inline bool ftk_unexp_is_for(const struct ftk_unexp *h, const struct ftk_envelope *want)
{
    const struct ftk_envelope of = { h->context, h->source, h->tag };
    return ftk_envelope_matches(want, &of);
}

/* The messages delivered since the line on a channel (context, source, tag) from another team.
 * Receives match the messages of a channel in the order of posting, but may complete in another
 * order. */
struct ftk_reception {
    uint64_t seq;  /* of the receive */
    uint64_t hash; /* 0: not known */
};
struct ftk_channel {
    int context, source, tag;
    uint64_t count;
    uint64_t
        at_line; /* count at the line, or at this rank's cut, of the set that is being written */
    uint64_t at_cut; /* line apart: how many messages the sender had sent at its cut of that set */
    struct ftk_reception *receptions; /* [count] in the order of seq, [room] are allocated */
    size_t room;
};

/* Line apart: the messages that this rank has sent on a channel (context, dest, tag) since its cut
 * of the line. */
struct ftk_sent {
    int context, dest, tag;
    uint64_t count;
    uint64_t at_cut;     /* count at the cut of the set that is being written */
    uint64_t early;      /* the first messages since the cut of the line: the receiver had them at
                            its own cut of the line */
    uint64_t next_early; /* the same for the set that is being written */
    uint64_t passed;     /* entries that a resend has looked at */
};

/* The messages of a channel that need not be sent again: the receiver has them. */
struct ftk_suppress {
    int context, dest, tag;
    uint64_t next; /* number of the next message, from 1 */
    uint64_t upto; /* the receiver has the messages up to this number ... */
    uint64_t *gap; /* [ngaps] ... except these, rising */
    int ngaps;
    uint64_t *hash; /* [upto] of their bytes; NULL: not known */
};

/* ---- payload/: the sender-based log, unexpected messages, channels ------------------- */

/* A new entry, behind the others to dest (struct ftk_peer), without its bytes.  NULL: no memory. */
struct ftk_entry *ftk_slog_new(int dest, int context, int tag, size_t bytes);
/* payload/same.c.  Keep the bytes of an entry: count items of a type.  MPI codes. */
int ftk_slog_keep(struct ftk_entry *e, const void *buf, int count, MPI_Datatype type);
/* Whether there is memory for so many bytes: then the next ftk_slog_keep() finds it. */
bool ftk_slog_reserve(size_t bytes);
/* Until the next call: sends of the collective between two fences, which have one number.  Messages
 * of one buffer have the same bytes.  0: other sends. */
void ftk_slog_fence(uint64_t number);
uint32_t ftk_slog_generation(void); /* of new entries: cuts of this rank so far */
void *ftk_slog_room(size_t bytes);  /* lives as long as the entries; NULL: no memory */
void ftk_slog_drop_last(int dest);  /* the last entry to dest, which could not be sent */
/* payload/messages.c.  If replicas compare their messages: note the hash of an entry whose bytes
 * are in place. */
void ftk_slog_seal(struct ftk_entry *e);
bool ftk_slog_is_intact(struct ftk_entry *e); /* also an entry without a hash */
uint64_t ftk_slog_sum(void);                  /* log_ops.h: messages_sum */
int ftk_slog_list(struct ftk_message **list, size_t *n);
int64_t ftk_slog_calls_left(const struct ftkit_ctx *ctx, bool emptied); /* log_ops.h: calls_left */
struct ftk_unexp *ftk_unexp_first(void); /* the list of them, by next */
void ftk_unexp_add(struct ftk_unexp *h);
struct ftk_unexp *ftk_unexp_new(int context, int source, int tag, size_t bytes);
/* The first message that matches; taken out of the list if take is true. */
struct ftk_unexp *ftk_unexp_match(const struct ftk_envelope *want, bool take);
/* In a replay of set-up: the first one that matches, and that belongs to the receive with that
 * number. */
struct ftk_unexp *ftk_unexp_of_receive(const struct ftk_envelope *want, uint32_t receive);
void ftk_unexp_take(struct ftk_unexp *h); /* out of the list */
/* A receive that had this message gets none: the message comes before all others of its channel. */
void ftk_unexp_return(struct ftk_unexp *h);
void ftk_unexp_free(struct ftk_unexp *h);
void ftk_unexp_clear(void);
/* Lists of messages in a set: their words; write them, to the address behind them; read
 * them, give each message to add().  pass(): the address behind n messages, NULL: they are cut
 * short. */
size_t ftk_messages_words(const struct ftk_unexp *h);
uint64_t *ftk_messages_write(uint64_t *w, const struct ftk_unexp *h);
int ftk_messages_read(const uint64_t *w, const uint64_t *end, void (*add)(struct ftk_unexp *h));
const uint64_t *ftk_messages_pass(const uint64_t *w, const uint64_t *end, uint64_t n);
/* Messages received before ftkit_recover(), in the order of their receives; a replacement is served
 * from them. */
const struct ftk_unexp *ftk_setup_log_first(void);
void ftk_setup_log_add(struct ftk_unexp *h);
void ftk_setup_log_clear(void);
/* Messages that the program has matched (MPI_Mprobe) and not received yet; the list owns them. */
#define FTK_HANDLES_FROM (1 << 30) /* handles in Fortran: those of the MPI are smaller numbers */
void ftk_matched_add(struct ftk_unexp *h, struct ftk_vcomm *vc);
struct ftk_unexp *ftk_matched_take(MPI_Message message); /* NULL: none of ours */
int ftk_matched_number(MPI_Message message);             /* -1: none of ours */
struct ftk_unexp *ftk_matched_numbered(int number);      /* NULL: none has it */
const struct ftk_unexp *ftk_matched_first(void);         /* the list of them, by next */
/* One of a set: h->number is its number. */
void ftk_matched_back(struct ftk_unexp *h, struct ftk_vcomm *vc);
void ftk_matched_clear(void);
struct ftk_channel *ftk_channel_find(int context, int source, int tag); /* NULL: no memory */
/* Count a delivery; the hash is compared when the message is sent again. */
int ftk_channel_count(struct ftk_channel *s, uint64_t seq, uint64_t hash);
size_t ftk_channel_bytes(void); /* memory of all channels */
/* All channels, in any order; a new channel may move them. */
size_t ftk_channels_count(void);
const struct ftk_channel *ftk_channel_at(size_t i);
/* Line apart: after a restore this rank has the first n messages since the sender's cut. */
int ftk_channel_has(int context, int source, int tag, uint64_t n);
/* The place of a reception with a sequence number among those of its channel, from 0. */
uint64_t ftk_channel_place(const struct ftk_channel *s, uint64_t seq);
/* Line apart, when the sender has announced its number: early messages of the channel. */
static inline uint64_t ftk_channel_early(const struct ftk_channel *s)
{
    return s->at_line > s->at_cut ? s->at_line - s->at_cut : 0;
}

/* Line apart: count a message that is sent; NULL: no memory. */
struct ftk_sent *ftk_sent_find(int context, int dest, int tag);
size_t ftk_sent_count(void);
const struct ftk_sent *ftk_sent_at(size_t i);
/* Whether the resend of a log entry passes over it: its receiver had it at its cut of the line.
 * Entries come in their order; ftk_sent_resend() begins. */
void ftk_sent_resend(void);
bool ftk_sent_was_early(int dest, const struct ftk_entry *e);
struct ftk_suppress *ftk_suppress_find(int context, int dest, int tag);
int ftk_suppress_add(const struct ftk_suppress *m); /* takes hole and hash */
/* Whether a message in the context is left that a receiver has, and that this rank has not sent
 * again. */
bool ftk_suppress_left(int context);
/* The same in any context. */
bool ftk_suppress_any_left(void);
/* Ranks roll back, and forget.  Line apart: they have the early messages of the line all the
 * same. */
void ftk_suppress_drop(const bool *back);

/* Copy a drained message, which a receive of set-up gets, to the set-up log; seq: of the receive;
 * number: of the receive in set-up (set_up.h), or 0. */
int ftk_setup_log_keep(const struct ftk_unexp *h, uint64_t seq, uint32_t number);

/* ---- line apart: late messages, which were sent before the cut of the sender and received after
 * the cut of the receiver (payload/late.c) ---- */

/* A message has been received while a set is open: keep a copy if it may be late.  data [bytes].
 * MPI codes. */
int ftk_late_received(const struct ftk_channel *s, uint64_t seq, const void *data, size_t bytes);
/* Whether ftk_late_received() would keep a copy. */
bool ftk_late_wants(const struct ftk_channel *s, uint64_t seq);
/* All senders have announced their numbers, and all late messages have come: drop the copies of
 * other messages; *late: the late ones, in the order of their receives, until the set is over.
 * FTKIT_ERR_NOMEM: the copies stay as they are. */
int ftk_late_finish(const struct ftk_unexp **late);
size_t ftk_late_count(void);

#endif
