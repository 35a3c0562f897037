"""Slurm's words: what its programs print, read as values and told as sentences."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from launchbay.backends.slurm.words import (
    STATES,
    Listed,
    Refused,
    ended_status,
    expand_nodes,
    explain_refusal,
    explain_waiting,
    is_listed_alive,
    parse_moment,
    parse_sacct,
    parse_show_job,
    parse_squeue,
    parse_submitted,
    state_of,
)
from launchbay.core.run import Cause, State

DATA = Path(__file__).parent.parent / "data" / "slurm"
SQUEUE = (DATA / "squeue-22.05.txt").read_text()
SACCT = (DATA / "sacct-22.05.txt").read_text()
SHOW_JOB = (DATA / "show-job-22.05.txt").read_text()

SINGLE_CODES = """
    None Priority Dependency Resources PartitionNodeLimit PartNodeLimit PartitionTimeLimit
    PartTimeLimit PartitionDown PartitionInactive JobHeldAdmin JobHeldUser BeginTime Licenses
    AssociationJobLimit AssociationResourceLimit AssociationTimeLimit Reservation ReqNodeNotAvail
    NodeDown FrontEndDown BadConstraints SystemFailure JobLaunchFailure NonZeroExitCode
    RaisedSignal TimeLimit InactiveLimit InvalidAccount InvalidQOS QOSUsageThreshold QOSJobLimit
    QOSResourceLimit QOSTimeLimit Cleaning Prolog QOSNotAllowed AccountNotAllowed
    DependencyNeverSatisfied JobHoldMaxRequeue MaxRequeue JobArrayTaskLimit BurstBufferResources
    BurstBufferStageIn BurstBufferOperation PowerNotAvail PowerReserved DeadLine PartitionConfig
    AccountingPolicy FedJobLock OutOfMemory MaxMemPerLimit ReservationDeleted ReservationInvalid
    Constraints SchedDefer MaxPoweredUpNodes MpiPortsBusy
