"""The shape of the files."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from launchbay.config.files import parse_document
from launchbay.config.schema import (
    KEYS_OF,
    MACHINE,
    SLURM,
    Dataset,
    ExperimentFile,
    KubeFile,
    Model,
    RunBlock,
    SiteFile,
    Target,
    UserConfig,
    Written,
)
from launchbay.config.storage import FOLDER_FIX
from launchbay.config.validation import validate
from launchbay.core.errors import ConfigError
from launchbay.core.job import DEFAULT_OUTPUTS

if TYPE_CHECKING:
    from launchbay.config.common import Part
    from launchbay.config.problems import Route

FILE = Path("bay.yaml")
UNCLOSED = "missing ), unterminated subpattern at position 0"
PYTHON_FIX = (
    "write `uv`, `requirements.txt`, `environment.yml`, `conda:NAME`, `/path/to/venv` or `none`"
)
MACHINE_KEYS = """
kind host root parallel devices profiles profile
gpus gpu_type gpu_blacklist cpus memory disk time nodes processes
hostname_whitelist hostname_blacklist
extra image env modules python setup pack retries resume grace hold
folders outputs_to ship_every ship_only fetch endpoints
"""
SLURM_KEYS = """
partition account qos constraint reservation exclusive licenses sbatch launcher binds container
look_every
"""


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
    assert (file.params, file.outputs, file.snapshot_limit) == (None, DEFAULT_OUTPUTS, 100)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("project: demo", {"project": "demo"}),
        ("project_name: demo", {"project": "demo"}),
        ("name: My try 2", {"name": "My try 2"}),
        (
            "params: {lr: [0.1, 1e-5], seed: 010}",
            {"params": {"lr": ["0.1", "1e-5"], "seed": "010"}},
        ),
        ("hparam: {a.b-c_d: x}", {"params": {"a.b-c_d": "x"}}),
        ("params: [{a: 1}, {b: 2}]", {"params": [{"a": "1"}, {"b": "2"}]}),
        ("params:", {}),
        ("params: {a: 1, b: 2}\nzip: [a, b]", {"params": {"a": "1", "b": "2"}, "zip": ["a", "b"]}),
        ("exclude: [{a: 1}]", {"exclude": [{"a": "1"}]}),
        ("include: [site.yaml]", {"include": ["site.yaml"]}),
        ("prefix: me", {"prefix": "me"}),
        ("gpu_count: 2", {"gpus": 2}),
        ("gpu_whitelist: [a100]", {"gpu_type": ("a100",)}),
        ("gpu_blacklist: a100", {"gpu_blacklist": ("a100",)}),
        ("cpu_count: 4", {"cpus": 4}),
        ("disk: 0", {"disk": 0}),
        ("ephemeral_storage: 1", {"disk": 1024}),
        ("ephermal_storage: 1", {"disk": 1024}),
        ("hostname_whitelist: [a, b]", {"hostname_whitelist": ("a", "b")}),
        ("hostname_blacklist: a", {"hostname_blacklist": ("a",)}),
        ("extra: {licence: 2}", {"extra": {"licence": "2"}}),
        ("image: python:3.12", {"image": "python:3.12"}),
        ("modules: [a, b]", {"modules": ("a", "b")}),
        ("modules: a", {"modules": ("a",)}),
        ("python: uv", {"python": "uv"}),
        ("python: /opt/venv", {"python": "/opt/venv"}),
        ("limit_ratio: 1.2", {"limit_ratio": 1.2}),
        ("special_gpu: a100", {"special_gpu": "a100"}),
        ("secrets: [A, B]", {"secrets": {"A": "", "B": ""}}),
        ("secrets: [A, {B: ~/b}]", {"secrets": {"A": "", "B": "~/b"}}),
        ("secrets: {A: , B: ~/b}", {"secrets": {"A": "", "B": "~/b"}}),
        ("require: [A]", {"require": ("A",)}),
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


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("comand: y", "2:1: comand: unknown key", "did you mean `command`?"),
        ("hparams: {}", "2:1: hparams: unknown key", "did you mean `params`?"),
        (
            "params: {}\nhparam: {}",
            "3:1: hparam: the same key as `params` on line 2",
            "keep one of them",
        ),
        (
            "project_name: a\nproject: b",
            "2:1: project_name: the same key as `project` on line 3",
            "keep one of them",
        ),
        (
            "project: ../x",
            "2:1: project: `../x` is no name",
            "begin with a letter or digit, and use no `/`",
        ),
        (
            "name: a/b",
            "2:1: name: `a/b` is no name",
            "begin with a letter or digit, and use no `/`",
        ),
        ("params: [a]", "2:10: params[0]: must be a mapping of parameters", "write `- lr: 0.1`"),
        (
            "params: {1x: 1}",
            "2:10: params.1x: `1x` is no name of a parameter",
            "use letters, digits, `_`, `-` and `.`, a letter first",
        ),
        (
            "params:\n  lr: []",
            "3:3: params.lr: an empty list of values",
            "write at least one, or take the key out",
        ),
        ("params: {lr: }", "2:10: params.lr: no value", "write one, or `''` for an empty one"),
        (
            "hparam: {lr: {small: {x: 1}, big: {}}}",
            "2:30: hparam.lr.big: group `lr`: `big` lacks `x`, which `small` has",
            "add `x` to `big`",
        ),
        (
            "params: {lr: 1}\nzip: lr",
            "3:1: zip: must be a list of two parameters or more",
            "write `zip: [lr, width]`",
        ),
        (
            "exclude: [1]",
            "2:11: exclude[0]: must be a mapping of parameters to values",
            "write `- {lr: 0.1}`",
        ),
        (
            "gpu_type: [a]\ngpu_blacklist: [b]",
            "3:1: gpu_blacklist: `gpu_type` and `gpu_blacklist` are both set",
            "keep one of them",
        ),
        (
            "gpu_whitelist: [a]\ngpu_type: [b]",
            "2:1: gpu_whitelist: the same key as `gpu_type` on line 3",
            "keep one of them",
        ),
        (
            "hostname_whitelist: a\nhostname_blacklist: b",
            "3:1: hostname_blacklist: `hostname_whitelist` and `hostname_blacklist` are both set",
            "keep one of them",
        ),
        (
            "disk: lots",
            "2:1: disk: `lots` is no amount of disk space",
            "write `100` for GB, `512M`, or `0` for none",
        ),
        (
            "ephemeral_storage: 1\ndisk: 1",
            "2:1: ephemeral_storage: the same key as `disk` on line 3",
            "keep one of them",
        ),
        ("image: [a]", "2:1: image: must be text, not a list", "write `image: a`"),
        (
            "extra: [a]",
            "2:1: extra: must be a mapping, not a list",
            "write lines such as `a: 1` below it, without dashes or brackets",
        ),
        (
            "modules: {a: b}",
            "2:1: modules: must be a list, not a mapping",
            "write `[a, b]`, or one `- a` a line",
        ),
        (
            "python: perl",
            "2:1: python: `perl` is no Python environment",
            PYTHON_FIX,
        ),
        (
            "limit_ratio: 0.5",
            "2:1: limit_ratio: `0.5` is no ratio of limit to request",
            "write 1 or more, as `1.2`",
        ),
        (
            "tolerations: [[a]]",
            "2:1: tolerations: no toleration",
            "write the key of a taint, or a mapping with `key`",
        ),
        (
            "volumes: [a]",
            "2:1: volumes: must be a mapping, not a list",
            "write lines such as `a: /a` below it, without dashes or brackets",
        ),
        ("secrets: [A-B]", "2:1: secrets: `A-B` is no name of a variable", "write `A_B`"),
        (
            "secrets: X",
            "2:1: secrets: must be a list of names, or a mapping of names to files",
            "write `[X]`",
        ),
        (
            "require: [1x]",
            "2:11: require[0]: `1x` is no name of a variable",
            "use letters, digits and `_`, and no digit first",
        ),
        (
            "env: {UID: 1}",
            "2:7: env.UID: `UID` belongs to the shell that starts a run",
            "choose another name",
        ),
        (
            "env: {bay_x: 1}",
            "2:7: env.bay_x: `bay_x` belongs to the shell that starts a run",
            "choose another name",
        ),
        (
            "outputs_to: results",
            "2:1: outputs_to: `results` is no place that outputs can go to",
            "write `s3://lab/results`, `claim:NAME` or `none`",
        ),
        (
            "folders: {data: {at: /data}}",
            "2:1: folders: `data` does not say where it comes from",
            FOLDER_FIX,
        ),
        (
            "folders: {data: {from: /a, an: /data}}",
            "2:1: folders: `data` has no key `an`",
            "there are: `at`, `from`, `ro`",
        ),
        (
            "folders: {data: {from: /a, at: data}}",
            "2:1: folders: `data` is no absolute path",
            "write one, such as `/root/.mujoco`",
        ),
        (
            "folders: {../data: /a}",
            "2:1: folders: `../data` is no folder inside the project",
            "write one, such as `runs`",
        ),
        (
            "bucket: {west: {url: s3://lab, secret_key: abc}}",
            "2:32: bucket.west.secret_key: keys do not belong into files",
            "write `null`, or nothing, and give it as a variable of the environment or of `.env`",
        ),
        (
            "bucket: {west: {url: s3://lab, engine: s3cmd}}",
            "2:32: bucket.west.engine: `s3cmd` carries no bytes",
            "did you mean `s5cmd`? there are: `built-in`, `s5cmd`",
        ),
        (
            "bucket: {s3: s3://lab}",
            "2:1: bucket: `s3` cannot be the name of a bucket",
            "choose another",
        ),
        (
            "bucket: lab",
            "2:1: bucket.url: `lab` is no place in object storage",
            "write `s3://NAME`, `gs://NAME`, `az://CONTAINER`, or the path of a folder",
        ),
        (
            "model: [a]",
            "2:1: model: must be a mapping, not a list",
            "write lines such as `a: {command: python a.py}` below it, without dashes or brackets",
        ),
        (
            "model: {m: x}",
            "2:9: model.m: must be a mapping, not text",
            "write lines such as `command: python train.py` below it",
        ),
        (
            "model: {a/b: {command: x}}",
            "2:9: model.a/b: `a/b` is no name",
            "begin with a letter or digit, and use no `/`",
        ),
        ("model: {m: {comand: x}}", "2:13: model.m.comand: unknown key", "did you mean `command`?"),
        (
            "model: {m: {gpu_cuont: 1}}",
            "2:13: model.m.gpu_cuont: unknown key",
            "did you mean `gpu_count`?",
        ),
        (
            "dataset: {d: {command: x}}",
            "2:15: dataset.d.command: not a key of a dataset",
            "move it to the file's root or a model",
        ),
        (
            "dataset: {d: {hparms: {}}}",
            "2:15: dataset.d.hparms: unknown key",
            "did you mean `params`?",
        ),
        (
            "run: x",
            "2:1: run: must be a list, not text",
            "write lines such as `model: [mlp]` below it",
        ),
        ("run: {modle: a}", "2:7: run.modle: unknown key", "did you mean `model`?"),
        (
            "run: [{model: a}, {hparams: 1}]",
            "2:20: run[1].hparams: unknown key",
            "did you mean `params`?",
        ),
        (
            "run: {model: {a: b}}",
            "2:7: run.model: must be a list, not a mapping",
            "write `[a, b]`, or one `- a` a line",
        ),
        ("gpus: 1.5", "2:1: gpus: `1.5` is no number of GPUs", "write 0, 2, or a fraction below 1"),
        (
            "gpus: [1]",
            "2:1: gpus: must be one value, not a list",
            "write one value, or `resources.gpus: [1]` below `params:` to try each",
        ),
        (
            "gpu_type: {a: b}",
            "2:1: gpu_type: must be a list, not a mapping",
            "write `[a, b]`, or one `- a` a line",
        ),
        (
            "gpu_type: [[a]]",
            "2:12: gpu_type[0]: must be text, not a list",
            "write words, one beside the other: `[a, b]`",
        ),
        (
            "cpus: 0",
            "2:1: cpus: `0` is no number of processors",
            "write `4`, or a fraction such as `0.5`",
        ),
        (
            "memory: x",
            "2:1: memory: `x` is no amount of memory",
            "write `32` for GB, `512M` or `1.5G`",
        ),
        (
            "memory: {a: b}",
            "2:1: memory: must be one value, not a mapping",
            "write one value behind the colon",
        ),
        ("time: x", "2:1: time: `x` is no span of time", "write `90m`, `8h`, `2d` or `HH:MM:SS`"),
        (
            "time: [1]",
            "2:1: time: must be one value, not a list",
            "write one value, or `resources.time: [1]` below `params:` to try each",
        ),
        ("nodes: 0", "2:1: nodes: `0` is no whole number of at least 1", "write `1` or more"),
        ("parallel: 0", "2:1: parallel: `0` is no whole number of at least 1", "write `1` or more"),
        (
            "target: [a]",
            "2:1: target: must be text, not a list",
            "write the name of a target; its keys go below `targets:`",
        ),
        ("env: {A-B: 1}", "2:7: env.A-B: `A-B` is no name of a variable", "write `A_B`"),
        ("env: {A: }", "2:7: env.A: no value", "write one, or `''` for an empty one"),
        ("env: {A: [1]}", "2:7: env.A: must be text, not a list", "write `A: 1`"),
        (
            "setup: {a: b}",
            "2:1: setup: must be text, not a mapping",
            "write `setup: value`, in quotes if it begins with a bracket",
        ),
        ("outputs: runs", "2:1: outputs: must be a list, not text", "write `outputs: [runs]`"),
        (
            "outputs: [../x]",
            "2:11: outputs[0]: `../x` is no folder inside the project",
            "write one, such as `runs`",
        ),
        (
            "outputs: [/x]",
            "2:11: outputs[0]: `/x` is no folder inside the project",
            "write one, such as `runs`",
        ),
        (
            "outputs: ['.']",
            "2:11: outputs[0]: `.` is no folder inside the project",
            "write one, such as `runs`",
        ),
        (
            "metrics: {acc: '('}",
            "2:11: metrics.acc: `(` is no regular expression: " + UNCLOSED,
            "mend it, or put a backslash before what is meant",
        ),
        (
            "metrics: {acc: a=.}",
            "2:11: metrics.acc: `a=.` has no group",
            "put `(…)` around the number",
        ),
        (
            "code: [lib]",
            "2:8: code[0]: `lib` does not say where in the project it goes",
            "write `lib:lib`",
        ),
        (
            "code: ['a:../b']",
            "2:8: code[0]: `../b` is no folder inside the project",
            "write one, such as `runs`",
        ),
        (
            "snapshot_limit: 0",
            "2:1: snapshot_limit: `0` is no amount of memory",
            "write `32` for GB, `512M` or `1.5G`",
        ),
        (
            "targets: [a]",
            "2:1: targets: must be a mapping, not a list",
            "write lines such as `a: {kind: machine}` below it, without dashes or brackets",
        ),
        (
            "targets: {a: b}",
            "2:11: targets.a: must be a mapping, not text",
            "write lines such as `kind: machine` below it",
        ),
        (
            "targets: {a: }",
            "2:11: targets.a: must be a mapping, not nothing",
            "write lines such as `kind: machine` below it",
        ),
        ("targets: {a.b: {}}", "2:11: targets.a.b: `a.b` is no name of a target", "write `a-b`"),
        (
            "targets: {a: {devices: some}}",
            "2:15: targets.a.devices: `some` names no GPUs",
            "write `auto`, a number, or their ids, such as `[0, 1]`",
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
            "write `kind: a`",
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
        (
            "",
            "1:1: the file says nothing yet",
            "begin with `command: python train.py`; `bay init` writes an example",
        ),
        ("command:", "1:1: command: missing", "add a line such as `command: python train.py`"),
        ("command: ' '", "1:1: command: an empty command", "write one, such as `python train.py`"),
        ("command: [a]", "1:1: command: must be text, not a list", "write `command: a`"),
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
        "more": {"a": ["1"]},
        "extra": {"a": "1"},
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
        "more": {"a": ["1"]},
        "extra": {"a": "1"},
    }


@pytest.mark.parametrize(
    ("written", "devices"), [("auto", "auto"), ("2", "2"), ("0", "0"), (["0", "3"], ("0", "3"))]
)
def test_devices(written: object, devices: object) -> None:
    """Devices are `auto`, a number or ids."""
    assert Target.model_validate({"devices": written}).devices == devices


def test_keys_of_each_kind() -> None:
    """A machine has exactly these keys; Slurm has some of its own, and no devices."""
    assert set(MACHINE_KEYS.split()) == KEYS_OF[MACHINE]
    assert {*MACHINE_KEYS.split(), *SLURM_KEYS.split()} - {"devices"} == KEYS_OF[SLURM]


@pytest.mark.parametrize(
    "shape", [ExperimentFile, Model, Dataset, RunBlock, Target, UserConfig, KubeFile, SiteFile]
)
def test_every_key_is_described(shape: type[Part]) -> None:
    """Every key has a sentence for the reference."""
    missing = [key for key, field in shape.model_fields.items() if not field.description]

    assert missing == []
    assert all(str(field.description).endswith(".") for field in shape.model_fields.values())


@pytest.mark.parametrize(
    ("text", "templates"),
    [
        ("image: i:<tag>", {(): {"image": "i:<tag>"}}),
        ("gpus: <n>\ncpus: 1", {(): {"gpus": "<n>"}}),
        ("env: {A: x, B: <n>}", {(): {"env": {"A": "x", "B": "<n>"}}}),
        ("modules: [a, <n>]", {(): {"modules": ["a", "<n>"]}}),
        (r"image: \<tag>", {}),
        ("name: <n>", {}),
        ("image: i:<tag>\nmodel: {m: {gpus: <n>}}", {("model", "m"): {"gpus": "<n>"}}),
        ("dataset: {d: {image: <n>}}", {}),
    ],
)
def test_what_is_read_later(text: str, templates: dict[Route, Any]) -> None:
    """What holds placeholders is kept as typed until values are known: of models, else the root."""
    assert parse(f"command: x\n{text}").templates == templates
