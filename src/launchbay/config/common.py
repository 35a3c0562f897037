"""What several places of the files may say of a run: its needs, surroundings and policy.

The reference page comes from the descriptions here. Values arrive as text (see `files`) and leave
with the type that the core wants (see `fields`).
"""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator

from launchbay.config.fields import (
    Binds,
    Container,
    Count,
    Cpus,
    Disk,
    Environment,
    Gpus,
    GpuTypes,
    Line,
    Lines,
    Memory,
    Names,
    Pack,
    Python,
    Ratio,
    Retries,
    Sbatch,
    Seconds,
    Text,
    TimeLimit,
    Tolerations,
    Truth,
)
from launchbay.config.storage import Folders, Storage


class Part(BaseModel):
    """A mapping of the file; a key with nothing behind it counts as not given."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    @classmethod
    @cache
    def spellings(cls) -> dict[str, str]:
        """Every key that may be written, with the field that it fills."""
        found: dict[str, str] = {}
        for name, field in cls.model_fields.items():
            alias = field.validation_alias
            choices = alias.choices if isinstance(alias, AliasChoices) else [name]
            found |= {str(choice): name for choice in choices}
        return found

    @model_validator(mode="before")
    @classmethod
    def _drop_empty(cls, written: object) -> object:
        if not isinstance(written, dict):
            return written
        known = cls.spellings()
        return {
            key: value for key, value in written.items() if value is not None or key not in known
        }


class Needs(Part):
    """The resources that a file's root, its models and datasets, and a target may name."""

    gpus: Gpus | None = Field(
        default=None,
        validation_alias=AliasChoices("gpus", "gpu_count"),
        description=(
            "GPUs of a run, on each of its nodes: whole, or a fraction below 1 to share one; "
            "0 hides them."
        ),
    )
    gpu_type: GpuTypes | None = Field(
        default=None,
        validation_alias=AliasChoices("gpu_type", "gpu_whitelist"),
        description="A name, or a list of names, of which one must occur in the GPU's own name.",
    )
    gpu_blacklist: GpuTypes | None = Field(
        default=None, description="GPUs that will not do; not together with `gpu_type`."
    )
    cpus: Cpus | None = Field(
        default=None,
        validation_alias=AliasChoices("cpus", "cpu_count"),
        description="Processors of a run, on each of its nodes.",
    )
    memory: Memory | None = Field(
        default=None,
        description="Memory of a run, on each of its nodes: `32` is GB, `512M`, `1.5G`.",
    )
    disk: Disk | None = Field(
        default=None,
        validation_alias=AliasChoices("disk", "ephemeral_storage", "ephermal_storage"),
        description="Scratch space of a run: `100` is GB; 0 asks for none.",
    )
    time: TimeLimit | None = Field(
        default=None,
        description="Time limit of a run: `90m`, `8h`, `2d`, `HH:MM:SS`, `D-HH`; `30` is minutes.",
    )
    nodes: Count | None = Field(default=None, description="Machines of a run; unset is 1.")
    processes: Count | None = Field(
        default=None,
        validation_alias=AliasChoices("processes", "ntasks_per_node"),
        description="How often the command is started on each node; unset is 1.",
    )
    hostname_whitelist: Names | None = Field(
        default=None,
        validation_alias=AliasChoices("hostname_whitelist", "nodelist"),
        description="Machines that a run may be put on.",
    )
    hostname_blacklist: Names | None = Field(
        default=None,
        validation_alias=AliasChoices("hostname_blacklist", "exclude_nodes"),
        description="Machines that it may not; not together with the whitelist.",
    )
    extra: dict[str, Text] | None = Field(
        default=None, description="Further resources by the target's own names: `{name: quantity}`."
    )
    image: Text | None = Field(
        default=None, description="The container image; a machine runs without one."
    )


class Surroundings(Part):
    """What a run finds around it."""

    env: Environment = Field(default={}, description="Environment variables of a run.")
    modules: Names | None = Field(
        default=None, description="Environment modules to load, in this order, before all else."
    )
    python: Python | None = Field(
        default=None,
        description=(
            "`uv`, a `requirements.txt`, an `environment.yml`, `conda:NAME`, the path of a virtual "
            "environment, or `none`. Unset is, on this machine, the environment of the shell that "
            "types `bay run`; elsewhere, unless there is an `image`, the first of `uv.lock`, "
            "`environment.yml` and `requirements.txt` that the project has."
        ),
    )
    setup: Lines | None = Field(
        default=None,
        description="Shell lines before the command, text or a list; a failing one fails the run.",
    )


class DataFields(Part):
    """What a run reads and writes besides its code."""

    folders: Folders | None = Field(
        default=None,
        description=(
            "Folders of the working folder that come from elsewhere, by their names: a path where "
            "the run runs, a place in object storage (`s3://lab/data`, or `west:data` by the name "
            "of a `bucket`), `claim:NAME`; or `{from: …, at: /absolute/path, ro: true}`."
        ),
    )
    outputs_to: Storage | None = Field(
        default=None,
        description=(
            "Where outputs and logs are copied while a run runs and when it ends, below the run's "
            "id: `s3://lab/results`, `west:results`, `claim:NAME`, or `none`."
        ),
    )
    ship_every: Seconds | None = Field(
        default=None,
        description="How often they are copied while it runs; unset is `1m`, `0` only at the end.",
    )
    ship_only: Names | None = Field(
        default=None,
        description="The outputs that are copied, as `['*.json', best/]`; unset is all.",
    )
    fetch: Names | None = Field(
        default=None,
        description="Outputs that come home with the first look after the end, as `['*.json']`.",
    )


