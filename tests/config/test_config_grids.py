"""From the parameters of a file to grids."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.config.conftest import refusal

from launchbay.config.files import Notes, parse_document
from launchbay.config.grids import Params, assemble, combine, override, read_entry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from launchbay.core.sweep import Grid

TRAIN = "train: {paper: {lr: 1, wd: 0}, scale: {lr: 2, wd: 5}}"


def read(text: str) -> tuple[list[Params], Notes]:
    """What the text of an entry says about parameters."""
    document = parse_document(text, Path("bay.yaml"))
    notes = Notes(document)
    return read_entry(document.data, (), notes), notes


def grids(text: str, values: Mapping[str, Sequence[str]] | None = None) -> list[Grid]:
    """The grids of an entry, some keys perhaps with other values."""
    entries, notes = read(text)
    found = [assemble(override(one, values or {}), notes) for one in entries]
    notes.settle()
    return found


def points(text: str, values: Mapping[str, Sequence[str]] | None = None) -> list[dict[str, str]]:
    """Every point of the grids of an entry."""
    return [dict(point) for grid in grids(text, values) for point in grid]


def rows(text: str) -> str:
    """Every point as its values only, for tables."""
    return " ".join(",".join(point.values()) for point in points(text))


@pytest.mark.parametrize(
    ("params", "values"),
    [
        ("{a: 1}", "1"),
        ("{a: [1]}", "1"),
        ("{a: [1, 2], b: [3, 4]}", "1,3 1,4 2,3 2,4"),
        ("{a: 0..2}", "0 1 2"),
        ("{a: [0..1, 7]}", "0 1 7"),
        ("{a: {range: [0, 1, 0.5]}}", "0.0 0.5 1.0"),
        ("{a: {linspace: [0, 1, 3]}}", "0 0.5 1"),
        ("{a: {logspace: [-3, -1, 3]}}", "0.001 0.01 0.1"),
        ("{a: [{range: [1, 2]}, x]}", "1 2 x"),
        ("{a: ['', x]}", " x"),
        ("{a: [0.000000008192, 1.50, 010, true, 1e-5]}", "0.000000008192 1.50 010 true 1e-5"),
        ("{_fn: [a/b, c]}", "a/b c"),
        ("{x___: [1, 2], y___: [7, 8], z: [0, 1]}", "1,7,0 1,7,1 2,8,0 2,8,1"),
        ("{z: [0, 1], x___: [1, 2], y___: [7, 8]}", "0,1,7 0,2,8 1,1,7 1,2,8"),
        ("{x___: [1, 2], z: [0, 1], y___: [7, 8]}", "1,7,0 1,7,1 2,8,0 2,8,1"),
        ("{_x___: [1, 2], y___: [7, 8]}", "1,7 2,8"),
        ("{x___: [1, 2]}", "1 2"),
        ("{x: [1, 2], y: [7, 8], zip: [x, y]}", "1,7 2,8"),
        ("{x: 0..1, y: {range: [7, 8]}, zip: [x, y]}", "0,7 1,8"),
        ("{a: 1, b: 3..4, c: 5, d: 7..8, zip: [[a, c], [b, d]]}", "1,5,3,7 1,5,4,8"),
        ("{zip: [fast, slow]}", "fast slow"),
        ("{exclude: 1, include: [2, 3]}", "1,2 1,3"),
    ],
)
def test_values_of_points(params: str, values: str) -> None:
    """Every way to write values makes the points that it stands for, the last key fastest."""
    assert rows(f"params: {params}") == values


@pytest.mark.parametrize("text", ["", "params:", "params: {}", "hparam: {}"])
def test_no_parameters(text: str) -> None:
    """Without parameters there is one point, which has none."""
    assert points(text) == [{}]


def test_one_value_is_a_list_of_one() -> None:
    """A single value and a list of it make the same grid."""
    assert grids("params: {a: 1}") == grids("params: {a: [1]}")


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ("m: {lr: [1, 2]}", [{"m.lr": "1"}, {"m.lr": "2"}]),
        ("m.lr: [1, 2]", [{"m.lr": "1"}, {"m.lr": "2"}]),
        ("m: {lr: 1, wd: 2}", [{"m.lr": "1", "m.wd": "2"}]),
        ("m: {angle: [1, 2]}", [{"m.angle": "1"}, {"m.angle": "2"}]),
        ("m: {rate: [1, 2, 3]}", [{"m.rate": "1"}, {"m.rate": "2"}, {"m.rate": "3"}]),
        ("m: {seed: {range: [1, 2]}}", [{"m.seed": "1"}, {"m.seed": "2"}]),
        ("m.opt: {lr: 1}", [{"m.opt.lr": "1"}]),
        ("m: {a: [1, 2], b: [3, 4]}, zip: [m.a, m.b]", [("1", "3"), ("2", "4")]),
        ("m: {a___: [1, 2], b___: [3, 4]}", [("1", "3"), ("2", "4")]),
        ("m___: {a: [1, 2], b: [3, 4]}", [("1", "3"), ("2", "4")]),
    ],
)
def test_nested_keys(params: str, expected: list[dict[str, str] | tuple[str, str]]) -> None:
    """A key inside of another is written with a dot between them."""
    names = ("m.a", "m.b")
    wanted = [
        dict(zip(names, one, strict=True)) if isinstance(one, tuple) else one for one in expected
    ]

    assert points(f"params: {{{params}}}") == wanted


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (
            TRAIN,
            [{"train": "paper", "lr": "1", "wd": "0"}, {"train": "scale", "lr": "2", "wd": "5"}],
        ),
        (
            "train: {a: {lr: 1, wd: 0}, b: {wd: 5, lr: 2}}",
            [{"train": "a", "lr": "1", "wd": "0"}, {"train": "b", "lr": "2", "wd": "5"}],
        ),
        (
            "train: {a: {lr: [1, 2]}, b: {lr: 3}}",
            [
                {"train": "a", "lr": "1"},
                {"train": "a", "lr": "2"},
                {"train": "b", "lr": "3"},
            ],
        ),
        (
            "train: {a: {lr: 0..1, wd: [5, 6]}}",
            [
                {"train": "a", "lr": lr, "wd": wd}
                for lr, wd in itertools.product(("0", "1"), ("5", "6"))
            ],
        ),
        (
            "train: {a: {opt: {lr: 1}}, b: {opt.lr: 2}}",
            [{"train": "a", "opt.lr": "1"}, {"train": "b", "opt.lr": "2"}],
        ),
        ("train: {a: {}, b: }", [{"train": "a"}, {"train": "b"}]),
        (
            "train___: {a: {lr: 1}, b: {lr: 2}}, seed___: [7, 8]",
            [
                {"train": "a", "lr": "1", "seed": "7"},
                {"train": "b", "lr": "2", "seed": "8"},
            ],
        ),
        (
            "train: {a: {lr: 1}, b: {lr: 2}}, seed: [7, 8], zip: [train, seed]",
            [
                {"train": "a", "lr": "1", "seed": "7"},
                {"train": "b", "lr": "2", "seed": "8"},
            ],
        ),
        ("range: {a: {lr: 1}}", [{"range": "a", "lr": "1"}]),
    ],
)
def test_group(params: str, expected: list[dict[str, str]]) -> None:
    """A group sets its keys together, its own one to the name of the choice."""
    assert points(f"params: {{{params}}}") == expected


@pytest.mark.parametrize(
    ("params", "hidden"),
    [
        ("a: 1", set()),
        ("_a: 1, b: 2", {"a"}),
        ("__a: 1", {"a"}),
        ("_a___: [1, 2]", {"a"}),
        ("_m: {lr: 1}", {"m.lr"}),
        ("m: {_lr: 1, wd: 2}", {"m.lr"}),
        ("_train: {a: {lr: 1}}", {"train"}),
        ("train: {a: {_lr: 1, wd: 2}, b: {lr: 1, _wd: 2}}", {"lr", "wd"}),
        ("train: {a: {opt: {_lr: 1}}}", {"opt.lr"}),
    ],
)
def test_hidden_keys(params: str, hidden: set[str]) -> None:
    """A key that begins with `_` is left out of names, and has none in its own."""
    (one,), notes = read(f"params: {{{params}}}")
    notes.settle()

    assert one.hidden == hidden


def test_groups_have_labels() -> None:
    """What names a group is known, and so are its names."""
    (one,), _ = read(f"params: {{a: 1, {TRAIN}}}")

    assert (set(one.labels), one.keys) == ({"train"}, ("a", "train", "lr", "wd"))
    assert (one.choices("train"), one.choices("a")) == (("paper", "scale"), ())


@pytest.mark.parametrize("key", ["params", "hparam"])
def test_union(key: str) -> None:
    """A list of mappings is the union of their grids, without a product between them."""
    assert points(f"{key}: [{{a: [1, 2]}}, {{b: 3}}]") == [{"a": "1"}, {"a": "2"}, {"b": "3"}]


def test_zip_beside_holds_in_a_union() -> None:
    """What is beside the parameters holds for every grid of a union."""
    text = "params: [{a: [1, 2], b: [3, 4]}, {a: [5, 6], b: [7, 8], c: 9}]\nzip: [a, b]"

    assert rows(text) == "1,3 2,4 5,7,9 6,8,9"


@pytest.mark.parametrize(
    "text",
    [
        "params: {a: [1, 2], b: [3, 4], c: [5, 6], d: [7, 8]}\nzip: [[a, b], [c, d]]",
        "params: {a: [1, 2], b: [3, 4], c: [5, 6], d: [7, 8], zip: [[a, b], [c, d]]}",
        "params: {a: [1, 2], b: [3, 4], c: [5, 6], d: [7, 8], zip: [a, b]}\nzip: [c, d]",
        "params: {a___: [1, 2], b___: [3, 4], c: [5, 6], d: [7, 8]}\nzip: [c, d]",
    ],
)
def test_several_zips(text: str) -> None:
    """Several groups of paired lists make a product of one another."""
    assert rows(text) == "1,3,5,7 1,3,6,8 2,4,5,7 2,4,6,8"


@pytest.mark.parametrize(
    ("rule", "excluded", "included"),
    [
        ("exclude: [{a: 1, b: [3, 4]}]", [{"a": ("1",), "b": ("3", "4")}], []),
        ("exclude: {a: 1}", [{"a": ("1",)}], []),
        ("exclude: [{m: {lr: 1}}]", [{"m.lr": ("1",)}], []),
        ("exclude: [{_a: 1}, {b: 3}]", [{"a": ("1",)}, {"b": ("3",)}], []),
        ("include: [{a: 9}]", [], [{"a": ("9",)}]),
        ("include: {a: 0..1}", [], [{"a": ("0", "1")}]),
        ("include: [site.yaml]", [], []),
    ],
)
def test_points_in_and_out(
    rule: str,
    excluded: list[dict[str, tuple[str, ...]]],
    included: list[dict[str, tuple[str, ...]]],
) -> None:
    """Points to leave out and to add are read, beside the parameters or among them."""

    def read_points(text: str) -> list[list[dict[str, tuple[str, ...]]]]:
        (one,), notes = read(text)
        notes.settle()
        return [
            [{key: tuple(column) for key, column in values.items()} for _, values in part]
            for part in (one.excluded, one.included)
        ]

    assert read_points(f"params: {{a: [1, 2], b: [3, 4]}}\n{rule}") == [excluded, included]
    if "site" not in rule:
        assert read_points(f"params: {{a: [1, 2], {rule}}}") == [excluded, included]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("params: x", "1:1: params: must be a mapping of parameters"),
        ("params: []", "1:1: params: an empty list of grids"),
        ("params: [a]", "1:10: params[0]: must be a mapping of parameters"),
        ("params: {a: }", "1:10: params.a: no value"),
        ("params: {a: []}", "1:10: params.a: an empty list of values"),
        ("params: {a: [1, ]\n, b: [[1]]}", "2:3: params.b: a list inside a list of values"),
        ("params: {a: {}}", "1:10: params.a: an empty mapping"),
        ("params: {a: {b: }}", "1:14: params.a.b: no value"),
        (
            "params: {a: {linspce: [0, 1, 5]}}",
            "1:10: params.a: `linspce` makes no numbers",
        ),
        ("params: {a: [{b: 1, c: 2}]}", "1:10: params.a: a mapping among values"),
        (
            "params: {t: {a: {x: 1}, b: 2}}",
            "1:25: params.t.b: group `t`: this is no mapping of keys, as its neighbours are",
        ),
        (
            "params: {t: {a: {x: 1}, b: {range: [1, 2]}}}",
            "1:25: params.t.b: group `t`: this is no mapping of keys, as its neighbours are",
        ),
        (
            "params: {t: {a: {x: 1, y: 2}, b: {x: 1}}}",
            "1:31: params.t.b: group `t`: `b` lacks `y`, which `a` has",
        ),
        (
            "params: {t: {a: {x: 1}, b: {x: 1, y: 2}}}",
            "1:25: params.t.b: group `t`: `b` has `y`, which `a` lacks",
        ),
        (
            "params: {t: {a: {x: 1}, b: }}",
            "1:25: params.t.b: group `t`: `b` lacks `x`, which `a` has",
        ),
        (
            "params: {t: {a: {t: 1}}}",
            "1:18: params.t.a.t: group `t`: `t` is the name of the group itself",
        ),
        ("params: {t: {a: {x: 1, _x: 2}}}", "1:24: params.t.a._x: `x` is given twice"),
        ("params: {t: {a: {x: []}}}", "1:18: params.t.a.x: an empty list of values"),
        (
            "params: {t: {a: {s: 0..10000000000}}}",
            "1:10: params.t: group `t` has more than 1,000,000 points",
        ),
        ("params: {a: 1, _a: 2}", "1:16: params._a: `a` is given twice"),
        ("params: {m: {lr: 1}, m.lr: 2}", "1:22: params.m.lr: `m.lr` is given twice"),
        ("params: {m: {lr: 1, _lr: 2}}", "1:21: params.m._lr: `m.lr` is given twice"),
        ("params: {m: 1, m.lr: 2}", "1:16: params.m.lr: `m` is a value and also holds `m.lr`"),
        (
            "params: {a.b: 1, a.b.c.d: 2}",
            "1:18: params.a.b.c.d: `a.b` is a value and also holds `a.b.c.d`",
        ),
        (
            "params: {lr: 1, t: {a: {lr: 2}}}",
            "1:17: params.t: `lr` is set here and by `params.lr` on line 1",
        ),
        (
            "params: {a: [1, 2], b: [1, 2, 3]}\nzip: [a, b]",
            "2:1: zip: zipped lists differ in length: `a` has 2, `b` has 3",
        ),
        (
            "params: {a___: [1, 2], b___: 1}",
            "1:10: params.a___: zipped lists differ in length: `a` has 2, `b` has 1",
        ),
        ("params: {a: 1}\nzip: [a, c]", "2:1: zip: `c` is no parameter here"),
        ("params: {a: 1, b: 2, zip: [a, c]}", "1:22: params.zip: `c` is no parameter here"),
        ("params: {a: 1}\nzip: a", "2:1: zip: must be a list of two parameters or more"),
        ("params: {a: 1}\nzip: [a]", "2:1: zip: must be a list of two parameters or more"),
        (
            "params: {a: 1, b: 1, c: 1}\nzip: [[a, b], c]",
            "2:15: zip[1]: must be a list of two parameters or more",
        ),
        (
            "params: {a: 1, b: 1, c: 1}\nzip: [[a, b], [b, c]]",
            "2:15: zip[1]: a parameter is zipped twice",
        ),
        (
            "params: {a: 1}\nexclude: [a]",
            "2:11: exclude[0]: must be a mapping of parameters to values",
        ),
        ("params: {a: 1}\nexclude: {}", "2:1: exclude: must be a mapping of parameters to values"),
        ("params: {a: 1}\nexclude: [{a: []}]", "2:12: exclude[0].a: an empty list of values"),
        (
            "params: {a: 1, include: [{a: }]}",
            "1:27: params.include[0].a: no value",
        ),
        (
            "params: {a: 1}\ninclude: site.yaml",
            "2:1: include: must be a mapping of parameters to values",
        ),
    ],
)
def test_what_cannot_be(text: str, message: str) -> None:
    """Whatever is wrong with parameters is said at its place, with a hint."""
    said, hint = refusal(lambda: points(text))

    assert said == f"bay.yaml:{message}"
    assert hint


@pytest.mark.parametrize("name", ["1x", "a b", "___", "a/b", "é"])
@pytest.mark.parametrize("text", ["params: {'NAME': 1}", "params: {t: {a: {'NAME': 1}}}"])
def test_bad_names(name: str, text: str) -> None:
    """A parameter's name is one that placeholders can have, in a group too."""
    _, notes = read(text.replace("NAME", name))

    assert [problem.message for problem in notes.problems] == [
        f"`{name}` is no name of a parameter"
    ]


