"""A plan's sheet: its runs, a line each, that any POSIX shell can read.

A run's folder is made from its line by whoever starts it (`node/task.sh`), so that sending a
thousand runs writes one file. A line is

```text
<run id> <attempt> bay_job='…' bay_params='…' bay_command='…' bay_setup='…' bay_env='…'
```

with every value quoted, and a line end in it written as `'"$bay_nl"'`. Paths are not in it: where
the root is, only the node knows.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING, Any

from launchbay.core.job import Argv, Job, Script, to_record
from launchbay.core.python import load_modules

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

FILE = re.compile(r"^==> (\S+) <==\n", re.MULTILINE)
"""What stands above each file of a document."""
NAME = re.compile(r"(?!bay_)[A-Za-z_][A-Za-z0-9_]*\Z")
"""Variables that a shell can set; not those of run.sh, which is the shell that reads them."""
UNSETTABLE = frozenset(
    {"UID", "EUID", "PPID", "SHELLOPTS", "BASHOPTS", "BASH_VERSINFO", "OPTIND", "OPTARG", "_"}
)


def render_document(files: Mapping[str, str]) -> str:
    """The files of a plan as one text, that a person can read and `parse_document` takes apart."""
    return "".join(f"==> {name} <==\n{text}" for name, text in files.items())


def parse_document(document: str) -> dict[str, str]:
    """The files of a plan by their names."""
    _, *parts = FILE.split(document)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def render_sheet(jobs: Sequence[Job], *, target: str, plan: str, after: str = "") -> str:
    """The sheet of a plan, a line a run.

    Args:
        jobs: the runs, in the order of their indices.
        target: what the target is called here.
        plan: the plan's id.
        after: the node program that run.sh becomes once the end is recorded.
    """
    groups = secret_groups(jobs)
    return "".join(
        _render_line(job, target=target, plan=plan, secrets=groups.index(job.secrets), after=after)
        for job in jobs
    )


def secret_groups(jobs: Iterable[Job]) -> list[tuple[str, ...]]:
    """The sets of secrets that runs ask for; each is kept once, in a file of its own."""
    return list(dict.fromkeys(job.secrets for job in jobs))


def secrets_name(group: int) -> str:
    """The file that holds a set of secrets, beside the sheet."""
    return f"secrets-{group}.sh"


def render_exports(values: Mapping[str, str]) -> str:
    """Shell lines that set the variables, verbatim; what no shell lets us set is left out."""
    names = [name for name in sorted(values) if NAME.match(name) and name not in UNSETTABLE]
    return "".join(f"export {name}={shlex.quote(values[name])}\n" for name in names)


def nest(params: Mapping[str, str]) -> dict[str, Any]:
    """The parameters as a program wants them: `m.lr` is `lr` inside of `m`.

    >>> nest({"m.lr": "1", "seed": "0"})
    {'m': {'lr': '1'}, 'seed': '0'}
    """
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


def _render_line(job: Job, *, target: str, plan: str, secrets: int, after: str) -> str:
    record = {**to_record(job), "target": target, "plan": plan}
    values = {
        "bay_job": json.dumps(record),
        "bay_params": json.dumps(nest(job.params)),
        "bay_command_text": _command_text(job),
        "bay_setup_text": job.setup if job.image else job.entry + job.setup,
        "bay_env_text": _env_text(job, target=target, plan=plan, secrets=secrets, after=after),
        "bay_patterns": json.dumps(dict(job.metrics)) if job.metrics else "",
        "bay_fresh": "1" if job.fresh else "",
    }
    words = [f"{name}={_quote(value)}" for name, value in values.items() if value]
    return f"{job.run_id} {job.attempt} {' '.join(words)}\n"


def _quote(value: str) -> str:
    return shlex.quote(value).replace("\n", "'\"$bay_nl\"'")


def _command_text(job: Job) -> str:
    match job.command:
        case Argv(words):
            return "exec " + " ".join(map(shlex.quote, words)) + "\n"
        case Script(text):
            return text


def _env_text(job: Job, *, target: str, plan: str, secrets: int, after: str) -> str:
    """What run.sh reads first; it has set `$bay_run`."""
    trackers = {
        "WANDB_NAME": job.name,
        "WANDB_RUN_GROUP": job.experiment,
        "WANDB_RUN_ID": job.run_id,
        "WANDB_RESUME": "allow",
    }
    own = {
        "PYTHONUNBUFFERED": "1",
        **trackers,
        **job.env,
        "BAY_RUN_ID": job.run_id,
        "BAY_NAME": job.name,
        "BAY_TARGET": target,
    }
    lines = [
        "umask 077\n",
        f"bay_root=${{bay_run%/runs/*}}\nbay_plan=$bay_root/plans/{plan}\n",
        'export WANDB_DIR="$bay_run/out"\n',
        render_exports(own),
        _paths(job),
        _container(job),
        "".join(f"{name}={shlex.quote(value)}\n" for name, value in _marks(job, after).items()),
        "each_output() {\n:\n",
        "".join(f'"$1" {shlex.quote(name)}\n' for name in job.outputs),
        "}\n",
    ]
    if job.secrets:
        lines.append(f'. "$bay_plan/{secrets_name(secrets)}"\n')
    return "".join(lines)


def _paths(job: Job) -> str:
    """The run's own places, and its frozen code first where Python looks for modules."""
    lines = ['export BAY_OUT="$bay_run/out" BAY_PARAMS="$bay_run/params.json"\n', "bay_tree=\n"]
    if job.snapshot:
        lines.append(f'bay_tree="$bay_root/snapshots/"{shlex.quote(job.snapshot)}\n')
    lines.append(
        'bay_path="$bay_run/work"\n'
        '[ ! -d "${bay_tree:-/none}/src" ] || bay_path="$bay_path:$bay_run/work/src"\n'
        'export PYTHONPATH="$bay_path${PYTHONPATH:+:$PYTHONPATH}"\n'
    )
    if job.origin:
        lines.append(f"export BAY_FROM={shlex.quote(job.origin)}\n")
    return "".join(lines)


def _marks(job: Job, after: str) -> dict[str, str]:
    ranks = job.resources.nodes * job.resources.processes
    return {
        "bay_subfolder": job.subfolder,
        "bay_command": "words" if isinstance(job.command, Argv) else "script",
        "bay_ready": "",
        "bay_after": after,
        "bay_ranks": str(ranks) if ranks > 1 else "",
        "bay_launcher": str(job.options.get("launcher") or ""),
    }


def _container(job: Job) -> str:
    """How the image is entered; modules are loaded outside of it, to have the program at all."""
    if not job.image:
        return ""
    binds = " ".join(shlex.quote(str(bind)) for bind in job.options.get("binds", ()))
    program = str(job.options.get("container") or "")
    marks = {
        "bay_image": job.image,
        "bay_container": program,
        "bay_nv": "--nv" if job.resources.gpus else "",
        "bay_modules": load_modules(job.modules),
    }
    lines = [f"{name}={shlex.quote(value)}\n" for name, value in marks.items()]
    return "".join(lines) + f"each_bind() {{\nset -- {binds}\nprintf '%s\\n' \"$@\"\n}}\n"
