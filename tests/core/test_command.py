"""Placeholders: values arrive verbatim wherever they stand."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launchbay.core.command import fill, render
from launchbay.core.errors import ConfigError
from launchbay.core.job import Argv, Script

VALUES = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=20)
SHELLS = [shell for shell in ("dash", "bash") if shutil.which(shell)]


def printed(shell: str, script: str) -> str:
    done = subprocess.run([shell, "-c", script], capture_output=True, check=True)
    return done.stdout.decode()


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    "written",
    [
        "printf %s <v>",
        'printf %s "<v>"',
        "printf %s '<v>'",
        'printf %s "$(printf %s "<v>")"',
        "printf %s a<v>b | sed 's/^a//; s/b$//'",
        "# it's a comment with <v>\nprintf %s <v>",
    ],
)
@pytest.mark.parametrize(
    "value", ["a b", "it's", '"', "$HOME", "$(id)", "`id`", "\\", "*", "-x", "ü;|&"]
)
def test_value_is_quoted_for_where_it_stands(shell: str, written: str, value: str) -> None:
    """Bare, in either kind of quotes and nested, the program sees the value itself."""
    script = fill(Script(written), {"v": value})

    assert printed(shell, render(script)) == value


@given(value=VALUES.filter(lambda text: not text.endswith("\n") and "\r" not in text))
@settings(max_examples=50, deadline=None)
def test_any_value_arrives(value: str) -> None:
    """Whatever the value, all three places hand it on."""
    text = "printf '%s\\n' \"<v>\" '<v>'" + (" <v>" if value else "")
    lines = 3 if value else 2

    assert printed("sh", render(fill(Script(text), {"v": value}))) == f"{value}\n" * lines


def test_empty_value_standing_alone_adds_no_argument() -> None:
    """An empty bare value is nothing, a quoted one is an empty word."""
    assert render(fill(Script('p <v> "<v>"'), {"v": ""})) == 'p  ""'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("p <zzz>", "command: `<zzz>` is no parameter; there are: `v`"),
        ("cat <<EOF\n<v>\nEOF", "command: `<v>` stands in a here-document"),
        ("cat <<-'END'\n\t<v>\n\tEND\n", "command: `<v>` stands in a here-document"),
        ("x=`p <v>`", "command: `<v>` stands in backquotes"),
        ('x="${y:-<v>}"', 'command: `<v>` stands in `"${…}"`'),
    ],
)
def test_placeholder_that_cannot_be_right_is_an_error(text: str, message: str) -> None:
    """What would reach the shell unquoted, or not at all, is refused."""
    with pytest.raises(ConfigError) as caught:
        fill(Script(text), {"v": "1"})

    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        (r"sort \<in>out <v>", "sort <in>out 1"),
        ("cat <<EOF\nplain\nEOF\np <v>", "cat <<EOF\nplain\nEOF\np 1"),
        ("cat <<< <v>", "cat <<< 1"),
        ("sort < in > out; p <v>", "sort < in > out; p 1"),
        ("p $((1 + <v>)) (<v>)", "p $((1 + 1)) (1)"),
        ("p $'<v>'", "p $'1'"),
    ],
)
def test_the_rest_of_the_shell_text_stays(text: str, filled: str) -> None:
    """Only placeholders change."""
    assert fill(Script(text), {"v": "1"}) == Script(filled)


def test_words_keep_what_no_key_names() -> None:
    """In typed words only given keys are replaced, everything else is verbatim."""
    words = Argv(("p", "<lr>", "x<lr>y", "<other>", r"\<lr>", "{{1,2}}"))

    assert fill(words, {"lr": "a b"}) == Argv(("p", "a b", "xa by", "<other>", r"\a b", "{{1,2}}"))


@pytest.mark.parametrize(
    ("append", "words"),
    [
        ("--", ("p", "1", "--b", "2")),
        ("=", ("p", "1", "b=2")),
        ("", ("p", "1")),
    ],
)
def test_unused_keys_are_appended(append: str, words: tuple[str, ...]) -> None:
    """A key that no placeholder uses follows the command; `repeat` does not."""
    params = {"a": "1", "b": "2", "repeat": "0"}

    assert fill(Argv(("p", "<a>")), params, append=append) == Argv(words)
