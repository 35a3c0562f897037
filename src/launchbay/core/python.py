"""A run's Python environment: how it is written, what decides it, how a shell enters it."""

from __future__ import annotations

import hashlib
import posixpath
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from launchbay.core.errors import ConfigError, Rejected
from launchbay.core.naming import digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from launchbay.core.host import Completed

Kind = Literal["uv", "requirements", "environment", "conda", "venv"]
BUILT: frozenset[Kind] = frozenset({"uv", "requirements", "environment"})
"""The kinds that are built from the frozen code; the others are there already."""
SUFFIXES: dict[str, Kind] = {
    ".txt": "requirements",
    ".yml": "environment",
    ".yaml": "environment",
}
SCHEME = 1
"""Part of every id: a higher number builds every environment anew."""
ID_LENGTH = 12


@dataclass(frozen=True)
class Python:
    """An environment, as the project asks for it."""

    kind: Kind
    source: str
    """The lock file in the project, the name of a conda environment, or the path of a venv."""

    def __str__(self) -> str:
        """As it stands in a file."""
        if self.kind == "conda":
            return f"conda:{self.source}"
        return "uv" if self.kind == "uv" else self.source

    @property
    def is_built(self) -> bool:
        """Whether it is made from the frozen code."""
        return self.kind in BUILT


def parse_python(text: str) -> Python | None:
    """What `python:` says; `none` is None.

    Raises:
        ValueError: when it says something else; the message says what may be written.

    >>> parse_python("reqs/dev.txt")
    Python(kind='requirements', source='reqs/dev.txt')
    """
    if text == "none":
        return None
    if text == "uv":
        return Python("uv", "uv.lock")
    name = text.removeprefix("conda:")
    if name and name != text:
        return Python("conda", name)
    suffix = posixpath.splitext(text)[1]
    if suffix not in SUFFIXES and text.startswith(("/", "~")):
        return Python("venv", text.rstrip("/") or "/")
    path = posixpath.normpath(text)
    if suffix in SUFFIXES and _stays_inside(path):
        return Python(SUFFIXES[suffix], path)
    raise ValueError(
        "expected `uv`, a file of the project that ends in `.txt` or `.yml`, `conda:NAME`, "
        "the absolute path of a virtual environment, or `none`"
    )


def environment_id(python: Python, tree: Path) -> str:
    """A short name for the environment; the same as long as the files that decide it are."""
    contents = [
        [name, hashlib.sha256((tree / name).read_bytes()).hexdigest()]
        for name in lock_files(python, tree)
    ]
    return digest([SCHEME, python.kind, python.source, contents])[:ID_LENGTH]


def lock_files(python: Python, tree: Path) -> list[str]:
    """The files of the project whose content decides the environment, sorted.

    The project's own modules are not among them: a run finds those in its working folder.

    Raises:
        ConfigError: when one is missing.
    """
    if not python.is_built:
        return []
    if not (tree / python.source).is_file():
        raise ConfigError(
            f"`python: {python}` needs `{python.source}`, which the project does not have",
            hint="run `uv lock`" if python.kind == "uv" else "write it, or set `python: none`",
        )
    if python.kind == "uv":
        return sorted(_uv_files(tree))
    return sorted(_requirement_files(python, tree))


# As uv writes them; `virtual` packages are not installed.
UV_LOCAL = re.compile(r'^source = \{ (?:path|directory|editable) = "([^"]+)" \}', re.MULTILINE)


def _uv_files(tree: Path) -> set[str]:
    if not (tree / "pyproject.toml").is_file():
        raise ConfigError(
            "`python: uv` needs `pyproject.toml`, which the project does not have",
            hint="run `uv init`",
        )
    lock = (tree / "uv.lock").read_text(encoding="utf-8", errors="replace")
    found = {"uv.lock", "pyproject.toml"}
    # The lock file says nothing about what is in a folder that it names.
    for path in UV_LOCAL.findall(lock):
        found |= _package_files(tree, path)
    return found | _existing(tree, ".python-version")


REFERENCE = re.compile(r"(?:-r|-c|--requirement|--constraint)[\s=]*(.+)")
PACKAGE = re.compile(r"(?:(?:-e|--editable)[\s=]*|[\w.\[\],-]+\s*@\s*)?(?:file:)?([^\s;\[]+)")
ARCHIVES = (".whl", ".zip", ".tar.gz", ".tar.bz2")


def _requirement_files(python: Python, tree: Path) -> set[str]:
    """The file, all that it names, and the local packages that these name."""
    # pip looks for packages from where it is started, conda starts it beside its file.
    start = posixpath.dirname(python.source) if python.kind == "environment" else ""
    found: set[str] = set()
    packages = _existing(tree, ".python-version") if python.kind == "requirements" else set()
    waiting = [python.source]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        for line in _logical_lines((tree / name).read_text(encoding="utf-8", errors="replace")):
            if reference := REFERENCE.fullmatch(line):
                waiting += _referred(tree, name, reference[1])
            elif (package := PACKAGE.match(line)) and _is_path(package[1]):
                packages |= _package_files(tree, posixpath.join(start, package[1]))
    return found | packages


