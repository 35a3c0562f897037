"""`bay data browse`: a chooser on a terminal, the five-action prompt elsewhere."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from contextlib import contextmanager
from functools import partial
from shutil import get_terminal_size
from typing import TYPE_CHECKING

import click

from launchbay.cli.data_prompt import prompt_actions
from launchbay.cli.data_words import local_option
from launchbay.cli.screen import interactive
from launchbay.core.errors import BayError
from launchbay.engine import browsing
from launchbay.engine.browsing import Chooser
from launchbay.engine.data import open_data
from launchbay.engine.shelf import Shelf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from launchbay.engine.browsing import Wish

ALTERNATE, USUAL = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
CLEAR = "\x1b[H\x1b[J"
STYLES = {"title": "\x1b[1m", "cursor": "\x1b[7m", "folder": "\x1b[34m", "dim": "\x1b[2m"}
PLAIN = "\x1b[0m"
KEYS = {
    "\x1b[A": browsing.UP,
    "\x1bOA": browsing.UP,
    "\x1b[B": browsing.DOWN,
    "\x1bOB": browsing.DOWN,
    "\x1b[C": browsing.OPEN,
    "\x1bOC": browsing.OPEN,
    "\x1b[D": browsing.BACK,
    "\x1bOD": browsing.BACK,
    "\x1b[5~": browsing.PAGE_UP,
    "\x1b[6~": browsing.PAGE_DOWN,
    "\x1b[H": browsing.HOME,
    "\x1b[F": browsing.END,
    "\r": browsing.OPEN,
    "\n": browsing.OPEN,
    "\x7f": browsing.BACK,
    "\x08": browsing.BACK,
    "\x1b": browsing.ESCAPE,
}


@click.command("browse")
@click.argument("pattern", default="")
@click.option("--prompt", is_flag=True, help="list what matches, and ask once what to do")
@local_option
def browse(*, pattern: str, prompt: bool, local_path: Path | None) -> int:
    """Look through bucket and folder together, and choose.

    Arrows, enter and `/` to find; space to mark; then download, upload, remove or delete.

    Without a terminal, or with `--prompt`, what matches is printed and one action is asked for.
    """
    data = open_data(local=local_path)
    if prompt or not interactive():
        return prompt_actions(data, pattern)
    with _screen() as descriptor:
        _browse(Shelf(data, pattern or "."), descriptor)
    return 0


def _browse(shelf: Shelf, descriptor: int) -> None:
    chooser = Chooser(title=shelf.title)
    _attempt(chooser, lambda: chooser.show(shelf.title, shelf.rows()))
    while True:
        _draw(chooser)
        key = _read_key(descriptor)
        wish = chooser.press(key) if key else browsing.Wish(verb="quit")
        if wish is None:
            continue
        if wish.verb == "quit":
            return
        _attempt(chooser, partial(_follow, chooser, shelf, wish))


def _attempt(chooser: Chooser, action: Callable[[], None]) -> None:
    """Do it; what goes wrong is said at the foot of the screen."""
    try:
        action()
    except BayError as err:
        chooser.message = f"{err}; {err.hint}" if err.hint else str(err)
    except KeyboardInterrupt:
        chooser.message = "interrupted"


def _follow(chooser: Chooser, shelf: Shelf, wish: Wish) -> None:
    at = ""
    if wish.verb == "open":
        shelf.enter(wish.keys[0])
    elif wish.verb == "back":
        at = shelf.leave()
    else:
        at = wish.keys[0]
        chooser.message = f"{wish.verb} …"
        _draw(chooser)
        chooser.message = shelf.do(wish.verb, wish.keys)
        chooser.marks.clear()
    chooser.show(shelf.title, shelf.rows(), at=at)


@contextmanager
def _screen() -> Iterator[int]:
    """The terminal as keys and a page, and afterwards as it was."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    sys.stderr.write(ALTERNATE)
    try:
        # Ctrl-C stays what it is.
        tty.setcbreak(descriptor)
        yield descriptor
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        sys.stderr.write(USUAL)
        sys.stderr.flush()


def _read_key(descriptor: int) -> str:
    """The next key; "" when the terminal is gone."""
    try:
        first = os.read(descriptor, 1)
    except OSError:
        return ""
    if first == b"\x1b":
        while select.select([descriptor], [], [], 0.05)[0] and len(first) < 6:  # noqa: PLR2004
            first += os.read(descriptor, 1)
            if first[-1:] == b"~" or (first[-1:].isalpha() and first[1:] != b"O"):
                break
    while first and first[0] >= 0xC0 and not _whole(first):  # noqa: PLR2004
        first += os.read(descriptor, 1)
    text = first.decode(errors="replace")
    return KEYS.get(text, text)


def _whole(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return len(data) >= 4  # noqa: PLR2004
    return True


def _draw(chooser: Chooser) -> None:
    from rich.cells import set_cell_size  # noqa: PLC0415 (dear, and only wanted on a terminal)

    width, height = get_terminal_size((80, 24))
    plain = bool(os.environ.get("NO_COLOR"))
    lines = []
    for style, text in chooser.lines(height - 1):
        shown = "".join(letter if letter.isprintable() else "?" for letter in text)
        cut = set_cell_size(shown, max(1, width - 1)).rstrip()
        colour = "" if plain and style != "cursor" else STYLES.get(style, "")
        lines.append(f"{colour}{cut}{PLAIN if colour else ''}")
    sys.stderr.write(CLEAR + "\r\n".join(lines))
    sys.stderr.flush()
