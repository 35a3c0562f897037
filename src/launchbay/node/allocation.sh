#!/bin/sh
# One allocation that runs of a plan share.
#
#   allocation.sh PLAN_FOLDER NUMBER
#
# pack.py runs as many side by side as there is room for. On a node without Python 3.8 they run one after
# the other: first this allocation's own share, then what others have not begun.
bay_plan=$1
bay_node=${0%/*}
read -r bay_python <"$bay_node/python" 2>/dev/null || bay_python=
for bay_python in $bay_python python3 python3.13 python3.12 python3.11 python3.10 python3.9 python3.8; do
    "$bay_python" -S -E -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null || continue
    exec "$bay_python" -S -E "$bay_node/pack.py" serve "$bay_plan" "$2"
done

number() { sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" "$bay_plan/pack.json"; }
bay_share=$(number share)
bay_time=$(number time_s)
bay_limit=$(number limit_s)
bay_count=$(wc -l <"$bay_plan/sheet")
bay_began=$(date +%s)
bay_child='' bay_stopped=''
stop() {
    bay_stopped=1
    [ -z "$bay_child" ] || kill -TERM "$bay_child" 2>/dev/null
}
trap stop TERM
bay_done=0
while [ "$bay_done" -lt "$bay_count" ] && [ -z "$bay_stopped" ]; do
    bay_left=$((${bay_limit:-999999999} - ($(date +%s) - bay_began)))
    [ "$bay_left" -gt $((${bay_time:-0} + 30)) ] || break
    /bin/sh "$bay_node/task.sh" "$bay_plan" $((($2 * bay_share + bay_done) % bay_count)) &
    bay_child=$!
    until wait "$bay_child" || ! kill -0 "$bay_child" 2>/dev/null; do :; done
    bay_child=
    bay_done=$((bay_done + 1))
done
exit 0
