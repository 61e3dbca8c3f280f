/* MPI_Alloc_mem and MPI_Free_mem with the message log (alloc.c).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The info key ftkit.address asks for an address.  The layer calls ftk_win_block_free() without a
 * log, too.
 *
 * Functions that return int return MPI codes. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "log/base/layer.h"
#include "log/win/alloc.h"
#include "log/win/passive.h"
#include "mpi_calls.h"

/* 0: any address.  Text that is no address counts as none: a hint may be ignored. */
static uintptr_t wanted(MPI_Info info)
{
    const unsigned long long page = (unsigned long long)sysconf(_SC_PAGESIZE);
    char text[32], *end;
    int found = 0, room = sizeof text;
    if (info == MPI_INFO_NULL
        || PMPI_Info_get_string(info, "ftkit.address", &room, text, &found) != MPI_SUCCESS
        || !found)
        return 0;
    errno = 0;
    const unsigned long long at = strtoull(text, &end, 0);
    return errno == 0 && end != text && *end == '\0' && at % page == 0 ? (uintptr_t)at : 0;
}

/* If the wanted address is not free the call gives no other memory: the program would not use
 * it. */
int ftk_mpi_Alloc_mem(MPI_Aint size, MPI_Info info, void *baseptr)
{
    const uintptr_t at = wanted(info);
    bool has = false;
    if (size > 0 && size < FTK_FAR && ftk_log.n > 1 && ftk_win_is_one_team()) {
        ftk_layer_set_frees(ftk_win_block_free);
        has = ftk_win_block_make((size_t)size, at, baseptr);
    }
    if (has)
        return MPI_SUCCESS;
    return at ? MPI_ERR_NO_MEM : PMPI_Alloc_mem(size, info, baseptr);
}

int ftk_mpi_Free_mem(void *base)
{
    return ftk_win_block_free(base) ? MPI_SUCCESS : PMPI_Free_mem(base);
}
