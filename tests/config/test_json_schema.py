"""The JSON schema of experiment files takes what the loader takes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from launchbay.config.branches import Around
from launchbay.config.build import build_experiment
from launchbay.config.common import Common, Part
from launchbay.config.configuration import load_configuration
from launchbay.config.files import parse_document
from launchbay.config.json_schema import experiment_schema, render_schema
from launchbay.config.paths import SCHEMA
from launchbay.config.schema import (
    Dataset,
    ExperimentFile,
    KubeFile,
    Model,
    RunBlock,
    SiteFile,
    Target,
    UserConfig,
)
from launchbay.config.validation import find_problems, validate
from launchbay.core.errors import BayError, ConfigError
from launchbay.engine.scaffold import first_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ROOT = Path(__file__).parents[2]
EXAMPLE = re.compile(r"^```yaml\n(.*?)^```", re.DOTALL | re.MULTILINE)
FOUND = experiment_schema()
VALIDATOR = Draft202012Validator(FOUND)
RUNS = "command: echo\n"


class EditorLoader(yaml.SafeLoader):
    """YAML 1.2 as editors read it: no dates, no `yes`, `1e3` is a number, keys are text."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
        self.flatten_mapping(node)
        return {key.value: self.construct_object(value, deep=True) for key, value in node.value}


CORE = {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9]+|0x[0-9a-fA-F]+",
    "float": r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf)|\.(nan|NaN)",
}
EditorLoader.yaml_implicit_resolvers = {}
for word, pattern in CORE.items():
    EditorLoader.add_implicit_resolver(
        f"tag:yaml.org,2002:{word}", re.compile(rf"(?:{pattern})\Z"), None
    )
EditorLoader.add_implicit_resolver("tag:yaml.org,2002:merge", re.compile(r"<<\Z"), ["<"])
EditorLoader.add_constructor(
    "tag:yaml.org,2002:int", lambda _, node: int(node.value, 0 if "x" in node.value else 10)
)
READERS: list[Callable[[str], Any]] = [
    # JSON knows no dates, and no keys but text.
    lambda text: json.loads(json.dumps(yaml.safe_load(text), default=str)),
    lambda text: yaml.load(text, EditorLoader),  # noqa: S506
]


def loader_takes(text: str) -> bool:
    try:
        document = parse_document(text, Path("bay.yaml"))
    except ConfigError:
        return False
    return not find_problems(document, ExperimentFile)


def schema_takes(text: str) -> list[bool]:
    """The verdict by YAML 1.1 and by YAML 1.2."""
    return [VALIDATOR.is_valid(read(text)) for read in READERS]