def test_zip_of_a_key_inside_a_group() -> None:
    """A key of a group cannot be zipped alone; the group can."""
    assert refusal(lambda: points(f"params: {{{TRAIN}, s: [1, 2]}}\nzip: [lr, s]")) == (
        "bay.yaml:2:1: zip: `lr` is no parameter here",
        "it belongs to the group `train`; zip that",
    )


def test_all_problems_at_once() -> None:
    """Everything that is wrong is told together."""
    message, _ = refusal(lambda: points("params:\n  a: []\n  t: {x: {b: 1}, y: {c: 2}}\nzip: 1"))

    assert [line.split("; ")[0] for line in message.splitlines()] == [
        "4 problems",
        "bay.yaml:2:3: params.a: an empty list of values",
        "bay.yaml:3:18: params.t.y: group `t`: `y` lacks `b`, which `x` has",
        "bay.yaml:3:18: params.t.y: group `t`: `y` has `c`, which `x` lacks",
        "bay.yaml:4:1: zip: must be a list of two parameters or more",
    ]


OVERRIDABLE = f"params: {{a: [1, 2], {TRAIN}, x: [5, 6], y: [7, 8], s: 0}}\nzip: [x, y]"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"s": ("1", "2")}, "1 2 | paper,1,0 scale,2,5 | 5,7 6,8 | 1 2"),
        ({"a": ("9",)}, "9 | paper,1,0 scale,2,5 | 5,7 6,8 | 0"),
        ({"train": ("scale",)}, "1 2 | scale,2,5 | 5,7 6,8 | 0"),
        ({"lr": ("9", "8")}, "1 2 | paper,0 scale,5 | 9 8 | 5,7 6,8 | 0"),
        ({"train": ("paper",), "lr": ("9",)}, "1 2 | paper,0 | 9 | 5,7 6,8 | 0"),
        ({"lr": ("9",), "wd": ("3",)}, "1 2 | paper scale | 9 | 3 | 5,7 6,8 | 0"),
        ({"x": ("1", "2", "3")}, "1 2 | paper,1,0 scale,2,5 | 1 2 3 | 7 8 | 0"),
        ({"x": ("1",), "y": ("2", "3")}, "1 2 | paper,1,0 scale,2,5 | 1 | 2 3 | 0"),
    ],
)
def test_override(values: dict[str, tuple[str, ...]], expected: str) -> None:
    """Other values take the place of plain, grouped and zipped ones, which are then free."""
    (grid,) = grids(OVERRIDABLE, values)
    axes = [" ".join(",".join(row.values()) for row in axis) for axis in grid.axes]

    assert " | ".join(axes) == expected


