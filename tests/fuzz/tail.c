/* The reader of the tail of a set of a line apart: any words.  The inputs are of scripts with four
 * ranks. (tests/mpi/script.c)
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz.h"
#include "log/determinant/det.h"
#include "log/base/part.h"
#include "log/mode.h"
#include "log/recovery/recovery.h"
#include "log/recovery/tail.h"

#define ROOM (256u << 10)
#define FEW 4096 /* early messages of a channel that is applied: each takes memory */

enum { RANKS = 4, CHANNEL = 4, DET = 2 /* words */ };

/* A list that was accepted, with items of each words; returns the address behind it. */
static const uint64_t *check_list(const uint64_t *w, const uint64_t *end, size_t each)
{
    MUST(w < end && *w <= (uint64_t)(end - w - 1) / each);
    return w + 1 + *w * each;
}

/* false: a channel with too many early messages to be applied. */
static bool check_channels(const uint64_t *w)
{
    bool few = true;
    for (const uint64_t *c = w + 1, *end = c + *w * CHANNEL; c < end; c += CHANNEL) {
        MUST(c[0] < FTK_LOG_ALL && c[1] < RANKS && c[2] <= INT32_MAX);
        few &= c[3] <= FEW;
    }
    return few;
}

static void check_applied(void)
{
    for (size_t i = 0; i < ftk_channels_count(); i++)
        MUST(ftk_channel_at(i)->source >= 0 && ftk_channel_at(i)->source < RANKS);
    for (size_t i = 0; i < ftk_sent_count(); i++)
        MUST(ftk_sent_at(i)->dest >= 0 && ftk_sent_at(i)->dest < RANKS);
    MUST(ftk_log.npoints <= ftk_sent_count());
}

static void check(const uint64_t *w, size_t n)
{
    const uint64_t *end = w + n, *out = check_list(w, end, CHANNEL);
    MUST(check_list(check_list(out, end, CHANNEL), end, DET) == end);
    if (check_channels(w) & check_channels(out)) {
        MUST(ftk_tail_apply() == FTKIT_OK);
        check_applied();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    uint64_t *w = bytes <= ROOM ? malloc(bytes + 1) : NULL; /* of its size: its end is watched */
    if (!w)
        return 0;
    ftk_log.n = RANKS;
    ftk_log.mode = ftk_mode_of(FTK_DETS_NODE);
    ftk_session_begin();
    memcpy(w, data, bytes / 8 * 8);
    if (ftk_tail_read(w, bytes / 8) == FTKIT_OK && bytes >= 8)
        check(w, bytes / 8);
    ftk_tail_forget();
    ftk_part_channels.close();
    free(w);
    return 0;
}
