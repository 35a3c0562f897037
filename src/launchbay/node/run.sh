#!/bin/sh
# Runs one attempt of one run: claims it, makes its folder, runs the command, records what became of it.
#
#   run.sh RUN_FOLDER ATTEMPT
#
# Exits with the command's own code; 75 when somebody else has claimed this attempt, and then nothing ran.
# Variables are called bay_…, since the run's environment is read into this shell.
# POSIX sh; must work in dash and in busybox sh. Each external program costs a millisecond of every run,
# so what a builtin or /proc can tell is not asked of one.
#
# From the caller's environment: BAY_DEVICES, the GPU ids to use (set but empty hides all);
# BAY_BOOT_CS, the moment of boot in hundredths of a second, which spares two calls of date;
# BAY_HERE, a folder to run in, in the foreground, instead of a working folder and a log;
# BAY_INSIDE, the folder of an image that has the code; BAY_ALLOCATION and BAY_TASK, the scheduler's numbers of the allocation and of its place in an array.
#
# From env.sh: bay_tree, the code; bay_subfolder; bay_command, words or script; bay_ready, whether the working
# folder is made; bay_ranks and bay_launcher, where the command is started more than once; bay_image, where it
# runs in a container; bay_hold, how many seconds a run
# that fails keeps its place; bay_folders, whether folders come from elsewhere; bay_packed, the one that has the code; bay_ship, where what it writes is
# copied to; bay_after, the program beside this one that follows the end.
bay_run=$1
bay_attempt=$2
bay_records=$bay_run/attempts/$bay_attempt
bay_events=$bay_records/events.jsonl
bay_boot_cs=${BAY_BOOT_CS-}
bay_here=${BAY_HERE-}

