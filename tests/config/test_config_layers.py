"""Who has the last word: flag, parameter, model, dataset, file, targets, site."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest
from tests.config.conftest import recipes, refusal

from launchbay.config.configuration import SITE_VARIABLE, is_local, layers_below, resolve_targets
from launchbay.config.layers import Layer, Private, make_recipe, merge
from launchbay.core.errors import BadRequest
from launchbay.core.job import Policy, Recipe, Resources
from launchbay.core.python import Python

if TYPE_CHECKING:
    from tests.config.conftest import Project

    from launchbay.core.sweep import Experiment

TARGET = ("targets", "desk")
TWICE = {"preempted": 2, "node": 2, "lost": 2}


@dataclass(frozen=True)
class Level:
    """A place that may say something."""

    name: str
    file: str = ""
    """Empty for what is typed."""
    route: tuple[str, ...] = ()
    own: bool = True
    """Whether it belongs to the project, and so beats `.env`."""

    def __str__(self) -> str:
        return self.name


LEVELS = (
    Level("site", "site.yaml", own=False),
    Level("target of the site", "site.yaml", TARGET, own=False),
    Level("target of the user", "user.yaml", TARGET, own=False),
    Level("file", "bay.yaml"),
    Level("target of the file", "bay.yaml", TARGET),
    Level("dataset", "bay.yaml", ("dataset", "d")),
    Level("model", "bay.yaml", ("model", "m")),
    Level("parameter", "bay.yaml", ("params",)),
    Level("flag"),
)
"""The weakest first."""
PAIRS = list(combinations(LEVELS, 2))
NO_PARAMETERS = [pair for pair in PAIRS if all(level.name != "parameter" for level in pair)]
NOT_TYPED = [pair for pair in NO_PARAMETERS if all(level.file for level in pair)]
OFF_TARGETS = [pair for pair in NOT_TYPED if all(level.route != TARGET for level in pair)]


def build(
    project: Project, said: dict[Level, dict[str, Any]], target: str = "desk", **around: Any
) -> Experiment:
    """The experiment where each level says something; what is typed is among `around`."""
    files: dict[str, dict[str, Any]] = {
        "bay.yaml": {"command": "x", "dataset": {"d": {}}, "model": {"m": {}}},
        "user.yaml": {"targets": {"desk": {"kind": "machine"}}},
        "site.yaml": {},
    }
    for level, words in said.items():
        if level.file:
            entry = files.setdefault(level.file, {})
            for key in level.route:
                entry = entry.setdefault(key, {})
            entry |= words
    for name, data in files.items():
        project.write(name, json.dumps(data))
    return project.build(target=target, **around)


@pytest.fixture(autouse=True)
def site(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A site has prepared a file."""
    monkeypatch.setenv(SITE_VARIABLE, str(project.folder / "site.yaml"))


def given(project: Project, key: str, values: dict[Level, Any], *, parameter: str = "") -> Recipe:
    """What a run is given where some levels say something about one key."""
    said = {
        level: {parameter if level.name == "parameter" else key: value}
        for level, value in values.items()
    }
    typed = [value for level, value in values.items() if not level.file]
    flags = {key: ",".join(typed[0]) if isinstance(typed[0], list) else typed[0]} if typed else {}
    (recipe,) = recipes(build(project, said, flags=flags))
    return recipe


def test_default(project: Project) -> None:
    """Where nobody says anything, nothing is asked for."""
    (recipe,) = recipes(build(project, {}))

    assert recipe == Recipe()


@pytest.mark.parametrize("level", LEVELS, ids=str)
def test_every_level_beats_the_default(project: Project, level: Level) -> None:
    """What anybody says holds where nobody else says anything."""
    assert given(project, "cpus", {level: "3"}, parameter="cpu_count").resources.cpus == 3


@pytest.mark.parametrize(("weak", "strong"), PAIRS, ids=str)
def test_precedence_of_a_resource(project: Project, weak: Level, strong: Level) -> None:
    """Of two levels that set a resource, the stronger one does."""
    recipe = given(project, "cpus", {weak: "1", strong: "2"}, parameter="cpu_count")

    assert recipe.resources == Resources(cpus=2)


