#!/bin/sh
# The queue of a machine without Python: the runs of all plans, one after another.
#
#   serial.sh add ROOT PLAN     take a plan (a tar archive on standard input) into the queue
#   serial.sh look ROOT         what waits, what lives, and what runs recorded; `<run> <attempt>` on standard input
#   serial.sh cancel ROOT       end runs: `<run> <attempt> <plan>` on standard input
#   serial.sh list ROOT         the plans of this root that are in the queue, and their runs
#   serial.sh work              run what waits until nothing is left, unless somebody does already
#
# A plan has a file `needs`: for each line of its sheet the run, its attempt, the seconds that it may take (0 for
# no limit), how many GPUs it wants, whether those that others use are left out (1 or 0), and the GPUs that would
# do, with commas; without GPUs `hide`, where there are some, or `-`.
#
# The queue is the user's and the host's, whatever the root. In its folder are line/<number>, links to sheets, the
# smallest number first; worker, a link whose text says who works; and current, the attempt that runs. A run does
# not need the worker: the next one waits for it before it starts another. run.sh's claim decides who runs an
# attempt, so that nothing runs twice, whatever happens to workers.
# POSIX sh; must work in dash and in busybox sh.
bay_node=$(cd "${0%/*}" && pwd)
bay_queue=${XDG_STATE_HOME:-$HOME/.local/state}/launchbay/hosts/$(uname -n)/serial
bay_grace_s=10
bay_tries=3
umask 077

give_up() {
    echo "$1" >&2
    exit 73
}

# Of the process $1: bay_began and bay_boot, by which it is told from others of that number. Fails when it has ended.
find_process() {
    bay_began='' bay_boot=''
    read -r bay_boot 2>/dev/null </proc/sys/kernel/random/boot_id || { kill -0 "$1" 2>/dev/null; return; }
    read -r bay_stat 2>/dev/null <"/proc/$1/stat" || return
    # The second field is a name in parentheses and may hold anything.
    # shellcheck disable=SC2086
    set -- ${bay_stat##*) }
    # A zombie has ended; its parent has not noticed.
    [ "$1" != Z ] || return
    bay_began=${20}
}

# Whether the process $1 that began at $2 in the boot $3 is there.
lives() {
    find_process "$1" && [ "$bay_began $bay_boot" = "$2 $3" ]
}

# Of the attempt whose records are in $1: bay_ended, and who began it: bay_run_pid, bay_run_began, bay_run_boot.
read_attempt() {
    bay_ended='' bay_copying='' bay_started='' bay_run_pid='' bay_run_began='' bay_run_boot=''
    [ -e "$1/events.jsonl" ] || return 0
    while read -r bay_event; do
        case $bay_event in
        *'"event":"started"'*) bay_started=$bay_event ;;
        # Until its outputs are copied it has not quite ended.
        *'"event":"exit"'*'"ships":1'*) bay_copying=1 ;;
        *'"event":"exit"'* | *'"event":"shipped"'* | *'"event":"unshipped"'*) bay_ended=1 ;;
        esac
    done <"$1/events.jsonl"
    [ -n "$bay_started" ] || return 0
    bay_run_pid=${bay_started#*'"pid":'} bay_run_began=${bay_started#*'"start":"'} bay_run_boot=${bay_started#*'"boot":"'}
    bay_run_pid=${bay_run_pid%%,*} bay_run_began=${bay_run_began%%'"'*} bay_run_boot=${bay_run_boot%%'"'*}
}

# Make the attempt whose records are in $1 ours, so that nobody starts it.
claim() {
    (set -C && : >"$1/claim") 2>/dev/null
}

# record_exit RECORDS CODE SIGNAL PHASE
record_exit() {
    printf '{"event":"exit","at":%s,"code":%s,"signal":"%s","phase":"%s"}\n' "$(date +%s)" "$2" "$3" "$4" >>"$1/events.jsonl"
}

pause() {
    sleep 0.1 2>/dev/null || sleep 1
}

# In seconds; only differences count.
now() {
    if read -r bay_now _ 2>/dev/null </proc/uptime; then bay_now=${bay_now%.*}; else bay_now=$(date +%s); fi
}

