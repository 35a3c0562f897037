"""The queue of one user on one host: many runs, claimed one by one, each with its GPU slot.

Used as a program, `python pack.py VERB`, with JSON on standard input and JSON lines on standard
output. It stands alone: standard library only, Python 3.8 or newer, nothing imported from launchbay.

```text
add     take runs into the queue and see that somebody works on it
prepare make ready runs that somebody will start by hand
look    say what became of runs; changes nothing, but sees that somebody works on what waits
cancel  end runs, or keep them from starting
list    say which runs wait or run
survey  say what this machine has
work    be the one that works on the queue (started by the others, detached)
```

The queue lives in `${XDG_STATE_HOME:-~/.local/state}/launchbay/hosts/<hostname>/`:

```text
waiting/<order>.<kind>-<run>-<attempt>   asked for; a small JSON file
picked/…                                 taken by atomic rename; run.sh was or will be started for it
blocked.json                             why what waits is waiting, by kind
pack.log                                 what went wrong here
```

A worker holds a lock on local disk, so there is one. What it started does not need it: run.sh lives in
a session of its own, records its own end, and is adopted by the next worker. run.sh's claim decides
who runs an attempt, so a second start of the same one is harmless.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import select
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time

FORMAT = 1
HERE = os.path.dirname(os.path.abspath(__file__))
GRACE_S = 10.0
LINGER_S = 2.0
TICK_S = 0.2
OTHERS_EVERY_S = 10.0
CLAIM_AGE_S = 60.0
LOST_RACE = 75
TAIL_BYTES = 262144


def main():
    verbs = {
        "add": add,
        "prepare": prepare,
        "look": look,
        "cancel": cancel,
        "list": list_runs,
        "survey": survey,
        "work": work,
    }
    os.umask(0o077)
    try:
        verbs[sys.argv[1]](*sys.argv[2:])
    except OSError as error:
        answer({"error": "%s: %s" % (error.strerror, error.filename or "")})
        raise SystemExit(1) from error


# What each verb reads and prints.


def add():
    """Read a plan's lines and then one of secrets; print `{"ok": run}` for each that is in."""
    queue = Queue()
    known = queue.keys()
    for job, folder, write in read_plan():
        key = "%s-%d" % (job["run_id"], job["attempt"])
        if key not in known and not claimed(folder, job["attempt"]):
            write(os.path.join(folder, "work"))
            queue.put(job, folder, key)
        answer({"ok": job["run_id"]})
    queue.ensure_worker()


def prepare():
    """As `add`, but nothing is queued, and the runs' folder is the project itself."""
    for job, folder, write in read_plan():
        write(job["project_folder"])
        answer({"ok": job["run_id"], "folder": folder})


def read_plan():
    """Each job of the plan, its folder, and what writes it there given its working folder."""
    header = json.loads(sys.stdin.readline())
    lines = sys.stdin.read().splitlines()
    private = json.loads(lines.pop())
    if header["format"] > FORMAT:
        answer({"error": "this host's launchbay is too old for these runs; update it"})
        return
    templates = {}
    for line in lines:
        job = json.loads(line)
        job["target"], job["root"], job["plan"] = header["target"], header["root"], header["plan"]
        folder = os.path.join(header["root"], "runs", job["run_id"])
        yield job, folder, writer(folder, job, private, templates)


def writer(folder, job, private, templates):
    return lambda work: write_run(folder, work, job, private, make_template(job, templates))


def look():
    """Read `{"root": …, "runs": [[run, attempt], …]}`; print one line for each."""
    asked = json.load(sys.stdin)
    queue = Queue()
    # In this order: whatever leaves the queue has been claimed before.
    places = queue.places()
    if places:
        queue.ensure_worker()
    blocked = read_json(queue.path("blocked.json"), {})
    for run, attempt in asked["runs"]:
        folder = os.path.join(asked["root"], "runs", run)
        seen = read_attempt(folder, attempt)
        if seen["state"] == "absent":
            place = places.get("%s-%d" % (run, attempt))
            seen = {"state": "waiting"} if place else {"state": "lost", "why": "unknown"}
            if place:
                name, seen["ahead"] = place
                seen["why"] = blocked.get(kind_of(name), "")
        seen["run"] = run
        answer(seen)


