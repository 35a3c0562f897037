"""How much dearer than git and one lstat per file is a scan of unchanged code?

The claim: with 10,000 files, at most three times. Run it with `python benchmarks/snapshot.py`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from launchbay.sync.snapshot import RACY_NS, freeze, scan

if TYPE_CHECKING:
    from collections.abc import Callable

FILES = 10_000
FOLDERS = 100
ROUNDS = 7
BOUND = 3.0
LIST = ["git", "ls-files", "-z", "-c", "-o", "--exclude-standard"]


def main() -> int:
    """Print both times and their ratio; 1 when the claim does not hold."""
    with tempfile.TemporaryDirectory() as temporary:
        project = Path(temporary) / "project"
        store = project / ".bay"
        write_project(project)
        time.sleep(RACY_NS / 1e9 + 0.1)
        freeze(scan(project, store=store), store)
        floor, ours = best_of(lambda: list_with_git(project), lambda: scan(project, store=store))
    ratio = ours / floor
    print(f"git ls-files and lstat  {floor * 1000:7.1f} ms")
    print(f"scan of unchanged code  {ours * 1000:7.1f} ms")
    print(f"ratio                   {ratio:7.2f}     {'ok' if ratio <= BOUND else 'MISSED'}")
    return int(ratio > BOUND)


def write_project(project: Path) -> None:
    """Ten thousand small files in a git repository, all of them committed to the index."""
    for number in range(FILES):
        path = project / f"package_{number % FOLDERS:02d}" / f"module_{number:05d}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"VALUE = {number}\n" * 20)
    (project / ".gitignore").write_text(".bay/\n")
    for words in (["init", "--quiet"], ["add", "."]):
        subprocess.run(["git", *words], cwd=project, check=True)


def list_with_git(project: Path) -> None:
    """The floor: nobody can know that nothing changed with less."""
    printed = subprocess.run(LIST, cwd=project, check=True, stdout=subprocess.PIPE).stdout
    for path in os.fsdecode(printed)[:-1].split("\0"):
        os.lstat(f"{project}/{path}")


def best_of(*actions: Callable[[], object]) -> list[float]:
    """The shortest time of each; they take turns, so that a busy machine slows all of them."""
    times = [[measure(action) for action in actions] for _ in range(ROUNDS)]
    return [min(column) for column in zip(*times, strict=True)]


def measure(action: Callable[[], object]) -> float:
    """Seconds it takes."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


if __name__ == "__main__":
    sys.exit(main())
