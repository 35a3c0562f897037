"""Files that others meet whole, or not at all."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A name beside `path` for what takes its place in the end; of what fails nothing stays.

    Nobody else has the name, and nothing is there yet. A link at `path` is replaced, not followed.
    """
    draft = path.with_name(f".bay-{os.urandom(8).hex()}.part")
    try:
        yield draft
        draft.replace(path)
    finally:
        with suppress(OSError):
            draft.unlink()
