/* The calls of VeloC that tests/porting/veloc.c uses, declared as in its include/veloc.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef VELOC_STUB_H
#define VELOC_STUB_H

#include <mpi.h>
#include <stddef.h>

#define VELOC_SUCCESS (0)

int VELOC_Init(MPI_Comm comm, const char *cfg_file);
int VELOC_Finalize(int cleanup);
int VELOC_Mem_protect(int id, void *ptr, size_t count, size_t base_size);
int VELOC_Checkpoint(const char *name, int version);
int VELOC_Restart_test(const char *name, int version);
int VELOC_Restart(const char *name, int version);

#endif
