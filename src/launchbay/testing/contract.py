"""The promises of `Backend` and `Host`, as suites to inherit.

```python
class TestMine(BackendContract):
    @pytest.fixture
    def backend(self) -> Backend:
        return MyBackend(…)
```
"""

from __future__ import annotations

import subprocess
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from launchbay.backends.names import QUEUE, queue_id
from launchbay.core.backend import (
    LOG_PIECE,
    Backend,
    Capacity,
    Discovery,
    Environments,
    Interactive,
    Outputs,
    Staging,
)
from launchbay.core.errors import BadRequest, Rejected, Unreachable
from launchbay.core.host import Completed
from launchbay.core.job import Argv, Job, Script
from launchbay.core.naming import run_id
from launchbay.core.python import Python
from launchbay.core.run import Handle, State, Status

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from launchbay.core.host import Host
    from launchbay.core.job import Command

LONGEST_S = 60.0
CANCELLED = Status(state=State.CANCELLED)
NASTY = (
    "a b",
    "",
    "it's",
    '"',
    "$(echo no)",
    "`no`",
    "\\",
    "ü→",
    "-x",
    "two\nlines",
    "*",
    "~",
    "<x>",
)


class BackendContract:
    """What every backend promises."""

    @pytest.fixture
    def backend(self) -> Backend:
        """The backend under test, with an empty target."""
        raise NotImplementedError

    def advance(self, backend: Backend) -> None:  # noqa: ARG002
        """Let the target do something."""
        time.sleep(0.05)

    def job(self, command: Command) -> Job:
        """A job that asks for nothing but a command."""
        return Job(
            run_id=run_id("contract"), name="contract", experiment="contract", command=command
        )

    def send(self, backend: Backend, jobs: Sequence[Job]) -> list[Handle]:
        """Submit, and expect that all are taken."""
        answers = [answer for plan in backend.plan(jobs) for answer in backend.submit(plan)]
        handles = [answer for answer in answers if isinstance(answer, Handle)]
        assert [handle.run_id for handle in handles] == [job.run_id for job in jobs]
        return handles

    def ended(self, backend: Backend, handles: Sequence[Handle]) -> dict[Handle, Status]:
        """The statuses once all have ended."""
        deadline = time.monotonic() + LONGEST_S
        while time.monotonic() < deadline:
            seen = backend.poll(handles)
            if all(status.state.final for status in seen.values()):
                return seen
            self.advance(backend)
        raise AssertionError(f"not ended after {LONGEST_S} s: {seen}")

    def stranger(self, known: Handle) -> Handle:
        """The handle of a job that the target never saw."""
        native = known.native_id.replace(known.run_id, "gone-aaaaa")
        return Handle("gone-aaaaa", known.target, native)

    def test_planning_twice_gives_the_same(self, backend: Backend) -> None:
        """A plan depends on nothing but its jobs."""
        jobs = [self.job(Argv(("true",)))]

        assert backend.plan(jobs) == backend.plan(jobs)

    def test_plan_of_none_is_none(self, backend: Backend) -> None:
        """No jobs make no plan."""
        assert backend.plan([]) == []

    def test_plan_names_its_runs(self, backend: Backend) -> None:
        """The run id can be found in what is sent."""
        job = self.job(Argv(("true",)))

        assert all(job.run_id in plan.document for plan in backend.plan([job]))

    def test_words_arrive_verbatim(self, backend: Backend) -> None:
        """No shell on the way changes a word."""
        (handle,) = self.send(backend, [self.job(Argv(("printf", "[%s]", *NASTY)))])
        self.ended(backend, [handle])

        assert backend.read_log(handle).text == "".join(f"[{word}]" for word in NASTY)

    def test_script_runs_all_its_lines(self, backend: Backend) -> None:
        """Shell text runs as written, a failing line does not end it."""
        (handle,) = self.send(backend, [self.job(Script("echo one\nfalse\necho two"))])
        seen = self.ended(backend, [handle])

        assert (backend.read_log(handle).text, seen[handle].state) == (
            "one\ntwo\n",
            State.SUCCEEDED,
        )

    def test_exit_code_survives(self, backend: Backend) -> None:
        """A failed run says with which code."""
        (handle,) = self.send(backend, [self.job(Script("exit 7"))])
        status = self.ended(backend, [handle])[handle]

        assert (status.state, status.exit_code) == (State.FAILED, 7)

    def test_log_goes_on_from_its_cursor(self, backend: Backend) -> None:
        """Reading from a cursor gives only what came after it."""
        (handle,) = self.send(backend, [self.job(Script("echo one; echo two"))])
        self.ended(backend, [handle])
        first = backend.read_log(handle)
        again = backend.read_log(handle, cursor=first.cursor)

        assert (first.text, again.text) == ("one\ntwo\n", "")

    def test_long_log_comes_in_pieces(self, backend: Backend) -> None:
        """Nobody has to hold more than a piece, and nothing is lost between two."""
        # A cluster that keeps the end of a log counts some bytes more for each line.
        text = 'line=$(printf %0500d 0 | sed s/0/ä/g); yes "$line" | head -c 9009000'
        (handle,) = self.send(backend, [self.job(Script(text))])
        self.ended(backend, [handle])
        cursor, more, texts = "", True, list[str]()
        while more:
            chunk = backend.read_log(handle, cursor=cursor)
            cursor, more = chunk.cursor, chunk.more
            texts.append(chunk.text)

        assert "".join(texts) == f"{'ä' * 500}\n" * 9000
        assert max(len(text.encode()) for text in texts) <= LOG_PIECE

    def test_submit_does_not_wait(self, backend: Backend) -> None:
        """A run of a minute is submitted in less."""
        began = time.monotonic()
        (handle,) = self.send(backend, [self.job(Argv(("sleep", "60")))])
        took = time.monotonic() - began
        backend.cancel([handle])
        self.ended(backend, [handle])

        assert took < LONGEST_S / 2

    def test_asking_for_none_answers_none(self, backend: Backend) -> None:
        """Nobody else's jobs come back."""
        self.send(backend, [self.job(Argv(("true",)))])

        assert backend.poll([]) == {}

    def test_every_handle_is_answered(self, backend: Backend) -> None:
        """One poll answers for all."""
        handles = self.send(backend, [self.job(Argv(("true",))) for _ in range(5)])

        assert set(backend.poll(handles)) == set(handles)

    def test_unknown_job_is_lost(self, backend: Backend) -> None:
        """A handle that the target never saw is lost, not an error."""
        (known,) = self.send(backend, [self.job(Argv(("true",)))])
        gone = self.stranger(known)

        assert backend.poll([gone])[gone].state is State.LOST

    def test_submitting_twice_starts_once(self, backend: Backend, tmp_path: Path) -> None:
        """The same plan again gives the same handles and no second run."""
        mark = tmp_path / "mark"
        job = self.job(Argv(("sh", "-c", 'echo x >>"$0"', str(mark))))
        first = self.send(backend, [job])
        self.ended(backend, first)
        second = self.send(backend, [job])
        self.ended(backend, second)

        assert (second, mark.read_text()) == (first, "x\n")

    def test_cancelled_run_ends(self, backend: Backend) -> None:
        """Cancelling asks for the end, and it comes."""
        (handle,) = self.send(backend, [self.job(Argv(("sleep", "60")))])
        backend.cancel([handle])

        assert self.ended(backend, [handle])[handle].state is State.CANCELLED

    def test_cancelling_twice_does_nothing(self, backend: Backend) -> None:
        """What has ended stays as it ended."""
        (handle,) = self.send(backend, [self.job(Argv(("true",)))])
        before = self.ended(backend, [handle])
        backend.cancel([handle])
        backend.cancel([handle])

        assert backend.poll([handle])[handle].state is before[handle].state

    def test_what_is_cancelled_before_it_comes_never_starts(
        self, backend: Backend, tmp_path: Path
    ) -> None:
        """A plan that was kept is sent for the others; who was cancelled meanwhile stays out."""
        mark = tmp_path / "mark"
        unwanted, other = self.job(Argv(("touch", str(mark)))), self.job(Argv(("true",)))
        for plan in backend.plan([unwanted, other]):
            name = queue_id(QUEUE, plan.id, unwanted.run_id, unwanted.attempt)
            backend.cancel([Handle(unwanted.run_id, backend.target, name)])
            handles = [one for one in backend.submit(plan) if isinstance(one, Handle)]
        seen = {one.run_id: status for one, status in self.ended(backend, handles).items()}

        assert seen[other.run_id].state is State.SUCCEEDED
        assert seen.get(unwanted.run_id, CANCELLED).state is State.CANCELLED
        assert not mark.exists()

    def test_waiting_run_can_be_found(self, backend: Backend) -> None:
        """A job that lost its handle is discovered by its mark."""
        if not isinstance(backend, Discovery):
            pytest.skip("this backend cannot list its jobs")
        (handle,) = self.send(backend, [self.job(Argv(("sleep", "60")))])
        found = backend.discover()
        backend.cancel([handle])
        self.ended(backend, [handle])

        assert handle in found

    def test_environment_is_built_once(self, backend: Backend, tmp_path: Path) -> None:
        """Asked for twice, an environment is the same, and a run can enter it."""
        if not isinstance(backend, Environments):
            pytest.skip("this backend builds no environments")
        (tmp_path / "code").mkdir()
        (tmp_path / "code" / "requirements.txt").write_text("# nothing\n")
        if isinstance(backend, Staging):
            backend.stage("c0de", tmp_path / "code")
        python = Python("requirements", "requirements.txt")
        first, second = (
            backend.build_python(python, snapshot="c0de", key="k3y", tell=print) for _ in range(2)
        )
        job = replace(self.job(Script("echo $?")), setup=first, snapshot="c0de")
        (handle,) = self.send(backend, [job])
        self.ended(backend, [handle])

        assert (second, backend.read_log(handle).text) == (first, "0\n")

    def test_outputs_come_home(self, backend: Backend, tmp_path: Path) -> None:
        """What a run wrote is brought, by pattern or all of it, with its log."""
        if not isinstance(backend, Outputs):
            pytest.skip("this backend keeps no files elsewhere")
        text = 'echo one; echo two >"$BAY_OUT/a b"; mkdir "$BAY_OUT/c"; echo three >"$BAY_OUT/c/d"'
        (handle,) = self.send(backend, [self.job(Script(text))])
        self.ended(backend, [handle])
        twin = tmp_path / "twin"
        backend.pull(handle, twin, patterns=["c"])
        chosen = sorted(path.name for path in (twin / "out").rglob("*"))
        backend.pull(handle, twin)

        assert chosen == ["c", "d"]
        assert (twin / "out" / "a b").read_text() == "two\n"
        assert (twin / "attempts" / "1" / "log-0.txt").read_text() == "one\n"
        assert not (twin / "env.sh").exists()

    def test_nobody_enters_an_ended_run(self, backend: Backend) -> None:
        """There is no place to be where nothing runs any more."""
        if not isinstance(backend, Interactive):
            pytest.skip("this backend lets nobody in")
        (handle,) = self.send(backend, [self.job(Argv(("true",)))])
        self.ended(backend, [handle])

        with pytest.raises(BadRequest, match=handle.run_id):
            backend.shell_argv(handle)

    def test_no_more_is_free_than_there_is(self, backend: Backend) -> None:
        """What is free is told in the words of what there is."""
        if not isinstance(backend, Capacity):
            pytest.skip("this backend does not say what is free")
        rooms = backend.capacity()

        assert rooms
        for room in rooms:
            assert all(0 <= free <= room.total[word] for word, free in room.free.items())


