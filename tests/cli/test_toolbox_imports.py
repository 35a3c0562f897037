"""`launchbay.compat.toolbox`: what importing does, and what needs neither cluster nor bucket."""

from __future__ import annotations

import resource
import subprocess
import sys
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from launchbay.compat import toolbox
from launchbay.compat.toolbox import kubeutils, utils
from launchbay.core.errors import BadRequest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Bay

CAREFUL = """
import sys
def watch(event, args):
    if event.startswith("socket.") or (event == "open" and "kube.yaml" in str(args[0])):
        raise SystemExit(f"{event} {args}")
sys.addaudithook(watch)
"""
STAND_IN = """
class Run:
    def __init__(self, **config): self.config = config
class Artifact:
    def __init__(self, name, run): self.name, self.run = name, run
    def logged_by(self): return self.run
class Api:
    def artifacts(self, type_name, name):
        assert (type_name, name) == ("model", "lab/example/best")
        yield Artifact("v2", Run(model={"lr": 0.1, "depth": 2}, seed=1))
        yield Artifact("v1", Run(model={"lr": 0.01, "depth": 2}, seed=1))
        yield Artifact("v0", None)
"""


def run(bay: Bay, program: str, *, code: int = 0) -> subprocess.CompletedProcess[str]:
    """A program in the project, by this interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=bay.project,
        env=bay.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == code, done
    return done


def test_importing_needs_no_project_no_tracker_and_no_port(bay: Bay) -> None:
    """All of it loads in an empty folder; no socket is made and no tracker is looked for."""
    program = (
        f"{CAREFUL}\nfrom launchbay.compat.toolbox import *\n"
        "import launchbay.compat.toolbox.kubeutils, launchbay.compat.toolbox.s3utils\n"
        "print(create_config.__name__, batch.__name__, monitor.__name__)\n"
        "print([name for name in ('wandb', 'mlflow', 'torch') if name in sys.modules])"
    )
    assert run(bay, program).stdout == "create_config batch monitor\n[]\n"
    assert list(bay.project.iterdir()) == []


def test_only_what_is_asked_for_is_loaded(bay: Bay) -> None:
    """A helper does not bring the machinery of object storage or of launches with it."""
    program = (
        "import sys\nfrom launchbay.compat.toolbox import load_env_file\n"
        "loaded = [name for name in sys.modules if 'toolbox.' in name or 'obstore' in name]\n"
        "print(sorted(loaded), 'launchbay.engine.launch' in sys.modules)\n"
        "from launchbay.compat.toolbox import create_config\n"
        "print('launchbay.engine.launch' in sys.modules)"
    )
    assert run(bay, program).stdout == "['launchbay.compat.toolbox.utils'] False\nFalse\n"


def test_every_name_is_there_and_no_other() -> None:
    """What `__all__` says can be had, and a wrong name is told at once."""
    assert all(callable(getattr(toolbox, name)) for name in toolbox.__all__)
    with pytest.raises(AttributeError, match="download_s3"):
        _ = toolbox.download_s3


@pytest.mark.parametrize(
    ("part", "whole", "contained"),
    [
        ({}, {"a": 1}, True),
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": "1e-05"}, {"a": 0.00001}, True),
        ({"a": {"b": [1, "x"]}}, {"a": {"b": [1.0, "x"], "c": 0}}, True),
        ({"a": "True"}, {"a": True}, True),
        ({"a": 1}, {"b": 1}, False),
        ({"a": {"b": 1}}, {"a": 1}, False),
        ({"a": [1]}, {"a": [1, 2]}, False),
        ({"a": "x"}, {"a": "y"}, False),
        ({"a": None}, {"a": 0}, False),
        ({"a": 1}, None, False),
    ],
)
def test_a_config_contains_another(part: object, whole: object, contained: bool) -> None:  # noqa: FBT001
    """Nested mappings as parts, lists as wholes, numbers by value however they are written."""
    assert utils.is_contained(part, whole) is contained


def test_artifacts_are_found_by_the_parameters_of_their_runs(bay: Bay) -> None:
    """Those whose run's config contains what is asked for; one that nobody logged is none."""
    bay.write("wandb/__init__.py", STAND_IN)
    program = (
        "from launchbay.compat.toolbox import loadable_artifacts\n"
        "for asked in ({'model': {'lr': '0.1'}}, {'seed': 1}, {'seed': 2}):\n"
        "    found = loadable_artifacts(asked, type='model', name='lab/example/best')\n"
        "    print([one.name for one in found])"
    )
    assert run(bay, program).stdout == "['v2']\n['v2', 'v1']\n[]\n"


def test_without_the_tracker_its_package_is_named(bay: Bay) -> None:
    """Only who asks for artifacts needs it, and is told how to have it."""
    program = (
        "import sys; sys.modules['wandb'] = None\n"
        "from launchbay.compat.toolbox import loadable_artifacts\n"
        "loadable_artifacts({}, 'model', 'x')"
    )
    assert "ImportError: Weights & Biases is not installed: `pip install wandb`" in (
        run(bay, program, code=1).stderr
    )


