"""The queue of one user on one host: many runs, claimed one by one, each with its GPU slot.

Used as a program, `python pack.py VERB`, with JSON on standard input and JSON lines on standard
output. It and the files beside it stand alone: standard library only, Python 3.8 or newer, nothing
imported from launchbay.

```text
add      take runs into the queue and see that somebody works on it
prepare  make ready runs that somebody will start by hand
look     say what became of runs; changes nothing, but sees that somebody works on what waits
cancel   end runs, or keep them from starting
list     say which runs wait or run
survey   say what this machine has
work     be the one that works on the queue (started by the others, detached)
```
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from typing import Any, Iterator

from files import read_json, write_new
from records import claimed, end_unstarted, read_attempt, records_folder
from waiting import Queue, kind_of, try_lock

FORMAT = 1
ANSWER_EVERY_S = 0.1


def main() -> None:
    """Do what the verb says."""
    verbs = {
        "add": add,
        "prepare": prepare,
        "look": look,
        "cancel": cancel,
        "list": list_runs,
        "survey": survey,
    }
    os.umask(0o077)
    if sys.argv[1] == "work":
        work(int(sys.argv[2]))
        return
    try:
        verbs[sys.argv[1]]()
    except OSError as error:
        answer({"error": "%s: %s" % (error.strerror, error.filename or "")})
        raise SystemExit(1) from error


def add() -> None:
    """Read a plan's lines and then one of secrets; print `{"ok": run}` for each that is in."""
    queue = Queue()
    known = queue.keys()
    flushed_at = time.monotonic()
    for job, folder, writer in read_plan():
        key = "%s-%d" % (job["run_id"], job["attempt"])
        if key not in known and not claimed(folder, job["attempt"]):
            writer.write(folder, os.path.join(folder, "work"), job)
            queue.put(job, folder, key)
        sys.stdout.write(json.dumps({"ok": job["run_id"]}) + "\n")
        if time.monotonic() - flushed_at > ANSWER_EVERY_S:
            # The first runs need not wait until the last is written.
            queue.ensure_worker()
            sys.stdout.flush()
            flushed_at = time.monotonic()
    queue.ensure_worker()


def prepare() -> None:
    """As `add`, but nothing is queued, and the runs' folder is the project itself."""
    for job, folder, writer in read_plan():
        writer.write(folder, job["project_folder"], job)
        answer({"ok": job["run_id"], "folder": folder})


def read_plan() -> Iterator[tuple[dict[str, Any], str, Any]]:
    """Each job of the plan, its folder, and what writes it."""
    from runfolder import Writer  # noqa: PLC0415 (looking does without)

    header = json.loads(sys.stdin.readline())
    lines = sys.stdin.read().splitlines()
    writer = Writer(json.loads(lines.pop()))
    if header["format"] > FORMAT:
        answer({"error": "this host's launchbay is too old for these runs; update it"})
        return
    for line in lines:
        job = {**json.loads(line), **{key: header[key] for key in ("target", "root", "plan")}}
        yield job, os.path.join(header["root"], "runs", job["run_id"]), writer


def look() -> None:
    """Read `{"root": …, "runs": [[run, attempt], …]}`; print one line for each."""
    asked = json.load(sys.stdin)
    queue = Queue()
    # In this order: whatever leaves the queue has been claimed before.
    waiting = {name: ahead for ahead, name in enumerate(sorted(queue.names("waiting").values()))}
    by_key = {name.partition("-")[2]: name for name in waiting}
    picked, aside = queue.names("picked"), queue.names("aside")
    if waiting or picked:
        queue.ensure_worker()
    blocked = read_json(queue.path("blocked.json"))
    for run, attempt in asked["runs"]:
        key = "%s-%d" % (run, attempt)
        if key in by_key:
            name = by_key[key]
            why = blocked.get(kind_of(name), "")
            seen = {"state": "waiting", "ahead": waiting[name], "why": why}
        else:
            seen = read_attempt(os.path.join(asked["root"], "runs", run), attempt)
            if seen["state"] == "absent":
                seen = {"state": "waiting", "ahead": 0, "why": ""}
                if key not in picked:
                    why = "it was set aside; pack.log says why" if key in aside else "unknown"
                    seen = {"state": "lost", "why": why}
        sys.stdout.write(json.dumps({**seen, "run": run}) + "\n")


def cancel() -> None:
    """Read as `look` does; what waits is ended at once, what runs gets a mark that is obeyed."""
    asked = json.load(sys.stdin)
    queue = Queue()
    names = queue.names("waiting")
    for run, attempt in asked["runs"]:
        folder = os.path.join(asked["root"], "runs", run)
        records = records_folder(folder, attempt)
        if not os.path.isdir(records) or read_attempt(folder, attempt)["state"] == "ended":
            continue
        write_new(os.path.join(records, "cancel"), "")
        name = names.get("%s-%d" % (run, attempt))
        if name and queue.pick(name):
            end_unstarted(records)
            queue.drop(name)
    queue.ensure_worker()


def list_runs() -> None:
    """Print every run that waits or runs, with the root and target it was added under."""
    queue = Queue()
    for place in ("waiting", "picked"):
        for name in sorted(queue.names(place).values()):
            entry = read_json(queue.path(place, name))
            if entry:
                answer(
                    {key: entry[key] for key in ("run", "attempt", "root", "target", "native_id")}
                )


def survey() -> None:
    """Print what this machine has."""
    from hardware import memory_mib, read_gpus, usable_cpus  # noqa: PLC0415

    answer(
        {
            "cpus": usable_cpus(),
            "memory_mib": memory_mib(),
            "gpus": read_gpus(),
            "python": ".".join(map(str, sys.version_info[:3])),
            "home": os.path.expanduser("~"),
        }
    )


def work(lock: int) -> None:
    """Work on the queue until nothing is left; `lock` is the inherited descriptor of the lock."""
    from worker import Worker  # noqa: PLC0415

    # A run that inherited it would hold the lock after our death.
    os.set_inheritable(lock, False)  # noqa: FBT003
    queue = Queue()
    while True:
        Worker(queue).run()
        fcntl.flock(lock, fcntl.LOCK_UN)
        # Whoever added something while we still held the lock counted on us.
        if not queue.keys() or not try_lock(lock):
            return


def answer(value: dict[str, Any]) -> None:
    """One line."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
