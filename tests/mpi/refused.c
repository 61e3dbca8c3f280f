/* What cannot be done while messages are logged: each such call fails with
 * MPI_ERR_UNSUPPORTED_OPERATION, the error handler of its communicator is told, nothing
 * else happens, and the program goes on; communicators that are not ftkit's may still do
 * it.  Without the log the program tries nothing.
 *
 *   refused
 *
 * Rank 0 prints "OK checks"; the first mismatch ends the job with exit code 1.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "ftkit.h"

/* of MPI 5: NULL where the MPI does not have them */
extern __attribute__((weak)) int MPI_Request_toint(MPI_Request request);
extern __attribute__((weak)) MPI_Request MPI_Request_fromint(int request);
extern __attribute__((weak)) int MPI_Message_toint(MPI_Message message);
extern __attribute__((weak)) MPI_Message MPI_Message_fromint(int message);

static int told; /* calls of the error handler */

static int class_of(int rc)
{
    int class = -1;
    if (MPI_Error_class(rc, &class) != MPI_SUCCESS)
        return -1;
    return class;
}
#define REFUSED(call)                                                                              \
    check_at(__FILE__, __LINE__, #call, class_of(call), MPI_ERR_UNSUPPORTED_OPERATION)

/* ---- on communicators of ftkit ------------------------------------------------------- */

static void one_sided(MPI_Comm comm)
{
    static int memory[4];
    void *base = NULL;
    MPI_Win win = MPI_WIN_NULL;
    REFUSED(
        MPI_Win_allocate_shared(sizeof memory, (int)sizeof(int), MPI_INFO_NULL, comm, &base, &win));
    TRUE(win == MPI_WIN_NULL && base == NULL);
    OK(MPI_Win_create(memory, sizeof memory, (int)sizeof(int), MPI_INFO_NULL, comm, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    MPI_Aint bytes = -1;
    int unit = -1;
    REFUSED(MPI_Win_shared_query(win, 0, &bytes, &unit, &base));
    TRUE(base == NULL && bytes == -1 && unit == -1);
    REFUSED(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    REFUSED(MPI_Win_lock_all(0, win));
    OK(MPI_Win_free(&win));
}

static void processes(MPI_Comm comm)
{
    char *commands[] = { "none" }, *const port = "none";
    int one[] = { 1 };
    MPI_Info infos[] = { MPI_INFO_NULL };
    MPI_Comm made = MPI_COMM_NULL;
    REFUSED(MPI_Comm_spawn(
        "none", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, comm, &made, MPI_ERRCODES_IGNORE));
    REFUSED(MPI_Comm_spawn_multiple(
        1, commands, MPI_ARGVS_NULL, one, infos, 0, comm, &made, MPI_ERRCODES_IGNORE));
    REFUSED(MPI_Comm_accept(port, MPI_INFO_NULL, 0, comm, &made));
    REFUSED(MPI_Comm_connect(port, MPI_INFO_NULL, 0, comm, &made));
    REFUSED(MPI_Comm_join(-1, &made));
    TRUE(made == MPI_COMM_NULL);
}

static void sessions(MPI_Comm comm)
{
    MPI_Session session = MPI_SESSION_NULL;
    MPI_Group group;
    MPI_Comm made = MPI_COMM_NULL;
    OK(MPI_Comm_group(comm, &group));
    REFUSED(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    REFUSED(MPI_Comm_create_from_group(group, "here", MPI_INFO_NULL, MPI_ERRORS_RETURN, &made));
    REFUSED(MPI_Intercomm_create_from_groups(
        group, 0, group, 0, "here", MPI_INFO_NULL, MPI_ERRORS_RETURN, &made));
    TRUE(made == MPI_COMM_NULL && session == MPI_SESSION_NULL);
    OK(MPI_Group_free(&group));
}

static void messages(MPI_Comm comm)
{
    double x[4] = { 0 };
    MPI_Request q = MPI_REQUEST_NULL;
    int next = (me + 1) % n;
    REFUSED(MPI_Psend_init(x, 2, 2, MPI_DOUBLE, next, 6, comm, MPI_INFO_NULL, &q));
    REFUSED(MPI_Precv_init(x, 2, 2, MPI_DOUBLE, next, 6, comm, MPI_INFO_NULL, &q));
    TRUE(q == MPI_REQUEST_NULL);
    OK(MPI_Irecv(x, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 78, comm, &q));
    TRUE(MPI_Request_f2c(MPI_Request_c2f(q)) == q);
    if (MPI_Request_toint)
        TRUE(MPI_Request_fromint(MPI_Request_toint(q)) == q);
    OK(MPI_Cancel(&q));
    OK(MPI_Wait(&q, MPI_STATUS_IGNORE));
    TRUE(MPI_Message_f2c(MPI_Message_c2f(MPI_MESSAGE_NO_PROC)) == MPI_MESSAGE_NO_PROC);
    MPI_Message found;
    int self;
    OK(MPI_Comm_rank(comm, &self));
    OK(MPI_Send(x, 0, MPI_DOUBLE, self, 9, comm));
    OK(MPI_Mprobe(self, 9, comm, &found, MPI_STATUS_IGNORE));
    TRUE(MPI_Message_f2c(MPI_Message_c2f(found)) == found);
    if (MPI_Message_toint)
        TRUE(MPI_Message_fromint(MPI_Message_toint(found)) == found);
    OK(MPI_Mrecv(x, 0, MPI_DOUBLE, &found, MPI_STATUS_IGNORE));
}

static void files(MPI_Comm comm)
{
    MPI_File file = MPI_FILE_NULL;
    int size;
    OK(MPI_Comm_size(comm, &size));
    if (size == 1)
        return; /* it is a file of one process */
    REFUSED(MPI_File_open(comm, "none", MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file));
    TRUE(file == MPI_FILE_NULL);
}

/* It still works. */
static void goes_on(MPI_Comm comm)
{
    int sum = -1, size, rank, got = -1;
    OK(MPI_Comm_size(comm, &size));
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
    TRUE(sum == size * (size - 1) / 2);
    OK(MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 7, &got, 1, MPI_INT,
        (rank + size - 1) % size, 7, comm, MPI_STATUS_IGNORE));
    TRUE(got == (rank + size - 1) % size);
}

static void on_error(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    told += class_of(*code) == MPI_ERR_UNSUPPORTED_OPERATION;
}

/* A handler of the program's own is told, and once. */
static void handler(void)
{
    MPI_Errhandler own;
    MPI_Comm dup;
    MPI_Win win;
    void *base;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
    OK(MPI_Comm_create_errhandler(on_error, &own));
    OK(MPI_Comm_set_errhandler(dup, own));
    told = 0;
    REFUSED(MPI_Win_allocate_shared(1, 1, MPI_INFO_NULL, dup, &base, &win));
    TRUE(told == 1);
    OK(MPI_Errhandler_free(&own));
    OK(MPI_Comm_free(&dup));
}

/* ---- on others ----------------------------------------------------------------------- */

static void on_self(const char *path)
{
    static int memory[4];
    int five = 5, got = 0;
    MPI_Win win;
    MPI_File file;
    MPI_Comm dup;
    OK(MPI_Win_create(memory, sizeof memory, (int)sizeof(int), MPI_INFO_NULL, MPI_COMM_SELF, &win));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(&five, 1, MPI_INT, 0, 2, 1, MPI_INT, win));
    OK(MPI_Win_fence(0, win));
    TRUE(memory[2] == 5);
    OK(MPI_Win_free(&win));
    OK(MPI_File_open(MPI_COMM_SELF, path,
        MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
    OK(MPI_File_write_at(file, 0, &five, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_read_at(file, 0, &got, 1, MPI_INT, MPI_STATUS_IGNORE));
    TRUE(got == five);
    OK(MPI_File_close(&file));
    OK(MPI_Comm_dup(MPI_COMM_SELF, &dup));
    OK(MPI_Comm_disconnect(&dup));
}

int main(int argc, char **argv)
{
    const char *on = getenv("FTKIT_LOG_ENABLED");
    ftkit_ctx *ft = NULL;
    MPI_Comm half;
    char path[64];
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &me));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &n));
    if (on && strcmp(on, "true") == 0) {
        OK(ftkit_open(MPI_COMM_WORLD, NULL, &ft));
        TRUE(ftkit_recover(ft, NULL) >= 0);
        OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
        OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
        OK(MPI_Comm_split(MPI_COMM_WORLD, me % 2, me, &half));
        for (int i = 0; i < 2; i++) {
            MPI_Comm comm = i ? half : MPI_COMM_WORLD;
            one_sided(comm);
            processes(comm);
            sessions(comm);
            messages(comm);
            files(comm);
            goes_on(comm);
            TRUE(ftkit_checkpoint(ft) >= 0);
        }
        handler();
        snprintf(path, sizeof path, "refused.%d", me);
        on_self(path);
        goes_on(MPI_COMM_WORLD);
        OK(MPI_Comm_free(&half));
        OK(ftkit_close(&ft));
    }
    if (me == 0)
        printf("OK %ld\n", checks);
    return MPI_Finalize() == MPI_SUCCESS ? 0 : 1;
}
