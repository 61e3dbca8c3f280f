/* The calls of SCR (see scr.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The files of a checkpoint are files of ftkit without callbacks (ftkit_files_begin), and each
 * completed checkpoint is a set.  SCR has no rollback inside of a run, so the job is relaunched
 * after a loss, unless the user has switched the message log on.  Then a process that replaces a
 * lost one finds the files of the last set by SCR_Have_restart, and the log repeats what other
 * ranks have sent to it.  A process that would have to go back ends, and is replaced, too. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/compat.h"
#include "early/early.h"
#include "place.h"
#include "scr.h"
#include "settings.h"

#define PEER "scr"
#define FILES "files"
#define RESTORE "SCR_Have_restart, SCR_Start_restart and SCR_Complete_restart"

enum { FAILURE = 1, DIR_BYTES = 1100 };

/* With several teams a rank may restart alone.  Only messages to other teams are counted, but
 * before the first set all messages are. */
enum teams { UNKNOWN, ONE, SEVERAL };

/* What a set has beside the files. */
struct state {
    int64_t needs; /* calls of SCR_Need_checkpoint */
    int64_t sent;  /* messages of this rank between the last two of them */
    int64_t teams; /* enum teams */
    char name[SCR_MAX_FILENAME];
};

static struct {
    bool early;                        /* the context was opened in MPI_Init, or could not be */
    bool logged;                       /* by the message log: ranks restart alone */
    enum { BEFORE, OPEN, OVER } phase; /* SCR_Init, SCR_Finalize */
    enum { NOTHING, WRITING, READING } doing; /* between Start and Complete */
    int flags;                                /* while writing */
    bool again;                               /* the restored checkpoint is written again */
    struct state state;
    char dir[DIR_BYTES];              /* of the files, while writing or reading them */
    char (*routed)[SCR_MAX_FILENAME]; /* [nrouted] paths below the prefix, of this output */
    size_t nrouted, room;
    bool restarted;               /* ... without a call of SCR_Need_checkpoint since then */
    uint64_t at_restart, at_need; /* messages of this rank so far */
    uint64_t at_set;              /* ... and at the last checkpoint of this process */
    bool has_written;             /* ... if there is one */
    bool halts;                   /* the last checkpoint has the work of the job */
    double last, cost;            /* of rank 0: the last checkpoint, in seconds */
} scr;

/* ---- begin and end ------------------------------------------------------------------- */

static int failure(const char *call, const char *why)
{
    ftk_compat.peer = PEER;
    ftk_compat_say("%s: %s", call, why);
    return FAILURE;
}

static bool ready(const char *call)
{
    if (scr.phase != OPEN)
        (void)failure(call, "call SCR_Init before, and SCR_Finalize after");
    return scr.phase == OPEN;
}

static int open_context(void)
{
    char ini[FTK_COMPAT_INI_BYTES];
    int rank = 0;
    ftk_compat.peer = PEER;
    ftk_compat.starts_over = true;
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank); /* only for lines on stderr */
    ftk_compat.rank = rank;
    if (ftk_scr_settings(rank == 0))
        ftk_scr_ini(ini);
    else
        ftk_compat_ini_refuse(ini); /* the others wait in ftkit_open() */
    int rc = ftk_compat_open(PEER, MPI_COMM_WORLD, ini);
    if (rc == FTKIT_OK)
        rc = ftkit_register_files(ftk_compat.ft, FILES, NULL, NULL);
    if (rc == FTKIT_OK && !ftk_compat_protect(0, &scr.state, sizeof scr.state, false))
        rc = FTKIT_ERR_NOMEM;
    if (rc != FTKIT_OK && ftk_compat.ft) {
        ftk_compat_say("%s: %s", ftkit_strerror(rc), ftkit_detail(ftk_compat.ft));
        (void)ftk_compat_close();
    }
    return rc;
}

void ftk_compat_open_early(void)
{
    scr.early = true;
    (void)open_context();
}

