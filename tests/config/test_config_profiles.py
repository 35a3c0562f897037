"""The profiles of a target: chosen by name or by need, each right above its target's entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.config.conftest import recipes, refusal

from launchbay.config.configuration import SITE_VARIABLE, choose_target, resolve_targets
from launchbay.config.explain import explain
from launchbay.config.layers import Private
from launchbay.core.errors import BadRequest
from launchbay.core.job import Policy, Resources

if TYPE_CHECKING:
    from tests.config.conftest import Project

    from launchbay.core.job import Recipe

MINE = """\
use: lab
targets:
  lab:
    kind: slurm
    partition: main
    account: lab
    profiles:
      gpu: {partition: gpu, cpus: 8}
      cpu: {partition: small}
      big: {partition: big, gpus: 4, sbatch: --exclusive, env: {BIG: 1}, retries: 2}
"""


@pytest.fixture
def lab(project: Project) -> Project:
    """A project whose user has a target with three profiles."""
    project.write("user.yaml", MINE)
    return project


def given(project: Project, text: str = "", **flags: str) -> Recipe:
    """What the only run of a file is given on that target."""
    (recipe,) = recipes(project.build(f"command: x\n{text}", target="lab", flags=flags))
    return recipe


@pytest.mark.parametrize(
    ("text", "flags", "partition"),
    [
        ("", {}, "small"),
        ("gpus: 0", {}, "small"),
        ("gpus: 1", {}, "gpu"),
        ("gpus: 0.5", {}, "gpu"),
        ("", {"gpus": "2"}, "gpu"),
        ("gpus: 1", {"gpus": "0"}, "small"),
        ("profile: big", {}, "big"),
        ("profile: cpu\ngpus: 1", {}, "small"),
        ("profile: big", {"profile": "gpu"}, "gpu"),
        ("targets: {lab: {profile: big}}", {}, "big"),
        ("profile: cpu\ntargets: {lab: {profile: big}}", {}, "big"),
        ("profile: cpu\nmodel: {m: {profile: big}}", {}, "big"),
        ("profile: cpu\ndataset: {d: {profile: big}}", {}, "big"),
    ],
)
def test_choice(lab: Project, text: str, flags: dict[str, str], partition: str) -> None:
    """A profile is the one that is named by the strongest, else `gpu` with GPUs, else `cpu`."""
    assert given(lab, text, **flags).options["partition"] == partition


def test_choice_by_parameter(lab: Project) -> None:
    """Runs of one sweep that differ in their GPUs differ in their profile."""
    found = recipes(lab.build("command: x\nparams: {gpu_count: [0, 1]}\n", target="lab"))

    assert [(one.resources, one.options["partition"]) for one in found] == [
        (Resources(gpus=0), "small"),
        (Resources(gpus=1, cpus=8), "gpu"),
    ]


def test_choice_by_placeholder(lab: Project) -> None:
    """A parameter may name the profile where a placeholder lets it."""
    text = "command: x\nparams: {p: [big, cpu]}\nprofile: <p>\n"
    found = recipes(lab.build(text, target="lab"))

    assert [one.options["partition"] for one in found] == ["big", "small"]


@pytest.mark.parametrize(
    ("profiles", "gpus", "partition"),
    [
        ("{gpu: {partition: gpu}}", "0", "main"),
        ("{cpu: {partition: small}}", "1", "small"),
        ("{other: {partition: other}}", "1", "main"),
        ("{}", "1", "main"),
    ],
)
def test_choice_where_some_are_missing(
    project: Project, profiles: str, gpus: str, partition: str
) -> None:
    """Where the one that is needed does not exist, `cpu` is taken or none."""
    project.write(
        "user.yaml", f"targets: {{lab: {{kind: slurm, partition: main, profiles: {profiles}}}}}"
    )

    assert given(project, gpus=gpus).options == {"partition": partition}


def test_everything_of_a_profile(lab: Project) -> None:
    """A profile gives resources, variables, policies and options; its target gives the rest."""
    recipe = given(lab, "profile: big")

    assert recipe.resources == Resources(gpus=4)
    assert recipe.env == {"BIG": "1"}
    assert recipe.policy == Policy(retries={"preempted": 2, "node": 2, "lost": 2})
    assert recipe.options == {"partition": "big", "account": "lab", "sbatch": ("--exclusive",)}


@pytest.mark.parametrize(
    ("mine", "file", "expected"),
    [
        ("{}", "", "sp"),
        ("{}", "targets: {lab: {account: a}}", "sp"),
        ("{partition: u}", "", "u"),
        ("{partition: u, profiles: {p: {partition: up}}}", "", "up"),
        ("{profiles: {p: {partition: up}}}", "partition: root", "root"),
        ("{profiles: {p: {partition: up}}}", "targets: {lab: {partition: f}}", "f"),
        (
            "{profiles: {p: {partition: up}}}",
            "targets: {lab: {partition: f, profiles: {p: {partition: fp}}}}",
            "fp",
        ),
        (
            "{}",
            "targets: {lab: {profiles: {p: {partition: fp}}}}\nmodel: {m: {partition: m}}",
            "m",
        ),
    ],
)
def test_rank(
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    *,
    mine: str,
    file: str,
    expected: str,
) -> None:
    """A profile is above its own target's entry and below whatever is above that entry."""
    sites = "targets: {lab: {kind: slurm, profiles: {p: {partition: sp}}}}"
    monkeypatch.setenv(SITE_VARIABLE, str(project.write("site.yaml", sites)))
    project.write("user.yaml", f"targets: {{lab: {mine}}}")

    assert given(project, file, profile="p").options["partition"] == expected


