/* The loss of a node is the loss of its processes.
 *
 * PRRTE 3.0 ends all jobs when mpirun loses the connection to one of its daemons, or when the
 * launch agent of a daemon ends.  With the parameter errmgr_dvm_survive_nodes mpirun goes on when
 * each job is recoverable (state_base_recoverable): the node counts as down, and each process of
 * the node counts as killed, so that the other processes learn of the loss as of any other.
 *
 * scripts/openmpi adds this file to errmgr/dvm.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "prte_config.h"
#include "constants.h"

#include <signal.h>

#include "errmgr_dvm_node.h"
#include "src/mca/errmgr/base/base.h"
#include "src/mca/errmgr/errmgr.h"
#include "src/mca/state/state.h"
#include "src/rml/rml.h"
#include "src/runtime/prte_globals.h"
#include "src/util/name_fns.h"
#include "src/util/pmix_output.h"

bool prte_errmgr_dvm_survive_nodes = false;

/* Whether each job that this mpirun runs goes on without some of its processes. */
static bool all_recoverable(void)
{
    for (int i = 0; i < prte_job_data->size; i++) {
        prte_job_t *job = pmix_pointer_array_get_item(prte_job_data, i);
        if (job == NULL || PMIX_CHECK_NSPACE(job->nspace, PRTE_PROC_MY_NAME->nspace))
            continue;
        if (!prte_get_attribute(&job->attributes, PRTE_JOB_RECOVERABLE, NULL, PMIX_BOOL))
            return false;
    }
    return true;
}

/* Whether the loss of this daemon can be survived: the daemon has reported that it runs, and no end
 * is under way. */
bool prte_errmgr_dvm_survives(const prte_proc_t *daemon)
{
    return prte_errmgr_dvm_survive_nodes && !prte_finalizing && !prte_prteds_term_ordered
           && !prte_abnormal_term_ordered && !prte_dvm_abort_ordered && daemon->node != NULL
           && (daemon->node->state == PRTE_NODE_STATE_DOWN
               || daemon->state == PRTE_PROC_STATE_RUNNING)
           && all_recoverable();
}

/* The node of this daemon is lost.  The connection and the launch agent both report the loss: the
 * second report changes nothing. */
void prte_errmgr_dvm_node_lost(prte_proc_t *daemon)
{
    prte_node_t *node = daemon->node;

    if (node->state == PRTE_NODE_STATE_DOWN)
        return;
    node->state = PRTE_NODE_STATE_DOWN;
    PRTE_FLAG_UNSET(daemon, PRTE_PROC_FLAG_ALIVE);
    (void)prte_rml_route_lost(daemon->name.rank);
    pmix_output_verbose(1, prte_errmgr_base_framework.framework_output,
        "%s errmgr:dvm: node %s is lost", PRTE_NAME_PRINT(PRTE_PROC_MY_NAME), node->name);
    for (int i = 0; i < node->procs->size; i++) {
        prte_proc_t *proc = pmix_pointer_array_get_item(node->procs, i);
        if (proc == NULL || proc->state >= PRTE_PROC_STATE_UNTERMINATED
            || PMIX_CHECK_NSPACE(proc->name.nspace, PRTE_PROC_MY_NAME->nspace))
            continue;
        proc->exit_code = SIGKILL + 128;
        PRTE_ACTIVATE_PROC_STATE(&proc->name, PRTE_PROC_STATE_ABORTED_BY_SIG);
    }
}