class Downloaded:
    """An artifact with one folder of files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def download(self) -> str:
        return str(self.folder)


class Checkpointed:
    """A class that reads checkpoints."""

    @staticmethod
    def load_from_checkpoint(path: str) -> str:
        return f"checkpoint {path}"


class Pretrained:
    """A class that reads folders."""

    @staticmethod
    def from_pretrained(path: str) -> str:
        return f"folder {path}"


def test_an_artifact_becomes_an_object(tmp_path: Path) -> None:
    """By the checkpoint in it, by its folder, or by calling the class; each as it is made."""
    artifact = Downloaded(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"\*\.ckpt"):
        utils.load_wandb_artifact(Checkpointed, artifact)
    (tmp_path / "model.ckpt").touch()

    loaded = utils.load_wandb_artifact(Checkpointed, artifact)
    assert loaded == f"checkpoint {tmp_path}/model.ckpt"
    assert utils.load_wandb_artifact(Pretrained, artifact) == f"folder {tmp_path}"
    assert utils.load_wandb_artifact(str, artifact) == str(tmp_path)


def test_a_class_is_made_by_its_path() -> None:
    """With its arguments or without; a wrong path says so."""
    config = {"class_path": "datetime.timedelta", "init_args": {"days": 1}}

    assert utils.load_class(config) == timedelta(days=1)
    assert utils.load_class({"class_path": "datetime.timedelta"}) == timedelta()
    for wrong in ("datetime.timedeltas", "timedelta"):
        with pytest.raises(ImportError, match=wrong):
            utils.load_class({"class_path": wrong})


def test_the_limit_of_open_files_is_raised() -> None:
    """As far as it may be, and never above."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(200, before[1]), before[1]))
        given = utils.increase_u_limit(before[1] + 1 if before[1] > 0 else 300)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == given
        assert utils.increase_u_limit(201) == 201
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_manifest_needs_a_cluster(bay: Bay, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a file that names one it is asked for, and nothing is made."""
    monkeypatch.chdir(bay.project)
    with pytest.raises(BadRequest, match=r"config/kube\.yaml"):
        kubeutils.create_config("example", "true")
    assert list(bay.project.iterdir()) == []


def batched(bay: Bay, call: str, *, code: int = 0) -> subprocess.CompletedProcess[str]:
    """What a call of `batch` prints."""
    return run(
        bay, f"from launchbay.compat.toolbox.kubeutils import batch\nbatch({call})", code=code
    )


MODELS = '{"m": {"command": "echo <lr> <flag> [here](there)", "hparam": {"lr": [1e-5, 2]}}}'


def test_sections_of_a_program_run_as_those_of_a_file_do(bay: Bay) -> None:
    """All of them, in the project; values are as Python prints them; nothing is left behind."""
    bay.write("config/launch.yaml", "command: never\n")
    call = f'{{"dataset": ["d"]}}, {{"d": {{"hparam": {{"_flag": True}}}}, "e": None}}, {MODELS}'
    named = batched(bay, f'{call}, project_name="example", mode="local-dryrun"')
    ran = batched(bay, f'{call}, "example", "local"')
    first = batched(bay, f'{call}, "example", mode="local-first"')

    assert named.stdout == (
        "example-m-d-lr-1e-05: echo 1e-05 True here\nexample-m-d-lr-2: echo 2 True here\n"
    )
    assert [line for line in ran.stdout.splitlines() if line.endswith("True here")] == [
        "echo 1e-05 True here",
        "1e-05 True here",
        "echo 2 True here",
        "2 True here",
    ]
    assert first.stdout.count("Running") == 1
    assert sorted(one.name for one in bay.project.iterdir()) == [".bay", "config"]
    assert {row["name"] for row in bay.json("ls", "--all")} == {
        "example-m-d-lr-1e-05",
        "example-m-d-lr-2",
    }


def test_a_dataset_of_which_nothing_is_said_is_one(bay: Bay) -> None:
    """And the root of the file may say what models do not."""
    call = 'None, {"e": None}, {"m": {"command": "echo $WORD"}}, "x", "local", env={"WORD": "w"}'
    assert batched(bay, call).stdout.splitlines()[-1] == "w"


def test_a_batch_that_fails_raises(bay: Bay) -> None:
    """A failed run, a wrong section and a wrong mode are each an error of the program."""
    failed = batched(bay, 'None, None, {"m": {"command": "exit 3"}}, mode="local"', code=1)
    wrong = batched(bay, 'None, None, {"m": {"comand": "x"}}, mode="local"', code=1)
    mode = batched(bay, 'None, None, {}, mode="jobs"', code=1)

    assert "`local` ended with exit code 1" in failed.stderr
    assert "did you mean `command`?" in wrong.stderr
    assert "ValueError: there is no mode `jobs`; there are: job, dryrun, local" in mode.stderr
