/* The calls of VeloC (see veloc.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Programs of VeloC ask MPI_COMM_WORLD for rank and size before VELOC_Init (early.h). */
#define _GNU_SOURCE
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/compat.h"
#include "config.h"
#include "early/early.h"
#include "files.h"
#include "veloc.h"

#define PEER "veloc"
#define RESTORE "VELOC_Restart_test and VELOC_Restart"

static struct {
    struct ftk_veloc_config config; /* in force */
    bool early;                     /* the context was opened in MPI_Init, or could not be opened */
    bool open, over;                /* between VELOC_Init and VELOC_Finalize; after it */
    bool used;                      /* a checkpoint of the mark's name was written or restored */
    bool writing;                   /* after VELOC_Checkpoint_begin() */
    bool restarting;                /* after VELOC_Restart_begin() */
    bool taken;                     /* ... and memory was restored, or a file routed */
    bool spoiled;                   /* while writing: chosen memory was given back */
    bool files_bad;                 /* while writing: the checkpoint cannot have files */
    struct ftk_compat_mark next;    /* while writing */
} veloc;

/* ---- begin and end ------------------------------------------------------------------- */

/* Open the context.  path may be NULL: no file is known yet. */
static int open_context(MPI_Comm comm, const char *path)
{
    char ini[FTK_COMPAT_INI_BYTES];
    int rank = 0;
    ftk_compat.peer = PEER;
    (void)MPI_Comm_rank(comm, &rank); /* only for lines on stderr */
    ftk_compat.rank = rank;
    if (path && !ftk_veloc_read(path, rank == 0, &veloc.config))
        ftk_compat_ini_refuse(ini); /* the others wait in ftkit_open() */
    else
        ftk_veloc_ini(path ? &veloc.config : NULL, ini);
    int rc = ftk_compat_open(PEER, comm, ini);
    if (rc != FTKIT_OK)
        return rc;
    rc = ftk_veloc_files_register();
    if (rc != FTKIT_OK)
        (void)ftk_compat_close();
    return rc;
}

void ftk_compat_open_early(void)
{
    char path[PATH_MAX];
    veloc.early = true;
    (void)open_context(MPI_COMM_WORLD, ftk_veloc_find(path, sizeof path) ? path : NULL);
}

static int failure(const char *call, const char *why)
{
    ftk_compat.peer = PEER;
    ftk_compat_say("%s: %s", call, why);
    return VELOC_FAILURE;
}

/* Whether the library is open; otherwise a line says so. */
static bool ready(const char *call)
{
    if (!veloc.open)
        (void)failure(call, "call VELOC_Init before, and VELOC_Finalize after");
    return veloc.open;
}

/* The file of VELOC_Init must say the same as the settings with which MPI_Init has opened. */
static bool agrees(const char *path)
{
    struct ftk_veloc_config config;
    if (!ftk_veloc_read(path, false, &config))
        return false;
    if (ftk_veloc_same(&config, &veloc.config))
        return true;
    ftk_compat_say("VELOC_Init: MPI_Init did not know the settings of %s: name the file as an "
                   "argument of the program, or in FTKIT_VELOC_CONFIG",
        path);
    return false;
}

static bool has_all_ranks(MPI_Comm comm)
{
    int same;
    if (MPI_Comm_compare(comm, ftk_compat.comm, &same) == MPI_SUCCESS
        && (same == MPI_IDENT || same == MPI_CONGRUENT))
        return true;
    ftk_compat_say("VELOC_Init: the communicator does not have just the working ranks, in their "
                   "order; spares are hidden by the message log alone");
    return false;
}

/* Whether this holds on all ranks: otherwise they fail together. */
static bool on_all(bool here)
{
    int all = here;
    return MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, ftk_compat.comm) == MPI_SUCCESS
           && all;
}

int VELOC_Init(MPI_Comm comm, const char *cfg_file)
{
    ftk_compat.peer = PEER;
    if (veloc.open || veloc.over)
        return failure("VELOC_Init", "it was called before, and is called once in a process");
    if (veloc.early && !ftk_compat.ft)
        return failure("VELOC_Init", "MPI_Init could not open the context");
    if (veloc.early ? !on_all(agrees(cfg_file) && has_all_ranks(comm))
                    : open_context(comm, cfg_file) != FTKIT_OK)
        return VELOC_FAILURE;
    veloc.open = true;
    return VELOC_SUCCESS;
}