int SCR_Init(void)
{
    ftk_compat.peer = PEER;
    if (scr.phase != BEFORE)
        return failure("SCR_Init", "it was called before, and is called once in a process");
    if (scr.early ? !ftk_compat.ft : open_context() != FTKIT_OK)
        return failure("SCR_Init", "the context could not be opened");
    ftkit_info info = { .size = sizeof info };
    if (ftkit_query(ftk_compat.ft, &info) != FTKIT_OK)
        return failure("SCR_Init", ftkit_detail(ftk_compat.ft));
    scr.logged = info.mode == FTKIT_MODE_TEAM;
    scr.phase = OPEN;
    scr.last = MPI_Wtime();
    return SCR_SUCCESS;
}

/* SCR writes the last checkpoint to files in any case; here the files of the program are gone. */
static void name_last_files(void)
{
    ftkit_info info = { .size = sizeof info };
    if (ftk_compat.rank == 0 && ftkit_query(ftk_compat.ft, &info) == FTKIT_OK
        && info.durable < info.committed)
        ftk_compat_say("the last checkpoint, %s, is not in files (SCR_FLUSH): a later job begins "
                       "with an earlier one",
            scr.state.name);
}

int SCR_Finalize(void)
{
    int rc = FTKIT_OK;
    if (!ready("SCR_Finalize"))
        return FAILURE;
    if (scr.doing != NOTHING)
        return failure("SCR_Finalize", "an output or a restart is not complete");
    if (!scr.halts) {
        ftk_compat_need_restore(RESTORE);
        rc = ftk_compat_finish();
        name_last_files();
    }
    scr.phase = OVER;
    free(scr.routed);
    scr.routed = NULL;
    if (!scr.early && rc >= 0)
        rc = ftk_compat_close();
    return rc < 0 ? FAILURE : SCR_SUCCESS;
}

char *SCR_Get_version(void)
{
    static char text[64];
    snprintf(text, sizeof text, "v3.0.0 (ftkit %s)", ftkit_version());
    return text;
}

const char *SCR_Config(const char *setting)
{
    ftk_compat.peer = PEER;
    if (!setting || scr.phase != BEFORE) {
        (void)failure("SCR_Config", setting ? "it is called before SCR_Init" : "no text");
        return NULL;
    }
    return ftk_scr_settings(true) ? ftk_scr_config(setting, scr.early) : NULL;
}

const char *SCR_Configf(const char *format, ...)
{
    char text[2 * SCR_MAX_FILENAME];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n >= 0 && (size_t)n < sizeof text)
        return SCR_Config(text);
    (void)failure("SCR_Configf", "the text is too long");
    return NULL;
}

/* ---- the place of a restarted rank --------------------------------------------------- */

/* Messages of this rank so far.  false: there is no log. */
static bool count_messages(uint64_t *messages)
{
    ftkit_info info = { .size = sizeof info };
    *messages = 0;
    if (!scr.logged || ftkit_query(ftk_compat.ft, &info) != FTKIT_OK)
        return false;
    *messages = info.log_messages;
    return true;
}

/* Whether the rank has sent nothing since it has restarted.  Then it is at the place of its
 * checkpoint: the loop begins with the checkpoint.  Otherwise it has made a step. */
static bool is_at_checkpoint(void)
{
    uint64_t messages;
    return scr.state.teams != ONE && ftk_compat.restored && ftk_compat_has_saved()
           && count_messages(&messages) && messages == scr.at_restart;
}

/* Whether a call of SCR_Need_checkpoint is the one that the checkpoint has counted.  The other
 * ranks are behind it. */
static bool is_counted(void)
{
    const bool first = scr.restarted;
    scr.restarted = false;
    if (!first || !is_at_checkpoint())
        return false;
    if (scr.state.sent == 0 && scr.state.needs > 1)
        ftk_compat_abort("this rank sends no messages in a step, so it is not known whether it has "
                         "made a step since the restart");
    return true;
}

/* ---- when ---------------------------------------------------------------------------- */

