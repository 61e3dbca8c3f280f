/* Attributes of virtual communicators (see attr.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "log/vcomm/attr.h"

#include "log/base/layer.h"

/* The keys whose creation libftkit_mpi has seen. */
static const struct ftk_keyval *keyvals(size_t *n)
{
    *n = 0;
    return ftk_layer() ? ftk_layer()->keyvals(n) : NULL;
}

/* The value of a key on a communicator with MPI_ERRORS_RETURN; *flag: there is a value.  A key that
 * the program has freed, and that no object has any more, is unknown to the MPI: Open MPI returns
 * MPI_ERR_OTHER then. */
static int value_of(MPI_Comm comm, int key, void **value, int *flag)
{
    int class = MPI_SUCCESS;
    *flag = 0;
    int rc = PMPI_Comm_get_attr(comm, key, (void *)value, flag);
    if (rc == MPI_SUCCESS || PMPI_Error_class(rc, &class) != MPI_SUCCESS
        || (class != MPI_ERR_KEYVAL && class != MPI_ERR_OTHER))
        return rc;
    *flag = 0;
    return MPI_SUCCESS;
}

static int copy_one(const struct ftk_keyval *k, MPI_Comm from, MPI_Comm to)
{
    void *value = NULL, *copy = NULL;
    int flag = 0, copied = 0;
    int rc = value_of(from, k->key, &value, &flag);
    if (rc != MPI_SUCCESS || !flag)
        return rc;
    if (k->copies)
        return k->copies(k, from, to);
    if (!k->copy)
        return rc;
    rc = k->copy(from, k->key, k->extra, value, (void *)&copy, &copied);
    return rc == MPI_SUCCESS && copied ? PMPI_Comm_set_attr(to, k->key, copy) : rc;
}

static int copy_all(MPI_Comm from, MPI_Comm to)
{
    size_t n;
    const struct ftk_keyval *list = keyvals(&n);
    for (size_t i = 0; i < n; i++) {
        struct ftk_keyval k = list[i]; /* a callback may make more of them */
        int rc = copy_one(&k, from, to);
        if (rc != MPI_SUCCESS)
            return rc;
        list = keyvals(&n);
    }
    return MPI_SUCCESS;
}

static int delete_all(MPI_Comm comm, MPI_Comm unused)
{
    size_t n;
    const struct ftk_keyval *list = keyvals(&n);
    (void)unused;
    for (size_t i = 0; i < n; i++) {
        void *value;
        int flag, key = list[i].key;
        int rc = value_of(comm, key, &value, &flag);
        if (rc == MPI_SUCCESS && flag)
            rc = PMPI_Comm_delete_attr(comm, key);
        if (rc != MPI_SUCCESS)
            return rc;
        list = keyvals(&n);
    }
    return MPI_SUCCESS;
}

/* Errors of the MPI are returned meanwhile: the caller calls the program's error handler, once. */
static int quietly(int (*what)(MPI_Comm, MPI_Comm), MPI_Comm comm, MPI_Comm other)
{
    MPI_Errhandler handler;
    int rc = PMPI_Comm_get_errhandler(comm, &handler);
    if (rc != MPI_SUCCESS)
        return rc;
    rc = PMPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    if (rc == MPI_SUCCESS)
        rc = what(comm, other);
    int back = PMPI_Comm_set_errhandler(comm, handler);
    int freed = PMPI_Errhandler_free(&handler);
    rc = rc == MPI_SUCCESS ? back : rc;
    return rc == MPI_SUCCESS ? freed : rc;
}

int ftk_attr_copy(MPI_Comm from, MPI_Comm to)
{
    return quietly(copy_all, from, to);
}

int ftk_attr_delete(MPI_Comm comm)
{
    return quietly(delete_all, comm, MPI_COMM_NULL);
}
