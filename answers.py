"""What a verb says: JSON lines on standard output."""

from __future__ import annotations

import json
import sys


def answer(**fields: object) -> None:
    """Say one thing, at once."""
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()
