"""Slurm's words: what its programs print, as values, and what it means, as sentences.

Pure: text in, values out. Met: Slurm 22.05 for real, up to 25.05 by its documentation.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from launchbay.backends.slurm.reasons import explain_waiting
from launchbay.backends.slurm.refusals import Refused, explain_refusal
from launchbay.core.quantity import parse_time, render_limit
from launchbay.core.run import Cause, State

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = [
    "SACCT_FORMAT",
    "SQUEUE_FORMAT",
    "STATES",
    "Ended",
    "Listed",
    "Refused",
    "ended_status",
    "expand_nodes",
    "explain_refusal",
    "explain_waiting",
    "is_listed_alive",
    "parse_exit",
    "parse_minutes",
    "parse_moment",
    "parse_sacct",
    "parse_show_job",
    "parse_squeue",
    "parse_submitted",
    "state_of",
]

WORDS: tuple[tuple[str, str, State], ...] = (
    ("PENDING", "PD", State.QUEUED),
    ("CONFIGURING", "CF", State.QUEUED),
    ("POWER_UP_NODE", "PU", State.QUEUED),
    ("REQUEUED", "RQ", State.QUEUED),
    ("REQUEUE_HOLD", "RH", State.QUEUED),
    ("REQUEUE_FED", "RF", State.QUEUED),
    ("SPECIAL_EXIT", "SE", State.QUEUED),
    ("RESV_DEL_HOLD", "RD", State.QUEUED),
    ("LAUNCH_FAILED", "LF", State.QUEUED),
    ("RECONFIG_FAIL", "RC", State.QUEUED),
    ("RUNNING", "R", State.RUNNING),
    ("COMPLETING", "CG", State.RUNNING),
    ("SUSPENDED", "S", State.RUNNING),
    ("STOPPED", "ST", State.RUNNING),
    ("SIGNALING", "SI", State.RUNNING),
    ("STAGE_OUT", "SO", State.RUNNING),
    ("RESIZING", "RS", State.RUNNING),
    ("UPDATE_DB", "UD", State.RUNNING),
    # Another cluster of the federation has it; its own record will say how it ended.
    ("REVOKED", "RV", State.RUNNING),
    ("COMPLETED", "CD", State.SUCCEEDED),
    ("CANCELLED", "CA", State.CANCELLED),
    ("FAILED", "F", State.FAILED),
    ("TIMEOUT", "TO", State.FAILED),
    ("NODE_FAIL", "NF", State.FAILED),
    ("PREEMPTED", "PR", State.FAILED),
    ("BOOT_FAIL", "BF", State.FAILED),
    ("DEADLINE", "DL", State.FAILED),
    ("OUT_OF_MEMORY", "OOM", State.FAILED),
)
STATES: Mapping[str, State] = {
    **{long: state for long, _, state in WORDS},
    **{short: state for _, short, state in WORDS},
}
"""Slurm's states of a job, long and short."""
LONG: Mapping[str, str] = {short: long for long, short, _ in WORDS}

SQUEUE_FORMAT = "%F|%K|%T|%N|%S|%j|%l|%P|%r"
"""For `squeue -h -r --me -t all -o`; free text stands last."""
SACCT_FORMAT = "JobID,State,ExitCode,NodeList,Start,End,Timelimit,Partition,Reason"
"""For `sacct -X -n -P -o`; free text stands last."""
NOTHING = frozenset({"", "N/A", "NONE", "None", "Unknown", "(null)", "None assigned"})
MOST_TASKS = 1_000_000
"""No array of Slurm is larger; a longer range is no range."""


@dataclass(frozen=True, kw_only=True)
class Listed:
    """One job, or one task of an array, as Slurm lists it."""

    job: str
    """The array's id, or the job's own."""
    task: str = ""
    """Its index in the array; empty for a job of its own."""
    name: str = ""
    """What the job is called, where the listing says."""
    state: str
    """Slurm's word, with what follows it: `CANCELLED by 1000`."""
    reason: str = ""
    nodes: tuple[str, ...] = ()
    starts_at: str | None = None
    """When it started, or when Slurm means to start it."""
    ended_at: str | None = None
    exit_code: str = ""
    time_limit: str = ""
    partition: str = ""
    restarts: int | None = None
    """How often it was put back into the queue, where the listing says."""

    @property
    def native_id(self) -> str:
        """As Slurm's commands take it: `1234_7`."""
        return f"{self.job}_{self.task}" if self.task else self.job

    @property
    def alive(self) -> bool:
        """Whether more may become of it."""
        return is_listed_alive(self.state)


def state_of(word: str) -> State | None:
    """Our word for one of Slurm's; None for one that we do not know.

    >>> state_of("CANCELLED by 1000"), state_of("PD"), state_of("NOVEL")
    (<State.CANCELLED: 'cancelled'>, <State.QUEUED: 'queued'>, None)
    """
    return STATES.get(_first(word))


def is_listed_alive(state: str) -> bool:
    """Whether a job so listed may still run; a word that we do not know is never final."""
    known = state_of(state)
    return known is None or not known.final