int VELOC_Finalize(int drain)
{
    (void)drain; /* the end of a job waits in any case, because a loss can be repaired here */
    if (!ready("VELOC_Finalize"))
        return VELOC_FAILURE;
    ftk_compat_need_restore(RESTORE);
    int rc = ftk_compat_finish();
    veloc.open = false;
    veloc.over = true;
    ftk_compat_unprotect_all();
    if (!veloc.early && rc >= 0)
        rc = ftk_compat_close();
    return rc < 0 ? VELOC_FAILURE : VELOC_SUCCESS;
}

/* ---- memory -------------------------------------------------------------------------- */

int VELOC_Mem_protect(int id, void *ptr, size_t count, size_t base_size)
{
    size_t bytes;
    if (!ready("VELOC_Mem_protect"))
        return VELOC_FAILURE;
    if (__builtin_mul_overflow(count, base_size, &bytes) || bytes > SIZE_MAX / 4)
        return failure("VELOC_Mem_protect", "the size exceeds the address space");
    if (!ptr && bytes > 0)
        return failure("VELOC_Mem_protect", "the address is NULL");
    return ftk_compat_protect(id, ptr, bytes, false)
               ? VELOC_SUCCESS
               : failure("VELOC_Mem_protect", "out of memory");
}

/* Memory is read in VELOC_Checkpoint_end(), and the program may free it now. */
static void give_back(bool chosen)
{
    if (!veloc.writing || !chosen || ftk_compat.bad)
        return;
    ftk_compat.bad = veloc.spoiled = true;
    ftk_compat_say("protected memory is given back before VELOC_Checkpoint_end: that fails");
}

int VELOC_Mem_unprotect(int id)
{
    if (!ready("VELOC_Mem_unprotect"))
        return VELOC_FAILURE;
    give_back(ftk_compat_chosen(id));
    return ftk_compat_unprotect(id) ? VELOC_SUCCESS : failure("VELOC_Mem_unprotect", "no such id");
}

int VELOC_Mem_clear(void)
{
    if (!ready("VELOC_Mem_clear"))
        return VELOC_FAILURE;
    give_back(true);
    ftk_compat_unprotect_all();
    return VELOC_SUCCESS;
}

/* ---- names and versions -------------------------------------------------------------- */

static bool valid(const char *call, const char *name, int version)
{
    size_t n = 0;
    while (name && (isalnum((unsigned char)name[n]) || name[n] == '_' || name[n] == '.'))
        n++;
    if (!name || n == 0 || name[n] != '\0' || n >= FTK_COMPAT_NAME_BYTES)
        (void)failure(call, "a name has 1 to 63 letters, digits, '_' and '.'");
    else if (version < 0)
        (void)failure(call, "a version is not negative");
    else
        return true;
    return false;
}

/* Whether the program has come back to the call that has written the restored checkpoint. */
static bool again(int version)
{
    return ftk_compat.has_set && !ftk_compat.moved && ftk_compat.mark.version == version;
}

/* Whether a checkpoint may follow the one of the mark. */
static bool follows(const char *name, int version)
{
    const struct ftk_compat_mark *m = &ftk_compat.mark;
    if (veloc.used && strcmp(name, m->name) != 0)
        ftk_compat_say(
            "VELOC_Checkpoint_begin: the checkpoints of this run are '%s': one name only, "
            "and not '%s'",
            m->name, name);
    else if (veloc.used && version <= m->version && !again(version))
        ftk_compat_say("VELOC_Checkpoint_begin: version %d is not above %lld, the version before",
            version, (long long)m->version);
    else
        return true;
    return false;
}

/* ---- checkpoints --------------------------------------------------------------------- */

