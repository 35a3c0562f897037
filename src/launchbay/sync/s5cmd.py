"""The same plan, done by s5cmd: for those who have it configured, or expect it from before.

Keys travel in the environment, names in a list of commands on its standard input, quoted and taken
literally. A download is written beside its final name, and renamed when it was told to be whole.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from launchbay.core.errors import BayError, DataError, MissingExtra, Unauthorized, Unsupported
from launchbay.sync.bucket import apply_details, details_of, open_bucket, split_url
from launchbay.sync.checksums import same_content
from launchbay.sync.credentials import find_login
from launchbay.sync.crew import Crew, Ended
from launchbay.sync.fetching import small_part
from launchbay.sync.memory import file_mark
from launchbay.sync.mirror import AT_ONCE, TELL_S, Meter, apply_mirror
from launchbay.sync.steps import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import IO

    from launchbay.sync.bucket import Bucket, BucketOptions
    from launchbay.sync.memory import Memory
    from launchbay.sync.steps import MirrorPlan, Progress, Step

PROGRAM = "s5cmd"
_REFUSED = re.compile(r"InvalidAccessKeyId|SignatureDoesNotMatch|InvalidToken|ExpiredToken")
_FULL = re.compile(r"no space left on device|disk quota exceeded")


@dataclass(frozen=True, kw_only=True)
class Order:
    """A step as s5cmd is told it."""

    step: Step
    source: str
    target: str
    part: Path | None = None
    """Where a download is written until it is whole."""
    before: str = ""
    """The mark of a file that is sent, as it was before."""
    details: Mapping[str, str]

    @property
    def line(self) -> str:
        """The command, its names quoted and literal."""
        kept = [word for name, text in self.details.items() for word in _metadata(name, text)]
        return shlex.join(["cp", "--raw", *kept, self.source, self.target])


def _metadata(name: str, text: str) -> tuple[str, str]:
    return "--metadata", f"{name}={text}"


def apply_with_s5cmd(
    plan: MirrorPlan,
    options: BucketOptions,
    *,
    memory: Memory,
    progress: Callable[[Progress], None] | None = None,
    at_once: int = AT_ONCE,
    program: str = PROGRAM,
) -> Outcome:
    """Do what the plan says through s5cmd; the rules are those of `apply_mirror`.

    Raises:
        MissingExtra: when there is no s5cmd.
        Unsupported: when the bucket is none of S3.
        BayError: for what every file would meet.
    """
    if split_url(options.url)[0] != "s3":
        raise Unsupported(
            f"s5cmd speaks S3 only, and {options.url} is none", hint="leave the engine built-in"
        )
    path = shutil.which(program, path=options.env.get("PATH"))
    if path is None:
        raise MissingExtra("s5cmd is not on PATH", hint="install it, or leave the engine built-in")
    bucket = open_bucket(options)
    meter = Meter(progress, of_files=len(plan.sends), of_bytes=plan.size)
    run = _Run(plan, bucket, options, meter)
    run.send(path, at_once)
    # What cannot stand in a line, and the removing, are as ever.
    rest = replace(
        plan,
        sends=tuple(step for step in plan.sends if not can_say(step)),
        deletions=() if run.failed else plan.deletions,
    )
    more = apply_mirror(rest, bucket, memory=memory, at_once=at_once)
    return Outcome(
        done=(*run.done, *more.done),
        failed=(*run.failed, *more.failed),
        bytes=meter.bytes + more.bytes,
        seconds=meter.seconds,
        kind="s5cmd",
    )


def can_say(step: Step) -> bool:
    """Whether the step can stand in one line."""
    return not re.search(r"[\r\n\0]", f"{step.path}")


def environment(options: BucketOptions) -> tuple[dict[str, str], list[str]]:
    """The variables for s5cmd, with the keys, and the flags, which hold no secret."""
    login = find_login(options)
    env = {**os.environ, **options.env}
    for name in ("S3_ENDPOINT_URL", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        env.pop(name, None)
    flags = []
    if login.endpoint:
        flags += ["--endpoint-url", login.endpoint]
    env["AWS_REGION"] = login.region or "us-east-1"
    if login.anonymous:
        flags.append("--no-sign-request")
    elif login.keys is not None:
        keys = login.keys()
        env.update(AWS_ACCESS_KEY_ID=keys.id, AWS_SECRET_ACCESS_KEY=keys.secret)
        if keys.token:
            env["AWS_SESSION_TOKEN"] = keys.token
    return env, flags


class _Run:
    """One s5cmd and what it said."""

    def __init__(
        self, plan: MirrorPlan, bucket: Bucket, options: BucketOptions, meter: Meter
    ) -> None:
        self.plan, self.bucket, self.meter = plan, bucket, meter
        self.done: list[Step] = []
        self.failed: list[tuple[Step, str]] = []
        self._options = options
        _, name, prefix = split_url(options.url)
        self._url = f"s3://{name}/{prefix}"

    def send(self, program: str, at_once: int) -> None:
        """Move the files."""
        orders = self._orders()
        if not orders:
            return
        arrived, said = [], {}
        env, flags = environment(self._options)
        argv = [program, "--json", "--numworkers", str(at_once), *flags, "run"]
        with _running(argv, env, (order.line for order in orders.values())) as (child, err):
            for order in self._read(child.stdout or (), orders):
                arrived.append(order)
                self.meter.files += 1
                self.meter.bytes += order.step.size
                self.meter.show()
            child.wait()
            err.seek(0)
            said = dict(_errors(err, orders.values()))
        self._raise_for_all(said.values())
        self._finish(arrived)
        ended = {order.step.key for order in arrived}
        for order in orders.values():
            if order.step.key not in ended:
                _drop(order)
                why = said.get(order.step.key, "s5cmd ended without a word about it")
                self.failed.append((order.step, why))

    def _orders(self) -> dict[tuple[str, str], Order]:
        made = {}
        for step in filter(can_say, self.plan.sends):
            order = self._order(step)
            if order is not None:
                made[order.source, order.target] = order
        return made

    def _order(self, step: Step) -> Order | None:
        remote, path = self._url + step.key, step.path
        if not self.plan.up:
            part = Path(small_part(str(path)))
            return Order(step=step, source=remote, target=str(part), part=part, details={})
        try:
            status = path.stat()
        except OSError as error:
            self.failed.append((step, f"`{path}`: {error.strerror}"))
            return None
        mark, kept = file_mark(status), details_of(status)
        return Order(step=step, source=str(path), target=remote, before=mark, details=kept)

    def _read(
        self, lines: Iterable[str], orders: Mapping[tuple[str, str], Order]
    ) -> Iterator[Order]:
        for line in lines:
            with suppress(ValueError, KeyError, TypeError):
                said = json.loads(line)
                if said.get("success"):
                    yield orders[said["source"], said["destination"]]

    def _raise_for_all(self, errors: Iterable[str]) -> None:
        """Wrong keys and a full disk are one sentence, not one for each file."""
        for text in errors:
            if _REFUSED.search(text):
                raise Unauthorized(f"{self.bucket.url} refuses the keys", hint="check AWS_…")
            if _FULL.search(text):
                raise DataError(
                    f"`{self.plan.folder}` cannot be written: the disk is full",
                    hint="make room, then run it again",
                )

    def _finish(self, orders: list[Order]) -> None:
        """Check what arrived; downloads get their time, mode and final name."""
        crew: Crew[Order] = Crew(self._check_one, lambda _: 0)
        for ended in crew.run(orders, at_once=AT_ONCE, every_s=TELL_S):
            if not isinstance(ended, Ended):
                continue
            step, error = ended.job.step, ended.error
            if error is None:
                self.done.append(step)
            elif isinstance(error, BayError | OSError):
                _drop(ended.job)
                self.failed.append((step, str(error)))
            else:
                raise error

    def _check_one(self, order: Order) -> None:
        step = order.step
        if order.part is None:
            if file_mark(step.path.stat()) != order.before:
                raise DataError(f"`{step.path}` changed while it was sent")
            return
        if order.part.stat().st_size != step.size:
            raise DataError(f"{step.key} came with another size than it was listed with")
        if same_content(order.part, step.size, step.etag) is False:
            raise DataError(f"{step.key} came damaged from {self.bucket.url}")
        details = {"mtime": f"{step.modified:.9f}", **self.bucket.details(step.key)}
        apply_details(order.part, details)
        order.part.replace(step.path)


def _drop(order: Order) -> None:
    if order.part is not None:
        order.part.unlink(missing_ok=True)


def _errors(lines: Iterable[str], orders: Iterable[Order]) -> Iterator[tuple[str, str]]:
    """What s5cmd says against commands; it repeats them without quotes."""
    by_last: dict[str, list[Order]] = {}
    for order in orders:
        by_last.setdefault(order.target.rsplit(" ", 1)[-1], []).append(order)
    for line in lines:
        with suppress(ValueError, AttributeError):
            said = json.loads(line)
            command, text = said.get("command", ""), said.get("error", "s5cmd failed")
            for order in by_last.get(command.rsplit(" ", 1)[-1], []):
                if command.endswith(f" {order.source} {order.target}"):
                    yield order.step.key, text


@contextmanager
def _running(
    argv: list[str], env: dict[str, str], commands: Iterable[str]
) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """s5cmd at work, which says successes as they come, and its errors in a file."""
    with tempfile.TemporaryFile("w+") as orders, tempfile.TemporaryFile("w+") as errors:
        orders.writelines(f"{line}\n" for line in commands)
        orders.seek(0)
        with subprocess.Popen(
            argv, env=env, stdin=orders, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process:
            try:
                yield process, errors
            except BaseException:
                process.terminate()
                raise