ACCEPTED = [
    RUNS,
    "command: 1\n",
    "command: |\n  a\n  b\n",
    "model: {a: {command: x}}\n",
    "command: x\nmodel: {a: , b: {gpus: 1}}\n",
    "command: x\nmodel: {1: , true: , é: }\ndataset: {2024: }\n",
    f"{RUNS}params:\n",
    f"{RUNS}params: {{}}\n",
    f"{RUNS}params: {{lr: 0.1, seed: 0..4, on: true, none: null, text: 'a b', day: 2024-01-01}}\n",
    f"{RUNS}hparam: {{_fn: [a, 1, 1e-5, false], x___: [1, 2], m.lr: ''}}\n",
    f"{RUNS}params: [{{lr: 1}}, {{lr: [2, 3], width: 4}}]\n",
    f"{RUNS}params: {{lr: {{range: [0.1, 1e-1]}}, s: {{range: [0, 4, 2]}}}}\n",
    f"{RUNS}params: {{a: {{linspace: [0, 1, 5]}}, b: {{logspace: [-5, -1.5, '5']}}}}\n",
    f"{RUNS}params: {{lr: [0, {{range: [1, 3]}}, 0..4]}}\n",
    f"{RUNS}params: {{m: {{lr: 1, 0: [2], w: {{range: [1, 2]}}}}}}\n",
    f"{RUNS}params: {{g: {{a b: {{lr: 1}}, c: {{_lr: [2, 3]}}}}}}\n",
    f"{RUNS}params: {{g: {{a: , b: {{}}}}}}\n",
    f"{RUNS}params: {{g: {{a: {{m: {{lr: 1}}}}, b: {{m: {{lr: 2}}}}}}}}\n",
    f"{RUNS}params: {{a: [1, 2], b: [3, 4], zip: [a, b], exclude: [{{a: 1}}]}}\n",
    f"{RUNS}params: {{range: 1, zip: [deflate, bz2]}}\n",
    f"{RUNS}params: {{a: [1, 2], b: [1, 2]}}\nzip: [[a, b]]\nexclude: {{a: 1}}\n",
    f"{RUNS}params: {{a: 1}}\ninclude: [{{a: 2}}, {{a: {{range: [3, 4]}}}}]\nexclude: []\n",
    f"{RUNS}include: [site.yaml, more.yaml]\n",
    f"{RUNS}gpus: 0.5\ncpus: 1.5\nmemory: 1.5\ndisk: 0\ntime: 30\nnodes: 2\nparallel: 8\n",
    f"{RUNS}gpus: '.5'\ncpus: '2.'\nmemory: 512 MiB\ndisk: 0GB\ntime: 1h30m\nnodes: '2'\n",
    f"{RUNS}gpu_count: 2.0\ncpu_count: 4\nephermal_storage: 100G\ntime: 1-02:30\n",
    f"{RUNS}gpus: 00\nmemory: 010\ntime: 8:30:00\nephemeral_storage: 1.5 tb\n",
    f"{RUNS}gpus: <n>\nmemory: <mem>G\ntime: <t:raw>\npython: <env>.yml\nnodes: <k>\n",
    f"{RUNS}gpus:\ngpu_count: 1\nmemory:\ntargets:\nrun:\nsecrets:\noutputs:\nsnapshot_limit:\n",
    f"{RUNS}gpu_type: a100\ngpu_blacklist:\nhostname_whitelist: [a, 1]\nimage: python:3.12\n",
    f"{RUNS}gpu_whitelist: [3090, 'a100, h100']\nextra: {{vendor/x: 1}}\n",
    f"{RUNS}env: {{A: 1, _b: true, C: '', D: 0.5}}\nmodules: [cuda/12.4, gcc]\n",
    f"{RUNS}modules: cuda\nsetup: [a, b]\npython: uv\n",
    f"{RUNS}setup: |\n  a\n  b\npython: reqs/dev.txt\n",
    f"{RUNS}python: conda:base\nlimit_ratio: 1.2\n",
    f"{RUNS}python: ~/envs/a\ntolerations: [a, {{key: b, effect: NoSchedule}}]\n",
    f"{RUNS}python: none\nvolumes: {{claim: /data}}\nssh_port: 30622\nserver: {{a: [1]}}\n",
    "project: <my-project>\nname: été\nprefix: a b\ncommand: x\n",
    "project_name: yes\nname: 2\ncommand: x\n",
    "command: x\nmodel: {a: }\ndataset: {d: }\nrun: {model: a, dataset: [d], hparam: {lr: [1]}}\n",
    "command: x\nmodel: {a: }\nrun: [{model: [a]}, {}]\n",
    "command: x\nrun: []\ntarget: desk\n",
    f"{RUNS}targets: {{desk: {{kind: machine, parallel: 2, devices: auto, gpu_count: 1}}}}\n",
    f"{RUNS}targets: {{local: {{devices: 2, root: ~/bay}}, desk-2: {{devices: [0, a]}}}}\n",
    f"{RUNS}targets: {{kube: {{kind: other, args: [a], more: {{a: 1}}}}, x: {{}}}}\n",
    f"{RUNS}targets: {{box: {{kind: machine, host: me@box, root: ~/bay}}}}\n",
    f"{RUNS}targets: {{brc: {{kind: slurm, host: brc, partition: gpu, look_every: 30s}}}}\n",
    f"{RUNS}targets: {{brc: {{kind: slurm, profiles: {{gpu: {{qos: a, gpus: 1}}}}}}}}\n",
    f"{RUNS}pack: 20\nretries: 2\nresume: true\ngrace: 2m\nprofile: gpu\n",
    f"{RUNS}pack: node\nretries: {{timeout: 1, 'CUDA error': 2, any: 0}}\nresume: Off\n",
    f"{RUNS}retries: 'node=2,exit=1'\nprocesses: 4\nexclusive: yes\nqos: 1\n",
    f"{RUNS}sbatch: --mail-type=END\nbinds: '/data:/data:ro'\ncontainer: apptainer\n",
    f"{RUNS}sbatch: ['#SBATCH --mail-type=END', -H]\nbinds: ['~/a:/a', '/b:/b']\n",
    f"{RUNS}nodelist: [a, b]\nntasks_per_node: 2\nlauncher: mpirun -n 2\n",
    f"{RUNS}exclude_nodes: a\nlicenses: matlab:1\nconstraint: a100&nvlink\n",
    f"{RUNS}secrets: [TOKEN, yes, {{KEY: file}}]\nrequire: [HOME, on]\n",
    f"{RUNS}secrets: {{TOKEN: , KEY: ~/key}}\n",
    f"{RUNS}outputs: [out, a/b, ./c, .hidden, 1]\ncode: ['../lib:lib', 'a:b:./c']\n",
    f"{RUNS}metrics: {{acc: 'acc=([0-9.]+)'}}\nsnapshot_limit: 250M\n",
    f"{RUNS}model: {{a: &a {{gpus: 1}}, b: {{<<: *a, memory: 8}}}}\n",
]

