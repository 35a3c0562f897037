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
survey   say what this machine has; with `programs` also what it copies data with
capacity say what of it the runs hold, and how many wait
work     be the one that works on the queue (started by the others, detached)
serve    be an allocation that runs of one plan share
```
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any, Iterator

from entries import FORMAT, Entry, NewerFormat, entry_key
from files import read_json, write_new
from processes import processes_of, send_signal
from records import claimed, end_unstarted, read_attempt, records_folder
from waiting import Queue, kind_of, only_adder

ANSWER_EVERY_S = 0.1
COPIED = ("attempt", "target", "root", "plan", "native_id", "needs", "caps")


def main() -> None:
    """Do what the verb says."""
    verbs = {
        "add": add,
        "prepare": prepare,
        "look": look,
        "cancel": cancel,
        "list": list_runs,
        "survey": survey,
        "capacity": capacity,
    }
    os.umask(0o077)
    if sys.argv[1] == "work":
        from worker import work  # noqa: PLC0415 (only the worker needs it)

        work(sys.argv[2])
        return
    if sys.argv[1] == "serve":
        from allocation import serve  # noqa: PLC0415

        serve(*sys.argv[2:])
        return
    try:
        verbs[sys.argv[1]]()
    except OSError as error:
        answer({"error": "%s: %s" % (error.strerror, error.filename or "")})
        raise SystemExit(1) from error


def add() -> None:
    """Read a plan's lines and then one of secrets; print `{"ok": run}` for each that is in."""
    queue = Queue()
    queue.make()
    with only_adder(queue):
        known, order = queue.known(), queue.next_order()
        flushed_at = time.monotonic()
        for number, (job, folder, writer) in enumerate(read_plan()):
            waits = entry_key(job["run_id"], job["attempt"]) in known
            if not waits and not claimed(folder, job["attempt"]):
                writer.write(folder, os.path.join(folder, "work"), job)
                queue.put(make_entry(job, folder), order + number)
            sys.stdout.write(json.dumps({"ok": job["run_id"]}) + "\n")
            if time.monotonic() - flushed_at > ANSWER_EVERY_S:
                # The first runs need not wait until the last is written.
                queue.ensure_worker()
                sys.stdout.flush()
                flushed_at = time.monotonic()
    queue.ensure_worker()


def make_entry(job: dict[str, Any], folder: str) -> Entry:
    """What the queue keeps of a job."""
    kept = {name: job[name] for name in COPIED}
    return Entry({"format": FORMAT, "run": job["run_id"], **kept, "folder": folder})


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
    if header["format"] > FORMAT:
        answer({"error": "this host's launchbay is too old for these runs; update it"})
        raise SystemExit(1)
    writer = Writer(json.loads(lines.pop()))
    root = os.path.expanduser(header["root"])
    for line in lines:
        shared = {"target": header["target"], "root": root, "plan": header["plan"]}
        job = {**json.loads(line), **shared}
        yield job, os.path.join(root, "runs", job["run_id"]), writer


def look() -> None:
    """Read `{"root": …, "runs": [[run, attempt], …]}`; print one line for each."""
    asked = read_question()
    queue = Queue()
    # In this order: whatever leaves the queue has been claimed before.
    places = list_places(queue)
    if places:
        queue.ensure_worker()
    blocked = read_json(queue.path("blocked.json"))
    for run, attempt in asked["runs"]:
        key = entry_key(run, attempt)
        name, ahead = places.get(key, ("", None))
        if ahead is None:
            seen = read_attempt(os.path.join(asked["root"], "runs", run), attempt)
        if ahead is not None or (seen["state"] == "absent" and name):
            seen = {"state": "waiting", "ahead": ahead or 0, "why": blocked.get(kind_of(name), "")}
        elif seen["state"] == "absent":
            seen = find_absent(queue, key)
        sys.stdout.write(json.dumps({**seen, "run": run}) + "\n")


def read_question() -> dict[str, Any]:
    """The runs that are asked about; `~` in their root is the home here."""
    asked = json.load(sys.stdin)
    return {**asked, "root": os.path.expanduser(asked["root"])}


def list_places(queue: Queue) -> dict[str, tuple[str, int | None]]:
    """Run and attempt to its file name and how many are before it; None once it was picked."""
    # In this order: what moves on meanwhile is seen at least once.
    waiting = sorted(queue.names("waiting").items(), key=lambda item: item[1])
    places: dict[str, tuple[str, int | None]] = {
        key: (name, None) for key, name in queue.names("picked").items()
    }
    places.update({key: (name, ahead) for ahead, (key, name) in enumerate(waiting)})
    return places


def find_absent(queue: Queue, key: str) -> dict[str, Any]:
    """What is to be said of a run that did not begin, and was not in the queue a moment ago."""
    if key in queue.names("aside"):
        why = "it was set aside; `%s` says why" % queue.path("pack.log")
        return {"state": "lost", "why": why}
    # A worker may have put it back while we listed.
    if key in list_places(queue):
        return {"state": "waiting", "ahead": 0, "why": ""}
    return {"state": "lost", "why": "unknown"}


def cancel() -> None:
    """Read as `look` does; what waits is ended at once, what runs gets a mark that is obeyed."""
    asked = read_question()
    queue = Queue()
    names = queue.names("waiting")
    for run, attempt in asked["runs"]:
        folder = os.path.join(asked["root"], "runs", run)
        records = records_folder(folder, attempt)
        if read_attempt(folder, attempt)["state"] == "ended":
            continue
        # It may be yet to come; whoever brings it finds that it has ended.
        os.makedirs(records, exist_ok=True)
        write_new(os.path.join(records, "cancel"), "")
        key = entry_key(run, attempt)
        if key in names and queue.pick(names[key]):
            end_unstarted(records)
            queue.drop(names[key])
        elif key not in queue.names("picked") and not end_unstarted(records):
            # Nobody minds it: somebody runs it by hand.
            for pid in processes_of(folder, attempt, None):
                send_signal(pid, signal.SIGTERM)
    queue.ensure_worker()


def list_runs() -> None:
    """Print every run that waits or runs, with the root and target it was added under."""
    queue = Queue()
    for place in ("waiting", "picked"):
        for entry in read_entries(queue, place):
            kept = ("run", "attempt", "root", "target", "native_id")
            answer({key: entry.record[key] for key in kept})


def read_entries(queue: Queue, place: str) -> Iterator[Entry]:
    """What is there and can be read, in order."""
    for name in sorted(queue.names(place).values()):
        try:
            yield queue.read(place, name)
        except (OSError, ValueError, NewerFormat):
            continue


def capacity() -> None:
    """Print what this machine has, what of it runs hold, and which GPUs other people use."""
    import getpass  # noqa: PLC0415

    from hardware import busy_gpus, memory_mib, read_gpus, usable_cpus  # noqa: PLC0415

    queue = Queue()
    gpus, running = read_gpus(), list(read_entries(queue, "picked"))
    mine = {device for entry in running for device in entry.devices or ()}
    busy = busy_gpus() if gpus else set()
    answer(
        {
            "host": os.uname().nodename,
            "user": getpass.getuser(),
            "total": {"cpus": usable_cpus(), "memory_mib": memory_mib(), "gpus": len(gpus)},
            "held": {
                "cpus": sum(entry.cpus for entry in running),
                "memory_mib": sum(entry.memory_mib for entry in running),
                "gpus": sum(entry.gpus for entry in running),
            },
            "busy_gpus": sorted(index for index, _ in gpus if index in busy - mine),
            "running": len(running),
            "waiting": len(queue.names("waiting")),
        }
    )


def survey() -> None:
    """Print what this machine has."""
    from hardware import find_programs, memory_mib, read_gpus, usable_cpus  # noqa: PLC0415

    programs = {"programs": find_programs()} if "programs" in sys.argv[2:] else {}
    answer(
        {
            **programs,
            "cpus": usable_cpus(),
            "memory_mib": memory_mib(),
            "gpus": read_gpus(),
            "python": ".".join(map(str, sys.version_info[:3])),
            "home": os.path.expanduser("~"),
        }
    )


def answer(value: dict[str, Any]) -> None:
    """One line."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
