"""The chooser of `bay data browse` without its terminal: keys come in, wishes and lines go out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from launchbay.core.quantity import render_size

if TYPE_CHECKING:
    from collections.abc import Sequence

VERBS = {"d": "download", "u": "upload", "r": "remove", "x": "delete"}
ASKED = {"remove": "remove from the bucket", "delete": "delete here"}
HELP = "⏎ open  ← back  / filter  space mark  d down  u up  r remove  x delete here  q quit"
SIDES = {(True, True): "both", (True, False): "bucket", (False, True): "here"}
UP, DOWN, PAGE_UP, PAGE_DOWN = "up", "down", "page up", "page down"
HOME, END, OPEN, BACK, ESCAPE = "home", "end", "enter", "back", "escape"


@dataclass(frozen=True, kw_only=True)
class Row:
    """A file or a folder (its key ends with `/`), and where it is."""

    key: str
    name: str
    there: bool
    here: bool
    size: int = 0

    @property
    def folder(self) -> bool:
        """Whether others are below it."""
        return self.key.endswith("/")


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What somebody wants: `open`, `back`, `quit`, or a verb with the keys that it is about."""

    verb: str
    keys: tuple[str, ...] = ()


@dataclass
class Chooser:
    """What is on the screen: rows, where the cursor is, what is marked."""

    title: str
    rows: Sequence[Row] = ()
    cursor: int = 0
    marks: dict[str, None] = field(default_factory=dict)
    wanted: str = ""
    """Only rows whose names hold this are shown."""
    typing: bool = False
    """Whether keys go into `wanted`."""
    asked: Wish | None = None
    """What waits for a yes."""
    message: str = ""

    def shown(self) -> list[Row]:
        """The rows that the filter lets through."""
        return [row for row in self.rows if self.wanted.lower() in row.name.lower()]

    def show(self, title: str, rows: Sequence[Row], *, at: str = "") -> None:
        """Put other rows on the screen, the cursor on the one with the key `at`."""
        keys = [row.key for row in rows]
        self.title, self.rows = title, rows
        self.marks = {key: None for key in self.marks if key in set(keys)}
        self.cursor = keys.index(at) if at in keys else 0

    def press(self, key: str) -> Wish | None:
        """Take a key; what it asks for, if that is for others to do."""
        if self.asked is not None:
            return self._answer(key)
        if self.typing:
            self._type(key)
            return None
        self.message = ""
        if key in VERBS:
            return self._choose(VERBS[key])
        if key in {OPEN, BACK, "q", ESCAPE}:
            return self._leave(key)
        if key == "/":
            self.typing, self.wanted, self.cursor = True, "", 0
        elif key == " ":
            self._mark()
        else:
            self._move(key)
        return None

    def _answer(self, key: str) -> Wish | None:
        asked, self.asked = self.asked, None
        return asked if key in {"y", "Y"} else None

    def _type(self, key: str) -> None:
        if key in {OPEN, DOWN, UP}:
            self.typing = False
        elif key == ESCAPE:
            self.typing, self.wanted = False, ""
        elif key == BACK:
            self.wanted = self.wanted[:-1]
        elif len(key) == 1:
            self.wanted += key
        self.cursor = 0

    def _leave(self, key: str) -> Wish | None:
        if key == ESCAPE:
            self.wanted, self.cursor = "", 0
            return None
        if key == "q":
            return Wish(verb="quit")
        if key == BACK:
            self.wanted = ""
            return Wish(verb="back")
        row = self._current()
        if row is None or not row.folder:
            return None
        self.wanted = ""
        return Wish(verb="open", keys=(row.key,))

    def _choose(self, verb: str) -> Wish | None:
        row = self._current()
        keys = tuple(self.marks) or ((row.key,) if row else ())
        if not keys:
            return None
        wish = Wish(verb=verb, keys=keys)
        if verb in ASKED:
            self.asked = wish
            return None
        return wish

    def _mark(self) -> None:
        row = self._current()
        if row is None:
            return
        if row.key in self.marks:
            del self.marks[row.key]
        else:
            self.marks[row.key] = None
        self._move(DOWN)

    def _move(self, key: str, *, page: int = 10) -> None:
        last = max(0, len(self.shown()) - 1)
        steps = {UP: -1, "k": -1, DOWN: 1, "j": 1, PAGE_UP: -page, PAGE_DOWN: page}
        places = {HOME: 0, END: last}
        self.cursor = places.get(key, min(last, max(0, self.cursor + steps.get(key, 0))))

    def _current(self) -> Row | None:
        rows = self.shown()
        return rows[self.cursor] if self.cursor < len(rows) else None

    def lines(self, height: int) -> list[tuple[str, str]]:
        """What to show, as (style, text), never more lines than the height."""
        room = max(1, height - 3)
        rows = self.shown()
        first = max(0, min(self.cursor - room // 2, len(rows) - room))
        body = [
            (self._style(at, row), self._line(row))
            for at, row in enumerate(rows[first : first + room], start=first)
        ]
        if not rows:
            body = [("dim", "  nothing here" if not self.wanted else "  nothing matches")]
        return [("title", self.title), *body, ("dim", self._foot(len(rows)))][:height]

    def _style(self, at: int, row: Row) -> str:
        if at == self.cursor:
            return "cursor"
        return "folder" if row.folder else "file"

    def _line(self, row: Row) -> str:
        mark = "*" if row.key in self.marks else " "
        size = "" if row.folder else render_size(row.size)
        return f"{mark} {size:>9}  {SIDES[row.there, row.here]:<6}  {row.name}"

    def _foot(self, number: int) -> str:
        if self.asked is not None:
            count = len(self.asked.keys)
            what = self.asked.keys[0] if count == 1 else f"{count} marked"
            return f"{ASKED[self.asked.verb]}: {what}? [y/N]"
        if self.typing:
            return f"/{self.wanted}▏  {number} match"
        return self.message or (f"{len(self.marks)} marked · {HELP}" if self.marks else HELP)
