#!/bin/sh
# Talks to Slurm on the host where its commands are: one call a verb, whatever the number of runs.
#
#   slurm.sh submit PLAN [COUNT]  take a plan (a tar archive on standard input) and hand its job to Slurm,
#                                 once; with COUNT, hand it over once more with allocations for so many runs,
#                                 unless one is still there
#   slurm.sh look                 what Slurm lists of ours, and what runs (ids on standard input) recorded
#   slurm.sh ask                  what became of jobs (ids on standard input) that Slurm no longer lists
#   slurm.sh cancel               end runs: `<run> <attempt> <job>` on standard input, or
#                                 `<run> <attempt> - <plan>` for one that shares an allocation
#   slurm.sh plans                every plan of which Slurm still has a job, with that and its runs
#   slurm.sh trial                what would become of a job script on standard input
#
# This file is in ROOT/node/<version>. Exits with 70 when Slurm said no; its words are on standard error.
bay_node=$(cd "${0%/*}" && pwd)
bay_root=${bay_node%/node/*}
bay_plans=$bay_root/plans
umask 077
bay_me=$(id -un)
# sbatch and squeue would take the job that we may be in for what we want, and print as people like it.
for bay_name in $(env | sed -n 's/^\(S[A-Z]*_[A-Z0-9_]*\)=.*/\1/p'); do
    case $bay_name in
    SLURM_CONF | SLURM_CONF_*) ;;
    SLURM_* | SBATCH_* | SQUEUE_* | SACCT_* | SINFO_*) unset "$bay_name" ;;
    esac
done
export LC_ALL=C SLURM_TIME_FORMAT='%s'

submit() {
    bay_plan=$bay_plans/$1
    # shellcheck disable=SC1091
    . "$bay_node/plans.sh"
    take_plan || { echo "$bay_plan cannot be written; is the disk full?" >&2; exit 73; }
    cd "$bay_plan" || exit 73
    # Of several that submit the same, one does; where there is no flock the runs' claims still decide.
    exec 9>>lock
    ! command -v flock >/dev/null 2>&1 || flock 9
    [ -z "$2" ] || [ -e pack.json ] || exit 0
    if [ -s submitted ] && { [ -z "$2" ] || [ -n "$(alive)" ]; }; then
        cat submitted
        return
    fi
    bay_job=''
    # Somebody got as far as asking, and did not hear the answer.
    [ ! -e asked ] || [ -n "$2" ] || bay_job=$(listed | sed -n 1p)
    if [ -z "$bay_job" ]; then
        true >asked || { echo "$bay_plan cannot be written; is the disk full?" >&2; exit 73; }
        bay_job=$(hand_over "$2" 2>&1) || {
            printf '%s\n' "$bay_job" >&2
            # What was refused is not there; of what was not answered nobody knows.
            case $(printf '%s' "$bay_job" | tr 'A-Z' 'a-z') in
            *'timed out'* | *contact* | *connect* | *communicat* | *'zero bytes'*) ;;
            *) rm -f asked ;;
            esac
            exit 70
        }
        # A site may have a word to say before the number.
        bay_job=$(printf '%s\n' "$bay_job" | sed -n 's/^\([0-9][0-9]*\)\(;.*\)*$/\1/p' | tail -n 1)
        [ -n "$bay_job" ] || { echo "sbatch gave no number" >&2; exit 70; }
    fi
    # Whoever comes next finds the job by its name.
    { printf '%s\n' "$bay_job" >"submitted.$$"; } 2>/dev/null && mv "submitted.$$" submitted || {
        rm -f "submitted.$$"
        echo "$bay_plan cannot be written; is the disk full?" >&2
        exit 73
    }
    cat submitted
}

hand_over() {
    if [ -n "$1" ]; then
        bay_share=$(sed -n 's/.*"share": \([0-9]*\).*/\1/p' pack.json)
        bay_most=$(sed -n 's/^#SBATCH --array=.*%/%/p' job.sh)
        set -- "--array=0-$((($1 + bay_share - 1) / bay_share - 1))$bay_most"
    fi
    set -- --parsable --chdir="$bay_plan" ${1:+"$1"}
    # Several arrays of a sweep that may have only so many at once follow one another.
    if [ -s behind ]; then
        read -r bay_before <behind
        read -r bay_before <"../$bay_before/submitted" && set -- "$@" --dependency="afterany:$bay_before"
    fi
    sbatch "$@" <job.sh
}

# Jobs of the plan that Slurm knows; arrays by the number of the whole.
listed() {
    bay_called=$(sed -n 's/^#SBATCH --job-name=//p' job.sh)
    squeue -h -u "$bay_me" --name="$bay_called" -t all -o %F | sort -u
    ! command -v sacct >/dev/null 2>&1 ||
        sacct -X -n -P --name="$bay_called" -S now-7days -o JobID 2>/dev/null | sed 's/_.*//' | sort -u
}

# An attempt that nobody has begun is ended by taking its claim; who asks whether it is left finds none.
end_unbegun() {
    set -C
    if { true >"$1/claim"; } 2>/dev/null; then
        printf '{"event":"exit","at":%s,"code":null,"signal":"","phase":"command"}\n' "$bay_now" >>"$1/events.jsonl"
    fi
    set +C
}

