"""A plan's sheet: its runs, a line each, that any POSIX shell can read.

A run's folder is made from its line by whoever starts it (`node/task.sh`), so that sending a
thousand runs writes one file. A line is

```text
<run id> <attempt> bay_job='…' bay_params='…' bay_command_text='…' bay_own_text='…'
```

with every value quoted, and a line end in it written as `'"$bay_nl"'`. What all runs of a plan have
in common stands once, in `shared.sh` beside the sheet. Paths are not in it: where the root is, only
the node knows.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from launchbay.core.job import IN_IMAGE, Argv, Job, Script, to_record
from launchbay.core.python import load_modules

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

NAME = re.compile(r"(?!bay_)[A-Za-z_][A-Za-z0-9_]*\Z")
"""Variables that a shell can set; not those of run.sh, which is the shell that reads them."""
UNSETTABLE = frozenset(
    {"UID", "EUID", "PPID", "SHELLOPTS", "BASHOPTS", "BASH_VERSINFO", "OPTIND", "OPTARG", "_"}
)

OWN = frozenset({"BAY_RUN_ID", "BAY_NAME", "BAY_TARGET"})
"""Variables that tell a run who it is, whatever anybody sets."""


def render_document(files: Mapping[str, str]) -> str:
    """The files of a plan as one text, that a person can read and `parse_document` takes apart."""
    return "".join(f"==> {name} <==\n{text}" for name, text in files.items())


def parse_document(document: str) -> dict[str, str]:
    r"""The files of a plan by their names; each is empty or ends its last line.

    >>> parse_document(render_document({"a": "", "b": "1\n2\n"}))
    {'a': '', 'b': '1\n2\n'}
    """
    files: dict[str, str] = {}
    # No line of a sheet or of a script begins so.
    for part in f"\n{document}".removesuffix("\n").split("\n==> ")[1:]:
        name, filled, text = part.partition(" <==\n")
        files[name.removesuffix(" <==")] = f"{text}\n" if filled else ""
    return files


def render_sheet(
    jobs: Sequence[Job], *, target: str, plan: str, after: str = "", pod: str = ""
) -> dict[str, str]:
    """The sheet of a plan, a line a run, and the file of what they have in common.

    Args:
        jobs: the runs, in the order of their indices.
        target: what the target is called here.
        plan: the plan's id.
        after: the node program that run.sh becomes once the end is recorded.
        pod: where a pod has the plan's files; run.sh is then inside of the image already, and has
            the variables that are secret.
    """
    groups = secret_groups(jobs)
    records = [{**to_record(job), "target": target, "plan": plan} for job in jobs]
    alike = _alike(records) - {"run_id"}
    texts: dict[tuple[object, ...], str] = {}
    values = [
        {
            "bay_job": _own_part(record, alike),
            **_values(job, inside=bool(pod)),
            "bay_env_text": _env_text_of(
                job,
                texts,
                plan=plan,
                secrets=groups.index(common_secrets(job)),
                after=after,
                pod=pod,
            ),
            "bay_own_text": _own_text(job, target),
        }
        for job, record in zip(jobs, records, strict=True)
    ]
    common = sorted(_alike(values)) if len(jobs) > 1 else []
    shared = {name: values[0].pop(name) for name in common}
    shared["bay_shared_job"] = _shared_part(records[0], alike)
    lines = [f"{name}={_quote(value)}\n" for name, value in shared.items() if value]
    sheet = [
        _render_line(job, {name: text for name, text in own.items() if name not in shared})
        for job, own in zip(jobs, values, strict=True)
    ]
    return {"shared.sh": "".join(lines), "sheet": "".join(sheet)}


def secret_groups(jobs: Iterable[Job]) -> list[tuple[str, ...]]:
    """The sets of secrets that runs ask for; each is kept once, in a file of its own."""
    return list(dict.fromkeys(common_secrets(job) for job in jobs))


def common_secrets(job: Job) -> tuple[str, ...]:
    """The secrets that a run may have in common with others."""
    return tuple(name for name in job.secrets if not is_own(name))


def is_own(name: str) -> bool:
    """Whether every run has another value of a secret."""
    return name.startswith("bay_puts ")


def own_secrets_name(run_id: str) -> str:
    """The file of what only one run has, beside the sheet."""
    return f"own-{run_id}.sh"


def render_secrets(values: Mapping[str, str]) -> str:
    """Shell lines that set the secrets.

    Those that run.sh needs, and no program is to see, have names of several words, of which the
    first is the variable's.
    """
    lines = [
        f"{name.split(' ')[0]}={shlex.quote(values[name])}\n"
        for name in sorted(values)
        if name.startswith("bay_")
    ]
    return render_exports(values) + "".join(lines)


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


def _alike(records: Sequence[Mapping[str, Any]]) -> set[str]:
    """The keys under which all have the same."""
    first = records[0]
    return {key for key in first if all(record[key] == first[key] for record in records)}


def _own_part(record: Mapping[str, Any], alike: Collection[str]) -> str:
    """The beginning of `job.json`, of which `_shared_part` is the end."""
    return json.dumps({key: value for key, value in record.items() if key not in alike})[:-1]


def _shared_part(record: Mapping[str, Any], alike: Collection[str]) -> str:
    return ", " + json.dumps({key: record[key] for key in record if key in alike})[1:]


def _env_text_of(
    job: Job, known: dict[tuple[object, ...], str], *, plan: str, secrets: int, after: str, pod: str
) -> str:
    """The environment's text, made once for runs that are given the very same."""
    given = (job.env, job.options, job.resources, job.policy, job.outputs)
    words = (
        job.experiment,
        common_secrets(job),
        job.image,
        job.modules,
        job.snapshot,
        job.subfolder,
    )
    key = (*map(id, given), *words, job.origin, job.project_folder, isinstance(job.command, Argv))
    key += (job.carriage,)
    if key not in known:
        known[key] = _env_text(job, plan=plan, secrets=secrets, after=after, pod=pod)
    return known[key]


