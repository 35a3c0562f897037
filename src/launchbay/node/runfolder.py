"""Making ready a run's folder: everything that run.sh needs."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shlex
import shutil
from typing import Any, Dict

from files import digest, draft_name, has, link_or_copy, write_new, write_or_remove, write_whole
from records import records_folder

Job = Dict[str, Any]
SMALL_FILES = 64
SMALL_BYTES = 65536
# Not those of run.sh, which is the shell that reads them.
NAME = re.compile(r"(?!bay_)[A-Za-z_][A-Za-z0-9_]*\Z")
UNSETTABLE = frozenset(
    ["UID", "EUID", "PPID", "SHELLOPTS", "BASHOPTS", "BASH_VERSINFO", "OPTIND", "OPTARG", "_"]
)
"""Setting one ends the shell that tries, or is undone by it."""


class Writer:
    """Writes the folders of a plan's runs; what they share is made once."""

    def __init__(self, private: dict[str, Any], *, ahead: bool = True) -> None:
        self._ahead = ahead
        self._secrets = private["secrets"]
        self._umask = private["umask"]
        self._shell = private["environment"]
        self._exports = render_exports(self._shell)
        self._trees: dict[str, str] = {}
        self._small: dict[str, bool] = {}

    def write(self, folder: str, work: str, job: Job, tree: str | None = None) -> None:
        """Write the run's folder, whose working folder will be `work`, of `tree` or its code."""
        tree = self._tree(job) if tree is None else tree
        records = records_folder(folder, job["attempt"])
        again = has(records, "job.json")
        os.makedirs(records, mode=0o700, exist_ok=True)
        if job["attempt"] > 1 or again:
            self._tidy(folder, job, again)
        os.makedirs(os.path.join(folder, "out"), mode=0o700, exist_ok=True)
        own = work == os.path.join(folder, "work") and job["attempt"] == 1 and not again
        ready = self._ahead and own and self._make_work(work, tree)
        # Only a further attempt has files that somebody may be reading.
        write = write_new if job["attempt"] == 1 else write_whole
        write(os.path.join(records, "job.json"), json.dumps(job))
        _publish(os.path.join(records, "job.json"), os.path.join(folder, "job.json"))
        write(os.path.join(folder, "params.json"), json.dumps(nest(job["params"])))
        write(os.path.join(folder, "command.sh"), render_command(job))
        write(os.path.join(folder, "env.sh"), self._render_env(folder, work, job, tree, ready))
        values = {name: self._secrets[name] for name in job["secrets"]}
        setup = job.get("entry", "") + job["setup"]
        for name, text in (("setup.sh", setup), ("secrets.sh", render_secrets(values))):
            if text or job["attempt"] > 1 or again:
                write_or_remove(os.path.join(folder, name), text)

    def _tidy(self, folder: str, job: Job, again: bool) -> None:  # noqa: FBT001
        """What an earlier attempt left: outputs that nobody moved, or old ones not wanted."""
        keep_outputs(folder, job["outputs"])
        out = os.path.join(folder, "out")
        if job["fresh"] and not again and os.path.isdir(out):
            os.rename(out, free_name(out))

    def _make_work(self, work: str, tree: str) -> bool:
        """Whether the working folder is made: for a little code that is cheaper here than later."""
        if tree not in self._small:
            self._small[tree] = not tree or is_small(tree)
        if not self._small[tree] or os.path.lexists(work):
            return False
        if not tree:
            os.mkdir(work)
            return True
        # Root can write what is read-only: hard links would let one run change the code of all.
        copy = link_or_copy if os.getuid() else shutil.copy2
        shutil.copytree(tree, work, symlinks=True, copy_function=copy)
        return True

    def _render_env(
        self,
        folder: str,
        work: str,
        job: Job,
        tree: str,
        ready: bool,  # noqa: FBT001
    ) -> str:
        """What run.sh reads first: the shell's environment, then the run's own over it."""
        out = os.path.join(folder, "out")
        # Added to, whoever set it.
        existing = job["env"].get("PYTHONPATH", self._shell.get("PYTHONPATH", ""))
        own = {
            "PYTHONUNBUFFERED": "1",
            **{k: v for k, v in tracker_names(job, out).items() if k not in self._shell},
            **job["env"],
            "PYTHONPATH": python_path(existing, job["project_folder"], work, tree),
            "BAY_RUN_ID": job["run_id"],
            "BAY_NAME": job["name"],
            "BAY_PARAMS": os.path.join(folder, "params.json"),
            "BAY_OUT": out,
            "BAY_TARGET": job["target"],
        }
        if job["origin"]:
            # Below the root, where it is not a path of its own.
            own["BAY_FROM"] = os.path.join(job["root"], job["origin"])
        lines = [
            "umask %s" % self._umask,
            self._exports,
            render_exports(own),
            "bay_tree=%s" % shlex.quote(tree),
            "bay_subfolder=%s" % shlex.quote(job["subfolder"]),
            "bay_command=%s" % ("words" if job["words"] else "script"),
            "bay_ready=%s" % ("1" if ready else ""),
            "bay_hold=%d" % job.get("policy", {}).get("hold_s", 0),
            "each_output() {",
            ":",
            *('"$1" %s' % shlex.quote(name) for name in job["outputs"]),
            "}",
        ]
        return "\n".join(lines) + "\n" + str(job.get("carriage", ""))

    def _tree(self, job: Job) -> str:
        """The frozen code with links to what stays outside it; working folders are copies of it."""
        if not job["snapshot"]:
            return ""
        source = os.path.join(job["root"], "snapshots", job["snapshot"])
        if not job["links"]:
            return source
        name = "%s-%s" % (job["snapshot"], digest(sorted(job["links"].items())))
        if name not in self._trees:
            self._trees[name] = os.path.join(job["root"], "trees", name)
            make_tree(self._trees[name], source, job["links"])
        return self._trees[name]