def test_override_of_marked_zips() -> None:
    """A key that is zipped by its mark is free once it has other values."""
    text = "params: {x___: [1, 2], y___: [3, 4], z___: [5, 6]}"

    assert [tuple(point.values()) for point in points(text, {"y": ("9",)})] == [
        ("1", "5", "9"),
        ("2", "6", "9"),
    ]


def test_override_keeps_marks() -> None:
    """A key stays hidden, whatever its values."""
    (one,), _ = read("params: {_a: 1, t: {x: {_b: 1, c: 2}}}")
    changed = override(one, {"a": ("5",), "b": ("6",)})

    assert changed.hidden >= {"a", "b"}
    assert changed.parameters["b"].hidden == {"b"}


def test_combined_places() -> None:
    """Of the same parameter the last place speaks, and it stands where the first stood."""
    parts = [read(f"params: {text}")[0][0] for text in ("{a: 1, b: [2, 3]}", "{c: 4, b: 5}")]
    notes = Notes(parse_document("", Path("bay.yaml")))

    assert [dict(point) for point in assemble(combine(parts), notes)] == [
        {"a": "1", "b": "5", "c": "4"}
    ]


def test_a_trillion_points_cost_nothing() -> None:
    """A grid holds its axes only, however many points it stands for."""
    text = "params: {a: 1..1000000, b: {range: [1, 1000000]}, c: 0..1}\nzip: [a, b]\n"
    (zipped,) = grids(text)
    (grid,) = grids("params: {a: 0..999999, b: {range: [0.5, 1000000]}}")

    assert len(zipped) == 2 * 10**6
    assert len(grid) == 10**12
    assert grid[10**12 - 1] == {"a": "999999", "b": "999999.5"}
    assert next(iter(grid)) == {"a": "0", "b": "0.5"}


def test_lengths_beyond_counting() -> None:
    """Zipped ranges that are too long to be counted are no crash."""
    long = "0..99999999999999999999"

    assert refusal(lambda: points(f"params: {{a: {long}, b: [1, 2]}}\nzip: [a, b]"))[0].startswith(
        "bay.yaml:2:1: zip: zipped lists differ in length"
    )
