#!/bin/sh
# Makes one run of a plan ready, and becomes the run.
#
#   task.sh PLAN_FOLDER INDEX
#
# The run is line INDEX + 1 of the plan's sheet: its id, its attempt, and quoted values; those that all runs
# of the plan have in common are in shared.sh beside it. Whoever else has
# begun the same attempt wins: run.sh's claim decides, and nothing of what is written here differs.
# From the caller's environment: BAY_ROOT, where the plan is not below the root; BAY_ALLOCATION, see run.sh.
# POSIX sh; must work in dash and in busybox sh.
bay_plan=$1
bay_index=$2
bay_node=${0%/*}
bay_root=${BAY_ROOT:-${bay_plan%/plans/*}}
# shellcheck disable=SC2034
bay_nl='
'
umask 077

give_up() {
    [ ! -d "${bay_records-/none}" ] || printf 'launchbay: %s\n' "$1" >>"$bay_records/log-0.txt"
    { printf 'launchbay: %s\n' "$1" >"$bay_plan/trouble-$bay_index"; } 2>/dev/null || printf 'launchbay: %s\n' "$1" >&2
    exit 74
}

# A node may see what the login host wrote only a little later.
bay_waited=0
until [ -r "$bay_plan/sheet" ]; do
    [ "$bay_waited" -lt 60 ] || give_up "$bay_plan/sheet is not there"
    bay_waited=$((bay_waited + 1))
    sleep 1
done

bay_line=$(LC_ALL=C sed -n "$((bay_index + 1)){p;q;}" "$bay_plan/sheet")
[ -n "$bay_line" ] || give_up "the plan has no run $bay_index"
bay_id=${bay_line%% *}
bay_line=${bay_line#* }
bay_attempt=$((${bay_line%% *} + ${SLURM_RESTART_COUNT:-0}))
bay_job='' bay_params='' bay_command_text='' bay_setup_text='' bay_env_text='' bay_patterns='' bay_fresh=''
bay_own_text='' bay_shared_job=''
# shellcheck disable=SC1091
. "$bay_plan/shared.sh"
eval "${bay_line#* }"

bay_run=$bay_root/runs/$bay_id
bay_records=$bay_run/attempts/$bay_attempt
[ ! -e "$bay_records/claim" ] || exit 75

bay_draft=$bay_records/draft.$$
put() {
    printf '%s' "$2" >"$bay_draft/$1" || give_up "cannot write $bay_draft/$1; is the disk full?"
}

# Whole or not at all: another copy of this attempt may be reading them.
move_to() {
    mv -f "$bay_draft"/* "$1/" || give_up "cannot write $1; is the disk full?"
}

if [ -n "$bay_fresh" ] && [ ! -e "$bay_records/job.json" ] && [ -d "$bay_run/out" ]; then
    bay_number=1
    while [ -e "$bay_run/out.$bay_number" ]; do bay_number=$((bay_number + 1)); done
    mv "$bay_run/out" "$bay_run/out.$bay_number"
fi
mkdir -p "$bay_draft" "$bay_run/out" || give_up "cannot make $bay_draft"
put job.json "$bay_job$bay_shared_job"
[ -z "$bay_patterns" ] || put patterns.json "$bay_patterns"
move_to "$bay_records"
put job.json "$bay_job$bay_shared_job"
put params.json "$bay_params"
put command.sh "$bay_command_text"
put env.sh "$bay_own_text$bay_env_text"
if [ -n "$bay_setup_text" ]; then
    put setup.sh "$bay_setup_text"
elif [ -e "$bay_run/setup.sh" ]; then
    rm -f "$bay_run/setup.sh"
fi
move_to "$bay_run"
rmdir "$bay_draft"

# Hundredths of a second, where `date` knows them.
bay_now=''
[ -n "${BAY_BOOT_CS-}" ] || bay_now=$(date +%s%N 2>/dev/null)
case $bay_now in
'' | *[!0-9]*) ;;
*)
    if [ "${#bay_now}" -gt 15 ] && read -r bay_up _ 2>/dev/null </proc/uptime; then
        export BAY_BOOT_CS=$((bay_now / 10000000 - ${bay_up%.*} * 100 - 1${bay_up#*.} + 100))
    fi
    ;;
esac
export BAY_ALLOCATION="${SLURM_JOB_ID:-${BAY_ALLOCATION-}}" BAY_TASK="${SLURM_JOB_ID-}"
[ -z "${SLURM_ARRAY_JOB_ID-}" ] || BAY_TASK=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
unset BAY_ROOT BAY_PLAN BAY_PARTS BAY_SNAPSHOT BAY_CODE BAY_GRACE
exec /bin/sh "$bay_node/run.sh" "$bay_run" "$bay_attempt"
