"""Why programs fail, told from what they printed last.

A person's own rules stand in `failures.yaml` beside the configuration, and come first:

```yaml
- {pattern: "NCCL (error|timeout)", cause: node, reason: "the GPUs could not talk to each other"}
```
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from launchbay.config.paths import user_config_path
from launchbay.core.errors import ConfigError
from launchbay.core.run import Cause, State
from launchbay.engine.logs import read_end

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from launchbay.core.run import Run
    from launchbay.engine.lab import Lab

FILE = "failures.yaml"
MOST = 100
"""Logs that one look reads: over SSH each is a call."""


@dataclass(frozen=True)
class Rule:
    """What a pattern in the log means."""

    pattern: re.Pattern[str]
    cause: Cause
    reason: str


RULES = (
    Rule(
        re.compile(r"CUDA out of memory|CUDA_ERROR_OUT_OF_MEMORY|HIP out of memory"),
        Cause.OOM,
        "the GPU had too little memory; a smaller batch, or a larger GPU with `--gpu-type`",
    ),
    Rule(
        re.compile(r"^MemoryError|std::bad_alloc|Cannot allocate memory", re.MULTILINE),
        Cause.OOM,
        "it had too little memory; ask for more with `--memory`",
    ),
    Rule(
        re.compile(r"No space left on device|Disk quota exceeded"),
        Cause.EXIT,
        "the disk was full, or its quota used up; `bay clean` and `bay rm` make room",
    ),
    Rule(
        re.compile(r"uncorrectable ECC error|CUDA error: (an illegal|unspecified launch)"),
        Cause.NODE,
        "a GPU failed; `retries: {node: 1}` tries elsewhere",
    ),
)


def classify(lab: Lab, runs: Sequence[Run]) -> list[Run]:
    """The runs that failed with an exit code whose log tells more, with what it tells."""
    failed = [run for run in runs if run.state is State.FAILED and run.status.cause is Cause.EXIT]
    return [told for run in failed[:MOST] if (told := _told(lab, run)) is not run]


def _told(lab: Lab, run: Run) -> Run:
    log = read_end(lab, run)
    for rule in read_rules():
        if run.status.reason.startswith(rule.reason):
            # Another bay has read it already.
            return run
        if rule.pattern.search(log):
            reason = f"{rule.reason} ({run.status.reason})"
            return replace(run, status=replace(run.status, cause=rule.cause, reason=reason))
    return run


@cache
def read_rules() -> tuple[Rule, ...]:
    """Our rules, and before them a person's own.

    Raises:
        ConfigError: when that file says something that cannot be.
    """
    path = user_config_path().with_name(FILE)
    if not path.is_file():
        return RULES
    import yaml  # noqa: PLC0415 (dear, and few have the file)

    try:
        written = yaml.safe_load(path.read_text(encoding="utf-8")) or []
        return (*_read(written), *RULES)
    except (yaml.YAMLError, re.error, KeyError, TypeError, ValueError) as err:
        raise ConfigError(
            f"{path}: {str(err).splitlines()[0]}",
            hint="write a list of `{pattern: …, cause: oom, reason: …}`",
        ) from err


def _read(written: object) -> Iterator[Rule]:
    if not isinstance(written, list):
        raise TypeError("no list")
    for entry in written:
        cause = Cause(entry.get("cause", Cause.EXIT))
        yield Rule(re.compile(entry["pattern"], re.MULTILINE), cause, str(entry["reason"]))
