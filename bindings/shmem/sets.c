/* Active sets of PEs, and what collective calls consist of.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The set of all PEs has the collectives of MPI.  Any other set has messages: no communicator has
 * to be made and restored for it. */
#include <stdlib.h>
#include <string.h>

#include "own.h"

enum { TAG_MEET = 1, TAG_BROADCAST, TAG_GATHER, TAG_EXCHANGE, TAG_REDUCE };

bool ftk_shmem_set(const char *call, int start, int log_stride, int size, struct ftk_shmem_set *set)
{
    if (!ftk_shmem_ready(call))
        return false;
    const int n = ftk_shmem.n, stride = log_stride >= 0 && log_stride < 31 ? 1 << log_stride : 0;
    if (stride == 0 || start < 0 || size < 1 || start >= n || (size - 1) > (n - 1 - start) / stride)
        return ftk_shmem_mistake("%s: no such set of PEs: first %d, logarithm of the stride %d, "
                                 "size %d, of %d PEs",
            call, start, log_stride, size, n);
    const int off = ftk_shmem.me - start;
    if (off < 0 || off % stride != 0 || off / stride >= size)
        return ftk_shmem_mistake(
            "%s: this PE is not in the set of %d PEs from %d on", call, size, start);
    *set = (struct ftk_shmem_set){ start, stride, size, off / stride };
    return ftk_shmem_flush_all(call);
}

static bool is_all(const struct ftk_shmem_set *s)
{
    return s->size == ftk_shmem.n;
}

static int pe(const struct ftk_shmem_set *s, int rank)
{
    return ftk_shmem_pe(s, (rank + s->size) % s->size);
}

static int send(const void *data, size_t bytes, int to, int tag)
{
    return MPI_Send(data, (int)bytes, MPI_BYTE, to, tag, ftk_shmem.comm);
}

static int receive(void *data, size_t bytes, int from, int tag)
{
    return MPI_Recv(data, (int)bytes, MPI_BYTE, from, tag, ftk_shmem.comm, MPI_STATUS_IGNORE);
}

static int both(const void *data, int to, void *got, int from, size_t bytes, int tag)
{
    return MPI_Sendrecv(data, (int)bytes, MPI_BYTE, to, tag, got, (int)bytes, MPI_BYTE, from, tag,
        ftk_shmem.comm, MPI_STATUS_IGNORE);
}

/* Dissemination: in round k each PE hears of twice as many. */
int ftk_shmem_meet(const struct ftk_shmem_set *s)
{
    int rc = MPI_SUCCESS;
    if (is_all(s))
        return MPI_Barrier(ftk_shmem.comm);
    for (int d = 1; rc == MPI_SUCCESS && d < s->size; d *= 2)
        rc = both(NULL, pe(s, s->rank + d), NULL, pe(s, s->rank - d), 0, TAG_MEET);
    return rc;
}

int ftk_shmem_broadcast(const struct ftk_shmem_set *s, int root, void *data, size_t bytes)
{
    int rc = MPI_SUCCESS;
    if (is_all(s))
        return MPI_Bcast(data, (int)bytes, MPI_BYTE, ftk_shmem_pe(s, root), ftk_shmem.comm);
    if (s->rank != root)
        return receive(data, bytes, ftk_shmem_pe(s, root), TAG_BROADCAST);
    for (int i = 1; rc == MPI_SUCCESS && i < s->size; i++)
        rc = send(data, bytes, pe(s, root + i), TAG_BROADCAST);
    return rc;
}

/* In a ring: each PE passes on what it has got last. */
int ftk_shmem_gather(const struct ftk_shmem_set *s, const void *mine, size_t bytes, void *all)
{
    char *to = all;
    int rc = MPI_SUCCESS;
    if (is_all(s))
        return MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, ftk_shmem.comm);
    memcpy(to + (size_t)s->rank * bytes, mine, bytes);
    for (int i = 0; rc == MPI_SUCCESS && i < s->size - 1; i++) {
        const size_t has = (size_t)((s->rank - i + s->size) % s->size);
        const size_t next = (has + (size_t)s->size - 1) % (size_t)s->size;
        rc = both(to + has * bytes, pe(s, s->rank + 1), to + next * bytes, pe(s, s->rank - 1),
            bytes, TAG_GATHER);
    }
    return rc;
}

int ftk_shmem_exchange(const struct ftk_shmem_set *s, const void *from, size_t bytes, void *to)
{
    int rc = MPI_SUCCESS;
    for (int i = 0; rc == MPI_SUCCESS && i < s->size; i++) {
        const size_t up = (size_t)((s->rank + i) % s->size);
        const size_t down = (size_t)((s->rank - i + s->size) % s->size);
        rc = both((const char *)from + up * bytes, ftk_shmem_pe(s, (int)up),
            (char *)to + down * bytes, ftk_shmem_pe(s, (int)down), bytes, TAG_EXCHANGE);
    }
    return rc;
}

/* In a chain, so that the result depends on nothing but the order of the PEs. */
int ftk_shmem_reduce(
    const struct ftk_shmem_set *s, void *data, int count, MPI_Datatype type, MPI_Op op)
{
    int bytes, rc = MPI_SUCCESS;
    if (is_all(s))
        return MPI_Allreduce(MPI_IN_PLACE, data, count, type, op, ftk_shmem.comm);
    MPI_Type_size(type, &bytes);
    const size_t all = (size_t)count * (size_t)bytes;
    if (s->rank > 0) {
        void *before = malloc(all + 1);
        if (!before)
            return MPI_ERR_NO_MEM;
        rc = receive(before, all, pe(s, s->rank - 1), TAG_REDUCE);
        if (rc == MPI_SUCCESS)
            rc = MPI_Reduce_local(before, data, count, type, op);
        free(before);
    }
    if (rc == MPI_SUCCESS && s->rank < s->size - 1)
        rc = send(data, all, pe(s, s->rank + 1), TAG_REDUCE);
    return rc == MPI_SUCCESS ? ftk_shmem_broadcast(s, s->size - 1, data, all) : rc;
}

/* ---- barriers ------------------------------------------------------------------------ */

static void meet(const char *call, int start, int log_stride, int size)
{
    struct ftk_shmem_set s = { 0 };
    if (ftk_shmem_set(call, start, log_stride, size, &s))
        (void)ftk_shmem_done(call, ftk_shmem_meet(&s));
}

void shmem_barrier_all(void)
{
    meet("shmem_barrier_all", 0, 0, ftk_shmem.n);
}

void shmem_sync_all(void)
{
    meet("shmem_sync_all", 0, 0, ftk_shmem.n);
}

void shmem_barrier(int PE_start, int logPE_stride, int PE_size, long *pSync)
{
    (void)pSync;
    meet("shmem_barrier", PE_start, logPE_stride, PE_size);
}

void shmem_sync(int PE_start, int logPE_stride, int PE_size, long *pSync)
{
    (void)pSync;
    meet("shmem_sync", PE_start, logPE_stride, PE_size);
}
