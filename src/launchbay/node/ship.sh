#!/bin/sh
# Copies what a run writes to object storage.
#
#   ship.sh RUN_FOLDER ATTEMPT every     again and again, until it is told to end; started by run.sh
#   ship.sh RUN_FOLDER ATTEMPT last      once, after the end was recorded; records how it went, and exits with 0
#
# From env.sh: bay_ship, the place of this run; bay_ship_every, seconds; bay_store, text for enter_store; find_wanted,
# where bay_ship_only says that not all outputs are wanted.
# There the names are those of the run's folder: out/…, job.json, params.json, attempts/<n>/… Folders of outputs
# that the program still has in work/ are in out/ there, as they will be here. What may hold secrets stays.
# Without a tool an archive of all that, out.tar.gz, and the log, log.txt, go to the two addresses of bay_puts.
# POSIX sh; must work in dash and in busybox sh.
bay_run=$1
bay_attempt=$2
bay_records=$bay_run/attempts/$bay_attempt
bay_node=${0%/*}
# shellcheck disable=SC2034
bay_ship='' bay_ship_only='' bay_ship_every='' bay_store='' bay_python='' bay_puts='' bay_tool=''
# shellcheck disable=SC1091
. "$bay_run/env.sh"
# shellcheck disable=SC1091
[ ! -f "$bay_run/secrets.sh" ] || . "$bay_run/secrets.sh"
# shellcheck disable=SC1091
. "$bay_node/carry.sh"
umask 077
cd "$bay_run" || exit
bay_staged=$bay_run/shipping
bay_said=$bay_records/ship.txt
# shellcheck disable=SC2034
bay_signed=$bay_puts
enter_store "$bay_ship" "$bay_store"
find_tool "$bay_ship"

# Links where the disk has them: a log may be large, and tools look at folders as a whole.
stage() {
    mkdir -p "$bay_staged/attempts/$bay_attempt" || return
    for bay_file in job.json params.json "attempts/$bay_attempt"/job.json "attempts/$bay_attempt"/events.jsonl \
        "attempts/$bay_attempt"/metrics.jsonl "attempts/$bay_attempt"/patterns.json "attempts/$bay_attempt"/log-*.txt; do
        [ -f "$bay_file" ] || continue
        ln -f "$bay_file" "$bay_staged/$bay_file" 2>/dev/null || cp "$bay_file" "$bay_staged/$bay_file" || return
    done
}

# What is wanted of the outputs, beside the records: see find_wanted.
stage_wanted() {
    rm -rf "$bay_staged/out"
    stage_folder "$bay_run/out" "$bay_staged/out" && each_output stage_unmoved
}

# shellcheck disable=SC2317
stage_unmoved() {
    [ -d "$bay_run/work/$1" ] && [ ! -L "$bay_run/work/$1" ] || return 0
    stage_folder "$bay_run/work" "$bay_staged/out" "$1/"
}

# From folder $1 to folder $2, of all that is wanted what begins with $3.
stage_folder() {
    [ -d "$1" ] || return 0
    # shellcheck disable=SC2016
    (cd "$1" && find_wanted -path "./${3-}*" -exec /bin/sh -c '
        staged=$1
        shift
        for file; do
            mkdir -p "$staged/${file%/*}" || exit
            ln -f "$file" "$staged/$file" 2>/dev/null || cp "$file" "$staged/$file" || exit
        done' sh "$2" {} +)
}

has_files() {
    [ -n "$(find "$1" -type f 2>/dev/null | head -n 1)" ]
}

# shellcheck disable=SC2317
ship_unmoved() {
    [ -d "$bay_run/work/$1" ] && [ ! -L "$bay_run/work/$1" ] && has_files "$bay_run/work/$1" || return 0
    carry_up "$bay_run/work/$1" "$bay_ship/out/$1" || bay_failed=1
}

ship() {
    case $bay_tool in
    '') echo 'neither bay, s5cmd, rclone nor aws is here' >&2; return 1 ;;
    signed) ship_signed; return ;;
    esac
    stage || return
    bay_failed=''
    if [ -n "$bay_ship_only" ]; then
        stage_wanted && carry_up "$bay_staged" "$bay_ship"
        return
    fi
    ! has_files "$bay_run/out" || carry_up "$bay_run/out" "$bay_ship/out" || bay_failed=1
    each_output ship_unmoved
    # The records last: whoever sees an end there finds what was written before it.
    carry_up "$bay_staged" "$bay_ship" || bay_failed=1
    [ -z "$bay_failed" ]
}

# shellcheck disable=SC2317
name_unmoved() {
    [ ! -d "work/$1" ] || [ -L "work/$1" ] || printf '%s\n' "work/$1"
}

# Names in work/ are for out/ as well.
archive_all() {
    set -- out
    for bay_file in job.json params.json "attempts/$bay_attempt"/*.json "attempts/$bay_attempt"/*.jsonl "attempts/$bay_attempt"/log-*.txt; do
        [ ! -f "$bay_file" ] || set -- "$@" "$bay_file"
    done
    bay_unmoved=$(each_output name_unmoved)
    while IFS= read -r bay_file; do
        [ -z "$bay_file" ] || set -- "$@" "$bay_file"
    done <<NAMES
$bay_unmoved
NAMES
    tar -cf - "$@"
}

# One archive of everything.
ship_signed() {
    bay_archive=$bay_run/shipping.tar.gz
    # A file that grows meanwhile is no trouble.
    if [ -n "$bay_ship_only" ]; then
        stage && stage_wanted && cd "$bay_staged" || return
        tar -cf - * 2>/dev/null | gzip >"$bay_archive"
    else
        archive_all 2>/dev/null | gzip >"$bay_archive"
    fi || return
    {
        printf '%s "%s"\n' "$(printf '%s\n' "$bay_puts" | sed -n 1p)" "$bay_archive"
        [ ! -s "$bay_records/log-0.txt" ] ||
            printf '%s "%s"\n' "$(printf '%s\n' "$bay_puts" | sed -n 2p)" "$bay_records/log-0.txt"
    } >"$bay_run/shipping.list"
    carry_signed put "$bay_run/shipping.list"
    bay_code=$?
    rm -f "$bay_run/shipping.list" "$bay_archive"
    return "$bay_code"
}

note() {
    printf '{"event":"%s","at":%s,"to":"%s","by":"%s","why":"%s"}\n' \
        "$1" "$(date +%s)" "$bay_ship" "$bay_tool" "$2" >>"$bay_records/events.jsonl"
}

# The program may have been told to end by a word to all: that reaches a tool, too.
ship_last() {
    for bay_try in 1 2 3; do
        if ship 2>"$bay_said"; then
            note shipped ''
            rm -rf "$bay_staged" "$bay_said"
            return
        fi
        [ "$bay_try" = 3 ] || sleep 1
    done
    note unshipped "$(last_line "$bay_said")"
}

ship_every() {
    bay_well=1
    # On this node's own disk: what launchbay has sent already it need not look at again.
    bay_memory=''
    if [ "$bay_tool" = bay ] && bay_memory=$(mktemp -d); then export BAY_CARRY_MEMORY="$bay_memory/memory"; fi
    while :; do
        follow sleep "$bay_ship_every"
        if ship 2>"$bay_said"; then
            bay_well=1
        else
            [ -z "$bay_well" ] || note delayed "$(last_line "$bay_said")"
            bay_well=''
        fi
    done
}

stop() {
    trap '' TERM
    end_following
    [ -z "$bay_memory" ] || rm -rf "$bay_memory"
    exit 0
}

# The warning before the end is for the program.
trap '' USR1 INT HUP
if [ "$3" = last ]; then
    trap '' TERM
    ship_last
    exit 0
fi
trap stop TERM
ship_every
