/* Mode node with checkpoint.line = apart: stop messages.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * While a set is open, a rank that has cut records its determinants for the set, too: another rank
 * may get a message that depends on them before its own cut.  A rank stops recording when it knows
 * that all ranks have cut.  Its later choices are in no set.  A rank that still records must not
 * record a choice that depends on such a choice: a replay could not repeat it.  So a rank that has
 * stopped and then chosen something sends a control message, the stop message, before its next
 * message to each rank, on the same communicator.  The receiver of a stop message stops, too, and
 * counts as a rank that has chosen. [Schulz et al., SC 2004, 3.1, has a bit in each message
 * instead] */
#include <stdlib.h>
#include <string.h>

#include "log/base/control.h"
#include "log/determinant/det.h"
#include "log/mode.h"

static bool
    *sent; /* [n * FTK_LOG_PROGRAM_COMMS] this rank has sent a stop message for the open set */
static bool received; /* this rank has received one for the open set */

static int open_stop(int n)
{
    if (!sent)
        sent = calloc((size_t)n * FTK_LOG_PROGRAM_COMMS, sizeof *sent);
    return sent ? FTKIT_OK : ftk_fail(FTKIT_ERR_NOMEM, "stop messages");
}

static bool *place_of(int dest, int context)
{
    return &sent[(size_t)dest * FTK_LOG_PROGRAM_COMMS + (size_t)ftk_context_comm(context)];
}

static int cut(bool apart)
{
    if (!apart)
        return FTKIT_OK;
    received = false;
    for (int i = 0, n = ftk_peers_count(); i < n; i++) /* no other rank has got a stop message */
        memset(place_of(ftk_peers_rank(i), 0), 0, FTK_LOG_PROGRAM_COMMS * sizeof *sent);
    return FTKIT_OK;
}

/* Whether the messages of this rank depend on a choice that is in no set. */
static bool depends(void)
{
    return ftk_log.apart.open && (received || ftk_det_is_past_stop());
}

static bool needs_request(int world)
{
    (void)world;
    return depends();
}

static int before(int dest, int context, int tag, const struct ftk_entry *e)
{
    (void)tag;
    (void)e;
    if (!depends() || *place_of(dest, context))
        return MPI_SUCCESS;
    *place_of(dest, context) = true;
    return ftk_control_send(&ftk_log.apart.set, 1, dest, FTK_CONTROL_TAG, context);
}

/* Messages for other sets are late: those sets are committed, or given up. */
static int handle_stop(const struct ftk_control *c)
{
    if (c->words == 1 && ftk_log.apart.open && c->w[0] == ftk_log.apart.set) {
        ftk_det_stop();
        received = true;
    }
    return MPI_SUCCESS;
}

static const struct ftk_control_kind stop = {
    .context = FTK_CONTROL_IN_BAND, .tag = FTK_CONTROL_TAG, .handle = handle_stop
};

static int absorb(int context, int source)
{
    return ftk_log.apart.open ? ftk_control_all(context, source) : MPI_SUCCESS;
}

static void close_stop(void)
{
    free(sent);
    sent = NULL;
    received = false;
}

const struct ftk_det_mode ftk_mode_node_apart = { .records = true,
    .part = { .open = open_stop,
        .close = close_stop,
        .cut = cut,
        .controls = &stop,
        .ncontrols = 1 },
    .needs_request = needs_request,
    .before = before,
    .absorb = absorb };
