"""`bay toolbox local`, `job` and their kin, as the first tool's users type them."""

from __future__ import annotations

import os
import pty
import shutil
import time
from typing import TYPE_CHECKING

import pytest
from tests.conftest import DATA
from tests.stubs import write_program

if TYPE_CHECKING:
    from tests.conftest import Bay

RUN_ONE = "run:\n  dataset: [data1]\n  model: [average]\n"
FOUR = """\
Running {
    "_fn": "data/1.txt"
} ...\x20

python src/avg.py data/1.txt

2.0
Running {
    "_fn": "data/1.txt"
} ...\x20

python src/med.py data/1.txt

2.0
Running {
    "_fn": "data/2.txt"
} ...\x20

python src/avg.py data/2.txt

5.0
Running {
    "_fn": "data/2.txt"
} ...\x20

python src/med.py data/2.txt

5.0
"""


def write_example(bay: Bay) -> None:
    """The quick start's project, with all combinations to run."""
    shutil.copytree(DATA / "toolbox" / "quickstart", bay.project, dirs_exist_ok=True)
    change(bay, RUN_ONE, "run:\n   dataset: [data1, data2]\n   model: [average, median]\n")
    change(bay, "<NAMESPACE>", "lab", file="kube.yaml")
    change(bay, "<USER>", "me", file="kube.yaml")
    bay.write("data/1.txt", "1,2,3\n")
    bay.write("data/2.txt", "4,5,6\n")
    bay.write(
        "src/avg.py",
        "import sys; print(sum(map(float, open(sys.argv[1]).read().split(','))) / 3)\n",
    )
    numbers = "map(float, open(sys.argv[1]).read().strip().split(','))"
    bay.write("src/med.py", f"import sys, statistics; print(statistics.median({numbers}))\n")


def change(bay: Bay, old: str, new: str, *, file: str = "launch.yaml") -> None:
    """Edit a file of `config/`."""
    path = bay.project / "config" / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


@pytest.fixture
def example(bay: Bay) -> Bay:
    """A person in the quick start's project."""
    write_example(bay)
    return bay


def test_local_prints_what_the_document_prints(example: Bay) -> None:
    """All combinations run in order, each with its parameters, its command and its answer."""
    assert example("toolbox", "local").out == FOUR


def test_local_runs_here_and_always(example: Bay) -> None:
    """The second time everything runs again, in the project's folder itself, and is recorded."""
    for name in ("avg", "med"):
        script = f"src/{name}.py"
        text = (example.project / script).read_text()
        example.write(script, text + "open('trace', 'a').write('x'); import os; print(os.getcwd())")
    first = example("toolbox", "local").out
    second = example("toolbox", "local").out

    assert (example.project / "trace").read_text() == "x" * 8
    assert first == second
    assert first.count(str(example.project)) == 4
    assert example.states() == ["succeeded"] * 8


def test_a_failed_local_run_fails_the_command(example: Bay) -> None:
    """The others run; the exit code and the last lines tell which failed."""
    example.write("src/avg.py", "raise SystemExit(3)\n")
    said = example("toolbox", "local", code=1)

    assert said.out.count("5.0") == 1
    assert "2 of 4 failed" in said.err
    assert "example-average-data1: " in said.err
    assert "example-average-data2: " in said.err