"""
LIMITED = ("BB", "Billing", "Cpu", "CPU", "Energy", "GRES", "License", "Mem", "Memory", "Node")
TREES = (*LIMITED, "Unknown")
LIMIT_CODES = [
    *(f"{who}Grp{what}{end}" for who in ("QOS", "Assoc") for what in TREES
      for end in ("", "Limit", "Minutes", "RunMinutes", "MinutesLimit", "RunMinutesLimit")),
    *(f"{who}Max{what}{end}" for who in ("QOS", "Assoc") for what in TREES
      for end in ("PerJob", "PerJobLimit", "PerNode", "MinutesPerJob", "MinutesPerJobLimit")),
    *(f"QOSMax{what}PerUser{end}" for what in TREES for end in ("", "Limit")),
    *(f"QOSMin{what}" for what in TREES),
    *(f"Max{what}{minutes}Per{who}" for what in TREES for minutes in ("", "RunMins")
      for who in ("Account", "User")),
    *(f"{who}{what}" for who in ("QOS", "Assoc") for what in (
        "GrpJobsLimit", "GrpSubmitJobsLimit", "GrpWallLimit", "MaxWallDurationPerJobLimit")),
    "QOSMinCpuNotSatisfied", "QOSMaxJobsPerUserLimit", "QOSMaxSubmitJobPerUserLimit",
    "AssocMaxJobsLimit", "AssocMaxSubmitJobLimit", "MaxJobsPerAccount", "MaxSubmitJobsPerAccount",
]  # fmt: skip
TEXTS = (
    "ReqNodeNotAvail, UnavailableNodes:n3",
    "ReqNodeNotAvail,_UnavailableNodes:n[3-7]",
    "ReqNodeNotAvail, May be reserved for other job",
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
    "launch failed requeued held",
    "job_requeued_in_held_state",
    "user env retrieval failed requeued held",
    "Job's account not permitted to use this partition (gpu allows lab not guests)",
    "Job's QOS not permitted to use this partition (gpu allows long not normal)",
    "burst_buffer/lua: slurm_bb_setup: no room",
)
NEXT_STEP = re.compile(
    r"by itself|ask for|ask the site|cancel it|choose another|`bay |`scontrol release`|correct"
)


def listed(entries: list[Listed], native_id: str) -> Listed:
    return next(entry for entry in entries if entry.native_id == native_id)


@pytest.mark.parametrize("code", [*SINGLE_CODES.split(), *LIMIT_CODES, *TEXTS])
def test_every_reason_is_a_sentence_with_a_next_step(code: str) -> None:
    """A reason code of Slurm becomes words for people, with something to do or to wait for."""
    sentence = explain_waiting(code, partition="gpu", target="brc")
    assert "Slurm says" not in sentence
    assert not re.search(r"_|\{|[a-z][A-Z]", sentence.replace("QoS", "qos")), sentence
    assert NEXT_STEP.search(sentence), sentence


@pytest.mark.parametrize(
    ("reason", "sentence"),
    [
        (
            "Priority",
            (
                "jobs with a higher priority are first; it will start by itself, sooner with less "
                "`--time` or fewer resources"
            ),
        ),
        (
            "(Resources)",
            (
                "it is next in line and what it asks for is not free yet; it will start by itself, "
                "and `bay capacity brc` shows what is free"
            ),
        ),
        (
            "ReqNodeNotAvail, UnavailableNodes:n3",
            (
                "nodes that it needs (n3) are down, drained or reserved, perhaps for maintenance; "
                "it will start by itself when they are back, or sooner with less `--time`"
            ),
        ),
        (
            "QOSMaxGRESPerUser",
            (
                "your jobs under this QoS use as many GPUs as they may at once; it will start by "
                "itself when one of them ends"
            ),
        ),
        (
            "AssocGrpMemLimit",
            (
                "the jobs of your account use as much memory as they may at once; it will start by "
                "itself when one of them ends"
            ),
        ),
        (
            "MaxGRESPerAccount",
            (
                "the jobs of your account under this QoS use as many GPUs as they may at once; it "
                "will start by itself when one of them ends"
            ),
        ),
        (
            "QOSGrpNodeLimit",
            (
                "the jobs of this QoS use as many nodes as they may at once; it will start by "
                "itself when one of them ends"
            ),
        ),
        (
            "AssocMaxJobsLimit",
            (
                "as many of your jobs in this account run as may at once; it will start by itself "
                "when one of them ends"
            ),
        ),
        (
            "QOSMaxSubmitJobPerUserLimit",
            (
                "as many of your jobs under this QoS wait or run as may at once; it will start by "
                "itself when one of them ends"
            ),
        ),
        (
            "AssocGrpCPUMinutesLimit",
            (
                "the CPU time that your account was given is used up, or too little is left for "
                "it; ask the site for more, or choose another `account:`"
            ),
        ),
        (
            "AssocGrpCPURunMinutesLimit",
            (
                "the jobs of your account that run have claimed as much CPU time ahead as they "
                "may; it will start by itself as they go on, sooner with less `--time`"
            ),
        ),
        (
            "QOSMaxCpuPerJobLimit",
            (
                "it asks for more CPUs than its QoS lets one job have, so it will not start; "
                "cancel it and ask for less with `--cpus`"
            ),
        ),
        (
            "AssocMaxCpuMinutesPerJobLimit",
            (
                "it asks for more CPU time than your account lets one job have, so it will not "
                "start; cancel it and ask for less with `--cpus` or `--time`"
            ),
        ),
        (
            "QOSMaxMemoryPerNode",
            (
                "it asks for more memory than its QoS lets a job have on one node, so it will not "
                "start; cancel it and ask for less with `--memory`"
            ),
        ),
        (
            "QOSMaxWallDurationPerJobLimit",
            (
                "it asks for more time than its QoS lets one job have, so it will not start; "
                "cancel it and ask for less with `--time`"
            ),
        ),
        (
            "QOSMinGRES",
            (
                "it asks for fewer GPUs than its QoS wants of a job, so it will not start; ask for "
                "more with `--gpus`, or choose another `qos:`"
            ),
        ),
        ("SomethingNovel", "Slurm says `SomethingNovel`"),
        ("a_word|of the site", "Slurm says `a_word|of the site`"),
    ],
)
def test_reasons_word_by_word(reason: str, sentence: str) -> None:
    """What it waits for comes first, then what a person can do; what is unknown stays as it is."""
    assert explain_waiting(reason, target="brc") == sentence


def test_a_reason_names_the_partition_and_its_limit() -> None:
    """Where facts know the limit of the partition, the sentence has the number."""
    details = {"partitions": [{"name": "gpu", "max_minutes": 120}]}
    assert explain_waiting("PartitionTimeLimit", facts=details, partition="gpu") == (
        "its time limit is longer than partition `gpu` allows (at most 2h), so it will not start; "
        "cancel it and ask for less with `--time`"
    )


@pytest.mark.parametrize(
    ("words", "state"),
    [
        ("PENDING PD CONFIGURING CF REQUEUED RQ REQUEUE_HOLD RH REQUEUE_FED RF", State.QUEUED),
        ("SPECIAL_EXIT SE RESV_DEL_HOLD RD", State.QUEUED),
        ("RUNNING R COMPLETING CG SUSPENDED S STOPPED ST SIGNALING SI", State.RUNNING),
        ("STAGE_OUT SO RESIZING RS REVOKED RV", State.RUNNING),
        ("COMPLETED CD", State.SUCCEEDED),
        ("CANCELLED CA", State.CANCELLED),
        ("FAILED F TIMEOUT TO NODE_FAIL NF PREEMPTED PR BOOT_FAIL BF", State.FAILED),
        ("DEADLINE DL OUT_OF_MEMORY OOM", State.FAILED),
    ],
)
def test_every_state_has_our_word(words: str, state: State) -> None:
    """Long and short names of Slurm's states mean one of ours, and only ended ones are final."""
    for word in words.split():
        assert STATES[word] is state
        assert is_listed_alive(word) is not state.final


