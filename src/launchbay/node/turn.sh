# shellcheck shell=sh disable=SC2154
# Read by environment.sh and bring.sh: of several that want to make the same, one does, and the others wait.
#
#   take_lock       returns when it is our turn to make $place
#   give_turn_back  for the end of whoever took it
#
# The reader sets place and turn ($place.turn), turn_words (what to say to a person who waits) and turn_program (its
# own name, by which a holder is known to be alive), and has `fail CODE WORDS` and `follow WORD…`, which runs a
# program so that a signal reaches us meanwhile. Beside PLACE are PLACE.lock or, without flock(1), PLACE.turn.
waiting='' holding=''

# What the tools start holds the lock too: no two of them write to PLACE, even if one of us is killed.
take_lock() {
    { mkdir -p "${place%/*}" && true >>"$place.lock"; } 2>/dev/null || fail 73 "cannot write to ${place%/*}"
    if command -v flock >/dev/null 2>&1; then
        exec 9>>"$place.lock"
        flock -n 9 2>/dev/null && return
        say_waiting
        # Not every file system has such locks.
        follow flock 9 >/dev/null && return
    fi
    me=$(uname -n)+$$
    [ -d "$turn" ] || make_turn || fail 73 "cannot write to ${place%/*}"
    until take_turn; do
        say_waiting
        follow sleep 1
    done
    holding=1
}

give_turn_back() {
    [ -z "$holding" ] || mv "$turn/$me" "$turn/free"
}

say_waiting() {
    [ -n "$waiting" ] || echo "launchbay: $turn_words"
    waiting=1
}

# One file in a folder, called `free` or after its holder. Whole or not at all: moved to where there is one
# already, the folder ends up inside.
make_turn() {
    mkdir "$turn.$$" && true >"$turn.$$/free" && mv "$turn.$$" "$turn" 2>/dev/null
    rm -rf "$turn.$$" "$turn/${turn##*/}.$$"
    [ -d "$turn" ]
}

# Of many that rename the file one succeeds, also when they take it from a holder that died.
take_turn() {
    [ -e "$turn/$me" ] || mv "$turn/free" "$turn/$me" 2>/dev/null || take_over
}

take_over() {
    for holder in "$turn/$(uname -n)+"*; do
        [ ! -e "$holder" ] || is_alive "${holder##*+}" || ! mv "$holder" "$turn/$me" 2>/dev/null || return 0
    done
    return 1
}

# A number may be another program's by now. Words end with a NUL there, at which some greps stop reading.
is_alive() {
    kill -0 "$1" 2>/dev/null || return
    [ ! -d /proc/self ] || { tr '\000' '\n' <"/proc/$1/cmdline" | grep -qF "$turn_program"; } 2>/dev/null
}