@pytest.mark.parametrize(("weak", "strong"), PAIRS, ids=str)
def test_precedence_of_a_list(project: Project, weak: Level, strong: Level) -> None:
    """A list replaces a list."""
    values = {level: list(words) for level, words in ((weak, "ab"), (strong, "cd"))}
    for level in (weak, strong):
        if level.name == "parameter":
            values[level] = [",".join(values[level])]
    recipe = given(project, "gpu_type", values, parameter="gpu_whitelist")

    assert recipe.resources == Resources(gpu_types=("c", "d"))


@pytest.mark.parametrize(("weak", "strong"), NO_PARAMETERS, ids=str)
def test_precedence_of_a_variable(project: Project, weak: Level, strong: Level) -> None:
    """Variables merge, and of the same one the stronger level speaks."""
    variables = {weak: {"A": "weak", "W": "weak"}, strong: {"A": "strong", "S": "strong"}}
    said = {level: {"env": env} for level, env in variables.items()}
    typed = variables[strong] if not strong.file else {}
    (recipe,) = recipes(build(project, said, env=typed))

    assert recipe.env == {"A": "strong", "W": "weak", "S": "strong"}


@pytest.mark.parametrize(("weak", "strong"), NOT_TYPED, ids=str)
def test_precedence_of_a_map(project: Project, weak: Level, strong: Level) -> None:
    """Maps merge, and of the same key the stronger level speaks."""
    values = {weak: {"a": "1", "w": "1"}, strong: {"a": "2", "s": "2"}}

    assert given(project, "extra", values).resources.extra == {"a": "2", "w": "1", "s": "2"}


@pytest.mark.parametrize(("weak", "strong"), NOT_TYPED, ids=str)
@pytest.mark.parametrize(
    ("key", "weaker", "stronger", "expected"),
    [
        ("image", "a", "b", {"image": "b"}),
        ("modules", ["a", "b"], ["c"], {"modules": ("c",)}),
        ("setup", "a", ["b", "c"], {"setup": "b\nc"}),
        ("python", "uv", "none", {"python": None}),
        ("python", "none", "conda:x", {"python": Python("conda", "x")}),
        ("pack", "20", "node", {"policy": Policy(pack="node")}),
        ("resume", "yes", "false", {"policy": Policy()}),
        ("resume", "false", "true", {"policy": Policy(resume=True)}),
        ("grace", "1h", "30s", {"policy": Policy(grace_s=30)}),
        ("hold", "1h", "30m", {"policy": Policy(hold_s=1800)}),
        ("retries", {"exit": "1"}, "2", {"policy": Policy(retries=TWICE)}),
        ("retries", "2", {"exit": "1"}, {"policy": Policy(retries={"exit": 1})}),
        (
            "retries",
            {"exit": "1", "oom": "1"},
            {"exit": "0", "any": "3"},
            {"policy": Policy(retries={"exit": 0, "oom": 1, "any": 3})},
        ),
    ],
    ids=str,
)
def test_precedence_of_surroundings(
    project: Project,
    weak: Level,
    strong: Level,
    *,
    key: str,
    weaker: Any,
    stronger: Any,
    expected: dict[str, Any],
) -> None:
    """What else a run finds around it follows the same order."""
    recipe = given(project, key, {weak: weaker, strong: stronger})

    assert {name: getattr(recipe, name) for name in expected} == expected


@pytest.mark.parametrize(("weak", "strong"), OFF_TARGETS, ids=str)
def test_precedence_of_what_only_clusters_know(
    project: Project, weak: Level, strong: Level
) -> None:
    """What a machine does not understand is carried along in the same order."""
    values = {weak: {"a": "/weak", "w": "/w"}, strong: {"a": "/strong", "s": "/s"}}
    recipe = given(project, "volumes", values)

    assert recipe.options == {"volumes": {"a": "/strong", "w": "/w", "s": "/s"}}


