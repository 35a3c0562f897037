"""A machine that runs commands and holds files."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path


DEVICE_VARIABLES = frozenset(
    {
        "CUDA_DEVICE_ORDER",
        "CUDA_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "NVIDIA_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
    }
)
"""Variables that name the devices of one machine; a run is given its own."""


@dataclass(frozen=True, kw_only=True)
class Completed:
    """What a command left behind."""

    code: int
    stdout: str
    stderr: str

    @property
    def ok(self) -> bool:
        """Whether it exited with 0."""
        return self.code == 0


class Host(Protocol):
    """A machine that runs commands and holds files, this one or another.

    Every method raises `Unreachable` when the machine does not answer.
    """

    name: str

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str = "",
        tell: Callable[[str], None] | None = None,
    ) -> Completed:
        """Run a command to its end; words and standard input arrive verbatim.

        Each line of standard output is told as it comes. What `tell` raises asks the command to
        end, waits for that, and is raised.
        """

    def read_bytes(self, path: Path, *, offset: int = 0, most: int | None = None) -> bytes:
        """The file from `offset` to its present end, or so many bytes; empty without a file."""

    def write_bytes(self, path: Path, data: bytes, *, mode: int = 0o600) -> None:
        """Write the file whole or not at all; missing folders are made, for the owner only.

        Raises:
            Rejected: when it cannot be written.
        """

    def terminal_argv(self, argv: Sequence[str]) -> list[str]:
        """What a terminal here executes to have the command there, with that terminal."""

    def forward_argv(self, port: int, to_host: str, to_port: int) -> list[str]:
        """What stays in the foreground while `port` here leads to a port that the host reaches.

        Only this machine's own programs can connect.

        Raises:
            Unsupported: when there is nothing to lead through.
        """

    def environment(self) -> Mapping[str, str]:
        """The variables that a person's shell there would hand to a program."""


def encoded(text: str) -> bytes:
    """The bytes that a text stands for, undecodable ones as they were."""
    return text.encode("utf-8", "surrogateescape")


def decoded(data: bytes) -> str:
    """The text that bytes stand for; what is no UTF-8 comes back as it was."""
    return data.decode("utf-8", "surrogateescape")


def decoded_so_far(data: bytes) -> tuple[str, int]:
    """The text of a piece of a log, and how many bytes it stands for.

    A character that is half written stays for the next piece; what is no UTF-8 is replaced.

    >>> decoded_so_far("dü".encode()[:2])
    ('d', 1)
    """
    return codecs.utf_8_decode(data, "replace", False)  # noqa: FBT003 (not the end)
