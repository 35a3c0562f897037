#!/bin/sh
# The main job, from nothing to a table of results, in a folder of its own.
set -eu
folder=${BAY_DEMO:-${TMPDIR:-/tmp}/launchbay-demo-$(id -u)}
mkdir -p "$folder"
cd "$folder"
bay() { printf '\n$ bay %s\n' "$*"; "$BAY" "$@"; }

[ -f bay.yaml ] || bay init
bay run
bay results --sort -acc --over seed
printf '\nThe demo lives in %s; `make demo` again submits nothing, and says why.\n' "$folder"
printf 'docs/start/first-sweep.md brings `bay` into your shell, and goes on from here.\n'
