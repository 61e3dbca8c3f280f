/* Windows of the MPI: those from before ftkit_open(), and those on communicators that are not
 * ftkit's.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "log/win/win.h"

static bool has_warned;

void ftk_win_foreign_forget(void)
{
    has_warned = false;
}

/* The members of a window, and the rank of this process among them; false: they are not known. */
static bool members_of(MPI_Win win, int *size, int *rank)
{
    MPI_Group group;
    if (PMPI_Win_get_group(win, &group) != MPI_SUCCESS)
        return false;
    const bool known =
        PMPI_Group_size(group, size) == MPI_SUCCESS && PMPI_Group_rank(group, rank) == MPI_SUCCESS;
    return PMPI_Group_free(&group) == MPI_SUCCESS && known;
}

/* A window of one process waits for nobody. */
void ftk_win_foreign(MPI_Win win)
{
    int size, rank;
    if (has_warned || win == MPI_WIN_NULL || !members_of(win, &size, &rank) || size < 2)
        return;
    has_warned = true;
    if (rank == 0)
        ftk_report(FTKIT_WARNING,
            "context %s: rank %d: a window is not ftkit's, so its calls go to the MPI: a failure "
            "inside its calls is not repaired (make it behind ftkit_open(), on MPI_COMM_WORLD or a "
            "communicator that ftkit knows)",
            ftk_log.ctx->cfg.name, ftk_log.me);
}
