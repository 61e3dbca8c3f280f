#!/bin/bash
# A solver under PBS Professional or OpenPBS.  Not run on such a system: only its syntax is
# tested.
#
#     qsub pbs.sh
#
# The processes of one node are spares.  -r y: PBS may start the job again after the loss of its
# first node; it goes on from its newest set.
#PBS -N ftkit
#PBS -l select=3:ncpus=2:mpiprocs=2
#PBS -l walltime=01:00:00
#PBS -r y
#PBS -j oe

cd "$PBS_O_WORKDIR" || exit 1
export FTKIT_LEVEL_HDF5_DIRECTORY="${FTKIT_LEVEL_HDF5_DIRECTORY:-$PWD}"

slots=$(wc -l <"$PBS_NODEFILE") # a line for each process
nodes=$(sort -u "$PBS_NODEFILE" | wc -l)
spares=$((slots / nodes))

# daemons are started by ssh; where ssh to nodes is forbidden: FTKIT_AGENT=pbs_tmrsh
if [ -n "${FTKIT_AGENT:-}" ]; then
    export PRTE_MCA_plm_ssh_agent=$FTKIT_AGENT
fi
hosts=$PBS_O_WORKDIR/hosts.$PBS_JOBID
sort "$PBS_NODEFILE" | uniq -c | awk '{ print $2 " slots=" $1 }' >"$hosts"
trap 'rm -f "$hosts"' EXIT

ftkit run -n $((slots - spares)) --spares "$spares" --hostfile "$hosts" -- ./heat2d -o result
