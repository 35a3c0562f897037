#!/bin/sh
# Prints the number of a run's newest attempt, and what its log has got since.
#
#   log.sh RUN BASE NAME ATTEMPT OFFSET MOST    OFFSET counts in the log of ATTEMPT, another one is read from its
#                                               beginning; at most MOST bytes
bay_node=$(cd "${0%/*}" && pwd)
bay_attempts=${bay_node%/node/*}/runs/$1/attempts
bay_number=$2
while [ -d "$bay_attempts/$((bay_number + 1))" ]; do bay_number=$((bay_number + 1)); done
bay_offset=0
[ "$4" != "$bay_number" ] || bay_offset=$5
echo "$bay_number"
tail -c "+$((bay_offset + 1))" "$bay_attempts/$bay_number/$3" 2>/dev/null | head -c "$6"
