"""This machine."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from launchbay.core.errors import Unreachable
from launchbay.core.host import Completed, Host

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

# Of the terminal that typed the command, or of devices that the queue gives out.
NOT_INHERITED = frozenset(
    {
        "_",
        "PWD",
        "OLDPWD",
        "SHLVL",
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
        "NVIDIA_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
    }
)


class LocalHost(Host):
    """This machine, as the person who typed the command."""

    name = ""

    def run(self, argv: Sequence[str], *, stdin: str = "") -> Completed:
        try:
            done = subprocess.run(
                argv,
                input=stdin,
                capture_output=True,
                encoding="utf-8",
                errors="surrogateescape",
                check=False,
            )
        except OSError as err:
            raise Unreachable(f"`{argv[0]}` does not start here: {err.strerror}") from err
        return Completed(code=done.returncode, stdout=done.stdout, stderr=done.stderr)

    def read_bytes(self, path: Path, *, offset: int = 0) -> bytes:
        try:
            with path.open("rb") as file:
                file.seek(offset)
                return file.read()
        except FileNotFoundError:
            return b""
        except OSError as err:
            raise Unreachable(f"`{path}` cannot be read: {err.strerror}") from err

    def environment(self) -> Mapping[str, str]:
        return {
            name: value
            for name, value in os.environ.items()
            if name not in NOT_INHERITED and not name.startswith("BAY_")
        }
