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
# there, and nothing may be written to TREE), and what turn.sh keeps.
# Indexes and proxies are those of the user's own configuration.
# POSIX sh; must work in dash and in busybox sh.
kind=$1 place=$2 tree=$3 source=$4
code=$place.code
# shellcheck disable=SC2034
turn=$place.turn
# shellcheck disable=SC2034
turn_words='it is being built already; waiting' turn_program=environment.sh
following='' building=''
# shellcheck disable=SC1091
. "${0%/*}/turn.sh"

fail() {
    printf 'launchbay: %s\n' "$2" >&2
    exit "$1"
}

clean_up() {
    [ -z "$building" ] || rm -rf "$place" "$code"
    give_turn_back
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