int VELOC_Checkpoint_begin(const char *name, int version)
{
    const char *call = "VELOC_Checkpoint_begin";
    if (!ready(call) || !valid(call, name, version))
        return VELOC_FAILURE;
    if (veloc.writing || veloc.restarting)
        return failure(call, "the checkpoint or restart before has not ended");
    (void)ftk_compat_recover();
    ftk_compat_need_restore(RESTORE);
    if (!follows(name, version))
        return VELOC_FAILURE;
    memset(&veloc.next, 0, sizeof veloc.next);
    snprintf(veloc.next.name, sizeof veloc.next.name, "%s", name);
    veloc.next.version = version;
    veloc.writing = true;
    ftk_compat.bad = true; /* until something is chosen, or a file is routed */
    (void)ftk_compat_choose(FTK_COMPAT_SOME, NULL, 0);
    veloc.spoiled = false;
    veloc.files_bad = !ftk_veloc_files_begin();
    return VELOC_SUCCESS;
}

static bool valid_ids(const char *call, int mode, const int *ids, int n)
{
    if (mode < FTK_COMPAT_ALL || mode > FTK_COMPAT_REST)
        (void)failure(call, "no such mode");
    else if (mode != FTK_COMPAT_ALL && (n < 0 || (n > 0 && !ids)))
        (void)failure(call, "no ids");
    else
        return true;
    return false;
}

int VELOC_Checkpoint_selective(int mode, int *ids, int id_count)
{
    const char *call = "VELOC_Checkpoint_selective";
    if (!ready(call) || !valid_ids(call, mode, ids, id_count))
        return VELOC_FAILURE;
    if (!veloc.writing)
        return failure(call, "call VELOC_Checkpoint_begin before");
    ftk_compat.bad =
        ftk_compat_choose((enum ftk_compat_mode)mode, ids, mode ? (size_t)id_count : 0) == 0;
    return ftk_compat.bad ? failure(call, "no protected memory is chosen") : VELOC_SUCCESS;
}

int VELOC_Checkpoint_mem(void)
{
    return VELOC_Checkpoint_selective(VELOC_CKPT_ALL, NULL, 0);
}

int VELOC_Route_file(const char *original, char *routed)
{
    const char *const call = "VELOC_Route_file";
    if (!ready(call))
        return VELOC_FAILURE;
    if (!veloc.writing && !veloc.restarting)
        return failure(call, "call VELOC_Checkpoint_begin or VELOC_Restart_begin before");
    if (!ftk_veloc_files_route(original, veloc.restarting, routed))
        return VELOC_FAILURE;
    ftk_compat.has_files = true;
    veloc.taken = veloc.restarting;
    if (veloc.writing && !veloc.spoiled)
        ftk_compat.bad = false;
    return VELOC_SUCCESS;
}

/* A rank without success comes along, because the others are in this call. */
int VELOC_Checkpoint_end(int success)
{
    if (!ready("VELOC_Checkpoint_end"))
        return VELOC_FAILURE;
    if (!veloc.writing)
        return failure("VELOC_Checkpoint_end", "call VELOC_Checkpoint_begin before");
    veloc.writing = false;
    ftk_compat.bad = ftk_compat.bad || !success || veloc.files_bad;
    if (!ftk_veloc_files_end(!ftk_compat.bad))
        ftk_compat.bad = true;
    const bool durable = veloc.config.interval_s == 0;
    const int rc =
        ftk_compat_checkpoint(durable ? FTK_COMPAT_DURABLE : FTK_COMPAT_NOW, &veloc.next);
    veloc.used = veloc.used || rc >= 0 || ftk_compat.wrote;
    const bool late = ftk_compat.wrote && !veloc.config.waits; /* an error of a set before */
    return rc < 0 && !late ? VELOC_FAILURE : VELOC_SUCCESS;
}

int VELOC_Checkpoint(const char *name, int version)
{
    if (VELOC_Checkpoint_begin(name, version) != VELOC_SUCCESS)
        return VELOC_FAILURE;
    return VELOC_Checkpoint_end(VELOC_Checkpoint_mem() == VELOC_SUCCESS);
}

int VELOC_Checkpoint_wait(void)
{
    if (!ready("VELOC_Checkpoint_wait"))
        return VELOC_FAILURE;
    if (veloc.writing)
        return failure("VELOC_Checkpoint_wait", "call VELOC_Checkpoint_end before");
    return ftk_compat_wait() < 0 ? VELOC_FAILURE : VELOC_SUCCESS;
}

