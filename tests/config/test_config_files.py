"""Reading files so that every value stays as typed and remembers where it stood."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from launchbay.config import nodes
from launchbay.config.files import KEY_HINT, Document, Value, parse_document, read_document
from launchbay.config.problems import Place, Problem, config_error
from launchbay.core.errors import ConfigError

FILE = Path("bay.yaml")
PLAIN = st.from_regex(r"[A-Za-z0-9.+~/][A-Za-z0-9.+_~/-]*", fullmatch=True).filter(
    lambda text: not text.startswith("...")
)
PRINTABLE = st.text(st.characters(exclude_categories=["C"]) | st.sampled_from("\n\t"))


def refusal(text: str) -> tuple[str, str | None]:
    """What reading the text says, and its hint."""
    with pytest.raises(ConfigError) as caught:
        parse_document(text, FILE)
    return str(caught.value), caught.value.hint


@pytest.mark.parametrize(
    "scalar",
    ["1e-5", "010", "1.50", "0x1F", "1_000", "true", "No", "null", "~", "2024-01-02", "1:30", ".5"],
)
def test_scalar_stays_as_typed(scalar: str) -> None:
    """What YAML would make a number, a truth value or a date is the text that was typed."""
    assert parse_document(f"a: {scalar}\nb: [{scalar}]", FILE).data == {"a": scalar, "b": [scalar]}


@settings(deadline=None, max_examples=60)
@given(text=PLAIN)
def test_plain_scalars_stay_as_typed(text: str) -> None:
    """Any plain word comes back as itself, as a key too."""
    assert parse_document(f"{text}: {text}", FILE).data == {text: text}


@settings(deadline=None, max_examples=60)
@given(text=PRINTABLE)
def test_quoted_scalars_stay_as_meant(text: str) -> None:
    """Text that YAML itself quoted comes back as itself."""
    assert parse_document(yaml.safe_dump({"a": text}), FILE).data == {"a": text}


@settings(deadline=None, max_examples=60)
@given(
    tree=st.recursive(
        st.text(string.ascii_letters, min_size=1),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.text(string.ascii_letters, min_size=1), inner)
        ),
    )
)
def test_trees_stay_as_meant(tree: Value) -> None:
    """Lists and mappings of text come back as they are."""
    assert parse_document(yaml.safe_dump({"a": tree}), FILE).data == {"a": tree}


def test_python_loader_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where PyYAML comes without its C library the same is read."""
    text = "a: 010\nb:\n- x\n- &y {c: , d: 'e'}\n- *y\n"
    fast = parse_document(text, FILE)
    monkeypatch.setattr(nodes, "LOADER", yaml.SafeLoader)

    assert parse_document(text, FILE) == fast


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("", {}),
        ("# nothing\n", {}),
        ("---\n", {}),
        ("--- # one\na: 1\n...\n", {"a": "1"}),
        ("a:\n", {"a": None}),
        ("a: ''\nb: \"\"", {"a": "", "b": ""}),
        ("a: [1, [2]]\nb:\n- c: 3", {"a": ["1", ["2"]], "b": [{"c": "3"}]}),
        ("a: |\n  one\n  two\n", {"a": "one\ntwo\n"}),
        ("1: x\non: y\n2.0: z", {"1": "x", "on": "y", "2.0": "z"}),
        ("a: !!str 1", {"a": "1"}),
        ("a: &x [1]\nb: *x", {"a": ["1"], "b": ["1"]}),
        ("\ufeffa: 1".removeprefix("\ufeff"), {"a": "1"}),
        (
            "a: &x {k: 1, l: 2}\nb: {<<: *x, l: 3}",
            {"a": {"k": "1", "l": "2"}, "b": {"k": "1", "l": "3"}},
        ),
        (
            "a: &x {k: 1}\nb: &y {k: 2, l: 2}\nc: {<<: [*x, *y]}",
            {"a": {"k": "1"}, "b": {"k": "2", "l": "2"}, "c": {"k": "1", "l": "2"}},
        ),
        ("'<<': x", {"<<": "x"}),
    ],
)
def test_what_a_file_says(text: str, data: dict[str, Value]) -> None:
    """A file is text, lists and mappings; only a value that is not there is `None`."""
    assert parse_document(text, FILE).data == data


def test_places() -> None:
    """Every key and every item of a list remembers its line and column."""
    document = parse_document("a: 1\nb:\n  c: [x, y]\n  d:\n  - é: 1\n", FILE)

    assert document.places == {
        (): Place(FILE, 1, 1),
        ("a",): Place(FILE, 1, 1),
        ("b",): Place(FILE, 2, 1),
        ("b", "c"): Place(FILE, 3, 3),
        ("b", "c", 0): Place(FILE, 3, 7),
        ("b", "c", 1): Place(FILE, 3, 10),
        ("b", "d"): Place(FILE, 4, 3),
        ("b", "d", 0): Place(FILE, 5, 5),
        ("b", "d", 0, "é"): Place(FILE, 5, 5),
    }


def test_finding_in_a_document() -> None:
    """A value is found by its keys; the place of a missing one is that of what should hold it."""
    document = parse_document("a:\n  b: 1\n", FILE)

    assert document.find_value(("a", "b")) == "1"
    assert document.find_value(("a", "b", "c")) is None
    assert document.find_value(("x",)) is None
    assert document.find_place(("a", "b", "c")) == Place(FILE, 2, 3)
    assert document.find_place(("x",)) == Place(FILE, 1, 1)
    assert Document().find_place(("x",)) is None