def _first(word: str) -> str:
    # sacct cuts a word that is too long and marks it so.
    return word.split(maxsplit=1)[0].rstrip("+").upper() if word.strip() else ""


def parse_squeue(text: str) -> list[Listed]:
    """What `squeue -h -r -o SQUEUE_FORMAT` lists."""
    listed = []
    # The tasks of an array mostly differ in nothing but their index.
    alike: dict[str, dict[str, Any]] = {}
    for line in text.splitlines():
        job, _, rest = line.partition("|")
        task, _, rest = rest.partition("|")
        if rest not in alike:
            alike[rest] = _parse_rest(rest)
        if common := alike[rest]:
            indices = [task] if task.isdigit() else _indices(_said(task))
            listed += [Listed(job=job, task=index, **common) for index in indices]
    return listed


def _parse_rest(rest: str) -> dict[str, Any]:
    """All but job and task of a line of squeue; nothing where it is no such line."""
    fields = rest.split("|", 6)
    if len(fields) < len(SQUEUE_FORMAT.split("|")) - 2:
        return {}
    state, nodes, starts_at, name, limit, partition, reason = fields
    return {
        "name": name,
        "state": state,
        "reason": _said(reason),
        "nodes": expand_nodes(nodes),
        "starts_at": _said(starts_at) or None,
        "time_limit": limit,
        "partition": partition,
    }


def parse_sacct(text: str) -> list[Listed]:
    """What `sacct -X -n -P -o SACCT_FORMAT` lists."""
    listed = []
    for line in text.splitlines():
        fields = line.split("|", 8)
        if len(fields) < len(SACCT_FORMAT.split(",")):
            continue
        native, state, code, nodes, starts_at, ended_at, limit, partition, reason = fields
        job, _, task = native.partition("_")
        listed += [
            Listed(
                job=job,
                task=index,
                state=state,
                reason=_said(reason),
                nodes=expand_nodes(nodes),
                starts_at=_said(starts_at) or None,
                ended_at=_said(ended_at) or None,
                exit_code=code,
                time_limit=limit,
                partition=partition,
            )
            for index in _indices(task)
        ]
    return listed


def parse_show_job(text: str) -> list[Listed]:
    """What `scontrol show job -o` lists, for sites without accounting."""
    listed = []
    for line in text.splitlines():
        if not line.startswith("JobId="):
            continue
        fields = dict(re.findall(r"(?:^|\s)([A-Za-z]+)=(\S*)", line))
        listed += [
            Listed(
                job=fields.get("ArrayJobId") or fields["JobId"],
                task=index,
                name=fields.get("JobName", ""),
                state=fields.get("JobState", ""),
                reason=_said(fields.get("Reason", "")),
                nodes=expand_nodes(fields.get("NodeList", "")),
                starts_at=_said(fields.get("StartTime", "")) or None,
                ended_at=_said(fields.get("EndTime", "")) or None,
                exit_code=fields.get("ExitCode", ""),
                time_limit=fields.get("TimeLimit", ""),
                partition=fields.get("Partition", ""),
                restarts=int(fields.get("Restarts") or 0),
            )
            for index in _indices(fields.get("ArrayTaskId", ""))
        ]
    return listed


def _said(text: str) -> str:
    return "" if text.strip() in NOTHING else text.strip()


def _indices(text: str) -> list[str]:
    """Each index of `7`, `[5-9%3]`, `1,4-6` or `0-8:4`; none is a job of its own."""
    if not text:
        return [""]
    plain = text.strip("[]").partition("%")[0]
    indices: list[str] = []
    for piece in plain.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", piece)
        if match:
            first, last = int(match[1]), int(match[2] or match[1])
            if last - first < MOST_TASKS:
                indices += map(str, range(first, last + 1, int(match[3] or 1)))
    return indices


def expand_nodes(text: str) -> tuple[str, ...]:
    """The names in a list of nodes.

    >>> expand_nodes("n[1-3,07],login")
    ('n1', 'n2', 'n3', 'n07', 'login')
    """
    if not _said(text):
        return ()
    pieces = re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text.strip())
    return tuple(name for piece in pieces for name in _expand(piece))


def _expand(piece: str) -> Iterator[str]:
    match = re.fullmatch(r"([^\[]*)\[([^\]]*)\](.*)", piece)
    if not match:
        yield piece
        return
    for part in match[2].split(","):
        first, _, last = part.partition("-")
        numbers = range(int(first), int(last or first) + 1) if first.isdigit() else ()
        for number in numbers:
            for rest in _expand(match[3]):
                yield f"{match[1]}{number:0{len(first)}d}{rest}"


