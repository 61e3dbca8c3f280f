/* Virtual communicators: their list, their contexts, their construction.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The handles are communicators of this process alone, so the MPI keeps attributes, names, hints
 * and error handlers.  Two things differ from the MPI:
 *   - attributes with keys that were made in Fortran are not copied from MPI_COMM_WORLD
 *     (attr.h), and their delete callbacks may run when a communicator is made later, or the next
 *     line is committed, not within MPI_Comm_free();
 *   - attributes, names and error handlers are not rolled back: the program sets them again.
 *
 * The members agree on a context with one exchange of proposals.  Each member proposes the plain
 * contexts that it could use, and all take the lowest that all could use.  The parts of a split
 * have the same context, because they have no member in common.  If no plain context is free at
 * all members, each member receives in a shared context of its own choice, which its proposal has
 * named.  So other constructions under way, and their order, have no influence. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "detect/detect.h"
#include "detect/misuse.h"
#include "log/vcomm/attr.h"
#include "log/vcomm/comm.h"
#include "log/vcomm/inter.h"
#include "log/vcomm/topology.h"
#include "log/vcomm/vcomm_image.h"
#include "log/base/part.h"
#include "replica/planes.h"

#define SLOTS ((size_t)8192)
_Static_assert(SLOTS / 2 > FTK_LOG_ALL, "finding has to come to an empty slot");

static MPI_Comm base = MPI_COMM_NULL; /* of this process alone, without attributes */
static struct ftk_proposal *words;    /* [n] of the last exchange */

/* ---- finding ----------------------------------------------------------------------------
 * Every call of the program comes here.  Not more than FTK_LOG_ALL of them are alive,
 * because each has a context of its own. */

static struct {
    MPI_Comm handle;
    struct ftk_vcomm *vc; /* NULL: empty */
} slots[SLOTS], last;

struct ftk_vcomm ftk_vcomm_lost = { .handle = MPI_COMM_NULL, .state = FTK_VCOMM_LOST };

static struct ftk_vcomm *dying; /* the communicator that is being freed; NULL: none */
static MPI_Comm dying_handle;

static size_t slot_of(MPI_Comm handle)
{
    uint64_t h = (uint64_t)(uintptr_t)handle * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(h >> 40) % SLOTS;
}

static void find_anew(void)
{
    memset(slots, 0, sizeof slots);
    memset(&last, 0, sizeof last);
    for (struct ftk_vcomm *vc = ftk_log.vcomms.list; vc; vc = vc->next) {
        size_t s = slot_of(vc->handle);
        if (vc->state != FTK_VCOMM_LIVE)
            continue;
        while (slots[s].vc)
            s = (s + 1) % SLOTS;
        slots[s].handle = vc->handle;
        slots[s].vc = vc;
    }
}

struct ftk_vcomm *ftk_vcomm_find(MPI_Comm comm)
{
    if (last.vc && comm == last.handle)
        return last.vc;
    for (size_t s = slot_of(comm); slots[s].vc; s = (s + 1) % SLOTS) {
        if (slots[s].handle == comm) {
            last.handle = comm;
            last.vc = slots[s].vc;
            return last.vc;
        }
    }
    if (dying && comm == dying_handle)
        return dying;
    /* while a rank rolls back, a construction gives MPI_COMM_NULL, and the program may use this
     * handle: the call fails then; the MPI itself would end the process by default */
    return comm == MPI_COMM_NULL && ftk_log_is_rolling_back() ? ftk_log.vcomms.world : NULL;
}

/* While this rank rolls back all its calls fail.  No error handler is called then, because
 * ftkit_checkpoint() reports the rollback to the program. */
int ftk_vcomm_raise(MPI_Comm handle, int code)
{
    if (ftk_log_is_rolling_back())
        return code;
    if (ftk_misuse_is_fatal(handle))
        ftk_detect_fatal(ftk_log.ctx, code);
    int rc = PMPI_Comm_call_errhandler(handle, code);
    if (rc != MPI_SUCCESS) /* no handler was called; the program gets the code in any case */
        ftk_report(FTKIT_WARNING, "MPI error %d while calling an error handler", rc);
    return code;
}

int ftk_vcomm_error(const struct ftk_vcomm *vc, int code)
{
    const bool lost = vc->state == FTK_VCOMM_LOST;
    return ftk_vcomm_raise(lost ? ftk_log.vcomms.world->handle : vc->handle, code);
}

/* ---- handles ------------------------------------------------------------------------- */

