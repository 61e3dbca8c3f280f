/* Control messages (see control.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "core/grow.h"
#include "core/left_send.h"
#include "detect/detect.h"
#include "log/base/control.h"
#include "log/base/control_state.h"
#include "log/base/runtime.h"

#define SHORT 64 /* words of a message whose buffer is used again for the next one */
#define LOOK 16  /* so many more messages under way than after the last look: look again */

static struct outgoing {
    MPI_Request real;
    uint64_t *words; /* a copy: the caller may change its buffer */
} * out;             /* [nout] under way */
static size_t nout, out_room, look_at = LOOK;
static uint64_t sent_bytes; /* so far, for ftkit_query() */
static uint64_t *spare;     /* [SHORT] or NULL */

/* The number of control messages that the MPI has not sent yet, after one look. */
static size_t still_sending(void)
{
    size_t kept = 0;
    for (size_t i = 0; i < nout; i++) {
        struct outgoing *o = &out[i];
        int done = 0;
        if (PMPI_Test(&o->real, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
            ftk_detect_raise(ftk_log.ctx); /* the receiver is dead: a repair sends it again */
            done = 1;
        }
        if (done)
            free(o->words);
        else
            out[kept++] = *o;
    }
    look_at = 2 * kept + LOOK;
    return nout = kept;
}

static int room_for_one(void)
{
    if (nout >= look_at)
        (void)still_sending();
    return ftk_grow(&out, &out_room, nout + 1, sizeof *out) ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

static uint64_t *copy_of(const uint64_t *w, size_t words)
{
    uint64_t *copy = words <= SHORT ? spare : NULL;
    if (copy)
        spare = NULL;
    else
        copy = malloc((words < SHORT ? SHORT : words) * sizeof *copy);
    if (copy)
        memcpy(copy, w, words * sizeof *copy);
    return copy;
}

static void copy_done(uint64_t *copy, size_t words)
{
    if (!spare && words <= SHORT)
        spare = copy;
    else
        free(copy);
}

/* No control message waits for its receiver: the program's call may be one that must not wait. */
int ftk_control_transmit(const uint64_t *w, size_t words, int dest, int tag, int context)
{
    if (words > INT32_MAX / 2)
        return MPI_ERR_COUNT;
    int rc = room_for_one();
    if (rc != MPI_SUCCESS)
        return rc;
    struct outgoing *o = &out[nout];
    *o = (struct outgoing){ MPI_REQUEST_NULL, copy_of(w, words) };
    if (!o->words)
        return MPI_ERR_NO_MEM;
    rc = PMPI_Isend(
        o->words, (int)(2 * words), MPI_INT32_T, dest, tag, ftk_log_real(context), &o->real);
    if (rc != MPI_SUCCESS || ftk_over_at_once(&o->real))
        copy_done(o->words, words);
    else
        nout++;
    struct ftk_peer *p = ftk_peer(dest);
    p->count[ftk_context_counter(context)].sent += rc == MPI_SUCCESS;
    if (rc == MPI_SUCCESS)
        sent_bytes += words * sizeof *w;
    return rc;
}

int ftk_control_send(const uint64_t *w, size_t words, int dest, int tag, int context)
{
    return ftk_control_is_of_state(context) ? ftk_control_state_send(w, words, dest, tag, context)
                                            : ftk_control_transmit(w, words, dest, tag, context);
}

/* ---- messages that come -------------------------------------------------------------- */

const struct ftk_control_kind *ftk_control_kind_of(int context, int tag)
{
    const int of =
        ftk_context_counter(context) == FTK_COUNT_PROGRAM ? FTK_CONTROL_IN_BAND : context;
    for (const struct ftk_control_kind *const *k = ftk_parts.controls; *k; k++)
        if ((*k)->context == of && (*k)->tag == tag)
            return *k;
    return NULL;
}

bool ftk_control_uses(int context)
{
    for (const struct ftk_control_kind *const *k = ftk_parts.controls; *k; k++)
        if ((*k)->context == context)
            return true;
    return false;
}

/* A message whose receive has begun. */
struct incoming {
    struct incoming *next;
    MPI_Request real;
    const struct ftk_control_kind *kind;
    struct ftk_control c;
    uint64_t *w; /* c.w */
};
static struct incoming *slow;

static void free_incoming(struct incoming *in)
{
    if (in)
        free(in->w);
    free(in);
}

/* The MPI may still write to the memory of the receive. */
static void leave_incoming(struct incoming *in)
{
    if (in->real != MPI_REQUEST_NULL)
        (void)PMPI_Request_free(&in->real);
    free(in);
}

static struct incoming *new_incoming(int ints)
{
    struct incoming *in = calloc(1, sizeof *in);
    if (in)
        in->w = malloc((size_t)ints * 4 + 8);
    if (in && in->w)
        return in;
    free_incoming(in);
    return NULL;
}

/* There is no memory for a message: it comes all the same, because its sender counts on it. */
static void receive_nothing(MPI_Message *m)
{
    MPI_Request real;
    int none;
    if (PMPI_Imrecv(&none, 0, MPI_INT32_T, m, &real) == MPI_SUCCESS && real != MPI_REQUEST_NULL)
        (void)PMPI_Request_free(&real); /* an error says that the message was longer */
}

/* Begin to receive a message; NULL: *rc is the error. */
static struct incoming *receive(int context, MPI_Message *m, const MPI_Status *s, int *rc)
{
    int ints = 0;
    *rc = PMPI_Get_count(s, MPI_INT32_T, &ints);
    if (*rc == MPI_SUCCESS && ints < 0)
        *rc = MPI_ERR_INTERN;
    struct incoming *in = *rc == MPI_SUCCESS ? new_incoming(ints) : NULL;
    if (*rc == MPI_SUCCESS && !in) {
        receive_nothing(m);
        *rc = MPI_ERR_NO_MEM;
    } else if (*rc == MPI_SUCCESS)
        *rc = PMPI_Imrecv(in->w, ints, MPI_INT32_T, m, &in->real);
    if (*rc == MPI_SUCCESS || *rc == MPI_ERR_NO_MEM)
        ftk_peer(s->MPI_SOURCE)->count[ftk_context_counter(context)].received++;
    if (*rc != MPI_SUCCESS) {
        free_incoming(in);
        return NULL;
    }
    in->kind = ftk_control_kind_of(context, s->MPI_TAG);
    in->c = (struct ftk_control){ context, s->MPI_SOURCE, in->w, (size_t)ints / 2 };
    return in;
}

static int handle(const struct incoming *in, int tag)
{
    if (!in->kind)
        return MPI_ERR_INTERN;
    return in->kind->of_state ? ftk_control_state_came(&in->c, tag) : in->kind->handle(&in->c);
}

int ftk_control_handle(int context, MPI_Message *m, const MPI_Status *s)
{
    int rc;
    struct incoming *in = receive(context, m, s, &rc);
    if (!in) {
        const struct ftk_control_kind *k = ftk_control_kind_of(context, s->MPI_TAG);
        return rc == MPI_ERR_NO_MEM && k && k->may_be_slow ? MPI_SUCCESS : rc;
    }
    if (in->kind && in->kind->may_be_slow) {
        in->next = slow;
        slow = in;
        return MPI_SUCCESS; /* ftk_control_slow() */
    }
    rc = PMPI_Wait(&in->real, MPI_STATUS_IGNORE);
    if (rc == MPI_SUCCESS)
        rc = handle(in, s->MPI_TAG);
    free_incoming(in);
    return rc;
}

int ftk_control_slow(void)
{
    int rc = MPI_SUCCESS;
    for (struct incoming **at = &slow, *in; rc == MPI_SUCCESS && (in = *at) != NULL;) {
        int done = 0;
        rc = PMPI_Test(&in->real, &done, MPI_STATUS_IGNORE);
        if (rc == MPI_SUCCESS && !done) {
            at = &in->next;
            continue;
        }
        *at = in->next;
        if (rc != MPI_SUCCESS) { /* its sender is dead */
            leave_incoming(in);
            break;
        }
        rc = handle(in, in->kind->tag);
        free_incoming(in);
    }
    return rc;
}

static int look_for(int context, int source, int tag, int *found)
{
    MPI_Message m;
    MPI_Status s;
    int rc = PMPI_Improbe(source, tag, ftk_log_real(context), found, &m, &s);
    return rc == MPI_SUCCESS && *found ? ftk_control_handle(context, &m, &s) : rc;
}

int ftk_control_next(int context, int source, int *found)
{
    return look_for(context, source, FTK_CONTROL_TAG, found);
}

int ftk_control_all(int context, int source)
{
    int found = 1, rc = MPI_SUCCESS;
    while (rc == MPI_SUCCESS && found)
        rc = ftk_control_next(context, source, &found);
    return rc;
}

int ftk_control_take(int context, int source, int *found)
{
    return look_for(context, source, MPI_ANY_TAG, found);
}

static void close_control(void)
{
    (void)still_sending();
    for (size_t i = 0; i < nout; i++)
        ftk_leave_send(&out[i].real, out[i].words); /* no rank will receive it */
    while (slow) {                                  /* their senders close, too */
        struct incoming *in = slow;
        slow = in->next;
        leave_incoming(in);
    }
    free(out);
    free(spare);
    out = NULL;
    spare = NULL;
    nout = out_room = 0;
    look_at = LOOK;
    sent_bytes = 0;
}

static void figures(ftkit_info *info)
{
    info->log_determinant_bytes = sent_bytes;
}

static bool sends(void)
{
    return still_sending() > 0;
}

/* ---- a repair ------------------------------------------------------------------------ */

enum { OWN = FTK_COUNTS - FTK_COUNT_OWN }; /* contexts of own_comms.h */

static void announce(int rank, uint64_t *numbers)
{
    for (int c = 0; c < OWN; c++)
        numbers[c] = ftk_peer(rank)->count[FTK_COUNT_OWN + c].sent;
}

static void announced(int rank, const uint64_t *numbers)
{
    for (int c = 0; c < OWN; c++)
        ftk_peer(rank)->count[FTK_COUNT_OWN + c].announced = numbers[c];
}

/* The messages of source in a context that are in flight: the MPI sends long ones only when they
 * are received. */
static int drain_from(int source, int context, const struct ftk_quiescing *q)
{
    const struct ftk_count *p = &ftk_peer(source)->count[ftk_context_counter(context)];
    int rc = FTKIT_OK;
    while (rc == FTKIT_OK && p->received < p->announced) {
        int found = 0;
        const int mrc = ftk_control_take(context, source, &found);
        if (mrc != MPI_SUCCESS)
            return ftk_fail_mpi(mrc, "draining control messages");
        rc = found ? FTKIT_OK : q->look(q->arg);
    }
    return rc;
}

static void leave_slow_of_dead(const int *is_new)
{
    for (struct incoming **at = &slow, *in; (in = *at) != NULL;) {
        if (!is_new[in->c.source]) {
            at = &in->next;
            continue;
        }
        *at = in->next;
        leave_incoming(in);
    }
}

/* Slow messages of live ranks come. */
static int drain_slow(const struct ftk_quiescing *q)
{
    int rc = FTKIT_OK;
    for (int looks = 0; rc == FTKIT_OK && slow; looks++) {
        (void)ftk_control_slow(); /* an error ends one of them */
        if (looks == FTK_LAST_LOOKS)
            leave_slow_of_dead(q->r->is_new);
        rc = slow ? q->look(q->arg) : FTKIT_OK;
    }
    return rc;
}

static int drain(const struct ftk_quiescing *q)
{
    int rc = FTKIT_OK;
    for (int c = FTK_LOG_PROGRAM_COMMS; c < FTK_LOG_COMMS; c++)
        for (int i = 0, n = ftk_control_uses(c) ? ftk_peers_count() : 0; i < n; i++)
            if (rc == FTKIT_OK && !q->r->is_new[ftk_peers_rank(i)])
                rc = drain_from(ftk_peers_rank(i), c, q);
    return rc == FTKIT_OK ? drain_slow(q) : rc;
}

static int withdraw(const struct ftk_quiescing *q)
{
    return ftk_quiescing_await(q, sends);
}

const struct ftk_part ftk_part_control = { .close = close_control,
    .figures = figures,
    .sends = sends,
    .announces = OWN,
    .announce = announce,
    .announced = announced,
    .drain = drain,
    .withdraw = withdraw };
