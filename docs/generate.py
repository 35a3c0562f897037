"""Writes what comes from the code: reference pages of commands, files, backends; a JSON schema.

```text
python docs/generate.py            write them
python docs/generate.py --check    exit 1 when one is out of date
```
"""

from __future__ import annotations

import html
import sys
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, get_type_hints

import click

from launchbay import backends
from launchbay.cli.app import app
from launchbay.cli.main import COMMANDS, GROUPS
from launchbay.config.common import (
    ClusterFields,
    Common,
    DataFields,
    Needs,
    Part,
    PolicyFields,
    SlurmFields,
    Surroundings,
)
from launchbay.config.json_schema import render_schema
from launchbay.config.paths import SCHEMA
from launchbay.config.schema import (
    BucketEntry,
    ExperimentFile,
    KubeFile,
    Model,
    RunBlock,
    Target,
    UserConfig,
)
from launchbay.core.backend import CAPABILITIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "docs" / "reference"
MARK = "<!-- Written by docs/generate.py; edit the code it comes from. -->\n"

COMMANDS_PAGE = """
# Commands

`python -m launchbay` is the same program as `bay`. Data goes to standard output, words to standard
error. Exit code 0: done; 1: it failed; 2: it was asked wrongly; 130: interrupted. Every command has
`-h` and `--help`.

Where a command takes `[ID]…`, each is a run's id, any end of an id that no other run has, a run's
name, or an experiment, in this order; `-e` says that an experiment is meant. All are of the project
that you stand in, unless `--project` or `--everywhere` says otherwise.

Before the command may stand:

{options}
"""

FILE_PAGE = """
# Files

A key with nothing behind it counts as not given. Every value is text as typed: `1e-5`, `010` and
`true` reach your program as you wrote them. An unknown key is an error that names file, line and
the nearest key.

An editor can say so while you type. `bay init` writes a first line for it, which you may put above
any experiment file; `bay run` keeps what it names up to date:

```yaml
# yaml-language-server: $schema=.bay/schema.json
```

What each construct means, with examples, is on the page of
[the experiment file](../guides/experiment-file.md), and so is
[who wins](../guides/experiment-file.md#who-wins) where several places say something.

## The experiment file

`bay.yaml`, `launch.yaml` or `config/launch.yaml`, looked for from the folder you stand in upwards
to the git root; or the file that you name. `_base_`, a file or a list of files, says what it builds
on; `bay.local.yaml` in the project's folder goes over it.

{experiment}

### A model

An entry of `model:`, by its name; besides these, everything under [resources](#resources),
[policy](#policy), [surroundings](#surroundings), [for Slurm](#for-slurm) and
[for Kubernetes](#for-kubernetes).

{model}

### A dataset

An entry of `dataset:`, by its name. It has the keys of a model, without `command`.

### A run block

`run:`, or an entry of its list.

{run}

## Resources

Keys of the experiment file's root, of a model, a dataset, a target, a profile and a site file.
`gpus gpu_type cpus memory disk time nodes processes image` and `parallel` are flags of the same
name too. On a machine with GPUs a run that does not say gets one.

{needs}

## Policy

What is to be done about a run that waits, ends early or fails. Keys of the same places, and flags
of the same names; `profile` is no key of a profile.

{policy}

## Surroundings

Keys of the same places.

{surroundings}

## Data

Keys of the same places: what a run reads and writes besides its code.

{data}

## For Slurm

Keys of the same places. Only a target of the kind `slurm` understands them; at the root, in a model
or a dataset they are in nobody's way elsewhere.

{slurm}

## For Kubernetes

Keys of the same places, and of `config/kube.yaml`. They are read, checked and kept with a run; no
kind of target that is there yet has a use for them.

{cluster}

## A target

An entry under `targets:`, by its name. `local`, this computer, is always one. Besides these it has
everything under [resources](#resources), [policy](#policy), [surroundings](#surroundings) and
[data](#data). Of the kind `slurm` it has what is under [for Slurm](#for-slurm) too, but no
`devices`; only there is `look_every`.

{target}

## A bucket

An entry under `bucket:`, by its name. Keys are never written here: they are variables of the
environment or of the project's `.env`, or your login of the cloud.

{bucket}

## Your configuration

The file that `$BAY_CONFIG` names, else `launchbay/config.yaml` in `$XDG_CONFIG_HOME`, which is
`~/.config` unless you set it (on macOS: in `~/Library/Application Support`). `bay config` and
`bay target` change it; it need not exist.

{user}

## A site file

What a lab or a cluster has prepared: `include: [PATH]` of an experiment file or of your
configuration names it, or `$BAY_SITE_CONFIG`. It has `targets`, and at its root everything that a
model has besides its own keys. Every other place is stronger.

## config/kube.yaml

The file of the Kubernetes toolbox, which is the target `kube`. Besides these it has what a model
has besides its own keys.

{kube}
"""

BACKENDS_PAGE = """
# Backends

Every kind of target can plan, submit, poll, cancel and read a log. What else a kind can do is a
type on its class line, and the table is computed from those.

{table}

What the words mean:

{abilities}

What each kind drives:

{kinds}
"""


def main() -> int:
    """Write every file, or with `--check` name those that are out of date."""
    checking = sys.argv[1:] == ["--check"]
    rendered = {path: render() for path, render in FILES.items()}
    stale = {path: text for path, text in rendered.items() if _is_stale(path, text)}
    for path, text in stale.items():
        name = path.relative_to(ROOT)
        if checking:
            print(f"{name} is out of date; `python docs/generate.py` writes it")
        else:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {name}")
    return int(checking and bool(stale))


