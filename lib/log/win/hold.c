/* Memory that a window has for as long as the program has its handle.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A rollback leaves a window that was made since the line to the program, with its memory.  So an
 * attribute of the handle unmaps the memory. */
#include <stdlib.h>
#include <sys/mman.h>

#include "log/win/win.h"

struct mapping {
    void *at;
    size_t bytes;
};

static int unmap(MPI_Win win, int key, void *value, void *extra)
{
    struct mapping *m = value;
    (void)win;
    (void)key;
    (void)extra;
    (void)munmap(m->at, m->bytes); /* an error leaks the mapping */
    free(m);
    return MPI_SUCCESS;
}

static int give(MPI_Win handle, struct mapping *m)
{
    int key = MPI_KEYVAL_INVALID;
    int rc = PMPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, unmap, &key, NULL);
    if (rc == MPI_SUCCESS)
        rc = PMPI_Win_set_attr(handle, key, m);
    if (key != MPI_KEYVAL_INVALID)
        (void)PMPI_Win_free_keyval(&key); /* lives as long as the handle; an error leaks it */
    return rc;
}

int ftk_win_hold(MPI_Win handle, void *at, size_t bytes)
{
    struct mapping *m = malloc(sizeof *m);
    if (!m)
        return MPI_ERR_NO_MEM;
    *m = (struct mapping){ at, bytes };
    const int rc = give(handle, m);
    if (rc != MPI_SUCCESS)
        free(m);
    return rc;
}
