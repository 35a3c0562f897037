#!/bin/sh
# Prints how long a log of a run is, and what follows of it; a run that ends waits a little for who reads like this.
#
#   read.sh RUN ATTEMPT NAME OFFSET MOST     RUN is a folder of $BAY_ROOT/runs; at most MOST bytes
bay_records=$BAY_ROOT/runs/$1/attempts/$2
bay_log=$bay_records/$3
bay_offset=$4
bay_most=$5
if [ "$3" = log-0.txt ] && [ -d "$bay_records" ]; then
    echo "$(date +%s) $bay_offset" >"$bay_records/reader.$$" && mv -f "$bay_records/reader.$$" "$bay_records/reader"
fi
# Neither `wc` nor `tail`: they may read all of a long file.
# shellcheck disable=SC2012,SC2046
set -- $(ls -ln "$bay_log" 2>/dev/null)
bay_size=${5:-0}
echo "$bay_size"
[ "$bay_size" -le "$bay_offset" ] ||
    dd if="$bay_log" bs=65536 skip="$((bay_offset / 65536))" count="$((bay_most / 65536 + 2))" 2>/dev/null |
    tail -c "+$((bay_offset % 65536 + 1))" | head -c "$bay_most"
