#!/bin/sh
# One allocation that runs of a plan share.
#
#   allocation.sh PLAN_FOLDER NUMBER
#
# pack.py runs as many side by side as there is room for. On a node without Python 3.8 they run one after
# the other: first this allocation's own share, then what others have not begun.
bay_plan=$1
bay_node=${0%/*}
bay_root=${bay_plan%/plans/*}
{ read -r bay_python <"$bay_node/python"; } 2>/dev/null || bay_python=
for bay_python in $bay_python python3 python3.13 python3.12 python3.11 python3.10 python3.9 python3.8; do
    "$bay_python" -S -E -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null || continue
    exec "$bay_python" -S -E "$bay_node/pack.py" serve "$bay_plan" "$2"
done

number() { sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" "$bay_plan/pack.json"; }
bay_time=$(number time_s)
bay_limit=$(number limit_s)
bay_runs=$(cut -d ' ' -f 1,2 "$bay_plan/sheet")
bay_count=$(wc -l <"$bay_plan/sheet")
bay_first=$(($2 * $(number share) % bay_count))
bay_began=$(date +%s)
bay_grace=10
bay_child='' bay_stopped='' bay_ran=''
# A session of its own lets a run be ended with all that it started.
bay_setsid=$(command -v setsid)
# A restarted allocation is no further attempt of what it had not begun.
unset SLURM_RESTART_COUNT
umask 077
stop() {
    bay_stopped=1
    [ -z "$bay_child" ] || kill -TERM "$bay_child" 2>/dev/null
}
trap stop TERM

# Whether a run that begins now can end in time; the first has all there is.
has_time() {
    [ -n "$bay_ran" ] && [ -n "$bay_limit" ] || return 0
    [ $((bay_limit - ($(date +%s) - bay_began))) -gt $((${bay_time:-0} + 30)) ]
}

# Ends the run when it was cancelled or its time is over; one that does not go is killed.
tend() {
    trap - TERM
    bay_waited=0
    while sleep 1 && kill -0 "$bay_child" 2>/dev/null; do
        bay_waited=$((bay_waited + 1))
        [ -e "$1/cancel" ] || {
            [ -n "$bay_time" ] && [ "$bay_waited" -ge "$bay_time" ] || continue
            : >"$1/timeout"
        }
        kill -TERM "$bay_child" 2>/dev/null
        sleep "$bay_grace"
        kill -KILL "-$bay_child" 2>/dev/null || kill -KILL "$bay_child" 2>/dev/null
        return
    done
}

run_one() {
    $bay_setsid /bin/sh "$bay_node/task.sh" "$bay_plan" "$1" </dev/null >/dev/null 2>&1 &
    bay_child=$!
    # The word may have come before we knew whom to tell.
    [ -z "$bay_stopped" ] || stop
    bay_ran=1
    tend "$2" >/dev/null 2>&1 &
    bay_tender=$!
    while :; do
        wait "$bay_child"
        bay_code=$?
        kill -0 "$bay_child" 2>/dev/null || break
    done
    kill "$bay_tender" 2>/dev/null
    bay_child=
    # What was killed cannot say so itself.
    [ "$bay_code" -ne 137 ] || grep -qs '"event":"exit"' "$2/events.jsonl" ||
        printf '{"event":"exit","at":%s,"code":137,"signal":"","phase":"command"}\n' "$(date +%s)" >>"$2/events.jsonl"
}

# Those of the runs from one index to before another that nobody has begun.
run_between() {
    bay_index=-1
    while read -r bay_id bay_attempt; do
        bay_index=$((bay_index + 1))
        bay_records=$bay_root/runs/$bay_id/attempts/$bay_attempt
        [ "$bay_index" -ge "$1" ] && [ "$bay_index" -lt "$2" ] && [ ! -e "$bay_records/claim" ] || continue
        [ -z "$bay_stopped" ] && has_time || return
        run_one "$bay_index" "$bay_records"
    done <<RUNS
$bay_runs
RUNS
}

run_between "$bay_first" "$bay_count"
run_between 0 "$bay_first"
exit 0
