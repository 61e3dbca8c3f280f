/* Windows as objects: their list, their errors, their end (see win.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A window has the life of its communicator (vcomm.h): the program has it while the communicator is
 * live; one that the program has freed since the line comes back in a rollback with the
 * communicator; one that a rollback takes away leaves its handle and its memory to the program. */
#include <stdlib.h>

#include "core/grow.h"
#include "detect/detect.h"
#include "detect/misuse.h"
#include "log/vcomm/comm.h"
#include "log/base/queue.h"
#include "log/win/passive.h"
#include "log/win/win.h"

struct ftk_win *ftk_wins;

struct ftk_win *ftk_win_in_context(int context)
{
    for (struct ftk_win *w = ftk_wins; w; w = w->next)
        if (ftk_win_is_live(w) && w->vc->context == context)
            return w;
    return NULL;
}

/* ---- errors -------------------------------------------------------------------------- */

static bool is_fatal(MPI_Win win)
{
    MPI_Errhandler handler;
    if (PMPI_Win_get_errhandler(win, &handler) != MPI_SUCCESS)
        return false;
    const bool fatal = handler == MPI_ERRORS_ARE_FATAL;
    (void)PMPI_Errhandler_free(&handler); /* an error leaks a reference */
    return fatal;
}

int ftk_win_error(const struct ftk_win *w, int code)
{
    if (ftk_log_is_rolling_back())
        return code;
    if (is_fatal(w->handle))
        ftk_detect_fatal(ftk_log.ctx, code);
    int rc = PMPI_Win_call_errhandler(w->handle, code);
    if (rc != MPI_SUCCESS) /* no handler was called; the program gets the code in any case */
        ftk_report(FTKIT_WARNING, "MPI error %d while calling an error handler", rc);
    return code;
}

void ftk_win_broken(const struct ftk_win *w, int code)
{
    char name[MPI_MAX_OBJECT_NAME + 1] = "", text[MPI_MAX_ERROR_STRING + 1] = "", why[1024];
    int len;
    if (ftk_log_is_rolling_back())
        return;
    if (ftk_mpi_is_failure(code)) {
        ftk_log_note_failure();
        return;
    }
    (void)PMPI_Win_get_name(w->handle, name, &len); /* both for the text only */
    (void)PMPI_Error_string(code, text, &len);
    snprintf(why, sizeof why,
        "rank %d: cannot do the one-sided operations of other ranks on a window%s%s: %s; they "
        "would wait for ever",
        ftk_log.me, *name ? " " : "", name, text);
    ftk_misuse_end(ftk_log.ctx, why);
}

/* ---- handles that restores have left to the program ------------------------------------
 * Until the program frees them, or the restore of a registered variable.  A restore that fails is
 * repeated before it has come to the variables. */

static MPI_Win *detached;
static size_t ndetached, detached_room;

void ftk_win_detach(MPI_Win handle)
{
    if (handle == MPI_WIN_NULL)
        return;
    if (ftk_grow(&detached, &detached_room, ndetached + 1, sizeof *detached)) /* else it leaks */
        detached[ndetached++] = handle;
}

static void forget_detached(void)
{
    free(detached);
    detached = NULL;
    ndetached = detached_room = 0;
}

bool ftk_win_is_detached(MPI_Win handle)
{
    for (size_t i = 0; handle != MPI_WIN_NULL && i < ndetached; i++)
        if (detached[i] == handle) {
            detached[i] = detached[--ndetached];
            return true;
        }
    return false;
}

/* ---- the life of a window ------------------------------------------------------------ */

struct ftk_win *ftk_win_new(void)
{
    struct ftk_win *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->handle = MPI_WIN_NULL;
    w->id = ftk_queue_next();
    w->comm = MPI_COMM_NULL;
    w->nstart = -1;
    return w;
}

void ftk_win_publish(struct ftk_win *w)
{
    ftk_vcomm_keep(w->vc);
    w->next = ftk_wins;
    ftk_wins = w;
    ftk_parts_list_progress();
}

static void unlink_from_list(const struct ftk_win *w)
{
    for (struct ftk_win **p = &ftk_wins; *p; p = &(*p)->next)
        if (*p == w) {
            *p = w->next;
            break;
        }
    ftk_parts_list_progress();
}

void ftk_win_unpublish(struct ftk_win *w)
{
    unlink_from_list(w);
    ftk_vcomm_let_go(w->vc);
}

void ftk_win_forget(struct ftk_win *w)
{
    for (int i = 0; w->queue && i < w->vc->size; i++)
        ftk_win_queue_clear(&w->queue[i]);
    free(w->start);
    w->start = NULL;
    w->nstart = -1;
    w->used = false;
}

void ftk_win_passive_free(struct ftk_win *w)
{
    struct ftk_win_passive *p = w->passive;
    if (!p)
        return;
    for (struct ftk_win_pending *one = p->pending, *next; one; one = next) {
        next = one->next;
        ftk_win_fetches_free(one->fetch, one->nfetch);
        free(one);
    }
    free(p->lock);
    free(p->granted);
    free(p->sent);
    free(p->done);
    free(p->wait);
    free(p);
    w->passive = NULL;
}

int ftk_win_delete(struct ftk_win *w, bool with_handle)
{
    int rc = MPI_SUCCESS;
    ftk_win_passive_free(w);
    if (w->vc)
        ftk_win_forget(w);
    if (with_handle && w->handle != MPI_WIN_NULL)
        rc = PMPI_Win_free(&w->handle);
    ftk_win_near_free(w);
    ftk_win_unshare(w);
    free(w->place);
    free(w->queue);
    free(w->range);
    free(w);
    return rc;
}

/* Take w from the list, and delete it. */
static int end(struct ftk_win *w, bool with_handle)
{
    unlink_from_list(w);
    ftk_vcomm_let_go(w->vc);
    return ftk_win_delete(w, with_handle);
}

int ftk_win_give_up(struct ftk_win *w)
{
    const bool may_be_back = w->vc->born < ftk_log.line.count || ftk_log.apart.open;
    struct ftk_vcomm *vc = w->vc;
    int rc = may_be_back ? MPI_SUCCESS : end(w, true);
    int freed = ftk_vcomm_free(vc);
    return rc == MPI_SUCCESS ? freed : rc;
}

void ftk_win_drop(struct ftk_win *w, bool freed)
{
    if (!freed)
        ftk_win_detach(w->handle);
    (void)end(w, freed); /* an error leaks a window of this process */
}

/* The communicator is lost.  It has a handle only if the program had freed the window. */
static void lose(struct ftk_win *w)
{
    if (w->vc->handle != MPI_COMM_NULL) {
        (void)end(w, true); /* there is no call to return an error */
        return;
    }
    (void)ftk_vcomm_is_detached(w->comm); /* the handle is ours, not the program's */
    (void)PMPI_Comm_free(&w->comm);       /* an error leaks a communicator of this process */
    ftk_win_drop(w, false);
}

void ftk_win_sweep(void)
{
    for (struct ftk_win *w = ftk_wins, *next; w; w = next) {
        next = w->next;
        if (w->vc->state == FTK_VCOMM_LOST)
            lose(w);
        else if (w->vc->state == FTK_VCOMM_PAST)
            (void)end(w, true); /* as above */
    }
}

void ftk_win_close(void)
{
    while (ftk_wins) {
        struct ftk_win *w = ftk_wins;
        if (ftk_win_is_live(w) && w->comm != MPI_COMM_NULL)
            (void)PMPI_Comm_free(&w->comm); /* as above */
        (void)end(w, w->vc->state == FTK_VCOMM_FREED);
    }
    forget_detached();
}
