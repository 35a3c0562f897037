"""Reading a project's `.env` so that its values are the same here and far away."""

from __future__ import annotations

import importlib
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from tests.conftest import require_program
from tests.node.workshop import NODE, ORDINARY_PATH

from launchbay.config.dotenv import NEVER_SENT, parse_env, read_env_file, without_devices
from launchbay.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

FILE = Path(".env")
SHELLS = {
    "dash": ["dash"],
    "bash": ["bash"],
    "posix bash": ["bash", "--posix"],
    "busybox": ["busybox", "sh"],
}
OF_THE_SHELL = {"PATH", "PWD", "OLDPWD", "SHLVL", "_"}
PRIVATE_KEY = "-----BEGIN KEY-----\nMIIB+/aZ09==\n\nxYz$(id)\\n#1\n-----END KEY-----\n"
LONG = "a 'b' \"c\" $d # " * 1250

NASTY = [
    ("=plain", "plain"),
    ("=", ""),
    ("=''", ""),
    ('=""', ""),
    ("=two words", "two words"),
    ("=  around  ", "around"),
    (" = around the sign", "around the sign"),
    ("=' kept  '", " kept  "),
    ('="\tkept\t"', "\tkept\t"),
    ("=a\tb", "a\tb"),
    ("=it's", "it's"),
    ('=say "hi"', 'say "hi"'),
    ("='say \"hi\"'", 'say "hi"'),
    ('="it\'s \\"here\\""', 'it\'s "here"'),
    ("=a#b", "a#b"),
    ("=#b", "#b"),
    ("=a # b", "a"),
    ("= # b", ""),
    ("='a # b' # c", "a # b"),
    ('="a # b"#c', "a # b"),
    ("=a=b", "a=b"),
    ("==", "="),
    ("=YWJj==", "YWJj=="),
    ("=export A=b", "export A=b"),
    ("=$HOME ${HOME} $$ $1", "$HOME ${HOME} $$ $1"),
    ('="\\$HOME $HOME"', "$HOME $HOME"),
    ("=$(touch ran) `touch ran`", "$(touch ran) `touch ran`"),
    ("='$(touch ran)' ", "$(touch ran)"),
    ('="`touch ran`"', "`touch ran`"),
    (r"=C:\new\tmp" + "\\", "C:\\new\\tmp\\"),
    (r"='C:\new\'", "C:\\new\\"),
    (r'="\\ \n \t \r \d \0 \' \`"', "\\ \n \t \r \\d \\0 \\' \\`"),
    ('="one\ntwo\\\nthree\n"', "one\ntwo\\\nthree\n"),
    ("='one\n# two\nA=three'", "one\n# two\nA=three"),
    (f"='{PRIVATE_KEY}'", PRIVATE_KEY),
    ('={"a": [1, "b\'c"], "d": null}', '{"a": [1, "b\'c"], "d": null}'),
    ("=äöü ß → 漢字 \u00a0\u2028\x85", "äöü ß → 漢字 \u00a0\u2028\x85"),
    ("=👩‍🚀🏳️‍🌈", "👩‍🚀🏳️‍🌈"),
    ("=!! !x ^a^b", "!! !x ^a^b"),
    ("=* ? [a-z] {a,b}", "* ? [a-z] {a,b}"),
    ("=a;b & c && d | e || f", "a;b & c && d | e || f"),
    ("=%s %d %% >x <y", "%s %d %% >x <y"),
    ("=-n -e --", "-n -e --"),
    ("=~ ~root ~/x", "~ ~root ~/x"),
    ("=\x01\x07\x1b[31m\x7f", "\x01\x07\x1b[31m\x7f"),
    ('="cr\rin"', "cr\rin"),
    (f"='{LONG}'".replace("'b'", "b"), LONG.replace("'b'", "b")),
    (f"={LONG.replace('#', '')}", LONG.replace("#", "").strip()),
]
NASTY_TEXT = "".join(
    f"{'export ' if number % 2 else ''}V{number}{written}\n"
    for number, (written, _) in enumerate(NASTY)
)
NASTY_VALUES = {f"V{number}": value for number, (_, value) in enumerate(NASTY)}


def refusal(text: str) -> tuple[str, str | None]:
    """What reading the text says, and its hint."""
    with pytest.raises(ConfigError) as caught:
        parse_env(text, FILE)
    return str(caught.value), caught.value.hint


