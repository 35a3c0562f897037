#!/bin/sh
# One process of a run that has several: which it is, where the others are, its own log.
#
#   rank.sh RUN_FOLDER RECORDS PHASE HEED IMAGE     started by srun or another launcher, once for each process
#
# HEED is what a shell has to do first so that it outlives the warning before the end.
# The first process of a node runs the set-up, once; the others wait for it and take over its environment.
bay_run=$1
bay_records=$2
bay_rank=${SLURM_PROCID:-${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}}
bay_local=${SLURM_LOCALID:-${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:-0}}}
[ "$bay_rank" = 0 ] || exec >>"$bay_records/log-$bay_rank.txt" 2>&1
export RANK="$bay_rank" LOCAL_RANK="$bay_local" WORLD_SIZE="${BAY_RANKS:-1}"
if [ -z "${MASTER_ADDR-}" ]; then
    MASTER_ADDR=$(scontrol show hostnames "${SLURM_JOB_NODELIST-}" 2>/dev/null | head -n 1)
    export MASTER_ADDR="${MASTER_ADDR:-127.0.0.1}" MASTER_PORT="${MASTER_PORT:-$((20000 + ${SLURM_JOB_ID:-0} % 20000))}"
fi
# In an image every process has a set-up of its own.
[ -z "$5" ] || exec /bin/sh "${0%/*}/container.sh" "$bay_run" "$bay_records" "$4"
bay_shell="sh"
! command -v bash >/dev/null 2>&1 || bay_shell=bash
# shellcheck disable=SC2016
[ "$3" = setup ] || exec "$bay_shell" -c "$4"'. "$1"' "$bay_shell" "$bay_run/command.sh"

bay_ready=$bay_records/ready-${SLURMD_NODENAME:-$(uname -n)}
if [ "$bay_local" != 0 ]; then
    until [ -e "$bay_ready" ]; do sleep 0.2; done
    bay_step=$bay_ready
else
    # shellcheck disable=SC2016
    "$bay_shell" -c 'set -e; . "$1"; export -p >"$2.new"; mv "$2.new" "$2"' "$bay_shell" "$bay_run/setup.sh" "$bay_ready" || {
        bay_code=$?
        echo "exit $bay_code" >"$bay_ready"
        exit "$bay_code"
    }
    : >"$bay_records/set-up"
    bay_step=$bay_ready
fi
# What belongs to one process stays its own.
# shellcheck disable=SC2016
exec "$bay_shell" -c "$4"'
    rank=$RANK local=$LOCAL_RANK
    keep=$(env | grep "^\(SLURM_\|PMI\|OMPI_\)" | sed "s/=.*//")
    for name in $keep; do eval "bay_kept_$name=\$$name"; done
    . "$1"
    for name in $keep; do eval "export $name=\$bay_kept_$name"; done
    export RANK="$rank" LOCAL_RANK="$local"
    . "$2"' "$bay_shell" "$bay_step" "$bay_run/command.sh"
