"""Who may start now: how many at once, processors, memory, and GPUs whole or shared."""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from entries import Entry

ROUNDING = 1e-9


class Room:
    """What is free. Asked in the order of the queue: nobody overtakes who waits for the same."""

    def __init__(
        self,
        held: Iterable[Entry],
        *,
        cpus: float,
        memory_mib: float | None,
        busy_gpus: Callable[[], set[str]],
    ) -> None:
        self.free: dict[str, float] = {"cpus": cpus, "MiB memory": memory_mib or math.inf}
        self.running: dict[str, int] = {}
        """How many run, by the cap they count for."""
        self.used: dict[str, float] = {}
        """What of each GPU is given."""
        self.busy_gpus = busy_gpus
        self.awaited: set[str] = set()
        """What somebody earlier waits for: processors, memory, or GPUs by their id."""
        for entry in held:
            self.take(entry)

    def take(self, entry: Entry) -> None:
        """Count what a run holds."""
        for cap in entry.caps:
            self.running[cap] = self.running.get(cap, 0) + 1
        for kind, wanted in _amounts(entry):
            self.free[kind] -= wanted
        for device in entry.devices or ():
            self.used[device] = self.used.get(device, 0.0) + min(1.0, entry.gpus)

    def place(self, entry: Entry) -> Entry | str:
        """The run with the GPUs that it may have, or why it cannot start now, in words.

        What it then waits for is kept for it.
        """
        for cap, (most, meaning) in entry.caps.items():
            if self.running.get(cap, 0) >= most:
                return f"{meaning} lets {most} run at once"
        for kind, wanted in _amounts(entry):
            if kind in self.awaited or wanted > self.free[kind] + ROUNDING:
                self.awaited.add(kind)
                return f"it needs {wanted:g} {kind}, {max(0, self.free[kind]):g} are free"
        if not entry.gpus:
            return entry
        devices = self.find_devices(entry)
        if devices is not None:
            return entry.with_devices(devices)
        waits_behind = not self.awaited.isdisjoint(entry.allowed)
        self.awaited.update(entry.allowed)
        if waits_behind:
            return "another run waits for GPUs before it"
        return f"it needs {entry.gpus:g} GPU, too few are free"

    def find_devices(self, entry: Entry) -> list[str] | None:
        """Whole GPUs that nobody has, or the fullest that has room for a fraction."""
        share = min(1.0, entry.gpus)
        room = [
            device
            for device in entry.allowed
            if device not in self.awaited and self.used.get(device, 0.0) + share <= 1 + ROUNDING
        ]
        # Asking who uses them is slow.
        if entry.auto and len(room) >= entry.gpus:
            busy = self.busy_gpus()
            room = [device for device in room if device not in busy]
        if entry.gpus < 1:
            return [max(room, key=lambda device: self.used.get(device, 0.0))] if room else None
        number = math.ceil(entry.gpus)
        return room[:number] if len(room) >= number else None


def _amounts(entry: Entry) -> list[tuple[str, float]]:
    """What of the countable it needs, of what it asked for at all."""
    wanted = (("cpus", entry.cpus), ("MiB memory", entry.memory_mib))
    return [(kind, amount) for kind, amount in wanted if amount]
