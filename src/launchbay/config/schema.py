"""The shape of the files. The reference page comes from the descriptions here.

Values arrive as text (see `files`) and leave with the type that the core wants (see `fields`).
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    model_validator,
)

from launchbay.config.fields import (
    Command,
    Count,
    Cpus,
    Devices,
    Disk,
    EntryName,
    Environment,
    Gpus,
    GpuTypes,
    Inside,
    Lines,
    Memory,
    Names,
    Pattern,
    Python,
    Ratio,
    Raw,
    Secrets,
    Source,
    TargetName,
    Text,
    TimeLimit,
    Title,
    Tolerations,
    Variable,
)
from launchbay.config.files import Document
from launchbay.config.problems import Route
from launchbay.core.job import DEFAULT_OUTPUTS

MACHINE = "machine"
LOCAL = "local"
KUBE = "kube"
KUBERNETES = "kubernetes"
NO_DOCUMENT = Document()


class Part(BaseModel):
    """A mapping of the file; a key with nothing behind it counts as not given."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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
        description="GPUs of a run: whole, or a fraction below 1 to share one; 0 hides them.",
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
        description="Processors of a run.",
    )
    memory: Memory | None = Field(
        default=None, description="Memory of a run: `32` is GB, `512M`, `1.5G`."
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
    hostname_whitelist: Names | None = Field(
        default=None, description="Machines that a run may be put on."
    )
    hostname_blacklist: Names | None = Field(
        default=None, description="Machines that it may not; not together with the whitelist."
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
            "environment, or `none`; unset is the environment of the shell that types `bay run`."
        ),
    )
    setup: Lines | None = Field(
        default=None,
        description="Shell lines before the command, text or a list; a failing one fails the run.",
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


class Common(Needs, Surroundings, ClusterFields):
    """What the root, a model, a dataset, a target and a site may all say."""

    @property
    def written(self) -> dict[str, Any]:
        """What was written of the keys that several places may set, by field."""
        fields = Common.model_fields.keys() & self.model_fields_set
        return {key: value for key in fields if (value := getattr(self, key)) is not None}


class Entry(Common):
    """What a model, a dataset and the root have in common: parameters, and how they are run."""

    params: Raw = Field(
        default=None,
        validation_alias=AliasChoices("params", "hparam"),
        description=(
            "Parameters to sweep: one value, a list, `0..4`, `{range: [start, stop, step]}`, "
            "`{linspace: [start, stop, count]}`, `{logspace: [start, stop, count]}` (exponents), a "
            "group (mapping of mappings), nested keys; a list of such mappings is their union. "
            "Values are text as typed; `_key` is left out of names."
        ),
    )
    zip: Raw = Field(
        default=None, description="Parameters whose lists are paired: `[a, b]`, or several such."
    )
    exclude: Raw = Field(
        default=None, description="Points to leave out: a list of mappings of keys to values."
    )


class Dataset(Entry):
    """An entry of `dataset:`."""

    include: Raw = Field(default=None, description="Points to add, besides the grid.")


class Model(Dataset):
    """An entry of `model:`; `<key>` is replaced in all that it says."""

    command: Command | None = Field(
        default=None, description="A shell script; unset is the file's own `command`."
    )


class RunBlock(Part):
    """Which models and datasets to run, and which of their parameters' values."""

    model: Names | None = Field(default=None, description="Models to run; unset is all.")
    dataset: Names | None = Field(default=None, description="Datasets to run on; unset is all.")
    params: Raw = Field(
        default=None,
        validation_alias=AliasChoices("params", "hparam"),
        description="Values to keep: a run that has the parameter is wanted only with one of them.",
    )


def read_blocks(written: object) -> object:
    """One block is a list of one."""
    return [written] if isinstance(written, dict) else written


class Target(Common):
    """A named place to run; each kind of target checks its own further options."""

    model_config = ConfigDict(extra="allow")

    kind: Text | None = Field(
        default=None, description="What drives it; `machine` is this computer."
    )
    host: Text | None = Field(default=None, description="Where to log in; unset is this computer.")
    root: Text | None = Field(
        default=None, description="The folder for runs; unset is `.bay/` in the project."
    )
    parallel: Count | None = Field(
        default=None,
        description="At most so many runs at once; unset is one a GPU, else one in four cores.",
    )
    devices: Devices | None = Field(
        default=None,
        description="The GPUs that it has: `auto` (those that nobody else uses), a number, or ids.",
    )

    @property
    def options(self) -> dict[str, Any]:
        """What was written for its backend, `kind` left out; the keys above have their types."""
        values = {**self.__dict__, **(self.model_extra or {})}
        written = self.model_fields_set - {"kind"}
        return {key: value for key, value in values.items() if key in written}

    def merged_with(self, over: Target) -> Target:
        """This target with another entry over it; maps merge, lists replace."""
        changes = over.options
        if over.kind is not None:
            changes["kind"] = over.kind
        for key, value in self.options.items():
            if isinstance(value, dict) and isinstance(changes.get(key), dict):
                changes[key] = {**value, **changes[key]}
        return self.model_copy(update=changes)


MACHINE_KEYS = frozenset(Target.model_fields) - frozenset(ClusterFields.model_fields)
"""What a target of kind `machine` may say."""


class Written(Part):
    """A whole file, which knows where each of its keys stands."""

    _document: Document = PrivateAttr(default=NO_DOCUMENT)
    _templates: dict[Route, dict[str, Any]] = PrivateAttr(default_factory=dict)

    @property
    def templates(self) -> dict[Route, dict[str, Any]]:
        """What holds placeholders, by the entry that it stands in: read once values are known."""
        return self._templates

    @property
    def document(self) -> Document:
        """What the file said, as typed."""
        return self._document

    def remember(self, document: Document, templates: dict[Route, dict[str, Any]]) -> None:
        """Note the document that this was made from, and what of it is read later."""
        self._document = document
        self._templates = templates


Targets = dict[TargetName, Target]


class ExperimentFile(Written, Entry):
    """The experiment file, `bay.yaml`."""

    project: Title | None = Field(
        default=None,
        validation_alias=AliasChoices("project", "project_name"),
        description="The project's name, the first word of a run's; unset is that of its folder.",
    )
    name: Title | None = Field(
        default=None, description="The experiment's name; unset is the project's."
    )
    prefix: Text | None = Field(
        default=None, description="A word in front of the runs' names; an empty one takes it away."
    )
    command: Command | None = Field(
        default=None,
        description=(
            "A shell script. `<key>` is the value of a parameter, quoted where it stands; "
            "`<key:raw>` as typed, `<key:flag>` is `--key` or nothing, `<params>` and "
            "`<overrides>` are all; `[local](remote)` chooses by target, `##…##` is a comment, "
            "`{{a,b}}` a list."
        ),
    )
    include: Raw = Field(
        default=None,
        description="Points to add, besides the grid; or a list of site files to build on.",
    )
    model: dict[EntryName, Model | None] | None = Field(
        default=None, description="Models by their names; each is run on every dataset."
    )
    dataset: dict[EntryName, Dataset | None] | None = Field(
        default=None, description="Datasets by their names."
    )
    run: Annotated[tuple[RunBlock, ...], BeforeValidator(read_blocks)] = Field(
        default=(),
        description="Which models, datasets and values to run, one block or a list; unset is all.",
    )
    parallel: Count | None = Field(
        default=None, description="At most so many runs of this experiment at once."
    )
    target: Text | None = Field(default=None, description="Where to run unless a flag says so.")
    targets: Targets = Field(
        default={}, description="Targets of this project, merged over the user's of that name."
    )
    secrets: Secrets = Field(
        default={},
        description=(
            "Variables whose values travel by reference: names from the environment, or "
            "`{NAME: FILE}`."
        ),
    )
    require: tuple[Variable, ...] = Field(
        default=(), description="Variables that a run must have; one that is missing is an error."
    )
    outputs: tuple[Inside, ...] = Field(
        default=DEFAULT_OUTPUTS,
        description="Folders that the program writes; each run has its own, in `$BAY_OUT`.",
    )
    metrics: dict[str, Pattern] = Field(
        default={},
        description="Name to regular expression with a group, read from the log; the last counts.",
    )
    code: tuple[Source, ...] = Field(
        default=(),
        description="Paths outside the project that travel with it, `SRC:DST`, as `../lib:lib`.",
    )
    snapshot_limit: Memory = Field(
        default=100,
        description="The most that the project's code may weigh, as `250M`; unset is `100M`.",
    )


class KubeFile(Written, Common):
    """The first tool's `config/kube.yaml`, which is the target `kube`."""

    project: Title | None = Field(
        default=None,
        validation_alias=AliasChoices("project", "project_name"),
        description="The project's name, where the experiment file gives none.",
    )
    namespace: Text | None = Field(default=None, description="The cluster's namespace.")
    user: Text | None = Field(default=None, description="Whose work it is, as a label.")
    prefix: Text | None = Field(
        default=None, description="A word in front of the runs' names; an empty one takes it away."
    )


class SiteFile(Written, Common):
    """What a site has prepared for its people: defaults, and targets to build on."""

    targets: Targets = Field(default={}, description="Targets of everybody, by their names.")


class UserConfig(Written):
    """The user's own configuration."""

    targets: Targets = Field(default={}, description="Targets of every project, by their names.")
    use: Text | None = Field(
        default=None, description="The target of projects that name none; unset is `local`."
    )
    include: tuple[Text, ...] = Field(default=(), description="Site files to build on.")


LATER = frozenset(
    {"retries", "resume", "grace", "pack", "profile", "folders", "outputs_to", "fetch"}
)
"""Keys that have a meaning already, and will have an effect."""