def cancel():
    """Read as `look` does; what waits is ended at once, what runs gets a mark that is obeyed."""
    asked = json.load(sys.stdin)
    queue = Queue()
    names = queue.names("waiting")
    for run, attempt in asked["runs"]:
        folder = os.path.join(asked["root"], "runs", run)
        records = os.path.join(folder, "attempts", str(attempt))
        if not os.path.isdir(records) or read_attempt(folder, attempt)["state"] == "ended":
            continue
        write_file(os.path.join(records, "cancel"), "")
        name = names.get("%s-%d" % (run, attempt))
        if name and queue.pick(name):
            end_unstarted(records)
            queue.drop(name)
    queue.ensure_worker()


def end_unstarted(records):
    """Take the claim, so that nobody starts it, and record its end."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(os.path.join(records, "claim"))
        record_exit(records, None)


def list_runs():
    """Print every run that waits or runs, with the root and target it was added under."""
    queue = Queue()
    for place in ("waiting", "picked"):
        for name in sorted(queue.names(place).values()):
            entry = read_json(queue.path(place, name), None)
            if entry:
                answer({key: entry[key] for key in ("run", "attempt", "root", "target", "plan")})


def survey():
    """Print what this machine has."""
    answer(
        {
            "cpus": usable_cpus(),
            "memory_mib": memory_mib(),
            "gpus": read_gpus(),
            "python": ".".join(map(str, sys.version_info[:3])),
            "home": os.path.expanduser("~"),
        }
    )


def work(lock):
    """Work on the queue until nothing is left; `lock` is the inherited descriptor of the lock."""
    descriptor = int(lock)
    # A run that inherited it would hold the lock after our death.
    os.set_inheritable(descriptor, False)
    queue = Queue()
    while True:
        Worker(queue).run()
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        # Whoever added something while we still held the lock counted on us.
        if not queue.keys() or not try_lock(descriptor):
            return


def answer(value):
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


# The queue's files.


class Queue:
    """The folder that all runs of this user on this host wait in."""

    def __init__(self):
        state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
        self.folder = os.path.join(state, "launchbay", "hosts", os.uname().nodename)
        for place in ("waiting", "picked"):
            os.makedirs(self.path(place), mode=0o700, exist_ok=True)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def names(self, place):
        """Run and attempt to file name."""
        return {
            name.partition("-")[2]: name for name in os.listdir(self.path(place)) if name[0] != "."
        }

    def keys(self):
        return {**self.names("waiting"), **self.names("picked")}

    def places(self):
        """Run and attempt to its file name and how many are before it."""
        names = sorted(self.names("waiting").values())
        found = {name.partition("-")[2]: (name, ahead) for ahead, name in enumerate(names)}
        for key, name in self.names("picked").items():
            found.setdefault(key, (name, 0))
        return found

    def put(self, job, folder, key):
        copied = ("attempt", "target", "root", "plan", "needs", "caps")
        entry = {name: job[name] for name in copied}
        entry.update(run=job["run_id"], folder=folder)
        kind = digest([job["needs"], job["caps"]])
        write_file(
            self.path("waiting", "%020d.%s-%s" % (time.time_ns(), kind, key)), json.dumps(entry)
        )

    def pick(self, name):
        """Whether it is ours now."""
        source, target = self.path("waiting", name), self.path("picked", name)
        try:
            os.rename(source, target)
        except FileNotFoundError:
            return False
        return True

    def unpick(self, name):
        with contextlib.suppress(FileNotFoundError):
            os.rename(self.path("picked", name), self.path("waiting", name))

    def drop(self, name):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path("picked", name))

    def ensure_worker(self):
        """Start a worker unless there is one, or nothing to do."""
        if not self.keys():
            return
        descriptor = open_lock(self.folder)
        if not try_lock(descriptor):
            os.close(descriptor)
            return
        os.set_inheritable(descriptor, True)
        with open(self.path("pack.log"), "a") as log:
            subprocess.Popen(
                [sys.executable, "-S", "-E", os.path.abspath(__file__), "work", str(descriptor)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                pass_fds=[descriptor],
                start_new_session=True,
                cwd="/",
                env=plain_environment(),
            )
        os.close(descriptor)


def kind_of(name):
    """Runs of one kind need the same and are limited alike."""
    return name.partition("-")[0].partition(".")[2]


def digest(value):
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:8]


def open_lock(folder):
    """The worker's lock, on local disk: locks on a network one are not to be trusted."""
    private = os.path.join("/tmp", "launchbay-%d" % os.getuid())
    os.makedirs(private, mode=0o700, exist_ok=True)
    info = os.lstat(private)
    if info.st_uid != os.getuid() or not stat.S_ISDIR(info.st_mode):
        raise SystemExit("%s belongs to somebody else" % private)
    name = hashlib.sha256(folder.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return os.open(os.path.join(private, name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)


def try_lock(descriptor):
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def plain_environment():
    """What a program needs that brings its own environment along."""
    kept = ("HOME", "PATH", "XDG_STATE_HOME", "LANG", "LC_ALL", "TMPDIR", "USER", "LOGNAME")
    return {name: os.environ[name] for name in kept if name in os.environ}


# A run's folder.


def write_run(folder, work, job, private, template):
    """Everything that run.sh needs; the queue's entry comes after it."""
    records = os.path.join(folder, "attempts", str(job["attempt"]))
    os.makedirs(records, mode=0o700, exist_ok=True)
    make_outputs(folder, job, template, again=has(records, "job.json"))
    write_file(os.path.join(records, "job.json"), json.dumps(job))
    write_file(os.path.join(folder, "job.json"), json.dumps(job))
    write_file(os.path.join(folder, "params.json"), json.dumps(job["params"]))
    words = job["words"]
    command = "exec " + " ".join(map(shlex.quote, words)) + "\n" if words else job["script"]
    write_file(os.path.join(folder, "command.sh"), command)
    write_or_remove(os.path.join(folder, "setup.sh"), job["setup"])
    write_file(os.path.join(folder, "env.sh"), render_env(folder, work, job, private, template))
    values = {name: private["secrets"][name] for name in job["secrets"]}
    write_or_remove(os.path.join(folder, "secrets.sh"), render_exports(values))


def make_outputs(folder, job, template, again):
    """`out/` and the folders in it that the program may write; the same for all attempts."""
    out = os.path.join(folder, "out")
    if job["fresh"] and os.path.isdir(out) and not again:
        os.rename(out, free_name(out))
    os.makedirs(out, mode=0o700, exist_ok=True)
    for name in job["outputs"]:
        place = os.path.join(out, name)
        if name in template.seeds:
            seed = os.path.join(job["root"], "snapshots", job["snapshot"], name)
            if not os.path.isdir(place):
                shutil.copytree(seed, place, symlinks=True, copy_function=link_or_copy)
        else:
            os.makedirs(place, exist_ok=True)


def free_name(path):
    number = 1
    while os.path.exists("%s.%d" % (path, number)):
        number += 1
    return "%s.%d" % (path, number)


def render_env(folder, work, job, private, template):
    """What run.sh reads first: the shell's environment, then the run's own."""
    values = dict(private["environment"])
    values["PYTHONPATH"] = python_path(
        values.get("PYTHONPATH", ""), job["project_folder"], work, template
    )
    values["PYTHONUNBUFFERED"] = "1"
    values.update(tracker_defaults(job, os.path.join(folder, "out"), values))
    values.update(job["env"])
    values.update(
        {
            "BAY_RUN_ID": job["run_id"],
            "BAY_NAME": job["name"],
            "BAY_PARAMS": os.path.join(folder, "params.json"),
            "BAY_OUT": os.path.join(folder, "out"),
            "BAY_TARGET": job["target"],
        }
    )
    if job["origin"]:
        values["BAY_FROM"] = job["origin"]
    lines = [
        "umask %s" % private["umask"],
        render_exports(values),
        "bay_tree=%s" % shlex.quote(template.path),
        "bay_subfolder=%s" % shlex.quote(job["subfolder"]),
        "bay_command=%s" % ("words" if job["words"] else "script"),
    ]
    return "\n".join(lines) + "\n"


def python_path(existing, project, work, template):
    """The frozen code first, so that an editable install of the project does not win over it."""
    entries = [work]
    if os.path.isdir(os.path.join(template.path, "src")):
        entries.append(os.path.join(work, "src"))
    for entry in existing.split(os.pathsep):
        if project and (entry == project or entry.startswith(project + os.sep)):
            entry = os.path.join(work, os.path.relpath(entry, project))  # noqa: PLW2901
        if entry and os.path.normpath(entry) not in entries:
            entries.append(os.path.normpath(entry))
    return os.pathsep.join(entries)


def tracker_defaults(job, out, values):
    """Names for a tracker, unless somebody gave their own."""
    given = {
        "WANDB_NAME": job["name"],
        "WANDB_RUN_GROUP": job["experiment"],
        "WANDB_RUN_ID": job["run_id"],
        "WANDB_RESUME": "allow",
        "WANDB_DIR": out,
    }
    return {name: value for name, value in given.items() if name not in values}


def render_exports(values):
    names = [name for name in sorted(values) if re.match(r"[A-Za-z_][A-Za-z0-9_]*\Z", name)]
    return "\n".join("export %s=%s" % (name, shlex.quote(values[name])) for name in names)


class Template:
    """The frozen tree with links to what stays outside it; run folders are copies of this."""

    def __init__(self, path, seeds):
        self.path = path
        self.seeds = seeds


def make_template(job, made):
    if not job["snapshot"]:
        return Template("", ())
    kind = digest([sorted(job["links"].items()), job["outputs"]])
    path = os.path.join(job["root"], "trees", "%s-%s" % (job["snapshot"], kind))
    if path in made:
        return made[path]
    source = os.path.join(job["root"], "snapshots", job["snapshot"])
    # Output folders that the code itself has: their files move to where outputs are.
    seeds = [name for name in job["outputs"] if os.path.isdir(os.path.join(source, name))]
    if not os.path.isdir(path):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        draft = "%s.%d" % (path, os.getpid())
        fill_template(source, draft, job)
        try:
            os.rename(draft, path)
        except OSError as error:
            # Somebody else made the same one meanwhile.
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            shutil.rmtree(draft)
    made[path] = Template(path, seeds)
    return made[path]


def fill_template(source, draft, job):
    shutil.copytree(source, draft, symlinks=True, copy_function=link_or_copy)
    for inside, outside in job["links"].items():
        place = os.path.join(draft, inside)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.symlink(outside, place)
    for name in job["outputs"]:
        place = os.path.join(draft, name)
        if os.path.isdir(place) and not os.path.islink(place):
            shutil.rmtree(place)
        if not os.path.lexists(place):
            os.makedirs(os.path.dirname(place), exist_ok=True)
            os.symlink(os.path.join(*[".."] * (name.count("/") + 1), "out", name), place)


def link_or_copy(source, target):
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


# What a run recorded.


def claimed(folder, attempt):
    return os.path.isdir(os.path.join(folder, "attempts", str(attempt), "claim"))


def read_attempt(folder, attempt):
    """The state `absent`, `running`, `ended` or `lost` of one attempt, and what is known of it."""
    records = os.path.join(folder, "attempts", str(attempt))
    events = read_events(records)
    if "exit" not in events and "started" in events and not lives(events["started"]):
        # It may have ended between the two looks.
        events = read_events(records)
    started, ended = events.get("started", {}), events.get("exit")
    seen = {
        "started": started.get("at"),
        "host": started.get("host"),
        "devices": started.get("devices"),
    }
    if ended:
        seen.update(ended)
        seen["ended"] = ended["at"]
        seen["state"] = "ended"
        seen["stop"] = next((mark for mark in ("cancel", "timeout") if has(records, mark)), "")
    elif started:
        alive = lives(started)
        seen["state"] = "running" if alive else "lost"
        seen["why"] = "" if alive else death(started)
    elif has(records, "claim"):
        young = time.time() - os.stat(os.path.join(records, "claim")).st_mtime < CLAIM_AGE_S
        seen["state"] = "running" if young else "lost"
        seen["why"] = "" if young else "it was claimed and never started"
    else:
        seen["state"] = "absent"
    if started:
        seen["metrics"] = read_metrics(folder, records)
    return seen


def read_events(records):
    """The last event of each kind; a line that is no JSON is half written and left out."""
    events = {}
    for line in read_text(os.path.join(records, "events.jsonl")).splitlines():
        with contextlib.suppress(ValueError):
            event = json.loads(line)
            events[event["event"]] = event
    return events


def read_metrics(folder, records):
    """The last value of each metric: from the log by pattern, then from `metrics.jsonl`."""
    metrics = {}
    patterns = read_json(os.path.join(records, "job.json"), {}).get("metrics", {})
    if patterns:
        log = read_text(os.path.join(records, "log-0.txt"), tail=True)
        for name, pattern in patterns.items():
            found = re.findall(pattern, log)
            if found:
                last = found[-1]
                metrics[name] = number(last if isinstance(last, str) else last[0])
    for path in (
        os.path.join(folder, "out", "metrics.jsonl"),
        os.path.join(records, "metrics.jsonl"),
    ):
        text = read_text(path, tail=True)
        if text:
            metrics.update(last_values(text))
            break
    return metrics


def last_values(text):
    metrics = {}
    for line in text.splitlines():
        with contextlib.suppress(ValueError):
            row = json.loads(line)
            if isinstance(row, dict):
                kept = {
                    key: value for key, value in row.items() if isinstance(value, (int, float, str))
                }
                metrics.update(kept)
    return metrics


def number(text):
    try:
        return float(text)
    except ValueError:
        return text


def lives(started):
    """Whether the very process that wrote `started` is still there."""
    if started["boot"] and started["boot"] != boot_id():
        return False
    if started["start"]:
        return start_ticks(started["pid"]) == started["start"]
    return exists(started["pid"])


def death(started):
    if started["boot"] and started["boot"] != boot_id():
        return "the machine was restarted"
    return "its process is gone and left no exit record"


def start_ticks(pid):
    fields = read_text("/proc/%d/stat" % pid).rpartition(")")[2].split()
    # A zombie has ended; its parent has not noticed.
    return fields[19] if fields and fields[0] != "Z" else ""


def boot_id():
    return read_text("/proc/sys/kernel/random/boot_id").strip()


def exists(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def record_exit(records, code, why=""):
    event = {
        "event": "exit",
        "at": round(time.time(), 2),
        "code": code,
        "signal": "",
        "phase": "command",
    }
    event["why"] = why
    with open(os.path.join(records, "events.jsonl"), "a") as file:
        file.write(json.dumps(event) + "\n")


# Files.


def has(folder, name):
    return os.path.exists(os.path.join(folder, name))


def read_text(path, tail=False):
    """The file's text, or its end; empty where there is none."""
    try:
        with open(path, "rb") as file:
            if tail:
                file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def read_json(path, default):
    try:
        return json.loads(read_text(path) or "null") or default
    except ValueError:
        return default


def write_file(path, text):
    """The whole file or none of it, mode 600."""
    draft = os.path.join(os.path.dirname(path), ".%s.%d" % (os.path.basename(path), os.getpid()))
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text.encode("utf-8", "surrogateescape"))
    os.replace(draft, path)


def write_or_remove(path, text):
    if text:
        write_file(path, text)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


# This machine.


def usable_cpus():
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_mib():
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (1 << 20)
    except (ValueError, OSError):
        return None


def read_gpus():
    """Id and name of each GPU; exactly those of CUDA_VISIBLE_DEVICES in a batch allocation."""
    rows = ask_nvidia("--query-gpu=index,uuid,name")
    given = os.environ.get("CUDA_VISIBLE_DEVICES") if os.environ.get("SLURM_JOB_ID") else None
    if given is None:
        return [[index, name] for index, _, name in rows]
    names = {key: name for index, uuid, name in rows for key in (index, uuid)}
    return [[item, names.get(item, "")] for item in given.split(",") if item]


def busy_gpus():
    """Ids of the GPUs on which other people's processes run."""
    index_of = {uuid: index for index, uuid in ask_nvidia("--query-gpu=index,uuid")}
    busy = set()
    for uuid, pid in ask_nvidia("--query-compute-apps=gpu_uuid,pid"):
        try:
            others = os.stat("/proc/%s" % pid).st_uid != os.getuid()
        except OSError:
            # Outside our view of processes, so not one of ours.
            others = True
        if others:
            busy.add(index_of.get(uuid, uuid))
    return busy


def ask_nvidia(query):
    try:
        done = subprocess.run(
            ["nvidia-smi", query, "--format=csv,noheader"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    if done.returncode:
        return []
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    return [[part.strip() for part in line.split(",")] for line in lines if line.strip()]


# The worker.


class Live:
    """A run that was started, by us or by a worker before us."""

    def __init__(self, name, entry, pid=None):
        self.name = name
        self.entry = entry
        self.records = os.path.join(entry["folder"], "attempts", str(entry["attempt"]))
        self.child = pid is not None
        self.pid = pid
        self.began = time.time()
        self.kill_at = None
        self.ended = False

    def find(self):
        """Who runs it, when it is not our child; it may not have said so yet."""
        self.child = False
        started = read_events(self.records).get("started")
        self.pid = started and started["pid"]
        self.began = started["at"] if started else self.began

    def gone(self):
        """Whether somebody else's run.sh has ended."""
        if self.pid is None:
            self.find()
        return read_attempt(self.entry["folder"], self.entry["attempt"])["state"] in (
            "ended",
            "lost",
        )

    def overdue(self, now):
        limit = self.entry["needs"].get("time_s")
        return limit is not None and now > self.began + limit


class Worker:
    """Starts what waits, as far as there is room; ends what must end; notes what ended."""

    def __init__(self, queue):
        self.queue = queue
        self.live = {}
        self.groups = {}
        self.listed = None
        self.listed_at = 0.0
        self.blocked = {}
        self.others = (0.0, set())
        self.cpus = usable_cpus()
        self.memory_mib = memory_mib() or 0
        self.environment = plain_environment()
        self.environment["BAY_UID"] = str(os.getuid())
        uptime = read_text("/proc/uptime").split()
        if uptime:
            self.environment["BAY_BOOT_CS"] = str(round((time.time() - float(uptime[0])) * 100))

    def run(self):
        wakeup, self.wakeup = os.pipe()
        os.set_blocking(wakeup, False)
        os.set_blocking(self.wakeup, False)
        signal.set_wakeup_fd(self.wakeup)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.adopt()
        busy_at = time.time()
        while True:
            self.reap()
            self.obey()
            self.start()
            if self.live or self.groups:
                busy_at = time.time()
            elif time.time() - busy_at > LINGER_S:
                return
            select.select([wakeup], [], [], TICK_S)
            with contextlib.suppress(BlockingIOError):
                os.read(wakeup, 4096)

    def adopt(self):
        """Take over what an earlier worker had picked."""
        for name in sorted(self.queue.names("picked").values()):
            entry = read_json(self.queue.path("picked", name), None)
            if entry is None:
                self.queue.drop(name)
            elif claimed(entry["folder"], entry["attempt"]):
                self.adopt_claimed(name, entry)
            elif entry["needs"].get("gpus") and "devices" not in entry:
                # Picked, and the worker died before it chose devices: nobody has started it.
                self.queue.unpick(name)
            else:
                # It may just be starting: the same devices again, and its claim decides.
                self.spawn(name, entry)

    def adopt_claimed(self, name, entry):
        live = Live(name, entry)
        if live.gone():
            self.queue.drop(name)
        else:
            self.live[name] = live

    def reap(self):
        """Note which runs have ended."""
        codes = {}
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, code = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    break
                codes[pid] = code
        for live in list(self.live.values()):
            if live.child and live.pid in codes:
                self.note_end(live, codes[live.pid])
            elif not live.child and not live.ended and live.gone():
                live.ended = True
            if live.ended and not self.stragglers(live):
                self.finish(live)

    def note_end(self, live, code):
        """run.sh records its own end; if it was killed, we do."""
        if os.WIFEXITED(code) and os.WEXITSTATUS(code) == LOST_RACE:
            live.find()
            return
        live.ended = True
        if "exit" in read_events(live.records):
            return
        killed = os.WTERMSIG(code) if os.WIFSIGNALED(code) else 0
        why = (
            "run.sh was killed by signal %d" % killed
            if killed
            else "run.sh could not record its end"
        )
        with contextlib.suppress(OSError):
            record_exit(live.records, 128 + killed if killed else os.WEXITSTATUS(code), why)

    def stragglers(self, live):
        """Whether processes of an ended run are still there; they are told to go."""
        if live.pid is None or not left_behind(live):
            return False
        if live.kill_at is None:
            live.kill_at = time.time() + GRACE_S
            for pid in processes_of(live.entry["run"], live.pid):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGTERM)
        return True

    def finish(self, live):
        for name in os.listdir(os.path.join(live.entry["folder"], "out")):
            # Folders that the program never used.
            with contextlib.suppress(OSError):
                os.rmdir(os.path.join(live.entry["folder"], "out", name))
        self.queue.drop(live.name)
        del self.live[live.name]

    def obey(self):
        """End what was cancelled, what is over its time, and what did not go when told to."""
        now = time.time()
        for live in self.live.values():
            if live.kill_at is None and not live.ended:
                if has(live.records, "cancel"):
                    self.stop(live)
                elif live.overdue(now):
                    write_file(os.path.join(live.records, "timeout"), "")
                    self.stop(live)
            elif live.kill_at is not None and now > live.kill_at:
                self.kill(live)
                live.kill_at = now + GRACE_S

    def stop(self, live):
        """run.sh passes it on to its group."""
        live.kill_at = time.time() + live.entry["needs"].get("grace_s", GRACE_S)
        if live.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(live.pid, signal.SIGTERM)

    def kill(self, live):
        """Everything of the run but run.sh, which then records the end; the second time also that."""
        found = processes_of(live.entry["run"], live.pid) - {live.pid}
        for pid in found or {live.pid} - {None}:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def start(self):
        """Start what there is room for, in order; nobody overtakes somebody who needs the same."""
        self.list_waiting()
        blocked = {}
        progress = True
        while progress:
            progress = False
            blocked = {}
            scarce = set()
            for name in sorted(names[0] for names in self.groups.values()):
                entry = read_json(self.queue.path("waiting", name), None)
                obstacle, kind, devices = self.obstacle(entry, scarce) if entry else ("", "", None)
                if obstacle:
                    blocked[kind_of(name)] = obstacle
                    scarce.add(kind)
                    continue
                self.remove_head(kind_of(name))
                if entry and self.queue.pick(name):
                    self.begin(name, entry, devices)
                progress = True
                break
        if blocked != self.blocked:
            self.blocked = blocked
            with contextlib.suppress(OSError):
                write_file(self.queue.path("blocked.json"), json.dumps(blocked))

    def remove_head(self, kind):
        self.groups[kind].pop(0)
        if not self.groups[kind]:
            del self.groups[kind]

    def list_waiting(self):
        """Read the folder again when it has changed, grouped by what the runs need."""
        changed = os.stat(self.queue.path("waiting")).st_mtime_ns
        # Its time is coarse: a change right after a look may carry the same.
        if self.listed == changed and time.time_ns() - changed > 100_000_000:
            return
        # Our own picks change it too, and a long list is dear to read.
        if self.groups and time.time() - self.listed_at < TICK_S:
            return
        self.listed_at = time.time()
        self.groups = {}
        for name in sorted(self.queue.names("waiting").values()):
            self.groups.setdefault(kind_of(name), []).append(name)
        self.listed = changed

    def obstacle(self, entry, scarce):
        """Why it cannot start now, what is scarce, and otherwise the devices to give it."""
        for cap, (most, meaning) in sorted(entry["caps"].items()):
            if sum(cap in live.entry["caps"] for live in self.live.values()) >= most:
                return "%s lets %d run at once" % (meaning, most), cap, None
        needs = entry["needs"]
        for kind, have in (("cpus", self.cpus), ("memory_mib", self.memory_mib)):
            wanted = needs.get(kind)
            used = sum(live.entry["needs"].get(kind) or 0 for live in self.live.values())
            if wanted and (kind in scarce or used + wanted > have):
                free = max(0, have - used)
                return (
                    "it needs %g %s, %g are free" % (wanted, kind.replace("_mib", " MiB"), free),
                    kind,
                    None,
                )
        if needs.get("gpus"):
            if "gpus" in scarce:
                return "another run waits for GPUs before it", "gpus", None
            devices = self.choose_devices(needs)
            if devices is None:
                return "it needs %g GPU, too few are free" % needs["gpus"], "gpus", None
            return "", "", devices
        return "", "", None

    def choose_devices(self, needs):
        """Whole ones that nobody has, or the fullest that still has room for a fraction."""
        wanted, allowed = needs["gpus"], needs["devices"]
        used = dict.fromkeys(allowed, 0.0)
        for live in self.live.values():
            share = min(1.0, live.entry["needs"].get("gpus") or 0)
            for device in live.entry.get("devices") or []:
                used[device] = used.get(device, 0.0) + share
        if needs.get("auto"):
            allowed = [device for device in allowed if device not in self.others_busy()]
        if wanted >= 1:
            free = [device for device in allowed if not used[device]]
            return free[: int(wanted)] if len(free) >= wanted else None
        room = [device for device in allowed if used[device] + wanted <= 1 + 1e-9]
        return [max(room, key=lambda device: used[device])] if room else None

    def others_busy(self):
        seen_at, busy = self.others
        if time.time() - seen_at > OTHERS_EVERY_S:
            busy = busy_gpus()
            self.others = (time.time(), busy)
        return busy

    def begin(self, name, entry, devices):
        if devices is not None:
            entry["devices"] = devices
            # Before it starts: whoever adopts it must know what it holds.
            write_file(self.queue.path("picked", name), json.dumps(entry))
        self.spawn(name, entry)

    def spawn(self, name, entry):
        environment = dict(self.environment)
        if "devices" in entry or entry["needs"].get("hide_gpus"):
            environment["BAY_DEVICES"] = ",".join(entry.get("devices") or [])
        argv = ["/bin/sh", os.path.join(HERE, "run.sh"), entry["folder"], str(entry["attempt"])]
        try:
            pid = spawn_session(argv, environment)
        except OSError as error:
            sys.stderr.write("%s: %s\n" % (entry["run"], error))
            self.queue.unpick(name)
            self.listed = None
            time.sleep(1)
            return
        self.live[name] = Live(name, entry, pid)


def spawn_session(argv, environment):
    null = os.open(os.devnull, os.O_RDWR)
    try:
        actions = [(os.POSIX_SPAWN_DUP2, null, descriptor) for descriptor in (0, 1, 2)]
        return os.posix_spawn(argv[0], argv, environment, file_actions=actions, setsid=True)
    except NotImplementedError:
        return subprocess.Popen(
            argv, env=environment, stdin=null, stdout=null, stderr=null, start_new_session=True
        ).pid
    finally:
        os.close(null)


def left_behind(live):
    """Whether the run's group has members; for a GPU's sake also what has left the group."""
    if live.entry.get("devices"):
        return bool(processes_of(live.entry["run"], live.pid))
    try:
        os.killpg(live.pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def processes_of(run, group):
    """Ids of our processes that carry the run's id or belong to its group."""
    mark = ("BAY_RUN_ID=%s" % run).encode()
    found = set()
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if not name.isdigit():
            continue
        try:
            with open("/proc/%s/environ" % name, "rb") as file:
                carries = mark in file.read().split(b"\0")
            fields = read_text("/proc/%s/stat" % name).rpartition(")")[2].split()
        except OSError:
            continue
        if (carries or (len(fields) > 2 and fields[2] == str(group))) and fields[:1] != ["Z"]:
            found.add(int(name))
    return found


if __name__ == "__main__":
    main()