@pytest.mark.parametrize(("written", "value"), NASTY, ids=lambda text: repr(text[:20]))
def test_value(written: str, value: str) -> None:
    """A value is what was written, without quotes, comments and escapes."""
    assert parse_env(f"KEY{written}\nNEXT=1", FILE) == {"KEY": value, "NEXT": "1"}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", {}),
        ("\n \n\t\n", {}),
        ("# A=1\n  # B=2\n#", {}),
        ("  A=1", {"A": "1"}),
        ("A=1\nB=2", {"A": "1", "B": "2"}),
        ("A=1\nB=2\nA=3\n", {"A": "3", "B": "2"}),
        ("_a1=x", {"_a1": "x"}),
        ("export\tA=1", {"A": "1"}),
        ("export  A = 1", {"A": "1"}),
        ("export=1", {"export": "1"}),
        ("export =1", {"export": "1"}),
        ("exportA=1", {"exportA": "1"}),
        ("\ufeffA=1", {"A": "1"}),
        ("A=1\r\n\r\nB='x'\r\n# c\r\nC=\r\n", {"A": "1", "B": "x", "C": ""}),
        ("A=1 # c\r\nB=\"x\ry\r\nz\"\r\nC='x\r\nz'", {"A": "1", "B": "x\ry\nz", "C": "x\nz"}),
        ("A=1\rB=2\r\r\nC=3\r", {"A": "1", "B": "2", "C": "3"}),
        ("# a comment with a NUL \0\nA=1", {"A": "1"}),
    ],
)
def test_what_a_file_says(text: str, values: dict[str, str]) -> None:
    """Blank lines, comments, `export`, a byte order mark and line ends say nothing."""
    assert parse_env(text, FILE) == values


def test_line_ends_change_no_value() -> None:
    """A file that was saved with CRLF says the same."""
    assert parse_env(NASTY_TEXT.replace("\n", "\r\n"), FILE) == NASTY_VALUES


def escaped(value: str) -> str:
    for plain, written in (("\\", "\\\\"), ('"', '\\"'), ("$", "\\$"), ("\r", "\\r")):
        value = value.replace(plain, written)
    return value