now() {
    if [ -n "$bay_boot_cs" ] && read -r bay_up _ 2>/dev/null </proc/uptime; then
        # `1` keeps a leading zero of the hundredths from being read as octal.
        bay_at=$((bay_boot_cs + ${bay_up%.*} * 100 + 1${bay_up#*.} - 100))
        bay_at=$((bay_at / 100)).$((bay_at / 10 % 10))$((bay_at % 10))
    else
        bay_at=$(date +%s 2>/dev/null) || bay_at=null
    fi
}

record_exit() {
    now
    printf '{"event":"exit","at":%s,"code":%s,"signal":"%s","phase":"%s"%s}\n' "$bay_at" "$1" "$bay_stopped" \
        "$bay_phase" "${bay_asked:+,\"warned\":1}${bay_ship:+,\"ships\":1}${bay_why:+,\"why\":\"$bay_why\"}" >>"$bay_events"
    [ -z "$bay_ship" ] || ship_last
}

# What was written last, and the record of the end; whoever wants an end now has to wait for that.
ship_last() {
    trap '' TERM
    /bin/sh "$bay_node/ship.sh" "$bay_run" "$bay_attempt" last </dev/null >/dev/null 2>&1
}

# A child that has hardly begun may miss the first signal.
end_shipper() {
    bay_signal=TERM bay_waited=0
    while kill -"$bay_signal" "$bay_shipper"; do
        sleep 0.1 || sleep 1
        bay_waited=$((bay_waited + 1))
        [ "$bay_waited" -lt 100 ] || bay_signal=KILL
    done 2>/dev/null
}

fail_set_up() {
    printf 'launchbay: %s\n' "$1" >>"$bay_records/log-0.txt"
    record_exit 1
    exit 1
}

# In the background, so that a word to end it is heard meanwhile.
bring_folders() {
    /bin/sh "$bay_node/bring.sh" "$bay_run" "$bay_attempt" "$bay_here" "${bay_background-}" </dev/null 2>&1 &
    bay_child=$!
    trap 'bay_stopped=TERM; kill -TERM "$bay_child" 2>/dev/null' TERM
    [ -z "$bay_stopped" ] || kill -TERM "$bay_child" 2>/dev/null
    wait_for_child
    trap 'bay_stopped=TERM' TERM
    [ "$bay_code" != 0 ] || return 0
    [ -z "$bay_stopped" ] || end_unstarted 143
    { read -r bay_why <"$bay_records/why"; } 2>/dev/null
    record_exit 1
    exit 1
}

# Code that came as a folder with an archive in it.
unpack_code() {
    /bin/sh "$bay_node/unpack.sh" "$bay_here" <"$bay_here/$bay_packed/code.tar.gz" || fail_set_up 'the code could not be unpacked'
    rm -f "$bay_here/$bay_packed"
    [ ! -d "$bay_here/src" ] || export PYTHONPATH="$PYTHONPATH:$bay_here/src"
}

# A folder of the user's is left as it was.
remove_links() {
    while IFS= read -r bay_link; do
        [ ! -L "$bay_here/$bay_link" ] || rm -f "$bay_here/$bay_link"
    done <"$bay_records/links"
}

# A signal ends a wait before its time.
wait_for_child() {
    wait "$bay_child" 2>/dev/null
    bay_code=$?
    while [ "$bay_code" -gt 128 ] && kill -0 "$bay_child" 2>/dev/null; do
        wait "$bay_child" 2>/dev/null
        bay_code=$?
    done
}

# The command is in our group when we lead it; ourselves we do not tell.
pass_on() {
    bay_woken=1
    trap '' "$1"
    if [ "$bay_group" = "$$" ]; then kill -"$1" 0; else kill -"$1" "$bay_child" 2>/dev/null; fi
}

# TERM only once, however often it comes.
pass_on_term() {
    [ -n "$bay_passed_on" ] || pass_on TERM
    bay_passed_on=1
}

pass_on_usr1() {
    bay_asked=USR1
    pass_on USR1
    trap pass_on_usr1 USR1
}

end_unstarted() {
    record_exit "$1"
    exit 143
}

bay_stopped='' bay_asked='' bay_passed_on='' bay_ship='' bay_why=''
trap 'bay_stopped=TERM' TERM
trap 'bay_asked=USR1' USR1
# Without clobbering the shell creates a file only if there is none: of many that try, one succeeds.
set -C
{ true >"$bay_records/claim"; } 2>/dev/null || {
    [ -e "$bay_records/claim" ] && exit 75
    echo "launchbay: cannot write $bay_records" >&2
    exit 74
}
set +C

bay_phase="setup"
[ ! -e "$bay_records/cancel" ] || end_unstarted null
bay_boot='' bay_start='' bay_group='' bay_host=''
if read -r bay_stat 2>/dev/null </proc/$$/stat; then
    # The second field is a name in parentheses and may hold anything.
    # shellcheck disable=SC2086
    set -- ${bay_stat##*) }
    bay_group=$3
    bay_start=${20}
    read -r bay_boot </proc/sys/kernel/random/boot_id
    read -r bay_host </proc/sys/kernel/hostname
fi
# A node may have another name for its scheduler.
bay_host=${SLURMD_NODENAME:-$bay_host}
now
printf '{"event":"started","at":%s,"host":"%s","boot":"%s","pid":%s,"start":"%s","devices":"%s","allocation":"%s","task":"%s"}\n' \
    "$bay_at" "${bay_host:-$(uname -n)}" "$bay_boot" "$$" "$bay_start" "${BAY_DEVICES-}" "${BAY_ALLOCATION-}" "${BAY_TASK-}" \
    >>"$bay_events" || exit 74

bay_node=${0%/*}
# We are about to go elsewhere.
case $bay_node in /*) ;; *) bay_node=$PWD/$bay_node ;; esac
bay_hold='' bay_tree='' bay_subfolder='' bay_command='' bay_ready='' bay_after='' bay_ranks='' bay_launcher=''
bay_image='' bay_folders='' bay_ship_every='' bay_packed=''
# shellcheck disable=SC1091
. "$bay_run/env.sh"
# shellcheck disable=SC1091
[ ! -f "$bay_run/secrets.sh" ] || . "$bay_run/secrets.sh"
export BAY_ATTEMPT="$bay_attempt"
if [ -n "${BAY_DEVICES+set}" ]; then
    export CUDA_VISIBLE_DEVICES="$BAY_DEVICES" CUDA_DEVICE_ORDER=PCI_BUS_ID
fi
unset BAY_DEVICES BAY_BOOT_CS BAY_HERE BAY_ALLOCATION BAY_TASK

make_work_folder() {
    if [ -e "$bay_run/work" ]; then
        # What an attempt that was killed could not put away.
        each_output keep_output
        rm -rf "$bay_run/work"
    fi
    [ -z "${BAY_INSIDE-}" ] || { ln -s "$BAY_INSIDE" "$bay_run/work"; return; }
    { [ -n "$bay_tree" ] && [ -z "$bay_packed" ]; } || { mkdir "$bay_run/work"; return; }
    # Root can write what is read-only: hard links would let one run change the code of all.
    if [ "${BAY_UID:-$(id -u)}" != 0 ]; then
        cp -al "$bay_tree" "$bay_run/work" 2>/dev/null && return
        rm -rf "$bay_run/work"
    fi
    cp -a "$bay_tree" "$bay_run/work" 2>>"$bay_records/log-0.txt"
}

# shellcheck disable=SC2317
# Outputs of earlier attempts, where the program will look for them.
link_output() {
    [ -d "$bay_run/out/$1" ] || return 0
    case $1 in */*) mkdir -p "$bay_run/work/${1%/*}" ;; esac
    rm -rf "$bay_run/work/$1"
    ln -s "$bay_run/out/$1" "$bay_run/work/$1"
}

# What the program made in a folder of outputs becomes the run's, and can still be found where it was.
keep_output() {
    [ -d "$bay_run/work/$1" ] && [ ! -L "$bay_run/work/$1" ] || return 0
    case $1 in */*) mkdir -p "$bay_run/out/${1%/*}" ;; esac
    if [ -e "$bay_run/out/$1" ]; then
        cp -a "$bay_run/work/$1/." "$bay_run/out/$1/" && rm -rf "$bay_run/work/$1"
    else
        mv "$bay_run/work/$1" "$bay_run/out/$1"
    fi && ln -s "$bay_run/out/$1" "$bay_run/work/$1"
}

if [ -z "$bay_here" ]; then
    [ -n "$bay_ready" ] || make_work_folder ||
        fail_set_up 'the working folder could not be made; is the disk full?'
    each_output link_output
    bay_here=${BAY_INSIDE:-"$bay_run/work"}
    exec </dev/null >>"$bay_records/log-0.txt" 2>&1
    bay_background=1
fi
unset BAY_UID BAY_INSIDE
[ -z "$bay_folders" ] || bring_folders
[ -z "$bay_packed" ] || unpack_code
[ -z "$bay_stopped" ] || end_unstarted 143
cd "${bay_here%/}/$bay_subfolder" || fail_set_up "there is no folder $bay_subfolder in the code"

[ -f "$bay_run/setup.sh" ] || bay_phase="command"
# A shell that waits for a program would die of the warning that is meant for the program.
bay_heed=''
[ -z "$bay_after" ] || bay_heed='trap : USR1; '
# The command once for each process; rank.sh finds out which it is.
start_ranks() {
    export BAY_RANKS="$bay_ranks"
    set -- /bin/sh "$bay_node/rank.sh" "$bay_run" "$bay_records" "$bay_phase" "$bay_heed" "$bay_image"
    # shellcheck disable=SC2086
    [ -z "$bay_launcher" ] || exec $bay_launcher "$@"
    exec srun --kill-on-bad-exit=1 --ntasks="$bay_ranks" "$@"
}

run_command() {
    if [ -n "$bay_ranks" ]; then start_ranks; fi
    [ -z "$bay_image" ] || exec /bin/sh "$bay_node/container.sh" "$bay_run" "$bay_records" "$bay_heed"
    if [ "$bay_command" = words ] && [ "$bay_phase" = command ]; then
        # shellcheck disable=SC1091
        . "$bay_run/command.sh"
    fi
    bay_shell="sh"
    command -v bash >/dev/null 2>&1 && bay_shell=bash
    [ "$bay_phase$bay_after" != command ] || exec "$bay_shell" "$bay_run/command.sh"
    # shellcheck disable=SC2016
    [ "$bay_phase" = setup ] || exec "$bay_shell" -c "$bay_heed"'. "$1"' "$bay_shell" "$bay_run/command.sh"
    # shellcheck disable=SC2016
    exec "$bay_shell" -c "$bay_heed"'set -e; . "$1"; set +e; : >"$2"; . "$3"' "$bay_shell" \
        "$bay_run/setup.sh" "$bay_records/set-up" "$bay_run/command.sh"
}

bay_shipper=''
if [ -n "$bay_ship_every" ]; then
    /bin/sh "$bay_node/ship.sh" "$bay_run" "$bay_attempt" every </dev/null >/dev/null 2>&1 &
    bay_shipper=$!
fi
if [ -z "${bay_background-}" ]; then
    trap : INT TERM
    (run_command)
    bay_code=$?
    [ ! -f "$bay_records/links" ] || remove_links
else
    run_command &
    bay_child=$!
    trap 'bay_stopped=TERM; pass_on_term' TERM
    trap pass_on_usr1 USR1
    # A signal that came before the command did.
    [ -z "$bay_stopped" ] || pass_on_term
    [ -z "$bay_asked" ] || pass_on_usr1
    bay_code=0
    bay_again=
    while :; do
        bay_woken=
        # dash and busybox would say `Terminated` in the log.
        wait "$bay_child" 2>/dev/null
        bay_got=$?
        # dash forgets a child once it was waited for; its code was the one before.
        [ "$bay_got" -eq 127 ] && [ -n "$bay_again" ] || bay_code=$bay_got
        [ -n "$bay_woken" ] || break
        bay_again=1
    done
fi

[ ! -f "$bay_records/set-up" ] || bay_phase="command"
# Somebody may want to look at what failed, where it failed.
if [ "${bay_hold:-0}" -gt 0 ] && [ "$bay_code" -ne 0 ] && [ -z "$bay_stopped$bay_asked" ] && [ -n "${bay_background-}" ]; then
    bay_phase="held"
    now
    printf '{"event":"held","at":%s,"code":%s}\n' "$bay_at" "$bay_code" >>"$bay_events"
    echo "launchbay: it failed with code $bay_code and keeps its place for $bay_hold s; \`bay shell\` goes there, \`bay cancel\` ends it"
    while [ "$bay_hold" -gt 0 ] && [ -z "$bay_stopped" ] && [ ! -e "$bay_records/cancel" ]; do
        sleep 1 &
        bay_child=$!
        wait "$bay_child" 2>/dev/null
        bay_hold=$((bay_hold - 1))
    done
fi
# Nothing may be on its way while folders move, and nothing old arrive last.
[ -z "$bay_shipper" ] || end_shipper
[ -z "${bay_background-}" ] || each_output keep_output
[ ! -f "$bay_run/out/metrics.jsonl" ] || tail -n 100 "$bay_run/out/metrics.jsonl" >"$bay_records/metrics.jsonl"
record_exit "$bay_code"
[ -z "$bay_after" ] || exec /bin/sh "$bay_node/$bay_after" "$bay_run" "$bay_attempt" "$bay_code" "$bay_asked"
exit "$bay_code"
