/* The making of windows and questions about them, as the program calls them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A window gets a communicator of its own, with the members of the program's.  All that can fail
 * in one process comes before the members agree on the communicator: so a window is made by all of
 * them or by none. */
#include <stdlib.h>

#include "log/coll/coll.h"
#include "log/mpi/construct.h"
#include "log/win/near.h"
#include "log/win/passive.h"
#include "log/win/win.h"
#include "mpi_calls.h"

/* ---- making -------------------------------------------------------------------------- */

int ftk_win_make_own(struct ftk_win *w, int n, const struct ftk_win_making *a)
{
    if (a->size < 0)
        return MPI_ERR_SIZE;
    if (a->unit <= 0)
        return MPI_ERR_DISP;
    w->place = calloc((size_t)n, sizeof *w->place);
    w->queue = calloc((size_t)n, sizeof *w->queue);
    if (!w->place || !w->queue)
        return MPI_ERR_NO_MEM;
    w->allocated = a->how == FTK_WIN_ALLOCATED || a->how == FTK_WIN_ALLOCATED_SHARED;
    w->dynamic = a->how == FTK_WIN_DYNAMIC;
    w->base = a->base;
    int rc = ftk_win_check_memory("MPI_Win_create", a->base) ? MPI_SUCCESS : MPI_ERR_BASE;
    if (rc != MPI_SUCCESS)
        return rc;
    if (a->how == FTK_WIN_ALLOCATED_SHARED) { /* ftk_win_share() makes the rest */
        rc = ftk_win_share_begin(w, n);
        return rc == MPI_SUCCESS ? ftk_win_near_make_words(w, n, a) : rc;
    }
    rc = w->dynamic ? PMPI_Win_create_dynamic(a->info, MPI_COMM_SELF, &w->handle)
                    : ftk_win_near_make(w, n, a, ftk_win_is_one_team());
    /* a new window has no name [MPI 7.8]; Open MPI has given it one */
    return rc == MPI_SUCCESS ? PMPI_Win_set_name(w->handle, "") : rc;
}

/* An operation has another form on a dynamic window. */
static int compare_kinds(const struct ftk_win *w)
{
    for (int i = 1; i < w->vc->size; i++) {
        if (w->place[i].kind == w->place[0].kind)
            continue;
        ftk_report(FTKIT_ERROR,
            "rank %d: ranks 0 and %d of a communicator make a window by different calls "
            "(MPI_Win_create, MPI_Win_allocate, MPI_Win_allocate_shared, "
            "MPI_Win_create_dynamic): use one call in all ranks",
            ftk_log.me, i);
        return MPI_ERR_WIN;
    }
    return MPI_SUCCESS;
}

/* All members learn the sizes of all, and whether the calls agree. */
static int exchange_places(struct ftk_win *w, const struct ftk_win_making *a)
{
    const struct ftk_win_place mine = { a->size, a->unit, a->how };
    int rc = PMPI_Comm_set_errhandler(w->comm, MPI_ERRORS_RETURN);
    int exchanged =
        w->vc->size > 1 ? ftk_coll_allgather(w->vc, &mine, w->place, sizeof mine) : MPI_SUCCESS;
    if (w->vc->size == 1)
        w->place[0] = mine;
    rc = rc == MPI_SUCCESS ? exchanged : rc;
    return rc == MPI_SUCCESS ? compare_kinds(w) : rc;
}

/* The members make the communicator of the window, or none of them does; errors have gone to the
 * handler of the parent. */
static int make_comm(struct ftk_win *w, struct ftk_vcomm *parent, const struct ftk_win_making *a)
{
    struct ftk_construct m;
    MPI_Comm comm = MPI_COMM_NULL;
    ftk_make_begin(&m, parent, FTK_MAKE_NEW, MPI_INFO_NULL);
    ftk_make_first(&m, parent->size);
    if (m.error == MPI_SUCCESS)
        m.error = w ? ftk_win_make_own(w, parent->size, a) : MPI_ERR_NO_MEM;
    int rc = ftk_make_known(&m, &comm);
    if (rc != MPI_SUCCESS || !w) /* without w the members have not agreed */
        return rc;
    w->comm = comm;
    w->vc = ftk_vcomm_find(comm);
    return rc;
}

