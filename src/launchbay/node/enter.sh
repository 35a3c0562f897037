#!/bin/sh
# A person's shell, or a command, in the folder and the environment of a run.
#
#   enter.sh RUN_FOLDER [COMMAND …]
bay_run=$1
shift
cd "$bay_run/work" || exit
# What pod.sh lends.
[ -z "${BAY_TOOLBOX-}" ] || PATH=$PATH:${bay_run%/runs/*}/bin
# shellcheck disable=SC1091
. "$bay_run/env.sh"
# shellcheck disable=SC1091
[ ! -f "$bay_run/secrets.sh" ] || . "$bay_run/secrets.sh"
# shellcheck disable=SC1091
[ ! -f "$bay_run/setup.sh" ] || . "$bay_run/setup.sh"
[ "$#" -gt 0 ] || set -- "${SHELL:-/bin/sh}"
exec "$@"
