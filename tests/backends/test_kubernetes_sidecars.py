"""Containers beside a run's own, by value."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from launchbay.backends.kubernetes.manifest import Carried, Frame, check_job, render_job
from launchbay.backends.kubernetes.sidecars import SERVE, verbatim
from launchbay.core.errors import Unsupported
from launchbay.core.job import Argv, Job

FRAME = Frame(target="lab", namespace="space", user="ada")


def job(server: object, **options: Any) -> Job:
    return Job(
        run_id="lr-4x7ab",
        name="lr",
        experiment="sweep",
        command=Argv(("true",)),
        image="python:3.12",
        options={"outputs_to": "none", "server": server, **options},
    )


def pod(server: object, frame: Frame = FRAME, secret: str = "") -> dict[str, Any]:
    holds = Carried(plan="p", programs="n", env_secret=secret)
    made = render_job(job(server), frame, holds, line="", index=0)
    found: dict[str, Any] = made["spec"]["template"]["spec"]
    return found


def refusal(wanted: Job, frame: Frame = FRAME) -> tuple[str, str]:
    with pytest.raises(Unsupported) as caught:
        check_job(wanted, frame)
    return str(caught.value), str(caught.value.hint)


def test_server() -> None:
    """A server is an init container that restarts, so that it ends with the run."""
    (made,) = pod({"My_Server": {"command": "serve $PORT", "port": "8000"}})["initContainers"]

    assert made == {
        "name": "my-server",
        "image": "python:3.12",
        "restartPolicy": "Always",
        "command": ["/bin/sh", "-c", SERVE, "sh", "serve $PORT"],
        "ports": [{"containerPort": 8000}],
        "resources": {
            "requests": {"cpu": "1", "memory": "1024Mi"},
            "limits": {"cpu": "1200m", "memory": "1229Mi"},
        },
    }


def test_no_server() -> None:
    """Without servers there are no further containers."""
    assert "initContainers" not in pod({})


def test_servers_own_things() -> None:
    """A server may have its image, variables, amounts in either spelling, and secrets."""
    entry = {
        "image": "redis:7",
        "env": {"MODE": "a$(b)", "PLAIN": "$HOME", "EMPTY": None},
        "cpu_count": "2",
        "memory": "2",
        "ephermal_storage": "1",
        "gpu_count": "1",
        "extra": {"example.com/tpu": "4"},
    }
    (made,) = pod({"redis": entry}, FRAME, "e")["initContainers"]

    assert "command" not in made
    assert made["image"] == "redis:7"
    assert made["env"] == [
        {"name": "MODE", "value": "a$$(b)"},
        {"name": "PLAIN", "value": "$HOME"},
        {"name": "EMPTY", "value": ""},
    ]
    assert made["envFrom"] == [{"secretRef": {"name": "e"}}]
    assert made["resources"]["requests"] == {
        "cpu": "2",
        "memory": "2048Mi",
        "ephemeral-storage": "1024Mi",
        "nvidia.com/gpu": "1",
        "example.com/tpu": "4",
    }


def test_servers_of_the_first_tools_files() -> None:
    """Servers of its files get what they got there."""
    frame = Frame(target="kube", namespace="space", user="ada")
    (made,) = pod({"redis": {"command": "serve", "disk": "0"}}, frame)["initContainers"]

    assert made["resources"]["requests"] == {"cpu": "5", "memory": "32768Mi"}


def test_shared_folders() -> None:
    """A folder of a server is in the run's container at the same path, one volume for all."""
    spec = pod(
        {
            "a": {"command": "a", "volumes": {"Sockets": "/run/a"}},
            "b": {"command": "b", "volumes": {"Sockets": "/run/a", "more": "/more"}},
        }
    )
    shared = [one for one in spec["volumes"] if one["name"].startswith("shared-")]
    paths = [
        {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
        for container in (*spec["initContainers"], *spec["containers"])
    ]

    assert shared == [
        {"name": "shared-sockets", "emptyDir": {}},
        {"name": "shared-more", "emptyDir": {}},
    ]
    assert paths[0] == {"/run/a": "shared-sockets"}
    assert paths[1] == {"/run/a": "shared-sockets", "/more": "shared-more"}
    assert paths[2].items() >= paths[1].items()


@pytest.mark.parametrize(
    ("server", "message"),
    [
        ("redis", "`server:` is no mapping of names"),
        ({"redis": "serve"}, "`server: {redis: …}` is no mapping"),
        ({"redis": {"port": "1"}}, "`server: {redis: …}` says neither a command nor an image"),
        ({"main": {"command": "a"}}, "`server: {main: …}` is no name for a container"),
        ({"--": {"command": "a"}}, "`server: {--: …}` is no name for a container"),
        (
            {"a_b": {"command": "a"}, "a-b": {"command": "a"}},
            "two entries of `server:` are both called `a-b` there",
        ),
        ({"a": {"comand": "a"}}, "`server: {a: …}` has no key `comand`"),
        ({"a": {"command": "a", "port": "high"}}, "`server: {a: {port: high}}` is no port"),
        ({"a": {"command": "a", "port": "70000"}}, "`server: {a: {port: 70000}}` is no port"),
        ({"a": {"command": "a", "memory": "lots"}}, "`server: {a: {memory: lots}}` is no amount"),
        ({"a": {"command": "a", "gpus": "0.5"}}, "`server: {a: {gpus: 0.5}}` is no amount"),
        ({"a": {"command": "a", "cpus": "-1"}}, "`server: {a: {cpus: -1}}` is no amount"),
        ({"a": {"command": "a", "env": "A=1"}}, "`server: {a: {env: …}}` is no mapping"),
        (
            {"a": {"command": "a", "volumes": {"v": "run"}}},
            "`server: {a: {volumes: {v: run}}}` names no absolute path in the pod",
        ),
        (
            {"a": {"command": "a", "volumes": {"v": "/bay/node"}}},
            "`v` cannot be mounted at `/bay/node`: `/bay/node` is for launchbay's programs",
        ),
    ],
)
def test_servers_that_cannot_be(server: object, message: str) -> None:
    """What is wrong with a server is told before anything is sent."""
    said, hint = refusal(job(server))

    assert said == message
    assert hint


def test_nearest_key() -> None:
    """A misspelt key is answered with the one that was meant."""
    assert refusal(job({"a": {"comand": "x"}}))[1].startswith("did you mean `command`?")


@pytest.mark.parametrize(("version", "good"), [("1.28.4", False), ("1.29.0", True), ("", True)])
def test_old_clusters(version: str, good: bool) -> None:  # noqa: FBT001
    """A cluster that would let a server keep a finished run alive gets none."""
    frame = Frame(target="lab", namespace="space", user="ada", details={"version": version})
    wanted = job({"a": {"command": "serve"}})
    if good:
        check_job(wanted, frame)
    else:
        assert refusal(wanted, frame)[0] == (
            "`server:` needs Kubernetes 1.29, and this one is 1.28"
        )


@pytest.mark.parametrize(
    "text", ["$HOME", "$(date)", "$$", "a$", "$$(x) $(y) $z", "$$$(x)", "no dollar", "$"]
)
def test_verbatim(text: str) -> None:
    """Kubernetes, which fills in `$(NAME)` and halves `$$`, hands on what was written."""

    def expanded(given: str) -> str:
        found, at = "", 0
        while at < len(given):
            if given.startswith("$$", at):
                found, at = found + "$", at + 2
            else:
                assert not given.startswith("$(", at)
                found, at = found + given[at], at + 1
        return found

    assert expanded(verbatim(text)) == text


def test_server_ends_when_told() -> None:
    """What starts a server ends at once when it is told to, though the server is a child of it."""
    argv = ["/bin/sh", "-c", SERVE, "sh", "echo up; exec sleep 600"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.terminate()
        assert process.wait(60) == 0
        process.stdout.close()


def test_server_that_fails() -> None:
    """The exit code of a server is its container's, which starts again."""
    done = subprocess.run(["/bin/sh", "-c", SERVE, "sh", "exit 7"], check=False)

    assert done.returncode == 7
