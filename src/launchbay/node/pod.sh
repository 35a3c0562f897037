#!/bin/sh
# The first process of a pod: has the code there, starts the run, shows its log, and tells what became of it.
#
#   pod.sh
#
# From the container: BAY_ROOT, where the folders of runs are; BAY_PLAN, the plan's files, of which the sheet has one
# line; BAY_SNAPSHOT, the code, in parts in BAY_PARTS; BAY_CODE, `image` where the image has the code itself and the
# parts are laid over it; BAY_GRACE, how many seconds a run has to end in once it was asked to; BAY_TOOLBOX, where
# commands may call `make download` although the image has neither make nor bay.
# What it tells is the container's termination message: events, how long the log is, the last metrics.
# POSIX sh; must work in dash and in busybox sh, as any user, with a root file system that nobody can write.
umask 077
bay_node=${0%/*}
bay_told=${BAY_TOLD:-/dev/termination-log}
bay_parts=${BAY_PARTS:-/bay/code}
bay_stopped='' bay_child='' bay_woken='' bay_early=''
# The first process of a container does not hear a word that it has not asked for.
trap 'bay_early=1' TERM INT
read -r bay_id bay_attempt _ <"$BAY_PLAN/sheet"
bay_run=$BAY_ROOT/runs/$bay_id
bay_records=$bay_run/attempts/$bay_attempt
bay_log=$bay_records/log-0.txt

# The words stand in a record: without what would break it.
give_up() {
    printf 'launchbay: %s\n' "$1" >&2
    printf '{"event":"exit","at":%s,"code":1,"signal":"","phase":"setup","why":"%s"}\n' \
        "$(date +%s)" "$(printf '%s' "$1" | tr -d '\\"' | tr '\n' ' ')" >"$bay_told"
    exit 1
}

# A part may come to this node a little after the pod did.
has_parts() {
    bay_count='' bay_part=0
    { read -r bay_count <"$bay_parts/parts"; } 2>/dev/null || return
    while [ "$bay_part" -lt "$bay_count" ]; do
        [ -e "$bay_parts/code.$bay_part" ] || return
        bay_part=$((bay_part + 1))
    done
}

cat_parts() {
    bay_part=0
    while [ "$bay_part" -lt "$bay_count" ]; do
        cat "$bay_parts/code.$bay_part" || return
        bay_part=$((bay_part + 1))
    done
}

unpack_parts() {
    cat_parts | /bin/sh "$bay_node/unpack.sh" "$1" && return
    [ "$?" != 69 ] || give_up 'the image has neither tar with gzip nor python3 to unpack the code; take another, or code: image'
    return 1
}

# The code of an image is kept as it is but for what is laid over it; all else has a folder of its own.
unpack_code() {
    bay_waited=0
    until has_parts; do
        [ -z "$bay_early" ] || exit 143
        [ "$bay_waited" -lt 120 ] || give_up "the code $BAY_SNAPSHOT did not come to this node"
        bay_waited=$((bay_waited + 1))
        sleep 1
    done
    if [ -n "${BAY_INSIDE-}" ]; then
        unpack_parts "$BAY_INSIDE" || give_up "files could not be laid over $BAY_INSIDE, the folder of the image"
        return
    fi
    bay_tree=$BAY_ROOT/snapshots/$BAY_SNAPSHOT
    [ ! -d "$bay_tree" ] || return 0
    bay_draft=$BAY_ROOT/snapshots/.bay-${BAY_ALLOCATION:-$$}
    # What no object could hold run.sh fetches.
    [ "$bay_count" != 0 ] || return 0
    mkdir -p "$bay_draft" && unpack_parts "$bay_draft" || give_up "the code could not be unpacked to $BAY_ROOT"
    # On a claim another run may have been quicker.
    [ -d "$bay_tree" ] || mv "$bay_draft" "$bay_tree"
    rm -rf "$bay_draft" "${bay_tree:?}/${bay_draft##*/}"
}

# Not by `wc`, which may read all of a long file to count it.
log_size() {
    # shellcheck disable=SC2012,SC2046
    set -- $(ls -ln "$bay_log" 2>/dev/null)
    bay_size=${5:-0}
}

# What came since the last time, on our own output: the cluster keeps the end of it.
show_log() {
    log_size
    [ "$bay_size" -gt "$bay_shown" ] || return 0
    # `tail` alone may read all that comes before.
    dd if="$bay_log" bs=65536 skip="$((bay_shown / 65536))" 2>/dev/null |
        tail -c "+$((bay_shown % 65536 + 1))" | head -c "$((bay_size - bay_shown))"
    bay_shown=$bay_size
}

