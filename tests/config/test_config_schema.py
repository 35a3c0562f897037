"""The shape of the files."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from launchbay.config.files import parse_document
from launchbay.config.schema import (
    MACHINE_KEYS,
    ExperimentFile,
    Part,
    Target,
    UserConfig,
    Written,
)
from launchbay.config.validation import validate
from launchbay.core.errors import ConfigError
from launchbay.core.job import DEFAULT_OUTPUTS

FILE = Path("bay.yaml")
TARGET_KEYS = "kind host root parallel devices env gpus cpus memory time gpu_type"


def parse(text: str, shape: type[Written] = ExperimentFile) -> Written:
    """The text as a value of its shape."""
    return validate(parse_document(text, FILE), shape)


def refusal(text: str, shape: type[Written] = ExperimentFile) -> tuple[str, str | None]:
    """What is wrong with the text, and the hint."""
    with pytest.raises(ConfigError) as caught:
        parse(text, shape)
    return str(caught.value), caught.value.hint


def fields(text: str) -> dict[str, Any]:
    """What an experiment file sets, `command` left out."""
    file = parse(f"command: x\n{text}")
    return {key: getattr(file, key) for key in file.model_fields_set - {"command"}}


def test_simplest_file() -> None:
    """A command is enough; nothing else is asked for."""
    file = parse("command: python train.py")

    assert isinstance(file, ExperimentFile)
    assert file.model_dump(exclude_defaults=True) == {"command": "python train.py"}
    assert (file.params, file.outputs, file.snapshot_limit) == ({}, DEFAULT_OUTPUTS, 100)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("project: demo", {"project": "demo"}),
        ("project_name: demo", {"project": "demo"}),
        ("name: My try 2", {"name": "My try 2"}),
        (
            "params: {lr: [0.1, 1e-5], seed: 010}",
            {"params": {"lr": ("0.1", "1e-5"), "seed": ("010",)}},
        ),
        ("hparam: {a.b-c_d: x}", {"params": {"a.b-c_d": ("x",)}}),
        ("params:", {}),
        ("gpus: 0.5", {"gpus": 0.5}),
        ("gpu_type: a100", {"gpu_type": ("a100",)}),
        ("gpu_type: [a100, h100]", {"gpu_type": ("a100", "h100")}),
        ("cpus: 4", {"cpus": 4.0}),
        ("memory: 2", {"memory": 2048}),
        ("time: 8h", {"time": timedelta(hours=8)}),
        ("time: 01:30:00", {"time": timedelta(minutes=90)}),
        ("nodes: 2", {"nodes": 2}),
        ("parallel: 3", {"parallel": 3}),
        ("gpus:", {}),
        ("target: desk", {"target": "desk"}),
        ("env: {A: 010, B: ''}", {"env": {"A": "010", "B": ""}}),
        ("setup: module load cuda", {"setup": "module load cuda"}),
        ("setup: [module load cuda, make]", {"setup": "module load cuda\nmake"}),
        ("outputs: [runs, a/b]", {"outputs": ("runs", "a/b")}),
        ("outputs: []", {"outputs": ()}),
        ("metrics: {acc: 'acc=([0-9.]+)'}", {"metrics": {"acc": "acc=([0-9.]+)"}}),
        ("metrics: {acc: '[[]acc=(.)'}", {"metrics": {"acc": "[[]acc=(.)"}}),
        ("code: ['../lib:lib']", {"code": (("../lib", "lib"),)}),
        ("snapshot_limit: 1G", {"snapshot_limit": 1024}),
    ],
)
def test_fields(text: str, values: dict[str, Any]) -> None:
    """Every key is read as the value that the core wants; an empty one is not given."""
    assert fields(text) == values


NAME = "is no name: begin with a letter or digit, and use no `/`"
PARAM = "a parameter's name has letters, digits, `_`, `-`, `.` and begins with a letter or `_`"
UNCLOSED = "missing ), unterminated subpattern at position 0"
VARIABLE = "a variable's name has letters, digits, `_` and begins with no digit"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("comand: y", "2:1: comand: unknown key", "did you mean `command`?"),
        ("hparams: {}", "2:1: hparams: unknown key", "did you mean `params`?"),
        ("params: {}\nhparam: {}", "3:1: hparam: the same key as `params`", "keep one of them"),
        (
            "project_name: a\nproject: b",
            "2:1: project_name: the same key as `project`",
            "keep one of them",
        ),
        ("project: ../x", f"2:1: project: `../x` {NAME}", None),
        ("name: a/b", f"2:1: name: `a/b` {NAME}", None),
        ("params: [a]", "2:1: params: must be a mapping, not a list", None),
        ("params: {1x: 1}", f"2:10: params.1x: {PARAM}", None),
        ("params:\n  lr: []", "3:3: params.lr: an empty list of values", None),
        ("params: {lr: }", "2:10: params.lr: no value; write `''` for an empty one", None),
        (
            "hparam: {lr: {small: {x: 1}}}",
            "2:10: hparam.lr: groups of parameters are not supported yet in this version",
            None,
        ),
        (
            "gpus: 1.5",
            "2:1: gpus: `1.5` is no number of GPUs; write 0, 2, or a fraction below 1",
            None,
        ),
        ("gpus: [1]", "2:1: gpus: must be one value, not a list", None),
        ("gpu_type: {a: b}", "2:1: gpu_type: must be a list, not a mapping", None),
        ("gpu_type: [[a]]", "2:12: gpu_type[0]: must be text, not a list", None),
        ("cpus: 0", "2:1: cpus: `0` is no number of processors above 0", None),
        (
            "memory: x",
            "2:1: memory: `x` is no amount of memory; write `32` for GB, `512M` or `1.5G`",
            None,
        ),
        ("memory: {a: b}", "2:1: memory: must be one value, not a mapping", None),
        (
            "time: x",
            "2:1: time: `x` is no span of time; write `90m`, `8h`, `2d` or `HH:MM:SS`",
            None,
        ),
        ("time: [1]", "2:1: time: must be one value, not a list", None),
        ("nodes: 0", "2:1: nodes: `0` is no whole number of at least 1", None),
        ("parallel: 0", "2:1: parallel: `0` is no whole number of at least 1", None),
        ("target: [a]", "2:1: target: must be text, not a list", None),
        ("env: {A-B: 1}", f"2:7: env.A-B: {VARIABLE}", None),
        ("env: {A: }", "2:7: env.A: must be text, not nothing", "give it a value"),
        ("env: {A: [1]}", "2:7: env.A: must be text, not a list", None),
        ("setup: {a: b}", "2:1: setup: must be text, not a mapping", None),
        ("outputs: runs", "2:1: outputs: must be a list, not text", None),
        ("outputs: [../x]", "2:11: outputs[0]: `../x` is no folder inside the project", None),
        ("outputs: [/x]", "2:11: outputs[0]: `/x` is no folder inside the project", None),
        ("outputs: ['.']", "2:11: outputs[0]: `.` is no folder inside the project", None),
        (
            "metrics: {acc: '('}",
            "2:11: metrics.acc: `(` is no regular expression: " + UNCLOSED,
            None,
        ),
        (
            "metrics: {acc: a=.}",
            "2:11: metrics.acc: `a=.` has no group; put `(…)` around the number",
            None,
        ),
        (
            "code: [lib]",
            "2:8: code[0]: `lib` names no place in the project; write `../lib:lib`",
            None,
        ),
        ("code: ['a:../b']", "2:8: code[0]: `../b` is no folder inside the project", None),
        (
            "snapshot_limit: 0",
            "2:1: snapshot_limit: `0` is no amount of memory; write `32` for GB, `512M` or `1.5G`",
            None,
        ),
        ("targets: [a]", "2:1: targets: must be a mapping, not a list", None),
        ("targets: {a: b}", "2:11: targets.a: must be a mapping, not text", None),
        ("targets: {a: }", "2:11: targets.a: must be a mapping, not nothing", "give it a value"),
        (
            "targets: {a.b: {}}",
            "2:11: targets.a.b: a target's name has letters, digits, `_`, `-`",
            None,
        ),
        (
            "targets: {a: {devices: some}}",
            "2:15: targets.a.devices: devices are `auto`, a number of GPUs, or a list of their ids",
            None,
        ),
        (
            "targets: {box: {kind: machine, hots: x}}",
            "2:32: targets.box.hots: unknown key",
            "did you mean `host`?",
        ),
        (
            "targets: {local: {paralel: 1}}",
            "2:19: targets.local.paralel: unknown key",
            "did you mean `parallel`?",
        ),
        (
            "targets: {local: {kind: [a]}}",
            "2:19: targets.local.kind: must be text, not a list",
            None,
        ),
        (
            "targets: {local: {kind: slurm}}",
            "2:19: targets.local.kind: `local` is always this computer",
            "choose another name for that target",
        ),
    ],
)
def test_what_cannot_be(text: str, message: str, hint: str | None) -> None:
    """Whatever is wrong with a key is said with its place, its name and a fix."""
    assert refusal(f"command: x\n{text}\n") == (f"bay.yaml:{message}", hint)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("", "1:1: command: missing", "add a line such as `command: python train.py`"),
        ("command:", "1:1: command: missing", "add a line such as `command: python train.py`"),
        ("command: ' '", "1:1: command: an empty command", None),
        ("command: [a]", "1:1: command: must be text, not a list", None),
    ],
)
def test_no_command(text: str, message: str, hint: str | None) -> None:
    """A file without a command says how to write one."""
    assert refusal(text) == (f"bay.yaml:{message}", hint)


def test_every_problem_at_once() -> None:
    """All that is wrong with a file is told together, in the order of its lines."""
    message, hint = refusal("comand: x\ntargets:\n  desk: {kind: machine, hots: x}\ngpus: x\n")

    assert hint is None
    assert message.splitlines() == [
        "3 problems",
        "bay.yaml:1:1: comand: unknown key; did you mean `command`?",
        "bay.yaml:3:25: targets.desk.hots: unknown key; did you mean `host`?",
        "bay.yaml:4:1: gpus: `x` is no number of GPUs; write 0, 2, or a fraction below 1",
    ]


def test_misspelt_is_not_missing() -> None:
    """A command under a misspelt key is one problem, not two."""
    assert refusal("comand: x") == ("bay.yaml:1:1: comand: unknown key", "did you mean `command`?")


def test_file_remembers_its_document() -> None:
    """A file can say what was typed, and where."""
    file = parse("command: x\ntime: 8h\n")

    assert file.document.find_value(("time",)) == "8h"
    assert str(file.document.find_place(("time",))) == "bay.yaml:2:1"


def test_user_config() -> None:
    """The user's configuration has targets and the one in use."""
    config = parse("use: desk\ntargets:\n  desk: {kind: machine}\n", UserConfig)

    assert isinstance(config, UserConfig)
    assert (config.use, list(config.targets)) == ("desk", ["desk"])
    assert refusal("usee: desk", UserConfig) == (
        "bay.yaml:1:1: usee: unknown key",
        "did you mean `use`?",
    )