def nest(params: dict[str, str]) -> dict[str, Any]:
    """The parameters as a program wants them: `m.lr` is `lr` inside of `m`."""
    nested: dict[str, Any] = {}
    for key, value in params.items():
        *above, last = key.split(".")
        place: Any = nested
        for part in above:
            place = place.setdefault(part, {}) if isinstance(place, dict) else None
        # What is a value already cannot hold another one.
        if isinstance(place, dict) and not isinstance(place.get(last), dict):
            place[last] = value
        else:
            nested[key] = value
    return nested


def is_small(tree: str) -> bool:
    """Whether the tree is a few small files."""
    files = 0
    for folder, _, names in os.walk(tree):
        files += len(names)
        sizes = (os.lstat(os.path.join(folder, name)).st_size for name in names[:SMALL_FILES])
        if files > SMALL_FILES or any(size > SMALL_BYTES for size in sizes):
            return False
    return True


def _publish(source: str, target: str) -> None:
    """A second name for a file, in the place of what had it."""
    draft = draft_name(target)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(draft)
    link_or_copy(source, draft)
    os.replace(draft, target)


def keep_outputs(folder: str, names: list[str]) -> None:
    """Move to `out/` what a run that could not do so itself left in its working folder."""
    for name in names:
        source, place = (os.path.join(folder, part, name) for part in ("work", "out"))
        if os.path.islink(source) or not os.path.isdir(source):
            continue
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if os.path.isdir(place):
            shutil.copytree(source, place, symlinks=True, dirs_exist_ok=True)
            shutil.rmtree(source)
        else:
            os.rename(source, place)


def free_name(path: str) -> str:
    """`path.1`, or the first number that is free."""
    number = 1
    while os.path.exists("%s.%d" % (path, number)):
        number += 1
    return "%s.%d" % (path, number)


def render_command(job: Job) -> str:
    """What `command.sh` holds."""
    if job["words"]:
        return "exec " + " ".join(map(shlex.quote, job["words"])) + "\n"
    return str(job["script"])


def python_path(existing: str, project: str, work: str, tree: str) -> str:
    """The frozen code first, so that an editable install of the project does not win over it."""
    entries = [work]
    if tree and os.path.isdir(os.path.join(tree, "src")):
        entries.append(os.path.join(work, "src"))
    for given in existing.split(os.pathsep):
        inside = project and (given == project or given.startswith(project + os.sep))
        relative = given and not os.path.isabs(given)
        entry = os.path.join(work, os.path.relpath(given, project)) if inside else given
        entry = os.path.join(work, given) if relative else entry
        if entry and os.path.normpath(entry) not in entries:
            entries.append(os.path.normpath(entry))
    return os.pathsep.join(entries)


def tracker_names(job: Job, out: str) -> dict[str, str]:
    """What a tracker is to call the run."""
    return {
        "WANDB_NAME": job["name"],
        "WANDB_RUN_GROUP": job["experiment"],
        "WANDB_RUN_ID": job["run_id"],
        "WANDB_RESUME": "allow",
        "WANDB_DIR": out,
    }


def render_exports(values: dict[str, str]) -> str:
    """Shell lines that set the variables, verbatim; what no shell lets us set is left out."""
    names = [name for name in sorted(values) if NAME.match(name) and name not in UNSETTABLE]
    return "\n".join("export %s=%s" % (name, shlex.quote(values[name])) for name in names)


def render_secrets(values: dict[str, str]) -> str:
    """The same for secrets; those of ours are for run.sh alone, and named by their first word."""
    own = [name for name in sorted(values) if name.startswith("bay_")]
    lines = ["%s=%s" % (name.split(" ")[0], shlex.quote(values[name])) for name in own]
    return "\n".join(filter(None, [render_exports(values), *lines]))


def make_tree(path: str, source: str, links: dict[str, str]) -> None:
    """The tree at `path`, whole or not at all; one that is there is the same."""
    if os.path.isdir(path):
        return
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    draft = "%s.%d" % (path, os.getpid())
    # A process of our number may have died here.
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(source, draft, symlinks=True, copy_function=link_or_copy)
    for inside, outside in links.items():
        place = os.path.join(draft, inside)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.symlink(outside, place)
    try:
        os.rename(draft, path)
    except OSError as error:
        # Somebody else made the same one meanwhile.
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        shutil.rmtree(draft)