class HostContract:
    """What every host promises."""

    @pytest.fixture
    def host(self) -> Host:
        """The host under test."""
        raise NotImplementedError

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        """A folder on the host."""
        return tmp_path

    def test_words_arrive_verbatim(self, host: Host) -> None:
        """No shell on the way changes a word."""
        done = host.run(["printf", "[%s]", *NASTY])

        assert done.stdout == "".join(f"[{word}]" for word in NASTY)

    def test_standard_input_arrives_verbatim(self, host: Host) -> None:
        """What is written to a command is what it reads."""
        text = "ü\n$(no)\\\n"

        assert host.run(["cat"], stdin=text).stdout == text

    def test_exit_code_and_errors_come_back(self, host: Host) -> None:
        """A command that fails is an answer, not an exception."""
        done = host.run(["sh", "-c", "echo no >&2; exit 3"])

        assert (done.ok, done.code, done.stderr) == (False, 3, "no\n")

    def test_line_ends_stay_as_they_are(self, host: Host) -> None:
        """What goes in and comes out is no text file: progress bars and Windows keep their CR."""
        text = "a\rb\r\nc"
        told: list[str] = []
        done = [host.run(["cat"], stdin=text), host.run(["cat"], stdin=text, tell=told.append)]

        assert [one.stdout for one in done] == [text, text]
        assert "\n".join(told) == text

    def test_missing_program_does_not_start(self, host: Host) -> None:
        """A program that is not there is an error of the machine, not an exit code."""
        with pytest.raises(Unreachable, match="`bay-no-such-program`"):
            host.run(["bay-no-such-program"])

    def test_lines_are_told_as_they_come(self, host: Host, folder: Path) -> None:
        """The command goes on only once its first line was told."""
        go = folder / "go"
        wait = 'until [ -e "$0" ]; do n=$((n + 1)); [ $n -lt 500 ] || exit 9; sleep 0.02; done'
        text = f"cat; echo no >&2; n=0; {wait}; echo two; exit 3"
        told: list[str] = []

        def tell(line: str) -> None:
            told.append(line)
            host.run(["touch", str(go)])

        done = host.run(["sh", "-c", text, str(go)], stdin="one\n", tell=tell)

        assert told == ["one", "two"]
        assert done == Completed(code=3, stdout="one\ntwo\n", stderr="no\n")

    def test_telling_can_end_the_command(self, host: Host) -> None:
        """What the listener raises ends a command that would go on for long."""

        def tell(line: str) -> None:
            raise InterruptedError(line)

        with pytest.raises(InterruptedError, match="one"):
            host.run(["sh", "-c", "echo one; exec sleep 600"], tell=tell)

    def test_reading_from_an_offset(self, host: Host, folder: Path) -> None:
        """Reading goes on where it stopped; where there is no file there is nothing."""
        path = folder / "with space"
        host.run(["sh", "-c", 'printf abcdef >"$0"', str(path)])

        none = folder / "none"
        assert (host.read_bytes(path, offset=2), host.read_bytes(none)) == (b"cdef", b"")
        assert (host.read_bytes(path, offset=2, most=3), host.read_bytes(none, most=3)) == (
            b"cde",
            b"",
        )
        assert host.read_bytes(path, offset=6, most=3) == b""

    def test_any_bytes_are_written(self, host: Host, folder: Path) -> None:
        """A file is written with its mode; folders that were missing are the owner's only."""
        path, data = folder / "new" / "it's" / "a b", bytes(range(256)) * 999
        host.write_bytes(path, b"old")
        host.write_bytes(path, data, mode=0o640)
        seen = host.run(["ls", "-ld", str(path), str(path.parent), str(path.parent.parent)])
        modes = sorted(line.split()[0].rstrip(".+") for line in seen.stdout.splitlines())

        assert host.read_bytes(path) == data
        assert modes == ["-rw-r-----", "drwx------", "drwx------"]
        assert host.run(["ls", "-A", str(path.parent)]).stdout == "a b\n"

    def test_what_cannot_be_written_is_rejected(self, host: Host, folder: Path) -> None:
        """A file does not take the place of a folder, nor stand below a file; no draft is left."""
        host.write_bytes(folder / "sub" / "file", b"x")
        for path in (folder / "sub", folder / "sub" / "file" / "below"):
            with pytest.raises(Rejected, match="cannot be written"):
                host.write_bytes(path, b"y")

        assert host.run(["ls", "-AR", str(folder / "sub")]).stdout.split() == [
            f"{folder}/sub:",
            "file",
        ]

    def test_terminal_gets_words_verbatim(self, host: Host) -> None:
        """What a terminal executes runs the command there, words and exit code as they are."""
        text = 'printf "[%s]" "$@"; exit 3'
        argv = host.terminal_argv(["sh", "-c", text, "sh", *NASTY])
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False)

        assert (done.stdout.decode(), done.returncode) == (
            "".join(f"[{word}]" for word in NASTY),
            3,
        )