def test_options_of_a_target() -> None:
    """A backend gets what was written, its own keys as they are and the common ones typed."""
    written = {
        "kind": "slurm",
        "partition": "gpu",
        "extra": {"a": ["1"]},
        "parallel": "2",
        "devices": ["0", "1"],
        "time": "8h",
        "root": None,
    }

    assert Target.model_validate(written).options == {
        "time": timedelta(hours=8),
        "parallel": 2,
        "devices": ("0", "1"),
        "partition": "gpu",
        "extra": {"a": ["1"]},
    }


@pytest.mark.parametrize(
    ("written", "devices"), [("auto", "auto"), ("2", "2"), ("0", "0"), (["0", "3"], ("0", "3"))]
)
def test_devices(written: object, devices: object) -> None:
    """Devices are `auto`, a number or ids."""
    assert Target.model_validate({"devices": written}).devices == devices


def test_keys_of_a_machine() -> None:
    """A machine has exactly these keys."""
    assert set(TARGET_KEYS.split()) == MACHINE_KEYS


@pytest.mark.parametrize("shape", [ExperimentFile, Target, UserConfig])
def test_every_key_is_described(shape: type[Part]) -> None:
    """Every key has a sentence for the reference."""
    missing = [key for key, field in shape.model_fields.items() if not field.description]

    assert missing == []
    assert all(str(field.description).endswith(".") for field in shape.model_fields.values())


def test_json_schema() -> None:
    """The shape can be told to editors."""
    schema = ExperimentFile.model_json_schema()

    assert schema["required"] == ["command"]
    assert schema["additionalProperties"] is False
