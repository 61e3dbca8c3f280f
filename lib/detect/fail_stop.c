/* The end of a job that has lost a process and cannot be repaired (see fail_stop.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * With fault tolerance switched on, Open MPI 5.0 has no way to end such a job.  MPI_Abort (and
 * so MPI_ERRORS_ARE_FATAL) ends only the calling process and does not report that, so processes
 * that wait for this process wait for ever.  MPI_Finalize may wait for dead processes.  Only a
 * death by a signal is reported to all.  So a process that meets the failure in a call, or knows
 * of a failure when it comes to MPI_Finalize, kills itself; the processes that wait for it then
 * meet that failure and do the same. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "core/context.h"
#include "core/mpi_shim.h"
#include "core/run_state.h"
#include "fail_stop.h"

static MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
static int keyval = MPI_KEYVAL_INVALID;

void ftk_fail_stop_die(void)
{
    fflush(NULL);
    for (;;) {
        kill(getpid(), SIGKILL);
        pause();
    }
}

static void end_job(const char *where)
{
    ftk_report(FTKIT_ERROR,
        "a process of the job has failed, which is not repaired in this job; ending in %s", where);
    ftk_run_state("fatal a process has failed in a job without repair");
    ftk_fail_stop_die();
}

static void end_on_error(MPI_Comm *comm, int *code, ...)
{
    if (ftk_mpi_is_failure(*code) || ftk_mpi_has_failed(MPI_COMM_WORLD))
        end_job("an MPI call");
    (void)MPI_Comm_set_errhandler(*comm, MPI_ERRORS_ARE_FATAL);
    (void)MPI_Comm_call_errhandler(*comm, *code);
}

/* MPI_Finalize begins with the attributes of MPI_COMM_SELF. */
static int end_on_finalize(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm;
    (void)key;
    (void)value;
    (void)extra;
    if (ftk_mpi_has_failed(MPI_COMM_WORLD))
        end_job("MPI_Finalize");
    return MPI_SUCCESS;
}

static int guard_finalize(void)
{
    if (keyval != MPI_KEYVAL_INVALID)
        return MPI_SUCCESS;
    int rc = MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, end_on_finalize, &keyval, NULL);
    return rc == MPI_SUCCESS ? MPI_Comm_set_attr(MPI_COMM_SELF, keyval, NULL) : rc;
}

int ftk_fail_stop_guard(MPI_Comm comm, MPI_Errhandler of_program)
{
    int rc = guard_finalize();
    if (rc == MPI_SUCCESS && handler == MPI_ERRHANDLER_NULL)
        rc = MPI_Comm_create_errhandler(end_on_error, &handler);
    if (rc == MPI_SUCCESS && of_program == MPI_ERRORS_ARE_FATAL)
        rc = MPI_Comm_set_errhandler(comm, handler);
    return rc;
}