# Marks runs (`<run> <attempt> <job> [<plan>]` on standard input); prints what has to be ended there, by its kind.
mark_cancelled() {
    while read -r bay_id bay_attempt bay_job bay_pack; do
        bay_records=$bay_id/attempts/$bay_attempt
        [ -d "$bay_records" ] || mkdir -p "$bay_records" || return
        [ -e "$bay_records/continued" ] || ! has_ended "$bay_records" || continue
        true >"$bay_records/cancel" || return
        # It may have been continued.
        for bay_path in "$bay_id"/attempts/*/claim; do
            [ -e "$bay_path" ] || continue
            true >"${bay_path%/claim}/cancel" || return
            [ -n "$bay_pack" ] || echo "events ${bay_path%/claim}/events.jsonl"
        done
        [ "$bay_job" = - ] || echo "job $bay_job"
        [ -z "$bay_pack" ] || { end_unbegun "$bay_records"; echo "pack $bay_pack"; }
    done
}

# What has ended by itself stays as it ended. No process: there may be many.
has_ended() {
    [ -e "$1/events.jsonl" ] || return
    while IFS= read -r bay_event; do
        case $bay_event in *'"event":"exit"'*) return 0 ;; esac
    done <"$1/events.jsonl"
    return 1
}

chosen() { printf '%s\n' "$bay_found" | sed -n "s/^$1 //p"; }

# Allocations that wait for nothing but runs that have all been begun or cancelled.
end_idle() {
    cd "$bay_plans/$1" 2>/dev/null || return
    bay_left=$(cut -d ' ' -f 1,2 sheet | while read -r bay_id bay_attempt; do
        [ -e "$bay_root/runs/$bay_id/attempts/$bay_attempt/claim" ] || { echo "$bay_id"; break; }
    done)
    [ -n "$bay_left" ] ||
        scancel --user="$bay_me" --state=PENDING --name="$(sed -n 's/^#SBATCH --job-name=//p' job.sh)" 2>/dev/null
}

alive() {
    squeue -h -u "$bay_me" --name="$(sed -n 's/^#SBATCH --job-name=//p' job.sh)" -o %F | sed -n 1p
}

# Accounting tells who cancelled a job by a number that only this host can put a name to.
name_users() {
    bay_names=''
    for bay_number in $(printf '%s\n' "$bay_said" | sed -n 's/.*CANCELLED by \([0-9][0-9]*\)|.*/\1/p' | sort -u); do
        bay_name=$(id -un "$bay_number" 2>/dev/null) || continue
        bay_names="${bay_names}s/CANCELLED by $bay_number|/CANCELLED by $bay_name|/;"
    done
    sed "$bay_names"
}

case $1 in
submit)
    submit "$2" "${3-}"
    ;;
look)
    squeue -h -u "$bay_me" -r -t all -o "$2" || exit 70
    # shellcheck disable=SC1091
    . "$bay_node/records.sh"
    read_records "$bay_root"
    ;;
ask)
    # The tasks of an array are asked for by the number of the whole.
    bay_jobs=$(sed 's/_.*//' | sort -u)
    if command -v sacct >/dev/null 2>&1 &&
        bay_said=$(sacct -X -n -P -o "$2" -j "$(echo "$bay_jobs" | paste -s -d , -)" 2>/dev/null); then
        printf '%s\n' "$bay_said" | name_users
        echo "--sacct"
    else
        echo "$bay_jobs" | while read -r bay_job; do scontrol show job -o "$bay_job" 2>/dev/null; done
        echo "--scontrol"
    fi
    ;;
cancel)
    bay_now=$(date +%s)
    mkdir -p "$bay_root/runs" && cd "$bay_root/runs" || exit 73
    bay_found=$(mark_cancelled) || exit 73
    for bay_pack in $(chosen pack | sort -u); do (end_idle "$bay_pack"); done
    # Where a plan was handed over twice, another job than the one we know may have begun the run; what has ended
    # already is no matter.
    bay_jobs=$({
        chosen job
        chosen events | xargs grep -hs '"started"' /dev/null | sed -n 's/.*"task":"\([0-9_]*\)".*/\1/p'
    } | sort -u)
    [ -z "$bay_jobs" ] || printf '%s\n' "$bay_jobs" | xargs -n 200 scancel 2>/dev/null || true
    ;;
plans)
    bay_alive=$(squeue -h -u "$bay_me" -o %F | sort -u | tr '\n' ' ') || exit 70
    for bay_plan in "$bay_plans"/*/submitted; do
        [ -e "$bay_plan" ] || continue
        read -r bay_job <"$bay_plan"
        case " $bay_alive" in *" $bay_job "*) ;; *) continue ;; esac
        bay_plan=${bay_plan%/submitted}
        printf '\nplan %s %s %s\n' "${bay_plan##*/}" "$bay_job" "$([ -e "$bay_plan/pack.json" ] && echo pack)"
        cut -d ' ' -f 1,2 "$bay_plan/sheet"
    done
    ;;
trial)
    cd "$bay_root" && sbatch --test-only 2>&1
    ;;
esac
