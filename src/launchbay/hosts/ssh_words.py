"""What is said over SSH: scripts to the remote `sh`, its answers, and what ssh itself means."""

from __future__ import annotations

import os
import re
import shlex
import string
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from launchbay.core.errors import TargetError, Unauthorized, Unreachable
from launchbay.core.host import decoded, encoded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ABSENT = "absent"
PLAIN = frozenset(string.ascii_letters + string.digits + "/._-")
DECODE = """'eval "$(printf %b "$(echo "$1" | tr , "\\134")")"'"""
"""Octal 134 is the backslash."""


# With BatchMode that is all that ssh says about a key that it would have asked about.
UNKNOWN_KEY = re.compile(r"host key is known for|host key verification failed", re.IGNORECASE)


CHANGED_KEY = re.compile(r"HOST IDENTIFICATION HAS CHANGED|host key .*has changed", re.IGNORECASE)


DENIED = re.compile(
    r"permission denied ?[(,]|too many authentication failures|no supported authentication methods",
    re.IGNORECASE,
)


REFUSED_SESSION = re.compile(r"session open refused|session request failed", re.IGNORECASE)
EMPTY_WORDS = re.compile(
    r"[@\s]*$|\*\*|Warning: |debug\d|mux_client|ControlSocket|kex_exchange_identification"
    r"|banner exchange|.*by UNKNOWN port"
)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What one session said; `code` is empty when it broke off before its end line."""

    started: bool
    code: str
    stdout: bytes
    stderr: bytes
    ssh_code: int
    ssh_said: str

    @property
    def refused(self) -> bool:
        """Whether sshd had no room for one more session."""
        return not self.started and REFUSED_SESSION.search(self.ssh_said) is not None


def render_script(body: str, mark: str) -> str:
    """The whole script; `sh` reads it to the closing brace before it runs any of it.

    So nothing of what follows `go` can be read ahead by the shell itself.
    """
    return f"""{{
printf '\\nbay-{mark}-start %s\\n' "$$" && printf '\\nbay-{mark}-start\\n' >&2 || exit 1
IFS= read -r go && [ "$go" = {mark} ] || exit 1
{body}
printf 'bay-{mark}-end %s\\n' "$code"
printf 'bay-{mark}-end\\n' >&2
exit 0
}}
"""


def render_command(argv: Sequence[str]) -> str:
    """Shell text that runs a program, never a builtin of the same name, and keeps its code."""
    words = " ".join(map(shlex.quote, argv))
    if "\0" in words:
        raise ValueError("embedded null byte")
    program = shlex.quote(argv[0])
    return (
        f"if command -v {program} >/dev/null 2>&1\n"
        f"then (exec {words}); code=$?\n"
        f"else code={ABSENT}; fi"
    )


def render_verbatim(argv: Sequence[str]) -> str:
    """Text for a login shell that runs a program with these words, whichever shell it is.

    All that it has to understand is `exec` and one pair of single quotes: what differs between
    shells inside of them (quotes, `!`, doubled backslashes) is not there. The words themselves are
    plain letters, octal numbers for all others.
    """
    text = encoded("exec " + " ".join(map(shlex.quote, argv)))
    if b"\0" in text:
        raise ValueError("embedded null byte")
    plain = "".join(chr(byte) if chr(byte) in PLAIN else f",0{byte:03o}" for byte in text)
    return f"exec /bin/sh -c {DECODE} sh {plain}"


def render_reading(path: Path, offset: int, most: int | None = None) -> str:
    """Shell text that prints a file from an offset on; a problem is told in English."""
    place = render_path(path)
    read = f"tail -c +{offset + 1} {place}"
    if most is None:
        return f"(export LC_ALL=C; exec {read}); code=$?"
    # What cannot be read has to be told, and `head` would hide that.
    return f"(export LC_ALL=C; [ -r {place} ] || exec {read}; {read} | head -c {most}); code=$?"


def render_writing(path: Path, size: int, mode: int) -> str:
    """Shell text that writes its standard input to a file by way of a draft.

    The size is checked: a broken connection looks like the end of the input.
    """
    draft = render_path(path.parent / f".bay-{os.urandom(8).hex()}")
    final = render_path(path)
    return f"""(umask 077; draft={draft}; final={final}
if [ -d "$final" ]; then echo "Is a directory" >&2; exit 1; fi
mkdir -p {render_path(path.parent)} && cat >"$draft" && [ "$(wc -c <"$draft")" -eq {size} ] &&
chmod {mode:o} "$draft" && mv -f "$draft" "$final" || {{ rm -f "$draft"; exit 1; }}); code=$?"""


def render_path(path: Path) -> str:
    """A path as a word of shell text; `~` at its start is the home there."""
    text = str(path)
    if text == "~":
        return '"$HOME"'
    if text.startswith("~/"):
        return '"$HOME"/' + shlex.quote(text[2:])
    return shlex.quote(text if text.startswith("/") else f"./{text}")


def find_start(heard: bytes, mark: str) -> tuple[str, int] | None:
    """The process id of the remote `sh` and where its answer begins, once the start line is in."""
    found = re.search(rf"\nbay-{mark}-start (\d+)\n".encode(), heard)
    return None if found is None else (found[1].decode(), found.end())


def parse_answer(pid: str, stdout: bytes, stderr: bytes, ssh_code: int, mark: str) -> Answer:
    """What one session said, from standard output after the start line and all of the errors."""
    out, _, rest = stdout.partition(f"bay-{mark}-end ".encode())
    noise, _, errors = stderr.partition(f"\nbay-{mark}-start\n".encode())
    own, _, after = errors.partition(f"bay-{mark}-end\n".encode())
    code, newline, _ = rest.partition(b"\n")
    return Answer(
        started=bool(pid),
        code=code.decode() if newline else "",
        stdout=out,
        stderr=own,
        ssh_code=ssh_code,
        # Where the command was still talking, its last words and those of ssh are mixed.
        ssh_said=decoded(after or own if pid else noise),
    )


def tell_lines(heard: bytes, mark: str, tell: Callable[[bytes], None]) -> int:
    """Tell each complete line before the end line; how many bytes were told."""
    told = 0
    while (newline := heard.find(b"\n", told)) >= 0:
        line, ended, _ = heard[told:newline].partition(f"bay-{mark}-end ".encode())
        if line or not ended:
            tell(line)
        told = newline + 1
    return told


def explain(name: str, target: str, ssh_said: str) -> TargetError:
    """The error that ssh meant."""
    last = last_line(ssh_said)
    if CHANGED_KEY.search(ssh_said):
        return Unauthorized(
            f"`{name}` shows another host key than before",
            hint=f"ask whoever runs it if that is meant; then `ssh-keygen -R` and `ssh {name}`",
        )
    if UNKNOWN_KEY.search(ssh_said):
        return Unauthorized(
            f"the host key of `{name}` is not known yet",
            hint=f"`ssh {name}` once, and compare the fingerprint that it shows",
        )
    if denied := [line for line in ssh_said.splitlines() if DENIED.search(line)]:
        return Unauthorized(
            f"`{name}` wants a login: {denied[-1].strip()}", hint=f"`bay target login {target}`"
        )
    return Unreachable(
        f"`{name}` does not answer: {last or 'ssh ended without a word'}",
        hint=f"`ssh {name}` has to work in this shell",
    )


def parse_configured_socket(text: str) -> Path | None:
    """The `ControlPath` in the output of `ssh -G`, if there is one."""
    found = re.search(r"^controlpath (.+)$", text, re.MULTILINE)
    return None if found is None or found[1] == "none" else Path(found[1])


def last_line(text: str) -> str:
    """The last line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    meant = [line for line in lines if not EMPTY_WORDS.match(line)]
    return next(reversed(meant or lines), "")
