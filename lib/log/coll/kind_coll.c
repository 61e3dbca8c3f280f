/* Collectives as a kind of request.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>

#include "log/coll.h"
#include "log/req_ops.h"

static void describe(const struct ftk_req *r, char *text, size_t room)
{
    char comm[MPI_MAX_OBJECT_NAME + 64];
    ftk_vcomm_describe(r->vc, comm, sizeof comm);
    if (r->coll)
        snprintf(text, room, "%s, %scollective %llu on %s", r->coll->call.name,
            r->persistent ? "persistent " : "", (unsigned long long)r->coll->number, comm);
    else
        snprintf(text, room, "a non-blocking collective on %s", comm);
}

const struct ftk_req_ops ftk_req_kind_coll = { .start = ftk_coll_begin,
    .progress = ftk_coll_progress,
    .free = ftk_coll_free,
    .describe = describe };
