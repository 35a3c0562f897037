"""Removing what ended runs left under a target's root."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launchbay.core.errors import Rejected

if TYPE_CHECKING:
    from collections.abc import Iterable

    from launchbay.backends.depot import Depot

# Given another name first: whoever looks meets all of a run or nothing. Links are not followed, and
# only folders are made writable, for programs may leave some read-only.
REMOVE = """\
cd "$1/runs" 2>/dev/null || exit 0
while IFS= read -r id; do
    [ -d "$id" ] && [ ! -L "$id" ] || continue
    gone=../tmp/gone-$id.$$
    mkdir -p ../tmp && mv "./$id" "$gone" || exit 1
    rm -rf "$gone" 2>/dev/null && continue
    find "$gone" -type d -exec chmod u+rwx {} + && rm -rf "$gone" || exit 1
done
"""


def remove_folders(depot: Depot, run_ids: Iterable[str]) -> None:
    """Remove the folders of runs.

    Raises:
        Rejected: when one cannot be removed.
    """
    words = ["sh", "-c", REMOVE, "sh", depot.root_path()]
    done = depot.host.run(words, stdin="".join(f"{run_id}\n" for run_id in run_ids))
    if not done.ok:
        last = (done.stderr.strip().splitlines() or ["no word"])[-1]
        raise Rejected(f"`{depot.target}` keeps a run folder: {last}", hint="look at it there")
