/* The messages that a probe has matched, in a set.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A matched message in a set has a number, and the registered variables of the program have these
 * numbers (set/handles.h).  A set has the bytes of each message, so that a restore can give them to
 * the receive of the program. */
#include <string.h>

#include "log/base/figures.h"
#include "log/base/plane.h"
#include "log/recovery/recovery.h"
#include "log/base/saved.h"
#include "set/handles.h"
#include "steps.h"

/* The words: the number of messages, and for each these words and its bytes: context, source, tag,
 * number, rank of the source in the communicator, bytes. */
enum { MESSAGE = 6 };

int64_t ftk_requests_message_number(MPI_Message message)
{
    int number = ftk_matched_number(message);
    if (number >= 0)
        return number;
    return message == MPI_MESSAGE_NULL || message == MPI_MESSAGE_NO_PROC ? FTK_NO_HANDLE
                                                                         : FTK_FOREIGN_HANDLE;
}

static bool is_message_registered(const struct ftkit_ctx *ctx, const struct ftk_unexp *m)
{
    const struct ftk_handles *h = NULL;
    while ((h = ftk_handles_next(ctx, FTK_HANDLE_MESSAGE, h)) != NULL)
        for (size_t i = 0; i < h->n; i++)
            if (ftk_requests_message_number(ftk_handles_message(h, i)) == m->number)
                return true;
    return false;
}

static int put_message(struct ftk_saving *s, const struct ftk_unexp *m)
{
    const size_t n = (m->bytes + 7) / 8;
    uint64_t *w = ftk_words_extend(&s->w, MESSAGE + n);
    if (!w)
        return ftk_fail(FTKIT_ERR_NOMEM, "matched messages of a set");
    *w++ = (uint64_t)m->context;
    *w++ = ftk_log_to_plane(m->source);
    *w++ = (uint64_t)(uint32_t)m->tag;
    *w++ = (uint64_t)m->number;
    *w++ = (uint64_t)m->rank;
    *w++ = m->bytes;
    if (n > 0)
        w[n - 1] = 0;
    memcpy(w, m->data, m->bytes);
    return FTKIT_OK;
}

static int save_message(struct ftk_saving *s, const struct ftk_unexp *m)
{
    if (!is_message_registered(s->ctx, m))
        return ftk_fail(FTKIT_ERR_STATE,
            "a message of rank %d with tag %d, matched by a probe and not received: it is in no "
            "registered variable (receive it before ftkit_checkpoint(), or register its variable "
            "with ftkit_register_messages())",
            m->rank, m->tag);
    /* a restore knows the communicator by its context, which may be another one's then */
    if (m->vc->state != FTK_VCOMM_LIVE)
        return ftk_fail(FTKIT_ERR_UNSUPPORTED,
            "a message of rank %d with tag %d, matched by a probe and not received: its "
            "communicator has been freed",
            m->rank, m->tag);
    return put_message(s, m);
}

int ftk_matched_save(struct ftk_saving *s)
{
    uint64_t n = 0;
    for (const struct ftk_unexp *m = ftk_matched_first(); m; m = m->next)
        n++;
    int rc = ftk_words_add(&s->w, n);
    ftk_requests_count(n);
    for (const struct ftk_unexp *m = ftk_matched_first(); rc == FTKIT_OK && m; m = m->next)
        rc = save_message(s, m);
    return rc;
}

static int read_message(struct ftk_loading *l)
{
    const uint64_t *w = ftk_loading_take(l, MESSAGE);
    if (!w || w[0] >= FTK_LOG_ALL || w[1] >= (uint64_t)ftk_log_plane_size() || w[2] > INT32_MAX
        || w[3] >= FTK_HANDLES_FROM || w[4] >= (uint64_t)ftk_log.n || w[5] > INT64_MAX / 4)
        return ftk_loading_damaged();
    const uint64_t *data = ftk_loading_take(l, (w[5] + 7) / 8);
    if (!data)
        return ftk_loading_damaged();
    const int source = ftk_log_from_plane((int)w[1]);
    struct ftk_unexp *m = ftk_unexp_new((int)w[0], source, (int)w[2], (size_t)w[5]);
    if (!m)
        return ftk_fail(FTKIT_ERR_NOMEM, "matched messages of a set");
    memcpy(m->data, data, (size_t)w[5]);
    m->number = (int)w[3];
    m->rank = (int)w[4];
    struct ftk_vcomm *vc = ftk_vcomm_in_context(m->context);
    ftk_matched_back(m, vc ? vc : &ftk_vcomm_lost);
    return FTKIT_OK;
}

int ftk_matched_load(struct ftk_loading *l, uint64_t *n)
{
    const uint64_t *m = ftk_loading_take(l, 1);
    int rc = m ? FTKIT_OK : ftk_loading_damaged();
    *n = 0;
    while (m && rc == FTKIT_OK && *n < *m) {
        rc = read_message(l);
        *n += rc == FTKIT_OK;
    }
    return rc;
}

MPI_Message ftk_requests_message_back(int64_t number)
{
    struct ftk_unexp *m =
        number >= 0 && number < FTK_HANDLES_FROM ? ftk_matched_numbered((int)number) : NULL;
    return m ? (MPI_Message)(void *)m : MPI_MESSAGE_NULL;
}
