/* Values that the program decides: ftkit_decide().
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A value is a determinant with contents.  A value of set-up is also in the set-up log, as a
 * message of this rank to itself that no receive matches: a replacement that replays set-up gets it
 * there. */
#include <limits.h>
#include <stddef.h>
#include <string.h>

#include "log/base/figures.h"
#include "log/base/queue.h"
#include "log/determinant/det.h"
#include "log/mode.h"

#define VALUE_TAG (INT_MAX - 1) /* no collective has this tag */

static int another_course(size_t bytes)
{
    ftk_figures_differs();
    return ftk_fail(FTKIT_ERR_MISMATCH,
        "ftkit_decide: %zu bytes: rank %d does not take the same course as before the failure, "
        "where it decided something else here%s",
        bytes, ftk_log.me,
        ftk_log.in_set_up ? " (in set-up, from ftkit_open to ftkit_recover)" : "");
}

/* The value that the lost process has decided in its set-up. */
static int from_set_up(void *data, size_t bytes)
{
    const struct ftk_envelope of = { FTK_LOG_COLLS, ftk_log.me, VALUE_TAG };
    struct ftk_unexp *h = ftk_unexp_match(&of, true);
    if (!h || h->bytes != bytes) {
        ftk_unexp_free(h);
        return another_course(bytes);
    }
    memcpy(data, h->data, bytes);
    ftk_unexp_free(h);
    return FTKIT_OK;
}

static int keep_for_set_up(const void *data, size_t bytes)
{
    if (!ftk_log.in_set_up)
        return FTKIT_OK;
    struct ftk_unexp *h = ftk_unexp_new(FTK_LOG_COLLS, ftk_log.me, VALUE_TAG, bytes);
    if (!h)
        return ftk_fail(FTKIT_ERR_NOMEM, "ftkit_decide");
    memcpy(h->data, data, bytes);
    h->seq = ftk_queue_next();
    ftk_setup_log_add(h);
    return FTKIT_OK;
}

/* The bytes of a value are those of the determinants MORE behind det, without their kinds. */
static void copy_value(const struct ftk_det *det, void *data, size_t bytes)
{
    char *to = data;
    for (size_t at = 0; at < bytes; at += FTK_DET_BYTES)
        memcpy(to + at, (const char *)++det + offsetof(struct ftk_det, n),
            bytes - at < FTK_DET_BYTES ? bytes - at : FTK_DET_BYTES);
}

int ftk_det_decide(void *data, size_t bytes)
{
    const struct ftk_det_mode *mode = ftk_log.mode;
    const struct ftk_det *det = NULL;
    if (!ftk_log.on || ftk_log_is_rolling_back() || bytes == 0)
        return FTKIT_OK;
    if (!mode->records || mode->refuses)
        return ftk_fail(FTKIT_ERR_UNSUPPORTED,
            "ftkit_decide: log.determinants = %s keeps no values; choose another mode",
            mode->refuses ? "refuse" : "relaxed");
    if (ftk_log_replays_setup())
        return from_set_up(data, bytes);
    int next = ftk_det_next(FTK_DET_VALUE, &det);
    if (next == FTK_DET_NOTHING || (next == FTK_DET_THIS && (size_t)det->b != bytes))
        return another_course(bytes);
    int rc = FTKIT_OK;
    if (next == FTK_DET_THIS)
        copy_value(det, data, bytes);
    else
        rc = ftk_det_value(data, bytes);
    return rc == FTKIT_OK ? keep_for_set_up(data, bytes) : rc;
}