def test_an_unknown_state_is_never_final() -> None:
    """A word that we do not know may still become anything."""
    assert state_of("EXPEDITING") is None
    assert is_listed_alive("EXPEDITING")
    assert is_listed_alive("")
    assert ended_status("EXPEDITING") == (State.RUNNING, None, "Slurm says `EXPEDITING`")


@pytest.mark.parametrize(
    ("word", "code", "state", "cause", "sentence"),
    [
        ("COMPLETED", "0:0", State.SUCCEEDED, None, ""),
        ("REQUEUED", "0:0", State.QUEUED, None, ""),
        (
            "CANCELLED by 1000",
            "0:15",
            State.CANCELLED,
            Cause.CANCELLED_ELSEWHERE,
            "cancelled by ada on the cluster; `bay rerun` starts it again",
        ),
        (
            "CANCELLED by 1007",
            "0:0",
            State.CANCELLED,
            Cause.CANCELLED_ELSEWHERE,
            "cancelled by user 1007 on the cluster; `bay rerun` starts it again",
        ),
        (
            "CANCELLED by 0",
            "0:0",
            State.CANCELLED,
            Cause.CANCELLED_ELSEWHERE,
            (
                "cancelled by an administrator on the cluster; `bay rerun` starts it again, or ask "
                "the site why"
            ),
        ),
        (
            "CANCELLED+",
            "",
            State.CANCELLED,
            Cause.CANCELLED_ELSEWHERE,
            "cancelled on the cluster; `bay rerun` starts it again",
        ),
        (
            "TO",
            "0:0",
            State.FAILED,
            Cause.TIMEOUT,
            (
                "its time limit of 8h was over; ask for more with `--time`, or `resume: true` goes "
                "on in a further attempt"
            ),
        ),
        (
            "OUT_OF_MEMORY",
            "0:125",
            State.FAILED,
            Cause.OOM,
            "it needed more memory than it had asked for; ask for more with `--memory`",
        ),
        (
            "NODE_FAIL",
            "0:0",
            State.FAILED,
            Cause.NODE,
            (
                "a node that it ran on failed; `bay rerun` starts it again, `retries:` does so by "
                "itself"
            ),
        ),
        (
            "BOOT_FAIL",
            "0:0",
            State.FAILED,
            Cause.NODE,
            (
                "its node could not be booted; `bay rerun` starts it again, `retries:` does so by "
                "itself"
            ),
        ),
        (
            "PREEMPTED",
            "0:0",
            State.FAILED,
            Cause.PREEMPTED,
            (
                "it had to make way for a job of higher priority; `bay rerun` starts it again, "
                "`retries:` or `resume: true` do so by themselves"
            ),
        ),
        (
            "DEADLINE",
            "0:0",
            State.FAILED,
            Cause.TIMEOUT,
            "it could not end before its deadline; ask for less `--time`, or for no deadline",
        ),
        ("FAILED", "3:0", State.FAILED, Cause.EXIT, "exit code 3; `bay logs` shows why"),
        ("FAILED", "", State.FAILED, Cause.EXIT, "it failed; `bay logs` shows why"),
        (
            "FAILED",
            "0:9",
            State.FAILED,
            Cause.EXIT,
            "killed by signal 9, often for want of memory; ask for more with `--memory`",
        ),
        (
            "F",
            "0:11",
            State.FAILED,
            Cause.EXIT,
            "killed by signal 11; `bay logs` shows its last lines",
        ),
        (
            "FAILED",
            "0:53",
            State.FAILED,
            Cause.SETUP,
            (
                "Slurm could not start it on its node, where its folder is missing or cannot be "
                "written; `bay doctor` checks the target's `root:`"
            ),
        ),
    ],
)
def test_how_a_job_ended(
    word: str, code: str, state: State, cause: Cause | None, sentence: str
) -> None:
    """Each way to end has our state and cause, one sentence and the next thing to try."""
    ended = ended_status(word, code, time_limit="08:00:00", users={"1000": "ada"})
    assert ended == (state, cause, sentence)


