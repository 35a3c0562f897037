#!/bin/sh
# The command of a run, inside of its image.
#
#   container.sh RUN_FOLDER RECORDS HEED      started by run.sh, or by rank.sh for each process
#
# HEED is what a shell has to do first so that it outlives the warning before the end.
# From env.sh: bay_image; bay_container, the program to enter it with; bay_nv; bay_modules, lines that may bring
# the program; each_bind, what else is to be seen inside; each_folder, what bring.sh has linked, and where else.
bay_run=$1
bay_container='' bay_modules='' bay_nv='' bay_image='' bay_folders=''
# shellcheck disable=SC1091
. "$bay_run/env.sh"
if [ -n "$bay_modules" ]; then
    set -e
    eval "$bay_modules"
    set +e
fi
for bay_program in $bay_container apptainer singularity; do
    ! command -v "$bay_program" >/dev/null 2>&1 || break
done
command -v "$bay_program" >/dev/null 2>&1 || {
    echo 'launchbay: neither apptainer nor singularity is here, and the run wants an image; `modules:` may bring one'
    exit 127
}
bay_records=$2 bay_heed=$3
set -- exec ${bay_nv:+"$bay_nv"} --bind "${bay_run%/runs/*}" --pwd "$PWD"
while IFS= read -r bay_bind; do
    [ -z "$bay_bind" ] || set -- "$@" --bind "$bay_bind"
done <<BINDS
$(each_bind)
BINDS
# shellcheck disable=SC2317,SC2088,SC2154
bind_folder() {
    find_folder "$2" "$3"
    case $bay_path in "${bay_run%/runs/*}"/*) ;; *) printf '%s%s\n' "$bay_path" "${5:+:$bay_path:ro}" ;; esac
    case $4 in
    '') ;;
    '~/'*) printf '%s:%s%s\n' "$bay_path" "$HOME/${4#??}" "${5:+:ro}" ;;
    *) printf '%s:%s%s\n' "$bay_path" "$4" "${5:+:ro}" ;;
    esac
}
if [ -n "$bay_folders" ]; then
    # shellcheck disable=SC1091
    . "${0%/*}/carry.sh"
    while IFS= read -r bay_bind; do
        [ -z "$bay_bind" ] || set -- "$@" --bind "$bay_bind"
    done <<BINDS
$(each_folder bind_folder)
BINDS
fi
# shellcheck disable=SC2016
exec "$bay_program" "$@" "$bay_image" /bin/sh -c '
    if command -v bash >/dev/null 2>&1; then shell=bash; else shell=sh; fi
    if [ -f "$1/setup.sh" ]; then
        exec "$shell" -c "$3set -e; . \"\$1\"; set +e; : >\"\$2\"; . \"\$3\"" "$shell" \
            "$1/setup.sh" "$2/set-up" "$1/command.sh"
    fi
    exec "$shell" -c "$3. \"\$1\"" "$shell" "$1/command.sh"' sh "$bay_run" "$bay_records" "$bay_heed"
