/* MPI with ULFM: Open MPI 5.  The only file that names MPIX_ functions.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <mpi.h>
/* needs mpi.h before it */
#include <mpi-ext.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grow.h"
#include "mpi_shim.h"

/* ---- the environment test ---------------------------------------------------------------
 * Each of these settings, when wrong, turns a failure into a hang or a wrong result without a
 * message.  Collectives of coll/han return success with a dead member.  Without the cutoff a
 * process with which no other has communicated counts as alive, and shrink waits for it.  With
 * a synchronous finalize one run in ten hangs at its end after a failure. */

/* Value of a control variable as text; false when MPI has no such variable. */
static bool cvar(const char *name, char *out, size_t bytes)
{
    int index;
    int count;
    int verbosity;
    int binding;
    int scope;
    MPI_Datatype type;
    MPI_T_enum enumtype;
    MPI_T_cvar_handle handle;
    if (MPI_T_cvar_get_index(name, &index) != MPI_SUCCESS
        || MPI_T_cvar_get_info(
               index, NULL, NULL, &verbosity, &type, &enumtype, NULL, NULL, &binding, &scope)
               != MPI_SUCCESS
        || MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) != MPI_SUCCESS)
        return false;
    bool ok = false;
    char *text = calloc((size_t)(count > 16 ? count : 16) + 1, 1);
    if (text && MPI_T_cvar_read(handle, text) == MPI_SUCCESS) {
        if (type == MPI_CHAR) {
            snprintf(out, bytes, "%s", text);
        } else {
            int value;
            memcpy(&value, text, sizeof value);
            snprintf(out, bytes, "%d", value);
        }
        ok = true;
    }
    free(text);
    MPI_T_cvar_handle_free(&handle);
    return ok;
}

/* Whether a comma-separated list has the word. */
static bool listed(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = strstr(list, word); p; p = strstr(p + 1, word))
        if ((p == list || p[-1] == ',' || p[-1] == '^') && (p[n] == '\0' || p[n] == ','))
            return true;
    return false;
}

/* Whether a selection of components excludes the component. */
static bool excluded(const char *selection, const char *component)
{
    if (selection[0] == '^')
        return listed(selection, component);
    return selection[0] != '\0' && !listed(selection, component);
}

static bool settings_are_safe(char *why, size_t bytes)
{
    char v[2048];
    if (!cvar("coll", v, sizeof v) || !excluded(v, "han") || !excluded(v, "hcoll")
        || !excluded(v, "portals4")) {
        snprintf(why, bytes,
            "collective components without fault tolerance are active: "
            "add --mca coll ^han,hcoll,portals4");
        return false;
    }
    if (!cvar("pml", v, sizeof v) || strcmp(v, "ob1") != 0) {
        snprintf(why, bytes, "add --mca pml ob1");
        return false;
    }
    if (!cvar("mpi_add_procs_cutoff", v, sizeof v) || atol(v) < 1000) {
        snprintf(why, bytes, "add --mca mpi_add_procs_cutoff 100000");
        return false;
    }
    if (!cvar("async_mpi_finalize", v, sizeof v) || atoi(v) != 1) {
        snprintf(why, bytes, "add --mca async_mpi_finalize 1");
        return false;
    }
    return true;
}

bool ftk_mpi_outlives(void)
{
    int *on = NULL;
    int known = 0;
    return MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_FT, (void *)&on, &known) == MPI_SUCCESS && known
           && *on;
}

bool ftk_mpi_can_repair(char *why, size_t bytes)
{
    if (!ftk_mpi_outlives()) {
        snprintf(why, bytes, "fault tolerance is off: run with mpirun --with-ft ulfm");
        return false;
    }
    int level, provided;
    /* Open MPI 5.0 makes the thread level that is given here the level of the whole process */
    if (MPI_Query_thread(&level) != MPI_SUCCESS
        || MPI_T_init_thread(level, &provided) != MPI_SUCCESS) {
        snprintf(why, bytes, "the MPI tool interface does not answer");
        return false;
    }
    bool ok = settings_are_safe(why, bytes);
    MPI_T_finalize();
    return ok;
}

/* ---- failures ------------------------------------------------------------------------ */

bool ftk_mpi_is_failure(int mpi_rc)
{
    int class = mpi_rc;
    if (mpi_rc == MPI_SUCCESS || MPI_Error_class(mpi_rc, &class) != MPI_SUCCESS)
        return false;
    return class == MPIX_ERR_PROC_FAILED || class == MPIX_ERR_PROC_FAILED_PENDING
           || class == MPIX_ERR_REVOKED;
}

bool ftk_mpi_is_pending(int mpi_rc)
{
    int class = mpi_rc;
    return MPI_Error_class(mpi_rc, &class) == MPI_SUCCESS && class == MPIX_ERR_PROC_FAILED_PENDING;
}

