/* Virtual communicators: their contexts and handles, for the files that make and free them.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOG_COMM_H
#define FTK_LOG_COMM_H

#include "log/log.h"
#include "mpi_calls.h" /* the entry points */

enum ftk_make_how {
    FTK_MAKE_NEW,     /* no attributes */
    FTK_MAKE_DUP,     /* attributes and topology of the parent */
    FTK_MAKE_DUP_INFO /* the same with other hints */
};

/* The proposal of a member in a construction. */
struct ftk_proposal {
    uint64_t free;      /* plain contexts that it could use */
    int32_t color, key; /* of a split; else free for the caller */
    int32_t error;      /* MPI code with which its part has failed */
    int32_t rank;       /* of the member; the receiver fills it in */
    int32_t own;        /* its shared context, if all members have no plain one free; or -1 */
    int32_t zero;       /* no padding: the replay check compares all bytes */
};
/* Memory for the proposals of all ranks, until the next exchange. */
struct ftk_proposal *ftk_make_room(void);

/* The program frees vc.  MPI code. */
int ftk_vcomm_free(struct ftk_vcomm *vc);

/* A call could not find out a count.  While this rank rolls back the count becomes 0, because the
 * program may loop over it before its next ftkit_checkpoint().  n may be NULL. */
static inline void ftk_vcomm_no_count(int *n)
{
    if (n && ftk_log_is_rolling_back())
        *n = 0;
}

static inline bool ftk_vcomm_is_permanent(const struct ftk_vcomm *vc)
{
    return vc == ftk_log.vcomms.world || vc == ftk_log.vcomms.user;
}
/* Delete those that have no reference any more (vcomm.h).  Callbacks of the program may run. */
void ftk_vcomm_sweep(void);
/* Add the contexts in use. */
void ftk_vcomm_contexts(struct ftk_contexts *to);
/* Make the handle of a communicator.  MPI code. */
int ftk_vcomm_handle(
    const struct ftk_vcomm *parent, enum ftk_make_how how, MPI_Info info, MPI_Comm *handle);
void ftk_vcomm_publish(struct ftk_vcomm *vc); /* into the list */
/* A communicator with room for members; NULL: no memory.  Free it. */
struct ftk_vcomm *ftk_vcomm_empty(int members);
void ftk_vcomm_discard(struct ftk_vcomm *vc);
/* For vcomm_image.c: give vc a handle and publish it; on an error vc is freed.  MPI code. */
int ftk_vcomm_attach(struct ftk_vcomm *vc);
/* vc is lost.  Its handle is left to the program, if the program has it. */
void ftk_vcomm_detach(struct ftk_vcomm *vc);
/* Whether a handle is detached: the last rollback has left it to the program.  True once. */
bool ftk_vcomm_is_detached(MPI_Comm handle);

#endif