def test_same_name_in_two_places(lab: Project) -> None:
    """A project's profile goes over the user's of that name; what it leaves out stays."""
    recipe = given(lab, "gpus: 1\ntargets: {lab: {profiles: {gpu: {cpus: 2, qos: q}}}}")

    assert recipe.resources == Resources(gpus=1, cpus=2)
    assert recipe.options == {"partition": "gpu", "account": "lab", "qos": "q"}


def test_dotenv_beats_a_profile_of_the_user(lab: Project) -> None:
    """Variables of a profile count as those of the entry that it belongs to."""
    private = Private(dotenv={"BIG": "2"})
    (recipe,) = recipes(lab.build("command: x\nprofile: big\n", target="lab", private=private))

    assert (recipe.env, recipe.secrets) == ({}, ("BIG",))


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("profile: bigg", "bay.yaml:2:1: profile: there is no profile `bigg`", "`big`"),
        (
            "model: {m: {profile: ccpu}}",
            "bay.yaml:2:13: model.m.profile: there is no profile `ccpu`",
            "`cpu`",
        ),
        (
            "targets: {lab: {profile: xyz}}",
            "bay.yaml:2:17: targets.lab.profile: there is no profile `xyz`",
            "there are: `big`, `cpu`, `gpu`",
        ),
        (
            "params: {gpu_count: [0, 1]}\nprofile: cpus",
            "bay.yaml:3:1: profile: there is no profile `cpus`",
            "`cpu`",
        ),
    ],
)
def test_unknown(lab: Project, text: str, message: str, hint: str) -> None:
    """A profile that the target does not have is an error at its line, with the nearest."""
    said, told = refusal(lambda: lab.build(f"command: x\n{text}", target="lab"))

    assert said == message
    assert told is not None
    assert hint in told


def test_unknown_flag(lab: Project) -> None:
    """A profile that is typed and does not exist is told as a flag, on any target."""
    assert refusal(lambda: given(lab, profile="gpuu"), BadRequest) == (
        "--profile: there is no profile `gpuu`",
        "did you mean `gpu`?",
    )
    assert refusal(
        lambda: lab.build("command: x", target="local", flags={"profile": "gpu"}), BadRequest
    ) == ("--profile: there is no profile `gpu`", "take it out, or give the target `profiles:`")


