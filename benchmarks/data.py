"""How long data takes to and from object storage, beside s5cmd and rclone on the same server.

Five questions: 5,000 files of 10 kB up and down, 4 files of 256 MB up and down, and 20,000 files
that are all the same already. The server is rclone's S3 on this machine, which answers all three;
every time is that of a whole process, the best of several, with the engines taking turns. Files are
in memory where there is room, for a disk has moods. Claims:
faster than both others on at least two of the five, and never more than 25 % slower than the
better of them. `--quick` asks with a tenth of the data and claims nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests.real.object_servers import KEY_ID, SECRET, RcloneServer, find_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

QUICK = "--quick" in sys.argv
SHRINK = 10 if QUICK else 1
SMALL, SMALL_BYTES = 5_000 // SHRINK, 10_000
BIG, BIG_BYTES = 4, 256_000_000 // SHRINK
SAME = 20_000 // SHRINK
ROUNDS = 1 if QUICK else 3
MOST_RATIO = 1.25
WINS = 2
BUCKET = "bench"
PURGES = 10
MEMORY = Path("/dev/shm")  # noqa: S108
NEEDED = 8 * BIG * BIG_BYTES
ENGINES = ("bay", "s5cmd", "rclone")


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A server, a folder for everything, and how the engines are called."""

    server: RcloneServer
    folder: Path

    @property
    def env(self) -> dict[str, str]:
        """The same keys and server for everyone."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("BAY_", "PYTHON"))}
        return {
            **kept,
            "AWS_ACCESS_KEY_ID": KEY_ID,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "S3_ENDPOINT_URL": self.server.url,
            "S3_BUCKET_NAME": BUCKET,
            "HOME": str(self.folder),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "RCLONE_CONFIG": str(self.folder / "rclone.conf"),
        }

    def up(self, engine: str, local: Path, name: str) -> list[str]:
        """The command that sends what a folder holds."""
        if engine == "s5cmd":
            return [*self._s5cmd(local), "cp", f"{local}/", f"s3://{BUCKET}/{name}/"]
        if engine == "rclone":
            return [*self._rclone(local), "copy", str(local), f"there:{BUCKET}/{name}"]
        return [*self._bay(), "up", f"{name}/", "--local-path", str(local.parent)]

    def down(self, engine: str, local: Path, name: str) -> list[str]:
        """The command that brings it."""
        if engine == "s5cmd":
            return [*self._s5cmd(local), "cp", f"s3://{BUCKET}/{name}/*", f"{local}/"]
        if engine == "rclone":
            return [*self._rclone(local), "copy", f"there:{BUCKET}/{name}", str(local)]
        return [*self._bay(), "down", f"{name}/", "--local-path", str(local.parent)]

    def same(self, engine: str, local: Path, name: str) -> list[str]:
        """The command that finds nothing to send."""
        if engine == "s5cmd":
            return [*self._s5cmd(local), "sync", f"{local}/", f"s3://{BUCKET}/{name}/"]
        return self.up(engine, local, name)

    def run(self, argv: list[str]) -> float:
        """Seconds that a command takes."""
        began = time.perf_counter()
        done = subprocess.run(argv, env=self.env, cwd=self.folder, capture_output=True, check=False)
        took = time.perf_counter() - began
        if done.returncode:
            raise SystemExit(f"{' '.join(argv)}: {done.stderr.decode()[-2000:]}")
        return took

    def empty(self, name: str) -> None:
        """Nothing is in the bucket under that name; through the server, which remembers much."""
        there = self.server.buckets / BUCKET / name
        for _ in range(PURGES):
            if not there.exists() or not count(there):
                return
            self.run([find_program("rclone"), "purge", f"there:{BUCKET}/{name}"])
        raise SystemExit(f"{there} is not empty")

    def _bay(self) -> list[str]:
        return [sys.executable, "-m", "launchbay", "data"]

    def _s5cmd(self, local: Path) -> list[str]:
        workers = "32" if "big" not in local.name else "8"
        return [find_program("s5cmd"), "--log", "error", "--numworkers", workers]

    def _rclone(self, local: Path) -> list[str]:
        transfers = "32" if "big" not in local.name else "4"
        # Without these it would ask more than it needs to.
        lean = ["--s3-no-check-bucket", "--fast-list", "--checkers", "32"]
        return [find_program("rclone"), *lean, "--transfers", transfers]


def main() -> int:
    """Print the times with ratios and claims; 1 when one is missed."""
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > NEEDED:
        tempfile.tempdir = str(MEMORY)
    server = RcloneServer()
    server.start()
    try:
        with tempfile.TemporaryDirectory(prefix="bay-bench-") as name:
            bench = Bench(server=server, folder=Path(name))
            prepare(bench)
            return report(measure(bench))
    finally:
        server.stop()


def prepare(bench: Bench) -> None:
    """Files to send, and a name for the server."""
    (bench.server.buckets / BUCKET).mkdir()
    (bench.folder / "bay.yaml").write_text("command: 'true'\n")
    remote = ["type = s3", "provider = Rclone", "env_auth = true", f"endpoint = {bench.server.url}"]
    (bench.folder / "rclone.conf").write_text("\n".join(["[there]", *remote, ""]))
    fill(bench.folder / "here" / "small", SMALL, SMALL_BYTES)
    fill(bench.folder / "here" / "big", BIG, BIG_BYTES)
    fill(bench.folder / "here" / "same", SAME, 100)


def fill(folder: Path, count: int, size: int) -> None:
    """So many files of a size, a hundred in a folder, none like another, changed a while ago.

    At a whole second: s5cmd would take a fraction that the server drops for a change.
    """
    at = int(time.time()) - 3600
    for number in range(count):
        path = folder / f"d{number // 100}" / f"file-{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(size))
        os.utime(path, (at, at))


def measure(bench: Bench) -> Iterator[tuple[str, dict[str, float]]]:
    """Questions, with the best seconds of each engine."""
    for name, words in {
        "small": f"{SMALL:,} files of 10 kB",
        "big": f"{BIG} files of {BIG_BYTES // 1_000_000} MB",
    }.items():
        local, back = bench.folder / "here" / name, bench.folder / "back" / name
        yield f"{words} up", take_turns(partial(time_up, bench, local, name))
        # What everybody brings back was sent by us, with the checksums that we keep.
        time_up(bench, local, name, "bay")
        yield f"{words} down", take_turns(partial(time_down, bench, back, name))
        bench.empty(name)
        shutil.rmtree(back, ignore_errors=True)
    local = bench.folder / "here" / "same"
    bench.run(bench.up("bay", local, "same"))
    took = take_turns(lambda engine: bench.run(bench.same(engine, local, "same")))
    yield f"{SAME:,} files, all the same", took


def time_up(bench: Bench, local: Path, name: str, engine: str) -> float:
    """Seconds to send everything into an empty bucket."""
    bench.empty(name)
    took = bench.run(bench.up(engine, local, name))
    check(engine, bench.server.buckets / BUCKET / name, local)
    return took


def time_down(bench: Bench, local: Path, name: str, engine: str) -> float:
    """Seconds to bring everything into an empty folder."""
    shutil.rmtree(local, ignore_errors=True)
    local.mkdir(parents=True)
    took = bench.run(bench.down(engine, local, name))
    check(engine, local, bench.folder / "here" / name)
    return took


def check(engine: str, copy: Path, original: Path) -> None:
    """All of it must have arrived."""
    if count(copy) != count(original):
        raise SystemExit(f"{engine} brought {count(copy)} of {count(original)} files")


def count(folder: Path) -> int:
    """How many files there are."""
    return sum(path.is_file() for path in folder.rglob("*"))


def take_turns(ask: Callable[[str], float]) -> dict[str, float]:
    """The best time of each engine; nobody always comes first."""
    best: dict[str, float] = {}
    for number in range(ROUNDS):
        turn = number % len(ENGINES)
        for engine in (*ENGINES[turn:], *ENGINES[:turn]):
            took = ask(engine)
            best[engine] = min(took, best.get(engine, took))
    return best


def report(times: Iterable[tuple[str, dict[str, float]]]) -> int:
    """The table as it grows, and whether the claims hold."""
    print(f"{'':<32}" + "".join(f"{engine:>9}" for engine in ENGINES) + "    ratio to the better")
    ratios = []
    for words, took in times:
        ratio = took["bay"] / min(took["s5cmd"], took["rclone"])
        ratios.append(ratio)
        row = "".join(f"{took[engine]:>7.2f} s" for engine in ENGINES)
        print(f"{words:<32}{row}    {ratio:.2f}", flush=True)
    if QUICK:
        return 0
    claims = {
        f"faster than both on at least {WINS} of 5": sum(one < 1 for one in ratios) >= WINS,
        f"never more than {MOST_RATIO:g} times the better": max(ratios) <= MOST_RATIO,
    }
    for claim, held in claims.items():
        print(f"{'ok' if held else 'MISSED':<6} {claim}")
    return 0 if all(claims.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