def _values(job: Job, *, inside: bool) -> dict[str, str]:
    """What becomes of a job in its folder; the parts that many runs may have in common."""
    return {
        "bay_params": json.dumps(nest(job.params)),
        "bay_command_text": _command_text(job),
        "bay_setup_text": job.setup if job.image and not inside else job.entry + job.setup,
        "bay_patterns": json.dumps(dict(job.metrics)) if job.metrics else "",
        "bay_fresh": "1" if job.fresh else "",
    }


def _render_line(job: Job, values: Mapping[str, str]) -> str:
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


def _own_text(job: Job, target: str) -> str:
    """What run.sh reads first: variables in which every run differs, and some that nobody sets."""
    trackers = {"WANDB_NAME": job.name, "WANDB_RUN_ID": job.run_id}
    own = {"BAY_RUN_ID": job.run_id, "BAY_NAME": job.name, "BAY_TARGET": target}
    return render_exports(own | {name: trackers[name] for name in trackers.keys() - job.env.keys()})


def _env_text(job: Job, *, plan: str, secrets: int, after: str, pod: str) -> str:
    """What run.sh reads then; it has set `$bay_run`."""
    place = shlex.quote(pod) if pod else f"$bay_root/plans/{plan}"
    apart = [name for name in job.secrets if not pod or name.startswith("bay_")]
    given = {
        "PYTHONUNBUFFERED": "1",
        "WANDB_RUN_GROUP": job.experiment,
        "WANDB_RESUME": "allow",
        **job.env,
    }
    own = {name: value for name, value in given.items() if name not in OWN}
    lines = [
        "umask 077\n",
        f"bay_root=${{bay_run%/runs/*}}\nbay_plan={place}\n",
        'export WANDB_DIR="$bay_run/out"\n',
        render_exports(own),
        _paths(job),
        "" if pod else _container(job),
        "".join(f"{name}={shlex.quote(value)}\n" for name, value in _marks(job, after).items()),
        "each_output() {\n:\n",
        "".join(f'"$1" {shlex.quote(name)}\n' for name in job.outputs),
        "}\n",
        job.carriage,
    ]
    if any(not is_own(name) for name in apart):
        lines.append(f'. "$bay_plan/{secrets_name(secrets)}"\n')
    if any(map(is_own, apart)):
        lines.append(f'. "$bay_plan/{own_secrets_name("$BAY_RUN_ID")}"\n')
    return "".join(lines)


def _paths(job: Job) -> str:
    """The run's own places, and its frozen code first where Python looks for modules."""
    lines = ['export BAY_OUT="$bay_run/out" BAY_PARAMS="$bay_run/params.json"\n', "bay_tree=\n"]
    if job.options.get("code") == IN_IMAGE:
        lines.append('bay_tree=${BAY_INSIDE:-"$bay_run/work"}\n')
    elif job.snapshot:
        lines.append(f'bay_tree="$bay_root/snapshots/"{shlex.quote(job.snapshot)}\n')
    lines.append(
        'bay_path="$bay_run/work"\n'
        '[ ! -d "${bay_tree:-/none}/src" ] || bay_path="$bay_path:$bay_run/work/src"\n'
        f'export PYTHONPATH="$bay_path"{_modules(job)}\n'
    )
    if job.origin:
        above = "" if job.origin.startswith("/") else '"$bay_root/"'
        lines.append(f"export BAY_FROM={above}{shlex.quote(job.origin)}\n")
    return "".join(lines)


def _modules(job: Job) -> str:
    """Where Python looks further, as shell text; what is in the project is in the code."""
    if "PYTHONPATH" not in job.env:
        return '"${PYTHONPATH:+:$PYTHONPATH}"'
    words = []
    for entry in filter(None, job.env["PYTHONPATH"].split(":")):
        path, project = PurePosixPath(entry), job.project_folder
        inside = not path.is_absolute() or (project and path.is_relative_to(project))
        if inside:
            path = path.relative_to(project) if path.is_absolute() else path
            words.append(f':"$bay_run/work/"{shlex.quote(str(path))}')
        else:
            words.append(f":{shlex.quote(entry)}")
    return "".join(words)


def _marks(job: Job, after: str) -> dict[str, str]:
    ranks = job.resources.nodes * job.resources.processes
    return {
        "bay_subfolder": job.subfolder,
        "bay_command": "words" if isinstance(job.command, Argv) else "script",
        "bay_ready": "",
        "bay_after": after,
        "bay_hold": f"{job.policy.hold_s:.0f}" if job.policy.hold_s else "",
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
