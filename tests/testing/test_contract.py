"""The promises of `Backend` and `Host`, kept by what ships with launchbay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.conftest import end_queue

from launchbay.backends.machine.backend import MachineBackend, MachineOptions
from launchbay.hosts.local import LocalHost
from launchbay.testing.contract import BackendContract, HostContract
from launchbay.testing.fakes import MemoryBackend

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from launchbay.core.backend import Backend
    from launchbay.core.host import Host


class TestMemory(BackendContract):
    """The backend in memory."""

    @pytest.fixture
    def backend(self) -> Backend:
        return MemoryBackend()

    def advance(self, backend: Backend) -> None:
        assert isinstance(backend, MemoryBackend)
        backend.work()


class TestMachine(BackendContract):
    """A queue on this machine."""

    @pytest.fixture
    def backend(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Backend]:
        state = tmp_path / "state"
        monkeypatch.setenv("XDG_STATE_HOME", str(state))
        options = MachineOptions(root=tmp_path / "bay", parallel=4)
        yield MachineBackend("here", options, LocalHost())
        end_queue(state)


class TestLocalHost(HostContract):
    """This machine as a host."""

    @pytest.fixture
    def host(self) -> Host:
        return LocalHost()
