"""A person's `bay` with a target `lab` on a real Slurm, and a folder that every node sees."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.conftest import eventually, require_program
from tests.real.slurm_cluster import NODES
from tests.stubs import write_program

from launchbay.hosts.ssh import SSHHost

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Bay, Said
    from tests.real.conftest import Sshd
    from tests.real.slurm_cluster import SlurmCluster

MARK = 'echo "$BAY_RUN_ID $BAY_ATTEMPT" >>{marks}'
"""What a run does to be counted; a line so short arrives as a whole."""


@dataclass(frozen=True)
class SlurmDesk:
    """`bay`, the cluster that it speaks to, and what both can see."""

    bay: Bay
    cluster: SlurmCluster
    sshd: Sshd
    shared: Path
    over_ssh: bool

    @property
    def root(self) -> Path:
        return self.shared / "bay"

    @property
    def marks(self) -> list[str]:
        """What began: run and attempt, each time that it did."""
        path = self.shared / "marks"
        return path.read_text().splitlines() if path.exists() else []

    def write(self, command: str, **keys: Any) -> None:
        """An experiment whose runs leave a mark and then do the rest; `look` is how often."""
        target = {
            "kind": "slurm",
            "root": str(keys.pop("root", self.root)),
            "look_every": keys.pop("look", "0s"),
            **({"host": "box"} if self.over_ssh else {}),
            **keys.pop("site", {}),
        }
        mark = MARK.format(marks=self.shared / "marks")
        text = "".join(f"  {line}\n" for line in [mark, *command.splitlines()])
        lines = [f"{key}: {_flow(value)}\n" for key, value in keys.items()]
        head = f"target: lab\ntargets: {{lab: {_flow(target)}}}\n"
        self.bay.write("bay.yaml", f"{head}{''.join(lines)}command: |\n{text}")

    def rows(self) -> list[dict[str, Any]]:
        """Every run, as the target has it now."""
        return list(self.bay.json("ls", "--all"))

    def row(self, **params: str) -> dict[str, Any]:
        """The run of these parameters, as the target has it now."""
        (found,) = [row for row in self.rows() if params.items() <= row["params"].items()]
        return found

    def await_states(self, *states: str) -> list[dict[str, Any]]:
        """The runs, once each is in one of the states."""
        seen: list[dict[str, Any]] = []

        def all_there() -> bool:
            seen[:] = self.rows()
            return bool(seen) and all(row["state"] in states for row in seen)

        try:
            eventually(all_there, within_s=180)
        except pytest.fail.Exception as err:
            told = [(row["id"], row["state"], row["reason"]) for row in seen]
            nodes = self.cluster.run("scontrol", "show", "node", "-o").stdout
            logs = "\n".join(self.cluster.said(name)[-1500:] for name in ("n1", "n2"))
            pytest.fail(f"{err}: {told}\n{nodes}\n{logs}")
        return seen

    def await_marks(self, number: int) -> None:
        """Wait until so many attempts have begun."""
        eventually(lambda: len(self.marks) >= number)

    def once(self, number: int) -> None:
        """So many runs began, and each only once."""
        ids = sorted(row["id"] for row in self.rows())
        assert len(ids) == number
        assert sorted(self.marks) == [f"{one} 1" for one in ids]

    def put_before(self, program: str, text: str, **words: str) -> Path:
        """Have sessions over SSH find this program first; returns the folder that it is in.

        In the text stand `{folder}`, `{sbatch}` (the real one) and the words given.
        """
        folder = self.shared / "stub"
        known = {"folder": folder, "sbatch": require_program("sbatch"), **words}
        write_program(folder / program, text.format(**known))
        folder.chmod(0o777)
        path = f"{folder}:{os.environ['PATH']}"
        self.sshd.give({**self.cluster.environment(), "PATH": path})
        return folder

    def hold_nodes(self) -> None:
        """Have whatever comes wait."""
        for name in NODES:
            told = ("state=drain", "reason=wait")
            self.cluster.run("scontrol", "update", f"nodename={name}", *told)

    def free_nodes(self) -> None:
        """Have what waits start."""
        for name in NODES:
            self.cluster.resume_node(name)

    def said(self, *words: str) -> Said:
        """A command that fails and says why in one line."""
        done = self.bay(*words, code=1)
        assert done.err.count("error: ") == 1, done
        assert "Traceback" not in done.err
        return done


@contextmanager
def slurm_desk(
    bay: Bay, cluster: SlurmCluster, sshd: Sshd, control: Path, *, over_ssh: bool = True
) -> Iterator[SlurmDesk]:
    """`bay` with a folder that the account may write, here or over SSH."""
    shared = Path(tempfile.mkdtemp(prefix="bay-desk-", dir="/tmp"))
    shared.chmod(0o755)
    if over_ssh:
        shutil.chown(shared, sshd.account)
    bay.extra |= {"BAY_SSH_CONFIG": str(sshd.config), "XDG_RUNTIME_DIR": str(control)}
    try:
        yield SlurmDesk(bay, cluster, sshd, shared, over_ssh)
    finally:
        if over_ssh:
            SSHHost("box", config=sshd.config).close()
        cluster.cancel_all()
        eventually(cluster.empty)
        shutil.rmtree(shared, ignore_errors=True)


def _flow(value: Any) -> str:
    """A value as YAML on one line."""
    match value:
        case dict():
            return "{" + ", ".join(f"{key}: {_flow(one)}" for key, one in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(_flow, value)) + "]"
        case bool():
            return str(value).lower()
    return os.fspath(value) if isinstance(value, Path) else str(value)
