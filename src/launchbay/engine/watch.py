"""Asking targets what became of runs: what silence and loss mean."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from launchbay.core.errors import TargetError
from launchbay.core.run import Run, State, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from launchbay.core.backend import Backend

SECOND_LOOK_S = 60.0
DAY_S = 24 * 3600.0


@dataclass(frozen=True, kw_only=True)
class Look:
    """What one look saw."""

    runs: tuple[Run, ...]
    """The runs asked for, in their order, as they are now."""
    news: tuple[Run, ...]
    """Those that changed."""
    silences: Mapping[str, str]
    """Targets that did not answer, and what they said instead."""

    def amended(self, known: Mapping[str, Run]) -> Look:
        """The look, with what is known better of some runs, by their ids."""
        return replace(
            self,
            runs=tuple(known.get(run.id, run) for run in self.runs),
            news=tuple(known.get(run.id, run) for run in self.news),
        )

    def compared_with(self, before: Sequence[Run]) -> Look:
        """The look, with what else has changed since the runs were last seen as news too."""
        told = {run.id for run in self.news}
        also = [
            new
            for old, new in zip(before, self.runs, strict=True)
            if new.id not in told and _is_news(old, new)
        ]
        return replace(self, news=(*self.news, *also))


def look(
    runs: Sequence[Run],
    reopen: Callable[[Run], Backend],
    *,
    clock: Callable[[], float] = time.time,
    recall: Callable[[list[Run], Backend], list[Run] | None] = lambda _, __: None,
) -> Look:
    """Ask after every run that may have news, one question a place, places in parallel.

    Silence is reported, never interpreted: the last status of those runs stands.

    Args:
        runs: whom to ask after.
        reopen: the backend of a run.
        clock: what time it is.
        recall: runs as another bay has just seen them; None when it is our turn to ask.
    """
    groups = by_place(
        run for run in runs if run.native_id and (not run.state.final or run.state is State.LOST)
    )
    seen: dict[str, Run] = {}
    silences: dict[str, str] = {}

    def ask(group: list[Run]) -> None:
        try:
            statuses = reopen(group[0]).poll([run.handle for run in group])
        except TargetError as err:
            silences[group[0].target] = _in_one_line(err)
            return
        now = clock()
        seen.update({run.id: judge(run, statuses[run.handle], now) for run in group})

    asked = []
    for group in groups:
        recalled = recall(group, reopen(group[0]))
        if recalled is None:
            asked.append(group)
        else:
            seen.update({run.id: run for run in recalled})
    if len(asked) == 1:
        ask(asked[0])
    elif asked:
        # Dear to load, and one place is the rule.
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

        with ThreadPoolExecutor(max_workers=min(8, len(asked))) as pool:
            list(pool.map(ask, asked))
    now_runs = tuple(seen.get(run.id, run) for run in runs)
    news = tuple(new for old, new in zip(runs, now_runs, strict=True) if _is_news(old, new))
    return Look(runs=now_runs, news=news, silences=silences)


def by_place(runs: Iterable[Run]) -> list[list[Run]]:
    """The runs in groups that one backend can answer for."""
    groups: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.target, *sorted(run.place.values())), []).append(run)
    return list(groups.values())


def ended_lately(runs: Iterable[Run], now: float) -> list[Run]:
    """What ended in the last day, when perhaps nobody was there to try again."""
    since = now - DAY_S
    # Of what was lost nobody knows when.
    return [run for run in runs if (run.status.ended_at or run.suspect_since or 0.0) > since]


def judge(run: Run, status: Status, now: float) -> Run:
    """The run as it is after its target said `status`.

    Lost is believed at a second look, a minute after the first; whatever the run itself
    recorded later supersedes it.
    """
    if status.state is not State.LOST:
        # A target that goes on by itself counts on.
        number = max(run.attempt, status.attempt or 0)
        status = replace(status, attempt=None)
        return replace(run, status=status, attempt=number, suspect_since=None, seen_at=now)
    if run.state is State.LOST:
        return replace(run, seen_at=now)
    if run.suspect_since is None:
        return replace(run, suspect_since=now, seen_at=now)
    if now - run.suspect_since < SECOND_LOOK_S:
        return replace(run, seen_at=now)
    lost = replace(status, started_at=run.status.started_at, metrics=run.status.metrics)
    return replace(run, status=lost, seen_at=now)


def _in_one_line(err: TargetError) -> str:
    return f"{str(err).rstrip('.')}; {err.hint}" if err.hint else str(err)


def went_on(attempt: int) -> Status:
    """What stands of an attempt that the target itself followed with a further one."""
    return Status(state=State.CANCELLED, reason=f"it went on as attempt {attempt}")


def removed(run: Run) -> Run:
    """A run that no target knows, once the index does not know it either."""
    return replace(run, status=Status(state=State.CANCELLED, reason="it was removed"))


def _is_news(old: Run, new: Run) -> bool:
    return (old.status, old.suspect_since) != (new.status, new.suspect_since)
