#!/bin/sh
# What run.sh becomes at the end of a run that wants to go on after its time limit.
#
#   continue.sh RUN_FOLDER ATTEMPT CODE WARNED
#
# A run that was warned and has written something since it began is queued again by Slurm, under the same
# number; its next attempt finds what it wrote. One that has written nothing would do so for ever.
bay_records=$1/attempts/$2
[ -n "$4" ] && [ ! -e "$bay_records/cancel" ] || exit "$3"
if [ -z "$(find "$1/out" -type f -newer "$bay_records/claim" 2>/dev/null | head -n 1)" ]; then
    echo 'launchbay: not continued, for nothing under $BAY_OUT is newer than the start of this attempt' \
        >>"$bay_records/log-0.txt"
    exit "$3"
fi
bay_job=$SLURM_JOB_ID
[ -z "${SLURM_ARRAY_JOB_ID-}" ] || bay_job=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
: >"$bay_records/continued"
scontrol requeue "$bay_job" >>"$bay_records/log-0.txt" 2>&1 || mv "$bay_records/continued" "$bay_records/cut"
# Slurm ends this job to queue it again.
exit "$3"
