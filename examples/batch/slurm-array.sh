#!/bin/bash
# A job array under Slurm: each element is a run of its own, with sets of its own.
#
#     sbatch slurm-array.sh ./heat2d -s 100000 -o result
#
# Each element has a directory, run.0, run.1 and so on, for its results and its sets.  In one
# directory the elements would use the same sets, and ftkit would refuse all but the first.
#SBATCH --array=0-1
#SBATCH --nodes=1
#SBATCH --ntasks=3
#SBATCH --time=01:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=array-%a.log

program=$(realpath "$1")
shift
mkdir -p "run.$SLURM_ARRAY_TASK_ID"
cd "run.$SLURM_ARRAY_TASK_ID" || exit 1
export FTKIT_LEVEL_HDF5_DIRECTORY=$PWD

exec ftkit run -n $((SLURM_NTASKS - 1)) --spares 1 -- "$program" "$@"