first_in_line() {
    for bay_entry in "$bay_queue"/line/*; do
        [ ! -L "$bay_entry" ] || return 0
    done
    return 1
}

# Have the plan in the line, once; a number that somebody else took meanwhile is passed over.
line_up() {
    mkdir -p "$bay_queue/line" || return
    bay_number=000000000
    for bay_entry in "$bay_queue"/line/*; do
        [ -L "$bay_entry" ] || continue
        [ "$(readlink "$bay_entry")" != "$bay_plan/sheet" ] || return 0
        bay_number=${bay_entry##*/}
    done
    for _ in 1 2 3 4 5 6 7 8 9; do
        # `1` keeps leading zeros from being read as octal; the line is sorted by name.
        bay_number=$((1$bay_number + 1))
        bay_number=${bay_number#1}
        ! ln -s "$bay_plan/sheet" "$bay_queue/line/$bay_number" 2>/dev/null || return 0
    done
    return 1
}

worker_is_there() {
    bay_worker=$(readlink "$bay_queue/worker") || return
    bay_rest=${bay_worker#*.}
    lives "${bay_worker%%.*}" "${bay_rest%%.*}" "${bay_rest#*.}"
}

become_worker() {
    find_process $$
    bay_me=$$.$bay_began.$bay_boot
    for _ in 1 2 3 4 5; do
        if ln -s "$bay_me" "$bay_queue/worker" 2>/dev/null; then
            # Others may be about to move away what was here before, and meet ours.
            pause
            ! is_worker || return 0
        fi
        ! worker_is_there || return
        # Left behind by one that was killed. Whoever moves away another's puts it back.
        mv "$bay_queue/worker" "$bay_queue/worker.$$" 2>/dev/null || continue
        bay_moved=$(readlink "$bay_queue/worker.$$")
        rm -f "$bay_queue/worker.$$"
        [ "$bay_moved" = "$bay_worker" ] || ln -s "$bay_moved" "$bay_queue/worker"
    done
    return 1
}

is_worker() {
    [ "$(readlink "$bay_queue/worker")" = "$bay_me" ]
}

# Without any of our pipes: whoever asked is not to wait for it, nor to end it by leaving.
see_to_worker() {
    first_in_line || [ -e "$bay_queue/current" ] || return 0
    ! worker_is_there || return 0
    bay_apart='nohup'
    ! command -v setsid >/dev/null 2>&1 || bay_apart='setsid'
    (cd / && exec $bay_apart /bin/sh "$bay_node/serial.sh" work </dev/null >/dev/null 2>>"$bay_queue/log") &
}

work() {
    while become_worker; do
        tend_current
        run_line || bay_trouble=1
        ! is_worker || rm -f "$bay_queue/worker"
        # Whoever came while we were still there counted on us.
        [ -z "$bay_trouble" ] && first_in_line || return
    done
}

run_line() {
    while first_in_line; do
        bay_plan=$(readlink "$bay_entry")
        bay_plan=${bay_plan%/sheet}
        [ ! -e "$bay_plan/needs" ] || run_plan || return
        # Nobody reads them any more.
        rm -f "$bay_entry" "$bay_plan"/secrets-*.sh "$bay_plan"/own-*.sh
    done
}

run_plan() {
    bay_index=0
    read_passed
    while read -r bay_id bay_attempt bay_limit bay_gpus bay_auto bay_ids; do
        bay_records=${bay_plan%/plans/*}/runs/$bay_id/attempts/$bay_attempt
        is_over || run_one || return
        bay_index=$((bay_index + 1))
        echo "$bay_index" >"$bay_plan/passed.$$" && mv -f "$bay_plan/passed.$$" "$bay_plan/passed" || return
    done <"$bay_plan/needs"
}

# How many lines of the plan are done with: the folders of runs may be removed, and with them their claims.
read_passed() {
    read -r bay_passed 2>/dev/null <"$bay_plan/passed" || bay_passed=0
}

is_over() {
    [ "$bay_index" -lt "$bay_passed" ] || [ -e "$bay_plan/cancel-$bay_id-$bay_attempt" ] ||
        [ -e "$bay_records/claim" ]
}

run_one() {
    bay_tried=0
    # A second start of the same attempt is harmless, and a cancelled one is claimed.
    until is_over; do
        is_worker || return
        choose_gpus || { sleep 5; continue; }
        [ "$bay_tried" -lt "$bay_tries" ] || { fail_unstarted; return; }
        [ "$bay_tried" = 0 ] || sleep 5
        bay_tried=$((bay_tried + 1))
        printf '%s %s\n' "$bay_limit" "$bay_records" >"$bay_queue/current.$$" &&
            mv -f "$bay_queue/current.$$" "$bay_queue/current" || return
        start_one
        tend_current
    done
}

start_one() {
    bay_apart=''
    ! command -v setsid >/dev/null 2>&1 || bay_apart='setsid'
    (
        [ "$bay_ids" = - ] || export BAY_DEVICES="$bay_chosen"
        # shellcheck disable=SC2086
        exec $bay_apart /bin/sh "$bay_node/task.sh" "$bay_plan" "$bay_index" </dev/null >/dev/null 2>&1
    ) &
    ! find_process $! || tend $! "$bay_began" "$bay_boot"
}

# A disk may have been full, and may still be: then it waits for the next worker.
fail_unstarted() {
    mkdir -p "$bay_records" && claim "$bay_records" && record_exit "$bay_records" 1 '' setup
}

# What runs may have been begun by a worker that is gone.
tend_current() {
    read -r bay_limit bay_records 2>/dev/null <"$bay_queue/current" || return 0
    bay_waited=0
    read_attempt "$bay_records"
    # It is claimed a moment before it says who it is.
    until [ -n "$bay_ended$bay_run_pid" ] || [ ! -e "$bay_records/claim" ] || [ "$bay_waited" -ge 50 ]; do
        bay_waited=$((bay_waited + 1))
        pause
        read_attempt "$bay_records"
    done
    [ -n "$bay_ended" ] || [ -z "$bay_run_pid" ] || tend "$bay_run_pid" "$bay_run_began" "$bay_run_boot"
    rm -f "$bay_queue/current"
}

# Until the process has ended, which is asked to when it is cancelled or its time is up, and then made to.
tend() {
    bay_asked_at='' bay_killed=''
    while lives "$1" "$2" "$3"; do
        now
        if [ -n "$bay_asked_at" ]; then
            [ "$bay_now" -lt $((bay_asked_at + bay_grace_s)) ] || end_by_force "$1"
        elif must_end "$2"; then
            # run.sh passes it on to its group.
            kill -TERM "$1"
            bay_asked_at=$bay_now
        fi
        pause
    done
    [ -n "$bay_killed" ] || return 0
    read_attempt "$bay_records"
    [ -n "$bay_ended$bay_copying" ] || record_exit "$bay_records" 137 KILL "command"
}

must_end() {
    [ ! -e "$bay_records/cancel" ] || return 0
    # The kernel counts in hundredths of a second since boot, as /proc/uptime does.
    [ "$bay_limit" -gt 0 ] && [ -n "$1" ] && [ $((bay_now - $1 / 100)) -ge "$bay_limit" ] || return
    true >"$bay_records/timeout"
}

end_by_force() {
    bay_killed=1
    kill -KILL "-$1" 2>/dev/null || kill -KILL "$1" 2>/dev/null
}

# As many of the GPUs that would do as are wanted, in bay_chosen; fails while others use too many.
choose_gpus() {
    bay_chosen=''
    [ "$bay_gpus" -gt 0 ] || return 0
    bay_busy=''
    [ "$bay_auto" = 0 ] || bay_busy=" $(busy_gpus | tr '\n' ' ')"
    bay_left=$bay_gpus
    for bay_gpu in $(printf %s "$bay_ids" | tr , ' '); do
        case $bay_busy in *" $bay_gpu "*) continue ;; esac
        bay_chosen=${bay_chosen:+$bay_chosen,}$bay_gpu
        bay_left=$((bay_left - 1))
        [ "$bay_left" -gt 0 ] || return 0
    done
    return 1
}

# Index and UUID of the GPUs on which other people's programs run.
busy_gpus() {
    bay_gpus_there=$(nvidia-smi --query-gpu=index,uuid --format=csv,noheader 2>/dev/null) || return 0
    nvidia-smi --query-compute-apps=gpu_uuid,pid --format=csv,noheader 2>/dev/null |
        while IFS=', ' read -r bay_uuid bay_pid; do
            [ ! -O "/proc/$bay_pid" ] || continue
            echo "$bay_uuid"
            printf '%s\n' "$bay_gpus_there" | sed -n "s/^\([^,]*\), *$bay_uuid\$/\1/p"
        done
}

# Those that nobody claimed, in order, whatever their root.
list_waiting() {
    for bay_entry in "$bay_queue"/line/*; do
        [ -e "$bay_entry" ] || continue
        bay_plan=$(readlink "$bay_entry")
        bay_plan=${bay_plan%/sheet} bay_index=0
        read_passed
        while read -r bay_id bay_attempt _; do
            bay_records=${bay_plan%/plans/*}/runs/$bay_id/attempts/$bay_attempt
            is_over || echo "waiting $bay_id $bay_attempt"
            bay_index=$((bay_index + 1))
        done <"$bay_plan/needs"
    done
}

# Before the records are read: who is gone has written its end.
judge() {
    bay_records=$bay_root/runs/$1/attempts/$2
    [ -e "$bay_records/claim" ] || return
    read_attempt "$bay_records"
    [ -z "$bay_ended" ] || return
    if [ -z "$bay_run_pid" ]; then
        bay_word='unstarted'
        [ -z "$(find "$bay_records/claim" -mmin -1)" ] || bay_word='alive'
    elif lives "$bay_run_pid" "$bay_run_began" "$bay_run_boot"; then
        bay_word='alive'
    else
        bay_word='gone'
        [ -z "$bay_boot" ] || [ "$bay_boot" = "$bay_run_boot" ] || bay_word='restarted'
    fi
    echo "$bay_word $1 $2"
}

look() {
    bay_asked=$(cat)
    list_waiting
    if read -r _ bay_records 2>/dev/null <"$bay_queue/current"; then
        read_attempt "$bay_records"
        if [ -z "$bay_run_pid" ]; then
            # It is about to say who it is.
            [ -n "$bay_ended" ] || [ ! -e "$bay_records/claim" ] || echo "busy"
        elif lives "$bay_run_pid" "$bay_run_began" "$bay_run_boot"; then
            echo "busy"
        fi
    fi
    while read -r bay_id bay_attempt; do
        [ -z "$bay_id" ] || judge "$bay_id" "$bay_attempt"
    done <<ASKED
$bay_asked
ASKED
    # shellcheck disable=SC1091
    . "$bay_node/records.sh"
    printf '%s\n' "$bay_asked" | cut -d ' ' -f 1 | read_records "$bay_root"
}

cancel() {
    while read -r bay_id bay_attempt bay_plan; do
        bay_plan=$bay_root/plans/$bay_plan
        bay_records=$bay_root/runs/$bay_id/attempts/$bay_attempt
        read_attempt "$bay_records"
        # What has ended stays as it ended.
        [ -z "$bay_ended" ] || continue
        # The plan may be yet to come; it finds that the attempt has ended.
        if ! { mkdir -p "$bay_records" && true >"$bay_records/cancel" &&
            { [ ! -d "$bay_plan" ] || true >"$bay_plan/cancel-$bay_id-$bay_attempt"; }; }; then
            give_up "$bay_records cannot be written; is the disk full?"
        fi
        ! claim "$bay_records" || record_exit "$bay_records" null '' setup
    done
}

list() {
    for bay_entry in "$bay_queue"/line/*; do
        [ -e "$bay_entry" ] || continue
        bay_plan=$(readlink "$bay_entry")
        bay_plan=${bay_plan%/sheet}
        [ "$bay_plan" = "$bay_root/plans/${bay_plan##*/}" ] || continue
        echo "plan ${bay_plan##*/} $(cat "$bay_plan/target")"
        cut -d ' ' -f 1,2 "$bay_plan/needs"
    done
}

bay_root=${2-}
case $1 in
add)
    bay_plan=$bay_root/plans/$3
    # shellcheck disable=SC1091
    . "$bay_node/plans.sh"
    if ! { take_plan && line_up; }; then give_up "$bay_plan cannot be written; is the disk full?"; fi
    see_to_worker
    ;;
look)
    look
    see_to_worker
    ;;
cancel)
    cancel
    see_to_worker
    ;;
list)
    list
    ;;
work)
    bay_trouble=''
    work
    ;;
esac
