"""This machine."""

from __future__ import annotations

import os
import subprocess
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from launchbay.core.errors import Rejected, Unreachable, Unsupported
from launchbay.core.host import DEVICE_VARIABLES, Completed, Host, decoded, encoded
from launchbay.core.whole import replacing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

# Of the terminal that typed the command, or of devices that the queue gives out.
NOT_INHERITED = DEVICE_VARIABLES | {"_", "PWD", "OLDPWD", "SHLVL"}


class LocalHost(Host):
    """This machine, as the person who typed the command."""

    name = ""

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str = "",
        tell: Callable[[str], None] | None = None,
    ) -> Completed:
        return _run_quietly(argv, stdin) if tell is None else _run_aloud(argv, stdin, tell)

    def read_bytes(self, path: Path, *, offset: int = 0, most: int | None = None) -> bytes:
        try:
            with path.open("rb") as file:
                file.seek(offset)
                return file.read(most)
        except FileNotFoundError:
            return b""
        except OSError as err:
            raise Unreachable(f"`{path}` cannot be read: {err.strerror}") from err

    def write_bytes(self, path: Path, data: bytes, *, mode: int = 0o600) -> None:
        try:
            for folder in reversed([path.parent, *path.parent.parents]):
                folder.mkdir(mode=0o700, exist_ok=True)
            with replacing(path) as draft:
                draft.touch(mode=0o600)
                draft.write_bytes(data)
                draft.chmod(mode)
        except OSError as err:
            raise Rejected(f"`{path}` cannot be written: {err.strerror}") from err

    def terminal_argv(self, argv: Sequence[str]) -> list[str]:
        return list(argv)

    def forward_argv(self, port: int, to_host: str, to_port: int) -> list[str]:  # noqa: ARG002
        raise Unsupported(
            "this machine needs no forwarding",
            hint=f"its programs reach `{to_host}:{to_port}` as it is",
        )

    def environment(self) -> Mapping[str, str]:
        return {
            name: value
            for name, value in os.environ.items()
            if name not in NOT_INHERITED and not name.startswith("BAY_")
        }


def _run_quietly(argv: Sequence[str], stdin: str) -> Completed:
    # Bytes: in text mode three kinds of line ends would become one.
    try:
        done = subprocess.run(argv, input=encoded(stdin), capture_output=True, check=False)
    except OSError as err:
        raise _does_not_start(argv, err) from err
    return Completed(code=done.returncode, stdout=decoded(done.stdout), stderr=decoded(done.stderr))


def _run_aloud(argv: Sequence[str], stdin: str, tell: Callable[[str], None]) -> Completed:
    # Files, or three pipes would have to be served at once.
    with TemporaryFile() as given, TemporaryFile() as errors:
        given.write(encoded(stdin))
        given.seek(0)
        try:
            process = subprocess.Popen(argv, stdin=given, stdout=subprocess.PIPE, stderr=errors)
        except OSError as err:
            raise _does_not_start(argv, err) from err
        stdout = "".join(_lines_told(process, tell))
        errors.seek(0)
        return Completed(code=process.returncode, stdout=stdout, stderr=decoded(errors.read()))


def _lines_told(process: subprocess.Popen[bytes], tell: Callable[[str], None]) -> Iterator[str]:
    """Each line once it was told; afterwards the process has ended."""
    with process:
        try:
            for line in map(decoded, process.stdout or ()):
                tell(line.rstrip("\n"))
                yield line
        except BaseException:
            process.terminate()
            raise


def _does_not_start(argv: Sequence[str], err: OSError) -> Unreachable:
    if isinstance(err, FileNotFoundError):
        return Unreachable(
            f"there is no `{argv[0]}` here", hint="install it, or put it on this shell's PATH"
        )
    return Unreachable(f"`{argv[0]}` does not start here: {err.strerror}")
