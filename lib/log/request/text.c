/* Requests in messages of the library.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>

#include "log/request/message.h"
#include "log/request/req_ops.h"

static void rank_text(const struct ftk_req *r, char *text, size_t room)
{
    if (r->peer == MPI_ANY_SOURCE)
        snprintf(text, room, "any rank");
    else
        snprintf(text, room, "rank %d", ftk_vcomm_peer_rank(r->vc, r->peer));
}

void ftk_message_describe(
    const struct ftk_req *r, const char *what, const char *towards, char *text, size_t room)
{
    char comm[MPI_MAX_OBJECT_NAME + 64], rank[32], tag[32] = "any tag";
    ftk_vcomm_describe(r->vc, comm, sizeof comm);
    rank_text(r, rank, sizeof rank);
    if (r->tag != MPI_ANY_TAG)
        snprintf(tag, sizeof tag, "tag %d", r->tag);
    snprintf(text, room, "a %s%s of %d items %s %s with %s on %s",
        r->persistent ? "persistent " : "", what, r->count, towards, rank, tag, comm);
}

void ftk_req_describe(const struct ftk_req *r, char *text, size_t room)
{
    ftk_req_ops_of(r)->describe(r, text, room);
}
