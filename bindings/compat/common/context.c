/* The context of a drop-in library: opened with a text, closed once, and the calls in between.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "compat.h"

struct ftk_compat ftk_compat = { .peer = "", .comm = MPI_COMM_NULL };

void ftk_compat_say(const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "ftkit: %s: rank %d: %s\n", ftk_compat.peer, ftk_compat.rank, text);
}

static void say_code(const char *call, int rc)
{
    ftk_compat_say("%s: %s: %s", call, ftkit_strerror(rc), ftkit_detail(ftk_compat.ft));
}

/* ---- opening ------------------------------------------------------------------------- */

static int register_all(void)
{
    struct ftk_compat *c = &ftk_compat;
    int rc = ftkit_bind_comm(c->ft, &c->comm);
    if (rc == FTKIT_OK)
        rc = ftkit_register_replicated(c->ft, "mark", &c->mark, sizeof c->mark, MPI_BYTE);
    if (rc == FTKIT_OK)
        rc = ftk_compat_register(c->ft);
    return rc;
}

/* ftkit_open() takes a path.  A file without a name leaves nothing behind. */
static int open_with(MPI_Comm comm, const char *ini)
{
    char path[64];
    const size_t bytes = strlen(ini);
    int fd = memfd_create("ftkit.ini", MFD_CLOEXEC);
    if (fd < 0 || write(fd, ini, bytes) != (ssize_t)bytes) {
        ftk_compat_say("no memory for the configuration");
        if (fd >= 0)
            close(fd);
        return FTKIT_ERR_NOMEM;
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int rc = ftkit_open(comm, path, &ftk_compat.ft);
    close(fd);
    if (rc == FTKIT_SPARE_DONE) { /* spares.exit = false: the program shall not see it */
        (void)MPI_Finalize();
        exit(EXIT_SUCCESS);
    }
    if (rc != FTKIT_OK)
        say_code("ftkit_open", rc);
    return rc;
}

/* Without the log a replacement would wait for ever in set-up that communicates. */
static int refuse_spares(void)
{
    ftkit_info info = { .size = sizeof info };
    int rc = ftkit_query(ftk_compat.ft, &info);
    if (rc == FTKIT_OK && info.mode == FTKIT_MODE_GLOBAL && info.nspares > 0) {
        ftk_compat_say("spares need the message log here: start with --spares 0, or with "
                       "FTKIT_LOG_ENABLED=true");
        rc = FTKIT_ERR_UNSUPPORTED;
    }
    return rc;
}

int ftk_compat_open(const char *peer, MPI_Comm comm, const char *ini)
{
    struct ftk_compat *c = &ftk_compat;
    c->peer = peer;
    int rc = MPI_Comm_rank(comm, &c->rank) == MPI_SUCCESS ? open_with(comm, ini) : FTKIT_ERR_MPI;
    if (rc != FTKIT_OK)
        return rc;
    rc = register_all();
    if (rc != FTKIT_OK)
        say_code("a region", rc);
    else
        rc = refuse_spares();
    if (rc != FTKIT_OK) {
        (void)ftk_compat_close();
        return rc;
    }
    return MPI_Comm_rank(c->comm, &c->rank) == MPI_SUCCESS ? FTKIT_OK : FTKIT_ERR_MPI;
}

int ftk_compat_close(void)
{
    if (!ftk_compat.ft)
        return FTKIT_OK;
    const int rc = ftkit_close(&ftk_compat.ft);
    ftk_compat.ft = NULL;
    ftk_compat_forget();
    if (rc < 0)
        say_code("ftkit_close", rc);
    return rc;
}

/* ---- ends ---------------------------------------------------------------------------- */

void ftk_compat_end(int code)
{
    if (ftk_compat.at_end)
        ftk_compat.at_end();
    (void)ftk_compat_close();
    (void)MPI_Finalize(); /* the process ends in any case */
    exit(code);
}

/* The program cannot go on from the last set: this process is lost, and its replacement can. */
_Noreturn static void give_up(const char *why)
{
    ftk_compat_say("%s: the process ends, and its replacement goes on from the last set", why);
    exit(EXIT_FAILURE); /* with an open context this is a loss */
}

void ftk_compat_abort(const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ftk_compat_say("%s: the job ends, because its result would be wrong", text);
    fflush(NULL);
    (void)ftkit_abort(ftk_compat.comm, EXIT_FAILURE);
    _exit(EXIT_FAILURE);
}

/* What every call that may repair does with its result. */
static int settle(const char *call, int rc)
{
    struct ftk_compat *c = &ftk_compat;
    if (rc == FTKIT_HALT && c->starts_over)
        return rc;
    if (rc == FTKIT_HALT) {
        if (c->rank == 0)
            ftk_compat_say("the job halts, its work is in the last set");
        ftk_compat_end(EXIT_SUCCESS);
    }
    if (FTKIT_FATAL(rc)) {
        say_code(call, rc);
        ftk_compat_end(EXIT_FAILURE);
    }
    if (rc == FTKIT_ROLLED_BACK) {
        c->moved = false;
        c->has_set = c->restored = true;
        if (c->finishing)
            give_up("a rank was lost at the end of the job");
        if (c->starts_over || c->has_files)
            give_up("all ranks of a team go back");
        if (c->unfit)
            give_up("the protected memory does not have the sizes of the last set");
        ftk_compat_say("the protected memory was set back to the last checkpoint");
    } else if (rc < 0) {
        say_code(call, rc);
    }
    return rc;
}

/* ---- the loop ------------------------------------------------------------------------ */

int ftk_compat_recover(void)
{
    struct ftk_compat *c = &ftk_compat;
    uint64_t set = 0;
    if (c->recovered)
        return c->has_set ? FTKIT_OK : FTKIT_NO_SET;
    const int rc = ftkit_recover(c->ft, &set);
    if (rc < 0) { /* each rank has this error: without a start there is no job */
        say_code("ftkit_recover", rc);
        ftk_compat_end(EXIT_FAILURE);
    }
    c->recovered = true;
    c->has_set = set > 0;
    return rc;
}

/* The answer stays the same in a process, and programs ask in each step. */
static bool is_replacement(void)
{
    static enum { UNKNOWN, NO, YES } is;
    ftkit_info info = { .size = sizeof info };
    if (is == UNKNOWN && ftkit_query(ftk_compat.ft, &info) == FTKIT_OK)
        is = info.incarnation > 0 ? YES : NO;
    return is == YES;
}

void ftk_compat_need_restore(const char *calls)
{
    struct ftk_compat *c = &ftk_compat;
    if (c->restored || !is_replacement() || ftk_compat_recover() != FTKIT_OK)
        return;
    ftk_compat_abort(
        "this process replaces a lost one, and has not taken the last checkpoint over. "
        "Rule: each start of the program asks for a checkpoint and restores it, by %s",
        calls);
}

static uint64_t committed(void)
{
    ftkit_info info = { .size = sizeof info };
    return ftkit_query(ftk_compat.ft, &info) == FTKIT_OK ? info.committed : 0;
}

/* Files may be switched off by a variable of the user: then the set is in memory alone. */
static int request(enum ftk_compat_due due)
{
    int rc = FTKIT_OK;
    if (due != FTK_COMPAT_BY_PERIOD)
        rc = ftkit_request(ftk_compat.ft, due == FTK_COMPAT_DURABLE);
    if (rc == FTKIT_ERR_UNSUPPORTED)
        rc = ftkit_request(ftk_compat.ft, 0);
    return rc;
}

int ftk_compat_checkpoint(enum ftk_compat_due due, const struct ftk_compat_mark *mark)
{
    struct ftk_compat *c = &ftk_compat;
    (void)ftk_compat_recover(); /* brings the mark of the set */
    const struct ftk_compat_mark before = c->mark;
    const uint64_t had = committed();
    c->mark = *mark; /* a replacement compares it with that of the set */
    int rc = request(due);
    if (rc == FTKIT_OK)
        rc = ftkit_checkpoint(c->ft);
    c->wrote = committed() > had; /* an error may be that of an earlier set in files */
    if (rc < 0 && !c->wrote)
        c->mark = before;
    c->moved = true;
    ftk_compat_forget();
    return settle(c->wrote ? "a checkpoint is in memory" : "no checkpoint", rc);
}

int ftk_compat_wait(void)
{
    return ftk_compat.recovered ? settle("ftkit_wait", ftkit_wait(ftk_compat.ft)) : FTKIT_OK;
}

int ftk_compat_finish(void)
{
    ftk_compat.finishing = true;
    return ftk_compat.recovered ? settle("ftkit_finish", ftkit_finish(ftk_compat.ft)) : FTKIT_OK;
}
