#!/bin/sh
# Unpacks code that comes packed on standard input into a folder, whole or with an error.
#
#   unpack.sh FOLDER     exits with 69 where nothing here can
bay_place=$1
if command -v tar >/dev/null 2>&1 && command -v gzip >/dev/null 2>&1; then
    gzip -dc | (cd "$bay_place" && tar -xof -) || exit 1
elif command -v python3 >/dev/null 2>&1; then
    python3 -S -E -c 'import sys, tarfile
tarfile.open(fileobj=sys.stdin.buffer, mode="r|gz").extractall(sys.argv[1])' "$bay_place" || exit 1
else
    echo 'launchbay: the image has neither tar with gzip nor python3 to unpack the code' >&2
    exit 69
fi
# The last member tells that nothing broke off before it.
rm "$bay_place/.bay-whole"
