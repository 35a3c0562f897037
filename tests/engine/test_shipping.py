"""What a node is told of folders and of where outputs go, and what comes home from there."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
import time
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest

from launchbay.core.backend import Backend, Facts
from launchbay.core.errors import BadRequest, DataError, Unsupported
from launchbay.core.job import Argv, Folder, Job, Recipe, Resources, Ship
from launchbay.core.run import State, Status
from launchbay.engine.care import find_waste
from launchbay.engine.carrying import Outside, carry_down, carry_up
from launchbay.engine.fetch import bring_home
from launchbay.engine.homing import read_log_from_store, wanted_here
from launchbay.engine.settings import Settings
from launchbay.engine.shipping import Arranger
from launchbay.engine.targets import Place

if TYPE_CHECKING:
    from pathlib import Path

    from tests.engine.conftest import Bench

    from launchbay.core.run import Run

KEYS = {"AWS_ACCESS_KEY_ID": "AKIA-one", "AWS_SECRET_ACCESS_KEY": "hush-one"}
LIMITED = Resources(time_limit=timedelta(hours=1))


def arranger(
    folder: Path, programs: list[str] | None = None, env: dict[str, str] = KEYS, **where: str
) -> Arranger:
    """For a target elsewhere that has these programs; nobody has looked where that is None."""
    (folder / ".env").write_text("".join(f"{name}={value}\n" for name, value in env.items()))
    facts = Facts(seen_at=1.0, details={"programs": programs}) if programs is not None else None
    place = Place(
        name="box",
        backend=cast("Backend", None),
        facts=facts,
        where={"kind": "machine", "root": "~/bay", "host": "box", **where},
    )
    settings = Settings(folder, path=folder / "bay.yaml")
    return Arranger(settings=settings, place=place, project=folder, launch="")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, and nothing of the person who runs the tests."""
    for name in (*KEYS, "AWS_SESSION_TOKEN", "AWS_PROFILE", "S3_ENDPOINT_URL", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "bay.yaml").write_text("command: 'true'\n")
    return folder


def job(**fields: Any) -> Job:
    made = {"run_id": "a-12345", "name": "a", "experiment": "a", "command": Argv(("true",))}
    return Job(**{**made, **fields})


def said(text: str, show: str) -> str:
    """What a shell says once it has read the text."""
    script = f"BAY_RUN_ID=a-12345\n{text}\n{show}"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    return done.stdout


def test_plain_jobs_stay_as_they_are(project: Path) -> None:
    """A job without folders or a place to ship to is the very same."""
    plain = job()

    assert arranger(project)(plain) is plain


def test_keys_travel_by_name(project: Path) -> None:
    """The text has the names of keys and never the keys; they are asked for at submit."""
    made = arranger(project, ["s5cmd"])(
        job(folders=(Folder(name="data", source="s3://lab/d"),), ship=Ship(to="s3://lab/o"))
    )

    assert set(made.secrets) == set(KEYS)
    assert not any(value in made.carriage for value in KEYS.values())
    assert said(made.carriage, "echo $bay_ship $bay_ship_every") == "s3://lab/o/a-12345 60\n"
    show = 'show() { echo "$1 $2 ${#3} $4 $5"; }; each_folder show'
    assert said(made.carriage, show) == "data s3://lab/d 16  \n"


def test_only_some_outputs(project: Path, tmp_path: Path) -> None:
    """The node finds what patterns name, verbatim; without a period it copies at the end alone."""
    for name in ("a.json", "deep/b.json", "best/c", "bestial", "it's $HOME/d"):
        path = tmp_path / "out" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    only = ("*.json", "best/", "it's $HOME/?")
    made = arranger(project, ["s5cmd"])(job(ship=Ship(to="s3://lab/o", every_s=0, only=only)))
    found = said(made.carriage, f"cd {tmp_path}/out && find_wanted | sort; echo [$bay_ship_every]")

    assert found == "./a.json\n./best/c\n./deep/b.json\n./it's $HOME/d\n[]\n"
    assert "find_wanted" not in arranger(project, [])(job(ship=Ship(to="file:///o"))).carriage


def test_keys_of_a_named_bucket(project: Path) -> None:
    """A bucket with keys of its own has them under the names that tools read."""
    (project / "bay.yaml").write_text(
        "command: 'true'\n"
        "bucket: {west: {url: 's3://w/base', endpoint: 'http://west', keys: WEST}}\n"
    )
    env = {**KEYS, **{f"{name}_WEST": f"west-{name}" for name in KEYS}}
    made = arranger(project, ["rclone"], env)(job(ship=Ship(to="west:outs", every_s=5)))

    assert said(made.carriage, "echo $bay_ship") == "s3://w/base/outs/a-12345\n"
    assert set(made.secrets) == {f"{name}_WEST" for name in KEYS}
    seen = 'AWS_ACCESS_KEY_ID_WEST=x; eval "$bay_store"; echo $AWS_ACCESS_KEY_ID $bay_endpoint'
    assert said(made.carriage, seen) == "x http://west\n"