REJECTED = [
    "",
    "[a]\n",
    "text\n",
    "params: {lr: 1}\n",
    "model: {}\n",
    "model: {a: }\n",
    "model: {a: {command: x}, b: {gpus: 1}}\n",
    "command: [a]\n",
    "command: {a: b}\n",
    "command: ''\n",
    "comand: x\n",
    f"{RUNS}outputs_to: results\n",
    f"{RUNS}folders: {{data: {{at: /data}}}}\n",
    f"{RUNS}bucket: {{west: {{endpoint: http://x}}}}\n",
    f"{RUNS}pack: all\n",
    f"{RUNS}pack: 0\n",
    f"{RUNS}retries: -1\n",
    f"{RUNS}retries: [1]\n",
    f"{RUNS}retries: {{exit: many}}\n",
    f"{RUNS}resume: maybe\n",
    f"{RUNS}resume: 2\n",
    f"{RUNS}grace: soon\n",
    f"{RUNS}profile: [a]\n",
    f"{RUNS}profiles: {{a: {{}}}}\n",
    f"{RUNS}processes: 0\n",
    f"{RUNS}nodelist: a\nhostname_whitelist: a\n",
    f"{RUNS}exclusive: some\n",
    f"{RUNS}sbatch: mail-type=END\n",
    f"{RUNS}sbatch: [--a, b]\n",
    f"{RUNS}binds: [/data]\n",
    f"{RUNS}container: docker\n",
    f"{RUNS}targets: {{box: {{host: me at box}}}}\n",
    f"{RUNS}targets: {{box: {{host: -oProxyCommand=x}}}}\n",
    f"{RUNS}targets: {{local: {{host: me@box}}}}\n",
    f"{RUNS}targets: {{brc: {{kind: slurm, devices: 2}}}}\n",
    f"{RUNS}targets: {{brc: {{kind: slurm, volumes: {{a: /a}}}}}}\n",
    f"{RUNS}targets: {{brc: {{kind: slurm, partitoin: a}}}}\n",
    f"{RUNS}targets: {{brc: {{profiles: {{gpu: {{partitoin: a}}}}}}}}\n",
    f"{RUNS}targets: {{brc: {{profiles: {{gpu: {{profile: a}}}}}}}}\n",
    f"{RUNS}targets: {{brc: {{profiles: {{gpu: }}}}}}\n",
    f"{RUNS}targets: {{brc: {{look_every: often}}}}\n",
    f"{RUNS}unknown:\n",
    f"{RUNS}params: text\n",
    f"{RUNS}params: []\n",
    f"{RUNS}params: [1]\n",
    f"{RUNS}params: [[{{a: 1}}]]\n",
    f"{RUNS}params: {{a b: 1}}\n",
    f"{RUNS}params: {{1: 1}}\n",
    f"{RUNS}params: {{lr: []}}\n",
    f"{RUNS}params: {{lr: {{}}}}\n",
    f"{RUNS}params: {{lr: [[1]]}}\n",
    f"{RUNS}params: {{lr: [{{a: 1}}]}}\n",
    f"{RUNS}params: {{lr: {{range: 5}}}}\n",
    f"{RUNS}params: {{lr: {{range: [1]}}}}\n",
    f"{RUNS}params: {{lr: {{range: [1, 2, 3, 4]}}}}\n",
    f"{RUNS}params: {{lr: {{range: [a, b]}}}}\n",
    f"{RUNS}params: {{lr: {{linspace: [0, 1]}}}}\n",
    f"{RUNS}params: {{lr: {{linspace: [0, 1, 0]}}}}\n",
    f"{RUNS}params: {{lr: {{linspace: [0, 1, 2.5]}}}}\n",
    f"{RUNS}params: {{lr: {{logspace: [-500, -1, 5]}}}}\n",
    f"{RUNS}params: {{g: {{a: {{lr: 1}}, b: 2}}}}\n",
    f"{RUNS}params: {{g: {{a: {{lr: []}}}}}}\n",
    f"{RUNS}params: {{g: {{a: {{'l r': 1}}}}}}\n",
    f"{RUNS}params: {{g: {{a: {{m: {{}}}}}}}}\n",
    f"{RUNS}params: {{lr: 1}}\nhparam: {{lr: 1}}\n",
    f"{RUNS}zip: lr\n",
    f"{RUNS}zip: []\n",
    f"{RUNS}zip: [lr]\n",
    f"{RUNS}zip: [[lr]]\n",
    f"{RUNS}zip: [lr, [a, b]]\n",
    f"{RUNS}exclude: text\n",
    f"{RUNS}exclude: [text]\n",
    f"{RUNS}exclude: [{{}}]\n",
    f"{RUNS}exclude: [{{lr: []}}]\n",
    f"{RUNS}include: text\n",
    "model: {a: {command: x, include: [file.yaml]}}\n",
    f"{RUNS}gpus: 1.5\n",
    f"{RUNS}gpus: '1.5'\n",
    f"{RUNS}gpus: -1\n",
    f"{RUNS}gpus: true\n",
    f"{RUNS}gpus: [1]\n",
    f"{RUNS}gpus: 1\ngpu_count: 1\n",
    f"{RUNS}gpu_type: []\n",
    f"{RUNS}gpu_type: 'a,,b'\n",
    f"{RUNS}cpus: 0\n",
    f"{RUNS}cpus: many\n",
    f"{RUNS}memory: 0\n",
    f"{RUNS}memory: 0M\n",
    f"{RUNS}memory: 32X\n",
    f"{RUNS}memory: {{a: 1}}\n",
    f"{RUNS}disk: -1\n",
    f"{RUNS}disk: 10\nephermal_storage: 10\n",
    f"{RUNS}time: 1.5\n",
    f"{RUNS}time: 0\n",
    f"{RUNS}time: 0h\n",
    f"{RUNS}time: soon\n",
    f"{RUNS}nodes: 0\n",
    f"{RUNS}parallel: 1.5\n",
    f"{RUNS}parallel: 1000000000\n",
    f"{RUNS}parallel: no limit\n",
    f"{RUNS}limit_ratio: 0.5\n",
    f"{RUNS}limit_ratio: 11\n",
    f"{RUNS}tolerations: a\n",
    f"{RUNS}tolerations: [{{effect: b}}]\n",
    f"{RUNS}volumes: [a]\n",
    f"{RUNS}image: [a]\n",
    f"{RUNS}server: text\n",
    f"{RUNS}env: [A]\n",
    f"{RUNS}env: {{A-B: 1}}\n",
    f"{RUNS}env: {{UID: 1}}\n",
    f"{RUNS}env: {{bay_x: 1}}\n",
    f"{RUNS}env: {{A: [1]}}\n",
    f"{RUNS}modules: {{a: b}}\n",
    f"{RUNS}modules: [[a]]\n",
    f"{RUNS}setup: {{a: b}}\n",
    f"{RUNS}python: pip\n",
    f"{RUNS}python: ../reqs.txt\n",
    f"{RUNS}python: /reqs.txt\n",
    f"{RUNS}python: 3.12\n",
    f"{RUNS}name: a/b\n",
    f"{RUNS}name: _a\n",
    f"{RUNS}name: '+'\n",
    f"{RUNS}name: -1\n",
    f"{RUNS}prefix: [a]\n",
    f"{RUNS}project: a\nproject_name: a\n",
    f"{RUNS}model: [a]\n",
    f"{RUNS}model: {{a/b: }}\n",
    f"{RUNS}model: {{a: text}}\n",
    f"{RUNS}model: {{a: {{unknown: 1}}}}\n",
    f"{RUNS}model: {{a: {{gpus: many}}}}\n",
    f"{RUNS}dataset: {{a: {{command: x}}}}\n",
    f"{RUNS}dataset: {{a: {{hparam: text}}}}\n",
    f"{RUNS}run: text\n",
    f"{RUNS}run: [a]\n",
    f"{RUNS}run: {{models: [a]}}\n",
    f"{RUNS}run: {{model: {{a: b}}}}\n",
    f"{RUNS}run: [{{params: {{lr: 1}}, hparam: {{lr: 1}}}}]\n",
    f"{RUNS}target: [a]\n",
    f"{RUNS}targets: [a]\n",
    f"{RUNS}targets: {{desk: }}\n",
    f"{RUNS}targets: {{a b: {{}}}}\n",
    f"{RUNS}targets: {{desk: {{devices: all}}}}\n",
    f"{RUNS}targets: {{desk: {{parallel: 0}}}}\n",
    f"{RUNS}targets: {{desk: {{kind: machine, partition: gpu}}}}\n",
    f"{RUNS}targets: {{local: {{partition: gpu}}}}\n",
    f"{RUNS}targets: {{local: {{kind: slurm}}}}\n",
    f"{RUNS}secrets: TOKEN\n",
    f"{RUNS}secrets: [A-B]\n",
    f"{RUNS}secrets: {{TOKEN: [a]}}\n",
    f"{RUNS}require: HOME\n",
    f"{RUNS}require: [1]\n",
    f"{RUNS}outputs: out\n",
    f"{RUNS}outputs: [/out]\n",
    f"{RUNS}outputs: [a/../../b]\n",
    f"{RUNS}outputs: ['.']\n",
    f"{RUNS}code: [lib]\n",
    f"{RUNS}code: ['../lib:../lib']\n",
    f"{RUNS}metrics: {{acc: acc=1}}\n",
    f"{RUNS}metrics: [acc]\n",
    f"{RUNS}snapshot_limit: 0\n",
]

