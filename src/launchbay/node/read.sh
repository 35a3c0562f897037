#!/bin/sh
# Prints how long a log of a run is, and what follows of it; a run that ends waits a little for who reads like this.
#
#   read.sh RUN ATTEMPT NAME OFFSET MOST     RUN is a folder of $BAY_ROOT/runs; at most MOST bytes
bay_records=$BAY_ROOT/runs/$1/attempts/$2
bay_size=$( { wc -c <"$bay_records/$3"; } 2>/dev/null) || bay_size=0
echo "$((bay_size))"
if [ "$3" = log-0.txt ] && [ -d "$bay_records" ]; then
    echo "$(date +%s) $4" >"$bay_records/reader.$$" && mv -f "$bay_records/reader.$$" "$bay_records/reader"
fi
[ "$bay_size" -le "$4" ] || tail -c "+$(($4 + 1))" "$bay_records/$3" | head -c "$5"
