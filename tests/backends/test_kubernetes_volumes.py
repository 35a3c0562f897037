"""What a pod finds mounted: claims wherever they are wanted, each one volume."""

from __future__ import annotations

from typing import Any

import pytest

from launchbay.backends.kubernetes.manifest import (
    Carried,
    Frame,
    check_job,
    claim_of,
    claims_of,
    render_job,
)
from launchbay.backends.kubernetes.volumes import SHM_AT
from launchbay.core.errors import Unsupported
from launchbay.core.job import Argv, Folder, Job, Ship

FRAME = Frame(target="lab", namespace="space", user="ada")
OURS = {"/bay/node", "/bay/plan", "/bay/code", "/bay/root", SHM_AT}


def job(
    *folders: Folder, ship: str = "", volumes: dict[str, str] | None = None, **options: Any
) -> Job:
    return Job(
        run_id="lr-4x7ab",
        name="lr",
        experiment="sweep",
        command=Argv(("true",)),
        image="python:3.12",
        snapshot="cafe",
        folders=folders,
        ship=Ship(to=ship) if ship else None,
        options={"outputs_to": ship or "none", "volumes": volumes or {}, **options},
    )


def pod(wanted: Job) -> dict[str, Any]:
    made = render_job(wanted, FRAME, Carried(plan="p", programs="n"), line="", index=0)
    found: dict[str, Any] = made["spec"]["template"]["spec"]
    return found


def mounts(wanted: Job) -> dict[str, tuple[str, str, bool]]:
    """Claim, folder of it and whether it is read-only, by the path."""
    spec = pod(wanted)
    volumes = {one["name"]: one.get("persistentVolumeClaim") for one in spec["volumes"]}
    return {
        one["mountPath"]: (
            volumes[one["name"]]["claimName"],
            one.get("subPath", ""),
            one.get("readOnly", False),
        )
        for one in spec["containers"][0]["volumeMounts"]
        if volumes[one["name"]]
    }


def refusal(wanted: Job) -> tuple[str, str]:
    with pytest.raises(Unsupported) as caught:
        check_job(wanted, FRAME)
    return str(caught.value), str(caught.value.hint)


def test_own_places() -> None:
    """Programs, plan and code are read-only; there is room to write, and shared memory."""
    spec = pod(job())
    found = {
        one["mountPath"]: one.get("readOnly", False)
        for one in spec["containers"][0]["volumeMounts"]
    }

    assert set(found) == OURS
    assert [path for path, read_only in found.items() if not read_only] == ["/bay/root", SHM_AT]
    kinds = {one["name"]: one for one in spec["volumes"]}
    assert kinds["root"]["emptyDir"] == {}
    assert kinds["shm"]["emptyDir"] == {"medium": "Memory"}
    plan = kinds["plan"]["projected"]["sources"]
    field = {"fieldPath": "metadata.annotations['launchbay/line']"}
    assert plan == [
        {"configMap": {"name": "bay-plan-p"}},
        {"downwardAPI": {"items": [{"path": "sheet", "fieldRef": field}]}},
    ]


def test_shared_memory_has_a_size() -> None:
    """`shm` bounds what `/dev/shm` may hold."""
    volumes = {one["name"]: one for one in pod(job(shm=8192))["volumes"]}

    assert volumes["shm"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "8192Mi"}


def test_code_comes_in_parts() -> None:
    """The first part of the code must be there, the others may."""
    volumes = {one["name"]: one for one in pod(job())["volumes"]}
    sources = [one["configMap"] for one in volumes["code"]["projected"]["sources"]]

    assert [one["name"] for one in sources] == [f"bay-code-cafe-{part}" for part in range(8)]
    assert [one.get("optional", False) for one in sources] == [False] + [True] * 7


def test_code_of_the_image() -> None:
    """With `code: image` what is laid over it is mounted, and the pod is told."""
    spec = pod(job(code="image"))

    assert "code" in {one["name"] for one in spec["volumes"]}
    assert {"name": "BAY_CODE", "value": "image"} in spec["containers"][0]["env"]


def test_the_first_tools_volumes() -> None:
    """`volumes: {claim: path}` mounts claims where they are wanted."""
    wanted = job(volumes={"data": "/data", "models": "/opt/models/"})

    assert mounts(wanted) == {"/data": ("data", "", False), "/opt/models": ("models", "", False)}
    assert claims_of(wanted) == ["data", "models"]


