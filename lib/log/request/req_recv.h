/* What a receive has besides the arguments of all requests.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOG_REQ_RECV_H
#define FTK_LOG_REQ_RECV_H

#include "log/base/envelope.h"

#define FTK_RECV_IN_DOUBT UINT32_MAX

struct ftk_req_recv {
    void *buf;
    struct ftk_envelope want; /* what the receive is posted for: its arguments, or the source and
                                 tag of the match if that is known */
    uint32_t wildcard_seq;    /* number among the wildcard receives; 0: no wildcard receive, or the
                              match is known; FTK_RECV_IN_DOUBT: the receive names its source, and
                              its cancel came too late, which is not recorded yet.  Others wait for
                              it as for a wildcard receive */
    uint32_t number;          /* among the receives of the program; 0: of the log */
    uint32_t cancelled : 1;   /* the program has asked for a cancel */
    uint32_t set_up : 31;     /* number among the receives of set-up (set_up.h); 0: of the loop */
    uint64_t posted_seq; /* the latest sequence number when this receive was posted to the MPI */
};

/* What determinants say of the first execution of a receive. */
enum ftk_cancel_known {
    FTK_CANCEL_UNKNOWN,  /* no cancel, or none is recorded */
    FTK_CANCEL_DONE,     /* the receive was cancelled: it gets no message */
    FTK_CANCEL_TOO_LATE, /* the receive got a message in spite of a cancel */
};
enum ftk_match_known {
    FTK_MATCH_OPEN,
    FTK_MATCH_BOUND, /* a repair knows the source (ftk_recv_bind), now or in the first execution: a
                        cancel is too late */
    FTK_MATCH_KNOWN, /* a determinant names the message */
};
/* When a determinant gives the source, and the tag, or MPI_ANY_TAG. */
static inline enum ftk_match_known ftk_recv_known(int tag)
{
    return tag == MPI_ANY_TAG ? FTK_MATCH_BOUND : FTK_MATCH_KNOWN;
}
struct ftk_req_replay {
    enum ftk_match_known match;
    enum ftk_cancel_known cancel;
};

#endif
