#!/bin/sh
# Prints how long a log of a run is, and what follows of it; a run that ends waits for who reads like this.
#
#   read.sh RUN ATTEMPT NAME OFFSET MOST     RUN is a folder of $BAY_ROOT/runs; at most MOST bytes
bay_records=$BAY_ROOT/runs/$1/attempts/$2
bay_log=$bay_records/$3
bay_offset=$4
bay_most=$5
bay_mark=''
[ "$3" != log-0.txt ] || [ ! -d "$bay_records" ] || bay_mark=$bay_records/reader

# For how many seconds from now somebody counts as reading.
reads_for() {
    [ -z "$bay_mark" ] || { echo "$(date +%s) $bay_offset $1" >"$bay_mark.$$" && mv -f "$bay_mark.$$" "$bay_mark"; }
}

# A piece may be long on its way.
reads_for 120
# Neither `wc` nor `tail`: they may read all of a long file.
# shellcheck disable=SC2012,SC2046
set -- $(ls -ln "$bay_log" 2>/dev/null)
bay_size=${5:-0}
echo "$bay_size"
[ "$bay_size" -le "$bay_offset" ] ||
    dd if="$bay_log" bs=65536 skip="$((bay_offset / 65536))" count="$((bay_most / 65536 + 2))" 2>/dev/null |
    tail -c "+$((bay_offset % 65536 + 1))" | head -c "$bay_most"
# Whoever follows many looks round between two pieces; who has all of it is not waited for.
bay_offset=$((bay_offset + bay_most))
[ "$bay_offset" -le "$bay_size" ] || bay_offset=$bay_size
reads_for 60 || :
