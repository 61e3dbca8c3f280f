/* The calls of FTI that tests/porting/fti.c uses, declared as in fti.h of FTI 1.6.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTI_STUB_H
#define FTI_STUB_H

#include <mpi.h>
#include <stdint.h>

#define FTI_SCES 0 /* success */
#define FTI_NSCS -1

typedef int fti_id_t;

extern MPI_Comm FTI_COMM_WORLD;
extern fti_id_t FTI_INTG;
extern fti_id_t FTI_DBLE;

int FTI_Init(const char *configFile, MPI_Comm globalComm);
int FTI_Status();
int FTI_Protect(int id, void *ptr, int32_t count, fti_id_t tid);
int FTI_Checkpoint(int id, int level);
int FTI_Recover();
int FTI_Finalize();

#endif
