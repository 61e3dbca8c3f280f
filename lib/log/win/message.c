/* The messages of windows: messages of the program, so that the log keeps them, suppresses them and
 * sends them again.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "log/win/win.h"

static void fill(struct ftk_win_message *m, struct ftk_win *w, int rank, int tag, size_t bytes)
{
    int count = 0;
    *m = (struct ftk_win_message){ .type = MPI_BYTE };
    const int rc = ftk_dtype_bytes(bytes, &count, &m->type);
    m->r = (struct ftk_req){ .internal = true,
        .vc = w->vc,
        .count = count,
        .type = m->type,
        .peer = ftk_vcomm_world(w->vc, rank),
        .tag = tag,
        .real = MPI_REQUEST_NULL };
    m->open = true;
    if (rc != MPI_SUCCESS)
        ftk_win_broken(w, rc);
}

void ftk_win_send(
    struct ftk_win_message *m, struct ftk_win *w, int rank, int tag, const void *data, size_t bytes)
{
    fill(m, w, rank, tag, bytes);
    m->r.kind = FTK_REQ_SEND;
    m->r.context = ftk_vcomm_there(w->vc, m->r.peer);
    m->r.send.buf = data;
    (void)ftk_req_begin(&m->r); /* the wait returns the error */
}

void ftk_win_recv(
    struct ftk_win_message *m, struct ftk_win *w, int rank, int tag, void *data, size_t bytes)
{
    fill(m, w, rank, tag, bytes);
    m->r.kind = FTK_REQ_RECV;
    m->r.context = w->vc->context;
    m->r.recv.buf = data;
    (void)ftk_req_begin(&m->r); /* the wait returns the error */
}

static void close_message(struct ftk_win_message *m)
{
    if (m->open)
        ftk_dtype_bytes_free(&m->type);
    m->open = false;
}

bool ftk_win_look(struct ftk_win_message *m)
{
    if (!m->open)
        return true;
    if (!ftk_req_is_done(&m->r))
        (void)ftk_req_progress(&m->r); /* the wait returns the error */
    if (!ftk_req_is_done(&m->r))
        return false;
    close_message(m);
    return true;
}

int ftk_win_await(struct ftk_win_message *m)
{
    if (m->open && !ftk_req_is_done(&m->r))
        (void)ftk_req_wait(&m->r);
    close_message(m);
    return m->r.error;
}
