/* A mode of log.determinants for tests/rooms.t: that of the node, and each rank counts the messages
 * that it sends and reports their number at the end.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "log/mode.h"

static uint64_t sends;

static void close_count(void)
{
    ftk_report(FTKIT_DEBUG, "context %s: rank %d: %llu sends were counted", ftk_log.ctx->cfg.name,
        ftk_log.me, (unsigned long long)sends);
    sends = 0;
}

static void begin_send(bool internal)
{
    sends += !internal;
}

static bool needs_request(int world)
{
    (void)world; /* a small message without a request would not be counted */
    return true;
}

const struct ftk_det_mode ftk_mode_count = { .records = true,
    .part = { .close = close_count },
    .begin_send = begin_send,
    .needs_request = needs_request };