def test_weaker_names_do_not_matter(lab: Project) -> None:
    """Only the profile that would hold must exist."""
    assert given(lab, "profile: nothing", profile="big").options["partition"] == "big"


def test_targets_without_profiles(lab: Project) -> None:
    """What a file says for a target with profiles is in nobody's way on one without."""
    (recipe,) = recipes(lab.build("command: x\nprofile: big\n", target="local"))

    assert (recipe.resources, recipe.options) == (Resources(), {})


def test_target_that_names_none_of_its_own(project: Project) -> None:
    """A target's own entry that names a profile it does not have is wrong."""
    text = "command: x\ntargets: {box: {kind: machine, profile: gpu}}"

    assert refusal(lambda: project.build(text, target="box")) == (
        "bay.yaml:2:32: targets.box.profile: there is no profile `gpu`",
        "take it out, or give the target `profiles:`",
    )


def test_a_machine_has_profiles_too(project: Project) -> None:
    """What a machine may say, its profiles may."""
    text = "command: x\ntargets: {box: {kind: machine, profiles: {cpu: {cpus: 2}}}}"
    (recipe,) = recipes(project.build(text, target="box"))

    assert recipe.resources == Resources(cpus=2)


def test_backends_do_not_see_profiles(lab: Project) -> None:
    """A backend is given a target's options; its profiles have reached the runs."""
    lab.write("bay.yaml", "command: x\ntargets: {lab: {profiles: {more: {cpus: 1}}}}")
    config = lab.config()

    assert choose_target("lab", config).options == {"partition": "main", "account": "lab"}
    assert set(resolve_targets(config)["lab"].profiles or ()) == {"gpu", "cpu", "big", "more"}


@pytest.mark.parametrize(
    ("text", "names", "expected"),
    [
        (
            "",
            {},
            [("small", "profile cpu of your target lab, user.yaml:9"), ("main", "user.yaml:5")],
        ),
        (
            "gpus: 1",
            {},
            [("gpu", "profile gpu of your target lab, user.yaml:8"), ("main", "user.yaml:5")],
        ),
        (
            "model: {m: {gpus: 1}}",
            {"model": "m"},
            [("gpu", "profile gpu of your target lab, user.yaml:8"), ("main", "user.yaml:5")],
        ),
        (
            "partition: mine",
            {},
            [
                ("mine", "bay.yaml:2"),
                ("small", "profile cpu of your target lab, user.yaml:9"),
                ("main", "user.yaml:5"),
            ],
        ),
        (
            "targets: {lab: {profiles: {cpu: {partition: f}}}}",
            {},
            [
                ("f", "profile cpu of target lab of the file, bay.yaml:2"),
                ("small", "profile cpu of your target lab, user.yaml:9"),
                ("main", "user.yaml:5"),
            ],
        ),
        ("profile: none", {}, [("main", "user.yaml:5")]),
    ],
)
def test_explained(
    lab: Project, text: str, names: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    """A key that a profile sets is explained by that profile and its line."""
    lab.write("bay.yaml", f"command: x\n{text}")
    found = explain("partition", lab.config(), **names)

    assert [(one.value, f"{one.source}:{one.line}") for one in (found, *found.over)] == expected


def test_a_base_and_its_spellings(project: Project) -> None:
    """A profile of a file goes over that of its base, in whatever spelling."""
    project.write("base.yaml", "targets: {t: {kind: machine, profiles: {cpu: {gpu_count: 1}}}}")
    text = "_base_: base.yaml\ncommand: x\ntargets: {t: {profiles: {cpu: {gpus: 2}}}}"
    (recipe,) = recipes(project.build(text, target="t"))

    assert recipe.resources == Resources(gpus=2)