/* NULL: *rc is the error. */
static struct ftk_win *make(struct ftk_vcomm *parent, const struct ftk_win_making *a, int *rc)
{
    if (parent->remote) {
        *rc = ftk_vcomm_error(parent, MPI_ERR_COMM);
        return NULL;
    }
    struct ftk_win *w = ftk_win_new();
    *rc = make_comm(w, parent, a);
    if (*rc != MPI_SUCCESS || !w) {
        if (w)
            (void)ftk_win_delete(w, true); /* rc is the first error */
        return NULL;
    }
    ftk_win_publish(w); /* a member that is further may already send */
    (void)FTK_FAULT("win.made");
    *rc = exchange_places(w, a);
    if (*rc == MPI_SUCCESS && a->how == FTK_WIN_ALLOCATED_SHARED)
        *rc = ftk_win_share(w);
    if (*rc == MPI_SUCCESS)
        return w;
    ftk_win_unpublish(w);
    (void)ftk_vcomm_free(w->vc); /* as above */
    w->vc = NULL;
    (void)ftk_win_delete(w, true);
    *rc = ftk_vcomm_end(parent, *rc);
    return NULL;
}

int ftk_mpi_Win_create(
    void *base, MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm, MPI_Win *win)
{
    struct ftk_vcomm *parent = ftk_vcomm_find(comm);
    int rc;
    if (!parent)
        return PMPI_Win_create(base, size, disp_unit, info, comm, win);
    const struct ftk_win_making a = { FTK_WIN_CREATED, base, size, disp_unit, info };
    *win = MPI_WIN_NULL;
    const struct ftk_win *w = make(parent, &a, &rc);
    if (w)
        *win = w->handle;
    return rc;
}

int ftk_mpi_Win_create_dynamic(MPI_Info info, MPI_Comm comm, MPI_Win *win)
{
    struct ftk_vcomm *parent = ftk_vcomm_find(comm);
    int rc;
    if (!parent)
        return PMPI_Win_create_dynamic(info, comm, win);
    const struct ftk_win_making a = { FTK_WIN_DYNAMIC, NULL, 0, 1, info };
    *win = MPI_WIN_NULL;
    const struct ftk_win *w = make(parent, &a, &rc);
    if (w)
        *win = w->handle;
    return rc;
}

int ftk_mpi_Win_allocate(
    MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm, void *baseptr, MPI_Win *win)
{
    struct ftk_vcomm *parent = ftk_vcomm_find(comm);
    int rc;
    if (!parent)
        return PMPI_Win_allocate(size, disp_unit, info, comm, baseptr, win);
    const struct ftk_win_making a = { FTK_WIN_ALLOCATED, NULL, size, disp_unit, info };
    *win = MPI_WIN_NULL;
    const struct ftk_win *w = make(parent, &a, &rc);
    if (!w)
        return rc;
    *(void **)baseptr = w->base;
    *win = w->handle;
    return rc;
}

int ftk_mpi_Win_allocate_shared(
    MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm, void *baseptr, MPI_Win *win)
{
    struct ftk_vcomm *parent = ftk_vcomm_find(comm);
    int rc;
    if (!parent)
        return PMPI_Win_allocate_shared(size, disp_unit, info, comm, baseptr, win);
    const struct ftk_win_making a = { FTK_WIN_ALLOCATED_SHARED, NULL, size, disp_unit, info };
    *win = MPI_WIN_NULL;
    if (!ftk_log_is_rolling_back() && !ftk_win_may_share("MPI_Win_allocate_shared"))
        return ftk_vcomm_error(parent, MPI_ERR_UNSUPPORTED_OPERATION);
    const struct ftk_win *w = make(parent, &a, &rc);
    if (!w)
        return rc;
    *(void **)baseptr = w->base;
    *win = w->handle;
    return rc;
}