/* A communicator of this process for a child of parent, with its error handler. */
int ftk_vcomm_handle(
    const struct ftk_vcomm *parent, enum ftk_make_how how, MPI_Info info, MPI_Comm *handle)
{
    bool own = how == FTK_MAKE_NEW || parent == ftk_log.vcomms.world;
    MPI_Comm from = own ? base : parent->handle, made = MPI_COMM_NULL;
    MPI_Errhandler handler;
    int back = MPI_SUCCESS;
    int rc = PMPI_Comm_get_errhandler(parent->handle, &handler);
    if (rc != MPI_SUCCESS)
        return rc;
    if (!own) /* a copy callback may fail: the caller calls the handler, once */
        rc = PMPI_Comm_set_errhandler(from, MPI_ERRORS_RETURN);
    if (rc == MPI_SUCCESS)
        rc = how == FTK_MAKE_DUP_INFO ? PMPI_Comm_dup_with_info(from, info, &made)
                                      : PMPI_Comm_dup(from, &made);
    if (!own)
        back = PMPI_Comm_set_errhandler(from, handler);
    if (rc != MPI_SUCCESS)
        made = MPI_COMM_NULL;
    rc = rc == MPI_SUCCESS ? back : rc;
    if (rc == MPI_SUCCESS && how != FTK_MAKE_NEW && parent == ftk_log.vcomms.world)
        rc = ftk_attr_copy(parent->handle, made);
    if (rc == MPI_SUCCESS)
        rc = PMPI_Comm_set_errhandler(made, handler);
    back = PMPI_Errhandler_free(&handler);
    rc = rc == MPI_SUCCESS ? back : rc;
    if (rc == MPI_SUCCESS)
        *handle = made;
    else if (made != MPI_COMM_NULL)
        (void)PMPI_Comm_free(&made); /* rc is the first error */
    return rc;
}

/* Sends that are over have shared a request. */
static void spare_request(struct ftk_vcomm *vc)
{
    if (!vc->sent)
        return;
    vc->sent->next = ftk_log.vcomms.spare;
    ftk_log.vcomms.spare = vc->sent;
}

/* Free the handle.  Delete callbacks of the program may run, and may make calls. */
static int free_handle(struct ftk_vcomm *vc)
{
    struct ftk_vcomm *outer = dying; /* a delete callback may ask for the rank */
    MPI_Comm outer_handle = dying_handle;
    if (vc->handle == MPI_COMM_NULL)
        return MPI_SUCCESS;
    dying = vc;
    dying_handle = vc->handle;
    int rc = PMPI_Comm_free(&vc->handle);
    dying = outer;
    dying_handle = outer_handle;
    return rc;
}

/* Free a communicator that is in no list any more. */
static int vcomm_delete(struct ftk_vcomm *vc)
{
    int rc = free_handle(vc);
    spare_request(vc);
    ftk_topo_free(&vc->topo);
    free(vc->member);
    free(vc->index);
    ftk_remote_free(vc->remote);
    free(vc->there);
    free(vc);
    return rc;
}

void ftk_vcomm_discard(struct ftk_vcomm *vc)
{
    int rc = vc ? vcomm_delete(vc) : MPI_SUCCESS;
    if (rc != MPI_SUCCESS)
        ftk_report(FTKIT_WARNING, "MPI error %d while freeing a communicator", rc);
}

struct ftk_vcomm *ftk_vcomm_empty(int members)
{
    struct ftk_vcomm *vc = calloc(1, sizeof *vc);
    if (!vc)
        return NULL;
    vc->handle = MPI_COMM_NULL;
    vc->member = malloc((size_t)members * sizeof *vc->member);
    vc->index = malloc((size_t)ftk_log.n * sizeof *vc->index);
    vc->there = malloc((size_t)ftk_log.n * sizeof *vc->there);
    if (vc->member && vc->index && vc->there)
        return vc;
    ftk_vcomm_discard(vc);
    return NULL;
}

/* ---- the list ------------------------------------------------------------------------ */

void ftk_vcomm_publish(struct ftk_vcomm *vc)
{
    vc->born = ftk_log.line.count;
    vc->next = ftk_log.vcomms.list;
    ftk_log.vcomms.list = vc;
    ftk_vcomm_hold(vc); /* the program's handle */
    find_anew();
}

/* Whether a rollback brings it back, or the set has it that is being written. */
static bool may_be_back(const struct ftk_vcomm *vc)
{
    const bool in_set = ftk_log.apart.open && vc->at_cut == FTK_CUT_LIVES;
    return vc->state == FTK_VCOMM_FREED && (vc->born < ftk_log.line.count || in_set);
}