@pytest.mark.parametrize(("weak", "strong"), NOT_TYPED, ids=str)
def test_precedence_of_what_only_slurm_knows(project: Project, weak: Level, strong: Level) -> None:
    """What Slurm understands reaches a run in the same order, lists replaced."""
    said: dict[Level, dict[str, Any]] = {
        LEVELS[2]: {"kind": "slurm"},
        weak: {"partition": "weak", "account": "lab", "sbatch": ["-H", "--x"]},
        strong: {"partition": "strong", "sbatch": "--y"},
    }
    said[LEVELS[2]] |= {"kind": "slurm"}
    (recipe,) = recipes(build(project, said))

    assert recipe.options == {"partition": "strong", "account": "lab", "sbatch": ("--y",)}


@pytest.mark.parametrize(("weak", "strong"), PAIRS, ids=str)
def test_precedence_of_processes(project: Project, weak: Level, strong: Level) -> None:
    """How many processes a node has follows the same order."""
    values = {weak: "2", strong: "3"}
    recipe = given(project, "processes", values, parameter="resources.processes")

    assert recipe.resources == Resources(processes=3)


@pytest.mark.parametrize("level", [one for one in LEVELS if one.name != "parameter"], ids=str)
def test_a_flag_has_the_last_word_on_policies(project: Project, level: Level) -> None:
    """A policy that is typed holds, whatever a file says."""
    said = {level: {"pack": "3", "retries": "1", "resume": "true", "grace": "1h"}}
    flags = {"pack": "node", "retries": "2", "resume": "false", "grace": "1m"}
    (recipe,) = recipes(build(project, said, flags=flags))

    assert recipe.policy == Policy(pack="node", retries=TWICE, grace_s=60)


def test_all_levels_at_once(project: Project) -> None:
    """Without its strongest speaker a key is the next one's, down to the default."""
    speakers = {level: str(at + 1) for at, level in enumerate(LEVELS)}
    heard = []
    while speakers:
        recipe = given(project, "cpus", speakers, parameter="cpu_count")
        heard.append(recipe.resources.cpus)
        speakers.popitem()

    assert heard == [9, 8, 7, 6, 5, 4, 3, 2, 1]


@pytest.mark.parametrize("level", [one for one in LEVELS if one.name != "parameter"], ids=str)
def test_dotenv(project: Project, level: Level) -> None:
    """`.env` ranks below the `env:` of the project's files and flags, and above a target's."""
    private = Private(dotenv={"A": "secret", "B": "secret"})
    env = {"A": "said"}
    (recipe,) = recipes(
        build(project, {level: {"env": env}}, env={} if level.file else env, private=private)
    )

    assert (recipe.env, recipe.secrets) == ((env, ("B",)) if level.own else ({}, ("A", "B")))


def test_declared_secrets(project: Project) -> None:
    """What is declared secret travels by name, once, unless the project sets it openly."""
    private = Private(dotenv={"A": "1"}, secrets=("A", "B", "C"))
    said = {LEVELS[3]: {"env": {"C": "open"}}, LEVELS[2]: {"env": {"B": "target's"}}}
    (recipe,) = recipes(build(project, said, private=private))

    assert (recipe.env, recipe.secrets) == ({"C": "open"}, ("A", "B"))


OPPOSITES = [
    ("gpu_type", "gpu_blacklist", "gpu_types", "gpu_types_denied"),
    ("gpu_blacklist", "gpu_type", "gpu_types_denied", "gpu_types"),
    ("hostname_whitelist", "hostname_blacklist", "hosts", "hosts_denied"),
    ("hostname_blacklist", "hostname_whitelist", "hosts_denied", "hosts"),
]


@pytest.mark.parametrize(("weak", "strong"), NOT_TYPED, ids=str)
@pytest.mark.parametrize(("weaker", "stronger", "gone", "kept"), OPPOSITES)
def test_opposites_across_levels(
    project: Project,
    weak: Level,
    strong: Level,
    *,
    weaker: str,
    stronger: str,
    gone: str,
    kept: str,
) -> None:
    """A stronger level that allows takes back what a weaker one denied, and the other way."""
    (recipe,) = recipes(build(project, {weak: {weaker: ["a"]}, strong: {stronger: ["b"]}}))

    assert (getattr(recipe.resources, gone), getattr(recipe.resources, kept)) == ((), ("b",))