int VELOC_Checkpoint_finished(void)
{
    ftkit_info info = { .size = sizeof info };
    if (!ready("VELOC_Checkpoint_finished"))
        return VELOC_FAILURE;
    if (veloc.writing)
        return failure("VELOC_Checkpoint_finished", "call VELOC_Checkpoint_end before");
    if (ftkit_query(ftk_compat.ft, &info) != FTKIT_OK || info.flushing != 0)
        return VELOC_FAILURE;
    if (info.flush_error != FTKIT_OK)
        return failure("VELOC_Checkpoint_finished", ftkit_strerror(info.flush_error));
    return VELOC_SUCCESS;
}

int VELOC_Cleanup(const char *name)
{
    return ready("VELOC_Cleanup") && valid("VELOC_Cleanup", name, 0) ? VELOC_SUCCESS
                                                                     : VELOC_FAILURE;
}

/* ---- restart ------------------------------------------------------------------------- */

/* Whether the restored checkpoint has this name. */
static bool is_named(const char *name)
{
    return ftk_compat_recover() == FTKIT_OK && strcmp(name, ftk_compat.mark.name) == 0;
}

int VELOC_Restart_test(const char *name, int version)
{
    const char *call = "VELOC_Restart_test";
    if (!ready(call) || !valid(call, name, version) || !is_named(name))
        return VELOC_FAILURE;
    if (!ftk_compat_has_saved())
        return failure(call, "a checkpoint is restored at the start, before the first "
                             "VELOC_Checkpoint");
    if (version > 0 && ftk_compat.mark.version >= version)
        return failure(call, "the newest version is not below: choose an older set by "
                             "`ftkit run --set N`");
    return (int)ftk_compat.mark.version;
}

int VELOC_Restart_begin(const char *name, int version)
{
    const char *call = "VELOC_Restart_begin";
    if (!ready(call) || !valid(call, name, version))
        return VELOC_FAILURE;
    if (veloc.writing || veloc.restarting)
        return failure(call, "the checkpoint or restart before has not ended");
    if (!is_named(name) || !ftk_compat_has_saved() || ftk_compat.mark.version != version)
        return failure(call,
            "no such checkpoint: VELOC_Restart_test returns the version that can be "
            "restored");
    if (!ftk_veloc_files_read())
        return VELOC_FAILURE;
    veloc.restarting = true;
    veloc.taken = false;
    return VELOC_SUCCESS;
}

int VELOC_Recover_selective(int mode, int *ids, int id_count)
{
    const char *call = "VELOC_Recover_selective";
    if (!ready(call) || !valid_ids(call, mode, ids, id_count))
        return VELOC_FAILURE;
    if (!veloc.restarting)
        return failure(call, "call VELOC_Restart_begin before");
    if (!ftk_compat_restore((enum ftk_compat_mode)mode, ids, mode ? (size_t)id_count : 0))
        return VELOC_FAILURE;
    veloc.taken = true;
    return VELOC_SUCCESS;
}

int VELOC_Recover_mem(void)
{
    return VELOC_Recover_selective(VELOC_RECOVER_ALL, NULL, 0);
}

int VELOC_Recover_size(int id)
{
    size_t bytes;
    if (!ready("VELOC_Recover_size"))
        return -1;
    if (!veloc.restarting) {
        (void)failure("VELOC_Recover_size", "call VELOC_Restart_begin before");
        return -1;
    }
    return ftk_compat_saved_bytes(id, &bytes) && bytes <= INT_MAX ? (int)bytes : -1;
}

int VELOC_Restart_end(int success)
{
    if (!ready("VELOC_Restart_end"))
        return VELOC_FAILURE;
    if (!veloc.restarting)
        return failure("VELOC_Restart_end", "call VELOC_Restart_begin before");
    veloc.restarting = false;
    if (success && veloc.taken)
        veloc.used = ftk_compat.restored = true;
    ftk_compat_need_restore(RESTORE); /* a replacement has no other way to go on */
    return success ? VELOC_SUCCESS : VELOC_FAILURE;
}

int VELOC_Restart(const char *name, int version)
{
    if (VELOC_Restart_begin(name, version) != VELOC_SUCCESS)
        return VELOC_FAILURE;
    return VELOC_Restart_end(VELOC_Recover_mem() == VELOC_SUCCESS);
}