def _is_stale(path: Path, text: str) -> bool:
    return not path.exists() or path.read_text(encoding="utf-8") != text


def render_commands() -> str:
    """Every command with every option, in the order of `bay help --all`."""
    options = _table(("option", "what it does"), _rows(app))
    lines = [MARK + COMMANDS_PAGE.format(options=options).rstrip()]
    context = click.Context(app, info_name="bay")
    for group in (*GROUPS, ""):
        for name in (name for name, (where, _) in COMMANDS.items() if where == group):
            command = app.get_command(context, name)
            lines += _render_command(command, context, name, depth=2) if command else []
    return "\n".join(lines) + "\n"


def _render_command(
    command: click.Command, parent: click.Context, name: str, *, depth: int
) -> Iterator[str]:
    context = click.Context(command, parent=parent, info_name=name)
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield from ("", f"{'#' * depth} {context.command_path}", "", "```text", usage, "```")
    for paragraph in cleandoc(command.help or "").split("\n\n"):
        yield from ("", *_render_paragraph(paragraph.split("\n")))
    if rows := _rows(command):
        yield from ("", _table(("option", "what it does"), rows))
    if isinstance(command, click.Group):
        for word in command.list_commands(context):
            inner = command.get_command(context, word)
            yield from _render_command(inner, context, word, depth=depth + 1) if inner else ()


def _render_paragraph(lines: Sequence[str]) -> list[str]:
    # click's mark for a paragraph that keeps its lines, and the same in a raw docstring.
    if lines[0] in {"\b", r"\b"}:
        return ["```text", *lines[1:], "```"]
    return [_prose(" ".join(lines))]


def _rows(command: click.Command) -> list[tuple[str, str]]:
    return [_row(option) for option in command.params if isinstance(option, click.Option)]


def _row(option: click.Option) -> tuple[str, str]:
    spellings = ", ".join(f"`{spelling}`" for spelling in (*option.opts, *option.secondary_opts))
    value = "" if option.is_flag else f" `{_metavar(option)}`"
    default = f" Default: `{option.default}`." if option.show_default else ""
    several = " May be given several times." if option.multiple else ""
    return spellings + value, f"{_prose(option.help or '').rstrip('.')}.{default}{several}"


def _metavar(option: click.Option) -> str:
    if option.metavar:
        return option.metavar
    match option.type:
        case click.Choice():
            return "{" + ",".join(map(str, option.type.choices)) + "}"
        case click.IntRange() | click.types.IntParamType():
            return "N"
        case click.Path():
            return "PATH"
    return "TEXT"


def render_file() -> str:
    """Every key of the experiment file, of a target and of the user's configuration."""
    return MARK + FILE_PAGE.format(
        experiment=_own_keys(ExperimentFile),
        model=_own_keys(Model),
        run=_own_keys(RunBlock),
        needs=_keys(Needs, set(Needs.model_fields)),
        policy=_keys(Common, {*PolicyFields.model_fields, "profile"}),
        surroundings=_keys(Surroundings, set(Surroundings.model_fields)),
        data=_keys(DataFields, set(DataFields.model_fields)),
        slurm=_keys(SlurmFields, set(SlurmFields.model_fields)),
        cluster=_keys(ClusterFields, set(ClusterFields.model_fields)),
        target=_own_keys(Target),
        bucket=_keys(BucketEntry, set(BucketEntry.model_fields)),
        user=_keys(UserConfig, set(UserConfig.model_fields)),
        kube=_own_keys(KubeFile),
    )


def _own_keys(model: type[Part]) -> str:
    """What is not said of several places at once."""
    return _keys(model, model.model_fields.keys() - Common.model_fields)


def _keys(model: type[Part], wanted: set[str]) -> str:
    rows = []
    for name, field in model.model_fields.items():
        spellings = [key for key, filled in model.spellings().items() if filled == name]
        required = " Required." if field.is_required() else ""
        keys = ", ".join(f"`{key}`" for key in spellings)
        if name in wanted:
            rows.append((keys, _prose(f"{field.description}{required}")))
    return _table(("key", "what it says"), rows)


def render_backends() -> str:
    """The kinds of targets, and what each can do beyond the five verbs."""
    found = {kind: get_type_hints(backends.load(kind))["return"] for kind in backends.kinds()}
    rows = [
        (
            f"`{kind}`",
            *("yes" if issubclass(backend, one) else "–" for one in CAPABILITIES.values()),
        )
        for kind, backend in found.items()
    ]
    named = {f"`{kind}`": backend for kind, backend in found.items()}
    return MARK + BACKENDS_PAGE.format(
        table=_table(("kind", *CAPABILITIES), rows),
        abilities=_table(("ability", "a backend that has it"), _first_lines(CAPABILITIES)),
        kinds=_table(("kind", "drives"), _first_lines(named)),
    )


def _first_lines(documented: Mapping[str, type]) -> list[tuple[str, str]]:
    return [
        (name, _prose((one.__doc__ or "").strip().split("\n")[0]))
        for name, one in documented.items()
    ]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def _prose(text: str) -> str:
    """The text as a sentence of Markdown; what would be HTML is escaped outside of backquotes."""
    parts = text.split("`")
    parts[::2] = [html.escape(part, quote=False) for part in parts[::2]]
    joined = "`".join(parts).replace("|", "&#124;")
    return joined[:1].upper() + joined[1:]


FILES: dict[Path, Callable[[], str]] = {
    REFERENCE / "commands.md": render_commands,
    REFERENCE / "file.md": render_file,
    REFERENCE / "backends.md": render_backends,
    ROOT / "src" / "launchbay" / "config" / SCHEMA.name: render_schema,
}

if __name__ == "__main__":
    sys.exit(main())