def test_flag_takes_back(project: Project) -> None:
    """A flag that allows takes back what a parameter denied."""
    said = {LEVELS[7]: {"gpu_blacklist": "a"}}
    (recipe,) = recipes(build(project, said, flags={"gpu_type": "b"}))

    assert recipe.resources == Resources(gpu_types=("b",))


@pytest.mark.parametrize("level", [one for one in LEVELS if one.file], ids=str)
@pytest.mark.parametrize(
    ("allowed", "denied"),
    [("gpu_whitelist", "gpu_blacklist"), ("hostname_whitelist", "hostname_blacklist")],
)
def test_opposites_within_a_level(
    project: Project, level: Level, allowed: str, denied: str
) -> None:
    """One level that allows and denies is an error with both keys."""
    said, hint = refusal(lambda: build(project, {level: {allowed: ["a"], denied: ["b"]}}))

    assert said.startswith(f"{level.file}:1:")
    assert f"`{allowed}` and `{denied}`" in said
    assert hint == "keep one of them"


KUBE = Level("config/kube.yaml", "config/kube.yaml", own=False)
AROUND_KUBE = [
    (Level("site", "site.yaml"), KUBE),
    (Level("target of the site", "site.yaml", ("targets", "kube")), KUBE),
    (Level("target of the user", "user.yaml", ("targets", "kube")), KUBE),
    (KUBE, Level("file", "bay.yaml")),
    (KUBE, Level("target of the file", "bay.yaml", ("targets", "kube"))),
    (KUBE, Level("dataset", "bay.yaml", ("dataset", "d"))),
    (KUBE, Level("model", "bay.yaml", ("model", "m"))),
]


@pytest.mark.parametrize(("weak", "strong"), AROUND_KUBE, ids=str)
def test_rank_of_kube(project: Project, weak: Level, strong: Level) -> None:
    """`config/kube.yaml` ranks as a user's target, over what the user says of `kube`."""
    said: dict[Level, dict[str, Any]] = {
        level: {"memory": number, "env": {"A": number, f"V{number}": number}}
        for level, number in ((weak, "1"), (strong, "2"))
    }
    (recipe,) = recipes(build(project, said, target="kube"))

    assert recipe.resources.memory_mib == 2048
    assert recipe.env == {"A": "2", "V1": "1", "V2": "2"}


def test_kube_and_dotenv(project: Project) -> None:
    """`.env` beats `config/kube.yaml`, as it did in the first tool."""
    said = {KUBE: {"env": {"A": "kube"}}}
    (recipe,) = recipes(build(project, said, target="kube", private=Private(dotenv={"A": "1"})))

    assert (recipe.env, recipe.secrets) == ({}, ("A",))


def test_kube_is_for_its_target_only(project: Project) -> None:
    """`config/kube.yaml` has no say elsewhere."""
    (recipe,) = recipes(build(project, {KUBE: {"memory": "1"}}))

    assert recipe == Recipe()


@pytest.mark.parametrize("level", [LEVELS[3], LEVELS[5], LEVELS[6]], ids=str)
def test_a_typed_command_leaves_the_root_out(project: Project, level: Level) -> None:
    """What a file says of its own command is not said of a typed one; targets are."""
    build(project, {level: {"cpus": "1"}, LEVELS[4]: {"gpus": "2"}, LEVELS[2]: {"nodes": "3"}})
    layers = layers_below(project.config(), "desk", root=False)

    assert merge(layers) == {"gpus": 2, "nodes": 3}