def test_local_first_runs_one(example: Bay) -> None:
    """Only the first combination runs."""
    said = example("toolbox", "local-first").out

    assert said == FOUR[: len(FOUR) // 4]


def test_local_dryrun_can_be_redirected(example: Bay) -> None:
    """A line for each run with its name and its command, and nothing else on standard output."""
    said = example("toolbox", "local-dryrun")

    assert said.out.splitlines() == [
        "example-average-data1: python src/avg.py data/1.txt",
        "example-median-data1: python src/med.py data/1.txt",
        "example-average-data2: python src/avg.py data/2.txt",
        "example-median-data2: python src/med.py data/2.txt",
    ]
    assert not (example.project / ".bay").exists()


def test_local_in_a_pod_takes_the_remote_part(example: Bay) -> None:
    """Where `NODE_NAME` is set, `local` runs what is in the round brackets, too."""
    example.extra["NODE_NAME"] = "node1"
    example.write("Makefile", "download:\n\t@echo downloaded $(file)\n")
    said = example("toolbox", "local-first").out

    assert "make download file=data/; python src/avg.py data/1.txt\n" in said
    assert said.endswith("downloaded data/\n2.0\n")


def test_values_with_quotes_and_blanks_reach_the_environment(example: Bay) -> None:
    """`.env` is read as it is everywhere else: a quoted value with a blank breaks nothing."""
    example.write(".env", "NAME='a b # c'\n# no\nexport OTHER=\"it's\"\n")
    example.write("src/avg.py", "import os; print(os.environ['NAME'], os.environ['OTHER'])\n")
    said = example("toolbox", "local-first").out

    assert said.endswith("\na b # c it's\n")


def test_ctrl_c_ends_all_of_it(example: Bay) -> None:
    """Whoever interrupts one run on a terminal is not asked to interrupt all the others."""
    example.write("src/avg.py", "import time; print('here', flush=True); time.sleep(600)\n")
    ours, theirs = pty.openpty()
    process = example.start(
        "toolbox",
        "local",
        through=("env", "--default-signal=INT"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    seen = b""
    deadline = time.monotonic() + 60
    while b"here" not in seen and time.monotonic() < deadline:
        seen += os.read(ours, 4096)
    os.write(ours, b"\x03")
    while time.monotonic() < deadline:
        try:
            seen += os.read(ours, 4096)
        except OSError:
            break
    os.close(ours)

    assert process.wait(timeout=60) == 130
    assert b"interrupted; 3 not run" in seen
    assert seen.count(b"Running {") == 1


def test_a_folder_with_a_blank_in_its_name(example: Bay) -> None:
    """A project whose folder has a blank and a quote in its name runs as any other."""
    moved = example.project.parent / "my 'own' project"
    shutil.move(example.project, moved)
    example.project = moved

    assert example("toolbox", "local").out == FOUR


def test_dryrun_writes_the_jobs(example: Bay) -> None:
    """A file for each Job in `build/`, which git leaves alone; no secret is in any."""
    example.write(".env", "TOKEN=hush-hush\n")
    said = example("toolbox", "dryrun")
    names = [
        f"build/example-{model}-{data}.yaml" for data in ("data1", "data2") for model in MODELS
    ]
    texts = [(example.project / name).read_text() for name in names]

    assert said.out.splitlines() == names
    assert all("kind: Job" in text or '"kind": "Job"' in text for text in texts)
    assert "hush-hush" not in "".join(texts)
    assert (example.project / "build" / ".gitignore").read_text() == "*\n"


MODELS = ("average", "median")


def test_old_files_of_build_go_but_not_those_of_others(example: Bay) -> None:
    """What `dryrun` wrote a month ago is taken away; what anybody else wrote stays."""
    example("toolbox", "dryrun")
    old = example.project / "build" / "example-average-data1.yaml"
    old = old.rename(old.with_name("gone.yaml"))
    other = example.write("build/own.yaml", "kind: Job\n")
    for path in (old, other):
        os.utime(path, (1, 1))
    example("toolbox", "dryrun")

    assert (old.exists(), other.exists()) == (False, True)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("uplod",), "did you mean `upload`?"),
        (("job", "overwrit=true"), "did you mean `overwrite`?"),
        (("upload", "data/"), "write `file=data/`"),
        (("job", "overwrite=maybe"), "`overwrite=maybe` is neither yes nor no"),
        (("download",), "`download` needs `file=…`"),
    ],
)
def test_what_was_typed_wrongly_is_said(example: Bay, words: tuple[str, ...], told: str) -> None:
    """One clear line with the fix, and exit code 2."""
    example.write(".env", "S3_BUCKET_NAME=b\n")
    assert told in example("toolbox", *words, code=2).err


