#!/usr/bin/env bash
# One run on several nodes of SLURM, one task on each; all mount the folders.
#
#     sbatch --nodes=4 docs/launch/slurm.sh electra-pretrain \
#         --config=... --model_dir=... --max_restarts=3
#
#SBATCH --job-name=electra
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=16
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
# Two minutes before the time is over the tasks get SIGTERM: they save, and end
# with 75. Then the job goes on in a new allocation; after the loss of a node
# (69) too, ten times at the most.
#SBATCH --signal=TERM@120
set -uo pipefail
HOSTS=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | tr '\n' ' ')
PORT=$((20000 + SLURM_JOB_ID % 10000))
export HOSTS PORT
srun bash -c '
    workers=
    index=0
    for host in $HOSTS; do
        workers+="${workers:+, }\"$host:$((PORT + index))\""
        index=$((index + 1))
    done
    export TF_CONFIG="{\"cluster\": {\"worker\": [$workers]}, \"task\": {\"type\": \"worker\", \"index\": $SLURM_PROCID}}"
    exec "$@" --config.training.strategy=multi_worker
' worker "$@"
code=$?
if [[ $code == 75 || ($code == 69 && ${SLURM_RESTART_COUNT:-0} -lt 10) ]]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
