#!/bin/bash
# A solver under Slurm:
#
#     sbatch slurm.sh ./heat2d -s 100000 -o result
#
# The processes of one node are spares.  The job is queued again after the loss of a node, and
# when it has halted before its time limit; it goes on from its newest set.  scancel ends it.
#SBATCH --nodes=3
#SBATCH --ntasks-per-node=2
#SBATCH --time=01:00:00
#SBATCH --requeue
#SBATCH --open-mode=append

# sets go below the working directory, or to a directory that you choose here
export FTKIT_LEVEL_HDF5_DIRECTORY="${FTKIT_LEVEL_HDF5_DIRECTORY:-$PWD}"

echo "job $SLURM_JOB_ID, restart ${SLURM_RESTART_COUNT:-0}, on $SLURM_JOB_NODELIST"
# Slurm signals this shell, which hands the signals on; SIGTERM is that of scancel
run=
ended=
for signal in USR1 USR2 TERM; do
    # shellcheck disable=SC2064 # $signal as it is now
    trap "pkill -$signal -P \$run; again=1; [ $signal != TERM ] || ended=1" "$signal"
done

# The shell around the run writes the exit code down.  If a signal interrupts `wait` at the moment at which
# the run ends, bash 5.2 loses the code.
spares=$SLURM_NTASKS_PER_NODE
result=$(mktemp) || exit 1
(
    trap : USR1 USR2 TERM # this shell stays until the run has ended
    ftkit run -n $((SLURM_NTASKS - spares)) --spares "$spares" -- "$@"
    echo $? >"$result"
) &
run=$!
again=1
while [ "$again" ]; do # a signal ends the wait, not the run
    again=
    wait "$run"
done
code=$(cat "$result")
rm -f "$result"
code=${code:-1} # the shell around the run was killed

# halted: run again to go on; but a job that halts at once would do so at each start
if [ "$code" = 75 ] && [ ! "$ended" ]; then
    if [ "$SECONDS" -ge "${REQUEUE_AFTER:-60}" ]; then
        scontrol requeue "$SLURM_JOB_ID"
    else
        echo "halted after $SECONDS s: not queued again; is the time limit too short?"
    fi
fi
exit "$code"
