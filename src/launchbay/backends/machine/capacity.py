"""What a machine has, and what runs may ask of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from launchbay.core.backend import Room
from launchbay.core.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from launchbay.core.backend import Facts
    from launchbay.core.job import Job, Resources


@dataclass(frozen=True, kw_only=True)
class Limits:
    """A target on one machine: what was seen of it, and what its entry says."""

    target: str
    facts: Facts | None
    parallel: int | None
    """At most so many runs of this target at once."""
    devices: tuple[str, ...] | None
    """The GPUs to give out; `None` takes all but those that others use."""

    def check(self, job: Job) -> None:
        """Raise `Unsupported` for what this machine can never do."""
        need, facts = job.resources, self.facts
        if need.nodes != 1:
            raise Unsupported(
                f"`{self.target}` is one machine; `{job.run_id}` wants {need.nodes} nodes",
                hint="leave `nodes` out, or choose a target with several",
            )
        if need.processes != 1:
            raise Unsupported(
                f"`{self.target}` starts a command once; `{job.run_id}` wants {need.processes} "
                "processes",
                hint="leave `processes` out; torchrun and the like start several by themselves",
            )
        if facts is None:
            return
        if missing := self._missing_devices():
            raise Unsupported(
                f"`{self.target}` names GPU `{missing[0]}`, which is not there",
                hint=f"correct its `devices:`; there are {', '.join(dict(facts.gpus))}",
            )
        devices = self._devices(need)
        others = self._all_devices() if facts.gpus else ()
        if need.gpus is None and others and not devices:
            # Without a word of how many it would run on none.
            names = ", ".join(dict.fromkeys(name for _, name in others))
            raise Unsupported(
                f"`{self.target}` has no GPU that `{job.run_id}` wants; it has {names}",
                hint="correct `gpu_type`, or `--gpus 0` runs without; what is meant for a cluster "
                "alone belongs into its target",
            )
        if need.gpus and need.gpus > len(devices):
            kind = f" of type {' or '.join(need.gpu_types)}" if need.gpu_types else ""
            there = f"{len(devices) or 'no'} GPU{'s' * (len(devices) != 1)}{kind}"
            fewer = f"ask for at most `--gpus {len(devices)}`" if devices else "leave `gpus` out"
            raise Unsupported(
                f"`{self.target}` has {there}; `{job.run_id}` wants {need.gpus:g}",
                hint=f"{fewer}, or choose another target with `--target`",
            )
        for word, wanted, have in (
            ("cpus", need.cpus, facts.cpus),
            ("memory", need.memory_mib, facts.memory_mib),
        ):
            if wanted and have and wanted > have:
                unit = " MiB" if word == "memory" else ""
                raise Unsupported(
                    f"`{self.target}` has {have}{unit} of `{word}`; `{job.run_id}` wants "
                    f"{wanted:g}{unit}",
                    hint=f"ask for less with `--{word}`",
                )

    def render_needs(self, need: Resources) -> dict[str, Any]:
        """What the queue has to know of a run's needs."""
        devices = self._devices(need)
        # On a machine with GPUs a run gets one unless it says otherwise.
        gpus = need.gpus if need.gpus is not None else float(bool(devices))
        needs: dict[str, Any] = {
            "cpus": need.cpus,
            "memory_mib": need.memory_mib,
            "time_s": need.time_limit.total_seconds() if need.time_limit else None,
        }
        if gpus:
            needs |= {"gpus": gpus, "devices": devices, "auto": self.devices is None}
        elif self._all_devices():
            needs["hide_gpus"] = True
        return needs

    def render_caps(self, job: Job) -> dict[str, list[int | str]]:
        """How many may run at once, by what they have in common."""
        caps: dict[str, list[int | str]] = {}
        if job.parallel is not None:
            sweep = f"sweep {job.labels.get('project', '')} {job.experiment}"
            caps[sweep] = [job.parallel, f"`parallel` of `{job.experiment}`"]
        if self.parallel is not None:
            caps[f"target {self.target}"] = [
                self.parallel,
                f"`parallel` of target `{self.target}`",
            ]
        # A GPU is a limit of its own.
        if not caps and not self.render_needs(job.resources).get("gpus"):
            cpus = (self.facts.cpus if self.facts else None) or 1
            caps["host"] = [
                max(1, cpus // 4),
                "this machine (a quarter of its cores; `--parallel`)",
            ]
        return caps

    def _devices(self, need: Resources) -> list[str]:
        """Ids of the GPUs that would do."""
        wanted = [word.lower() for word in need.gpu_types]
        denied = [word.lower() for word in need.gpu_types_denied]
        return [
            index
            for index, name in self._all_devices()
            if (not wanted or any(word in name.lower() for word in wanted))
            and not any(word in name.lower() for word in denied)
        ]

    def _missing_devices(self) -> list[str]:
        """Ids of GPUs that the target names and that are not seen, where any are."""
        seen = dict(self.facts.gpus) if self.facts else {}
        return [index for index in self.devices or () if seen and index not in seen]

    def _all_devices(self) -> Sequence[tuple[str, str]]:
        seen = self.facts.gpus if self.facts else ()
        if self.devices is None:
            return seen
        names = dict(seen)
        return [(index, names.get(index, "")) for index in self.devices]


def parse_room(line: Mapping[str, Any]) -> Room:
    """What pack.py's `capacity` says of the machine."""
    total = {word: amount for word, amount in line["total"].items() if amount is not None}
    held = line["held"]
    others = len(line["busy_gpus"])
    free = {word: max(0, amount - held[word]) for word, amount in total.items()}
    free["gpus"] = max(0, free["gpus"] - others)
    notes = [f"{line['running']} of your runs run here"] if line["running"] else []
    notes += [f"others use {others} GPU"] if others else []
    return Room(
        name=line["host"],
        total=total,
        free=free,
        waiting=line["waiting"],
        users={line["user"]: held} if line["running"] else {},
        note="; ".join(notes),
    )