static bool is_over(const struct ftk_vcomm *vc)
{
    return vc->state != FTK_VCOMM_LIVE && vc->refs == 0 && vc->kept == 0 && !may_be_back(vc);
}

static void unlink_from_list(struct ftk_vcomm *vc)
{
    for (struct ftk_vcomm **p = &ftk_log.vcomms.list; *p; p = &(*p)->next) {
        if (*p == vc) {
            *p = vc->next;
            return;
        }
    }
}

void ftk_vcomm_sweep(void)
{
    struct ftk_vcomm *go = NULL;
    for (struct ftk_vcomm **p = &ftk_log.vcomms.list; *p;) {
        struct ftk_vcomm *vc = *p;
        if (!is_over(vc)) {
            p = &vc->next;
            continue;
        }
        *p = vc->next;
        vc->next = go;
        go = vc;
    }
    while (go) { /* taken out of the list first: delete callbacks may change the list */
        struct ftk_vcomm *next = go->next;
        ftk_vcomm_discard(go);
        go = next;
    }
}

void ftk_vcomm_contexts(struct ftk_contexts *to)
{
    for (const struct ftk_vcomm *vc = ftk_log.vcomms.list; vc; vc = vc->next)
        if (vc->refs > 0 && vc->state != FTK_VCOMM_LOST)
            ftk_contexts_add(to, vc->context);
}

/* A communicator that the program made since the line is deleted at once when it is freed, unless
 * something holds it.  Any other communicator stays until the next line, for a rollback.  The
 * program drops its references at the same place in a replay. */
int ftk_vcomm_free(struct ftk_vcomm *vc)
{
    vc->state = FTK_VCOMM_FREED;
    ftk_vcomm_drop(vc);
    find_anew();
    if (!is_over(vc))
        return MPI_SUCCESS;
    unlink_from_list(vc);
    return vcomm_delete(vc);
}

static int cut(bool apart)
{
    if (!apart)
        return FTKIT_OK;
    for (struct ftk_vcomm *vc = ftk_log.vcomms.list; vc; vc = vc->next) {
        vc->cut_colls = vc->colls;
        vc->at_cut = vc->state == FTK_VCOMM_LIVE ? FTK_CUT_LIVES : FTK_CUT_FREED;
    }
    return FTKIT_OK;
}

/* The line does not have it. */
static void pass_by(struct ftk_vcomm *vc)
{
    if (vc->state == FTK_VCOMM_FREED)
        vc->state = FTK_VCOMM_PAST;
}

/* The set has the communicators that the program had at the cut. */
static void pass_cut(void)
{
    for (struct ftk_vcomm *vc = ftk_log.vcomms.list; vc; vc = vc->next) {
        const bool later = vc->at_cut == FTK_CUT_LATER;
        if (vc->at_cut == FTK_CUT_FREED)
            pass_by(vc);
        vc->line_colls = later ? 0 : vc->cut_colls;
        vc->born = later ? ftk_log.line.count : 0;
    }
    ftk_vcomm_sweep();
}

/* A line is committed: what the program has freed does not come back; a rollback restores the
 * others. */
static void keep_line(void)
{
    for (struct ftk_vcomm *vc = ftk_log.vcomms.list; vc; vc = vc->next) {
        pass_by(vc);
        vc->line_colls = vc->colls;
        vc->born = 0; /* older than any line */
    }
    ftk_vcomm_sweep();
}

static MPI_Comm detached[FTK_LOG_ALL];
static size_t ndetached;

/* The program does not have it any more, but its handle if it is live. */
static void lose(struct ftk_vcomm *vc)
{
    if (vc->state == FTK_VCOMM_LIVE) {
        vc->handle = MPI_COMM_NULL;
        ftk_vcomm_drop(vc);
    }
    vc->state = FTK_VCOMM_LOST;
}

/* The same while this rank rolls back, and its handle belongs to the program. */
static void lose_to_program(struct ftk_vcomm *vc)
{
    if (vc->state == FTK_VCOMM_LIVE && ndetached < FTK_LOG_ALL)
        detached[ndetached++] = vc->handle;
    lose(vc);
}

bool ftk_vcomm_is_detached(MPI_Comm handle)
{
    for (size_t i = 0; handle != MPI_COMM_NULL && i < ndetached; i++)
        if (detached[i] == handle) {
            detached[i] = detached[--ndetached];
            return true;
        }
    return false;
}

/* The rank leaves its state for that of a sibling.  Handles that an earlier rollback has left to
 * the program stay with the program.  Those of now are detached while the state of the sibling is
 * read, and freed when the variables that have them get the values of the sibling. */