LAUGHS = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
)
MERGES = "\n".join(
    ["a0: &a0 {x: 1}"] + [f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 40)]
)
CHAIN = "\n".join(["a0: &a0 [x]"] + [f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 2000)])


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("- a\n", "1:1: a list, not lines of `key: value`", "take the `- ` out before each key"),
        (
            "\njust text\n",
            "2:1: text, not lines of `key: value`",
            TEXT := "begin each line with a key and `: `",
        ),
        ("''", "1:1: text, not lines of `key: value`", TEXT),
        ("a: 1\nb: 2\na: 3\n", "3:1: a: given twice, first on line 1", "keep one of them"),
        ("a:\n  b: 1\n  b: 2\n", "3:3: a.b: given twice, first on line 2", "keep one of them"),
        ("a:\n\tb: 1\n", "2:1: a tab in the indentation", "indent with spaces"),
        ("a: @x\n", "1:4: a value cannot begin with `@`", "put it in quotes: `'@x'`"),
        ("a: `x`\n", "1:4: a value cannot begin with a backquote", "put it in quotes"),
        (
            "a: b: c\n",
            "1:5: a second `: ` in one line",
            "put the value of `a` in quotes: `'b: c'`",
        ),
        (
            "a: 'b\n",
            "1:4: the quote `'` is never closed",
            "write `'` at the end of the value",
        ),
        (
            "a: [1\nb: 2\n",
            "1:4: the `[` is never closed",
            "write `]` behind the last value",
        ),
        (
            "a: 1\n---\nb: 2\n",
            "2:1: a second document begins",
            "take the line `---` out, or keep one of the two",
        ),
        ("a: *x\n", "1:4: `*x` stands for nothing", "write `&x` before the value that it repeats"),
        (
            "a: &x [*x]",
            "1:8: `*x` stands for nothing",
            "write `&x` before the value that it repeats",
        ),
        (
            "a: !!int 1",
            "1:4: the tag `!!int` is not supported",
            TAG := "remove it: every value is text as typed",
        ),
        ("a: !env X", "1:4: the tag `!env` is not supported", TAG),
        ("a: !!set {x}", "1:4: the tag `!!set` is not supported", TAG),
        ("a: {? [x] : 1}", "1:7: a: a key that is not text", KEY_HINT),
        ("'': 1", "1:1: a key that is not text", KEY_HINT),
        ("a: {<<: x}", "1:9: a.<<: not a mapping", "name the anchor of one"),
        ('a: "x\\0"', "1:4: a: a NUL character is not allowed", "remove the `\\0`"),
        ("é: 1\nb: \x07", "2:4: the control character U+0007 is not allowed", "remove it"),
        (
            LAUGHS,
            "6:1: more than 100,000 values, aliases expanded",
            "write fewer values or aliases",
        ),
        (
            MERGES,
            "16:1: more than 100,000 values, aliases expanded",
            "write fewer values or aliases",
        ),
        (CHAIN, "100:1: nested more than 100 deep, aliases expanded", "write it flatter"),
        (f"a: {'[' * 200_000}", "1:104: nested more than 100 deep", "write it flatter"),
        (f"a:\n{'- ' * 200_000}", "2:201: nested more than 100 deep", "write it flatter"),
    ],
    ids=lambda text: text[:20],
)
def test_what_is_no_file_of_ours(text: str, message: str, hint: str) -> None:
    """Each thing that cannot be is refused with its place and a fix."""
    assert refusal(text) == (f"bay.yaml:{message}", hint)


def test_many_values_are_fine() -> None:
    """A long list is no attack."""
    assert len(parse_document(f"a: [{'x, ' * 50_000}]", FILE).data["a"] or []) == 50_000


def test_several_problems() -> None:
    """Everything that is wrong is said at once."""
    message, hint = refusal("a: 1\na: 2\nb:\n  c: 1\n  c: 2\n")

    assert hint is None
    assert message.splitlines() == [
        "2 problems",
        "bay.yaml:2:1: a: given twice, first on line 1; keep one of them",
        "bay.yaml:5:3: b.c: given twice, first on line 4; keep one of them",
    ]


def test_problems_in_order() -> None:
    """Problems are told in the order of their lines, each one once."""
    first, second = Problem(FILE, 2, 1, "a", "bad"), Problem(FILE, 10, 1, "b", "bad", "mend it")

    assert str(config_error([second, first, second])) == (
        "2 problems\nbay.yaml:2:1: a: bad\nbay.yaml:10:1: b: bad; mend it"
    )


@pytest.mark.parametrize(
    ("content", "message", "hint"),
    [
        (None, "no such file", "check the path; `bay init` writes an example"),
        (b"a: 1\nb: caf\xe9", "2:7: byte 0xe9 is not UTF-8", "save the file as UTF-8"),
        (b"\xff\xfea\x00", "1:1: byte 0xff is not UTF-8", "save the file as UTF-8"),
    ],
)
def test_unreadable(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: bytes | None,
    message: str,
    hint: str,
) -> None:
    """A file that cannot be read is named, with what to do."""
    monkeypatch.chdir(tmp_path)
    if content is not None:
        (tmp_path / "bay.yaml").write_bytes(content)

    with pytest.raises(ConfigError) as caught:
        read_document(tmp_path / "bay.yaml")

    colon = ":" if content else ": "
    assert (str(caught.value), caught.value.hint) == (f"bay.yaml{colon}{message}", hint)


def test_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder is not a file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p").mkdir()

    with pytest.raises(ConfigError, match=r"^p: a folder, not a file$"):
        read_document(Path("p"))


def test_not_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else the system says about a file is told."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p").touch()

    with pytest.raises(ConfigError, match=r"^p/bay\.yaml: cannot be read: Not a directory$"):
        read_document(Path("p/bay.yaml"))


def test_byte_order_mark(tmp_path: Path) -> None:
    """The mark that some editors put first is no part of the first key."""
    file = tmp_path / "bay.yaml"
    file.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")

    assert read_document(file).data == {"a": "1", "b": "2"}
