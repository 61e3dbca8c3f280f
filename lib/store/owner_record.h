/* The record of the owner of sets, for lib/store/owner.c (owner.h describes the record).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_STORE_OWNER_RECORD_H
#define FTK_STORE_OWNER_RECORD_H

#include "owner.h"

#define FTK_OWNER_FILE "owner"
#define FTK_OWNER_TEXT 1024 /* bytes of a record's text, at most */

/* The record of this process, for this job. */
void ftk_owner_own(struct ftk_owner_record *r, const struct ftk_owner_job *of);
/* Returns the number of bytes. */
size_t ftk_owner_format(const struct ftk_owner_record *r, char text[FTK_OWNER_TEXT]);
bool ftk_owner_parse(const char *text, struct ftk_owner_record *r); /* false: no record */

/* Write a record into the directory of a context.  The record is whole and durable before it gets
 * its name: each writer has a file of its own until then, <name>.<job>.<number>.new.  Make: there
 * must be no record (EEXIST: there is one).  Replace: the record of the same job, in one step, so
 * that another job never finds none (EEXIST: another job has the record, or a later epoch of this
 * job).  0, or an errno. */
int ftk_owner_make(int ctxfd, const struct ftk_owner_record *r);
int ftk_owner_replace(int ctxfd, const struct ftk_owner_record *r);
/* Remove the files that killed writers of a job have left. */
void ftk_owner_sweep(int ctxfd, uint64_t job);

/* The boot id of this machine, and the name space of its process ids. */
void ftk_owner_machine(char buf[64]);
/* Start of a process in ticks; 0: not known, -1: the process has ended. */
int64_t ftk_owner_start(int64_t pid);

#endif
