/* The calls of FTI (see fti.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The calls of FTI_Checkpoint() and FTI_Snapshot() are counted in the mark.  A program that
 * recovers goes on at a place of its own: before the call that has written the checkpoint (at the
 * top of the loop), or behind it (at the bottom).  At the top the next call finds the protected
 * counters as they were recovered; at the bottom the loop counter has changed. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/compat.h"
#include "config.h"
#include "fti.h"

#define PEER "fti"
#define RESTORE "FTI_Status and FTI_Recover, or by FTI_Snapshot"

enum { WHOLE = 8 /* types of whole numbers */, TYPES = 11, TYPES_MOST = 4096 };

MPI_Comm FTI_COMM_WORLD = MPI_COMM_NULL;
fti_id_t FTI_CHAR = 0, FTI_SHRT = 1, FTI_INTG = 2, FTI_LONG = 3;
fti_id_t FTI_UCHR = 4, FTI_USHT = 5, FTI_UINT = 6, FTI_ULNG = 7;
fti_id_t FTI_SFLT = 8, FTI_DBLE = 9, FTI_LDBE = 10;

static struct {
    bool open, over;   /* between FTI_Init and FTI_Finalize; after it */
    bool went_back;    /* in place, and the program has not asked yet */
    bool recovered;    /* the protected variables hold the checkpoint of the start */
    uint64_t messages; /* that this process had sent then */
    struct ftk_fti_keep keep;
    uint64_t first; /* checkpoint that rank 0 has seen in this run; 0: none */
    int ntypes;
    size_t bytes[TYPES_MOST]; /* of a type [ntypes] */
} fti = { .ntypes = TYPES,
    .bytes = { sizeof(char), sizeof(short), sizeof(int), sizeof(long), sizeof(char), sizeof(short),
        sizeof(int), sizeof(long), sizeof(float), sizeof(double), sizeof(long double) } };

static int failure(int code, const char *call, const char *why)
{
    ftk_compat.peer = PEER;
    ftk_compat_say("%s: %s", call, why);
    return code;
}

/* Whether the library is open; otherwise a line says so. */
static bool ready(const char *call)
{
    if (!fti.open)
        (void)failure(0, call, "call FTI_Init before, and FTI_Finalize after");
    return fti.open;
}

/* ---- what a run leaves to the next one ------------------------------------------------
 * With keep_last_ckpt = 0 the run after a finished one begins anew: FTI removes its checkpoints.
 * Here the sets stay, and a file in glbl_dir, the mark, says that they are of no use.  The mark
 * goes when the next run has a checkpoint in files.  A relaunch by the same `ftkit run` finds the
 * checkpoints of its run in any case. */

/* On rank 0, after checkpoints, and where the process ends because the job halts. */
static void forget_finished(void)
{
    ftkit_info info = { .size = sizeof info };
    if (!fti.keep.over || ftk_compat.rank != 0 || !ftk_compat.ft
        || ftkit_query(ftk_compat.ft, &info) != FTKIT_OK)
        return;
    if (fti.first == 0)
        fti.first = info.committed;
    if (fti.first == 0 || info.durable < fti.first)
        return;
    if (unlink(fti.keep.mark) != 0 && errno != ENOENT)
        ftk_compat_say("%s: %s", fti.keep.mark, strerror(errno));
    fti.keep.over = false;
}

/* On rank 0, behind the end: the next run begins anew. */
static void note_finished(void)
{
    const int fd = open(fti.keep.mark, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || close(fd) != 0)
        ftk_compat_say("%s: %s: the next run goes on from the last checkpoint", fti.keep.mark,
            strerror(errno));
}

/* keep_last_ckpt = 1: a line says if the last checkpoint is not in files. */
static void name_last(void)
{
    ftkit_info info = { .size = sizeof info };
    if (fti.keep.last && ftk_compat.rank == 0 && ftkit_query(ftk_compat.ft, &info) == FTKIT_OK
        && info.durable < info.committed)
        ftk_compat_say("FTI_Finalize: the last checkpoint is not in files (keep_last_ckpt)");
}

/* ---- begin and end ------------------------------------------------------------------- */

int FTI_Init(const char *configFile, MPI_Comm globalComm)
{
    char ini[FTK_COMPAT_INI_BYTES];
    int rank = 0;
    ftk_compat.peer = PEER;
    if (fti.open || fti.over)
        return failure(
            FTI_NSCS, "FTI_Init", "it was called before, and is called once in a process");
    (void)MPI_Comm_rank(globalComm, &rank); /* only for lines on stderr */
    ftk_compat.rank = rank;
    if (!ftk_fti_ini(configFile, rank == 0, &fti.keep, ini))
        ftk_compat_ini_refuse(ini); /* the others wait in ftkit_open() */
    if (ftk_compat_open(PEER, globalComm, ini) != FTKIT_OK)
        return FTI_NSCS;
    if (ftkit_bind_comm(ftk_compat.ft, &FTI_COMM_WORLD) != FTKIT_OK) {
        (void)ftk_compat_close();
        return FTI_NSCS;
    }
    ftk_compat.at_end = forget_finished;
    fti.open = true;
    return FTI_SCES;
}