int ftk_mpi_failure_code(void)
{
    return MPIX_ERR_PROC_FAILED;
}

void ftk_mpi_revoke(MPI_Comm comm)
{
    int revoked = 0;
    if (comm == MPI_COMM_NULL)
        return;
    /* revoking twice is legal but sends again; an error is ignored, because the shrink that
     * follows is collective over the live members in any case */
    if (MPIX_Comm_is_revoked(comm, &revoked) == MPI_SUCCESS && !revoked)
        (void)MPIX_Comm_revoke(comm);
}

/* ---- communicators with agreements ------------------------------------------------------
 * Open MPI 5.0 keeps the result of an agreement.  It finds the result by the context id of the
 * communicator and a number, the "epoch".  The epoch is the largest number that a member proposes,
 * but each member counts on from its own number.  When the member with the largest number has died,
 * the survivors use the same epochs again.  Then an agreement may end with the result of an
 * old one, or never (tests/agree.t).  So a communicator of ftkit with an agreement is freed
 * only in MPI_Finalize: before that no other communicator gets its context id.  (If it were left,
 * MPI_Finalize would wait for the members of a communicator with spawned processes.) */

struct agreed {
    MPI_Comm comm;
    bool ours; /* ftk_mpi_free() was called */
};

static struct {
    struct agreed *list;
    int n;
    bool lost; /* no memory for the list: free no communicator any more */
} agreed;

static struct agreed *find_agreed(MPI_Comm comm)
{
    for (int i = 0; i < agreed.n; i++)
        if (agreed.list[i].comm == comm)
            return &agreed.list[i];
    return NULL;
}

static void note_agreement(MPI_Comm comm)
{
    if (find_agreed(comm))
        return;
    if (!ftk_grow_by_one(&agreed.list, (size_t)agreed.n, sizeof *agreed.list)) {
        agreed.lost = true;
        return;
    }
    agreed.list[agreed.n++] = (struct agreed){ comm, false };
}

void ftk_mpi_free(MPI_Comm *comm)
{
    if (*comm == MPI_COMM_NULL)
        return;
    struct agreed *of = find_agreed(*comm);
    if (of)
        of->ours = true;
    else if (!agreed.lost)
        (void)MPI_Comm_free(comm); /* after an error it is only not freed */
    *comm = MPI_COMM_NULL;
}

void ftk_mpi_free_agreed(void)
{
    for (int i = 0; i < agreed.n; i++)
        if (agreed.list[i].ours)
            (void)MPI_Comm_free(&agreed.list[i].comm); /* after an error it is only not freed */
    free(agreed.list);
    agreed.list = NULL;
    agreed.n = 0;
}

/* Open MPI 5.0 makes one communicator at a time, that of the parent with the lowest number first.
 * A failure that interrupts MPI_Comm_dup or MPI_Comm_split leaves the number of the parent behind,
 * and communicators of parents with higher numbers wait for it for ever.  MPI_COMM_SELF has a lower
 * number than any of ours, and a communicator made from it removes what was left.  The program may
 * have attributes on MPI_COMM_SELF: MPI_Comm_split copies none, as a duplicate would. */
static int forget_interrupted(void)
{
    MPI_Comm self;
    int rc = MPI_Comm_split(MPI_COMM_SELF, 0, 0, &self);
    return rc == MPI_SUCCESS ? MPI_Comm_free(&self) : rc;
}

int ftk_mpi_shrink(MPI_Comm comm, MPI_Comm *live)
{
    note_agreement(comm);
    int rc = forget_interrupted();
    if (rc == MPI_SUCCESS)
        rc = MPIX_Comm_shrink(comm, live);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_set_errhandler(*live, MPI_ERRORS_RETURN);
    return rc;
}

int ftk_mpi_agree(MPI_Comm comm, int mine, int *all)
{
    int flag = mine ? 1 : 0;
    note_agreement(comm);
    int rc = MPIX_Comm_agree(comm, &flag);
    if (rc == MPI_SUCCESS) {
        *all = flag & 1;
        return rc;
    }
    if (ftk_mpi_is_failure(rc)) { /* on all members: a failure that not all have acknowledged */
        *all = 0;
        return MPI_SUCCESS;
    }
    return rc;
}

/* ---- which processes have failed ------------------------------------------------------- */

/* Smallest rank in comm of the n members of a group; INT_MAX if n is 0, 0 after an error. */
static int smallest_rank(MPI_Comm comm, MPI_Group group, int n)
{
    MPI_Group all;
    int smallest = INT_MAX;
    if (MPI_Comm_group(comm, &all) != MPI_SUCCESS)
        return 0;
    for (int i = 0; i < n; i++) {
        int rank;
        if (MPI_Group_translate_ranks(group, 1, &i, all, &rank) != MPI_SUCCESS)
            rank = 0;
        smallest = rank < smallest ? rank : smallest;
    }
    (void)MPI_Group_free(&all);
    return smallest;
}