def test_folders_of_claims() -> None:
    """A claim of folders is mounted once at a place of ours, and where `at` says, too."""
    wanted = job(
        Folder(name="data", source="claim:lab/sets/one", at="/data", read_only=True),
        Folder(name="more", source="claim:lab"),
        Folder(name="weights", source="claim:models", read_only=True),
    )

    assert mounts(wanted) == {
        "/data": ("lab", "sets/one", True),
        "/claims/lab": ("lab", "", False),
        "/claims/lab/sets/one": ("lab", "sets/one", True),
        "/claims/models": ("models", "", True),
    }


def test_one_volume_a_claim() -> None:
    """However often a claim is mounted, the pod has one volume of it."""
    wanted = job(
        Folder(name="data", source="claim:lab/a", at="/a"),
        ship="claim:lab",
        volumes={"lab": "/lab"},
    )
    claims = [one for one in pod(wanted)["volumes"] if "persistentVolumeClaim" in one]

    assert [one["persistentVolumeClaim"]["claimName"] for one in claims] == ["lab"]
    assert set(mounts(wanted)) == {"/lab", "/a", "/claims/lab"}


def test_outputs_on_a_claim() -> None:
    """With `outputs_to: claim:NAME` the run's folder is on it, and can be written to."""
    wanted = job(Folder(name="d", source="claim:out/data", read_only=True), ship="claim:out")
    env = {one["name"]: one.get("value") for one in pod(wanted)["containers"][0]["env"]}

    assert env["BAY_ROOT"] == "/claims/out/launchbay"
    assert mounts(wanted)["/claims/out"] == ("out", "", False)
    assert mounts(wanted)["/claims/out/data"] == ("out", "data", True)
    assert claim_of(wanted) == "out"
    assert claim_of(job(ship="s3://lab/out")) == ""


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (
            job(volumes={"a": "/data", "b": "/data/"}),
            "`a` and `b` are both to be mounted at `/data`",
        ),
        (
            job(Folder(name="d", source="claim:b/x", at="/data"), volumes={"b": "/data"}),
            "`b` and `d` are both to be mounted at `/data`",
        ),
        (
            job(volumes={"a": SHM_AT}),
            "`a` cannot be mounted at `/dev/shm`: `/dev/shm` is for the shared memory",
        ),
        (
            job(volumes={"a": "/bay"}),
            "`a` cannot be mounted at `/bay`: `/bay/node` is for launchbay's programs",
        ),
        (
            job(volumes={"a": "/bay/root/x"}),
            "`a` cannot be mounted at `/bay/root/x`: `/bay/root` is for the run's folder",
        ),
        (
            job(volumes={"a": "/claims"}),
            "`a` cannot be mounted at `/claims`: `/claims` is for claims",
        ),
        (
            job(volumes={"a": "/claims/b"}),
            "`a` cannot be mounted at `/claims/b`: `/claims` is for claims",
        ),
        (job(volumes={"a": "data"}), "`volumes: {a: data}` names no absolute path in the pod"),
        (job(volumes={"a": "/"}), "`volumes: {a: /}` names no absolute path in the pod"),
        (job(volumes={"a": "/a:b"}), "`volumes: {a: /a:b}` names no absolute path in the pod"),
        (
            job(Folder(name="d", source="claim:a", at="~/x")),
            "`folders: {d: {at: ~/x}}` names no absolute path in the pod",
        ),
        (job(Folder(name="d", source="claim:a/../b")), "`claim:a/../b` leads out of the claim"),
        (
            job(ship="claim:a/b"),
            "`outputs_to: claim:a/b` names a folder of the claim; runs have their own there",
        ),
        (
            job(Folder(name="d", source="claim:a", read_only=True), ship="claim:a"),
            "`claim:a` is to be read-only as `d`, and is written to as well",
        ),
    ],
)
def test_what_cannot_be_mounted(wanted: Job, message: str) -> None:
    """Paths that clash, are ours or are none are refused, with what both are."""
    said, hint = refusal(wanted)

    assert said == message
    assert hint


def test_the_same_mount_twice() -> None:
    """What is wanted twice in the very same way is mounted once."""
    wanted = job(Folder(name="data", source="claim:lab", at="/lab"), volumes={"lab": "/lab"})

    assert mounts(wanted) == {"/lab": ("lab", "", False), "/claims/lab": ("lab", "", False)}
