/* LD_PRELOAD: says when a send is freed that is still under way.  Open MPI ends a process whose
 * freed send fails later.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * It sees the calls of ftkit, and those of a program whose calls ftkit does not carry out. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>

enum { SENDS = 4096 }; /* the newest ones */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static MPI_Request sends[SENDS];
static size_t nsends;

/* An MPI uses the handle of a request again: *req is a send, or not any more. */
static void note(MPI_Request req, int is_send)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < SENDS; i++)
        if (sends[i] == req)
            sends[i] = NULL;
    if (is_send)
        sends[nsends++ % SENDS] = req;
    pthread_mutex_unlock(&lock);
}

static int is_send(MPI_Request req)
{
    int found = 0;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < SENDS; i++)
        found |= sends[i] == req;
    pthread_mutex_unlock(&lock);
    return found;
}

#define SEND(NAME)                                                                                 \
    int NAME(const void *buf, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request *r)  \
    {                                                                                              \
        int (*real)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *) =          \
            (int (*)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *))dlsym(    \
                RTLD_NEXT, #NAME);                                                                 \
        const int rc = real(buf, n, t, to, tag, c, r);                                             \
        if (rc == MPI_SUCCESS)                                                                     \
            note(*r, 1);                                                                           \
        return rc;                                                                                 \
    }
SEND(PMPI_Isend)
SEND(PMPI_Issend)

int PMPI_Irecv(void *buf, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Request *r)
{
    int (*real)(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *) = (int (*)(void *,
        int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *))dlsym(RTLD_NEXT, "PMPI_Irecv");
    const int rc = real(buf, n, t, from, tag, c, r);
    if (rc == MPI_SUCCESS)
        note(*r, 0);
    return rc;
}

int PMPI_Imrecv(void *buf, int n, MPI_Datatype t, MPI_Message *m, MPI_Request *r)
{
    int (*real)(void *, int, MPI_Datatype, MPI_Message *, MPI_Request *) = (int (*)(
        void *, int, MPI_Datatype, MPI_Message *, MPI_Request *))dlsym(RTLD_NEXT, "PMPI_Imrecv");
    const int rc = real(buf, n, t, m, r);
    if (rc == MPI_SUCCESS)
        note(*r, 0);
    return rc;
}

int PMPI_Request_free(MPI_Request *r)
{
    int (*real)(MPI_Request *) = (int (*)(MPI_Request *))dlsym(RTLD_NEXT, "PMPI_Request_free");
    int done = 0;
    if (is_send(*r) && PMPI_Request_get_status(*r, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS
        && !done)
        fprintf(stderr, "FREED a send that is under way\n");
    return real(r);
}
