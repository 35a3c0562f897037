"""Placeholders: values arrive verbatim wherever they stand."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launchbay.core.command import UNAPPENDED, fill, fill_text, placeholders, render
from launchbay.core.errors import ConfigError
from launchbay.core.job import Argv, Script

VALUES = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=20)
HOSTILE = st.text(
    st.one_of(st.sampled_from("'\"\\$`!*?[]{}()<>|&;#~=%^- \t\n"), st.sampled_from("aß1")),
    max_size=12,
)
"""Values made of what shells read as something else."""
KEYS = st.from_regex(r"[a-z_][a-z0-9_.-]{0,5}", fullmatch=True).filter(
    lambda key: key not in {*UNAPPENDED, "params", "overrides"}
)
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


@pytest.mark.parametrize(
    ("shell", "written"),
    [
        *(
            (shell, written)
            for shell in ("sh", "bash")
            for written in (
                "printf %s x<v>",
                'printf %s "x<v>"',
                "printf %s 'x<v>'",
                "printf %s \"$(printf 'x%s.' '<v>')\" | sed '$ s/[.]$//'",
                'y=x<v>; printf %s "$y"',
                'f() { printf %s "$1"; }; (f x"<v>")',
                'unset y; printf %s ${y-x"<v>"}',
            )
        ),
        ("bash", "printf %s $'x<v>'"),
        ("bash", "IFS= read -rd '' y <<<x<v>; printf %s \"${y%?}\""),
    ],
)
@given(value=HOSTILE)
@settings(max_examples=30, deadline=None)
def test_metacharacters_arrive(shell: str, written: str, value: str) -> None:
    """Quotes of all kinds, and all that shells expand, arrive in every place as they are."""
    script = render(fill(Script(written), {"v": value}))

    assert printed(shell, script) == f"x{value}"


@pytest.mark.parametrize("shell", ["sh", "bash"])
@given(params=st.dictionaries(KEYS, HOSTILE, max_size=4))
@settings(max_examples=40, deadline=None)
def test_all_parameters_arrive(shell: str, params: dict[str, str]) -> None:
    """`<params>` and `<overrides>` hand on every key and value, empty ones too."""
    script = fill(Script("printf '%s\\0' x <params> -- <overrides>"), params)
    pairs = [word for key, value in params.items() for word in (f"--{key}", value)]
    words = ["x", *pairs, "--", *(f"{key}={value}" for key, value in params.items())]

    assert printed(shell, render(script)).split("\0") == [*words, ""]


def test_lists_leave_out_what_is_unlisted() -> None:
    """Keys that name a group, and `repeat`, reach a program only by their own placeholder."""
    params = {"group": "g", "lr": "a b", "tag": "", "repeat": "0"}
    command = Script("p <params> <overrides> <group> <repeat>")

    assert fill(command, params, unlisted={"group"}) == Script(
        "p --lr 'a b' --tag '' 'lr=a b' tag= g 0"
    )


def test_parameter_called_like_a_list_wins() -> None:
    """`<params>` is an ordinary placeholder where a parameter has that name."""
    params = {"params": "a b", "x": "1"}

    assert fill(Script("p '<params>' <overrides>"), params) == Script("p 'a b' 'params=a b' x=1")


def test_lists_of_nothing_are_nothing() -> None:
    """Without parameters there is nothing to add."""
    assert fill(Script("p <params><overrides>"), {}) == Script("p ")


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("p <v:raw>", "p a 'b' $c"),
        ("p \"<v:raw>\" '<v:raw>'", "p \"a 'b' $c\" 'a 'b' $c'"),
        ("cat <<EOF\n<v:raw>\nEOF\np <w>", "cat <<EOF\na 'b' $c\nEOF\np 1"),
        ("x=`p <v:raw>`", "x=`p a 'b' $c`"),
        ('x="${y:-<v:raw>}"', "x=\"${y:-a 'b' $c}\""),
        ("# <v:raw>\np", "# <v:raw>\np"),
    ],
)
def test_raw_value_is_inserted_as_typed(text: str, filled: str) -> None:
    """`:raw` is never quoted, and allowed where quoting cannot be right."""
    assert fill(Script(text), {"v": "a 'b' $c", "w": "1"}) == Script(filled)


@pytest.mark.parametrize("value", ["true", "Yes", "ON", "1"])
def test_flag_of_a_true_value(value: str) -> None:
    """`:flag` is the key as an option, written as the key is."""
    assert fill(Script("p <use_amp:flag> x"), {"use_amp": value}) == Script("p --use_amp x")


@pytest.mark.parametrize("value", ["false", "No", "OFF", "0", "", "None", "null"])
def test_flag_of_a_false_value(value: str) -> None:
    """`:flag` is nothing when it is not wanted."""
    assert fill(Script("p <amp:flag> x"), {"amp": value}) == Script("p  x")


def test_empty_value_glued_to_a_word_is_no_text() -> None:
    """In a word an empty value leaves the rest of it."""
    assert fill(Script("p --x=<v> a<v:raw>b"), {"v": ""}) == Script("p --x= ab")


def test_empty_value_standing_alone_adds_no_argument() -> None:
    """An empty bare value is nothing, a quoted one is an empty word."""
    assert render(fill(Script('p <v> "<v>"'), {"v": ""})) == 'p  ""'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("p <zzz>", "`<zzz>` is no parameter"),
        ("cat <<EOF\n<v>\nEOF", "`<v>` stands in a here-document, where no quoting is right"),
        (
            "cat <<-'END'\n\t<v>\n\tEND\n",
            "`<v>` stands in a here-document, where no quoting is right",
        ),
        ("x=`p <v>`", "`<v>` stands in backquotes, where no quoting is right"),
        ('x="${y:-<v>}"', '`<v>` stands in `"${…}"`, where no quoting is right'),
    ],
)
def test_placeholder_that_cannot_be_right_is_an_error(text: str, message: str) -> None:
    """What would reach the shell unquoted, or not at all, is refused."""
    with pytest.raises(ConfigError) as caught:
        fill(Script(text), {"v": "1"})

    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "p <zzz>",
            "`<zzz>` is no parameter",
            r"add `zzz` to `params:` beside `lr`, `fn`, or write `\<zzz>` for that very text",
        ),
        (
            "p <lrr:raw>",
            "`<lrr:raw>` is no parameter",
            r"did you mean `<lr:raw>`? Or write `\<lrr:raw>` for that very text",
        ),
        (
            "p <_fn>",
            "`<_fn>` is no parameter",
            r"write `<fn>`, the `_` is no part of its name; or write `\<_fn>` for that very text",
        ),
        (
            "p <http:foo>",
            "`<http:foo>` is no parameter",
            r"add `http` to `params:` beside `lr`, `fn`, or write `\<http:foo>` for that very text",
        ),
        (
            "p <override>",
            "`<override>` is no parameter",
            r"did you mean `<overrides>`? Or write `\<override>` for that very text",
        ),
        (
            "p <params:raw>",
            "`<params:raw>` is no parameter",
            r"did you mean `<params>`? Or write `\<params:raw>` for that very text",
        ),
        (
            "cat <<EOF\n<html>\nEOF",
            "`<html>` is no parameter",
            r"add `html` to `params:` beside `lr`, `fn`, or write `\<html>` for that very text",
        ),
        (
            "p <lr:rwa>",
            "`<lr:rwa>` ends in `rwa`, which is no modifier",
            "did you mean `raw`?",
        ),
        (
            "p <lr:5>",
            "`<lr:5>` ends in `5`, which is no modifier",
            "there are: `flag`, `raw`",
        ),
        (
            "p <lr:flag>",
            "`<lr:flag>` is `0.1`, neither true nor false",
            (
                "use true, yes, on or 1 for `--lr`; "
                "false, no, off, 0, none, null or an empty value for nothing"
            ),
        ),
        ("p '<lr:flag>'", "`<lr:flag>` stands in single quotes", "move it out of the quotes"),
        ('p "<params>"', "`<params>` stands in double quotes", "move it out of the quotes"),
        ("p $'<params>'", "`<params>` stands in `$'…'`", "move it out of the quotes"),
        (
            'p "${x:-<overrides>}"',
            '`<overrides>` stands in `"${…}"`',
            "move it out of the quotes",
        ),
        (
            "p `<params>`",
            "`<params>` stands in backquotes",
            "write `$(…)` in place of the backquotes",
        ),
        (
            "cat <<EOF\n<params>\nEOF",
            "`<params>` stands in a here-document",
            "let the program read `$BAY_PARAMS`, or pass it as an argument",
        ),
        (
            "cat <<EOF # it's read\nit's <lr>\nEOF",
            "`<lr>` stands in a here-document, where no quoting is right",
            "let the program read `$BAY_PARAMS`, or write `<lr:raw>` for the value as typed",
        ),
    ],
)
def test_error_says_what_to_do(text: str, message: str, hint: str) -> None:
    """A placeholder that cannot be filled is named, and its hint is a way out."""
    with pytest.raises(ConfigError) as caught:
        fill(Script(text), {"lr": "0.1", "fn": "x"})

    assert (str(caught.value), caught.value.hint) == (message, hint)


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        (r"sort \<in>out <v>", "sort <in>out 1"),
        ("cat <<EOF\nplain\nEOF\np <v>", "cat <<EOF\nplain\nEOF\np 1"),
        ("cat <<< <v>", "cat <<< 1"),
        ("sort < in > out; p <v>", "sort < in > out; p 1"),
        ("p $((1 + <v>)) (<v>)", "p $((1 + 1)) (1)"),
        ("p $'<v>'", "p $'1'"),
        ("cat <<EOF\n\\<html> it's\nEOF\np <v>", "cat <<EOF\n<html> it's\nEOF\np 1"),
        ("cat <<EOF # 'x\nit's\nEOF\np <v>", "cat <<EOF # 'x\nit's\nEOF\np 1"),
        ("cat <<EOF\nEOF\np <v>", "cat <<EOF\nEOF\np 1"),
        ("cat <<<word\np <v>", "cat <<<word\np 1"),
        ("n=$((1 << 20)); m=$((1<<n))\np <v>", "n=$((1 << 20)); m=$((1<<n))\np 1"),
        ("x < a:b>c <v> <v:>", "x < a:b>c 1 <v:>"),
    ],
)
def test_the_rest_of_the_shell_text_stays(text: str, filled: str) -> None:
    """Only placeholders change."""
    assert fill(Script(text), {"v": "1"}) == Script(filled)


def test_placeholders_are_named() -> None:
    """Each key that a script names is there once, wherever it stands; comments name none."""
    text = "p <a> '<b:raw>' <a:flag> <params> \\<c> # <d>\ncat <<EOF\n<e>\nEOF"

    assert placeholders(text) == {"a", "b", "params", "e"}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("plain", "plain"),
        ("team/x:<tag>", 'team/x:it\'s "1"'),
        ("'<tag:raw>' # <tag>", "'it's \"1\"' # it's \"1\""),
        (r"\<tag> \\<tag> < <<tag", r"<tag> \<tag> < <<tag"),
        ("a<none>b", "ab"),
    ],
)
def test_plain_text_is_filled_verbatim(text: str, filled: str) -> None:
    """Where no shell reads it, a value is put in as it is."""
    assert fill_text(text, {"tag": 'it\'s "1"', "none": ""}) == filled


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "x:<tags>",
            "`<tags>` is no parameter",
            r"did you mean `<tag>`? Or write `\<tags>` for that very text",
        ),
        (
            "x:<params>",
            "`<params>` is no parameter",
            r"add `params` to `params:` beside `tag`, or write `\<params>` for that very text",
        ),
        ("x:<tag:flag>", "`<tag:flag>` stands in plain text", "write `<tag>` for its value"),
        ("x:<tag:ra>", "`<tag:ra>` ends in `ra`, which is no modifier", "did you mean `raw`?"),
    ],
)
def test_leftover_in_plain_text_is_an_error(text: str, message: str, hint: str) -> None:
    """Text has the same errors as a command, without its name."""
    with pytest.raises(ConfigError) as caught:
        fill_text(text, {"tag": "1"})

    assert (str(caught.value), caught.value.hint) == (message, hint)


def test_words_take_no_modifiers() -> None:
    """What only shell text knows is verbatim in typed words."""
    words = Argv(("p", "<lr:raw>", "<lr:flag>", "<params>", "<overrides>"))

    assert fill(words, {"lr": "1"}, unlisted={"lr"}) == words


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
