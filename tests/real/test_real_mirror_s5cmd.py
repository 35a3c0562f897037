"""The same plans through s5cmd."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.real.object_servers import SECRET, FaultyProxy, find_program
from tests.sync.mirrors import BIG, Done, Mirror

from launchbay.core.errors import MissingExtra, Unauthorized, Unsupported
from launchbay.sync.bucket import BucketOptions
from launchbay.sync.mirror import plan_down, plan_up
from launchbay.sync.patterns import compile_patterns
from launchbay.sync.s5cmd import apply_with_s5cmd, can_say, environment
from launchbay.sync.steps import Step

if TYPE_CHECKING:
    from pathlib import Path

    from tests.real.object_servers import RcloneServer

pytestmark = [pytest.mark.real, pytest.mark.slow]

EVERYTHING = compile_patterns([])
TREE = {
    "a.txt": b"hello",
    "empty": b"",
    "with blank/ü #1+2%20&=.txt": b"odd",
    'it\'s "quoted" $HOME `x`/a*b?[c]~{}': b"odder",
    "deep/er/x": os.urandom(1000),
    "axb": b"not meant by a wildcard",
    "big.bin": os.urandom(BIG),
}


class FastMirror(Mirror):
    """A mirror whose files s5cmd moves."""

    def __init__(self, options: BucketOptions, folder: Path, memory: Path) -> None:
        super().__init__(options, folder, memory)
        self.options = options
        self.program = find_program("s5cmd")

    def _do(self, make: Any, texts: tuple[str, ...], how: dict[str, Any]) -> Done:
        plan = make(self.bucket, self.folder, compile_patterns(texts), memory=self.memory, **how)
        outcome = apply_with_s5cmd(plan, self.options, memory=self.memory, program=self.program)
        failed = [(step.key, why) for step, why in outcome.failed]
        assert not failed, failed
        return Done(plan=plan, outcome=outcome)


@pytest.fixture
def here(s3: BucketOptions, tmp_path: Path) -> FastMirror:
    """The one who works here."""
    return FastMirror(s3, tmp_path / "here", tmp_path / "here.sqlite")


@pytest.fixture
def there(s3: BucketOptions, tmp_path: Path) -> FastMirror:
    """Somebody else with the same bucket."""
    return FastMirror(s3, tmp_path / "there", tmp_path / "there.sqlite")


def test_the_result_is_the_same(here: FastMirror, there: FastMirror) -> None:
    """Names are literal, trees are equal, times and modes are kept, and nothing is sent twice."""
    here.write(TREE)
    (here.folder / "a.txt").chmod(0o750)

    assert here.up().sent == dict.fromkeys(TREE, "new")
    assert here.objects == TREE
    assert here.up().sent == {}
    assert there.down().sent == dict.fromkeys(TREE, "new")
    assert there.files == TREE
    assert there.down().sent == {}
    mine, theirs = ((one.folder / "a.txt").stat() for one in (here, there))
    assert (mine.st_mtime_ns, mine.st_mode) == (theirs.st_mtime_ns, theirs.st_mode)


def test_deleting_and_overwriting(here: FastMirror, there: FastMirror) -> None:
    """Mirroring removes what is gone; what may be overwritten is."""
    here.write({"a": b"1", "b": b"2"})
    here.up()
    there.down()
    (here.folder / "b").unlink()
    there.write({"a": b"mine"}, age_s=0)

    assert here.up(delete=True).gone == ["b"]
    assert there.down(overwrite=True, delete=True).gone == ["b"]
    assert there.files == here.objects == {"a": b"1"}


def test_what_fails_is_said_and_stops_no_other(here: FastMirror, there: FastMirror) -> None:
    """A missing object is named with what s5cmd says, and leaves nothing behind."""
    here.write({"a": b"1", "b c": b"2"})
    here.up()
    plan = plan_down(there.bucket, there.folder, EVERYTHING, memory=there.memory)
    here.bucket.delete(["b c"])

    outcome = apply_with_s5cmd(plan, there.options, memory=there.memory, program=there.program)

    assert [step.key for step in outcome.done] == ["a"]
    ((step, why),) = outcome.failed
    assert step.key == "b c"
    assert "404" in why or "NoSuchKey" in why or "not found" in why
    assert there.files == {"a": b"1"}


def test_keys_are_not_on_the_command_line(s3: BucketOptions) -> None:
    """Others can see what a process is told; the secret is not in it."""
    env, flags = environment(s3)

    assert env["AWS_SECRET_ACCESS_KEY"] == SECRET
    assert flags == ["--endpoint-url", s3.endpoint]


def test_without_keys_nothing_is_signed() -> None:
    """A public bucket is asked without a signature."""
    _, flags = environment(BucketOptions(url="s3://lab", anonymous=True))

    assert flags[-1] == "--no-sign-request"


def test_wrong_keys_are_one_sentence(here: FastMirror) -> None:
    """However many files, the keys are refused once."""
    here.write({f"f{number}": b"x" for number in range(20)})
    plan = plan_up(here.bucket, here.folder, EVERYTHING, memory=here.memory)
    env = {**here.options.env, "AWS_SECRET_ACCESS_KEY": "wrong"}

    with pytest.raises(Unauthorized, match="refuses the keys"):
        apply_with_s5cmd(
            plan, replace(here.options, env=env), memory=here.memory, program=here.program
        )


def test_cut_answers_leave_no_partial_file(
    rclone_server: RcloneServer, here: FastMirror, there: FastMirror
) -> None:
    """Over a network that fails, what is under a final name is whole."""
    tree = {f"f{number}": os.urandom(50_000) for number in range(60)}
    here.write(tree)
    here.up()
    plan = plan_down(there.bucket, there.folder, EVERYTHING, memory=there.memory)
    with FaultyProxy(rclone_server.url, {"truncate": 15, "reset": 15}) as proxy:
        options = proxy.before(there.options)
        apply_with_s5cmd(plan, options, memory=there.memory, program=there.program)

    assert {name: tree.get(name) for name in there.files} == there.files
    there.down()
    assert there.files == tree


def test_only_where_it_can(tmp_path: Path, s3: BucketOptions, here: FastMirror) -> None:
    """Without s5cmd, or for what it cannot speak to, there is a sentence with the fix."""
    plan = plan_up(here.bucket, here.folder, EVERYTHING, memory=here.memory)

    with pytest.raises(MissingExtra, match="s5cmd"):
        apply_with_s5cmd(plan, s3, memory=here.memory, program="s5cmd-that-is-not-there")
    with pytest.raises(Unsupported, match="S3 only"):
        apply_with_s5cmd(plan, BucketOptions(url=f"file://{tmp_path}"), memory=here.memory)


def test_names_that_fit_no_line(tmp_path: Path) -> None:
    """A name with a line break is left to the built-in engine."""
    names = ["plain", "with\nbreak"]
    steps = [Step(key=name, folder=tmp_path, size=1, why="new") for name in names]

    assert [can_say(step) for step in steps] == [True, False]
