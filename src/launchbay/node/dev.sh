#!/bin/sh
# A place to work in by hand: frozen code in a folder of its own, its environment, and no record.
#
#   dev.sh make ROOT NAME SNAPSHOT SUBFOLDER   make ROOT/dev/NAME with what a tar archive on standard input holds,
#                                              and print where it is
#   dev.sh srun WORD …                         srun with a terminal where there is one, never inside of the
#                                              allocation that this may be called from
#   dev.sh enter FOLDER SECONDS GPUS [COMMAND …]   work in such a folder; no command is a shell
#
# SECONDS: after so long it ends; 0 leaves that to the scheduler. GPUS: `-`, the number that a scheduler was
# asked for, or `see:` and the ids that may be seen where there is none.
# POSIX sh; must work in dash and in busybox sh.
umask 077

give_up() {
    printf 'launchbay: %s\n' "$1" >&2
    exit "${2:-1}"
}

# shellcheck disable=SC2317
link() {
    case $1 in */*) mkdir -p "$bay_dev/work/${1%/*}" ;; esac
    [ -e "$bay_dev/work/$1" ] || ln -s "$2" "$bay_dev/work/$1"
}

make() {
    bay_dev=$1/dev/$2 bay_tree=$1/snapshots/$3
    mkdir -p "$1/dev" && mkdir "$bay_dev" || exit 73
    if ! tar -xof - -C "$bay_dev" || ! rm "$bay_dev/.bay-whole"; then
        rm -rf "$bay_dev"
        exit 73
    fi
    # Files of their own: a person edits them, and the snapshot is for all runs.
    cp -R "$bay_tree" "$bay_dev/work" && chmod -R u+w "$bay_dev/work" && mkdir "$bay_dev/out" || exit 73
    # shellcheck disable=SC1091
    . "$bay_dev/links.sh"
    printf '%s\n' "$4" >"$bay_dev/subfolder"
    printf '%s\n' "$bay_dev"
}

# srun would take the job that we may be in for the one that is meant.
start() {
    for bay_name in $(env | sed -n 's/^\(S[A-Z]*_[A-Z0-9_]*\)=.*/\1/p'); do
        case $bay_name in
        SLURM_CONF | SLURM_CONF_*) ;;
        SLURM_* | SBATCH_* | SRUN_*) unset "$bay_name" ;;
        esac
    done
    [ ! -t 0 ] || [ ! -t 1 ] || set -- --pty "$@"
    exec srun "$@"
}

# Ends when the time is over or the one that it watches has gone.
watch() {
    trap '' INT
    exec </dev/null >/dev/null 2>&1
    while [ "$bay_seconds" -gt 0 ] && kill -0 "$$"; do
        bay_nap=$((bay_seconds < 5 ? bay_seconds : 5))
        sleep "$bay_nap"
        bay_seconds=$((bay_seconds - bay_nap))
    done
    kill -HUP "$$" && sleep 10 && kill -KILL "$$"
}

enter() {
    bay_dev=$1 bay_seconds=$2 bay_gpus=$3
    shift 3
    case $bay_gpus in
    - | 0) ;;
    see:*)
        export CUDA_VISIBLE_DEVICES="${bay_gpus#see:}" CUDA_DEVICE_ORDER=PCI_BUS_ID
        [ -z "$CUDA_VISIBLE_DEVICES" ] ||
            echo "launchbay: GPUs $CUDA_VISIBLE_DEVICES are to be seen, and runs may use them at the same time" >&2
        ;;
    *)
        [ -n "${SLURM_GPUS_ON_NODE-}${SLURM_STEP_GPUS-}${SLURM_JOB_GPUS-}${CUDA_VISIBLE_DEVICES-}" ] ||
            give_up "$bay_gpus GPUs were asked for, and Slurm gave none"
        ;;
    esac
    read -r bay_subfolder <"$bay_dev/subfolder"
    cd "$bay_dev/work/$bay_subfolder" || give_up "$bay_dev/work/$bay_subfolder is not there"
    # shellcheck disable=SC1091
    . "$bay_dev/env.sh"
    # The folder stays, secrets do not.
    rm -f "$bay_dev/env.sh"
    export BAY_OUT="$bay_dev/out"
    bay_path=$bay_dev/work
    [ ! -d "$bay_dev/work/src" ] || bay_path=$bay_path:$bay_dev/work/src
    export PYTHONPATH="$bay_path${PYTHONPATH:+:$PYTHONPATH}"
    [ "$bay_seconds" -eq 0 ] || watch &
    [ "$#" -gt 0 ] || set -- "${SHELL:-/bin/sh}"
    [ -s "$bay_dev/setup.sh" ] || exec "$@"
    bay_shell="sh"
    ! command -v bash >/dev/null 2>&1 || bay_shell=bash
    # shellcheck disable=SC2016
    exec "$bay_shell" -c 'set -e; . "$1"; set +e; shift; exec "$@"' "$bay_shell" "$bay_dev/setup.sh" "$@"
}

bay_verb=$1
shift
case $bay_verb in
make) make "$@" ;;
srun) start "$@" ;;
enter) enter "$@" ;;
esac
