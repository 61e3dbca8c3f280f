#!/bin/bash
# An MPI without ULFM under Slurm: restart only.  srun starts the ranks; when one is lost, the
# job ends, is queued again, and goes on from its newest set.  scancel ends it.
#
#     sbatch slurm-restart.sh ./heat2d -s 100000 -o result
#
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --time=01:00:00
#SBATCH --requeue
#SBATCH --open-mode=append

export FTKIT_LEVEL_HDF5_DIRECTORY="${FTKIT_LEVEL_HDF5_DIRECTORY:-$PWD}"

ended=
trap 'ended=1' TERM # of scancel, to the ranks as well
srun --mpi=pmi2 --kill-on-bad-exit=1 "$@"
code=$?
if [ "$code" != 0 ] && [ ! "$ended" ] && [ "${SLURM_RESTART_COUNT:-0}" -lt 5 ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
