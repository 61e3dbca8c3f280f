/* Requests in messages of the library.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>

#include "log/coll.h"
#include "log/p2p.h"

static void rank_text(const struct ftk_req *r, char *text, size_t room)
{
    if (r->peer == MPI_ANY_SOURCE)
        snprintf(text, room, "any rank");
    else
        snprintf(text, room, "rank %d", ftk_vcomm_peer_rank(r->vc, r->peer));
}

void ftk_req_describe(const struct ftk_req *r, char *text, size_t room)
{
    char comm[MPI_MAX_OBJECT_NAME + 64], rank[32], tag[32] = "any tag";
    const char *kind = r->persistent ? "persistent " : "";
    ftk_vcomm_describe(r->vc, comm, sizeof comm);
    if (r->send.handles > 0) {
        snprintf(text, room, "a small send on %s", comm);
    } else if (r->kind == FTK_REQ_COLL && r->coll) {
        snprintf(text, room, "%s, %scollective %llu on %s", r->coll->call.name, kind,
            (unsigned long long)r->coll->number, comm);
    } else if (r->kind == FTK_REQ_COLL) {
        snprintf(text, room, "a non-blocking collective on %s", comm);
    } else {
        const bool sends = r->kind == FTK_REQ_SEND;
        rank_text(r, rank, sizeof rank);
        if (r->tag != MPI_ANY_TAG)
            snprintf(tag, sizeof tag, "tag %d", r->tag);
        snprintf(text, room, "a %s%s of %d items %s %s with %s on %s", kind,
            sends ? "send" : "receive", r->count, sends ? "to" : "from", rank, tag, comm);
    }
}