show_all() {
    bay_shown=0 bay_last=''
    trap 'bay_last=1' TERM
    while [ -z "$bay_last" ]; do
        sleep 1 &
        wait "$!" 2>/dev/null
        show_log
    done
    show_log
}

# shellcheck disable=SC2317
# Whoever ignores the word is ended; the cluster's own limit would take our last words along.
stop() {
    bay_woken=1
    [ -z "$bay_stopped" ] || return
    bay_stopped=1
    kill -TERM "$bay_child" 2>/dev/null
    (
        trap - TERM
        sleep "${bay_grace:-25}"
        kill -KILL "-$bay_child" || kill -KILL "$bay_child"
    ) >/dev/null 2>&1 &
}

tell() {
    while IFS= read -r bay_line; do
        case $bay_line in
        '{"event":"started"'*) bay_started=$bay_line ;;
        '{"event":"exit"'*) bay_ended=$bay_line ;;
        '{"event":"shipped"'* | '{"event":"unshipped"'*) bay_copied=$bay_line ;;
        esac
    done 2>/dev/null <"$bay_records/events.jsonl"
    [ -z "${bay_started-}" ] || printf '%s\n' "$bay_started"
    [ -z "${bay_ended-}" ] || printf '%s\n' "$bay_ended"
    [ -z "${bay_copied-}" ] || printf '%s\n' "$bay_copied"
    printf '{"event":"log","size":%s}\n' "$bay_size"
    [ ! -f "$bay_records/metrics.jsonl" ] || tail -n 20 "$bay_records/metrics.jsonl" | tail -c 1500
    [ ! -f "$bay_records/patterns.json" ] || { printf '\n--log\n' && tail -c 1000 "$bay_log"; }
}

# A follower that was here just now has not seen the end: once we are gone nobody can read the log from here.
is_read() {
    { read -r bay_at bay_offset bay_patience <"$bay_records/reader"; } 2>/dev/null || return
    [ "$bay_offset" -lt "$bay_size" ] && [ $(($(date +%s) - bay_at)) -lt "$bay_patience" ]
}

# Behind all that the image has, and where whoever enters finds them too; enter.sh knows the place.
lend_toolbox() {
    bay_lent=$BAY_ROOT/bin
    for bay_name in bay make; do
        # On a claim others may be reading them.
        bay_draft=$bay_lent/.$bay_name-${BAY_ALLOCATION:-$$}
        printf '#!/bin/sh\nexec /bin/sh "%s/toolbox.sh" %s "$@"\n' "$bay_node" "$bay_name" >"$bay_draft" &&
            chmod +x "$bay_draft" && mv -f "$bay_draft" "$bay_lent/$bay_name" || return
    done
    PATH=$PATH:$bay_lent
}

bay_grace=${BAY_GRACE-}
[ "${BAY_CODE-}" != image ] || export BAY_INSIDE="$PWD"
mkdir -p "$BAY_ROOT/runs" "$BAY_ROOT/snapshots" || give_up "$BAY_ROOT cannot be written"
[ -z "${BAY_SNAPSHOT-}" ] || unpack_code
# Who has them anyway misses nothing.
[ -z "${BAY_TOOLBOX-}" ] || { mkdir -p "$BAY_ROOT/bin" && lend_toolbox; } 2>/dev/null
[ -z "$bay_early" ] || exit 143
show_all 2>/dev/null &
bay_shower=$!
bay_session=''
# As the first of a group of its own its children can be told, too.
command -v setsid >/dev/null && bay_session="setsid"
$bay_session /bin/sh "$bay_node/task.sh" "$BAY_PLAN" 0 </dev/null &
bay_child=$!
trap stop TERM INT
[ -z "$bay_early" ] || stop
bay_code=0 bay_again=''
while :; do
    bay_woken=''
    wait "$bay_child" 2>/dev/null
    bay_got=$?
    # dash forgets a child once it was waited for; its code was the one before.
    [ "$bay_got" -eq 127 ] && [ -n "$bay_again" ] || bay_code=$bay_got
    [ -n "$bay_woken" ] || break
    bay_again=1
done
kill -TERM "$bay_shower" 2>/dev/null
# Right after it was forked it has our own answer to the word, which is lost on it: it is told again.
(sleep 1 && kill -TERM "$bay_shower") >/dev/null 2>&1 &
wait "$bay_shower" 2>/dev/null
log_size
tell 2>/dev/null | head -c 4096 >"$bay_told"
bay_waited=0
while is_read && [ "$bay_waited" -lt 600 ]; do
    bay_waited=$((bay_waited + 1))
    sleep 1
done
exit "$bay_code"