/* Rank 0 decides by its clock.  A replacement of rank 0 decides again as the lost one has. */
static int by_clock(int *due)
{
    const double seconds = (double)ftk_scr_number(FTK_SCR_SECONDS, 0), now = MPI_Wtime();
    const double overhead = (double)ftk_scr_number(FTK_SCR_OVERHEAD, 0);
    int mine = (seconds > 0 && now - scr.last >= seconds)
               || (overhead > 0 && 100 * scr.cost <= overhead * (now - scr.last));
    if (ftk_compat.rank == 0 && ftkit_decide(ftk_compat.ft, &mine, sizeof mine) != FTKIT_OK)
        return failure("SCR_Need_checkpoint", ftkit_detail(ftk_compat.ft));
    if (MPI_Bcast(&mine, 1, MPI_INT, 0, ftk_compat.comm) != MPI_SUCCESS)
        return failure("SCR_Need_checkpoint", "ranks cannot agree");
    *due = *due || mine;
    return SCR_SUCCESS;
}

int SCR_Need_checkpoint(int *flag)
{
    int rc = SCR_SUCCESS;
    if (!flag || !ready("SCR_Need_checkpoint"))
        return FAILURE;
    const long interval = ftk_scr_number(FTK_SCR_INTERVAL, 0);
    const bool clock =
        ftk_scr_number(FTK_SCR_SECONDS, 0) > 0 || ftk_scr_number(FTK_SCR_OVERHEAD, 0) > 0;
    ftk_compat_need_restore(RESTORE);
    *flag = 0;
    if (is_counted())
        return SCR_SUCCESS;
    const uint64_t before = scr.at_need;
    (void)count_messages(&scr.at_need);
    scr.state.sent = (int64_t)(scr.at_need - before);
    scr.state.needs++;
    *flag = interval > 0 ? scr.state.needs % interval == 0 : !clock;
    if (clock)
        rc = by_clock(flag);
    return rc;
}

int SCR_Should_exit(int *flag)
{
    if (!flag || !ready("SCR_Should_exit"))
        return FAILURE;
    *flag = scr.halts;
    return SCR_SUCCESS;
}

/* ---- output -------------------------------------------------------------------------- */

/* The job halts, and the program did not ask. */
static void end_if_halted(void)
{
    if (!scr.halts)
        return;
    if (ftk_compat.rank == 0)
        ftk_compat_say("the job halts, its work is in the last checkpoint");
    ftk_compat_end(EXIT_SUCCESS);
}

int SCR_Start_output(const char *name, int flags)
{
    const char *const call = "SCR_Start_output";
    const int known = SCR_FLAG_CHECKPOINT | SCR_FLAG_OUTPUT;
    if (!ready(call))
        return FAILURE;
    if (scr.doing != NOTHING)
        return failure(call, "the output or restart before is not complete");
    if (!name || !*name || strlen(name) >= sizeof scr.state.name)
        return failure(call, "a name has 1 to 1023 bytes");
    if ((flags & known) == 0 || (flags & ~known) != 0)
        return failure(call, "flags are SCR_FLAG_CHECKPOINT and SCR_FLAG_OUTPUT");
    end_if_halted();
    (void)ftk_compat_recover();
    ftk_compat_need_restore(RESTORE);
    if ((flags & SCR_FLAG_CHECKPOINT)
        && ftkit_files_begin(ftk_compat.ft, FILES, scr.dir, sizeof scr.dir) != FTKIT_OK)
        return failure(call, ftkit_detail(ftk_compat.ft));
    scr.again = is_at_checkpoint() && strcmp(name, scr.state.name) == 0;
    if (flags & SCR_FLAG_CHECKPOINT) {
        memset(scr.state.name, 0, sizeof scr.state.name); /* each byte is compared */
        memcpy(scr.state.name, name, strlen(name));
    }
    scr.flags = flags;
    scr.nrouted = 0;
    scr.doing = WRITING;
    return SCR_SUCCESS;
}

