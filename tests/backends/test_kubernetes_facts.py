"""What a look round a Kubernetes says, read from its answers."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from launchbay.backends.kubernetes.calls import Kubectl
from launchbay.backends.kubernetes.facts import (
    NODES,
    RIGHTS,
    check_place,
    parse_nodes,
    parse_quantity,
    parse_reviews,
    parse_survey,
    render_reviews,
)
from launchbay.core.errors import Rejected, TargetError, Unreachable
from launchbay.core.host import Completed
from launchbay.hosts.local import LocalHost

if TYPE_CHECKING:
    from collections.abc import Mapping

KUBECTL = Kubectl(LocalHost(), "cluster", "lab")
NODE = (
    'n1\t{"nvidia.com/gpu.product":"A100","feature.node.kubernetes.io/x":"1","zone":"a"}'
    '\t{"cpu":"7900m","memory":"64Gi","ephemeral-storage":"100Gi","nvidia.com/gpu":"8",'
    '"hugepages-2Mi":"0","example.com/slot":"0","pods":"110"}'
    '\t[{"effect":"NoSchedule","key":"lab"}]\tTrue\t\n'
)


def said(text: str = "", *, error: str = "") -> Completed:
    return Completed(code=int(bool(error)), stdout=text, stderr=error)


def forbidden(resource: str) -> str:
    return (
        f"Error from server (Forbidden): {resource} is forbidden: User "
        f'"me" cannot list resource "{resource}" in API group ""\n'
    )


def listed(*objects: dict[str, Any]) -> str:
    return json.dumps({"kind": "List", "items": list(objects)})


def answers(**others: Completed | TargetError) -> dict[str, Completed | TargetError]:
    """What a cluster says that shows everything and has next to nothing."""
    version = {"clientVersion": {"gitVersion": "v1.33.0"}, "serverVersion": {"gitVersion": "v1.34"}}
    no_kueue = said(error='error: the server doesn\'t have a resource type "localqueues"\n')
    usual: dict[str, Completed | TargetError] = {
        "nodes": said(NODE),
        "objects": said(listed()),
        "queues": no_kueue,
        "version": said(json.dumps(version)),
        "namespace": said("namespace/lab\n"),
        "rights": said(allowed(dict.fromkeys(RIGHTS, True))),
    }
    return usual | others


def allowed(rights: Mapping[str, bool]) -> str:
    items = json.loads(render_reviews("lab", rights))["items"]
    pairs = zip(items, rights.values(), strict=True)
    return "".join(
        f"{json.dumps(item['spec']['resourceAttributes'])}\t{json.dumps(may)}\n"
        for item, may in pairs
    )


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("0", "0"),
        ("2", "2"),
        ("100m", "0.1"),
        ("1.5", "1.5"),
        (".5", "0.5"),
        ("5.", "5"),
        ("-1", "-1"),
        ("1n", "0.000000001"),
        ("3u", "0.000003"),
        ("16k", "16000"),
        ("16G", "16000000000"),
        ("1E", "1000000000000000000"),
        ("32Gi", "34359738368"),
        ("1.5Ki", "1536"),
        ("1Ei", "1152921504606846976"),
        ("1e3", "1000"),
        ("1E3", "1000"),
        ("12e-1", "1.2"),
    ],
)
def test_quantities_are_exact(text: str, amount: str) -> None:
    """Every way in which Kubernetes writes a quantity means exactly that number."""
    assert parse_quantity(text) == Decimal(amount)


@pytest.mark.parametrize("text", ["", "x", "1 Gi", "1gi", "1Kii", "1e", "--1", "1,5", "٣"])
def test_what_is_no_quantity(text: str) -> None:
    """What Kubernetes would not take is refused."""
    with pytest.raises(ValueError, match="is no quantity"):
        parse_quantity(text)


def test_a_node_is_what_it_can_give_out() -> None:
    """A node is told by what is allocatable of it, its GPUs' name and what keeps pods away."""
    (node,) = parse_nodes(NODE)

    assert node == {
        "name": "n1",
        "ready": True,
        "product": "A100",
        "product_label": "nvidia.com/gpu.product",
        "cpus": 7.9,
        "memory_mib": 65536,
        "disk_mib": 102400,
        "resources": {"nvidia.com/gpu": 8},
        "taints": [{"key": "lab", "value": "", "effect": "NoSchedule"}],
        "labels": {"nvidia.com/gpu.product": "A100", "zone": "a"},
    }


@pytest.mark.parametrize("end", ["False\t", "Unknown\t", "True\ttrue", "\t"])
def test_a_node_that_takes_nothing(end: str) -> None:
    """A node that is not ready, or closed by somebody, is not ready for us."""
    (node,) = parse_nodes(f"n1\t{{}}\t{{}}\t\t{end}\n")

    assert not node["ready"]


def test_the_template_has_a_field_for_each_part() -> None:
    """A line that was cut off is left out rather than misread."""
    assert NODES.count("\\t") == 5
    assert list(parse_nodes("n1\t{}\t{}\n")) == []