LOOSER = {
    "a placeholder that no model can fill": f"{RUNS}model: {{a: }}\nmemory: <mem>\n",
    "a placeholder in a dataset": f"{RUNS}dataset: {{a: {{memory: <mem>}}}}\n",
    "a placeholder where the root has none": f"{RUNS}parallel: <k>\n",
    "`null`, which is text": f"{RUNS}gpus: null\n",
    "nothing, where only a value would do": f"{RUNS}params: {{lr: }}\n",
    "nothing in a list": f"{RUNS}params:\n  lr:\n    -\n",
    "a command that is empty": "command:\n",
    "what is allowed and denied": f"{RUNS}gpu_type: a\ngpu_blacklist: b\n",
    "choices with unequal keys": f"{RUNS}params: {{g: {{a: {{x: 1}}, b: {{y: 1}}}}}}\n",
    "a parameter that is given twice": f"{RUNS}params: {{lr: 1, _lr: 2}}\n",
    "steps that lead nowhere": f"{RUNS}params: {{lr: {{range: [2, 1]}}}}\n",
    "a misspelt rule": f"{RUNS}params: {{lr: {{rang: [1, 2]}}}}\n",
    "rules beside parameters": f"{RUNS}params: {{lr: [1, 2], zip: [lr]}}\n",
    "a pattern of the log": f"{RUNS}retries: {{'(': 1}}\n",
    "keys of a machine's profile": (
        f"{RUNS}targets: {{a: {{kind: machine, profiles: {{gpu: {{qos: a}}}}}}}}\n"
    ),
    "regular expressions": f"{RUNS}metrics: {{acc: '\\(a'}}\n",
    "numbers in other notations": f"{RUNS}gpus: 0x10\n",
}
"""What the schema lets pass, because it looks at one value at a time, and the loader does not."""