class PolicyFields(Part):
    """What is to be done about a run that waits, ends early or fails."""

    pack: Pack | None = Field(
        default=None,
        description="Runs that share an allocation: `20`, or `node` for as many as a node holds.",
    )
    retries: Retries | None = Field(
        default=None,
        description=(
            "How often a run is tried again that ended by nobody's fault (preempted, node, lost): "
            "`2`. Or by cause, `{timeout: 1, oom: 1, exit: 2, any: 3}`: also `setup` and `image`; "
            "every other key is a regular expression that the end of the log has."
        ),
    )
    resume: Truth | None = Field(
        default=None,
        description="Whether a run is warned before its time limit, and continued after it.",
    )
    grace: TimeLimit | None = Field(
        default=None, description="How long before the limit it is warned; unset is `2m`."
    )
    hold: TimeLimit | None = Field(
        default=None,
        description="How long a run that fails keeps its place, for somebody to look: `30m`.",
    )


class SlurmFields(Part):
    """What only a Slurm target understands; everything else carries it along unread."""

    partition: Line | None = Field(default=None, description="The partition, or several: `a,b`.")
    account: Line | None = Field(default=None, description="Whom the time is charged to.")
    qos: Line | None = Field(default=None, description="The quality of service.")
    constraint: Line | None = Field(
        default=None, description="Features that nodes must have, as `a100&nvlink`."
    )
    reservation: Line | None = Field(default=None, description="The reservation to run in.")
    exclusive: Truth | None = Field(
        default=None, description="Whether a run has its nodes for itself."
    )
    licenses: Line | None = Field(default=None, description="Licenses to hold, as `matlab:1`.")
    sbatch: Sbatch | None = Field(
        default=None, description="Further flags of `sbatch`, one or a list: `--mail-type=END`."
    )
    launcher: Line | None = Field(
        default=None,
        description="What starts the processes of a run, as `mpirun`; unset is `srun`.",
    )
    binds: Binds | None = Field(
        default=None, description="Folders that a container sees, `FROM:TO` or `FROM:TO:ro`."
    )
    container: Container | None = Field(
        default=None,
        description="What starts containers, `apptainer` or `singularity`; unset is what is there.",
    )


class ClusterFields(Part):
    """What only a Kubernetes target understands; everything else carries it along unread."""

    special_gpu: Text | None = Field(
        default=None, description="A GPU with a resource name of its own, as `a100`."
    )
    limit_ratio: Ratio | None = Field(
        default=None, description="Limits over requests of processors and memory, as `1.2`."
    )
    tolerations: Tolerations | None = Field(
        default=None, description="Taints to accept: keys, or full mappings."
    )
    volumes: dict[str, Text] | None = Field(
        default=None, description="Volume claims and where they are mounted."
    )
    image_pull_secrets: Text | None = Field(
        default=None, description="The secret that pulls the image."
    )
    registry_host: Text | None = Field(default=None, description="Where images come from.")
    registry_port: Text | None = Field(default=None, description="Its port.")
    gitlab_user: Text | None = Field(default=None, description="Whose images they are.")
    startup_script: Text | None = Field(
        default=None, description="In a pod, before everything, in place of the default."
    )
    extra_startup_script: Text | None = Field(
        default=None, description="In a pod, after the start-up script."
    )
    server_command: Text | None = Field(
        default=None, description="What an interactive pod does; unset is `sleep infinity`."
    )
    conda_env_name: Text | None = Field(
        default=None, description="The image's conda environment; unset is the project's name."
    )
    conda_home: Text | None = Field(default=None, description="Where the image keeps conda.")
    ssh_host: Text | None = Field(default=None, description="Where a pod pulls code from.")
    ssh_port: Text | None = Field(default=None, description="Its port.")
    file: Names | None = Field(default=None, description="Files laid over the image's code.")
    shared: Text | None = Field(default=None, description="The share of a GPU that a run takes.")
    server: dict[str, Any] | None = Field(
        default=None, description="Containers beside the run's own."
    )
    shm: Memory | None = Field(
        default=None, description="The most that `/dev/shm` may hold, as `8G`; unset is no limit."
    )
    priority_class: Line | None = Field(default=None, description="The priority class of its pods.")
    service_account: Line | None = Field(
        default=None, description="The service account of its pods; unset is the namespace's own."
    )
    node_selector: dict[str, Text] | None = Field(
        default=None, description="Labels that a node must have: `{name: value}`."
    )
    queue: Line | None = Field(default=None, description="The local queue, where Kueue decides.")
    deadline: TimeLimit | None = Field(
        default=None, description="How long a run may take in all, the wait among it: `2d`."
    )
    ttl: TimeLimit | None = Field(
        default=None,
        description="How long a Job is kept after its end: `7d`; unset is until `bay rm`.",
    )
    override: dict[str, Any] | None = Field(
        default=None,
        description="Laid over the Job as it is sent, by JSON merge patch; a last resort.",
    )
    dev_limits: dict[str, Text] | None = Field(
        default=None,
        description="The most that `bay dev` asks for: `{gpus: 2, cpus: 16, memory: 32}`.",
    )


class Profile(Needs, PolicyFields, Surroundings, DataFields, SlurmFields, ClusterFields):
    """An entry of a target's `profiles:`, which runs choose by name or by need."""

    @property
    def written(self) -> dict[str, Any]:
        """What was written of the keys that several places may set, by field."""
        fields = Common.model_fields.keys() & self.model_fields_set
        return {key: value for key in fields if (value := getattr(self, key)) is not None}


class Common(Profile):
    """What the root, a model, a dataset, a target and a site may all say."""

    profile: Line | None = Field(
        default=None,
        description=(
            "The one of the target's `profiles` to take; unset is `gpu` for a run with GPUs, else "
            "`cpu`, where the target has them."
        ),
    )