static void leave(void)
{
    ndetached = 0;
    keep_line();
}

/* The program may still hold handles of communicators that were made since the line, and may free
 * these handles while it returns to its loop.  So the handles are detached: they belong to the
 * program.  MPI does not give out a handle again that is not freed, so no old value of a variable
 * means a new communicator. */
static void go_back(void)
{
    ndetached = 0;
    for (struct ftk_vcomm *vc = ftk_log.vcomms.list; vc; vc = vc->next) {
        if (vc->born == ftk_log.line.count && !ftk_vcomm_is_permanent(vc)) {
            lose_to_program(vc);
            continue;
        }
        vc->colls = vc->line_colls;
        if (vc->state != FTK_VCOMM_FREED)
            continue;
        vc->state = FTK_VCOMM_LIVE;
        ftk_vcomm_hold(vc);
    }
    find_anew();
    ftk_vcomm_sweep();
}

int ftk_vcomm_attach(struct ftk_vcomm *vc)
{
    int rc = ftk_vcomm_handle(ftk_log.vcomms.world, FTK_MAKE_NEW, MPI_INFO_NULL, &vc->handle);
    if (rc == MPI_SUCCESS)
        ftk_vcomm_publish(vc);
    else
        ftk_vcomm_discard(vc);
    return rc;
}

void ftk_vcomm_detach(struct ftk_vcomm *vc)
{
    (ftk_log_is_rolling_back() ? lose_to_program : lose)(vc);
    find_anew();
}

/* ---- opening and closing ------------------------------------------------------------- */

/* With replicas: the ranks of this plane. */
static bool list_plane(struct ftk_vcomm *vc)
{
    const struct ftkit_ctx *ctx = ftk_log.ctx;
    const int n = ftk_plane_size(ctx), first = ftk_plane_of(ctx, ftk_log.me) * n;
    vc->member = malloc((size_t)n * sizeof *vc->member);
    vc->index = malloc((size_t)ftk_log.n * sizeof *vc->index);
    if (!vc->member || !vc->index)
        return false;
    for (int r = 0; r < ftk_log.n; r++)
        vc->index[r] = r >= first && r < first + n ? r - first : -1;
    for (int r = 0; r < n; r++)
        vc->member[r] = first + r;
    vc->size = n;
    vc->rank = ftk_plane_home(ctx, ftk_log.me);
    return true;
}

static struct ftk_vcomm *open_one(int context)
{
    struct ftk_vcomm *vc = calloc(1, sizeof *vc); /* all ranks in order: no lists */
    if (!vc)
        return NULL;
    vc->handle = MPI_COMM_WORLD;
    vc->context = context;
    vc->size = ftk_log.n;
    vc->rank = ftk_log.me;
    if (ftk_log.ctx->cfg.replicas == 1 || list_plane(vc))
        return vc;
    free(vc->member);
    free(vc->index);
    free(vc);
    return NULL;
}

static int open_handles(void)
{
    int rc = PMPI_Comm_group(ftk_log.epoch.real[0], &ftk_log.vcomms.group);
    if (rc == MPI_SUCCESS) /* unlike a duplicate it has no attributes of the program */
        rc = PMPI_Comm_split(MPI_COMM_SELF, 0, 0, &base);
    if (rc == MPI_SUCCESS)
        rc = PMPI_Comm_set_errhandler(base, MPI_ERRORS_RETURN);
    if (rc == MPI_SUCCESS)
        rc = ftk_vcomm_handle(
            ftk_log.vcomms.world, FTK_MAKE_NEW, MPI_INFO_NULL, &ftk_log.vcomms.user->handle);
    return rc;
}

static void close_handles(void)
{
    int rc = MPI_SUCCESS, last_rc = MPI_SUCCESS;
    if (ftk_log.vcomms.group != MPI_GROUP_NULL)
        rc = PMPI_Group_free(&ftk_log.vcomms.group);
    if (base != MPI_COMM_NULL)
        last_rc = PMPI_Comm_free(&base);
    rc = rc == MPI_SUCCESS ? last_rc : rc;
    if (rc != MPI_SUCCESS)
        ftk_report(FTKIT_WARNING, "MPI error %d while closing the message log", rc);
    ftk_log.vcomms.group = MPI_GROUP_NULL;
    base = MPI_COMM_NULL;
}

