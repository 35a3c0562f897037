"""pod.sh in every shell that an image may have, with a pod's files laid out in folders."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.conftest import eventually, require_program
from tests.node.workshop import NODE, ORDINARY_PATH

from launchbay.backends.kubernetes.packing import pack_code
from launchbay.backends.sheet import render_sheet
from launchbay.core.job import Argv, Job, Script

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

SHELLS = {"dash": ["dash"], "busybox": ["busybox", "sh"], "bash": ["bash", "--posix"]}


@dataclass
class Pod:
    """What a container of a run has, and pod.sh as its first process."""

    shell: list[str]
    folder: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def root(self) -> Path:
        """Where runs are."""
        return self.folder / "root"

    @property
    def run(self) -> Path:
        """The run's folder."""
        return self.root / "runs/run-aaaaa"

    def lay_out(self, job: Job, tree: Path | None = None) -> None:
        """Have the files there that the cluster would mount."""
        plan = self.folder / "plan"
        plan.mkdir(exist_ok=True)
        for name, text in render_sheet([job], target="t", plan="p1", pod=str(plan)).items():
            (plan / name).write_text(text)
        if tree is not None:
            self.write_parts(pack_code(tree))

    def write_parts(self, parts: list[bytes]) -> None:
        """Have the code there, in these parts."""
        code = self.folder / "code"
        code.mkdir(exist_ok=True)
        (code / "parts").write_text(f"{len(parts)}\n")
        for number, part in enumerate(parts):
            (code / f"code.{number}").write_bytes(part)

    def start(self, **variables: str) -> subprocess.Popen[bytes]:
        """Begin, as a container would."""
        given = {
            "PATH": ORDINARY_PATH,
            "BAY_ROOT": str(self.root),
            "BAY_PLAN": str(self.folder / "plan"),
            "BAY_PARTS": str(self.folder / "code"),
            "BAY_TOLD": str(self.folder / "told"),
            "BAY_ALLOCATION": "run-aaaaa-x1y2z",
        }
        process = subprocess.Popen(
            [*self.shell, str(NODE / "pod.sh")],
            env=given | variables,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    def finish(self, process: subprocess.Popen[bytes]) -> tuple[int, bytes]:
        """Its exit code, and what it showed."""
        out, err = process.communicate(timeout=60)
        assert not err, err
        return process.returncode, out

    def told(self) -> list[dict[str, Any]]:
        """The lines of the termination message that are events or metrics."""
        text = (self.folder / "told").read_text().partition("\n--log\n")[0]
        return [json.loads(line) for line in text.splitlines() if line]

    def read(self, offset: int, most: int = 1000) -> bytes:
        """The log, as somebody reads it who came into the pod."""
        process = self.start_reading(offset, most)
        said, _ = process.communicate()
        assert process.returncode == 0
        return said

    def start_reading(self, offset: int, most: int) -> subprocess.Popen[bytes]:
        """The same, of somebody who takes nothing yet."""
        argv = [*self.shell, str(NODE / "read.sh"), "run-aaaaa", "1", "log-0.txt"]
        process = subprocess.Popen(
            [*argv, str(offset), str(most)],
            env={"PATH": ORDINARY_PATH, "BAY_ROOT": str(self.root)},
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self.processes.append(process)
        return process


@pytest.fixture(params=SHELLS)
def pod(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pod]:
    """A pod in each shell; what it leaves running is ended."""
    shell = SHELLS[request.param]
    made = Pod([require_program(shell[0]), *shell[1:]], tmp_path)
    yield made
    for process in made.processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def script(text: str, **fields: Any) -> Job:
    return Job(run_id="run-aaaaa", name="run", experiment="e", command=Script(text), **fields)


def test_run_ends_with_its_code_and_its_log(pod: Pod) -> None:
    """The container shows the log, ends with the command's code, and tells both."""
    pod.lay_out(script("echo one; printf two; exit 7"))

    assert pod.finish(pod.start()) == (7, b"one\ntwo")
    started, ended, log = pod.told()
    assert (started["event"], started["allocation"]) == ("started", "run-aaaaa-x1y2z")
    assert (ended["event"], ended["code"], ended["phase"]) == ("exit", 7, "command")
    assert log == {"event": "log", "size": 7}


def test_words_are_verbatim(pod: Pod) -> None:
    """No shell on the way changes a word."""
    words = ("printf", "[%s]", "a b", "", "it's", "$(no)", "ü→", "two\nlines", "*", "\\")
    pod.lay_out(replace(script(""), command=Argv(words)))

    _, shown = pod.finish(pod.start())

    assert shown.decode() == "".join(f"[{word}]" for word in words[2:])


def test_code_is_unpacked_from_its_parts(pod: Pod, tmp_path: Path) -> None:
    """A run has its frozen code, links and modes as they were, whatever parts it came in."""
    tree = tmp_path / "tree"
    (tree / "deep").mkdir(parents=True)
    (tree / "deep/a b").write_bytes(bytes(range(256)))
    (tree / "go").write_text("#!/bin/sh\necho gone\n")
    (tree / "go").chmod(0o755)
    (tree / "link").symlink_to("deep/a b")
    pod.lay_out(script("./go; cat link | wc -c; ls -A | sort; pwd", snapshot="c0de"))
    (data,) = pack_code(tree)
    pod.write_parts([data[:100], data[100:101], data[101:]])

    _, shown = pod.finish(pod.start(BAY_SNAPSHOT="c0de"))

    lines = shown.decode().split()
    assert lines == ["gone", "256", "deep", "go", "link", str(pod.run / "work")]


def test_broken_code_is_said_and_nothing_runs(pod: Pod, tmp_path: Path) -> None:
    """Code that does not unpack ends the run before its command, with a reason."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/a").write_bytes(os.urandom(5000))
    pod.lay_out(script("echo ran", snapshot="c0de"))
    (data,) = pack_code(tmp_path / "tree")
    pod.write_parts([data[:-1000]])
    process = pod.start(BAY_SNAPSHOT="c0de")
    out, err = process.communicate(timeout=60)

    (ended,) = pod.told()
    assert (process.returncode, out, ended["phase"]) == (1, b"", "setup")
    assert "the code could not be unpacked" in ended["why"]
    assert b"could not be unpacked" in err


def test_parts_that_come_late_are_awaited(pod: Pod, tmp_path: Path) -> None:
    """A part that reaches the node after the pod does is waited for."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/a").write_text("here")
    pod.lay_out(script("cat a", snapshot="c0de"))
    parts = pack_code(tmp_path / "tree")
    pod.write_parts([parts[0][:50], parts[0][50:]])
    (pod.folder / "code/code.1").unlink()
    process = pod.start(BAY_SNAPSHOT="c0de")
    eventually((pod.root / "snapshots").is_dir)
    (pod.folder / "code/code.1").write_bytes(parts[0][50:])

    assert pod.finish(process) == (0, b"here")


def test_whoever_is_asked_to_end_before_the_code_came_ends(pod: Pod, tmp_path: Path) -> None:
    """Nothing is run then; the first process of a container would not hear it by itself."""
    pod.lay_out(script("touch began", snapshot="abc"))
    process = pod.start(BAY_SNAPSHOT="abc")
    eventually((pod.root / "snapshots").is_dir)
    process.send_signal(signal.SIGTERM)

    assert pod.finish(process) == (143, b"")
    assert not list(tmp_path.rglob("began"))


def test_code_of_an_image_stays_where_it_is(pod: Pod, tmp_path: Path) -> None:
    """With the code in the image a run is in its folder, files are laid over it, outputs kept."""
    image, over = tmp_path / "image", tmp_path / "over"
    (image / "src").mkdir(parents=True)
    (image / "own.txt").write_text("own\n")
    (over / "config").mkdir(parents=True)
    (over / "config/new.bin").write_bytes(b"\0\xff\r\n")
    job = script(
        "cat own.txt; wc -c <config/new.bin; mkdir outputs; echo x >outputs/x; echo $PYTHONPATH",
        snapshot="0ver",
        options={"code": "image"},
        outputs=("outputs",),
    )
    pod.lay_out(job, over)
    pod.folder, folder = image, pod.folder
    variables = {
        "BAY_ROOT": str(folder / "root"),
        "BAY_PLAN": str(folder / "plan"),
        "BAY_PARTS": str(folder / "code"),
    }
    process = pod.start(BAY_SNAPSHOT="0ver", BAY_CODE="image", **variables)
    _, shown = pod.finish(process)
    pod.folder = folder

    work = pod.run / "work"
    assert shown.decode().split() == ["own", "4", f"{work}:{work}/src"]
    assert (image / "config/new.bin").read_bytes() == b"\0\xff\r\n"
    assert (pod.run / "out/outputs/x").read_text() == "x\n"


def test_being_asked_to_end_reaches_the_command(pod: Pod) -> None:
    """TERM reaches the command and its children; the end says that it was asked for."""
    text = "trap 'echo told; exit 3' TERM; echo ready; sleep 60 & wait; wait"
    pod.lay_out(script(text))
    process = pod.start()
    eventually((pod.run / "attempts/1/log-0.txt").exists)
    eventually(lambda: b"ready" in (pod.run / "attempts/1/log-0.txt").read_bytes())
    process.send_signal(signal.SIGTERM)

    code, shown = pod.finish(process)
    assert (code, shown) == (3, b"ready\ntold\n")
    assert (pod.told()[1]["code"], pod.told()[1]["signal"]) == (3, "TERM")


def test_whoever_ignores_the_word_is_ended(pod: Pod) -> None:
    """A command that does not end is killed after its grace, and its log is shown all the same."""
    pod.lay_out(script("trap '' TERM; echo ready; while :; do sleep 0.1; done"))
    process = pod.start(BAY_GRACE="1")
    log = pod.run / "attempts/1/log-0.txt"
    eventually(lambda: log.exists() and b"ready" in log.read_bytes())
    process.send_signal(signal.SIGTERM)

    code, shown = pod.finish(process)
    assert (code, shown) == (137, b"ready\n")


def test_last_metrics_are_told(pod: Pod) -> None:
    """The last values that a run wrote are told, and the log's end where a pattern reads it."""
    write = """printf '{"loss": 2}\n{"loss": 1}\n' >"$BAY_OUT/metrics.jsonl"; echo acc=0.5"""
    pod.lay_out(script(write, metrics={"acc": "acc=(.*)"}))
    pod.finish(pod.start())

    assert pod.told()[3:] == [{"loss": 2}, {"loss": 1}]
    assert (pod.folder / "told").read_text().partition("\n--log\n")[2] == "acc=0.5\n"


def test_message_is_no_longer_than_the_cluster_keeps(pod: Pod) -> None:
    """However much a run writes, what is told fits, and its end is in it."""
    line = """printf '{"loss": %s, "text": "%080d"}\n' $i $i"""
    write = f"i=0; while [ $i -lt 200 ]; do {line}; i=$((i + 1)); done"
    pod.lay_out(script(f'{write} >"$BAY_OUT/metrics.jsonl"', metrics={"a": "a=(.*)"}))
    pod.finish(pod.start())

    text = (pod.folder / "told").read_text()
    assert len(text.encode()) <= 4096
    assert '"event":"exit"' in text
    assert '"loss": 199' in text


def test_log_is_read_from_where_it_was_left(pod: Pod) -> None:
    """Whoever reads is told how long the log is, and gets a piece from an offset."""
    pod.lay_out(script("printf abcdef"))
    pod.finish(pod.start())

    assert pod.read(0) == b"6\nabcdef"
    assert pod.read(2, most=3) == b"6\ncde"
    assert pod.read(6) == b"6\n"


def test_end_waits_for_who_follows(pod: Pod) -> None:
    """A run that is being read ends only once its reader has seen the end."""
    pod.lay_out(script("echo one; while [ ! -e go ]; do sleep 0.05; done; echo two"))
    process = pod.start()
    log = pod.run / "attempts/1/log-0.txt"
    eventually(lambda: log.exists() and log.read_bytes() == b"one\n")
    pod.read(0)
    (pod.run / "work/go").touch()
    eventually(
        lambda: (pod.folder / "told").exists() and '"size":8' in (pod.folder / "told").read_text()
    )
    assert process.poll() is None
    assert pod.read(4) == b"8\ntwo\n"
    pod.read(8)

    assert pod.finish(process) == (0, b"one\ntwo\n")


def test_reader_who_left_is_not_waited_for(pod: Pod) -> None:
    """Nobody waits for a reader that was last there a while ago."""
    pod.lay_out(script("echo one; while [ ! -e go ]; do sleep 0.05; done; echo two"))
    process = pod.start()
    eventually((pod.run / "attempts/1/log-0.txt").exists)
    pod.read(0)
    mark = pod.run / "attempts/1/reader"
    at, offset, patience = mark.read_text().split()
    mark.write_text(f"{int(at) - int(patience)} {offset} {patience}\n")
    (pod.run / "work/go").touch()

    assert pod.finish(process)[0] == 0


def test_reader_of_a_slow_piece_is_waited_for_longer(pod: Pod) -> None:
    """Who has asked and not yet got all of it is still there, longer than who got it."""
    pod.lay_out(script("head -c 1000000 /dev/zero; while [ ! -e go ]; do sleep 0.05; done"))
    process = pod.start()
    log, mark = pod.run / "attempts/1/log-0.txt", pod.run / "attempts/1/reader"
    eventually(lambda: log.exists() and log.stat().st_size == 1_000_000)
    reading = pod.start_reading(0, 1_000_000)
    eventually(mark.exists)
    slow = int(mark.read_text().split()[2])
    assert len(reading.communicate()[0]) > 1_000_000
    between = int(mark.read_text().split()[2])
    pod.read(1_000_000)
    (pod.run / "work/go").touch()

    assert slow > between > 0
    assert pod.finish(process)[0] == 0


def test_second_pod_of_an_attempt_runs_nothing(pod: Pod) -> None:
    """Where a claim has the run's folder, a pod that comes again finds the attempt taken."""
    pod.lay_out(script("echo x >>ran"))
    pod.finish(pod.start())
    code, _ = pod.finish(pod.start())

    assert code == 75
    assert (pod.run / "work/ran").read_text() == "x\n"


def test_program_sees_nothing_of_the_pods_own(pod: Pod) -> None:
    """Variables that only pod.sh and run.sh need are not the program's."""
    pod.lay_out(
        script("env | grep -c '^BAY_\\(ROOT\\|PLAN\\|PARTS\\|SNAPSHOT\\|CODE\\|INSIDE\\|GRACE\\)='")
    )

    assert pod.finish(pod.start(BAY_GRACE="5")) == (1, b"0\n")