def test_endpoints_of_the_target(project: Path) -> None:
    """Variables and buckets with an address that the target knows otherwise have the other one."""
    (project / "bay.yaml").write_text(
        "command: 'true'\nbucket: {west: {url: 's3://w', endpoint: 'http://out'}}\n"
        "targets: {box: {host: box, endpoints: {'http://out': 'http://in'}}}\n"
    )
    given = job(env={"A": "http://out", "B": "http://out/x"}, ship=Ship(to="west:o"))
    made = arranger(project)(given)
    here = replace(arranger(project), place=replace(arranger(project).place, where=LOCAL))(given)

    assert made.env == {"A": "http://in", "B": "http://out/x"}
    assert said(made.carriage, 'eval "$bay_store"; echo $bay_endpoint') == "http://in\n"
    assert here.env == given.env
    assert said(here.carriage, 'eval "$bay_store"; echo $bay_endpoint') == "http://out\n"


LOCAL = {"kind": "machine", "root": "/r"}


def test_paths(project: Path) -> None:
    """A path is the target's own; on this machine it begins in the project."""
    folders = (Folder(name="a", source="~/x"), Folder(name="b", source="sub dir"))
    show = 'show() { echo "$2"; }; each_folder show'
    there = arranger(project)(job(folders=folders))
    local = arranger(project)
    here = replace(local, place=replace(local.place, where=LOCAL))(job(folders=folders))

    assert said(there.carriage, show) == "~/x\nsub dir\n"
    assert said(here.carriage, show).splitlines()[1] == str(project / "sub dir")


@pytest.mark.parametrize(
    "asked",
    [
        {"folders": (Folder(name="data", source="claim:big"),)},
        {"ship": Ship(to="claim:results")},
    ],
)
def test_claims_are_refused(project: Path, asked: dict[str, Any]) -> None:
    """A claim is nothing that a machine or a Slurm has; the fix is said."""
    with pytest.raises(Unsupported) as caught:
        arranger(project)(job(**asked))
    assert "s3://" in str(caught.value.hint)


def test_unknown_bucket(project: Path) -> None:
    """A bucket that nobody named is an error, not a path."""
    with pytest.raises(BadRequest, match="there is no bucket `wset`"):
        arranger(project)(job(ship=Ship(to="wset:outs")))


@pytest.mark.parametrize(
    ("programs", "word"),
    [
        (["bay", "s5cmd", "curl"], "by bay"),
        (["aws", "s5cmd", "rclone"], "by s5cmd"),
        (["aws", "rclone"], "by rclone"),
        (["aws", "curl"], "by aws"),
        (["python3", "curl"], "by curl, with addresses that work for a week"),
        (["python3"], "by python3, with addresses that work for a week"),
        (None, "by bay, s5cmd, rclone or aws, what is there"),
    ],
)
def test_plan_says_by_what(project: Path, programs: list[str] | None, word: str) -> None:
    """A plan names the program that the target will use, from what was seen there."""
    recipe = Recipe(ship=Ship(to="s3://lab/o"), resources=LIMITED)

    (line,) = arranger(project, programs).describe(recipe)
    assert line == f"outputs and logs: to s3://lab/o/RUN, every 60 s and at the end, {word}"


def test_azure_has_fewer_tools(project: Path) -> None:
    """What only speaks S3 is not used for another store."""
    recipe = Recipe(folders=(Folder(name="d", source="az://box/d"),))

    (line,) = arranger(project, ["s5cmd", "aws", "rclone"]).describe(recipe)
    assert line.endswith("by rclone")


def test_no_tool_at_all(project: Path) -> None:
    """A target without any program for it is refused with the fix."""
    with pytest.raises(Unsupported, match="no program that copies"):
        arranger(project, [])(job(ship=Ship(to="s3://lab/o"), resources=LIMITED))


@pytest.mark.parametrize(
    ("limit", "env", "why"),
    [
        (None, KEYS, "no time limit"),
        (timedelta(days=4), KEYS, "may take too long"),
        (timedelta(hours=1), {**KEYS, "AWS_SESSION_TOKEN": "t"}, "are for a while"),
        (timedelta(hours=1), {}, "without its keys"),
    ],
)
def test_addresses_that_could_expire(
    project: Path, limit: timedelta | None, env: dict[str, str], why: str
) -> None:
    """Addresses are only made where they outlive the run, and with keys that last."""
    asked = job(ship=Ship(to="s3://lab/o"), resources=Resources(time_limit=limit))
    with pytest.raises(Unsupported, match=why) as caught:
        arranger(project, ["curl"], env)(asked)
    assert "s5cmd" in str(caught.value.hint)


def test_addresses_are_named(project: Path) -> None:
    """Every run has addresses of its own for outputs; those of inputs are for all."""
    arrange = arranger(project, ["curl"])
    folders = (Folder(name="data", source="s3://lab/d"),)
    asked = job(ship=Ship(to="s3://lab/o"), folders=folders, resources=LIMITED)
    first, second = arrange(asked), arrange(replace(asked, run_id="b-12345"))

    assert first.carriage == second.carriage
    (own,) = set(first.secrets) - set(second.secrets)
    assert own == "bay_puts s3://lab/o/a-12345"
    assert any(name.startswith("bay_gets_") for name in first.secrets)


