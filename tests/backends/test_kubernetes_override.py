"""The user's last word on a Job, by value."""

from __future__ import annotations

from typing import Any

import pytest

from launchbay.backends.kubernetes.manifest import Carried, Frame, check_job, render_job, render_pod
from launchbay.backends.kubernetes.override import read_values
from launchbay.core.errors import Unsupported
from launchbay.core.job import Argv, Job

FRAME = Frame(target="lab", namespace="space", user="ada")
CARRIED = Carried(plan="p", programs="n")


def job(override: object) -> Job:
    return Job(
        run_id="lr-4x7ab",
        name="lr",
        experiment="sweep",
        command=Argv(("true",)),
        image="python:3.12",
        options={"outputs_to": "none", "override": override},
    )


def rendered(override: object) -> dict[str, Any]:
    return render_job(job(override), FRAME, CARRIED, line="x", index=0)


def in_pod(changes: object) -> dict[str, Any]:
    return {"spec": {"template": {"spec": changes}}}


def refusal(override: object) -> tuple[str, str]:
    with pytest.raises(Unsupported) as caught:
        check_job(job(override), FRAME)
    return str(caught.value), str(caught.value.hint)


def test_merges_adds_and_removes() -> None:
    """Mappings merge, values replace, and `null` removes, as in RFC 7396."""
    changes = {
        "terminationGracePeriodSeconds": "600",
        "enableServiceLinks": "null",
        "automountServiceAccountToken": None,
        "securityContext": {"runAsUser": "1000", "runAsGroup": None},
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["box"]}],
    }
    made = rendered({"metadata": {"annotations": {"owner": "1"}}, **in_pod(changes)})
    spec = made["spec"]["template"]["spec"]

    assert spec["terminationGracePeriodSeconds"] == 600
    assert "enableServiceLinks" not in spec
    assert "automountServiceAccountToken" not in spec
    assert spec["securityContext"] == {"runAsUser": 1000}
    assert spec["hostAliases"] == [{"ip": "10.0.0.1", "hostnames": ["box"]}]
    assert made["metadata"]["annotations"].items() >= {("owner", "1"), ("launchbay/params", "{}")}


def test_named_things_are_patched_by_name() -> None:
    """A mapping over a list of named things changes, adds and removes those of these names."""
    changes = {
        "containers": {
            "main": {
                "securityContext": {"runAsNonRoot": "true"},
                "env": {"BAY_PLAN": None, "DEBUG": {"value": "1"}},
            },
            "extra": {"image": "busybox:1"},
        },
        "volumes": {"scratch": {"hostPath": {"path": "/scratch"}}},
    }
    spec = rendered(in_pod(changes))["spec"]["template"]["spec"]
    main, extra = spec["containers"]
    names = [one["name"] for one in main["env"]]

    assert main["securityContext"] == {"runAsNonRoot": True}
    assert main["image"] == "python:3.12"
    assert "BAY_PLAN" not in names
    assert main["env"][-1] == {"name": "DEBUG", "value": "1"}
    assert extra == {"name": "extra", "image": "busybox:1"}
    assert spec["volumes"][-1] == {"name": "scratch", "hostPath": {"path": "/scratch"}}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2", 2),
        ("-1.5e3", -1500.0),
        ("true", True),
        ("false", False),
        ("True", "True"),
        ("010", "010"),
        ("1.2.3", "1.2.3"),
        ("500m", "500m"),
        ('"2"', "2"),
        ('"a" and "b"', '"a" and "b"'),
        ("null", None),
        ("~", None),
        (None, None),
        (3, 3),
        (["1", "x", {"a": "1"}], [1, "x", {"a": 1}]),
    ],
)
def test_text_of_files(written: object, meant: object) -> None:
    """Text that JSON would read as a value is that; quotes inside the text keep it text."""
    assert read_values({"key_": written}) == {"key_": meant}
    assert type(read_values({"key_": written})["key_"]) is type(meant)


@pytest.mark.parametrize("key", ["labels", "annotations", "nodeSelector", "matchLabels"])
def test_text_where_only_text_can_be(key: str) -> None:
    """Labels and their like stay text, and can be taken away."""
    assert read_values({key: {"a": "1", "b": "true", "c": "null"}}) == {
        key: {"a": "1", "b": "true", "c": None}
    }


def test_words_of_commands_stay_text() -> None:
    """Words of commands and values of variables stay text, even `null`."""
    assert read_values({"args": ["1", "null"], "env": [{"name": "A", "value": "2"}]}) == {
        "args": ["1", "null"],
        "env": [{"name": "A", "value": "2"}],
    }


@pytest.mark.parametrize(
    ("override", "where"),
    [
        ({"kind": "Pod"}, "kind"),
        ({"metadata": {"name": "other"}}, "metadata.name"),
        ({"metadata": None}, "metadata.name"),
        ({"metadata": {"namespace": "other"}}, "metadata.namespace"),
        ({"metadata": {"labels": {"user": "bob"}}}, "metadata.labels.user"),
        ({"metadata": {"labels": None}}, "metadata.labels.app.kubernetes.io/managed-by"),
        (
            {"spec": {"template": {"metadata": {"labels": {"launchbay/run": "x"}}}}},
            "spec.template.metadata.labels.launchbay/run",
        ),
        (
            {"spec": {"template": {"metadata": {"annotations": {"launchbay/line": "x"}}}}},
            "spec.template.metadata.annotations.launchbay/line",
        ),
        ({"spec": {"backoffLimit": "3"}}, "spec.backoffLimit"),
        ({"spec": {"parallelism": "2"}}, "spec.parallelism"),
        ({"spec": {"suspend": "true"}}, "spec.suspend"),
        (in_pod({"restartPolicy": "OnFailure"}), "spec.template.spec.restartPolicy"),
    ],
)
def test_what_is_ours(override: object, where: str) -> None:
    """What a run is found by, and started exactly once by, cannot be changed."""
    assert refusal(override) == (
        f"`override:` changes `{where}`, which launchbay sets itself",
        "leave it out",
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"containers": [{"name": "other", "image": "x"}]},
        {"containers": {"main": None}},
        {"containers": {"main": {"command": ["sleep"]}}},
        {"containers": {"main": {"args": ["1"]}}},
    ],
)
def test_the_container_of_the_command_stays(changes: object) -> None:
    """The container of the command cannot be taken away, nor what it does."""
    said, hint = refusal(in_pod(changes))

    assert said == "`override:` takes the container of the command away, or its command"
    assert "containers: {main: {…}}" in hint


def test_same_value_is_no_change() -> None:
    """To say what is so already harms nobody."""
    assert rendered({"spec": {"backoffLimit": "0"}})["spec"]["backoffLimit"] == 0


def test_no_mapping() -> None:
    """An override is a mapping."""
    assert refusal("hostNetwork")[0] == "`override:` is no mapping"


def test_pods_for_people() -> None:
    """What is laid over a Job's pod holds for `bay dev`, and what is the Job's alone does not."""
    override = {
        "spec": {"completionMode": "Indexed", "template": {"spec": {"hostNetwork": "true"}}}
    }
    made = render_pod(job(override), FRAME, CARRIED, line="x", name="dev")

    assert made["spec"]["hostNetwork"] is True
    assert made["metadata"]["name"] == "dev"
    assert "completionMode" not in made["spec"]
