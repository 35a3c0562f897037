"""A queue of its own for a test, spoken to as a backend speaks to it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conftest import eventually

NODE = Path(__file__).parents[2] / "src" / "launchbay" / "node"
ORDINARY_PATH = "/usr/bin:/bin"


def make_job(run: str, words: list[str] | None = None, **fields: Any) -> dict[str, Any]:
    """A line of a plan: what `MachineBackend` would write, and what a test wants different."""
    return {
        "run_id": run,
        "attempt": 1,
        "name": "name",
        "experiment": "experiment",
        "words": words or [],
        "script": "",
        "params": {},
        "env": {},
        "secrets": [],
        "setup": "",
        "snapshot": "",
        "project_folder": "",
        "links": {},
        "subfolder": "",
        "outputs": [],
        "metrics": {},
        "origin": "",
        "fresh": False,
        "needs": {},
        "caps": {},
        "native_id": f"queue/plan/{run}",
        **fields,
    }


def read_events(folder: Path, attempt: int = 1) -> list[dict[str, Any]]:
    """What an attempt recorded."""
    path = folder / "attempts" / str(attempt) / "events.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def is_alive(pid: int) -> bool:
    """Whether the process is there and no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@dataclass
class Desk:
    """One queue, one root, and the verbs."""

    folder: Path
    python: str = sys.executable
    tools: Path | None = None
    """A folder of programs that stand in for the machine's."""
    private: dict[str, Any] = field(default_factory=dict)

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def root(self) -> Path:
        return self.folder / "bay"

    @property
    def queue(self) -> Path:
        return self.state / "launchbay" / "hosts" / os.uname().nodename

    @property
    def environment(self) -> dict[str, str]:
        path = f"{self.tools}:{ORDINARY_PATH}" if self.tools else ORDINARY_PATH
        return {"PATH": path, "HOME": str(self.folder), "XDG_STATE_HOME": str(self.state)}

    def start(self, verb: str) -> subprocess.Popen[str]:
        """Begin a verb that waits for its standard input."""
        return subprocess.Popen(
            [self.python, "-S", "-E", str(NODE / "pack.py"), verb],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def call(self, verb: str, stdin: str = "") -> list[dict[str, Any]]:
        """What a verb answers."""
        out, err = self.start(verb).communicate(stdin, timeout=60)
        assert not err, err
        return [json.loads(line) for line in out.splitlines()]

    def plan(self, *jobs: dict[str, Any], form: int = 1) -> str:
        """The lines that `add` and `prepare` read."""
        header = {"format": form, "plan": "plan", "target": "desk", "root": str(self.root)}
        private = {"environment": self.environment, "umask": "022", "secrets": {}, **self.private}
        return "".join(json.dumps(line) + "\n" for line in (header, *jobs, private))

    def add(self, *jobs: dict[str, Any]) -> list[str]:
        """Queue runs; the names of those that are in."""
        return [line["ok"] for line in self.call("add", self.plan(*jobs))]

    def run(self, run: str) -> Path:
        """A run's folder."""
        return self.root / "runs" / run

    def question(self, *runs: str, attempt: int = 1) -> str:
        return json.dumps({"root": str(self.root), "runs": [[run, attempt] for run in runs]})

    def look(self, *runs: str, attempt: int = 1) -> dict[str, dict[str, Any]]:
        """What became of runs."""
        lines = self.call("look", self.question(*runs, attempt=attempt))
        return {line.pop("run"): line for line in lines}

    def states(self, *runs: str) -> list[str]:
        seen = self.look(*runs)
        return [seen[run]["state"] for run in runs]

    def cancel(self, *runs: str) -> None:
        self.call("cancel", self.question(*runs))

    def until(self, state: str, *runs: str, attempt: int = 1) -> list[dict[str, Any]]:
        """Wait until all have this state; what is then known of them."""
        seen: dict[str, dict[str, Any]] = {}

        def reached() -> bool:
            seen.update(self.look(*runs, attempt=attempt))
            return all(seen[run]["state"] == state for run in runs)

        eventually(reached)
        return [seen[run] for run in runs]

    def started(self, run: str, attempt: int = 1) -> dict[str, Any]:
        """What run.sh recorded when it began; waits for it."""
        eventually(lambda: read_events(self.run(run), attempt))
        return read_events(self.run(run), attempt)[0]

    def log(self, run: str, attempt: int = 1) -> str:
        path = self.run(run) / f"attempts/{attempt}/log-0.txt"
        return path.read_text() if path.exists() else ""

    def names(self, place: str) -> list[str]:
        """The queue's files in a place."""
        with contextlib.suppress(FileNotFoundError):
            return sorted(path.name for path in (self.queue / place).iterdir())
        return []

    def worker(self) -> int | None:
        """The process that works on this queue."""
        mark = f"XDG_STATE_HOME={self.state}".encode()
        for folder in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                pid = int(folder.name)
                words = (folder / "cmdline").read_bytes().split(b"\0")
                if b"work" in words and mark in (folder / "environ").read_bytes().split(b"\0"):
                    return pid
        return None

    def processes(self) -> list[int]:
        """Everything that runs for this queue, its worker first."""
        mark = f"XDG_STATE_HOME={self.state}".encode()
        found = []
        for folder in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                pid = int(folder.name)
                if mark in (folder / "environ").read_bytes().split(b"\0") and is_alive(pid):
                    found.append(pid)
        return sorted(found, key=lambda pid: pid != self.worker())

    def end(self) -> None:
        """End the worker and all that it started."""
        deadline = time.monotonic() + 10
        while (found := self.processes()) and time.monotonic() < deadline:
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def errors(self) -> str:
        """What the workers complained about."""
        path = self.queue / "pack.log"
        return path.read_text() if path.exists() else ""