def test_a_job_that_slurm_never_took_was_refused() -> None:
    """A job that fails for what it asked for is told so, not for an exit code it never had."""
    ended = ended_status("FAILED", "1:0", reason="BadConstraints")
    assert ended.cause is Cause.REFUSED
    assert ended.reason.startswith("no node can ever fit what it asks for")


def test_an_unknown_time_limit_is_left_out() -> None:
    """Where Slurm names no limit, the sentence does without."""
    ended = ended_status("TIMEOUT", time_limit="Partition_Limit")
    assert ended.reason.startswith("its time limit was over; ask for more")


def test_squeue_lists_jobs_and_tasks() -> None:
    """Each line of squeue is a job or a task of an array, with its reason whole."""
    entries = parse_squeue(SQUEUE)
    assert len(entries) == len(SQUEUE.splitlines())
    assert listed(entries, "33_2") == Listed(
        job="33",
        task="2",
        name="w.sh",
        state="PENDING",
        reason="QOSMaxGRESPerUser",
        time_limit="10:00",
        partition="gpu",
    )
    assert listed(entries, "14_3") == Listed(
        job="14",
        task="3",
        name="w.sh",
        state="RUNNING",
        nodes=("n3",),
        starts_at="2026-11-15T13:46:13",
        time_limit="10:00",
        partition="cpu",
    )
    assert listed(entries, "32").reason == "ReqNodeNotAvail, UnavailableNodes:n3"
    assert listed(entries, "19").state == "TIMEOUT"
    assert not listed(entries, "19").alive
    assert listed(entries, "18").alive


