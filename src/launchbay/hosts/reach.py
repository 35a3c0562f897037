"""From a target's `host:` to the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launchbay.hosts.local import LocalHost

if TYPE_CHECKING:
    from launchbay.core.host import Host


def reach(host: str, target: str) -> Host:
    """The machine that `ssh HOST` reaches; without a name it is this one.

    Args:
        host: as `ssh` takes it.
        target: the target it is for, named in what is said about a login.
    """
    if not host:
        return LocalHost()
    # Costs as much as all the rest, and most targets are this machine.
    from launchbay.hosts.ssh import SSHHost  # noqa: PLC0415

    return SSHHost(host, target=target)