def test_everything_is_seen() -> None:
    """Quotas, limits, claims, classes and queues are plain data, with numbers to compare."""
    objects = listed(
        {
            "kind": "ResourceQuota",
            "metadata": {"name": "q"},
            "spec": {"hard": {"requests.cpu": "4"}},
            "status": {"hard": {"requests.cpu": "4"}, "used": {"requests.cpu": "500m"}},
        },
        {
            "kind": "LimitRange",
            "metadata": {"name": "l"},
            "spec": {"limits": [{"type": "Container", "max": {"memory": "1Ki"}}]},
        },
        {
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "c"},
            "spec": {"accessModes": ["ReadWriteMany"]},
            "status": {"phase": "Bound", "capacity": {"storage": "5Gi"}},
        },
        {"kind": "PriorityClass", "metadata": {"name": "low"}},
        {"kind": "StorageClass", "metadata": {"name": "fast"}},
    )
    queues = said(listed({"kind": "LocalQueue", "metadata": {"name": "lab"}}))
    details = parse_survey(answers(objects=said(objects), queues=queues))
    del details["nodes"]

    assert details == {
        "version": "1.34",
        "quotas": [
            {
                "name": "q",
                "hard": {"requests.cpu": 4},
                "used": {"requests.cpu": 0.5},
                "scoped": False,
            }
        ],
        "limits": [{"type": "Container", "max": {"memory": 1024}}],
        "claims": [{"name": "c", "modes": ["ReadWriteMany"], "phase": "Bound", "size": "5Gi"}],
        "queues": ["lab"],
        "classes": ["low"],
        "storage": ["fast"],
        "unknown": [],
    }
    assert json.loads(json.dumps(details)) == details


def test_what_may_not_be_seen_is_said() -> None:
    """Each part that is forbidden is None and told in words; the others are there."""
    partly = Completed(
        code=1, stdout=listed(), stderr=forbidden("persistentvolumeclaims") + forbidden("x")
    )
    details = parse_survey(
        answers(
            nodes=said(error=forbidden("nodes")),
            objects=partly,
            queues=said(error=forbidden("localqueues.kueue.x-k8s.io")),
        )
    )

    assert [key for key, value in details.items() if value is None] == ["nodes", "claims", "queues"]
    assert details["quotas"] == []
    assert details["unknown"] == [
        "nodes may not be listed here: sizes and GPU types are not checked",
        "claims may not be listed here: whether they exist is not checked",
        "local queues of Kueue may not be listed here: their names are not checked",
    ]


def test_a_part_that_did_not_answer_is_unknown() -> None:
    """One call that timed out takes nothing but its own part away."""
    details = parse_survey(
        answers(nodes=Unreachable("timed out"), version=Unreachable("timed out"))
    )

    assert (details["nodes"], details["version"], details["classes"]) == (None, "", [])


def test_no_kueue_means_no_queues() -> None:
    """A cluster without Kueue has no local queues, which is no gap in what is known."""
    details = parse_survey(answers())

    assert (details["queues"], details["unknown"]) == ([], [])


def test_rights_are_told_apart() -> None:
    """A group and a part of a resource are asked for by their names and found again by them."""
    rights = {"create jobs.batch": True, "create pods/exec": False, "list nodes": True}

    assert parse_reviews(said(allowed(rights))) == rights
    asked = json.loads(render_reviews("lab", rights))["items"]
    assert [one["spec"]["resourceAttributes"] for one in asked] == [
        {"verb": "create", "resource": "jobs", "group": "batch", "namespace": "lab"},
        {"verb": "create", "resource": "pods", "subresource": "exec", "namespace": "lab"},
        {"verb": "list", "resource": "nodes"},
    ]


def test_a_namespace_without_rights_is_rejected() -> None:
    """Where nothing that runs need is allowed, it is said at once."""
    nothing = said(allowed(dict.fromkeys(RIGHTS, False)))

    with pytest.raises(Rejected, match="you may do nothing in namespace `lab` of `cluster`"):
        check_place(KUBECTL, answers(rights=nothing))


def test_some_rights_are_enough_to_go_on() -> None:
    """A right or two that are missing are the check-up's business."""
    most = {right: right != "create pods/exec" for right in RIGHTS}
    given = answers(rights=said(allowed(most)), namespace=said(error=forbidden("namespaces")))

    assert check_place(KUBECTL, given) is None  # type: ignore[func-returns-value]


def test_a_namespace_that_is_not_there() -> None:
    """Who may look for a namespace is told that there is none of that name."""
    gone = said(error='Error from server (NotFound): namespaces "lab" not found\n')

    with pytest.raises(Rejected, match="`cluster` has no namespace `lab`"):
        check_place(KUBECTL, answers(namespace=gone))


def test_only_kubectl_answers() -> None:
    """What `kubectl` knows without a server is no answer of a cluster."""
    silent = dict.fromkeys(answers(), Unreachable("`cluster` does not answer"))
    alone = said('{"clientVersion": {}}', error="connection refused")

    with pytest.raises(Unreachable, match="does not answer"):
        check_place(KUBECTL, {**silent, "version": alone})


def test_kubectl_that_cannot_start_to_ask() -> None:
    """A context that does not exist is named as `kubectl` names it."""
    wrong = said(error='error: context "x" does not exist\n')

    with pytest.raises(Unreachable, match='as a Kubernetes: context "x" does not exist'):
        check_place(KUBECTL, dict.fromkeys(answers(), wrong))
