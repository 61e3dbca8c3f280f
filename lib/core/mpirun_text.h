/* What mpirun prints about the ends of processes, in the lines that `ftkit run` asks for.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 *     [host:4711] [prterun-host-4711@0,0] errmgr:dvm: for proc [prterun-host-4711@1,3] state ...
 *
 * tools/state.c has the meaning of the lines. */
#ifndef FTK_MPIRUN_TEXT_H
#define FTK_MPIRUN_TEXT_H

#define FTK_MPIRUN_STATE " errmgr:dvm: for proc "
#define FTK_MPIRUN_BY_SIGNAL " state ABORTED BY SIGNAL"
#define FTK_MPIRUN_BY_ABORT " state CALLED ABORT"
#define FTK_MPIRUN_BY_EXIT " state EXITED WITH NON-ZERO STATUS"
#define FTK_MPIRUN_NO_FINALIZE " state TERMINATED WITHOUT SYNC"

#define FTK_MPIRUN_CODE " errmgr:dvm: proc "
#define FTK_MPIRUN_ABORT_CODE " called abort with exit code "
#define FTK_MPIRUN_EXIT_CODE " exited with non-zero status "
#define FTK_MPIRUN_SYNC_CODE " terminated without sync, exit code " /* of scripts/openmpi */
#define FTK_MPIRUN_CODES FTK_MPIRUN_ABORT_CODE, FTK_MPIRUN_EXIT_CODE, FTK_MPIRUN_SYNC_CODE

#define FTK_MPIRUN_CHILD " odls:waitpid_fired child process "
#define FTK_MPIRUN_CHILD_SIGNAL " terminated with signal "

#define FTK_MPIRUN_START " odls:launch spawning child "
#define FTK_MPIRUN_ORDER " odls:construct_child_list unpacking data to launch job "

#define FTK_MPIRUN_NODE " errmgr:dvm: node "
#define FTK_MPIRUN_NODE_LOST " is lost"

#endif
