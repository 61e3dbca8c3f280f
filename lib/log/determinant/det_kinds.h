/* The kinds of determinants, one line each.  To add a kind: one line at the end, and one file that
 * defines `const struct ftk_det_kind ftk_det_kind_<word>`.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The place of a line is the number of the kind in sets, in messages and in the files of
 * determinants, so the lines keep their places. */
#ifndef FTK_LOG_DET_KINDS_H
#define FTK_LOG_DET_KINDS_H

#include "log/log.h"

#define FTK_DET_KINDS(X)                                                                           \
    X(RECV, recv)     /* a wildcard receive: a: source (of the world), b: tag, or any */           \
    X(PROBE, probe)   /* a probe: the same */                                                      \
    X(TEST, test)     /* a test, or a wait for one of several requests: a: index */                \
    X(SOME, some)     /* MPI_Waitsome, MPI_Testsome: a MORE follow, whose a are the indices */     \
    X(MORE, more)     /* contents of the determinant before */                                     \
    X(NONE, none)     /* n probes or tests in a row failed before a message was sent */            \
    X(CANCEL, cancel) /* of a receive: a = 1: it was cancelled; a = 0: too late */                 \
    X(VALUE, value)   /* of ftkit_decide(): a MORE follow, with its b bytes */                     \
    X(WIN, win)       /* MPI_Win_test: the exposure has ended */                                   \
    X(TAG, tag)       /* a receive of any tag that names its source: a: source, b: tag */          \
    X(PROBED, probed) /* a blocking probe of any tag that names its source: the same */

#define FTK_DET_NUMBER(NAME, word) FTK_DET_##NAME,
enum { FTK_DET_UNKNOWN, FTK_DET_KINDS(FTK_DET_NUMBER) FTK_DET_NKINDS };
#undef FTK_DET_NUMBER

struct ftk_det {
    uint32_t kind; /* FTK_DET_ */
    uint32_t n;    /* see enum ftk_det_count; of MORE: contents */
    int32_t a, b;
};

/* What n counts. */
enum ftk_det_count {
    FTK_DET_CALLS,     /* calls that failed before this one: the kind is the outcome of a call */
    FTK_DET_WILDCARDS, /* number of the wildcard receive, from 1 */
    FTK_DET_RECEIVES,  /* number of the receive among all receives of the program, from 1 */
    FTK_DET_PROBES,    /* number of the probe among the blocking ones that name their source and any
                          tag, from 1 */
    FTK_DET_COUNTS
};

/* Who keeps an outcome of set-up in the record of set-up (set_up.h). */
enum ftk_det_keeper {
    FTK_DET_KEPT_NOT,    /* the record does not have it */
    FTK_DET_KEPT,        /* ftk_det_found() and ftk_det_next() do */
    FTK_DET_KEPT_BY_CALL /* the call does */
};

/* Facts of a kind.  What is 0 or NULL does not apply. */
struct ftk_det_kind {
    const char *text; /* of an outcome, for messages: the call that has it */
    enum ftk_det_count counts;
    bool a_is_rank; /* of the world; in sets and in messages to other planes: of the plane */
    bool has_more;  /* a MORE follow */
    enum ftk_det_keeper keeper;
    size_t more_in_set_up; /* how many MORE follow there besides */
    /* Whether a determinant of a set is sane: 0 <= a holds, and a is a rank if it has to be.  all:
     * how many determinants there are.  NULL: it is. */
    bool (*is_sane)(const struct ftk_det *det, uint64_t all);
    bool (*more_is_sane)(const struct ftk_det *more); /* ... one that follows; NULL: it is */
};

#define FTK_DECLARE_DET_KIND(NAME, word) extern const struct ftk_det_kind ftk_det_kind_##word;
FTK_DET_KINDS(FTK_DECLARE_DET_KIND)
#undef FTK_DECLARE_DET_KIND

/* A number that no kind has is of no call, as MORE is. */
static inline const struct ftk_det_kind *ftk_det_kind_of(uint32_t kind)
{
    return ftk_log.det_kinds[kind > FTK_DET_UNKNOWN && kind < FTK_DET_NKINDS ? kind : FTK_DET_MORE];
}

/* How many MORE follow. */
static inline size_t ftk_det_nmore(const struct ftk_det *det)
{
    return ftk_det_kind_of(det->kind)->has_more ? (size_t)det->a : 0;
}

/* The call that makes it, for messages. */
const char *ftk_det_text(uint32_t kind);
/* A determinant as sets and other planes have it, and the reverse. */
struct ftk_det ftk_det_to_plane(struct ftk_det det);
struct ftk_det ftk_det_from_plane(struct ftk_det det);

/* Of a set, where nothing is trusted: whether a determinant, of all, is sane, with the MORE that
 * follow; whether all determinants v [n] are. */
bool ftk_det_is_sane(const struct ftk_det *det, size_t more, uint64_t all);
bool ftk_det_are_sane(const struct ftk_det *v, uint64_t n);

#endif