def test_squeue_survives_chatter_and_free_text() -> None:
    """A line that is none of squeue's is skipped, and a bar in the reason stays in it."""
    text = "Welcome | to the lab\n7|N/A|PENDING||N/A|lr|1:00|gpu|held | by a script\n"
    assert [(entry.job, entry.reason) for entry in parse_squeue(text)] == [
        ("7", "held | by a script")
    ]


def test_sacct_lists_how_jobs_ended() -> None:
    """Each line of sacct is a job or a task; tasks that never started are folded and unfolded."""
    entries = parse_sacct(SACCT)
    assert listed(entries, "1") == Listed(
        job="1",
        state="FAILED",
        nodes=("n1",),
        starts_at="2026-11-15T13:43:45",
        ended_at="2026-11-15T13:43:45",
        exit_code="3:0",
        time_limit="00:30:00",
        partition="gpu",
    )
    assert listed(entries, "20").state == "CANCELLED by 1001"
    assert listed(entries, "31").exit_code == "0:53"
    folded = [entry.task for entry in entries if entry.job == "37" and not entry.nodes]
    assert folded == ["17", "18", "19", "20"]
    assert listed(entries, "56_20").alive


def test_show_job_lists_what_the_controller_remembers() -> None:
    """Without accounting, `scontrol show job` says how a job ended and how often it restarted."""
    entries = parse_show_job(SHOW_JOB)
    assert listed(entries, "14_3").restarts == 1
    assert listed(entries, "14_3").job == "14"
    assert listed(entries, "20") == Listed(
        job="20",
        name="w.sh",
        state="CANCELLED",
        nodes=("n1",),
        starts_at="2026-11-15T13:44:07",
        ended_at="2026-11-15T13:44:10",
        exit_code="0:15",
        time_limit="00:30:00",
        partition="gpu",
        restarts=0,
    )
    waiting = listed(entries, "32").reason
    assert explain_waiting(waiting).startswith("nodes that it needs (n3) are down")


@pytest.mark.parametrize(
    ("tasks", "indices"),
    [
        ("5-9%3", ["5", "6", "7", "8", "9"]),
        ("1,4-6", ["1", "4", "5", "6"]),
        ("0-8:4", ["0", "4", "8"]),
        ("1-3,...", ["1", "2", "3"]),
    ],
)
def test_pending_tasks_are_unfolded(tasks: str, indices: list[str]) -> None:
    """An array that waits is one line of scontrol, and one entry a task here."""
    line = f"JobId=14 ArrayJobId=14 ArrayTaskId={tasks} JobState=PENDING Reason=Priority Restarts=0"
    assert [entry.task for entry in parse_show_job(line)] == indices


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n3", ("n3",)),
        ("n[1-3,07],login", ("n1", "n2", "n3", "n07", "login")),
        ("r[1-2]n[08-10]", ("r1n08", "r1n09", "r1n10", "r2n08", "r2n09", "r2n10")),
        ("None assigned", ()),
        ("", ()),
    ],
)
def test_node_lists_are_expanded(text: str, names: tuple[str, ...]) -> None:
    """Slurm folds the names of nodes; here each stands for itself."""
    assert expand_nodes(text) == names


def test_moments_are_read_where_they_are_certain() -> None:
    """Only a count of seconds is a moment: Slurm's usual way names no time zone."""
    assert parse_moment("1794750388") == 1794750388.0
    assert parse_moment("2026-11-15T13:46:13") is None
    assert parse_moment(None) is None


@pytest.mark.parametrize(
    ("text", "job"),
    [("1234\n", "1234"), ("1234;big\n", "1234"), ("hello\n77\n", "77"), ("", ""), ("no 5\n", "")],
)
def test_submitted_id(text: str, job: str) -> None:
    """The id is the line that is nothing but an id, with the cluster's name or without."""
    assert parse_submitted(text) == job


FULL = Refused(
    "as many of your jobs wait or run as the site allows at once; the rest is sent as they end, "
    "and `pack:` needs fewer jobs",
    transient=True,
    full=True,
)
POLICY = (
    "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit "
    "limit, user's size and/or time limits)"
)


