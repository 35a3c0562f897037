"""The names that our objects have on a Kubernetes, and where a pod finds what it needs."""

from __future__ import annotations

import re

from launchbay.core.naming import slug

MANAGED = "app.kubernetes.io/managed-by"
OURS = "launchbay"
USER = "user"
PROJECT = "project"
EXPERIMENT = "launchbay/experiment"
RUN = "launchbay/run"
ATTEMPT = "launchbay/attempt"
PLAN = "launchbay/plan"
TARGET = "launchbay/target"
ROLE = "launchbay/role"
"""What an object is that is no run's: `code`, `node`, `plan`, `secret`, `dev`, `pod`, `helper`."""
DEV = "dev"
"""A pod that goes when whoever works in it leaves."""
LASTING = "pod"
"""A pod that stays until somebody deletes it."""
QUEUE = "kueue.x-k8s.io/queue-name"

PARAMS = "launchbay/params"
METRICS = "launchbay/metrics"
"""The patterns that read metrics from the log, as JSON."""
LINE = "launchbay/line"
"""The run's line of the plan's sheet, which the pod reads as a file."""
CANCELLED = "launchbay/cancelled"
"""Set on a Job that somebody asked us to end."""
CAP = "launchbay/parallel"
"""At most so many of its experiment at once; its Job waits suspended until it is its turn."""
TARGET_CAP = "launchbay/target-parallel"
INDEX = "launchbay/index"
"""Its place among those that wait for their turn."""
CLAIM = "launchbay/claim"
"""The volume claim that the run's folder is on."""

USED = "launchbay/used"
"""When an object that several launches share was last wanted."""

MAIN = "main"
"""The container of the command."""
PROGRAMS_AT = "/bay/node"
PLAN_AT = "/bay/plan"
CODE_AT = "/bay/code"
ROOT_AT = "/bay/root"
"""The root of a run that has no claim, on a volume that ends with its pod."""
CLAIMS_AT = "/claims"
ON_CLAIM = "launchbay"
"""The folder of a claim that is the root of runs there."""
CODE_PARTS = 8
LONGEST_VALUE = 63
NO_LABEL = re.compile(r"[^A-Za-z0-9_.-]+")


def label(text: str) -> str:
    """The text as the value of a label: at most 63 letters, digits, `-`, `_` and `.`.

    >>> label("me@box"), label("-a b-"), label("")
    ('me-box', 'a-b', '')
    """
    return NO_LABEL.sub("-", text).strip("-_.")[:LONGEST_VALUE].rstrip("-_.")


def job_name(run_id: str, attempt: int) -> str:
    """The Job of an attempt, which is its claim: of one name there is only one."""
    return run_id if attempt == 1 else f"{run_id}-{attempt}"


def code_name(snapshot: str, part: int) -> str:
    """The ConfigMap that holds a part of frozen code."""
    return f"bay-code-{slug(snapshot)}-{part}"


def root_of(claim: str) -> str:
    """Where in a pod the folders of runs are."""
    return f"{CLAIMS_AT}/{claim}/{ON_CLAIM}" if claim else ROOT_AT