int SCR_Start_checkpoint(void)
{
    char name[64];
    if (!ready("SCR_Start_checkpoint"))
        return FAILURE;
    (void)ftk_compat_recover(); /* brings the number of the last one */
    snprintf(name, sizeof name, "scr.dataset.%lld", (long long)ftk_compat.mark.version + 1);
    return SCR_Start_output(name, SCR_FLAG_CHECKPOINT);
}

static bool note_routed(const char *path)
{
    for (size_t i = 0; i < scr.nrouted; i++)
        if (strcmp(scr.routed[i], path) == 0)
            return true;
    if (scr.nrouted == scr.room) {
        const size_t room = scr.room == 0 ? 8 : 2 * scr.room;
        void *more = realloc(scr.routed, room * sizeof *scr.routed);
        if (!more)
            return false;
        scr.routed = more;
        scr.room = room;
    }
    snprintf(scr.routed[scr.nrouted++], sizeof *scr.routed, "%s", path);
    return true;
}

/* Files of an output alone are where the program names them; those of a checkpoint are in dir. */
int SCR_Route_file(const char *name, char *file)
{
    const char *const call = "SCR_Route_file";
    char path[SCR_MAX_FILENAME];
    if (!ready(call))
        return FAILURE;
    if (!name || !file || strlen(name) >= SCR_MAX_FILENAME)
        return failure(call, "a path has up to 1023 bytes");
    const bool direct = scr.doing == WRITING && scr.flags == SCR_FLAG_OUTPUT;
    const char *const dir = direct ? ftk_scr_prefix() : scr.dir;
    if (scr.doing == NOTHING) {
        memmove(file, name, strlen(name) + 1);
        return SCR_SUCCESS;
    }
    if (!ftk_scr_below(ftk_scr_prefix(), name, path, sizeof path))
        return FAILURE;
    if (scr.doing == WRITING && !ftk_scr_make_parents(dir, path))
        return failure(call, strerror(errno));
    if (scr.doing == WRITING && !direct && !note_routed(path))
        return failure(call, "out of memory");
    const int n = snprintf(file, SCR_MAX_FILENAME, "%s/%s", dir, path);
    return n > 0 && n < SCR_MAX_FILENAME ? SCR_SUCCESS
                                         : failure(call, "the path of the file is too long");
}

/* Files of a checkpoint that are an output, too: where the program names them. */
static bool copy_out(void)
{
    for (size_t i = 0; i < scr.nrouted; i++) {
        if (!ftk_scr_copy(scr.dir, ftk_scr_prefix(), scr.routed[i])) {
            ftk_compat_say("SCR_Complete_output: %s: %s", scr.routed[i], strerror(errno));
            return false;
        }
    }
    return true;
}

/* Each rank sends a message here, if there are several teams. */
static int agree(bool valid)
{
    int all = valid;
    if (MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, ftk_compat.comm) != MPI_SUCCESS)
        return failure("SCR_Complete_output", "ranks cannot agree");
    return all ? SCR_SUCCESS : FAILURE;
}

static void look_at_teams(void)
{
    uint64_t messages;
    if (count_messages(&messages) && scr.has_written)
        scr.state.teams = messages > scr.at_set ? SEVERAL : ONE;
}

static int write_set(bool valid)
{
    struct ftk_compat *c = &ftk_compat;
    struct ftk_compat_mark mark = { .version = c->mark.version + (scr.again ? 0 : 1),
        .kind = scr.again ? c->mark.kind : scr.flags };
    const long flush = ftk_scr_number(FTK_SCR_FLUSH, 1);
    const double begin = MPI_Wtime();
    uint64_t before;
    (void)count_messages(&before);
    memcpy(mark.name, scr.state.name, sizeof mark.name - 1);
    if (valid && (scr.flags & SCR_FLAG_OUTPUT))
        valid = copy_out();
    if (ftkit_files_end(c->ft, FILES, valid) != FTKIT_OK)
        valid = false;
    if (!scr.again) { /* the others are behind it */
        valid = agree(valid) == SCR_SUCCESS;
        look_at_teams();
    }
    c->bad = !valid || ftk_compat_choose(FTK_COMPAT_ALL, NULL, 0) == 0;
    const int rc = ftk_compat_checkpoint(
        flush > 0 && mark.version % flush == 0 ? FTK_COMPAT_DURABLE : FTK_COMPAT_NOW, &mark);
    (void)count_messages(&scr.at_set);
    scr.at_need += scr.at_set - before; /* these messages are no step */
    scr.has_written = true;
    scr.halts = rc == FTKIT_HALT;
    scr.last = MPI_Wtime();
    scr.cost = scr.last - begin;
    return rc >= 0 || c->wrote ? SCR_SUCCESS : FAILURE; /* an error of a set before has its line */
}

