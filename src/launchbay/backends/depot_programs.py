"""The programs of `launchbay/node` as they travel: one archive, and the shell text that keeps it.

They need a POSIX `sh` and `tar` on the other side. Nothing of an archive counts before its last
member has come: a connection that breaks looks like the end of the input, also to `tar`.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shlex
import sys
import time
from functools import cache
from pathlib import Path

from launchbay.core.errors import Rejected, StoreError, Unsupported
from launchbay.core.host import Completed, Host, decoded

ABSENT = 69
"""The exit code of a call whose programs are not there, together with one of the marks."""
NOT_INSTALLED = "launchbay: not installed here"
NO_PYTHON = "launchbay: no Python here"
WHOLE = ".bay-whole"
"""The last member of every archive that we send."""
NEWEST, OLDEST = 13, 8
CANDIDATES = ("python3", *(f"python3.{minor}" for minor in range(NEWEST, OLDEST - 1, -1)), "python")
FIND_PROGRAMS = """\
for program in 'bay carry --help' 's5cmd version' 'rclone version' 'aws --version' \\
    'curl --version' 'python3 --version'; do
    command -v "${program%% *}" >/dev/null 2>&1 && $program >/dev/null 2>&1 </dev/null || continue
    printf '%s ' "${program%% *}"
done
"""
"""For `sh`: the programs there that copy to and from object storage, in one line."""
ASK_PYTHON = f"import sys; print(sys.executable if sys.version_info >= (3, {OLDEST}) else '')"

FIND_PYTHON = f"""\
find_python() {{
    for candidate do
        found=$("$candidate" -S -E -c {shlex.quote(ASK_PYTHON)} 2>/dev/null </dev/null) || continue
        [ -z "$found" ] || break
    done
    printf '%s\\n' "$found"
}}
"""
# Where `mv` has no -T it would move the folder into one of that name that came meanwhile.
SETTLE = """\
settle() {
    mv -T "$1" "$2" 2>/dev/null && return
    [ -d "$2" ] || mv "$1" "$2" || return
    rm -rf "$1" "$2/${1##*/}"
}
"""
INSTALL = f"""\
{FIND_PYTHON}{SETTLE}umask 077
above=${{folder%/*}} draft=${{folder%/*}}/.bay-$1
shift
mkdir -p "$above" || exit 1
if [ -d "$folder" ]; then
    find_python "$@" >"$draft" && mv -f "$draft" "$folder/python" || exit 1
else
    mkdir "$draft" && tar -xof - -C "$draft" && rm "$draft/{WHOLE}" &&
        find_python "$@" >"$draft/python" && settle "$draft" "$folder" ||
        {{ rm -rf "$draft"; exit 1; }}
fi
cat "$folder/python"
"""
VISIT = f"""\
{FIND_PYTHON}umask 077
draft=$(mktemp -d) || exit 1
trap 'rm -rf "$draft"' EXIT
tar -xof - -C "$draft" && rm "$draft/{WHOLE}" || exit 1
python=$(find_python {" ".join(CANDIDATES)})
[ -n "$python" ] || {{ echo '{NO_PYTHON}' >&2; exit {ABSENT}; }}
"$python" -S -E "$draft/$0" "$@" </dev/null
"""
CAUSE = re.compile(r"no space|quota|denied|not permitted|read-only|not a directory", re.IGNORECASE)


def packaged_programs() -> Path:
    """The programs as they came with this package."""
    return Path(__file__).parents[1] / "node"


@cache
def program_texts() -> dict[str, bytes]:
    """Every program by its name."""
    found = sorted(packaged_programs().iterdir())
    programs = [path for path in found if path.suffix in {".sh", ".py"}]
    return {path.name: path.read_bytes() for path in programs if path.stem != "__init__"}


@cache
def programs_version() -> str:
    """A short name that changes with any of them."""
    total = hashlib.sha256()
    for name, text in program_texts().items():
        total.update(f"{name} {len(text)}\n".encode() + text)
    return total.hexdigest()[:12]


def programs_archive() -> str:
    """All of them, as standard input for `tar`."""
    return archive({name: (0o600, text) for name, text in program_texts().items()})


def install_here(folder: Path) -> None:
    """Keep the programs on this machine, where a queue outlives the environment that brought them.

    Raises:
        StoreError: when the folder cannot be written.
    """
    draft = folder.with_name(f".bay-{os.urandom(8).hex()}")
    try:
        draft.mkdir(parents=True, mode=0o700)
        for name, text in program_texts().items():
            (draft / name).write_bytes(text)
        (draft / "python").write_text(f"{sys.executable}\n", encoding="utf-8")
        draft.rename(folder)
    except OSError as err:
        from shutil import rmtree  # noqa: PLC0415

        rmtree(draft, ignore_errors=True)
        # Somebody else may have been quicker.
        if not folder.is_dir():
            raise StoreError(
                f"`{folder}` cannot be written: {err.strerror}",
                hint="free some space, or set XDG_STATE_HOME to a folder you can write",
            ) from err


def archive(members: dict[str, tuple[int, bytes | Path | str | None]]) -> str:
    """A tar archive as text, closed by a mark that it is whole.

    Args:
        members: by name, the mode and what it is: bytes or a file that holds them, the target of a
            symbolic link as text, or None for a folder.
    """
    # Dear to load, and most commands send nothing.
    import tarfile  # noqa: PLC0415

    stream = io.BytesIO()
    # The older format: busybox reads no other one.
    with tarfile.open(
        fileobj=stream, mode="w", format=tarfile.GNU_FORMAT, errors="surrogateescape"
    ) as tar:
        for name, (mode, content) in [*members.items(), (WHOLE, (0o600, b""))]:
            info = tarfile.TarInfo(name)
            # Not 1970: archives that programs make of it know no year before 1980.
            info.mtime = content.stat().st_mtime if isinstance(content, Path) else time.time()
            info.mode = mode
            data = content.read_bytes() if isinstance(content, Path) else content
            if isinstance(data, bytes):
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
                continue
            info.type = tarfile.DIRTYPE if data is None else tarfile.SYMTYPE
            info.linkname = data or ""
            tar.addfile(info)
    return decoded(stream.getvalue())


def render_call(folder: str, program: str, *, here: bool) -> str:
    """Shell text that runs a program out of `folder`, itself shell text for a path."""
    absent = f"{{ echo '{NOT_INSTALLED}' >&2; exit {ABSENT}; }}"
    lines = [f"folder={folder}", f'[ -d "$folder" ] || {absent}']
    if not program.endswith(".py"):
        return "\n".join([*lines, f'exec /bin/sh "$folder"/{shlex.quote(program)} "$@"'])
    if here:
        lines.append(f"python={shlex.quote(sys.executable)}")
    else:
        # It may have gone since, or come.
        lines.append(f'IFS= read -r python <"$folder/python" && [ -x "$python" ] || {absent}')
    return "\n".join([*lines, f'exec "$python" -S -E "$folder"/{shlex.quote(program)} "$@"'])


def is_absent(done: Completed, mark: str = NOT_INSTALLED) -> bool:
    """Whether a call found nothing to run."""
    return done.code == ABSENT and mark in done.stderr


class NoPython(Unsupported):
    """The other machine's Python is too old, or it has none."""


def no_python(host: Host, target: str) -> NoPython:
    """The error of a machine without a Python that would do."""
    return NoPython(
        f"`{host.name or 'this machine'}` has no Python 3.{OLDEST} or newer, which the queue of "
        f"`{target}` needs",
        hint=f"install one there; `uv python install` needs no root, then link it as "
        f"`~/.local/bin/python3.{NEWEST}`",
    )


def cannot_write(host: Host, target: str, path: str, done: Completed) -> Rejected | StoreError:
    """The error of a folder that could not be written, with what was said of it."""
    said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    # What follows the first words are consequences.
    problem = next(filter(CAUSE.search, said), next(iter(said), "no word"))
    # All that GNU tar says when the last block of a disk takes half of what it writes.
    problem = "No space left on device" if "Wrote only" in problem else problem
    if not host.name:
        return StoreError(
            f"`{path}` cannot be written: {problem}",
            hint=f"free some space, or choose another `root:` for target `{target}`",
        )
    return Rejected(
        f"`{path}` on `{host.name}` cannot be written: {problem}",
        hint=f"make room there, or choose another `root:` for target `{target}`",
    )
