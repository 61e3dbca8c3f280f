/* Recording of determinants: the outcomes of free choices.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stddef.h>
#include <string.h>

#include "det_inside.h"
#include "log/determinant/set_up.h"

static bool hold; /* see ftk_det_hold() */

/* Append to a file of this process. */
static int append_to(struct ftk_det_file *f, struct ftk_det det)
{
    const size_t n = ftk_det_n_of(f);
    int rc = ftk_det_reserve(f, n + 1);
    if (rc != FTKIT_OK)
        return rc;
    ftk_det_list_of(f)[n] = det;
    atomic_store_explicit(&f->head->n, n + 1, memory_order_release);
    return rc;
}

static void say_full(int rc)
{
    if (rc != FTKIT_OK)
        ftk_report(FTKIT_ERROR,
            "context %s: rank %d: %s: after a failure now the program may "
            "not take the same course again",
            ftk_log.ctx->cfg.name, ftk_log.me, ftk_detail_text());
}

/* Line apart: from the cut on determinants go to the files of both intervals, each with the numbers
 * that it has there.  So a repair finds them, whether the line of the cut is committed or not, and
 * whether this process knows that or not.  After the commit the interval before the line may count,
 * too, until all ranks know the commit: this process may be the only one that does. */
void ftk_det_append(struct ftk_det det)
{
    if (!ftk_det_files.now || hold)
        return;
    int rc = FTKIT_OK;
    if (ftk_det_files.to != FTK_DET_ONE_FILE)
        rc = append_to(ftk_det_other_file(),
            ftk_det_files.to == FTK_DET_SINCE_CUT ? ftk_det_of_after(det) : ftk_det_of_before(det));
    const int now = append_to(ftk_det_files.now, det); /* also when the other file is full */
    say_full(rc != FTKIT_OK ? rc : now);
}

/* Append to the file of the interval before the line, if it may still count. */
static void append_before(struct ftk_det det)
{
    if (ftk_det_files.now && !hold && ftk_det_files.to == FTK_DET_SINCE_COMMIT)
        say_full(append_to(ftk_det_other_file(), det));
}

void ftk_det_hold(bool on)
{
    hold = on;
}

static void recorded(void)
{
    if (ftk_log.mode->recorded)
        ftk_log.mode->recorded();
}

void ftk_det_before_send(void)
{
    if (!ftk_det_counts())
        return;
    if (ftk_det_course.at < ftk_det_course.plan) /* no call in a send without a replay */
        ftk_det_pass_nothings();
    if (ftk_det_course.nothings == 0 || ftk_det_upcoming())
        return;
    ftk_det_append((struct ftk_det){ FTK_DET_NONE, ftk_det_course.nothings, 0, 0 });
    ftk_det_course.nothings = 0;
    recorded();
}

/* The outcome of a receive says what the program does next, by the number of the receive.  So the
 * failed probes and tests before it are recorded first: a replay that finds something there may
 * begin another receive with this number. */
void ftk_det_received(uint32_t number, int source, int tag)
{
    ftk_det_before_send();
    ftk_det_append((struct ftk_det){ FTK_DET_RECV, number, source, tag });
    recorded();
}

void ftk_det_cancelled(uint32_t number, bool cancelled)
{
    if (!ftk_det_counts() || number == 0)
        return;
    const uint32_t before = number & FTK_DET_OF_BEFORE;
    const struct ftk_det det = { FTK_DET_CANCEL, number - before, cancelled, 0 };
    ftk_det_before_send();
    if (before)
        append_before(det);
    else
        ftk_det_append(det);
    recorded();
}

static void tagged(uint32_t kind, uint32_t number, int source, int tag)
{
    if (!ftk_det_counts() || number == 0)
        return;
    ftk_det_before_send();
    ftk_det_append((struct ftk_det){ kind, number, source, tag });
    recorded();
}

void ftk_det_tagged(uint32_t number, int source, int tag)
{
    tagged(FTK_DET_TAG, number, source, tag);
}

void ftk_det_found_tag(int source, int tag)
{
    tagged(FTK_DET_PROBED, ftk_det_course.begun[FTK_DET_PROBES], source, tag);
}

void ftk_det_found(uint32_t kind, int a, int b)
{
    const struct ftk_det det = { kind, ftk_det_course.nothings, a, b };
    if (ftk_det_kind_of(kind)->keeper == FTK_DET_KEPT)
        ftk_set_up_outcome(det);
    if (!ftk_det_counts())
        return;
    ftk_det_append(det);
    ftk_det_course.nothings = 0;
    recorded();
}

void ftk_det_more(int index)
{
    const struct ftk_det more = { FTK_DET_MORE, 0, index, 0 };
    ftk_set_up_outcome(more);
    if (!ftk_det_counts())
        return;
    ftk_det_append(more);
    recorded();
}

int ftk_det_value(const void *data, size_t bytes)
{
    const char *from = data;
    const size_t n = (bytes + FTK_DET_BYTES - 1) / FTK_DET_BYTES;
    if (!ftk_det_counts() || !ftk_det_files.now || hold)
        return FTKIT_OK;
    int rc = ftk_det_reserve(ftk_det_files.now, ftk_det_n() + 1 + n);
    if (rc == FTKIT_OK && ftk_det_files.to != FTK_DET_ONE_FILE)
        rc = ftk_det_reserve(ftk_det_other_file(), ftk_det_n_of(ftk_det_other_file()) + 1 + n);
    if (rc != FTKIT_OK)
        return ftk_fail(FTKIT_ERR_NOSPACE, "a decided value: %s", ftk_detail_text());
    ftk_det_append(
        (struct ftk_det){ FTK_DET_VALUE, ftk_det_course.nothings, (int32_t)n, (int32_t)bytes });
    for (size_t at = 0; at < bytes; at += FTK_DET_BYTES) {
        struct ftk_det more = { .kind = FTK_DET_MORE };
        memcpy((char *)&more + offsetof(struct ftk_det, n), from + at,
            bytes - at < FTK_DET_BYTES ? bytes - at : FTK_DET_BYTES);
        ftk_det_append(more);
    }
    ftk_det_course.nothings = 0;
    recorded();
    return FTKIT_OK;
}

void ftk_det_found_nothing(void)
{
    ftk_set_up_nothing();
    if (ftk_det_counts())
        ftk_det_course.nothings++;
}
