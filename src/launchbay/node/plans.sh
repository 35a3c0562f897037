# shellcheck shell=sh disable=SC2154
# Read by slurm.sh and serial.sh, which set bay_root, the root, and bay_plan, a plan's folder below it.

# Have the plan there, whole or not at all; standard input is a tar archive, whose last file is `whole`.
take_plan() {
    if [ -e "$bay_plan/sheet" ]; then
        cat >/dev/null
        return
    fi
    bay_draft=$bay_plan.$$
    mkdir -p "${bay_plan%/*}" "$bay_root/runs" && mkdir "$bay_draft" || return
    if ! tar -xf - -C "$bay_draft" || [ ! -e "$bay_draft/whole" ]; then
        rm -rf "$bay_draft"
        return 1
    fi
    mv "$bay_draft" "$bay_plan" 2>/dev/null
    # Somebody else was quicker, and it went into what is there.
    rm -rf "$bay_draft" "${bay_plan:?}/${bay_draft##*/}"
    [ -e "$bay_plan/sheet" ]
}
