"""How much a container asks for, and how Kubernetes writes it.

`DEFAULT` is what counts where nobody says anything, for runs and for `bay dev` alike; `SIDECAR` is
that of containers beside a run. The first tool's files get what they got there, `FIRST_TOOL`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import ceil
from typing import TYPE_CHECKING, Any

from launchbay.core.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Mapping

    from launchbay.core.job import Resources

GPU = "nvidia.com/gpu"
RATIO = 1.2
OWN = {"cpu": "cpus", "memory": "memory", "ephemeral-storage": "disk"}
"""Resources of Kubernetes itself, by the key that sets them here."""


@dataclass(frozen=True, kw_only=True)
class Amounts:
    """What one container asks for; processors and memory may grow to `ratio` times of it."""

    cpus: float = 1
    memory_mib: int = 4096
    disk_mib: int = 0
    gpus: int = 0
    gpu_key: str = GPU
    extra: Mapping[str, str] = field(default_factory=dict)
    ratio: float = RATIO

    def requests(self) -> dict[str, str]:
        """What the scheduler sets aside."""
        return self._render(1)

    def limits(self) -> dict[str, str]:
        """What it may use at most."""
        return self._render(self.ratio)

    def _render(self, ratio: float) -> dict[str, str]:
        # Rounded first: 5 × 1.2 is 6, not a hair more.
        found = {
            "cpu": render_cpus(self.cpus * ratio),
            "memory": f"{ceil(round(self.memory_mib * ratio, 6))}Mi",
        }
        if self.disk_mib:
            found["ephemeral-storage"] = f"{self.disk_mib}Mi"
        if self.gpus:
            found[self.gpu_key] = str(self.gpus)
        return found | dict(self.extra)


DEFAULT = Amounts()
FIRST_TOOL = Amounts(cpus=5, memory_mib=32 * 1024, disk_mib=100 * 1024)
SIDECAR = Amounts(memory_mib=1024)


def amounts_of(
    run_id: str, need: Resources, options: Mapping[str, Any], default: Amounts
) -> Amounts:
    """What a run's container asks for.

    Raises:
        Unsupported: for a part of a GPU, and for resources that have a key of their own.
    """
    gpu_key = _gpu_key(str(options.get("special_gpu") or ""))
    gpus = _whole_gpus(run_id, need.gpus or 0.0, options.get("shared"))
    _check_extra(need.extra, gpu_key if gpus else "")
    return replace(
        default,
        cpus=default.cpus if need.cpus is None else need.cpus,
        memory_mib=default.memory_mib if need.memory_mib is None else need.memory_mib,
        disk_mib=default.disk_mib if need.disk_mib is None else need.disk_mib,
        gpus=gpus,
        gpu_key=gpu_key,
        extra={name: str(need.extra[name]) for name in sorted(need.extra)},
        ratio=float(options.get("limit_ratio") or RATIO),
    )


def _gpu_key(special: str) -> str:
    """The resource of a GPU; `a100` is one of the same maker's.

    >>> _gpu_key(""), _gpu_key("a100"), _gpu_key("amd.com/gpu")
    ('nvidia.com/gpu', 'nvidia.com/a100', 'amd.com/gpu')
    """
    if not special:
        return GPU
    return special if "/" in special else f"nvidia.com/{special}"


def _whole_gpus(run_id: str, gpus: float, shared: object) -> int:
    share = _number(shared) if shared not in {None, ""} else 1.0
    if gpus == int(gpus) and (share == 1 or not gpus):
        return int(gpus)
    wanted = f"{gpus:g}" if gpus != int(gpus) else f"a share of {shared}"
    raise Unsupported(
        f"Kubernetes gives whole GPUs, and `{run_id}` wants {wanted}",
        hint="ask for `--gpus 1`; several runs on one, as by `shared:`, are not built yet",
    )


def _number(text: object) -> float:
    try:
        return float(str(text))
    except ValueError:
        return 0.0


def _check_extra(extra: Mapping[str, str], gpu_key: str) -> None:
    for name in extra:
        if key := OWN.get(name) or ("gpus" if name == gpu_key else ""):
            raise Unsupported(
                f"`extra: {{{name}: …}}` is a resource that has a key of its own",
                hint=f"set it with `{key}:`",
            )


def render_cpus(cpus: float) -> str:
    """Processors as Kubernetes writes them, in thousandths where they are not whole.

    >>> render_cpus(5 * 1.2), render_cpus(0.5), render_cpus(1.0001)
    ('6', '500m', '1001m')
    """
    thousandths = max(1, ceil(round(cpus * 1000, 6)))
    whole, rest = divmod(thousandths, 1000)
    return f"{thousandths}m" if rest else str(whole)