/* All other parts are closed: a live communicator has its handle, and nothing has a reference. */
static void check_references(const struct ftk_vcomm *vc)
{
#ifdef FTK_FAULTS
    const uint32_t handle = vc->state == FTK_VCOMM_LIVE ? 1 : 0;
    if (vc->refs == handle && vc->kept == 0)
        return;
    ftk_report(FTKIT_ERROR, "a communicator in context %d has %u references and %u of the log",
        vc->context, vc->refs, vc->kept);
    abort();
#else
    (void)vc;
#endif
}

/* The function may follow an ftk_vcomm_open() that has failed.  Handles that the program has not
 * freed are detached: they are communicators of one process. */
static void close_comms(void)
{
    struct ftk_vcomm *go = ftk_log.vcomms.list;
    bool listed = go != NULL;
    struct ftk_vcomm *user = ftk_log.vcomms.user, *world = ftk_log.vcomms.world;
    ftk_log.vcomms.list = ftk_log.vcomms.user = ftk_log.vcomms.world = NULL;
    find_anew();
    while (go) {
        struct ftk_vcomm *next = go->next;
        check_references(go);
        if (go->state == FTK_VCOMM_LIVE && go != user)
            go->handle = MPI_COMM_NULL;
        ftk_vcomm_discard(go);
        go = next;
    }
    ftk_vcomm_lost.refs = ftk_vcomm_lost.kept = 0; /* of requests that the program has not freed */
    if (!listed && user)
        ftk_vcomm_discard(user);
    if (!listed)
        free(world);
    free(words);
    words = NULL;
    memset(detached, 0, sizeof detached);
    ndetached = 0;
    close_handles();
}

int ftk_vcomm_open(void)
{
    int rc = MPI_SUCCESS;
    ftk_log.vcomms.group = MPI_GROUP_NULL;
    ftk_log.vcomms.list = NULL;
    ftk_log.vcomms.world = open_one(0);
    ftk_log.vcomms.user = open_one(1);
    words = calloc((size_t)ftk_log.n, sizeof *words);
    if (!ftk_log.vcomms.world || !ftk_log.vcomms.user || !words)
        rc = MPI_ERR_NO_MEM;
    if (ftk_log.vcomms.user)
        ftk_log.vcomms.user->handle = MPI_COMM_NULL;
    if (rc == MPI_SUCCESS)
        rc = open_handles();
    if (rc != MPI_SUCCESS) {
        close_comms();
        return rc;
    }
    ftk_vcomm_publish(ftk_log.vcomms.world);
    ftk_vcomm_publish(ftk_log.vcomms.user);
    return MPI_SUCCESS;
}

/* ---- memory for the words of an exchange --------------------------------------------- */

struct ftk_proposal *ftk_make_room(void)
{
    return words;
}

void ftk_vcomm_describe(const struct ftk_vcomm *vc, char *text, size_t room)
{
    char name[MPI_MAX_OBJECT_NAME];
    int n = 0;
    int rc = vc->handle == MPI_COMM_NULL ? MPI_ERR_COMM : PMPI_Comm_get_name(vc->handle, name, &n);
    if (rc == MPI_SUCCESS && n > 0)
        snprintf(text, room, "%s", name);
    else
        snprintf(text, room, "a communicator of %d ranks without a name", vc->size);
}

/* ---- the part ------------------------------------------------------------------------ */

static void pass_line(enum ftk_pass kind, bool first)
{
    (void)first;
    if (kind == FTK_PASS_CUT)
        pass_cut();
    else
        keep_line();
}

/* Those that the program has at the line. */
static int load(const struct ftk_section *in)
{
    if (ftk_log_is_rolling_back()) {
        if (!in->first)
            go_back();
        else if (ftk_log.line.of_sibling)
            leave();
    }
    const bool make = (in->first || !ftk_log_is_rolling_back()) && in->as_many;
    int rc = ftk_vcomm_images_read(in->w, in->end, make);
    if (rc == FTKIT_OK && in->first)
        keep_line(); /* the communicators of set-up are older than the line */
    return rc;
}

static void begin(void)
{
    ftk_log.vcomms.ncontexts = ftk_log.ctx->cfg.log_contexts;
    ftk_log.vcomms.group = MPI_GROUP_NULL;
}

static int start(void)
{
    const int rc = ftk_vcomm_open();
    return rc == MPI_SUCCESS ? FTKIT_OK : ftk_fail_mpi(rc, "communicators of the message log");
}

const struct ftk_part ftk_part_vcomm = { .begin = begin,
    .start = start,
    .close = close_comms,
    .cut = cut,
    .line = pass_line,
    .name = "vcomm",
    .words = ftk_vcomm_images_words,
    .save = ftk_vcomm_images_write,
    .needed = true,
    .load = load };