def shipped(bench: Bench, store: Path, **fields: Any) -> Run:
    """A run that has ended, and what it copied."""
    recipe = Recipe(ship=Ship(to=f"file://{store}"), **fields)
    run = bench.apply(bench.experiment(recipe=lambda _: recipe))[0]
    ended = replace(run, status=Status(state=State.SUCCEEDED, exit_code=0))
    there = store / run.id
    (there / "out").mkdir(parents=True)
    (there / "attempts/1").mkdir(parents=True)
    (there / "out/a").write_text("a\n")
    (there / "attempts/1/log-0.txt").write_text("said\n")
    (there / "env.sh").write_text("evil\n")
    bench.lab.store.update([ended])
    return ended


def test_home_from_the_store(bench: Bench, tmp_path: Path) -> None:
    """What a run copied comes home where its target has nothing; other names stay there."""
    run = shipped(bench, tmp_path / "store")
    url = f"file://{tmp_path}/store/{run.id}"

    assert bench.lab.shipped_to(run) == url
    assert bring_home(bench.lab, run) == url
    folder = bench.lab.folder(run)
    assert (folder / "out/a").read_text() == "a\n"
    assert (folder / "attempts/1/log-0.txt").read_text() == "said\n"
    assert not (folder / "env.sh").exists()
    assert read_log_from_store(bench.lab, run, 0) == "said\n"
    assert read_log_from_store(bench.lab, run, 1) is None


def test_home_from_an_archive(bench: Bench, tmp_path: Path) -> None:
    """An archive is unpacked into the run's folder, whatever the names in it."""
    run = shipped(bench, tmp_path / "store")
    members = {"out/b": b"b", "work/results/c": b"c", "../../evil": b"x", "out/../../evil": b"x"}
    with tarfile.open(tmp_path / "store" / run.id / "out.tar.gz", "w:gz") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        link = tarfile.TarInfo("out/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    (tmp_path / "store" / run.id / "log.txt").write_text("later\n")
    bring_home(bench.lab, run)

    folder = bench.lab.folder(run)
    assert (folder / "out/b").read_text() == "b"
    assert (folder / "out/results/c").read_text() == "c"
    assert (folder / "attempts/1/log-0.txt").read_text() == "later\n"
    assert not (folder / "out/link").is_symlink()
    assert not list(tmp_path.rglob("evil"))


def test_nothing_copied(bench: Bench, tmp_path: Path) -> None:
    """A run that copied nothing, or was to copy nothing, is not looked for."""
    run = shipped(bench, tmp_path / "store")
    elsewhere = replace(run, id="another-12345")

    assert bring_home(bench.lab, elsewhere) == ""
    assert wanted_here(bench.lab, run) == ()


def test_clean_keeps_what_runs_name(bench: Bench) -> None:
    """A fetched folder that no run names is waste, with its mark; what one names stays."""
    run = bench.apply()[0]
    bay = bench.lab.project.bay
    used, unused = "0123456789abcdef", "fedcba9876543210"
    for name in (used, unused):
        (bay / "data" / name).mkdir(parents=True)
        (bay / "data" / f"{name}.whole").touch()
    folder = bay / "runs" / run.id
    folder.mkdir(parents=True, exist_ok=True)
    record = {"snapshot": run.code, "labels": {}, "origin": "", "carriage": f"x '{used}' y"}
    (folder / "job.json").write_text(json.dumps(record))
    bench.clock.now = time.time() + 10

    waste = [one.path.name for one in find_waste(bench.lab, older_s=1) if one.kind == "data"]
    assert waste == [unused, f"{unused}.whole"]


def test_carry(tmp_path: Path) -> None:
    """What nodes call copies both ways, and says when there is nothing."""
    source, goal, store = tmp_path / "a", tmp_path / "b", tmp_path / "store"
    (source / "deep").mkdir(parents=True)
    (source / "deep/x").write_text("1\n")
    store.mkdir()
    goal.mkdir()
    url = f"file://{store}"
    with pytest.raises(DataError, match="there is nothing"):
        carry_down(url, goal, Outside())
    carry_up(source, url, Outside())
    (source / "deep/x").write_text("2\n")
    carry_up(source, url, Outside())
    carry_down(url, goal, Outside())

    assert (goal / "deep/x").read_text() == "2\n"


def test_record_of_a_launch(bench: Bench, tmp_path: Path) -> None:
    """A launch that ships keeps where, by run; one that does not keeps nothing."""
    run = shipped(bench, tmp_path / "store", fetch=("*.json",))
    (group,) = json.loads((bench.lab.launch_folder(run) / "carriage.json").read_text())
    plain = bench.apply(bench.experiment(name="other", project="other"), again=True)

    assert run.id in group["runs"]
    assert wanted_here(bench.lab, run) == ("*.json",)
    assert not (bench.lab.launch_folder(plain[0]) / "carriage.json").exists()
    assert group["to"] == f"file://{tmp_path}/store"