def test_several_sites(project: Project) -> None:
    """The site of the variable is the weakest, then the user's, then the file's own."""
    project.write("site.yaml", "env: {A: variable, B: variable, C: variable, D: variable}\n")
    project.write("one.yaml", "env: {B: one, C: one, D: one}\n")
    project.write("sub/two.yaml", "env: {C: two, D: two}\n")
    project.write("sub/three.yaml", "env: {D: three}\n")
    project.write("user.yaml", "include: [one.yaml]\n")
    project.write("bay.yaml", "command: x\ninclude: [sub/two.yaml, sub/three.yaml]\n")
    (recipe,) = recipes(project.build())

    assert recipe.env == {"A": "variable", "B": "one", "C": "two", "D": "three"}


def test_site_named_by_a_base(project: Project) -> None:
    """The path of a site counts from the file that names it."""
    project.write("site.yaml", "")
    project.write("lab/site.yaml", "cpus: 5\n")
    project.write("lab/base.yaml", "include: [site.yaml]\n")
    (recipe,) = recipes(project.build("_base_: lab/base.yaml\ncommand: x\n"))

    assert recipe.resources.cpus == 5


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"bay.yaml": "command: x\ninclude: [no.yaml]"},
            "bay.yaml:2:11: include[0]: there is no file `no.yaml`",
        ),
        (
            {"user.yaml": "include: [no.yaml]", "bay.yaml": "command: x"},
            "user.yaml:1:11: include[0]: there is no file `no.yaml`",
        ),
        (
            {"bay.yaml": "command: x\nparams: {a: 1}\ninclude: [site.yaml, {a: 2}]"},
            "bay.yaml:3:1: include: files and points in one list",
        ),
        (
            {"site.yaml": "command: x", "bay.yaml": "command: x"},
            "site.yaml:1:1: command: unknown key",
        ),
    ],
)
def test_wrong_sites(project: Project, files: dict[str, str], message: str) -> None:
    """A site file that is not there, or says what no site may, is told at its line."""
    for name, text in {"site.yaml": "", **files}.items():
        project.write(name, text)
    said, _ = refusal(project.build)

    assert said == message


def test_no_site_of_the_variable(project: Project) -> None:
    """A variable that names no file is an error that names the variable."""
    project.write("bay.yaml", "command: x")
    said, hint = refusal(project.build, BadRequest)

    assert said.startswith(f"${SITE_VARIABLE} names `")
    assert hint == f"ask who set it, or `unset {SITE_VARIABLE}`"


def test_targets_of_a_site(project: Project) -> None:
    """A site's targets are everybody's; the user's and the project's are merged over them."""
    project.write("site.yaml", "targets: {desk: {kind: slurm, partition: a, account: s, cpus: 1}}")
    project.write("user.yaml", "targets: {desk: {partition: b, user: me}}")
    project.write("bay.yaml", "command: x\ntargets: {desk: {user: us}}")
    target = resolve_targets(project.config())["desk"]

    assert (target.kind, target.options) == (
        "slurm",
        {"partition": "b", "account": "s", "cpus": 1.0, "user": "us"},
    )


@pytest.mark.parametrize(
    ("entry", "local"),
    [
        ("{kind: machine}", True),
        ("{}", True),
        ("{kind: machine, host: me@box}", False),
        ("{kind: slurm}", False),
        ("{kind: kubernetes}", False),
    ],
)
def test_local_side(project: Project, entry: str, *, local: bool) -> None:
    """Only a machine without `host` is local."""
    project.write("site.yaml", "")
    project.write("bay.yaml", f"command: x\ntargets: {{t: {entry}}}\n")

    assert is_local(resolve_targets(project.config())["t"]) == local


def test_layers_stay_as_they_are() -> None:
    """Merging changes none of the layers."""
    layers = [
        Layer(level="a", values={"env": {"A": "1"}, "gpu_type": ("x",)}),
        Layer(level="b", values={"env": {"B": "2"}, "gpu_blacklist": ("y",)}),
    ]
    before = [dict(one.values) for one in layers]

    assert merge(layers) == {"env": {"A": "1", "B": "2"}, "gpu_blacklist": ("y",)}
    assert [one.values for one in layers] == before
    assert make_recipe(layers, Private()).env == {"A": "1", "B": "2"}