int FTI_Finalize(void)
{
    if (!ready("FTI_Finalize"))
        return FTI_NSCS;
    ftk_compat_need_restore(RESTORE);
    const int rc = ftk_compat_finish();
    name_last();
    forget_finished();
    fti.open = false;
    fti.over = true;
    ftk_compat_unprotect_all();
    const int closed = ftk_compat_close();
    FTI_COMM_WORLD = MPI_COMM_NULL;
    if (ftk_compat.rank == 0 && !fti.keep.last && rc >= 0 && closed >= 0)
        note_finished();
    return rc < 0 || closed < 0 ? FTI_NSCS : FTI_SCES;
}

/* ---- variables ----------------------------------------------------------------------- */

int FTI_InitType(fti_id_t *type, int size)
{
    if (!ready("FTI_InitType"))
        return FTI_NSCS;
    if (!type || size <= 0)
        return failure(FTI_NSCS, "FTI_InitType", "no variable, or no positive size");
    if (fti.ntypes == TYPES_MOST)
        return failure(FTI_NSCS, "FTI_InitType", "too many types");
    fti.bytes[fti.ntypes] = (size_t)size;
    *type = fti.ntypes++;
    return FTI_SCES;
}

int FTI_Protect(int id, void *ptr, int64_t count, fti_id_t tid)
{
    size_t bytes;
    if (!ready("FTI_Protect"))
        return FTI_NSCS;
    if (id < 0)
        return failure(FTI_NSCS, "FTI_Protect", "an id is not negative");
    if (tid < 0 || tid >= fti.ntypes)
        return failure(FTI_NSCS, "FTI_Protect", "no such type");
    if (count < 0 || __builtin_mul_overflow((size_t)count, fti.bytes[tid], &bytes)
        || bytes > SIZE_MAX / 4)
        return failure(
            FTI_NSCS, "FTI_Protect", "the size is negative, or exceeds the address space");
    if (!ptr && bytes > 0)
        return failure(FTI_NSCS, "FTI_Protect", "the address is NULL");
    return ftk_compat_protect(id, ptr, bytes, count == 1 && tid < WHOLE)
               ? FTI_SCES
               : failure(FTI_NSCS, "FTI_Protect", "out of memory");
}

/* ---- recovery ------------------------------------------------------------------------ */

/* Whether a checkpoint waits for the program.  The first call is collective. */
static bool waiting(void)
{
    return ftk_compat_recover() == FTKIT_OK && ftk_compat_has_saved() && !fti.recovered;
}

int FTI_Status(void)
{
    return ready("FTI_Status") && (waiting() || fti.went_back);
}

static void recovered(void)
{
    ftkit_info info = { .size = sizeof info };
    fti.recovered = ftk_compat.restored = true;
    if (ftkit_query(ftk_compat.ft, &info) == FTKIT_OK)
        fti.messages = info.log_messages;
}

int FTI_Recover(void)
{
    if (!ready("FTI_Recover"))
        return FTI_NREC;
    if (fti.went_back) { /* the variables hold the checkpoint */
        fti.went_back = false;
        return FTI_SCES;
    }
    if (ftk_compat_recover() != FTKIT_OK || !ftk_compat_has_saved())
        return failure(FTI_NREC, "FTI_Recover", "there is no checkpoint to recover");
    if (!ftk_compat_same_ids() || !ftk_compat_restore(FTK_COMPAT_ALL, NULL, 0))
        return failure(
            FTI_NREC, "FTI_Recover", "other variables are protected than in the checkpoint");
    recovered();
    return FTI_SCES;
}

int FTI_RecoverVarInit(void)
{
    if (!ready("FTI_RecoverVarInit"))
        return FTI_NSCS;
    return ftk_compat_recover() == FTKIT_OK && ftk_compat_has_saved()
               ? FTI_SCES
               : failure(FTI_NSCS, "FTI_RecoverVarInit", "there is no checkpoint to recover");
}

int FTI_RecoverVar(int id)
{
    size_t bytes;
    if (!ready("FTI_RecoverVar"))
        return FTI_NSCS;
    if (ftk_compat_recover() != FTKIT_OK || !ftk_compat_saved_bytes(id, &bytes))
        return failure(FTI_NSCS, "FTI_RecoverVar", "there is no such variable to recover");
    return ftk_compat_restore(FTK_COMPAT_SOME, &id, 1) ? FTI_SCES : FTI_NSCS;
}

