/* Topologies of virtual communicators.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOG_TOPOLOGY_H
#define FTK_LOG_TOPOLOGY_H

#include "log/log.h"

/* n integers on the heap, copied unless from is NULL; NULL: no memory. */
int *ftk_topo_ints(const int *from, int n);
int ftk_topo_copy(struct ftk_topo *to, const struct ftk_topo *from); /* MPI code */
void ftk_topo_free(struct ftk_topo *t);                              /* leaves it empty */

#endif
