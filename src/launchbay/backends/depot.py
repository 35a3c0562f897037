"""A target's root on a host: node programs, frozen code, run folders.

```text
<root>/
    snapshots/<id>/      frozen code, once per content
    runs/<run id>/       see core/rundir.py
    envs/<key>/          Python environments
    node/<version>/      the programs of launchbay/node, where compute nodes must see them
```

On the other side a POSIX `sh`, `tar`, `cp`, `find` and `stat` are enough.
"""

from __future__ import annotations

import os
import posixpath
import sys
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from launchbay.backends.depot_programs import (
    CANDIDATES,
    INSTALL,
    NO_PYTHON,
    VISIT,
    cannot_write,
    install_here,
    is_absent,
    no_python,
    packaged_programs,
    programs_archive,
    programs_version,
    render_call,
)
from launchbay.core import rundir
from launchbay.core.backend import LOG_PIECE, LogChunk
from launchbay.core.errors import Unreachable
from launchbay.core.host import decoded_so_far, encoded
from launchbay.hosts.ssh_words import render_path

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from launchbay.core.host import Completed, Host

STATE = '"${XDG_STATE_HOME:-$HOME/.local/state}"/launchbay'

NEAREST = """\
path=$1
until [ -d "$path" ]; do path=${path%/*}; path=${path:-/}; done
[ -w "$path" ] || printf %s "$path"
"""


