/* The owner of the sets of a context: one job at a time uses them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 *     <dir>/<context>.ftkit/owner
 *
 *     ftkit.owner = 1
 *     job = 0123456789abcdef     the same in all processes of a job, different in other jobs
 *     name = slurm 4711          the name that the scheduler gives the job
 *     host = node17
 *     machine = 6f1b...-4026531836   boot id of the machine, and name space of process ids
 *     pid = 12345
 *     start = 8437283            of the process, in ticks since the machine started
 *     checksum = 0011223344556677
 *
 * The process that holds the record (rank 0) touches the record every few seconds and removes
 * it at the end.  Another job decides as follows whether the owner of a record is alive:
 *
 *   - On the same machine: the owner is alive if a process with this pid and this start exists.
 *   - On another machine: the owner is dead if nobody touches the record for a while.  The
 *     clocks of two machines are compared in one case only: the owner of a record that is ten
 *     minutes old is dead, and the record is not watched.
 *
 * So the record of a killed job stops no other job: a job that starts on the same machine
 * continues at once, on another machine after some seconds.  A job that is suspended for
 * longer is taken for dead.  When such a job resumes, it finds that the record is not its own
 * any more, and writes no further set.  The record is not a lock: a dead process leaves no lock
 * behind, and the file system need not support locks. */
#ifndef FTK_STORE_OWNER_H
#define FTK_STORE_OWNER_H

#include "core/ftk.h"

struct ftk_owner_record {
    uint64_t job;
    char name[64];
    char host[65];
    char machine[64];
    int64_t pid;
    uint64_t start;
};

struct ftk_owner; /* a record that is held */

/* Make job the owner of <dir>/<context>.ftkit.  make: create this directory if it is missing.
 * A record of the same job is taken over.  FTKIT_OK with *o NULL: the directory is missing or
 * cannot be written to; a job that cannot write disturbs no other job.  FTKIT_ERR_BUSY: another
 * owner, named in the detail, is still alive after some seconds of patience. */
int ftk_owner_take(
    const char *dir, const char *context, uint64_t job, bool make, struct ftk_owner **o);
/* Check the record, and write a missing record again.  FTKIT_ERR_BUSY: another job, named in the
 * detail, has taken over the record. */
int ftk_owner_check(struct ftk_owner *o);
void ftk_owner_release(struct ftk_owner **o); /* NULL inside is fine */

/* Whether a living job owns the sets; its record goes to *r. */
int ftk_owner_alive(const char *dir, const char *context, bool *alive, struct ftk_owner_record *r);
/* "job slurm 4711 on node17 (process 12345)" */
void ftk_owner_text(const struct ftk_owner_record *r, char *buf, size_t bytes);

/* For tests: seconds between two touches; without a touch until the owner is taken for dead; of
 * patience with a living owner. */
void ftk_owner_pace(double beat_s, double silent_s, double patience_s);

#endif