STRICTER = {
    "the values that a run keeps": f"{RUNS}params: {{lr: 1}}\nrun: {{params: [lr]}}\n",
    "files and points in one list": f"{RUNS}params: {{lr: 1}}\ninclude: [a.yaml, {{lr: 2}}]\n",
    "a placeholder in the place of a mapping": f"{RUNS}params: {{x: 1}}\nenv: <x>\n",
    "names of nested keys": f"{RUNS}params: {{m: {{a b: 1}}}}\n",
}
"""What the loader lets pass, and is refused when an experiment is made of it."""


@pytest.mark.parametrize("text", ACCEPTED)
def test_accepted(text: str) -> None:
    """What the loader takes, the schema takes."""
    assert (loader_takes(text), schema_takes(text)) == (True, [True, True])


@pytest.mark.parametrize("text", REJECTED)
def test_rejected(text: str) -> None:
    """What has the wrong shape for the loader has it for the schema."""
    assert (loader_takes(text), schema_takes(text)) == (False, [False, False])


@pytest.mark.parametrize("text", LOOSER.values(), ids=LOOSER)
def test_looser(text: str) -> None:
    """Some faults only the loader finds."""
    assert (loader_takes(text), schema_takes(text)) == (False, [True, True])


@pytest.mark.parametrize("text", STRICTER.values(), ids=STRICTER)
def test_stricter(tmp_path: Path, text: str) -> None:
    """Some faults the schema finds before the loader does, which finds them in the end."""
    assert schema_takes(text) == [False, False]
    with pytest.raises(BayError):
        make_experiment(text, tmp_path)