int FTI_RecoverVarFinalize(void)
{
    if (!ready("FTI_RecoverVarFinalize"))
        return FTI_NSCS;
    if (!ftk_compat_all_restored())
        return failure(FTI_NSCS, "FTI_RecoverVarFinalize",
            "variables of the checkpoint are missing: each is recovered before");
    recovered();
    return FTI_SCES;
}

int64_t FTI_GetStoredSize(int id)
{
    size_t bytes = 0;
    if (!ready("FTI_GetStoredSize") || ftk_compat_recover() != FTKIT_OK
        || !ftk_compat_saved_bytes(id, &bytes))
        return 0;
    return (int64_t)bytes;
}

void *FTI_Realloc(int id, void *ptr)
{
    void *data;
    size_t bytes, stored;
    if (!ready("FTI_Realloc"))
        return ptr;
    if (!waiting() || !ftk_compat_protected(id, &data, &bytes) || data != ptr
        || !ftk_compat_saved_bytes(id, &stored) || stored == 0) {
        (void)failure(
            0, "FTI_Realloc", "no protected variable with this address is to be recovered");
        return ptr;
    }
    void *larger = realloc(ptr, stored);
    if (!larger) {
        (void)failure(0, "FTI_Realloc", "out of memory");
        return ptr;
    }
    (void)ftk_compat_protect(
        id, larger, stored, false); /* it is in the table, which does not grow */
    return larger;
}

/* ---- checkpoints --------------------------------------------------------------------- */

/* A call at the place of the loop where the program is now. */
static int checkpoint(enum ftk_compat_due due, bool is_line, int64_t id)
{
    struct ftk_compat_mark next = ftk_compat.mark;
    if (!is_line) {
        next.version++;
        next.kind = id;
    }
    (void)ftk_compat_choose(FTK_COMPAT_ALL, NULL, 0);
    const int rc = ftk_compat_checkpoint(due, &next);
    fti.went_back = rc == FTKIT_ROLLED_BACK;
    forget_finished();
    if (ftk_compat.wrote && !fti.went_back)
        return FTI_DONE;
    return rc < 0 ? FTI_NSCS : FTI_SCES;
}

/* Whether this is the call that has written the recovered checkpoint, and not the next one.  The
 * counters show it, and the messages since the recovery must agree.  Otherwise the job ends: a
 * wrong answer would join sets of different steps. */
static bool at_the_line(int64_t id)
{
    ftkit_info info = { .size = sizeof info };
    size_t changed;
    if (!ftk_compat.restored || !ftk_compat_has_saved()
        || ftkit_query(ftk_compat.ft, &info) != FTKIT_OK || info.mode == FTKIT_MODE_RESTART)
        return false; /* without repairs all ranks come here together */
    size_t n = ftk_compat_compare(true, &changed);
    if (n == 0)
        n = ftk_compat_compare(false, &changed);
    const bool logged = info.mode == FTKIT_MODE_TEAM, sent = info.log_messages > fti.messages;
    if (changed == 0 && !sent)
        return true;
    if (changed == n ? sent || !logged || id != ftk_compat.mark.kind : sent && changed > 0)
        return false;
    ftk_compat_abort("is this the call of the recovered checkpoint, or the next one? %zu of %zu "
                     "variables that count have changed since the recovery, and this rank has sent "
                     "%s. Rule: protect the loop counter as one whole number; before a call at the "
                     "top of the loop a recovered rank changes no protected whole number and sends "
                     "nothing; before the next call it does both",
        changed, n, sent ? "messages" : "no message");
}

int FTI_Checkpoint(int id, int level)
{
    if (!ready("FTI_Checkpoint"))
        return FTI_NSCS;
    if (level < 1 || level > 8)
        return failure(FTI_NSCS, "FTI_Checkpoint", "a level is 1 to 8");
    (void)ftk_compat_recover();
    ftk_compat_need_restore(RESTORE);
    const bool durable = level % 4 == 0 || fti.keep.last;
    const int rc = checkpoint(durable ? FTK_COMPAT_DURABLE : FTK_COMPAT_NOW, at_the_line(id), id);
    return rc == FTI_NSCS ? rc : FTI_DONE;
}

int FTI_Snapshot(void)
{
    if (!ready("FTI_Snapshot"))
        return FTI_NSCS;
    const bool first = waiting();
    const int64_t kind = ftk_compat.mark.kind;
    if (first && FTI_Recover() != FTI_SCES) {
        ftk_compat_need_restore(RESTORE); /* a replacement has no other way to go on */
        return FTI_NREC;
    }
    const int rc = checkpoint(FTK_COMPAT_BY_PERIOD, first || at_the_line(kind), kind);
    return first && rc == FTI_DONE ? FTI_SCES : rc;
}
