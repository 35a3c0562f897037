"""What sbatch means when it takes no job: one sentence, and whether trying later may help."""

from __future__ import annotations

import re
from dataclasses import dataclass

from launchbay.backends.slurm.reasons import NOUNS, LimitCode, explain_limit, parse_limit


@dataclass(frozen=True)
class Refused:
    """What sbatch meant when it took no job."""

    reason: str
    transient: bool = False
    """Whether trying later may help."""
    full: bool = False
    """Whether as many jobs are there as the site allows at once."""


FULL = (
    r"slurm job queue full|resource temporarily unavailable|job submit limit"
    r"|violates accounting/qos policy|maximum (?:number of )?jobs? .*(?:reached|exceeded)"
)
BUSY: tuple[tuple[str, str], ...] = (
    (
        r"temporarily unable to accept",
        "Slurm takes no jobs at this moment; it is tried again later",
    ),
    (
        (
            r"socket timed out|zero bytes were transmitted|unable to contact slurm controller"
            r"|connection (?:refused|timed out|reset)|unexpected message received"
            r"|slurm backup controller in standby|try again later"
        ),
        "Slurm's controller did not answer; it is tried again later, and `bay doctor` looks",
    ),
    (
        r"could not establish a configuration|unable to (?:process|open|read) .*slurm\.conf",
        (
            "sbatch did not find its Slurm in this shell; type it where `sinfo` works "
            "(SLURM_CONF, a module)"
        ),
    ),
    (
        r"munge|protocol authentication|credential",
        (
            "Slurm could not tell who you are (munge, on the cluster's side); try later, "
            "or ask the site"
        ),
    ),
)
NEVER: tuple[tuple[str, str], ...] = (
    (
        r"invalid partition name|invalid partition specified|no partition specified",
        "there is no such partition; correct `partition:`, `bay doctor` lists them",
    ),
    (
        r"requested nodes not in this partition",
        "the hosts it asks for are not in its partition; correct `partition:` or the hosts",
    ),
    (
        r"partition in down state|required partition not avail|partition configuration not avail",
        "its partition takes no jobs now; choose another `partition:`",
    ),
    (
        r"invalid account|not permitted to use this account|accounts? .*not permitted",
        (
            "you may not use this account, or not in this partition; correct `account:`, "
            "`bay doctor` lists yours"
        ),
    ),
    (r"invalid qos", "you may not use this QoS; correct `qos:`, `bay doctor` lists yours"),
    (r"invalid feature", "no node has this feature; correct `constraint:`"),
    (r"reservation", "you cannot use this reservation; correct `reservation:` or leave it out"),
    (r"invalid license", "there is no such license; correct `licenses:`"),
    (
        r"invalid generic resource|\bgres\b",
        "the cluster has no such GPU; correct `gpu_type:`, `bay capacity` shows what there is",
    ),
    (
        r"memory specification|invalid --mem|memory required",
        "no node has so much memory; ask for less with `--memory`",
    ),
    (
        r"more processors requested|cpu count",
        "it asks for more CPUs than a node may give; ask for less with `--cpus`",
    ),
    (
        r"node count specification|invalid node count",
        "it asks for more nodes than it may have; ask for less with `--nodes`",
    ),
    (r"invalid node name", "there is no such host; correct the hosts that are allowed or denied"),
    (
        (
            r"invalid --time|time limit (?:is )?invalid|time limit specification required"
            r"|invalid time"
        ),
        "its time limit is missing or longer than allowed; ask for another with `--time`",
    ),
    (
        r"node configuration is not available",
        "no node has what it asks for; ask for less, `bay capacity` shows what there is",
    ),
    (
        r"invalid job array",
        "the array is larger than Slurm takes; run `bay doctor` to learn its limits anew",
    ),
    (
        r"unrecognized option|unrecognised|invalid option|mutually exclusive",
        "sbatch does not know one of its options; correct the lines under `sbatch:`",
    ),
    (r"job dependency problem", "the job it depends on is gone; leave the dependency out"),
    (
        r"access/permission denied|permission denied",
        "the site does not let you do this; ask it which partitions and accounts are yours",
    ),
    (
        r"pathname of a file, directory|no space left|disk quota",
        "the cluster has no room for its script; free some space, then try again",
    ),
)


FULL_HOUSE = Refused(
    "as many of your jobs wait or run as the site allows at once; the rest is sent as they end, "
    "and `pack:` needs fewer jobs",
    transient=True,
    full=True,
)


def explain_refusal(stderr: str) -> Refused:
    """What sbatch meant when it took no job, and whether it may do so later."""
    lines = [_bare(line) for line in stderr.splitlines() if line.strip()]
    text = "\n".join(lines)
    for line in lines:
        limit = parse_limit(line)
        if limit and limit.what == "submitjobs":
            return FULL_HOUSE
        if limit:
            return Refused(_explain_excess(limit), transient=limit.what == "jobs")
    for test in (_full, _busy, _never):
        if found := test(text):
            return found
    last = lines[-1] if lines else "nothing"
    return Refused(f"sbatch refused it: {last}")


def _explain_excess(limit: LimitCode) -> str:
    if limit.what == "jobs":
        return explain_limit(limit)
    noun, flag = NOUNS[limit.what]
    less, more = ("more", "less") if limit.kind == "min" else ("less", "more")
    fix = f"ask for {less} with `{flag}`" if flag else f"ask for {less}"
    whose = "its QoS" if limit.owner == "qos" else "your account"
    return f"it asks for {more} {noun} than the limits of {whose} allow; {fix}"


def _bare(line: str) -> str:
    line = re.sub(r"^(?:sbatch|allocation failure|error|salloc|srun): ", "", line.strip())
    line = re.sub(r"^error: ", "", line)
    return line.removeprefix("Batch job submission failed: ").strip()


def _full(text: str) -> Refused | None:
    return FULL_HOUSE if re.search(FULL, text, re.IGNORECASE) else None


def _busy(text: str) -> Refused | None:
    sentence = _match(text, BUSY)
    return Refused(sentence, transient=True) if sentence else None


def _never(text: str) -> Refused | None:
    sentence = _match(text, NEVER)
    if not sentence:
        return None
    return Refused(f"{sentence} (Slurm: {text.splitlines()[-1]})")


def _match(text: str, table: tuple[tuple[str, str], ...]) -> str:
    return next((said for pattern, said in table if re.search(pattern, text, re.IGNORECASE)), "")
