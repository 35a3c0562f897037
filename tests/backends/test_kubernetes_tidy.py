"""Which objects nobody needs any more."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.stubs import write_program

from launchbay.backends.kubernetes.calls import Kubectl
from launchbay.backends.kubernetes.tidy import find_leftovers, is_long_ago, remove_leftovers
from launchbay.hosts.local import LocalHost

if TYPE_CHECKING:
    from pathlib import Path

KUBECTL = Kubectl(LocalHost(), "lab", "space")
LISTED = """\
ConfigMap bay-code-old-0 2026-01-01T00:00:00Z
ConfigMap bay-code-used-0 2026-01-01T00:00:00Z
ConfigMap bay-code-again-0 2026-01-01T00:00:00Z 1770000000
ConfigMap bay-code-new-0 2026-02-01T00:00:00Z
Secret bay-env-1-0 2026-01-01T00:00:00Z
Secret bay-env-2-0 2026-01-01T00:00:00Z
Secret bay-files-2-0 2026-01-01T00:00:00Z
"""
MIDDLE = 1_768_500_000.0
STUB = """\
#!/bin/sh
echo "$*" >>"$0.asked"
case $* in
*jobs,pods*) cat "$0.jobs" ;;
*configmaps,secrets*) cat "$0.listed" ;;
esac
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kubectl that lists what the test says."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    write_program(tmp_path / "kubectl", STUB)
    (tmp_path / "kubectl.jobs").write_text(json.dumps({"items": [job()]}))
    (tmp_path / "kubectl.listed").write_text(LISTED)
    return tmp_path / "kubectl"


def job() -> dict[str, Any]:
    """A Job that needs code, variables and files."""
    code = {"projected": {"sources": [{"configMap": {"name": "bay-code-used-0"}}]}}
    files = {"projected": {"sources": [{"secret": {"name": "bay-files-2-0"}}]}}
    containers = [{"envFrom": [{"secretRef": {"name": "bay-env-2-0"}}]}]
    return {"spec": {"template": {"spec": {"volumes": [code, files], "containers": containers}}}}


def test_what_nobody_refers_to_and_nobody_used_lately(program: Path) -> None:
    """Old objects without a Job are found; what is young, used again or needed is not."""
    assert find_leftovers(KUBECTL, "user=me", before=MIDDLE) == [
        "configmap/bay-code-old-0",
        "secret/bay-env-1-0",
    ]


def test_values_of_secrets_are_not_asked_for(program: Path) -> None:
    """Of secrets only names and ages are listed."""
    find_leftovers(KUBECTL, "user=me", before=MIDDLE)
    asked = program.with_name("kubectl.asked").read_text().splitlines()

    assert "-o json " not in asked[1] + " "
    assert "user=me" in asked[1]


def test_removing_none_asks_nobody(program: Path) -> None:
    """Without leftovers there is no call."""
    remove_leftovers(KUBECTL, [])

    assert not program.with_name("kubectl.asked").exists()


def test_use_is_noted_once_a_day() -> None:
    """An object that was made or used today needs no new note."""
    made, day = "2026-01-01T00:00:00Z", 86_400
    at = 1_767_225_600.0

    assert not is_long_ago(made, "", now=at + day - 1)
    assert is_long_ago(made, "", now=at + day + 1)
    assert not is_long_ago(made, str(at + day), now=at + day + 1)


def test_what_others_need_counts(program: Path) -> None:
    """Code of the same content is one object: who needs it is asked of everybody's Jobs."""
    find_leftovers(KUBECTL, "app.kubernetes.io/managed-by=launchbay,user=me", before=MIDDLE)
    asked = program.with_name("kubectl.asked").read_text().splitlines()
    by_kind = {kind: [line for line in asked if kind in line] for kind in ("jobs", "secrets")}

    assert by_kind["jobs"]
    assert not any("user=me" in line for line in by_kind["jobs"])
    assert all("user=me" in line for line in by_kind["secrets"])