int SCR_Complete_output(int valid)
{
    if (!ready("SCR_Complete_output"))
        return FAILURE;
    if (scr.doing != WRITING)
        return failure("SCR_Complete_output", "call SCR_Start_output before");
    scr.doing = NOTHING;
    return scr.flags & SCR_FLAG_CHECKPOINT ? write_set(valid) : agree(valid);
}

int SCR_Complete_checkpoint(int valid)
{
    return SCR_Complete_output(valid);
}

/* ---- restart ------------------------------------------------------------------------- */

/* Whether there is a checkpoint that the program has not taken. */
static bool has_restart(void)
{
    return ftk_compat_recover() == FTKIT_OK && ftk_compat_has_saved() && !ftk_compat.restored;
}

int SCR_Have_restart(int *flag, char *name)
{
    if (!flag || !ready("SCR_Have_restart"))
        return FAILURE;
    *flag = scr.doing == NOTHING && has_restart();
    if (*flag && !ftk_compat_restore(FTK_COMPAT_ALL, NULL, 0))
        ftk_compat_abort("SCR_Have_restart: the set has no name of a checkpoint");
    if (*flag && name)
        snprintf(name, SCR_MAX_FILENAME, "%s", scr.state.name);
    return SCR_SUCCESS;
}

int SCR_Start_restart(char *name)
{
    const char *const call = "SCR_Start_restart";
    int flag;
    if (!ready(call) || SCR_Have_restart(&flag, name) != SCR_SUCCESS)
        return FAILURE;
    if (!flag)
        return failure(call, "there is no checkpoint: SCR_Have_restart says so");
    if (ftkit_files_read(ftk_compat.ft, FILES, scr.dir, sizeof scr.dir) != FTKIT_OK)
        return failure(call, ftkit_detail(ftk_compat.ft));
    scr.doing = READING;
    return SCR_SUCCESS;
}

/* Each rank alone: the others may be in their loop.  A checkpoint that one rank cannot read has no
 * older one in its place, because ftkit has compared its checksums. */
int SCR_Complete_restart(int valid)
{
    if (!ready("SCR_Complete_restart"))
        return FAILURE;
    if (scr.doing != READING)
        return failure("SCR_Complete_restart", "call SCR_Start_restart before");
    if (!valid)
        ftk_compat_abort(
            "the program cannot use its files of the checkpoint %s. `ftkit run --fresh` "
            "begins anew, and `ftkit run --set N` with an older set",
            scr.state.name);
    scr.doing = NOTHING;
    scr.restarted = ftk_compat.restored = true;
    (void)count_messages(&scr.at_restart);
    scr.at_need = scr.at_restart;
    return SCR_SUCCESS;
}

/* ---- what ftkit does outside of the program ------------------------------------------- */

int SCR_Current(const char *name)
{
    (void)name;
    return failure("SCR_Current", "`ftkit run --set N` restarts from an older checkpoint");
}

int SCR_Drop(const char *name)
{
    (void)name;
    return failure("SCR_Drop", "`ftkit prune` removes sets");
}

int SCR_Delete(const char *name)
{
    (void)name;
    return failure("SCR_Delete", "`ftkit prune` removes sets, and level.hdf5.keep limits them");
}
