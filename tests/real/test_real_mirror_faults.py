"""Mirroring through trouble: killed, and over a network that fails."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.conftest import STRESS, eventually
from tests.real.object_servers import FaultyProxy
from tests.sync.mirrors import BIG, Mirror

from launchbay.sync.folder_bucket import is_temporary
from launchbay.sync.object_bucket import ObjectBucket

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.real.object_servers import MotoServer, RcloneServer
    from typing_extensions import Buffer

    from launchbay.sync.bucket import BucketOptions

pytestmark = [pytest.mark.real, pytest.mark.slow]

KILLS = 100 if STRESS else 20
RANGE = 16 * 1024 * 1024
CHILD = Path(__file__).with_name("mirror_child.py")


def start(way: str, options: BucketOptions, folder: Path, memory: Path) -> subprocess.Popen[str]:
    """A process that mirrors."""
    argv = [
        # Whoever started the tests may have told them not to heed it.
        *("env", "--default-signal=INT"),
        sys.executable,
        str(CHILD),
        way,
        options.url,
        options.endpoint,
        str(folder),
        str(memory),
    ]
    return subprocess.Popen(
        argv, env={**os.environ, **options.env}, stdout=subprocess.PIPE, text=True
    )


def mirror(way: str, options: BucketOptions, folder: Path, memory: Path) -> Any:
    """What a process that mirrors says in the end."""
    with start(way, options, folder, memory) as process:
        out, _ = process.communicate(timeout=600)
    assert process.returncode == 0
    return json.loads(out)


def make_tree(chance: random.Random) -> dict[str, bytes]:
    """Small files and two big ones."""
    tree = {f"d{number % 5}/{number}": chance.randbytes(10_000) for number in range(150)}
    return {**tree, "big1": chance.randbytes(BIG), "big2": chance.randbytes(BIG)}


def kill_after(process: subprocess.Popen[str], number: int, folder: Path) -> bool:
    """Kill it when so many more files are in the folder, whole or not; whether it still ran."""
    wanted = count_files(folder) + number
    while process.poll() is None and count_files(folder) < wanted:
        time.sleep(0.001)
    process.kill()
    out, _ = process.communicate()
    return not out


def count_files(folder: Path) -> int:
    """How many there are."""
    return sum(len(files) for _, _, files in os.walk(folder))


def check_whole(found: Mapping[str, bytes], tree: Mapping[str, bytes]) -> None:
    """Whatever is under a final name is whole."""
    damaged = [
        name
        for name, data in found.items()
        if not is_temporary(name.rpartition("/")[2]) and tree[name] != data
    ]
    assert not damaged


def test_killed_on_the_way_up(rclone_server: RcloneServer, tmp_path: Path) -> None:
    """No object is ever a part of a file, and what had arrived whole is not sent again."""
    chance = random.Random(os.urandom(8))
    tree = make_tree(chance)
    options = rclone_server.fresh()
    here = Mirror(options, tmp_path / "here", tmp_path / "memory")
    here.write(tree)
    there = rclone_server.buckets / options.url.removeprefix("s3://")
    killed = 0
    for _ in range(KILLS // 2):
        process = start("up", options, here.folder, tmp_path / "memory")
        killed += kill_after(process, chance.randint(0, 90), there)
        check_whole(here.objects, tree)
        if set(here.objects) == set(tree):
            here.bucket.delete(chance.sample(sorted(tree), 80))
    arrived = set(here.objects)

    with FaultyProxy(rclone_server.url, {}) as proxy:
        said = mirror("up", proxy.before(options), here.folder, tmp_path / "memory")
        sent = [path for path in proxy.paths if path.startswith("PUT ")]

    assert said["failed"] == []
    assert here.objects == tree
    again = {path.partition("?")[0].split("/", 2)[2] for path in sent} & arrived
    assert not again
    assert mirror("up", options, here.folder, tmp_path / "memory")["sent"] == []
    assert killed


def test_killed_on_the_way_down(rclone_server: RcloneServer, tmp_path: Path) -> None:
    """No file is ever a part of an object, and what had arrived whole is not fetched again."""
    chance = random.Random(os.urandom(8))
    tree = make_tree(chance)
    options = rclone_server.fresh()
    source = Mirror(options, tmp_path / "source", tmp_path / "source.sqlite")
    source.write(tree)
    source.up()
    here = Mirror(options, tmp_path / "here", tmp_path / "memory")
    killed = 0
    for _ in range(KILLS // 2):
        process = start("down", options, here.folder, tmp_path / "memory")
        killed += kill_after(process, chance.randint(0, 90), here.folder)
        found = here.files
        check_whole(found, tree)
        if not set(tree) - set(found):
            for name in chance.sample(sorted(tree), 80):
                (here.folder / name).unlink()
    arrived = set(here.files)

    with FaultyProxy(rclone_server.url, {}) as proxy:
        said = mirror("down", proxy.before(options), here.folder, tmp_path / "memory")
        asked = [
            path for path in proxy.paths if path.startswith("GET ") and "list-type" not in path
        ]

    assert said["failed"] == []
    whole = {name for name in here.files if not is_temporary(name.rpartition("/")[2])}
    assert whole == set(tree)
    assert not {key for key in arrived if any(path.endswith(f"/{key}") for path in asked)}
    assert mirror("down", options, here.folder, tmp_path / "memory")["sent"] == []
    assert killed


def test_a_killed_download_goes_on(rclone_server: RcloneServer, tmp_path: Path) -> None:
    """The ranges that a killed process had finished are not asked for again."""
    options = rclone_server.fresh()
    data = random.Random(1).randbytes(4 * BIG)
    source = Mirror(options, tmp_path / "source", tmp_path / "source.sqlite")
    source.write({"big": data})
    source.up()
    here = Mirror(options, tmp_path / "here", tmp_path / "memory")

    with FaultyProxy(rclone_server.url, {"stall": 100}) as proxy:
        proxy.shares = {}
        process = start("down", proxy.before(options), here.folder, tmp_path / "memory")
        eventually(lambda: len(read_notes(here.folder)) > 2)
        proxy.shares = {"stall": 100}
        process.kill()
        process.communicate()
    finished = sum(min(RANGE, len(data) - number * RANGE) for number in read_notes(here.folder))
    assert set(here.files) & {"big"} == set()

    reading = Reading(options)
    here.bucket = reading
    here.down()

    assert here.files == {"big": data}
    assert reading.bytes == len(data) - finished


class Reading(ObjectBucket):
    """Counts what is read."""

    def __init__(self, options: BucketOptions) -> None:
        super().__init__(options)
        self.bytes = 0
        self._counting = threading.Lock()

    def read(self, key: str, **span: Any) -> Iterator[Buffer]:
        for chunk in super().read(key, **span):
            with self._counting:
                self.bytes += memoryview(chunk).nbytes
            yield chunk


def read_notes(folder: Path) -> list[int]:
    """Which ranges are noted as finished."""
    notes = list(folder.glob(".bay-*.part.done"))
    lines = notes[0].read_text().split("\n")[1:-1] if notes else []
    return [int(line.split()[0]) for line in lines]


def test_an_interrupted_process_ends_soon(rclone_server: RcloneServer, tmp_path: Path) -> None:
    """Ctrl-C ends it though the network hangs; beginnings stay, nothing under final names."""
    options = rclone_server.fresh()
    source = Mirror(options, tmp_path / "source", tmp_path / "source.sqlite")
    source.write({"big": bytes(BIG), **{f"f{number}": b"x" for number in range(40)}})
    source.up()
    here = Mirror(options, tmp_path / "here", tmp_path / "memory")

    with FaultyProxy(rclone_server.url, {}) as proxy:
        process = start("down", proxy.before(options), here.folder, tmp_path / "memory")
        eventually(lambda: proxy.asked["GET"] > 0)
        proxy.shares = {"stall": 100}
        eventually(lambda: proxy.met["stall"] > 0)
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        process.communicate(timeout=30)

    assert process.returncode in {-signal.SIGINT, 130, 1}
    assert time.monotonic() - began < 25
    check_whole(here.files, source.files)


@pytest.mark.parametrize("way", ["up", "down"])
def test_a_network_that_fails(rclone_server: RcloneServer, tmp_path: Path, way: str) -> None:
    """Errors, throttling, stalls, resets and cut answers for one request in ten: all arrives."""
    options = rclone_server.fresh()
    tree = make_tree(random.Random(way))
    shares = {"error": 3, "throttle": 2, "reset": 2, "truncate": 2, "stall": 1}
    source = Mirror(options, tmp_path / "source", tmp_path / "source.sqlite")
    source.write(tree)
    with FaultyProxy(rclone_server.url, shares, seed=7) as proxy:
        faulty = proxy.before(options, BAY_DATA_TIMEOUT="1")
        if way == "up":
            Mirror(faulty, source.folder, tmp_path / "memory").up()
        else:
            source.up()
            Mirror(faulty, tmp_path / "here", tmp_path / "memory").down()
        met = proxy.met.total()

    if way == "up":
        assert source.objects == tree
    else:
        assert Mirror(options, tmp_path / "here", tmp_path / "memory").files == tree
    assert met > 5


class LosingAnswers(FaultyProxy):
    """Loses the first answer to "the parts are complete", though the server took it."""

    def fault(self, method: str, path: str) -> str:
        super().fault(method, path)
        if method != "POST" or "uploadId" not in path or self.met["reset"]:
            return ""
        self.met["reset"] += 1
        return "reset"


@pytest.mark.parametrize("kind", ["rclone", "moto"])
def test_a_lost_last_answer(
    kind: str, tmp_path: Path, rclone_server: RcloneServer, moto_server: MotoServer
) -> None:
    """A big file that arrived is not given up when only the word about it got lost."""
    server = rclone_server if kind == "rclone" else moto_server
    options = server.fresh()
    here = Mirror(options, tmp_path / "here", tmp_path / "memory")
    here.write({"big": random.Random(2).randbytes(BIG)})
    with LosingAnswers(server.url, {}) as proxy:
        done = Mirror(proxy.before(options), here.folder, tmp_path / "memory").up()
        assert proxy.met["reset"] == 1

    assert done.sent == {"big": "new"}
    assert done.outcome.bytes == BIG
    assert here.objects == here.files
