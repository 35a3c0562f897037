#!/bin/sh
# Builds a Python environment once: who comes later finds it ready, who comes meanwhile waits.
#
#   environment.sh KIND PLACE TREE SOURCE
#
# KIND is uv, requirements or environment (conda's); SOURCE is its file in TREE, the frozen code; PLACE is absolute.
# Prints what the tools print, and `ready PLACE` at the end. Where a tool fails its code is passed on, the last
# line on standard error says which it was, and PLACE is gone.
#
# Beside PLACE are PLACE.code, a copy of the code (building writes beside the sources, an editable package stays
# there, and nothing may be written to TREE), and PLACE.lock or, without flock(1), PLACE.turn.
# Indexes and proxies are those of the user's own configuration.
# POSIX sh; must work in dash and in busybox sh.
kind=$1 place=$2 tree=$3 source=$4
code=$place.code
turn=$place.turn
following='' building='' waiting='' holding=''

fail() {
    printf 'launchbay: %s\n' "$2" >&2
    exit "$1"
}

clean_up() {
    [ -z "$building" ] || rm -rf "$place" "$code"
    [ -z "$holding" ] || mv "$turn/$me" "$turn/free"
}

# A child that has hardly begun may miss the first signal.
stop() {
    trap '' HUP INT TERM
    [ -z "$following" ] || { kill $! && sleep 1 && kill -KILL $!; wait $!; } 2>/dev/null
    fail "$1" 'the build was stopped'
}

# As a child that we wait for: a signal reaches us at once, not when the child is done.
follow() {
    following=1
    "$@" </dev/null 2>&1 &
    wait $!
    code_of_child=$?
    following=''
    return "$code_of_child"
}

# attempt NAME WORD...
attempt() {
    name=$1
    shift
    follow "$@" || fail "$code_of_child" "\`$name\` failed with code $code_of_child"
}

# An environment whose interpreter was upgraded away is none.
is_ready() {
    [ -e "$place/.bay-ready" ] && { [ "$kind" = environment ] || [ -x "$place/bin/python" ]; }
}

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

say_waiting() {
    [ -n "$waiting" ] || echo 'launchbay: it is being built already; waiting'
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

# A number may be another program's by now.
is_alive() {
    kill -0 "$1" 2>/dev/null && { [ ! -d /proc/self ] || grep -qF environment.sh "/proc/$1/cmdline" 2>/dev/null; }
}

# Not on the PATH of a shell that nobody logged in to; and a stub may be there that only complains.
find_uv() {
    for uv in "$(command -v uv)" ~/.local/bin/uv ~/.cargo/bin/uv; do
        [ -n "$uv" ] && "$uv" --version >/dev/null 2>&1 && return
    done
    return 1
}

# As `activation` in core/python.py looks for it.
find_conda() {
    for conda in "${CONDA_EXE-}" "${MAMBA_EXE-}" \
        "$(command -v conda)" "$(command -v mamba)" "$(command -v micromamba)" \
        ~/miniconda3/bin/conda ~/miniforge3/bin/conda ~/anaconda3/bin/conda ~/mambaforge/bin/conda \
        ~/.local/bin/micromamba /opt/conda/bin/conda; do
        [ -f "$conda" ] && [ -x "$conda" ] && return
    done
    return 1
}

build_uv() {
    find_uv || fail 127 'uv is not installed'
    export UV_PROJECT_ENVIRONMENT="$place"
    attempt 'uv sync' "$uv" sync --frozen --no-install-project --no-editable --project "$code"
}

build_requirements() {
    if find_uv; then
        attempt 'uv venv' "$uv" --quiet --directory "$code" venv "$place"
        attempt 'uv pip install' "$uv" --directory "$code" pip install --python "$place/bin/python" -r "$source"
        return
    fi
    command -v python3 >/dev/null 2>&1 || fail 127 'neither uv nor python3 is installed'
    cd "$code" || fail 73 "cannot enter $code"
    attempt 'python3 -m venv' python3 -m venv "$place"
    attempt 'pip install' "$place/bin/python" -m pip install -r "$source"
}

build_environment() {
    find_conda || fail 127 'conda is not installed'
    export CONDA_ALWAYS_YES=true MAMBA_ALWAYS_YES=true
    attempt "${conda##*/} env create" "$conda" env create -p "$place" -f "$code/$source"
}

build() {
    building=1
    rm -rf "$place" "$code"
    mkdir "$code" || fail 73 "cannot write to ${code%/*}"
    attempt 'cp' cp -RP "$tree/." "$code"
    chmod -R u+w "$code"
    # What another environment has is not in this one.
    unset VIRTUAL_ENV PYTHONHOME PYTHONPATH
    export PIP_USER=0
    case $kind in
        uv) build_uv ;;
        requirements) build_requirements ;;
        environment) build_environment ;;
        *) fail 64 "$kind is no kind of environment that is built" ;;
    esac
    true >"$place/.bay-ready" || fail 73 "cannot write to $place"
    building=''
}

trap clean_up EXIT
trap 'stop 129' HUP
trap 'stop 130' INT
trap 'stop 143' TERM
is_ready || take_lock
is_ready || build
printf 'ready %s\n' "$place"
