/* Who uses the sets of a context: one job at a time.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 *     <dir>/<context>.ftkit/owner
 *
 *     ftkit.owner = 1
 *     job = 0123456789abcdef     the same in all processes of a job, and in no other
 *     name = slurm 4711          what a scheduler calls it
 *     host = node17
 *     machine = 6f1b...-4026531836   one boot of a machine and its process ids there
 *     pid = 12345
 *     start = 8437283            of the process, in ticks since the machine started
 *     checksum = 0011223344556677
 *
 * The process that holds the record (rank 0) touches it every few seconds and removes it
 * at the end.  Whether the owner of a record lives:
 *
 *   - on the same machine the process tells: there, with the same start, or not;
 *   - on another one the touches tell.  No change for a while is a dead owner; the clocks
 *     of two machines are never compared, but that a record ten minutes old needs no
 *     watching.
 *
 * So the record of a job that was killed stands in nobody's way: a job that starts on the
 * same machine goes on at once, on another machine after some seconds.  A job that is
 * suspended for longer is taken for dead; when it goes on it finds that the record is not
 * its own any more, and writes no further set.  Nothing here is a lock that a dead
 * process could leave behind, or that a file system would have to support. */
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

/* Become the owner of <dir>/<context>.ftkit, which must exist unless make is set, as job.
 * A record of the same job is taken over.  *o is NULL when there is no directory, or none
 * that a record can be written to: whoever cannot write disturbs nobody.
 * FTKIT_ERR_BUSY names the owner, if it lives after some seconds of patience. */
int ftk_owner_take(
    const char *dir, const char *context, uint64_t job, bool make, struct ftk_owner **o);
/* Still ours?  FTKIT_ERR_BUSY names the other. */
int ftk_owner_check(struct ftk_owner *o);
void ftk_owner_release(struct ftk_owner **o); /* NULL inside is fine */

/* Whether a living job owns the sets; its record goes to *r. */
int ftk_owner_alive(const char *dir, const char *context, bool *alive, struct ftk_owner_record *r);
/* "job slurm 4711 on node17 (process 12345)" */
void ftk_owner_text(const struct ftk_owner_record *r, char *buf, size_t bytes);

/* For tests: seconds between touches, of silence that is death, of patience. */
void ftk_owner_pace(double beat_s, double silent_s, double patience_s);

#endif
