/* Functions that every module of ftkit uses: failing with a detail, reporting, fault points.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_H
#define FTK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ftkit.h"
#ifndef FTK_PROGRAM /* a test program's calls are those of a program */
#include "pmpi.h"   /* MPI_Send() of ftkit is PMPI_Send(): made by scripts/wrappers */
#endif

#define FTK_PATH_MAX 1024
#define FTK_DETAIL_MAX 512
#define FTK_HUGE_PAGE ((size_t)2 << 20) /* bytes */

#define FTK_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* ---- Failing ----------------------------------------------------------------------------
 * Record the failure first, then clean up.  The text (the detail) goes into a fixed buffer of the
 * calling thread; public calls copy it into the context.  Each macro evaluates to the status code,
 * so that `return` and `goto` stay visible at the call. */
int ftk_fail_at(const char *file, int line, int code, const char *fmt, ...) FTK_PRINTF(4, 5);
int ftk_fail_errno_at(const char *file, int line, int err, const char *fmt, ...) FTK_PRINTF(4, 5);
int ftk_fail_mpi_at(const char *file, int line, int mpi_rc, const char *what);

#define ftk_fail(code, ...) ftk_fail_at(__FILE__, __LINE__, (code), __VA_ARGS__)
/* ENOSPC and EDQUOT: FTKIT_ERR_NOSPACE; ENOMEM: FTKIT_ERR_NOMEM; others: FTKIT_ERR_IO */
#define ftk_fail_errno(err, ...) ftk_fail_errno_at(__FILE__, __LINE__, (err), __VA_ARGS__)
#define ftk_fail_mpi(rc, what) ftk_fail_mpi_at(__FILE__, __LINE__, (rc), (what))

#ifdef __clang_analyzer__ /* it does not know that these functions never return FTKIT_OK */
#undef ftk_fail
#undef ftk_fail_errno
#undef ftk_fail_mpi
#define ftk_fail(code, ...) (ftk_fail_at(__FILE__, __LINE__, (code), __VA_ARGS__), (code))
#define ftk_fail_errno(err, ...)                                                                   \
    (ftk_fail_errno_at(__FILE__, __LINE__, (err), __VA_ARGS__), FTKIT_ERR_IO)
#define ftk_fail_mpi(rc, what) (ftk_fail_mpi_at(__FILE__, __LINE__, (rc), (what)), FTKIT_ERR_MPI)
#endif

/* This thread's last detail, "" when there is none. */
const char *ftk_detail_text(void);
void ftk_detail_clear(void);

/* ---- Reporting --------------------------------------------------------------------------
 * The library reports in three ways only: by the callback of ftkit_set_report(), on stderr
 * (report.stderr), in the event log (report.events, core/event.h), which gets every line. */
/* The plural s of "2 ranks"; nothing for "1 rank". */
#define FTK_S(n) ((n) == 1 ? "" : "s")

void ftk_report(int level, const char *fmt, ...) FTK_PRINTF(2, 3);
/* Report an error that ends the process.  It is printed on stderr with every report.stderr. */
void ftk_report_last(const char *fmt, ...) FTK_PRINTF(1, 2);
/* Configure stderr: the highest level that is printed, -1: none. */
void ftk_report_setup(int stderr_level);

/* ---- Time ---------------------------------------------------------------------------- */
double ftk_now_s(void);     /* seconds of CLOCK_MONOTONIC */
uint64_t ftk_wall_ns(void); /* nanoseconds since 1970, for humans: never compared */

/* Return a number, not 0, that most probably no other process gets. */
uint64_t ftk_random(void);

/* ---- Fault points -----------------------------------------------------------------------
 * Named points at which tests inject failures.  FTKIT_FAULT has a comma-separated list of
 * point:rank:nth:action[@incarnation].  rank, nth and incarnation (0 when not given) may be
 * *.  action is kill, killN, once, node, stop, slow, late, hold, afterN, exit, vanish, quick,
 * abort, mpiabort, loop, or the name of an errno (EIO, ENOSPC ...), with which the code at the
 * point then fails.  node: all processes of an emulated node are killed, and its daemon.  once:
 * only the first process of the job is killed.  killN: the process counts as a fault at once, and
 * is killed when N faults have come to pass in the job: so N processes die at the same time,
 * however late one of them is.  late: a pause of up to 3 ms.  hold: the process makes the file
 * FTKIT_FAULT_LOG.held and stands still until the test makes FTKIT_FAULT_LOG.go.  afterN: the
 * process stands still until N faults have come to pass.  Each fault that happens, but late, hold
 * and afterN, is a line in the file FTKIT_FAULT_LOG, each visit of a point a line in the file
 * FTKIT_FAULT_TRACE.
 * Outside test builds the macro is the constant 0. */
#ifdef FTK_FAULTS
int ftk_fault_hit(const char *point); /* 0, or the errno to fail with */
/* Set the rank and the incarnation of this process for FTKIT_FAULT.  The rank is first the rank in
 * MPI_COMM_WORLD, then the logical rank; for a spare: number of working ranks + number of spare. */
void ftk_fault_rank(int rank, int incarnation);
#define FTK_FAULT(point) ftk_fault_hit(point)
#else
#define FTK_FAULT(point) 0
static inline void ftk_fault_rank(int rank, int incarnation)
{
    (void)rank;
    (void)incarnation;
}
#endif

#endif
