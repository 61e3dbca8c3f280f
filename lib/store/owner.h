/* The owner of the sets of a context: one job at a time uses them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 *     <dir>/<context>.ftkit/owner
 *
 *     ftkit.owner = 3            version 1 has no lines run, mpi, alone; version 2 no line epoch
 *     job = 0123456789abcdef     the same in all processes of a job, different in other jobs
 *     name = slurm 4711          the name that the scheduler gives the job
 *     host = node17
 *     machine = 6f1b...-4026531836   boot id of the machine, and name space of process ids
 *     pid = 12345                the process that has written the record: rank 0
 *     start = 8437283            of the process, in ticks since the machine started
 *     run = 00000000deadbeef     of `ftkit run`; 0: none
 *     mpi = 0123456789abcdef     hash of the name that mpirun gives the MPI job; 0: not known
 *     alone = 1                  all processes of the job are on this machine
 *     epoch = 2                  of the job, in which the process has become rank 0
 *     checksum = 0011223344556677
 *
 * The job holds the record, not one of its processes.  Rank 0 writes the record, touches it
 * every few seconds and removes it at the end.  A few other ranks, on other nodes where there are
 * some, stand in: one of them touches the record when no process has touched it for a while.  When
 * rank 0 is lost, the process that replaces it writes the record again, at the latest before it
 * makes a set.  A process that was given up as lost, and comes back, finds a record of a later
 * epoch: this process neither replaces nor removes the record, and makes no set.  A record
 * is whole when it has its name, and one of the same job is replaced in one step.  Another job
 * decides as follows whether the owner of a record is alive:
 *
 *   - On the same machine: the owner is alive if the process of the record exists (pid and
 *     start), or if any process of the job does (struct ftk_owner_job, lives).  The owner is dead
 *     if none does and all processes of the job were on this machine.
 *   - Otherwise the owner is dead if no process touches the record for a while.  The clocks of two
 *     machines are compared in one case only: the owner of a record that is ten minutes old is
 *     dead, and the record is not watched.
 *   - A relaunch by the same `ftkit run` does not wait for processes on other machines, once the
 *     process of the record is dead: `ftkit run` has ended the job.
 *
 * So the record of a killed job stops no other job: a job that starts on the same machine
 * continues at once, on another machine (or after a job of several machines) after some
 * seconds.  A job that is suspended for longer is taken for dead.  When such a job resumes, it
 * finds that the record is not its own any more, and writes no further set.  The record is not a
 * lock: a dead process leaves no lock behind, and the file system need not support locks. */
#ifndef FTK_STORE_OWNER_H
#define FTK_STORE_OWNER_H

#include "core/ftk.h"

struct ftk_owner_record {
    int version; /* of the text: 1 to 3 */
    uint64_t job;
    char name[64];
    char host[65];
    char machine[64];
    int64_t pid;
    uint64_t start;
    uint64_t run, mpi; /* 0: none, or not known */
    bool alone;
    int epoch; /* 0: not known */
};

/* Whether a process of a job lives on this machine: 1 or 0; -1: that is not known. */
typedef int ftk_owner_lives(uint64_t job);

/* A job that wants to use sets. */
struct ftk_owner_job {
    uint64_t job, run, mpi; /* as in a record */
    bool alone;
    int epoch;              /* of the job, now */
    ftk_owner_lives *lives; /* NULL: only the processes of records are asked for */
};

struct ftk_owner; /* a record that is held, or a rank that stands in */

#define FTK_OWNER_STANDINS 3 /* ranks that stand in, at most */

/* Make this job the owner of <dir>/<context>.ftkit; this process is its rank 0.  make: create
 * this directory if it is missing.  A record of the same job is taken over.  FTKIT_OK with *o
 * NULL: the directory is missing or cannot be written to; a job that cannot write disturbs no
 * other job.  FTKIT_ERR_BUSY: another owner, named in the detail, is still alive after some
 * seconds of patience.  There is no patience with another context of the same MPI job. */
int ftk_owner_take(const char *dir, const char *context, const struct ftk_owner_job *of, bool make,
    struct ftk_owner **o);
/* This process takes part in keeping the record of its job; touches no file itself, only its
 * thread does.  turn 0: it has replaced rank 0, and writes the record again; n > 0: it touches the
 * record when no process has for 1 + n beats.  NULL: no memory, or no thread. */
struct ftk_owner *ftk_owner_stand_in(
    const char *dir, const char *context, const struct ftk_owner_job *of, int turn);
/* From now on, in this epoch; turn < 0: not at all; 0: the thread writes the record at once. */
void ftk_owner_turn(struct ftk_owner *o, int turn, int epoch);
/* On rank 0: check the record, and write the record again if it is missing or of an earlier rank 0;
 * make: as above.  FTKIT_ERR_BUSY: another job, or another rank 0 of this job, named in the detail,
 * has taken over the record. */
int ftk_owner_check(struct ftk_owner *o, bool make);
/* Rank 0 removes the record.  Waits for a file system that does not answer for five seconds at
 * most; the thread stays behind alone then.  NULL inside is fine. */
void ftk_owner_release(struct ftk_owner **o);

/* Whether a living job owns the sets; its record goes to *r. */
int ftk_owner_alive(const char *dir, const char *context, ftk_owner_lives *lives, bool *alive,
    struct ftk_owner_record *r);
/* "job slurm 4711 on node17 (process 12345)" */
void ftk_owner_text(const struct ftk_owner_record *r, char *buf, size_t bytes);

/* For tests: seconds between two touches; without a touch until the owner is taken for dead; of
 * patience with a living owner; of waiting for a file system at the end. */
void ftk_owner_pace(double beat_s, double silent_s, double patience_s, double end_s);

#endif
