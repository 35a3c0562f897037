"""ship.sh, bring.sh and run.sh with them, in every shell that a node may have."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from runfolder import Writer
from tests.conftest import eventually, require_program
from tests.node.workshop import NODE, ORDINARY_PATH, is_alive, make_job, read_events
from tests.stubs import SHELLS, write_program

if TYPE_CHECKING:
    from collections.abc import Iterator

# Counts its calls, and copies between folders as the real one would.
TOOL = """\
#!/bin/sh
case $1 in version) exit 0 ;; esac
echo "$*" >>"$0.calls"
[ ! -e "$0.broken" ] || { echo "something went wrong" >&2; exit 1; }
while [ -e "$0.hangs" ]; do sleep 0.02; done
for word do before=$last; last=$word; done
case $last in
bay:*) mkdir -p "$STORE/${last#bay:}" && cp -R "$before/." "$STORE/${last#bay:}/" ;;
*) cp -R "$STORE/${before#bay:}/." "$last/" ;;
esac
"""


@dataclass
class Yard:
    """Runs as one shell runs them, and a folder that is their object storage."""

    shell: list[str]
    folder: Path
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def tools(self) -> Path:
        return self.folder / "tools"

    def use_tool(self) -> Path:
        """Have a program called rclone, and a store that only it knows."""
        return write_program(self.tools / "rclone", TOOL)

    def calls(self) -> list[str]:
        path = self.tools / "rclone.calls"
        return path.read_text().splitlines() if path.exists() else []

    def make(self, script: str, *, run: str = "run", carriage: str = "", **fields: Any) -> Path:
        """A run's folder."""
        path = f"{self.tools}:{ORDINARY_PATH}"
        variables = {"PATH": path, "STORE": str(self.store), "HOME": str(self.folder)}
        private = {"environment": variables, "umask": "022", "secrets": {}, **fields.pop("own", {})}
        made = {**make_job(run, **fields), "target": "desk", "root": str(self.root)}
        job = {**made, "script": script, "carriage": carriage}
        folder = self.root / "runs" / run
        folder.parent.mkdir(parents=True, exist_ok=True)
        Writer(private, ahead=False).write(str(folder), str(folder / "work"), job, "")
        return folder

    @property
    def node(self) -> Path:
        """The programs of the node, which start one another with this shell."""
        place = self.folder / "node"
        if not place.exists():
            place.mkdir()
            for path in (*NODE.glob("*.sh"), *NODE.glob("*.py")):
                text = path.read_text().replace("/bin/sh", str(place / "shell"))
                (place / path.name).write_text(text)
            write_program(place / "shell", f'#!/bin/sh\nexec {" ".join(self.shell)} "$@"\n')
        return place

    def start(self, folder: Path) -> subprocess.Popen[bytes]:
        """Begin its first attempt, in a session of its own."""
        process = subprocess.Popen(
            [*self.shell, str(self.node / "run.sh"), str(folder), "1"],
            env={"PATH": ORDINARY_PATH},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def run(self, folder: Path) -> int:
        """Run it to its end."""
        return self.start(folder).wait(60)

    def ship_to(self, url: str = "", every: float | str = 30) -> str:
        """What env.sh says of where outputs go."""
        place = url or f"file://{self.store}/lab"
        return f'bay_ship={shlex.quote(place)}/"$BAY_RUN_ID"\nbay_ship_every={every}\nbay_store=\n'


@pytest.fixture(params=SHELLS)
def yard(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Yard]:
    """A folder for runs in each shell; what is left running is ended."""
    shell = SHELLS[request.param]
    made = Yard([require_program(shell[0]), *shell[1:]], tmp_path)
    made.tools.mkdir()
    yield made
    for process in made.started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def bring(name: str, source: str, *, kept: str = "", at: str = "", ro: str = "") -> str:
    """What env.sh says of a folder."""
    words = " ".join(map(shlex.quote, [name, source, kept, at, ro, ""]))
    return f'bay_launch=tag\nbay_folders=1\neach_folder() {{\n:\n"$1" {words}\n}}\n'


def log_of(folder: Path) -> str:
    return (folder / "attempts/1/log-0.txt").read_text()


def events_of(folder: Path) -> dict[str, dict[str, Any]]:
    return {event["event"]: event for event in read_events(folder)}


def test_shipped_at_the_end(yard: Yard) -> None:
    """What it wrote, its log and the record of its end are there afterwards, and nothing secret."""
    script = 'echo said; echo 1 >"$BAY_OUT/a"; mkdir -p results; echo 2 >results/b; exit 3'
    folder = yard.make(
        script,
        carriage=yard.ship_to(),
        outputs=["results"],
        secrets=["KEY"],
        own={"secrets": {"KEY": "hush"}},
    )

    assert yard.run(folder) == 3

    there = yard.store / "lab" / "run"
    assert (there / "out/a").read_text() == "1\n"
    assert (there / "out/results/b").read_text() == "2\n"
    assert (there / "attempts/1/log-0.txt").read_text() == "said\n"
    assert json.loads((there / "job.json").read_text())["run_id"] == "run"
    assert '"code":3' in (there / "attempts/1/events.jsonl").read_text()
    assert events_of(folder)["shipped"]["to"] == f"file://{yard.store}/lab/run"
    names = {path.name for path in there.rglob("*")}
    assert not names & {"env.sh", "secrets.sh", "command.sh", "claim", "why"}
    assert not [path for path in there.rglob("*") if path.is_file() and "hush" in path.read_text()]


def test_shipped_meanwhile(yard: Yard) -> None:
    """What a program has written so far is there while it runs, also in folders that move later."""
    script = "mkdir results; echo 1 >results/a; echo said; while [ ! -e go ]; do sleep 0.02; done"
    folder = yard.make(script, carriage=yard.ship_to(every=1), outputs=["results"])
    there = yard.store / "lab" / "run"
    process = yard.start(folder)

    eventually((there / "out/results/a").exists)
    eventually((there / "attempts/1/log-0.txt").exists)
    assert (folder / "work/results").is_dir()
    assert "exit" not in events_of(folder)
    (folder / "work/go").touch()
    assert process.wait(60) == 0
    assert "shipped" in events_of(folder)


WANTED = r"""
bay_ship_only=1
find_wanted() {
find . -type f \( -path './*.json' -o -path './best/*' \) "$@"
}
"""


def test_only_what_is_wanted(yard: Yard) -> None:
    """Of the outputs only those travel that a pattern names, in any folder; all records do."""
    script = """
echo said
mkdir -p results/deep "$BAY_OUT/best" "$BAY_OUT/more"
echo 1 >"$BAY_OUT/a.json"; echo 2 >"$BAY_OUT/best/it's"; echo 3 >"$BAY_OUT/more/c"
echo 4 >results/deep/d.json; echo 5 >results/e
"""
    folder = yard.make(script, carriage=yard.ship_to() + WANTED, outputs=["results"])

    assert yard.run(folder) == 0

    there = yard.store / "lab" / "run"
    found = {
        str(path.relative_to(there / "out"))
        for path in (there / "out").rglob("*")
        if path.is_file()
    }
    assert found == {"a.json", "best/it's", "results/deep/d.json"}
    assert (there / "attempts/1/log-0.txt").read_text() == "said\n"


def test_only_what_is_wanted_meanwhile(yard: Yard) -> None:
    """Folders that move at the end are looked through, too."""
    script = "mkdir results; echo 1 >results/a.json; echo 2 >results/b; until [ -e go ]; do :; done"
    carriage = yard.ship_to(every=1) + WANTED
    folder = yard.make(script, carriage=carriage, outputs=["results"])
    there = yard.store / "lab" / "run"
    process = yard.start(folder)

    eventually((there / "out/results/a.json").exists)
    assert not (there / "out/results/b").exists()
    (folder / "work/go").touch()
    assert process.wait(60) == 0


def test_only_at_the_end(yard: Yard) -> None:
    """Without a period nothing is copied before the end."""
    script = "echo 1 >$BAY_OUT/a; sleep 1.5; ls $STORE >$BAY_OUT/seen 2>&1 || true"
    folder = yard.make(script, carriage=yard.ship_to(every=""))

    assert yard.run(folder) == 0
    assert "lab" not in (yard.store / "lab/run/out/seen").read_text()


def test_term_ships_the_last_file(yard: Yard) -> None:
    """A run that is told to end tells its program first, and then copies what that wrote."""
    script = """
trap 'echo last >"$BAY_OUT/last"; exit 5' TERM
echo ready
while :; do sleep 0.02; done
"""
    folder = yard.make(script, carriage=yard.ship_to())
    process = yard.start(folder)
    eventually(lambda: (folder / "attempts/1/log-0.txt").exists() and "ready" in log_of(folder))

    process.send_signal(signal.SIGTERM)

    assert process.wait(60) == 5
    assert (yard.store / "lab/run/out/last").read_text() == "last\n"
    assert '"code":5' in (yard.store / "lab/run/attempts/1/events.jsonl").read_text()


def test_copy_under_way_is_ended_first(yard: Yard) -> None:
    """A copy that hangs when the program ends is ended, and the last one is a fresh one."""
    tool = yard.use_tool()
    hangs = tool.with_name("rclone.hangs")
    hangs.touch()
    script = f"while [ ! -e go ]; do sleep 0.02; done; rm {hangs}; echo late >$BAY_OUT/late"
    folder = yard.make(
        script, carriage='bay_ship=gs://lab/"$BAY_RUN_ID"\nbay_ship_every=1\nbay_store=\n'
    )
    (folder / "out/early").touch()
    process = yard.start(folder)
    eventually(yard.calls)
    (folder / "work/go").touch()

    assert process.wait(60) == 0
    assert (yard.store / "lab/run/out/late").exists()
    assert events_of(folder)["shipped"]["by"] == "rclone"


def test_unshipped(yard: Yard) -> None:
    """A copy that fails is recorded with the tool's words, and the run's own code stays."""
    yard.use_tool().with_name("rclone.broken").touch()
    folder = yard.make("exit 4", carriage=yard.ship_to("gs://lab"))

    assert yard.run(folder) == 4

    events = events_of(folder)
    assert events["unshipped"]["why"] == "something went wrong"
    assert events["exit"]["ships"] == 1
    assert "shipped" not in events


def test_nothing_to_ship_with(yard: Yard) -> None:
    """A node without any tool says so in the record."""
    folder = yard.make("exit 0", carriage=yard.ship_to("gs://lab"))

    assert yard.run(folder) == 0
    assert "neither bay" in events_of(folder)["unshipped"]["why"]


def test_no_process_is_left(yard: Yard) -> None:
    """Nothing of the copying outlives the run."""
    folder = yard.make("sleep 0.2", carriage=yard.ship_to(every=1))
    process = yard.start(folder)
    assert process.wait(60) == 0

    marks = f"BAY_OUT={folder}/out".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if marks in path.read_bytes().split(b"\0") and is_alive(int(path.parent.name)):
                found.append(path)
    assert not found


def test_plain_run_starts_nothing(yard: Yard) -> None:
    """A run without folders or a place to ship to reads none of these programs."""
    folder = yard.make("exit 0")

    assert yard.run(folder) == 0
    assert set(events_of(folder)) == {"started", "exit"}
    assert "ships" not in events_of(folder)["exit"]


def test_path_is_linked(yard: Yard) -> None:
    """A folder of the machine is found in the working folder, in the place of what the code has."""
    there = yard.folder / "there"
    there.mkdir()
    (there / "x").write_text("data\n")
    folder = yard.make("cat deep/data/x", carriage=bring("deep/data", "~/there"))

    assert yard.run(folder) == 0
    assert log_of(folder) == "data\n"


def test_missing_path(yard: Yard) -> None:
    """A folder that is not there fails the set-up in one line, which the record has, too."""
    folder = yard.make("echo never", carriage=bring("data", "/no/such"))

    assert yard.run(folder) == 1
    assert log_of(folder) == "launchbay: there is no folder /no/such here, which is to be `data`\n"
    ended = events_of(folder)["exit"]
    assert ended["phase"] == "setup"
    assert ended["why"] == "there is no folder /no/such here, which is to be `data`"


def test_fetched_once(yard: Yard) -> None:
    """Of many runs that want the same folder one fetches it, and all find it whole."""
    yard.use_tool()
    (yard.store / "lab/data").mkdir(parents=True)
    (yard.store / "lab/data/x").write_text("data\n")
    carriage = bring("data", "gs://lab/data", kept="k3pt", ro="ro")
    folders = [yard.make("cat data/x", run=f"run-{n}", carriage=carriage) for n in range(5)]
    processes = [yard.start(folder) for folder in folders]

    assert [process.wait(60) for process in processes] == [0] * 5
    assert [log_of(folder).splitlines()[-1] for folder in folders] == ["data"] * 5
    assert len(yard.calls()) == 1
    assert not (yard.root / "data/k3pt/x").stat().st_mode & 0o222


def test_another_launch_asks_again(yard: Yard) -> None:
    """A later launch has the tool look for news; where that fails, what is whole is used."""
    tool = yard.use_tool()
    (yard.store / "lab/data").mkdir(parents=True)
    (yard.store / "lab/data/x").write_text("old\n")
    carriage = bring("data", "gs://lab/data", kept="k3pt")
    assert yard.run(yard.make("cat data/x", carriage=carriage)) == 0
    (yard.store / "lab/data/x").write_text("new\n")
    later = carriage.replace("=tag", "=later")

    second = yard.make("cat data/x", run="second", carriage=later)
    assert yard.run(second) == 0
    assert log_of(second) == "new\n"

    tool.with_name("rclone.broken").touch()
    third = yard.make("cat data/x", run="third", carriage=later.replace("=later", "=last"))
    assert yard.run(third) == 0
    assert "was not asked for news (something went wrong)" in log_of(third)
    assert log_of(third).endswith("new\n")


def test_fetch_that_fails(yard: Yard) -> None:
    """A fetch that fails fails the set-up with the tool's words, and the next run tries again."""
    tool = yard.use_tool()
    tool.with_name("rclone.broken").touch()
    (yard.store / "lab/data").mkdir(parents=True)
    (yard.store / "lab/data/x").touch()
    carriage = bring("data", "gs://lab/data", kept="k3pt")
    folder = yard.make("echo never", carriage=carriage)

    assert yard.run(folder) == 1
    why = events_of(folder)["exit"]["why"]
    assert why == "gs://lab/data could not be fetched by rclone: something went wrong"

    tool.with_name("rclone.broken").unlink()
    assert yard.run(yard.make("test -e data/x", run="second", carriage=carriage)) == 0


def test_nothing_at_the_source(yard: Yard) -> None:
    """A place where nothing is fails the set-up: a name may be mistyped."""
    yard.use_tool()
    (yard.store / "lab/dada").mkdir(parents=True)
    folder = yard.make("echo never", carriage=bring("data", "gs://lab/dada", kept="k3pt"))

    assert yard.run(folder) == 1
    assert events_of(folder)["exit"]["why"] == "there is nothing at gs://lab/dada"


def test_term_while_fetching(yard: Yard) -> None:
    """A run that is cancelled while it fetches ends at once, with nothing left of the tool."""
    yard.use_tool().with_name("rclone.hangs").touch()
    folder = yard.make("echo never", carriage=bring("data", "gs://lab/data", kept="k3pt"))
    process = yard.start(folder)
    eventually(yard.calls)

    process.send_signal(signal.SIGTERM)

    assert process.wait(60) == 143
    assert events_of(folder)["exit"]["signal"] == "TERM"
    assert not (yard.root / "data/k3pt.whole").exists()
    eventually(lambda: not _group(process.pid))


def test_link_at_a_path(yard: Yard) -> None:
    """An absolute path leads to the folder, too; what somebody else has there stays."""
    there = yard.folder / "there"
    there.mkdir()
    (there / "x").write_text("data\n")
    at = yard.folder / "new" / "place"
    carriage = bring("data", str(there), at=str(at))
    assert yard.run(yard.make(f"cat {at}/x", carriage=carriage)) == 0
    assert yard.run(yard.make(f"cat {at}/x", run="again", carriage=carriage)) == 0

    taken = yard.folder / "taken"
    taken.mkdir()
    folder = yard.make("echo never", run="third", carriage=bring("data", str(there), at=str(taken)))
    assert yard.run(folder) == 1
    assert "is there already and is not ours" in events_of(folder)["exit"]["why"]
    assert not any(taken.iterdir())


def test_image_sees_folders(yard: Yard) -> None:
    """A container is shown what is linked outside of the root, also at its other path."""
    words = yard.folder / "words"
    write_program(
        yard.tools / "apptainer", f'#!/bin/sh\nprintf "%s\\n" "$@" >{words}\nexec cat data/x\n'
    )
    there = yard.folder / "there"
    there.mkdir()
    (there / "x").write_text("data\n")
    image = "bay_image=/lab.sif\neach_bind() { :; }\n"
    carriage = bring("data", str(there), at="/inside", ro="ro") + image
    folder = yard.make("true", carriage=carriage)

    assert yard.run(folder) == 0
    assert log_of(folder) == "data\n"
    said = words.read_text().splitlines()
    assert f"{there}:{there}:ro" in said
    assert f"{there}:/inside:ro" in said
    assert not Path("/inside").exists()


def _group(pid: int) -> bool:
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    return True