@settings(deadline=None, max_examples=300)
@given(value=some.text(some.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_quoted_values_stay_as_meant(value: str) -> None:
    """Any text in double quotes with its escapes comes back as itself."""
    text = f'A="{escaped(value)}" # comment\nB=1\n'

    assert parse_env(text, FILE) == {"A": value, "B": "1"}


@settings(deadline=None, max_examples=300)
@given(text=some.text(some.sampled_from("A1=\"'\\# \t\n\r\0-$n") | some.characters()))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Whatever the text is, it gives variables that can be set, or a `ConfigError`."""
    try:
        values = parse_env(text, FILE)
    except ConfigError:
        return

    assert all(name.isidentifier() and name.isascii() for name in values)
    assert not any("\0" in value for value in values.values())


NAME_HINT = "use letters, digits and `_`, and no digit first"
NO_SIGN = "no `=` after a name"
NO_SIGN_HINT = "write `KEY=value`; put a value of several lines in quotes"
ESCAPE_HINT = r"""write `\"` for a quote inside the value"""
OTHER_QUOTE_HINT = """put the value in `"` when it holds a `'`"""


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("A=1\n  KEY\nB=2", f"2:3: {NO_SIGN}", NO_SIGN_HINT),
        ("export KEY", f"1:1: {NO_SIGN}", NO_SIGN_HINT),
        ("KEY # a=b", f"1:1: {NO_SIGN}", NO_SIGN_HINT),
        ("KEY: value", f"1:1: {NO_SIGN}", NO_SIGN_HINT),
        ("A=1\rKEY", f"2:1: {NO_SIGN}", NO_SIGN_HINT),
        ("1A=x", "1:1: 1A: not the name of a variable", NAME_HINT),
        ("\n export a-b = x", "2:9: a-b: not the name of a variable", NAME_HINT),
        ("ä=x", "1:1: ä: not the name of a variable", NAME_HINT),
        ("=x", "1:1: not the name of a variable", NAME_HINT),
        ("set A=x", "1:1: not the name of a variable", NAME_HINT),
        (f"{'s3cr3t-' * 9}==", "1:1: not the name of a variable", NAME_HINT),
        ("\0A=x", "1:1: not the name of a variable", NAME_HINT),
        (
            "A=1\r\nB = 'x\r\nC=2\r\n",
            "2:5: B: the quote is never closed",
            "write `'` at the end of the value",
        ),
        ('A="x\\"', "1:3: A: the quote is never closed", 'write `"` at the end of the value'),
        ("A='it's'", "1:7: A: text after the closing quote", OTHER_QUOTE_HINT),
        ('A="x" y # z\nB=1', "1:7: A: text after the closing quote", ESCAPE_HINT),
        (
            'A="x\nB="y"\n',
            "2:4: A: text after the closing quote",
            "close the quote that opens on line 1",
        ),
        ("A=x\0y", "1:4: A: a NUL character is not allowed", "remove it"),
        ("A='x\n\0'", "2:1: A: a NUL character is not allowed", "remove it"),
    ],
)
def test_what_cannot_be(text: str, message: str, hint: str) -> None:
    """Each thing that cannot be is refused with its place, its key and a fix."""
    assert refusal(text) == (f".env:{message}", hint)


def test_several_problems() -> None:
    """Everything that is wrong is said at once, without any value."""
    message, hint = refusal("a.b='s3\ncr3t'\nA='s3cr3t' s3cr3t\ns3cr3t\nB=2\nC=\"s3cr3t\ns3cr3t")

    assert hint is None
    assert message.splitlines() == [
        "4 problems",
        f".env:1:1: a.b: not the name of a variable; {NAME_HINT}",
        f".env:3:12: A: text after the closing quote; {OTHER_QUOTE_HINT}",
        f".env:4:1: {NO_SIGN}; {NO_SIGN_HINT}",
        '.env:6:3: C: the quote is never closed; write `"` at the end of the value',
    ]


def test_reading_a_file(tmp_path: Path) -> None:
    """A file is read as UTF-8, with a byte order mark or without."""
    file = tmp_path / ".env"
    file.write_bytes(b"\xef\xbb\xbfA=\xc3\xa4\r\nB='1\r\n2'\r\n")

    assert read_env_file(file) == {"A": "ä", "B": "1\n2"}


def test_no_file(tmp_path: Path) -> None:
    """Where there is no file, or a virtual environment of that name, nothing is set."""
    (tmp_path / ".env").mkdir()

    assert read_env_file(tmp_path / ".env") == {}
    assert read_env_file(tmp_path / "none" / ".env") == {}


def test_unreadable_file(tmp_path: Path) -> None:
    """A file that cannot be read is refused."""
    latin, loop = tmp_path / "latin", tmp_path / "loop"
    latin.write_bytes(b"A=1\nB=\xe4\n")
    loop.symlink_to(loop)
    said = []
    for file in (latin, loop):
        with pytest.raises(ConfigError) as caught:
            read_env_file(file)
        said.append((str(caught.value), caught.value.hint))

    assert said == [
        (f"{latin}:2:3: byte 0xe4 is not UTF-8", "save the file as UTF-8"),
        (
            f"{loop}: cannot be read: Too many levels of symbolic links",
            "check the path and its permissions",
        ),
    ]


def test_devices_stay_here() -> None:
    """What names devices of this machine can be left out; reading keeps it."""
    values = parse_env("".join(f"{name}=0\n" for name in sorted(NEVER_SENT)) + "A=1", FILE)

    assert values.keys() == {*NEVER_SENT, "A"}
    assert without_devices(values) == {"A": "1"}


@pytest.fixture
def render_exports(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str]], str]:
    """What writes a run's secrets on the node."""
    monkeypatch.syspath_prepend(str(NODE))
    render: Callable[[dict[str, str]], str] = importlib.import_module("runfolder").render_exports
    return render


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> list[str]:
    """Each shell that a node may have."""
    words = SHELLS[request.param]
    return [require_program(words[0]), *words[1:]]


def seen_by_a_program(shell: list[str], exports: str, folder: Path) -> dict[str, str]:
    """The environment of a program that the shell starts after it has read the exports."""
    (folder / "secrets.sh").write_bytes(exports.encode())
    done = subprocess.run(
        [*shell, "-c", ". ./secrets.sh; exec env -0"],
        cwd=folder,
        env={"PATH": ORDINARY_PATH},
        capture_output=True,
        check=True,
    )
    assert not done.stderr
    pairs = (entry.partition("=") for entry in done.stdout.decode().split("\0")[:-1])
    return {name: value for name, _, value in pairs if name not in OF_THE_SHELL}


def test_values_are_the_same_far_away(
    shell: list[str], render_exports: Callable[[dict[str, str]], str], tmp_path: Path
) -> None:
    """What `.env` says reaches a program on the node as it was read here, in every shell."""
    (tmp_path / ".env").write_bytes(NASTY_TEXT.encode())
    values = read_env_file(tmp_path / ".env")
    seen = seen_by_a_program(shell, render_exports(values), tmp_path)

    assert values == NASTY_VALUES
    assert seen == values
    assert {path.name for path in tmp_path.iterdir()} == {".env", "secrets.sh"}


def test_every_character_arrives(
    shell: list[str], render_exports: Callable[[dict[str, str]], str], tmp_path: Path
) -> None:
    """Every character of the first 65,535 and some beyond reach a program in every shell."""
    text = "".join(map(chr, [*range(1, 0xD800), *range(0xE000, 0x10400), 0x10FFFF]))
    values = {f"V{at}": text[at : at + 1000] for at in range(0, len(text), 1000)}
    written = "".join(f'{name}="{escaped(value)}"\n' for name, value in values.items())
    read = parse_env(written, FILE)
    seen = seen_by_a_program(shell, render_exports(read), tmp_path)

    assert read == values
    assert seen == values