def make_experiment(text: str, folder: Path) -> None:
    file = validate(parse_document(text, Path("bay.yaml")), ExperimentFile)
    load_configuration(file=file, user=UserConfig(), folder=folder)
    build_experiment(file, Around(), project_name="x")


@pytest.mark.parametrize("base", ["_base_: common.yaml\n", "_base_: [a.yaml, b.yaml]\ngpus: 1\n"])
def test_base(base: str) -> None:
    """A file that is laid over others need not say what a run does."""
    assert schema_takes(base) == [True, True]


@pytest.mark.parametrize("part", [ExperimentFile, Model, Dataset, RunBlock, Target])
def test_every_spelling(part: type[Part]) -> None:
    """Every spelling of every key is there, says what it is for and may be left empty."""
    found = (FOUND if part is ExperimentFile else FOUND["$defs"][part.__name__])["properties"]
    shared = FOUND["$defs"]["Common"]["properties"]
    resolved = {key: shared[key] if "$ref" in one else one for key, one in found.items()}
    described = [key for key, one in resolved.items() if one["description"].strip()]

    assert set(found) - {"_base_"} == set(part.spellings())
    assert (described, [key for key, one in resolved.items() if not _may_be_empty(one)]) == (
        list(found),
        [],
    )


def _may_be_empty(schema: dict[str, Any]) -> bool:
    return Draft202012Validator({**schema, "$defs": FOUND["$defs"]}).is_valid(None)