def _logical_lines(text: str) -> Iterator[str]:
    """The lines without comments; one of a conda file without its dash and quotes."""
    for line in text.replace("\\\n", " ").splitlines():
        bare = re.sub(r"(^|\s)#.*", "", line).strip()
        yield re.sub(r"^-\s+", "", bare).strip("\"' ")


def _referred(tree: Path, name: str, written: str) -> list[str]:
    """The file that a line of `name` refers to; none where the target has to look for it."""
    word = written.strip("\"' ")
    if "://" in word or word.startswith(("/", "~", "$")):
        return []
    path = posixpath.normpath(posixpath.join(posixpath.dirname(name), word))
    if not _stays_inside(path) or not (tree / path).is_file():
        raise ConfigError(
            f"`{name}` names `{word}`, which the project does not have",
            hint="is it left out of the frozen code, by `.gitignore` for example?",
        )
    return [path]


def _is_path(word: str) -> bool:
    return "/" in word or word.startswith(".") or word.endswith(ARCHIVES)


def _package_files(tree: Path, written: str) -> set[str]:
    """What decides a package that is installed from a file or a folder of the project."""
    path = posixpath.normpath(written)
    if path == ".":
        return _existing(tree, "pyproject.toml", "setup.py", "setup.cfg")
    if not _stays_inside(path):
        return set()
    if not (tree / path).is_dir():
        return _existing(tree, path)
    files = (file for file in (tree / path).rglob("*") if file.is_file())
    names = (file.relative_to(tree).as_posix() for file in files)
    return {name for name in names if not re.search(r"__pycache__/|\.egg-info/", name)}


def _existing(tree: Path, *names: str) -> set[str]:
    return {name for name in names if (tree / name).is_file()}


def _stays_inside(path: str) -> bool:
    return not path.startswith(("/", "~")) and path != ".." and not path.startswith("../")


def render_setup(*, modules: Sequence[str] = (), python: str = "", setup: str = "") -> str:
    """The lines before a command: modules, then the environment, then the user's own."""
    parts = (load_modules(modules), python, setup)
    return "".join(part.rstrip("\n") + "\n" for part in parts if part.strip())


def load_modules(names: Sequence[str]) -> str:
    """Shell lines that load environment modules in this order; one that fails ends the shell."""
    if not names:
        return ""
    missing = _fail(f"`module` is no command here; {', '.join(names)} cannot be loaded")
    return LOAD_MODULES.format(missing=missing, names=shlex.join(names))


# Old versions of `module` return 0 whatever happens, so what they say counts too.
LOAD_MODULES = """\
if ! command -v module >/dev/null 2>&1; then
    for bay_file in "${{LMOD_PKG-}}/init/sh" "${{MODULESHOME-}}/init/sh" \\
        /etc/profile.d/lmod.sh /etc/profile.d/modules.sh \\
        /usr/share/lmod/lmod/init/sh /usr/share/modules/init/sh; do
        if [ -r "$bay_file" ]; then
            set +e
            . "$bay_file"
            set -e
            break
        fi
    done
fi
command -v module >/dev/null 2>&1 || {missing}
bay_file=$(mktemp)
for bay_module in {names}; do
    bay_code=0
    module load "$bay_module" 2>"$bay_file" || bay_code=$?
    cat "$bay_file" >&2
    ! grep -Eq 'ERROR:|Unable to locate' "$bay_file" || bay_code=1
    if [ "$bay_code" -ne 0 ]; then
        rm -f "$bay_file"
        printf 'launchbay: module `%s` could not be loaded\\n' "$bay_module" >&2
        exit 1
    fi
done
rm -f "$bay_file"
"""


def activation(python: Python, place: str) -> str:
    """Shell lines, for a shell with `set -e`, that make the environment the active one.

    Args:
        python: the environment.
        place: where one that is built was built; nothing for the others.
    """
    where = python.source if not python.is_built else place
    words = {"place": _word(where), "missing": _fail(_MISSING[python.kind].format(where))}
    if python.kind in {"uv", "requirements"}:
        return ENTER_BUILT.format(**words)
    if python.kind == "venv":
        moved = _fail(f"the virtual environment `{where}` has no Python; was it moved?")
        return ENTER_VENV.format(moved=moved, **words)
    no_conda = _fail(f"there is no conda here to activate `{where}`")
    active = ACTIVE_PREFIX if where.startswith(("/", "~")) else ACTIVE_NAME
    return ENTER_CONDA.format(no_conda=no_conda, active=active.format(**words), **words)


_MISSING: dict[Kind, str] = {
    "uv": "the environment `{}` is not there or has lost its Python",
    "requirements": "the environment `{}` is not there or has lost its Python",
    "environment": "the conda environment `{}` is not there or does not work",
    "conda": "there is no conda environment `{}`, or it does not work",
    "venv": "there is no virtual environment `{}`",
}