class Depot:
    """A target's root on a host.

    Args:
        host: this machine or another one.
        root: the folder there; `~` at its beginning is the home there, and so is where a path
            begins that is not absolute.
        target: its name, for what is said.
        programs: where to keep node programs: with the queue's `state`, which belongs to a user
            and a host, or under the `root`, which several machines may share.
    """

    def __init__(
        self, host: Host, root: Path, *, target: str, programs: Literal["state", "root"] = "state"
    ) -> None:
        self.host = host
        self.target = target
        self._programs = programs
        if host.name:
            self._root = root if str(root).startswith(("/", "~")) else Path("~") / root
        else:
            self._root = root.expanduser().absolute()

    def root_path(self) -> str:
        """The absolute path of the root there."""
        return self._absolute_root

    def run_path(self, run_id: str) -> str:
        """The absolute path of a run's folder there."""
        return posixpath.join(self.root_path(), "runs", run_id)

    def programs(self) -> str:
        """The absolute path there of the folder that holds the programs."""
        return self._installed

    def call(
        self,
        program: str,
        *words: str,
        stdin: str = "",
        tell: Callable[[str], None] | None = None,
    ) -> Completed:
        """Run a node program: a `.sh` by `sh`, a `.py` by a Python that is there.

        One round trip, unless the programs are not there yet.

        Raises:
            Unsupported: when there is no Python for a `.py`.
        """
        text = render_call(self._folder, program, here=not self.host.name)
        return self._with_programs(["/bin/sh", "-c", text, program, *words], program, stdin, tell)

    def visit(self, program: str, *words: str) -> Completed:
        """Run a Python node program that asks for no input, and leave nothing behind."""
        if not self.host.name:
            path = str(packaged_programs() / program)
            return self.host.run([sys.executable, "-S", "-E", path, *words])
        text = render_call(self._folder, program, here=False)
        done = self.host.run(["/bin/sh", "-c", text, program, *words])
        if is_absent(done):
            done = self.host.run(
                ["/bin/sh", "-c", VISIT, program, *words], stdin=programs_archive()
            )
        if is_absent(done, NO_PYTHON):
            raise no_python(self.host, self.target)
        return done

    def stage(self, snapshot: str, tree: Path) -> int:
        """Have the frozen code there, whole or not at all; how many bytes were sent.

        Only what differs from the newest snapshot that both sides have is sent.

        Raises:
            TargetError, StoreError: when it cannot be written.
        """
        place = posixpath.join(self.root_path(), "snapshots", snapshot)
        if not self.host.name and (Path(place) == tree or Path(place).is_dir()):
            return 0
        # Most commands send nothing.
        from launchbay.backends.depot_tree import (  # noqa: PLC0415
            COPY,
            LOOK,
            UNPACK,
            find_difference,
        )

        words = [self.root_path(), snapshot, f".bay-{os.urandom(8).hex()}"]
        if not self.host.name:
            self._written(["/bin/sh", "-c", COPY, "sh", *words, str(tree)], place)
            return 0
        names = self.host.run(["/bin/sh", "-c", LOOK, "sh", *words[:2]]).stdout.split("\n")
        if names[0] == "there":
            return 0
        needed = find_difference(tree, [name for name in names if name])
        words += [needed.base, *needed.removed]
        self._written(["/bin/sh", "-c", UNPACK, "sh", *words], place, needed.archive)
        return len(encoded(needed.archive))

    def read_log(self, run_id: str, attempt: int, rank: int, cursor: str) -> LogChunk:
        """What came of a run's log since `cursor`, at most a piece of it."""
        run = rundir.run_folder(self._root, run_id)
        path = rundir.attempt_folder(run, attempt) / rundir.log_name(rank)
        offset = int(cursor or 0)
        data = self.host.read_bytes(path, offset=offset, most=LOG_PIECE)
        text, used = decoded_so_far(data)
        return LogChunk(text=text, cursor=str(offset + used), more=len(data) == LOG_PIECE)

    def pull(self, run_id: str, twin: Path, patterns: Sequence[str] = ()) -> bool:
        """Have in `twin` what is new of the run's folder; see `Outputs.pull`.

        Raises:
            StoreError: when the twin cannot be written.
        """
        run = self.run_path(run_id)
        if not self.host.name and Path(run).resolve() == twin.resolve():
            return twin.is_dir()
        # Most commands bring nothing.
        from launchbay.backends.depot_pull import pull_run  # noqa: PLC0415

        return pull_run(self.host, run, twin, patterns)

    def unwritable(self) -> str:
        """The nearest folder of the root that exists and cannot be written; empty if it can be."""
        if self.host.name:
            return self.host.run(["/bin/sh", "-c", NEAREST, "sh", self.root_path()]).stdout
        nearest = next(folder for folder in (self._root, *self._root.parents) if folder.is_dir())
        return "" if os.access(nearest, os.W_OK) else str(nearest)

    @cached_property
    def _absolute_root(self) -> str:
        text = str(self._root)
        if not text.startswith("~"):
            return text
        done = self.host.run(["/bin/sh", "-c", f"printf %s {render_path(self._root)}"])
        if not done.ok or not done.stdout.startswith("/"):
            raise Unreachable(f"`{self.host.name}` does not say where its home is")
        return done.stdout

    @cached_property
    def _installed(self) -> str:
        text = render_call(self._folder, "run.sh", here=not self.host.name).rpartition("\n")[0]
        argv = ["/bin/sh", "-c", f'{text}\nprintf %s "$folder"']
        return self._with_programs(argv, "run.sh").stdout

    @property
    def _folder(self) -> str:
        """The folder of the programs, as a word of shell text."""
        above = STATE if self._programs == "state" else render_path(self._root)
        return f"{above}/node/{programs_version()}"

    def _with_programs(
        self,
        argv: Sequence[str],
        program: str,
        stdin: str = "",
        tell: Callable[[str], None] | None = None,
    ) -> Completed:
        """Run what needs the programs, which are brought where they are not there."""
        done = self.host.run(argv, stdin=stdin, tell=tell)
        if not is_absent(done):
            return done
        python = self._install()
        if program.endswith(".py") and not python:
            raise no_python(self.host, self.target)
        done = self.host.run(argv, stdin=stdin, tell=tell)
        if is_absent(done):
            raise Unreachable(f"the programs of `{self.target}` vanish as soon as they are there")
        return done

    def _install(self) -> str:
        """Bring the programs; the Python that was found there, if any."""
        above = Path("~/.local/state/launchbay") if self._programs == "state" else self._root
        if not self.host.name:
            state = os.environ.get("XDG_STATE_HOME")
            keeps = Path(state) / "launchbay" if state and self._programs == "state" else above
            install_here(keeps.expanduser() / "node" / programs_version())
            return sys.executable
        place = str(above / "node" / programs_version())
        text = f"folder={self._folder}\n{INSTALL}"
        argv = ["/bin/sh", "-c", text, "sh", os.urandom(8).hex(), *CANDIDATES]
        return self._written(argv, place, programs_archive()).stdout.strip()

    def _written(self, argv: Sequence[str], path: str, stdin: str = "") -> Completed:
        done = self.host.run(argv, stdin=stdin)
        if not done.ok:
            raise cannot_write(self.host, self.target, path, done)
        return done