def test_packaged() -> None:
    """The packaged file is this schema, a valid one that names no host but its dialect's."""
    Draft202012Validator.check_schema(FOUND)
    text = SCHEMA.read_text(encoding="utf-8")

    assert text == render_schema()
    assert "$id" not in json.loads(text)
    assert re.findall(r"https?://[^\"]*", text) == ["https://json-schema.org/draft/2020-12/schema"]


def examples() -> Iterator[tuple[str, str]]:
    """Every file that a page or a folder of test data shows."""
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for at, text in enumerate(EXAMPLE.findall(page.read_text(encoding="utf-8"))):
            if not is_another_file(text):
                yield f"{page.name}-{at}", text
    for file in sorted((ROOT / "tests" / "data" / "toolbox").rglob("launch.yaml")):
        yield str(file.relative_to(ROOT)), file.read_text(encoding="utf-8")


def is_another_file(text: str) -> bool:
    """Whether it has keys that only a user's, a site's or a cluster's file has, or is an object."""
    if "apiVersion" in (yaml.safe_load(text) or ()):
        return True
    keys = set(yaml.safe_load(text) or ()) - ExperimentFile.spellings().keys() - {"_base_"}
    others = UserConfig.spellings() | SiteFile.spellings() | KubeFile.spellings()
    return bool(keys) and keys <= others.keys()


@pytest.mark.parametrize("text", dict(examples()).values(), ids=dict(examples()))
def test_examples(text: str) -> None:
    """Every example is right, with a command where it only shows some other keys."""
    data = yaml.safe_load(text) or {}
    whole = text if {"command", "model"} & set(data) else f"{RUNS}{text}"

    assert (loader_takes(whole), schema_takes(whole)) == (True, [True, True])


@pytest.mark.parametrize("names", [[], ["main.py"]])
def test_first_files(tmp_path: Path, names: list[str]) -> None:
    """What `bay init` writes is right, and so is each key that it only mentions."""
    for name in names:
        (tmp_path / name).touch()
    text = first_files(tmp_path)["bay.yaml"]
    uncommented = re.sub(r"(?m)^# (?=[a-z]+: )", "", text.partition("More, when")[2])
    whole = RUNS + uncommented.partition("\n")[2]

    assert (schema_takes(text), schema_takes(whole)) == ([True, True], [True, True])


@pytest.mark.parametrize("key", sorted(Common.spellings()))
def test_placeholder(key: str) -> None:
    """Wherever a key's value is one text, a placeholder may stand for it."""
    text = f"{RUNS}params: {{x: 1}}\n{key}: <x>\n"
    mappings = {"env", "extra", "folders", "volumes", "server", "tolerations"}
    mappings |= {"override", "dev_limits", "node_selector"}

    assert loader_takes(text)
    assert schema_takes(text) == [key not in mappings] * 2


