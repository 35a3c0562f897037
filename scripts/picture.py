"""Draws `docs/assets/run.svg`: what a terminal shows of a real run, in a home of its own."""  # noqa: INP001

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

from rich.console import Console
from rich.text import Text

COLUMNS, ROWS = 80, 24
BIN = Path(sys.executable).parent
PICTURE = Path(__file__).resolve().parent.parent / "docs" / "assets" / "run.svg"
COMMANDS = (
    "bay run lr=0.1,0.01 seed=0..2 python train.py",
    "bay results --sort -acc --over seed",
)
CONTROL = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\r|\n")
# The picture must not fetch anything from anywhere: the reader's own fonts will do.
FONT_FACE = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)


def main() -> None:
    """Run the commands and draw what they left on the screen."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name).resolve()
        folder = home / "demo"
        subprocess.run([BIN / "bay", "init", folder], env=environment(home), check=True)
        shown = "".join(
            f"\x1b[1;32m$\x1b[0m \x1b[1m{command}\x1b[0m\n{capture(command, folder, home)}\n"
            for command in COMMANDS
        )
    text = shown.replace(str(folder), "~/demo").rstrip("\n")
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(draw(text), encoding="utf-8")
    print(f"wrote {PICTURE}")  # noqa: T201


def environment(home: Path) -> dict[str, str]:
    """A person's, with an empty home."""
    return {
        "HOME": str(home),
        "XDG_STATE_HOME": str(home / "state"),
        "XDG_CONFIG_HOME": str(home / "config"),
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
    }


def capture(command: str, folder: Path, home: Path) -> str:
    """What is on the screen after the command, colours included."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    with subprocess.Popen(
        command.split(), cwd=folder, env=environment(home), stdin=slave, stdout=slave, stderr=slave
    ) as process:
        os.close(slave)
        printed = read_all(master)
    os.close(master)
    if process.returncode:
        raise SystemExit(f"`{command}` exited with {process.returncode}:\n{printed}")
    return settle(printed)


def read_all(descriptor: int) -> str:
    """Everything until the other side of the terminal is closed."""
    data = b""
    while True:
        try:
            chunk = os.read(descriptor, 65536)
        except OSError:
            # Linux says so with an error, macOS with an empty answer.
            chunk = b""
        if not chunk:
            return data.decode()
        data += chunk


def settle(printed: str) -> str:
    r"""The lines that are left when those erased in between are gone.

    >>> settle("10 left\x1b[2K\r9 left\r\n")
    '9 left\n'
    """
    lines, row, at = [""], 0, 0
    for match in CONTROL.finditer(printed):
        lines[row] += printed[at : match.start()]
        at = match.end()
        match match[2]:
            case "m":
                lines[row] += match[0]
            case "K":
                lines[row] = ""
            case "A":
                row = max(0, row - int(match[1] or 1))
            case None if match[0] == "\n":
                row += 1
                lines += [""] * (row == len(lines))
    return "\n".join([*lines[:row], lines[row] + printed[at:]])


def draw(text: str) -> str:
    """The text as an SVG that needs nothing but itself."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(text))
    picture = FONT_FACE.sub("", console.export_svg(title="launchbay", unique_id="run"))
    lines = picture.replace("Fira Code", "ui-monospace").splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"


if __name__ == "__main__":
    main()
