# shellcheck shell=sh
# Read by slurm.sh and serial.sh: what runs recorded of themselves, for a client that knows no more than
# their ids. Few processes, however many runs: a login host is shared, and starting one is dear.
#
#   read_records ROOT     runs on standard input, one id a line
#
# Prints `--events` and every line of the events with its file before it, `--marks` and the names of claims and
# other marks, `--values` and the ends of metrics and of logs that a pattern reads. In this order: whoever ends a
# run marks it first, so that an end is never seen without its mark, nor without its last values.

read_records() {
    cd "$1/runs" 2>/dev/null || { cat >/dev/null; echo "--marks"; return; }
    bay_events='' bay_values='' bay_logs='' bay_some='' bay_number=0
    bay_nl='
'
    # Not line by line: a shell reads from a pipe byte by byte.
    bay_ids=$(cat)
    for bay_id in $bay_ids; do
        [ -d "$bay_id/attempts" ] || continue
        bay_number=$((bay_number + 1))
        if [ $((bay_number % 100)) -eq 0 ]; then
            # To add to a long text is to copy it, so that is not done for every run.
            bay_events=$bay_events$bay_some
            bay_some=
        fi
        for bay_path in "$bay_id"/attempts/*/claim; do
            [ ! -e "$bay_path" ] || bay_some=$bay_some${bay_path%/claim}/events.jsonl$bay_nl
        done
        for bay_path in "$bay_id"/attempts/*/patterns.json; do
            [ -e "$bay_path" ] || continue
            bay_some=$bay_some$bay_path$bay_nl
            bay_logs=$bay_logs${bay_path%/*}/log-0.txt$bay_nl
        done
    done
    bay_events=$bay_events$bay_some
    echo "--events"
    # A second file, even if there is nothing in it, makes grep and tail say which one they read.
    [ -z "$bay_events" ] || printf '%s' "$bay_events" | xargs grep -s '' /dev/null
    echo "--marks"
    for bay_id in $bay_ids; do
        for bay_path in "$bay_id"/attempts/*/[ct]*; do
            [ "$bay_path" = "$bay_id/attempts/*/[ct]*" ] || printf '%s\n' "$bay_path"
        done
        # Not before the events: a short run may have begun to tell, and ended, meanwhile.
        [ ! -e "$bay_id/out/metrics.jsonl" ] || bay_values=$bay_values$bay_id/out/metrics.jsonl$bay_nl
    done
    echo "--values"
    [ -z "$bay_values" ] || printf '%s' "$bay_values" | xargs tail -n 50 /dev/null 2>/dev/null
    [ -z "$bay_logs" ] || printf '%s' "$bay_logs" | xargs tail -c 32768 /dev/null 2>/dev/null
    echo
}
