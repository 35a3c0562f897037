"""Programs and packages that stand in for those that a machine may lack."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SHELLS = {"dash": ["dash"], "busybox": ["busybox", "sh"], "bash": ["bash", "--posix"]}

# As the real one: a hook that defines a function, which asks the program what to do.
CONDA = r"""#!/bin/sh
here=$(cd "$(dirname "$0")/.." && pwd)
printf '%s\n' "$*" >>"$here/calls"
case "$1 $2" in
    'shell.posix hook')
        printf 'CONDA_EXE="%s"\n' "$0"
        cat <<'HOOK'
conda() {
    [ "$1" = activate ] || { "$CONDA_EXE" "$@"; return; }
    ask_conda="$("$CONDA_EXE" shell.posix "$@")" || return
    eval "$ask_conda"
    hash -r
}
HOOK
        ;;
    'shell.posix activate')
        case $3 in /*) prefix=$3 ;; *) prefix=$here/envs/$3 ;; esac
        [ -d "$prefix" ] || { echo "EnvironmentNameNotFound: $3" >&2; exit 1; }
        # One prefix takes the place of another, wherever in PATH that stands.
        [ -z "$CONDA_PREFIX" ] || PATH=$(printf %s "$PATH" | sed "s|$CONDA_PREFIX/bin|$prefix/bin|")
        [ -n "$CONDA_PREFIX" ] || PATH=$prefix/bin:$PATH
        printf 'export CONDA_PREFIX="%s" CONDA_DEFAULT_ENV="%s" PATH="%s"\n' "$prefix" "$3" "$PATH"
        [ ! -e "$prefix/activate.d.sh" ] || printf '. "%s"\n' "$prefix/activate.d.sh"
        ;;
    'env create')
        [ "$3 $5" = '-p -f' ] || exit 2
        grep -q broken "$6" && { echo 'PackagesNotFoundError: broken'; exit 5; }
        mkdir -p "$4/bin"
        printf '#!/bin/sh\necho conda python\n' >"$4/bin/python"
        chmod +x "$4/bin/python"
        ;;
    *) echo "no such command: $*" >&2; exit 2 ;;
esac
"""


def write_program(path: Path, text: str) -> Path:
    """A program of this text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def write_python(prefix: Path, says: str) -> Path:
    """An environment whose `python` says who it is."""
    write_program(prefix / "bin" / "python", f"#!/bin/sh\necho {says}\n")
    return prefix


def write_wheel(folder: Path, name: str = "hello") -> Path:
    """A package `hello`, installed without any other."""
    info = f"{name}-1.0.dist-info"
    texts = {
        f"{name}/__init__.py": 'WORD = "installed"\n',
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},sha256={_hash(text)},{len(text)}\n" for path, text in texts.items())
    texts[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in texts.items():
            archive.writestr(path, text)
    return wheel


def write_uv_project(tree: Path) -> None:
    """A project that is locked with `hello`, from a wheel of its own."""
    wheel = write_wheel(tree / "pkgs")
    path = wheel.relative_to(tree)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (tree / "pyproject.toml").write_text(
        f"""[project]
name = "project"
version = "0.1"
requires-python = ">=3.8"
dependencies = ["hello"]

[tool.uv.sources]
hello = {{ path = "{path}" }}
"""
    )
    (tree / "uv.lock").write_text(
        f"""version = 1
requires-python = ">=3.8"

[[package]]
name = "hello"
version = "1.0"
source = {{ path = "{path}" }}
wheels = [{{ filename = "{wheel.name}", hash = "sha256:{digest}" }}]

[[package]]
name = "project"
version = "0.1"
source = {{ virtual = "." }}
dependencies = [{{ name = "hello" }}]

[package.metadata]
requires-dist = [{{ name = "hello", path = "{path}" }}]
"""
    )


def _hash(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
