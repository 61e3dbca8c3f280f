/* The loss of a node is the loss of its processes: see errmgr_dvm_node.c.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef PRTE_ERRMGR_DVM_NODE_H
#define PRTE_ERRMGR_DVM_NODE_H

#include "src/runtime/prte_globals.h"

PRTE_EXPORT extern bool prte_errmgr_dvm_survive_nodes;
PRTE_EXPORT bool prte_errmgr_dvm_survives(const prte_proc_t *daemon);
PRTE_EXPORT void prte_errmgr_dvm_node_lost(prte_proc_t *daemon);

#endif
