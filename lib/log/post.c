/* Letters between the program's messages (see post.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "../detect.h"
#include "post.h"

#define SMALL 512 /* bytes that any transport takes at once */

static struct outgoing {
    MPI_Request real;
    uint64_t *words;
} *out;                     /* [nout] on their way */
static size_t nout, out_room;

size_t ftk_post_sending(void)
{
    size_t kept = 0;
    for (size_t i = 0; i < nout; i++) {
        struct outgoing *o = &out[i];
        int done = 0;
        if (PMPI_Test(&o->real, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
            ftk_detect_raise(ftk_log.ctx); /* its receiver is gone: a repair tells it again */
            done = 1;
        }
        if (done)
            free(o->words);
        else
            out[kept++] = *o;
    }
    return nout = kept;
}

static int post_big(const uint64_t *w, size_t words, int dest, int tag, int context)
{
    if (ftk_post_sending() == out_room) {
        size_t room = out_room ? 2 * out_room : 16;
        struct outgoing *all = realloc(out, room * sizeof *all);
        if (!all)
            return MPI_ERR_NO_MEM;
        out = all;
        out_room = room;
    }
    struct outgoing *o = &out[nout];
    *o = (struct outgoing){ MPI_REQUEST_NULL, malloc(words * sizeof *o->words) };
    if (!o->words)
        return MPI_ERR_NO_MEM;
    memcpy(o->words, w, words * sizeof *o->words);
    int rc = PMPI_Isend(o->words, (int)(2 * words), MPI_INT32_T, dest, tag,
        ftk_log.real[context], &o->real);
    if (rc == MPI_SUCCESS)
        nout++;
    else
        free(o->words);
    return rc;
}

int ftk_post(const uint64_t *w, size_t words, int dest, int tag, int context)
{
    if (words > INT32_MAX / 2)
        return MPI_ERR_COUNT;
    int rc = words * sizeof *w <= SMALL
        ? PMPI_Send(w, (int)(2 * words), MPI_INT32_T, dest, tag, ftk_log.real[context])
        : post_big(w, words, dest, tag, context);
    (context == FTK_LOG_NEWS ? ftk_log.news_sent : ftk_log.sent)[dest] += rc == MPI_SUCCESS;
    if (rc == MPI_SUCCESS)
        ftk_log.news_bytes += words * sizeof *w;
    return rc;
}

int ftk_post_take(
    int context, MPI_Message *m, const MPI_Status *s, uint64_t **w, size_t *words)
{
    int ints = 0;
    *w = NULL;
    int rc = PMPI_Get_count(s, MPI_INT32_T, &ints);
    if (rc == MPI_SUCCESS && (ints < 0 || (*w = malloc((size_t)ints * 4 + 8)) == NULL))
        rc = MPI_ERR_NO_MEM;
    if (rc == MPI_SUCCESS)
        rc = PMPI_Mrecv(*w, ints, MPI_INT32_T, m, MPI_STATUS_IGNORE);
    *words = (size_t)ints / 2;
    (context == FTK_LOG_NEWS ? ftk_log.news_received : ftk_log.received)[s->MPI_SOURCE]
        += rc == MPI_SUCCESS;
    return rc;
}

void ftk_post_close(void)
{
    (void)ftk_post_sending();
    for (size_t i = 0; i < nout; i++)
        if (out[i].real != MPI_REQUEST_NULL)
            (void)PMPI_Request_free(&out[i].real); /* nobody will receive it */
    free(out);
    out = NULL;
    nout = out_room = 0;
}