# Not `8:30:00`: to YAML 1.1 that is a number, and the loader takes it for two paths too.
WORDS = [
    *("1", "0", "2", "0.5", "1.5", "-1", "010", "08", "1.", ".5", "1e-5", "1e3", "+3", "007"),
    *("true", "false", "yes", "null", "~", "none", "auto", "uv", "x.txt", "conda:a", "/env"),
    *("8h", "90m", "1h30m", "1-02", "00:30:00", "512M", "1.5G", "32 GB", "0M", "0..4", "~/e"),
    *("a", "a100", "lr", "a b", "a/b", "../a", "../lib:lib", "A", "machine", "slurm", ".inf"),
    *("1_000", "0x10", "2024-01-01", "(a)", "é", "_a", "-", "."),
]
INNER = ["a", "lr", "_fn", "x___", "m.lr", "1", "zip", "range"]
"""Names of nested keys: others are refused later than here."""
NAMES = ["a", "lr", "_fn", "x___", "m.lr", "A", "b-c", "1", "a b", "_", "é", "zip", "exclude"]
NUMBERS = ["0", "1", "2.5", "1e1", "'3'", "-1", "+2"]
ENTRIES: dict[str, type[Part]] = {"model": Model, "dataset": Dataset, "targets": Target}


class Writer:
    """Writes files by chance: known keys, with anything behind them."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def part(self, shape: type[Part], **always: str) -> str:
        keys = self.some(sorted(shape.spellings().keys() - always))
        return flow({**always, **{key: self.behind(key, shape) for key in keys}})

    def behind(self, key: str, shape: type[Part]) -> str:
        if key in {"params", "hparam"} and shape is RunBlock:
            # What stands there is looked at when an experiment is made.
            return flow({name: self.text() for name in self.some(NAMES)})
        if key == "include" and self.chance(2):
            return f"[{', '.join(self.text() for _ in self.some('abc'))}]"
        if key == "include":
            return flow({name: self.anything(1) for name in self.some(NAMES)})
        if self.chance(5):
            return self.anything(2)
        if key in ENTRIES:
            return flow({name: self.part(ENTRIES[key]) for name in self.some([*NAMES, "local"])})
        if key == "run":
            blocks = [self.part(RunBlock) for _ in self.some("abc")]
            return blocks[0] if len(blocks) == 1 else f"[{', '.join(blocks)}]"
        if key in {"params", "hparam"}:
            return flow({name: self.parameter() for name in self.some(NAMES)})
        return self.anything(1)

    def parameter(self) -> str:
        if self.chance(4):
            rule = self.one(["range", "linspace", "logspace"])
            count = 2 + self.chance(2)
            return flow({rule: f"[{', '.join(self.one(NUMBERS) for _ in range(count))}]"})
        return self.anything(3)

    def anything(self, depth: int) -> str:
        kind = self.one(["text", "text", "nothing", "list", "mapping"])
        if kind == "nothing":
            return ""
        if kind == "text" or not depth:
            return self.text()
        if kind == "list":
            return f"[{', '.join(self.anything(depth - 1) or 'null' for _ in self.some('abc'))}]"
        return flow({name: self.anything(depth - 1) for name in self.some(INNER)})

    def text(self) -> str:
        if self.chance(4):
            return f"'{self._draw(st.text('abzAZ019._- /:,', max_size=6))}'"
        word = self.one(WORDS)
        return f"'{word}'" if self.chance(3) else word

    def one(self, choices: list[str]) -> str:
        return self._draw(st.sampled_from(choices))

    def some(self, choices: Sequence[str]) -> list[str]:
        return self._draw(st.lists(st.sampled_from(choices), max_size=2, unique=True))

    def chance(self, of: int) -> bool:
        return self._draw(st.integers(1, of)) == of


def flow(pairs: dict[str, str]) -> str:
    return f"{{{', '.join(f'{key}: {value}' for key, value in pairs.items())}}}"


@st.composite
def written_files(draw: st.DrawFn) -> str:
    return Writer(draw).part(ExperimentFile, command="echo")


@settings(max_examples=150, deadline=None)
@given(written_files())
def test_no_false_alarm(text: str) -> None:
    """Whatever the loader takes, the schema takes."""
    assume(loader_takes(text))

    assert schema_takes(text) == [True, True]
