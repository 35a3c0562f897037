"""The first tool's `create_config` and `batch`, on launchbay's own Jobs and pods.

Importing reads nothing and needs no project. Values of variables are in no manifest and in no
file: they travel as a Secret, which is made when `create_config` is called, as is everything else
that the manifest names. `build/` need not exist.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launchbay.core.errors import BayError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["batch", "create_config"]

OF_FILES = frozenset({"run", "model", "dataset", "hparam", "params", "run_configs"})
"""Words of an experiment file that a caller may hand on with all the others."""
APART = frozenset(
    {"name", "command", "env", "project_name", "interactive", "namespace", "user", "prefix"}
)
"""What `create_config` takes that no entry of such a file says."""
MODES = ("job", "dryrun", "local", "local-first", "local-dryrun", "pod", "pod-dryrun")


def create_config(  # noqa: PLR0917
    name: str,
    command: str,
    gpu_count: int | None = None,
    cpu_count: int | None = None,
    ephemeral_storage: int | None = None,
    memory: int | None = None,
    env: Mapping[str, object] | None = None,
    project_name: str | None = None,
    conda_env_name: str | None = None,
    interactive: bool = False,  # noqa: FBT001, FBT002
    server_command: str | None = None,
    startup_script: str | None = None,
    extra_startup_script: str | None = None,
    registry_host: str | None = None,
    ssh_host: str | None = None,
    ssh_port: int | None = None,
    tolerations: Sequence[str] | None = None,
    volumes: Mapping[str, str] | None = None,
    shared: float | None = None,
    namespace: str | None = None,
    user: str | None = None,
    gitlab_user: str | None = None,
    image: str | None = None,
    image_pull_secrets: str | None = None,
    prefix: str | None = None,
    hostname_blacklist: Sequence[str] | None = None,
    hostname_whitelist: Sequence[str] | None = None,
    gpu_blacklist: Sequence[str] | None = None,
    gpu_whitelist: Sequence[str] | None = None,
    special_gpu: str | None = None,
    file: Sequence[str] | None = None,
    server: Mapping[str, Any] | None = None,
    **ignored: Any,  # noqa: ANN401
) -> dict[str, Any]:
    """The Job of a command, or a pod where `interactive`, for `kubectl apply`.

    What is not given is as `config/kube.yaml` says, else as the first tool had it: no GPU, 5
    cores, 100 GB of disk, 32 GB of memory. The command runs with the project's code as it is now.
    An interactive pod runs it and then stays. Other fields of an experiment file, as `time` or
    `outputs_to`, are understood, too; a word that nobody knows is told of and left out. `prefix`
    says nothing here, since `name` is the whole name.

    Raises:
        BayError: when it cannot be, with what to do.
    """
    # What the caller said, and nothing else.
    said = {key: value for key, value in locals().items() if value is not None}
    return _make({**said.pop("ignored"), **said})


def batch(  # noqa: PLR0917
    run_configs: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None,
    dataset_configs: Mapping[str, Any] | None,
    model_configs: Mapping[str, Any],
    project_name: str | None = None,
    mode: str = "job",
    overwrite: bool = False,  # noqa: FBT001, FBT002
    **kwargs: Any,  # noqa: ANN401
) -> None:
    """Run what the three sections of an experiment file describe, as `bay toolbox MODE` does.

    Values are as Python prints them, where a file keeps them as they are typed: `1e-5` of a
    program is `1e-05` in a command.

    Args:
        run_configs: the section `run`; None is everything.
        dataset_configs: the section `dataset`; None is none.
        model_configs: the section `model`.
        project_name: as in the file.
        mode: `job`, `dryrun`, `local`, `local-first`, `local-dryrun`, `pod` or `pod-dryrun`.
        overwrite: whether `job` makes those anew that are there.
        kwargs: whatever else the root of the file may say; `pod_name` for a pod.

    Raises:
        ValueError: when there is no such mode.
        BayError: when one of them failed; what was wrong has been printed.
    """
    if mode not in MODES:
        raise ValueError(f"there is no mode `{mode}`; there are: {', '.join(MODES)}")
    from launchbay.engine.by_hand import write_experiment  # noqa: PLC0415

    words = ["overwrite=true"] if overwrite and mode == "job" else []
    if pod := kwargs.pop("pod_name", None):
        words += [f"pod={pod}"] if mode.startswith("pod") else []
    sections = {"model": model_configs, "dataset": dataset_configs, "run": run_configs}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "launch.yaml")
        write_experiment(path, {"project_name": project_name, **kwargs, **sections})
        _toolbox(mode, words, path)


def _make(said: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest, from all that `create_config` was given."""
    from launchbay.engine.by_hand import Call, known_fields, make_manifest  # noqa: PLC0415

    fields = known_fields()
    _tell_unknown(said.keys() - APART - fields - OF_FILES, {*APART, *fields})
    env = said.get("env") or {}
    call = Call(
        name=said["name"],
        command=said["command"],
        lasting=said["interactive"],
        env={str(key): str(value) for key, value in env.items()},
        fields={key: value for key, value in said.items() if key in fields - APART},
        place={key: str(said[key]) for key in ("namespace", "user") if key in said},
        project=said.get("project_name") or "",
    )
    return make_manifest(call, _say)


def _toolbox(verb: str, words: Sequence[str], path: Path) -> None:
    """Have the command line do it: what it asks and prints is for whoever called."""
    sys.stdout.flush()
    argv = [sys.executable, "-m", "launchbay", "toolbox", verb, *words]
    environment = {**os.environ, "BAY_FILE": str(path)}
    code = subprocess.run(argv, env=environment, check=False).returncode
    if code:
        raise BayError(f"`{verb}` ended with exit code {code}")


def _tell_unknown(unknown: set[str], known: set[str]) -> None:
    """One line about all of them, each with the word that was probably meant."""
    if not unknown:
        return
    from difflib import get_close_matches  # noqa: PLC0415 (slow to load, and rarely wanted)

    near = {word: get_close_matches(word, known, n=1) for word in sorted(unknown)}
    told = [f"`{word}` (`{one[0]}`?)" if one else f"`{word}`" for word, one in near.items()]
    _say(f"create_config leaves out what it does not know: {', '.join(told)}")


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