def parse_minutes(text: str) -> int | None:
    """A time limit of Slurm's in minutes, rounded up; None for unlimited or unset.

    >>> parse_minutes("2-00:00:00"), parse_minutes("1:30"), parse_minutes("UNLIMITED")
    (2880, 2, None)
    """
    try:
        return -int(-parse_time(text).total_seconds() // 60)
    except ValueError:
        return None


def parse_moment(text: str | None) -> float | None:
    """A time that Slurm printed under `SLURM_TIME_FORMAT=%s`; None for any other.

    Its usual way names no time zone.
    """
    return float(text) if text and text.isascii() and text.isdigit() else None


def parse_exit(text: str) -> tuple[int | None, int]:
    """The exit code and the signal of `3:0`; no code where a signal ended it.

    >>> parse_exit("3:0"), parse_exit("0:9"), parse_exit("")
    ((3, 0), (None, 9), (None, 0))
    """
    match = re.fullmatch(r"(\d+):(\d+)", text.strip())
    if not match:
        return None, 0
    number = int(match[2])
    return (None if number else int(match[1])), number


class Ended(NamedTuple):
    """How a job ended, in our words."""

    state: State
    cause: Cause | None
    reason: str


LAUNCH_FAILED = 53
"""What Slurm gives as the signal of a job whose folder or log file it could not open."""


def ended_status(
    word: str,
    exit_code: str = "",
    *,
    reason: str = "",
    time_limit: str = "",
    users: Mapping[str, str] | None = None,
) -> Ended:
    """How a job ended that Slurm no longer lists as alive.

    Args:
        word: Slurm's state: `CANCELLED by 1000`.
        exit_code: code and signal: `0:9`.
        reason: Slurm's reason, where it gave one.
        time_limit: as Slurm prints it: `08:00:00`.
        users: names by user id, as far as they are known.
    """
    first = LONG.get(_first(word), _first(word))
    if is_listed_alive(first):
        known = state_of(first)
        return Ended(known or State.RUNNING, None, "" if known else f"Slurm says `{word.strip()}`")
    if first == "COMPLETED":
        return Ended(State.SUCCEEDED, None, "")
    if first == "CANCELLED":
        return Ended(State.CANCELLED, Cause.CANCELLED_ELSEWHERE, _cancelled(word, users or {}))
    if first == "FAILED":
        return _failed(exit_code, reason)
    cause, sentence = ENDINGS[first]
    return Ended(State.FAILED, cause, sentence.format(limit=_of_limit(time_limit)))


ENDINGS: Mapping[str, tuple[Cause, str]] = {
    "TIMEOUT": (
        Cause.TIMEOUT,
        (
            "its time limit{limit} was over; ask for more with `--time`, or `resume: true` goes on "
            "in a further attempt"
        ),
    ),
    "DEADLINE": (
        Cause.TIMEOUT,
        "it could not end before its deadline; ask for less `--time`, or for no deadline",
    ),
    "OUT_OF_MEMORY": (
        Cause.OOM,
        "it needed more memory than it had asked for; ask for more with `--memory`",
    ),
    "NODE_FAIL": (
        Cause.NODE,
        "a node that it ran on failed; `bay rerun` starts it again, `retries:` does so by itself",
    ),
    "BOOT_FAIL": (
        Cause.NODE,
        "its node could not be booted; `bay rerun` starts it again, `retries:` does so by itself",
    ),
    "PREEMPTED": (
        Cause.PREEMPTED,
        (
            "it had to make way for a job of higher priority; `bay rerun` starts it again, "
            "`retries:` or `resume: true` do so by themselves"
        ),
    ),
}


def _of_limit(time_limit: str) -> str:
    try:
        return f" of {render_limit(parse_time(time_limit))}"
    except ValueError:
        return ""


def _cancelled(word: str, users: Mapping[str, str]) -> str:
    match = re.search(r"\bby (\S+)", word)
    again = "`bay rerun` starts it again"
    if not match:
        return f"cancelled on the cluster; {again}"
    if match[1] in {"0", "root"}:
        return f"cancelled by an administrator on the cluster; {again}, or ask the site why"
    who = users.get(match[1]) or (f"user {match[1]}" if match[1].isdigit() else match[1])
    return f"cancelled by {who} on the cluster; {again}"


def _failed(exit_code: str, reason: str) -> Ended:
    code, number = parse_exit(exit_code)
    if number == LAUNCH_FAILED:
        return Ended(
            State.FAILED,
            Cause.SETUP,
            "Slurm could not start it on its node, where its folder is missing or cannot be "
            "written; `bay doctor` checks the target's `root:`",
        )
    if reason in {"BadConstraints", "PartitionConfig", "InvalidAccount", "InvalidQOS"}:
        return Ended(State.FAILED, Cause.REFUSED, explain_waiting(reason))
    if number == signal.SIGKILL:
        sentence = "killed by signal 9, often for want of memory; ask for more with `--memory`"
        return Ended(State.FAILED, Cause.EXIT, sentence)
    if number:
        return Ended(
            State.FAILED, Cause.EXIT, f"killed by signal {number}; `bay logs` shows its last lines"
        )
    what = f"exit code {code}" if code is not None else "it failed"
    return Ended(State.FAILED, Cause.EXIT, f"{what}; `bay logs` shows why")


def parse_submitted(text: str) -> str:
    r"""The job's id in what `sbatch --parsable` printed; empty when there is none.

    >>> parse_submitted("a word of the site\n1234;cluster\n")
    '1234'
    """
    found = re.findall(r"^(\d+)(?:;\S+)?\s*$", text, re.MULTILINE)
    return str(found[-1]) if found else ""
