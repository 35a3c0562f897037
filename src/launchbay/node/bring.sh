#!/bin/sh
# Has the folders of a run where its program looks for them: fetched once for all runs, and linked.
#
#   bring.sh RUN_FOLDER ATTEMPT FOLDER OWN             started by run.sh; OWN is empty for a folder of the user's
#   bring.sh RUN_FOLDER ATTEMPT fetch URL KEPT RO STORE      one of them, as a process with variables of its own
#
# From env.sh: each_folder, which calls its argument with the name, the source, what it is kept as, an absolute path
# or nothing, `ro` or nothing, and text for enter_store; bay_launch, the launch, whose runs fetch a folder once.
# In ROOT/data are KEPT, the copy; KEPT.whole, the launch that last saw that it is whole; and what turn.sh keeps.
# What a tool can find out cheaply it is asked at every launch; else what is whole stays.
# POSIX sh; must work in dash and in busybox sh.
bay_run=$1
bay_attempt=$2
bay_records=$bay_run/attempts/$bay_attempt
bay_node=${0%/*}
# shellcheck disable=SC2034
bay_launch='' bay_python='' bay_image='' bay_signed='' bay_path=''
# shellcheck disable=SC1091
. "$bay_run/env.sh"
# shellcheck disable=SC1091
[ ! -f "$bay_run/secrets.sh" ] || . "$bay_run/secrets.sh"
# shellcheck disable=SC1091
. "$bay_node/carry.sh"

# The words stand in a record, too: without what would break it.
fail() {
    printf 'launchbay: %s\n' "$2"
    printf '%s\n' "$2" | tr -d '\\"' | tr -c '\040-\176\n' ' ' >"$bay_records/why"
    exit "$1"
}

stop() {
    trap '' HUP INT TERM
    end_following
    exit 143
}

bring() {
    find_folder "$2" "$3"
    case $2 in
    file://*) ;;
    *://*)
        # What it says on its way is in the log; why it fails it says itself.
        follow /bin/sh "$0" "$bay_run" "$bay_attempt" fetch "$2" "$3" "$5" "$6" || exit
        ;;
    esac
    [ -e "$bay_path" ] || fail 1 "there is no folder $bay_path here, which is to be \`$1\`"
    link_inside "$1"
    [ -z "$4" ] || [ -n "$bay_image" ] || link_at "$4" "$1"
}

link_inside() {
    bay_place=$bay_folder/$1
    case $1 in */*) mkdir -p "${bay_place%/*}" ;; esac
    if [ -n "$bay_own" ]; then
        rm -rf "$bay_place"
    elif [ -L "$bay_place" ]; then
        # In a folder of the user's only what is ours is replaced.
        case $(readlink "$bay_place") in "${bay_run%/runs/*}"/data/*) rm -f "$bay_place" ;; *) return ;; esac
    elif [ -e "$bay_place" ]; then
        return
    fi
    ln -s "$bay_path" "$bay_place" || fail 1 "the link \`$1\` could not be made"
    # What run.sh takes away again at the end.
    [ -n "$bay_own" ] || printf '%s\n' "$1" >>"$bay_records/links"
}

# shellcheck disable=SC2088
link_at() {
    case $1 in '~/'*) bay_at=$HOME/${1#??} ;; *) bay_at=$1 ;; esac
    if [ -L "$bay_at" ]; then
        bay_old=$(readlink "$bay_at")
        [ "$bay_old" != "$bay_path" ] || return 0
        case $bay_old in "${bay_run%/runs/*}"/data/*) rm -f "$bay_at" ;; esac
    fi
    if [ -e "$bay_at" ] || [ -L "$bay_at" ]; then
        fail 1 "$bay_at, where \`$2\` is wanted, is there already and is not ours"
    fi
    mkdir -p "${bay_at%/*}" && ln -s "$bay_path" "$bay_at" || fail 1 "$bay_at, where \`$2\` is wanted, cannot be made"
}

is_whole() {
    [ -e "$place.whole" ]
}

# Whether nothing has to be asked: a run of this launch has, or nobody here could.
is_settled() {
    is_whole || return
    [ -n "$bay_tool" ] && [ "$bay_tool" != signed ] || return 0
    read -r bay_seen <"$place.whole" && [ -n "$bay_launch" ] && [ "$bay_seen" = "$bay_launch" ]
}

fetch() {
    place=${bay_run%/runs/*}/data/$2
    # shellcheck disable=SC2034
    turn=$place.turn turn_program=bring.sh turn_words="$1 is being fetched already; waiting"
    # shellcheck disable=SC1091
    . "$bay_node/turn.sh"
    trap give_turn_back EXIT
    eval "bay_signed=\${bay_gets_$2-}"
    enter_store "$1" "$4"
    find_tool "$1"
    ! is_settled || return 0
    take_lock
    ! is_settled || return 0
    [ -n "$bay_tool" ] || fail 69 "$1 cannot be fetched: neither bay, s5cmd, rclone nor aws is here"
    mkdir -p "$place" || fail 73 "cannot write to $place"
    bay_said=$bay_records/bring.txt
    if ! get "$1" 2>"$bay_said"; then
        bay_by=" by $bay_tool"
        [ "$bay_tool" != signed ] || bay_by=''
        is_whole || fail 1 "$1 could not be fetched$bay_by: $(last_line "$bay_said")"
        echo "launchbay: $1 was not asked for news ($(last_line "$bay_said")); what came before is used"
        return
    fi
    [ -n "$(ls -A "$place")" ] || fail 1 "there is nothing at $1"
    [ -z "$3" ] || find "$place" -type f -exec chmod a-w {} +
    printf '%s\n' "$bay_launch" >"$place.whole.$$" && mv "$place.whole.$$" "$place.whole" || fail 73 "cannot write to $place.whole"
}

get() {
    [ "$bay_tool" = signed ] || { carry_down "$1" "$place"; return; }
    (umask 077 && printf '%s\n' "$bay_signed" >"$place.$$") || return
    # Lines have paths inside of the folder.
    cd "$place" && carry_signed get "$place.$$"
    bay_code=$?
    rm -f "$place.$$"
    return "$bay_code"
}

trap stop HUP INT TERM
if [ "$3" = fetch ]; then
    shift 3
    fetch "$@"
    exit
fi
bay_folder=$3 bay_own=$4
each_folder bring
