/* Payloads: the sender-based log, unexpected messages, the set-up log, channels, suppression.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOG_PAYLOAD_H
#define FTK_LOG_PAYLOAD_H

#include <mpi.h>

#include "envelope.h"

struct ftkit_ctx;

/* ---- logged and unexpected messages -------------------------------------------------- */

/* A message in the sender-based log; its bytes follow. */
struct ftk_entry {
    struct ftk_entry *next; /* to the same rank, in the order of sending */
    MPI_Request real;       /* the MPI's, while it sends; or MPI_REQUEST_NULL */
    uint64_t hash;
    size_t bytes;
    int context, tag;
    bool sync;
    bool unsent; /* its request is held back */
    uint64_t
        *deps; /* [deps_words] dependency vector, sent before it (determinant/depend.c), or NULL */
    size_t deps_words;
};
static inline char *ftk_entry_data(struct ftk_entry *e)
{
    return (char *)(e + 1);
}

/* An unexpected message: it has arrived, and the program has not received it yet. */
struct ftk_unexp {
    struct ftk_unexp *next;   /* in the order of arrival */
    int context, source, tag; /* source: rank of the world */
    size_t bytes;
    char *data;   /* [bytes], owned */
    uint64_t seq; /* in the set-up log: sequence number of its receive */
    struct ftk_deps
        *deps;    /* dependency vector that came before it (determinant/depend.c), owned; or NULL */
    bool delayed; /* once it was not deliverable */
    int number;   /* of a matched message: its handle in Fortran */
    int rank;     /* of a matched message: its source in its communicator */
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
    uint64_t at_line;                 /* count at the line of the set that is being written */
    struct ftk_reception *receptions; /* [count] in the order of seq, [room] are allocated */
    size_t room;
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

/* A message that completed while receives posted earlier had not (see recovery.c). */
struct ftk_early {
    uint64_t seq;
    uint64_t posted_seq; /* the latest sequence number when it was seen */
    int context, source, tag;
};

struct ftk_table { /* open addressing over (context, rank, tag) */
    int *slot;     /* [cap] index + 1, 0: empty */
    size_t cap, n;
};

/* The sender-based log. */
struct ftk_slog {
    struct ftk_entry **first, **last; /* [n] entries to each rank, since the line */
    size_t bytes;                     /* of all entries, with their dependency vectors */
    uint64_t spilled;                 /* bytes of files that the log has taken */
};

struct ftk_unexp_list {
    struct ftk_unexp *first, *last;
    size_t n;
};

struct ftk_channels {
    struct ftk_channel *v; /* [table.n] */
    struct ftk_table table;
};

struct ftk_suppress_list {
    struct ftk_suppress *v; /* [table.n] */
    struct ftk_table table;
};

struct ftk_early_list {
    struct ftk_early *v; /* [n] */
    size_t n, room;
};

/* ---- payload/: the sender-based log, unexpected messages, channels ------------------- */

struct ftk_entry *ftk_slog_new(int dest, int context, int tag, size_t bytes);
uint64_t *ftk_slog_words(size_t n); /* live as long as the entries; NULL: no memory */
void ftk_slog_drop_last(int dest);  /* the last entry to dest, which could not be sent */
void ftk_slog_clear(void);          /* a line is committed, or this rank rolls back to it */
int64_t ftk_slog_calls_left(const struct ftkit_ctx *ctx, bool emptied); /* log_ops.h: calls_left */
void ftk_unexp_add(struct ftk_unexp *h);
struct ftk_unexp *ftk_unexp_new(int context, int source, int tag, size_t bytes);
/* The first message that matches; taken out of the list if take is true. */
struct ftk_unexp *ftk_unexp_match(const struct ftk_envelope *want, bool take);
void ftk_unexp_take(struct ftk_unexp *h); /* out of the list */
void ftk_unexp_free(struct ftk_unexp *h);
void ftk_unexp_clear(void);
void ftk_setup_log_add(struct ftk_unexp *h);
void ftk_setup_log_clear(void);
/* Messages that the program has matched (MPI_Mprobe) and not received yet; the list owns them. */
#define FTK_HANDLES_FROM (1 << 30) /* handles in Fortran: those of the MPI are smaller numbers */
void ftk_matched_add(struct ftk_unexp *h);
struct ftk_unexp *ftk_matched_take(MPI_Message message); /* NULL: none of ours */
int ftk_matched_number(MPI_Message message);             /* -1: none of ours */
struct ftk_unexp *ftk_matched_numbered(int number);      /* NULL: none has it */
const struct ftk_unexp *ftk_matched_first(void);         /* the list of them, by next */
/* One of a set: h->number is its number. */
void ftk_matched_back(struct ftk_unexp *h);
void ftk_matched_clear(void);
struct ftk_channel *ftk_channel_find(int context, int source, int tag); /* NULL: no memory */
/* Count a delivery; the hash is compared when the message is sent again. */
int ftk_channel_count(struct ftk_channel *s, uint64_t seq, uint64_t hash);
size_t ftk_channel_bytes(void); /* memory of all channels */
void ftk_channel_clear(void);
void ftk_channel_line(void);  /* the line is here, if its set is committed */
void ftk_channel_shift(void); /* it is committed: receptions before the line count no more */
struct ftk_suppress *ftk_suppress_find(int context, int dest, int tag);
int ftk_suppress_add(const struct ftk_suppress *m); /* takes hole and hash */
/* Whether a message in the context is left that a receiver has, and that this rank has not sent
 * again. */
bool ftk_suppress_left(int context);
void ftk_suppress_clear(void);
void ftk_suppress_drop(const bool *back); /* entries towards ranks that roll back themselves */

#endif