@pytest.mark.parametrize("verb", ["local", "local-dryrun", "job", "dryrun"])
def test_without_an_experiment_it_is_asked_for(bay: Bay, verb: str) -> None:
    """In a folder without a file of experiments that is what is said."""
    assert "no `config/launch.yaml` here" in bay("toolbox", verb, code=2).err


@pytest.mark.parametrize("verb", ["job", "dryrun", "pod", "pod-dryrun", "delete", "copy"])
def test_without_a_cluster_it_is_asked_for(example: Bay, verb: str) -> None:
    """Where no file says which cluster is meant, it is asked for, and nothing is guessed."""
    (example.project / "config" / "kube.yaml").unlink()
    said = example("toolbox", verb, code=2)

    assert "there is no `config/kube.yaml`" in said.err
    assert "`namespace`" in said.err


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("namespace: lab\n", "", "does not say in which namespace"),
        ("namespace: lab\n", "namespace: <NAMESPACE>\n", "is still `<NAMESPACE>`"),
        ("user: me\n", "", "does not say whose work it is"),
        ("user: me\n", "user: <USER>\n", "is still `<USER>`"),
    ],
)
def test_blanks_that_nobody_filled(example: Bay, old: str, new: str, told: str) -> None:
    """What `kube.yaml` must say and does not is an error that names the key."""
    change(example, old, new, file="kube.yaml")
    assert told in example("toolbox", "dryrun", code=2).err


def test_an_image_that_nobody_names(example: Bay) -> None:
    """Without `image` and `registry_host` there is none, and no site's is taken for it."""
    change(example, "image: registry.example.org/me/example\n", "", file="kube.yaml")
    composed = example("toolbox", "dryrun")
    text = (example.project / "build" / "example-average-data1.yaml").read_text()
    change(example, "registry_host: registry.example.org\n", "", file="kube.yaml")
    said = example("toolbox", "dryrun", code=None)

    assert composed.code == 0
    assert "registry.example.org/me/example:latest" in text
    assert said.code
    assert "has no image" in said.err


def test_a_template_of_the_site_fills_what_the_file_leaves_open(example: Bay) -> None:
    """A site's target `kube` gives the registry and the addresses; the project's file wins."""
    change(example, "image: registry.example.org/me/example\n", "", file="kube.yaml")
    change(example, "registry_host: registry.example.org\n", "", file="kube.yaml")
    site = (
        "targets: {kube: {kind: kubernetes, registry_host: images.example.org, namespace: other}}"
    )
    example.extra["BAY_SITE_CONFIG"] = str(example.write("../site.yaml", site))
    example("toolbox", "dryrun")
    text = (example.project / "build" / "example-average-data1.yaml").read_text()

    assert "images.example.org/me/example:latest" in text
    assert "namespace: lab" in text or '"namespace": "lab"' in text


def test_jobs_of_a_cluster_that_does_not_answer(example: Bay) -> None:
    """One clear line; no run is left half made."""
    stubs = example.project.parent / "stubs"
    stubs.mkdir()
    write_program(
        stubs / "kubectl",
        "#!/bin/sh\necho 'The connection to the server was refused' >&2\nexit 1\n",
    )
    example.extra["PATH"] = f"{stubs}:{example.environment['PATH']}"
    said = example("toolbox", "job", code=1)

    assert "`kube` does not answer" in said.err
    assert example.json("ls", "--all") == []


def test_help_lists_every_verb(bay: Bay) -> None:
    """`bay toolbox` alone explains itself; the short help of `bay` does not mention it."""
    listed = bay("toolbox").out
    short = bay("--help").out

    assert {"local", "job", "pod", "upload,", "tmux"} <= {
        line.split()[0] for line in listed.splitlines()
    }
    assert "toolbox" not in short
