/* t_apart: chance, and a wire for tallies that delays messages.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef T_APART_WIRE_H
#define T_APART_WIRE_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/ftk.h"
#include "mpi_real.h"

enum { N_MOST = 5 };

static int n; /* ranks of this run */

/* ---- chance ------------------------------------------------------------------------------ */

static uint64_t seed, chaos;
static bool calm; /* nothing is late, and nothing goes wrong any more */

static unsigned below(unsigned limit)
{
    chaos ^= chaos << 13;
    chaos ^= chaos >> 7;
    chaos ^= chaos << 17;
    return (unsigned)(chaos >> 33) % limit;
}

/* Per mille; never when the run is calm. */
static bool chance(unsigned mille)
{
    return !calm && below(1000) < mille;
}

/* Whether what is under way waits still. */
static bool late(void)
{
    return chance(400);
}

static void die(const char *rule, int rank);
#define RULE(rank, rule) ((rule) ? (void)0 : die(#rule, (rank)))

/* ---- the wire ---------------------------------------------------------------------------- */

enum { PARCELS = 64, TICKETS = 512, PARCEL = 160 };

static struct wire {
    unsigned first, last; /* parcels [first, last), modulo PARCELS */
    struct {
        size_t bytes;
        char data[PARCEL];
    } v[PARCELS];
} wires[N_MOST][N_MOST];

static struct ticket {
    bool used, receives;
    void *to;
} tickets[TICKETS];

static int me;        /* the rank that runs */
static bool in_close; /* it closes its tally: MPI has copied all that it sends */

static MPI_Request new_ticket(bool receives, void *to)
{
    for (int i = 0; i < TICKETS; i++) {
        if (tickets[i].used)
            continue;
        tickets[i] = (struct ticket){ true, receives, to };
        return (MPI_Request)(void *)&tickets[i];
    }
    die("there are too many requests", me);
    return MPI_REQUEST_NULL;
}

static int fake_isend(const void *data, int count, MPI_Datatype type, int to, int tag,
    MPI_Comm comm, MPI_Request *req)
{
    struct wire *w = &wires[me][to];
    (void)type, (void)tag, (void)comm;
    RULE(me, w->last - w->first < PARCELS && count <= PARCEL);
    w->v[w->last % PARCELS].bytes = (size_t)count;
    memcpy(w->v[w->last++ % PARCELS].data, data, (size_t)count);
    *req = new_ticket(false, NULL);
    return MPI_SUCCESS;
}

static int fake_irecv(
    void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *req)
{
    (void)count, (void)type, (void)from, (void)tag, (void)comm;
    *req = new_ticket(true, data);
    return MPI_SUCCESS;
}

static bool arrives(struct ticket *t)
{
    const int begin = (int)below((unsigned)n);
    for (int i = 0; i < n; i++) {
        struct wire *w = &wires[(begin + i) % n][me];
        if (w->first == w->last || late())
            continue;
        memcpy(t->to, w->v[w->first % PARCELS].data, w->v[w->first % PARCELS].bytes);
        w->first++;
        return true;
    }
    return false;
}

static int fake_test(MPI_Request *req, int *flag, MPI_Status *status)
{
    struct ticket *t = (struct ticket *)(void *)*req;
    (void)status;
    *flag = t->receives ? arrives(t) : in_close || !late();
    if (*flag) {
        t->used = false;
        *req = MPI_REQUEST_NULL;
    }
    return MPI_SUCCESS;
}

static int fake_wait(MPI_Request *req, MPI_Status *status)
{
    (void)status;
    ((struct ticket *)(void *)*req)->used = false;
    *req = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}

static int fake_cancel(MPI_Request *req)
{
    (void)req;
    return MPI_SUCCESS;
}

static int fake_free(MPI_Request *req)
{
    return fake_wait(req, MPI_STATUS_IGNORE);
}

#endif