/* ---- the end ------------------------------------------------------------------------- */

static int free_window(struct ftk_win *w)
{
    const struct ftk_call barrier = { .kind = FTK_BARRIER, .name = "MPI_Win_free" };
    if (ftk_log_is_rolling_back())
        return ftk_log_error();
    if (w->used || w->nstart >= 0 || w->exposure || ftk_win_has_locks(w))
        return MPI_ERR_RMA_SYNC;
    return ftk_coll_now(w->vc, &barrier); /* nothing comes for this window any more */
}

int ftk_mpi_Win_free(MPI_Win *win)
{
    struct ftk_win *w = ftk_win_find(*win);
    if (!w) {
        (void)ftk_win_is_detached(*win); /* the program frees the handle now */
        return ftk_win_is_gone(*win) ? ftk_log_error() : PMPI_Win_free(win);
    }
    int rc = free_window(w);
    if (rc != MPI_SUCCESS)
        return ftk_win_error(w, rc);
    rc = ftk_win_give_up(w);
    *win = MPI_WIN_NULL;
    return ftk_vcomm_end(ftk_log.vcomms.world, rc);
}

/* ---- questions ----------------------------------------------------------------------- */

int ftk_mpi_Win_get_group(MPI_Win win, MPI_Group *group)
{
    const struct ftk_win *w = ftk_win_find(win);
    if (!w)
        return ftk_win_is_gone(win) ? ftk_log_error() : PMPI_Win_get_group(win, group);
    int rc = w->vc->member
                 ? PMPI_Group_incl(ftk_log.vcomms.group, w->vc->size, w->vc->member, group)
                 : PMPI_Group_excl(ftk_log.vcomms.group, 0, NULL, group);
    return ftk_win_end(w, rc);
}

/* The handle of a window whose memory has a file is of MPI_Win_create. */
int ftk_mpi_Win_get_attr(MPI_Win win, int win_keyval, void *attribute_val, int *flag)
{
    /* the program may keep a pointer to them */
    static int allocated = MPI_WIN_FLAVOR_ALLOCATE, shared = MPI_WIN_FLAVOR_SHARED;
    const struct ftk_win *w = win_keyval == MPI_WIN_CREATE_FLAVOR ? ftk_win_find(win) : NULL;
    if (!w || !w->allocated || (!w->shared && !ftk_win_near_has_file(w)))
        return PMPI_Win_get_attr(win, win_keyval, attribute_val, flag);
    *(int **)attribute_val = w->shared ? &shared : &allocated;
    *flag = 1;
    return MPI_SUCCESS;
}

int ftk_mpi_Win_shared_query(MPI_Win win, int rank, MPI_Aint *size, int *disp_unit, void *baseptr)
{
    struct ftk_win *w = ftk_win_find(win);
    if (!w)
        return ftk_win_is_gone(win) ? ftk_log_error()
                                    : PMPI_Win_shared_query(win, rank, size, disp_unit, baseptr);
    if (ftk_log_is_rolling_back())
        return ftk_log_error();
    if (w->shared)
        return ftk_win_end(w, ftk_win_shared_part(w, rank, size, disp_unit, baseptr));
    if (w->near)
        return ftk_win_end(w, ftk_win_direct_part(w, rank, size, disp_unit, baseptr));
    ftk_report(FTKIT_ERROR,
        "rank %d: MPI_Win_shared_query is not possible with the message log (log.enabled) and a "
        "window that is not of MPI_Win_allocate_shared",
        ftk_log.me);
    return ftk_win_error(w, MPI_ERR_UNSUPPORTED_OPERATION);
}
