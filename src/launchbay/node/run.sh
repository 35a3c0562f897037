#!/bin/sh
# Runs one attempt of one run: claims it, makes its folder, runs the command, records what became of it.
#
#   run.sh RUN_FOLDER ATTEMPT
#
# Exits with the command's own code; 75 when somebody else has claimed this attempt, and then nothing ran.
# POSIX sh; must work in dash and in busybox sh. Each external program costs a millisecond of every run,
# so what a builtin or /proc can tell is not asked of one.
#
# From the caller's environment: BAY_DEVICES, the GPU ids to use (set but empty hides all);
# BAY_BOOT_CS, the moment of boot in hundredths of a second, which spares two calls of date;
# BAY_HERE, a folder to run in, in the foreground, instead of a working folder and a log.
run=$1
attempt=$2
records=$run/attempts/$attempt
events=$records/events.jsonl
boot_cs=${BAY_BOOT_CS-}
here=${BAY_HERE-}

now() {
    if [ -n "$boot_cs" ] && read -r up _ 2>/dev/null </proc/uptime; then
        # `1` keeps a leading zero of the hundredths from being read as octal.
        at=$((boot_cs + ${up%.*} * 100 + 1${up#*.} - 100))
        at=$((at / 100)).$((at / 10 % 10))$((at % 10))
    else
        at=$(date +%s)
    fi
}

record_exit() {
    now
    printf '{"event":"exit","at":%s,"code":%s,"signal":"%s","phase":"%s"}\n' \
        "$at" "$1" "$stopped" "$phase" >>"$events"
}

fail_set_up() {
    printf 'launchbay: %s\n' "$1" >>"$records/log-0.txt"
    record_exit 1
    exit 1
}

# Once, so that no process gets the signal twice; the command is in our group when we lead it.
pass_on() {
    woken=1
    trap '' "$1"
    if [ "$group" = "$$" ]; then kill -"$1" 0; else kill -"$1" "$child" 2>/dev/null; fi
    [ "$1" = TERM ] || trap "pass_on $1" "$1"
}

mkdir "$records/claim" 2>/dev/null || {
    [ -d "$records/claim" ] && exit 75
    echo "launchbay: cannot write $records" >&2
    exit 74
}

stopped=
phase=setup
boot= start= group= host=
trap 'stopped=TERM' TERM
if read -r stat 2>/dev/null </proc/$$/stat; then
    # The second field is a name in parentheses and may hold anything.
    # shellcheck disable=SC2086
    set -- ${stat##*) }
    group=$3
    start=${20}
    read -r boot </proc/sys/kernel/random/boot_id
    read -r host </proc/sys/kernel/hostname
fi
now
printf '{"event":"started","at":%s,"host":"%s","boot":"%s","pid":%s,"start":"%s","devices":"%s"}\n' \
    "$at" "${host:-$(uname -n)}" "$boot" "$$" "$start" "${BAY_DEVICES-}" >>"$events" || exit 74

bay_tree= bay_subfolder= bay_command=
# shellcheck disable=SC1091
. "$run/env.sh"
# shellcheck disable=SC1091
[ ! -f "$run/secrets.sh" ] || . "$run/secrets.sh"
export BAY_ATTEMPT="$attempt"
if [ -n "${BAY_DEVICES+set}" ]; then
    export CUDA_VISIBLE_DEVICES="$BAY_DEVICES" CUDA_DEVICE_ORDER=PCI_BUS_ID
fi
unset BAY_DEVICES BAY_BOOT_CS BAY_HERE

make_work_folder() {
    [ ! -e "$run/work" ] || rm -rf "$run/work"
    [ -n "$bay_tree" ] || { mkdir "$run/work"; return; }
    # Root can write what is read-only: hard links would let one run change the code of all.
    if [ "${BAY_UID:-$(id -u)}" != 0 ]; then
        cp -al "$bay_tree" "$run/work" 2>/dev/null && return
        rm -rf "$run/work"
    fi
    cp -a "$bay_tree" "$run/work" 2>>"$records/log-0.txt"
}

if [ -z "$here" ]; then
    make_work_folder || fail_set_up 'the working folder could not be made; is the disk full?'
    here=$run/work
    exec </dev/null >>"$records/log-0.txt" 2>&1
    background=1
fi
unset BAY_UID
cd "$here/$bay_subfolder" || fail_set_up "there is no folder $bay_subfolder in the code"

shell=sh
command -v bash >/dev/null 2>&1 && shell=bash
[ -f "$run/setup.sh" ] || phase=command
run_command() {
    if [ "$phase" = setup ]; then
        # shellcheck disable=SC2016
        exec "$shell" -c 'set -e; . "$1"; set +e; : >"$2"; . "$3"' "$shell" \
            "$run/setup.sh" "$records/set-up" "$run/command.sh"
    elif [ "$bay_command" = words ]; then
        # shellcheck disable=SC1091
        . "$run/command.sh"
    fi
    exec "$shell" "$run/command.sh"
}

if [ -z "${background-}" ]; then
    trap : INT TERM
    (run_command)
    code=$?
else
    run_command &
    child=$!
    trap 'stopped=TERM; pass_on TERM' TERM
    trap 'pass_on USR1' USR1
    # A signal that came before the command did.
    [ -z "$stopped" ] || pass_on TERM
    code=0
    again=
    while :; do
        woken=
        wait "$child"
        got=$?
        # dash forgets a child once it was waited for; its code was the one before.
        [ "$got" -eq 127 ] && [ -n "$again" ] || code=$got
        [ -n "$woken" ] || break
        again=1
    done
fi

[ ! -f "$records/set-up" ] || phase=command
[ ! -f "$run/out/metrics.jsonl" ] || tail -n 100 "$run/out/metrics.jsonl" >"$records/metrics.jsonl"
record_exit "$code"
exit "$code"