bool ftk_mpi_ack_from(MPI_Comm comm, int first, int *gone)
{
    MPI_Group failed;
    int n = 0;
    int acked = 0;
    int revoked = 1;
    if (MPIX_Comm_is_revoked(comm, &revoked) != MPI_SUCCESS || revoked
        || MPIX_Comm_get_failed(comm, &failed) != MPI_SUCCESS)
        return false;
    bool ours = MPI_Group_size(failed, &n) == MPI_SUCCESS && n > 0
                && smallest_rank(comm, failed, n) >= first;
    /* acknowledge exactly these n: another process may have failed since */
    if (ours)
        ours = MPIX_Comm_ack_failed(comm, n, &acked) == MPI_SUCCESS && acked == n;
    (void)MPI_Group_free(&failed);
    *gone = n;
    return ours;
}

bool ftk_mpi_has_failed(MPI_Comm comm)
{
    MPI_Group failed;
    int n = 0;
    if (MPIX_Comm_get_failed(comm, &failed) != MPI_SUCCESS)
        return false;
    bool some = MPI_Group_size(failed, &n) == MPI_SUCCESS && n > 0;
    (void)MPI_Group_free(&failed);
    return some;
}

/* The rank in MPI_COMM_WORLD of a member of a group; MPI_UNDEFINED: of another MPI_COMM_WORLD. */
static int world_rank(MPI_Group world, MPI_Group group, int rank)
{
    int at = MPI_UNDEFINED;
    int rc = MPI_Group_translate_ranks(group, 1, &rank, world, &at);
    return rc == MPI_SUCCESS ? at : MPI_UNDEFINED;
}

/* The members of comm that are no members of now. */
static int missing_group(MPI_Comm comm, MPI_Comm now, MPI_Group *missing)
{
    MPI_Group old, present;
    int rc = MPI_Comm_group(comm, &old);
    if (rc != MPI_SUCCESS)
        return rc;
    rc = MPI_Comm_group(now, &present);
    if (rc == MPI_SUCCESS) {
        rc = MPI_Group_difference(old, present, missing);
        (void)MPI_Group_free(&present);
    }
    (void)MPI_Group_free(&old);
    return rc;
}

int ftk_mpi_missing_in(MPI_Comm comm, MPI_Comm now, int *world_ranks, int max, int *all)
{
    MPI_Group missing, world;
    int n = 0;
    *all = 0;
    if (missing_group(comm, now, &missing) != MPI_SUCCESS)
        return 0;
    int rc = MPI_Comm_group(MPI_COMM_WORLD, &world);
    if (rc == MPI_SUCCESS && MPI_Group_size(missing, all) == MPI_SUCCESS)
        for (int i = 0; i < *all && n < max; i++) {
            int at = world_rank(world, missing, i);
            if (at != MPI_UNDEFINED)
                world_ranks[n++] = at;
        }
    if (rc == MPI_SUCCESS)
        (void)MPI_Group_free(&world);
    (void)MPI_Group_free(&missing);
    return n;
}

/* Whether member i of a group is in another one. */
static bool is_in(MPI_Group of, int i, MPI_Group in)
{
    int at = MPI_UNDEFINED;
    return MPI_Group_translate_ranks(of, 1, &i, in, &at) == MPI_SUCCESS && at != MPI_UNDEFINED;
}

bool ftk_mpi_failed_before(MPI_Comm comm, MPI_Group past, MPI_Comm now)
{
    MPI_Group failed, present;
    int n = 0;
    if (past == MPI_GROUP_NULL || MPIX_Comm_get_failed(comm, &failed) != MPI_SUCCESS)
        return false;
    int rc = MPI_Comm_group(now, &present);
    bool before = rc == MPI_SUCCESS && MPI_Group_size(failed, &n) == MPI_SUCCESS && n > 0;
    for (int i = 0; i < n && before; i++)
        before = is_in(failed, i, past) && !is_in(failed, i, present);
    if (rc == MPI_SUCCESS)
        (void)MPI_Group_free(&present);
    (void)MPI_Group_free(&failed);
    return before;
}

int ftk_mpi_world_rank(MPI_Comm comm, int rank)
{
    MPI_Group group, world;
    int at = MPI_UNDEFINED;
    if (MPI_Comm_group(comm, &group) != MPI_SUCCESS)
        return -1;
    if (MPI_Comm_group(MPI_COMM_WORLD, &world) == MPI_SUCCESS) {
        at = world_rank(world, group, rank);
        (void)MPI_Group_free(&world);
    }
    (void)MPI_Group_free(&group);
    return at == MPI_UNDEFINED ? -1 : at;
}

bool ftk_mpi_is_first_in(MPI_Comm comm, int me)
{
    for (int r = 0; r < me; r++)
        if (ftk_mpi_world_rank(comm, r) >= 0)
            return false;
    return true;
}