@pytest.mark.parametrize(
    "text",
    [
        f"sbatch: error: QOSMaxSubmitJobPerUserLimit\n{POLICY}",
        f"sbatch: error: AssocMaxSubmitJobLimit\n{POLICY}",
        f"sbatch: error: AssocGrpSubmitJobsLimit\n{POLICY}",
        POLICY,
        "sbatch: error: Slurm job queue full, sleeping and retrying.",
        "sbatch: error: Batch job submission failed: Resource temporarily unavailable",
    ],
)
def test_a_full_queue_is_told_apart(text: str) -> None:
    """When the limit of jobs at once is reached, the rest can be sent later."""
    assert explain_refusal(text) == FULL


@pytest.mark.parametrize(
    "message",
    [
        "Slurm temporarily unable to accept job, sleeping and retrying.",
        "Batch job submission failed: Socket timed out on send/recv operation",
        "Batch job submission failed: Unable to contact slurm controller (connect failure)",
        "Batch job submission failed: Zero Bytes were transmitted or received",
        "Batch job submission failed: Protocol authentication error",
    ],
)
def test_a_busy_controller_may_be_asked_again(message: str) -> None:
    """A controller that did not answer is no refusal for good, and no full queue."""
    refused = explain_refusal(f"sbatch: error: {message}")
    assert (refused.transient, refused.full) == (True, False)
    assert "later" in refused.reason


@pytest.mark.parametrize(
    ("message", "fix"),
    [
        ("Invalid partition name specified", "`partition:`"),
        ("Invalid account or account/partition combination specified", "`account:`"),
        ("Invalid qos specification", "`qos:`"),
        ("Invalid feature specification", "`constraint:`"),
        ("Requested reservation is invalid", "`reservation:`"),
        ("Invalid license specification", "`licenses:`"),
        ("Invalid generic resource (gres) specification", "`gpu_type:`"),
        ("Requested node configuration is not available", "`bay capacity`"),
        ("More processors requested than permitted", "`--cpus`"),
        ("CPU count per node can not be satisfied", "`--cpus`"),
        ("Node count specification invalid", "`--nodes`"),
        ("Invalid node name specified", "hosts"),
        ("Requested time limit is invalid (missing or exceeds some limit)", "`--time`"),
        ("Invalid --time specification", "`--time`"),
        ("Invalid --mem specification", "`--memory`"),
        ("Invalid job array specification", "`bay doctor`"),
        ("Access/permission denied", "ask it"),
    ],
)
def test_a_refusal_names_its_fix(message: str, fix: str) -> None:
    """What sbatch refuses for good says what to correct, and keeps Slurm's own words."""
    refused = explain_refusal(f"sbatch: error: Batch job submission failed: {message}\n")
    assert (refused.transient, refused.full) == (False, False)
    assert fix in refused.reason
    assert refused.reason.endswith(f"(Slurm: {message})")


def test_the_more_telling_line_wins() -> None:
    """Of what sbatch says, the line before the general error tells what it is about."""
    text = (
        "sbatch: error: Memory specification can not be satisfied\n"
        "sbatch: error: Batch job submission failed: Requested node configuration is not available"
    )
    assert explain_refusal(text).reason.startswith("no node has so much memory; ask for less")


def test_a_limit_of_one_job_is_no_full_queue() -> None:
    """A QoS that refuses what one job asks for will refuse it tomorrow."""
    assert explain_refusal(f"sbatch: error: QOSMaxGRESPerJob\n{POLICY}") == Refused(
        "it asks for more GPUs than the limits of its QoS allow; ask for less with `--gpus`"
    )


def test_an_unknown_refusal_is_shown_as_it_is() -> None:
    """A message of a site's own plug-in is kept."""
    assert explain_refusal("sbatch: error: please name a grant\n").reason == (
        "sbatch refused it: please name a grant"
    )
    assert explain_refusal("").reason == "sbatch refused it: nothing"