# What its `activate` does, without what that does to a prompt, and right for every path.
ENTER_BUILT = """\
[ -x {place}/bin/python ] || {missing}
VIRTUAL_ENV={place}
PATH=$VIRTUAL_ENV/bin:$PATH
export VIRTUAL_ENV PATH
unset PYTHONHOME
"""

# People add lines of their own to `activate`.
ENTER_VENV = """\
[ -r {place}/bin/activate ] || {missing}
set +e
. {place}/bin/activate
set -e
[ -x "${{VIRTUAL_ENV-}}/bin/python" ] || {moved}
"""

# Scripts in `activate.d` may fail and mean nothing by it: only the outcome counts. One environment
# takes the place of another in PATH, so that a virtual environment before that would win.
ENTER_CONDA = """\
bay_conda=
for bay_file in "${{CONDA_EXE-}}" "${{MAMBA_EXE-}}" \\
    "$(command -v conda)" "$(command -v mamba)" "$(command -v micromamba)" \\
    ~/miniconda3/bin/conda ~/miniforge3/bin/conda ~/anaconda3/bin/conda ~/mambaforge/bin/conda \\
    ~/.local/bin/micromamba /opt/conda/bin/conda; do
    if [ -f "$bay_file" ] && [ -x "$bay_file" ]; then
        bay_conda=$bay_file
        break
    fi
done
[ -n "$bay_conda" ] || {no_conda}
set +e
bay_hook=$(CONDA_AUTO_ACTIVATE_BASE=false "$bay_conda" shell.posix hook 2>/dev/null) ||
    bay_hook=$("$bay_conda" shell hook --shell posix)
eval "$bay_hook"
"${{bay_conda##*/}}" activate {place}
set -e
{active} || {missing}
PATH=$CONDA_PREFIX/bin:$PATH
export PATH
unset VIRTUAL_ENV PYTHONHOME
"""
ACTIVE_NAME = """[ "${{CONDA_DEFAULT_ENV-}}" = {place} ] && [ -d "${{CONDA_PREFIX-}}" ]"""
ACTIVE_PREFIX = """[ "$(cd "${{CONDA_PREFIX:-/}}" && pwd -P)" = "$(cd {place} && pwd -P)" ]"""


def _fail(message: str) -> str:
    """A shell command that says so and ends the shell."""
    return f"{{ printf '%s\\n' {shlex.quote('launchbay: ' + message)} >&2; exit 1; }}"


def _word(path: str) -> str:
    """The path as a word for a shell that still has to replace a leading `~`.

    >>> print(_word("~/my envs/a"))
    ~/'my envs/a'
    """
    home = re.match(r"~[\w.-]*(/|\Z)", path)
    if not home:
        return shlex.quote(path)
    rest = path[home.end() :]
    return home[0] + (shlex.quote(rest) if rest else "")


def build_argv(python: Python, script: str, *, place: str, tree: str) -> list[str]:
    """The command that builds the environment; `script` is where `environment.sh` is there."""
    return ["sh", script, python.kind, place, tree, python.source]


HINTS: dict[Kind, str] = {
    "uv": "`uv sync --frozen` in the project may show the same; `uv lock` writes `{}` anew",
    "requirements": "`pip install -r {}` in a new environment may show the same",
    "environment": "`conda env create -f {}` may show the same",
}


def build_failure(python: Python, target: str, done: Completed) -> Rejected:
    """The error of a build that failed, in one line."""
    said = explain(done.stdout.splitlines())
    last = done.stderr.strip().rpartition("\n")[2].removeprefix("launchbay: ")
    return Rejected(
        f"`{target}` cannot build `python: {python}`: {said or last or 'it did not say why'}",
        hint=HINTS[python.kind].format(python.source)
        if said
        else f"mend that on `{target}`, or write another `python:`",
    )


def explain(said: Iterable[str]) -> str:
    """One line out of all that a failing tool said; empty when it said nothing."""
    telling = [line for line in _unwrapped(said) if not NOISE.match(line)]
    if not telling:
        return ""
    errors = [match[1] for line in telling if (match := ERROR.match(line))]
    last = ERROR.sub(r"\1", CAUSE.sub("", telling[-1]))
    parts = [last] if not errors or errors[-1] == last else [errors[-1].rstrip(":."), last]
    return ": ".join(parts)[:LONGEST]


def _unwrapped(said: Iterable[str]) -> list[str]:
    """The lines, stripped; a cause that uv broke into several is one again."""
    lines: list[str] = []
    indent = ""
    for line in said:
        if indent and re.match(rf"{indent}[^\s\[]", line):
            lines[-1] += " " + line.strip()
            continue
        cause = CAUSE.match(line)
        indent = " " * len(cause[0]) if cause else ""
        lines.append(line.strip())
    return lines


LONGEST = 300
CAUSE = re.compile(r"\s*(?:cause:|[├╰]─▶) ")
ERROR = re.compile(r"(?:ERROR:|error:|×) (.+)")
NOISE = re.compile(
    r"\Z|launchbay: |ready |hint:|note:|WARNING|│|╰─>|[\^~ ]+\Z|"
    r"\[(?:notice|end of output|stdout|stderr)\]|error: subprocess-exited-with-error"
)
