"""A mirroring process of its own, to be killed or measured.

`python mirror_child.py WAY URL ENDPOINT FOLDER MEMORY` prints, as JSON, what it sent, what failed,
what was the same, and the most memory that it had, in bytes. Keys come from the environment.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from launchbay.sync.bucket import BucketOptions, open_bucket
from launchbay.sync.memory import Memory
from launchbay.sync.mirror import apply_mirror, plan_down, plan_up
from launchbay.sync.patterns import compile_patterns


def main() -> None:
    """Mirror once."""
    way, url, endpoint, folder, path = sys.argv[1:]
    bucket = open_bucket(BucketOptions(url=url, endpoint=endpoint, env=dict(os.environ)))
    memory = Memory(Path(path))
    make = plan_up if way == "up" else plan_down
    plan = make(bucket, Path(folder), compile_patterns([]), memory=memory)
    outcome = apply_mirror(plan, bucket, memory=memory)
    said = {
        "sent": [step.key for step in outcome.done],
        "failed": [why for _, why in outcome.failed],
        "left_out": plan.left_out,
        "same": plan.same,
        "peak": peak_bytes(),
    }
    sys.stdout.write(json.dumps(said))


def peak_bytes() -> int:
    """The most memory that this program had; what began it counts in getrusage, and not here."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    main()
