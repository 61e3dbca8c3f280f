#!/bin/bash
# A solver under IBM Spectrum LSF.  Not run on such a system: only its syntax is tested.
#
#     bsub <lsf.sh
#
# The processes of one node are spares.  -r: LSF starts the job again after the loss of its first
# node; it goes on from its newest set.
#BSUB -J ftkit
#BSUB -n 6
#BSUB -R "span[ptile=2]"
#BSUB -W 1:00
#BSUB -r
#BSUB -o ftkit.%J.log

export FTKIT_LEVEL_HDF5_DIRECTORY="${FTKIT_LEVEL_HDF5_DIRECTORY:-$PWD}"

# LSB_MCPU_HOSTS: "node1 2 node2 2 node3 2"
hosts=$PWD/hosts.$LSB_JOBID
nodes=0
slots=0
read -ra words <<<"$LSB_MCPU_HOSTS"
for ((i = 0; i + 1 < ${#words[@]}; i += 2)); do
    echo "${words[i]} slots=${words[i + 1]}"
    nodes=$((nodes + 1))
    slots=$((slots + words[i + 1]))
done >"$hosts"
trap 'rm -f "$hosts"' EXIT
spares=$((slots / nodes))

# daemons are started by blaunch in the place of ssh
export PRTE_MCA_plm_ssh_agent=blaunch
ftkit run -n $((slots - spares)) --spares "$spares" --hostfile "$hosts" -- ./heat2d -o result
