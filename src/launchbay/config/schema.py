"""The shape of the files. The reference page comes from the descriptions here.

Values arrive as text (see `files`) and leave with the type that the core wants (see `fields`).
"""

from __future__ import annotations

from typing import Any

from pydantic import (
    AliasChoices,
    BaseModel,
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
    Environment,
    Gpus,
    GpuTypes,
    Inside,
    Lines,
    Memory,
    ParamName,
    Pattern,
    Source,
    TargetName,
    TimeLimit,
    Title,
    Values,
)
from launchbay.config.files import Document
from launchbay.core.job import DEFAULT_OUTPUTS

MACHINE = "machine"
LOCAL = "local"
NO_DOCUMENT = Document()


class Part(BaseModel):
    """A mapping of the file; a key with nothing behind it counts as not given."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
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
    """The resources that both a file and a target may name."""

    gpus: Gpus | None = Field(
        default=None,
        description="GPUs of a run: whole, or a fraction below 1 to share one; 0 hides them.",
    )
    gpu_type: GpuTypes | None = Field(
        default=None,
        description="A name, or a list of names, of which one must occur in the GPU's own name.",
    )
    cpus: Cpus | None = Field(default=None, description="Processors of a run.")
    memory: Memory | None = Field(
        default=None, description="Memory of a run: `32` is GB, `512M`, `1.5G`."
    )
    time: TimeLimit | None = Field(
        default=None,
        description="Time limit of a run: `90m`, `8h`, `2d`, `HH:MM:SS`, `D-HH`; `30` is minutes.",
    )


class Target(Needs):
    """A named place to run; each kind of target checks its own further options."""

    model_config = ConfigDict(extra="allow")

    kind: str | None = Field(
        default=None, description="What drives it; `machine` is this computer."
    )
    host: str | None = Field(default=None, description="Where to log in; unset is this computer.")
    root: str | None = Field(
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
    env: Environment = Field(
        default={}, description="Environment variables of every run there, below those of a file."
    )
    _from_project: frozenset[str] = PrivateAttr(default=frozenset())

    @property
    def from_project(self) -> frozenset[str]:
        """The keys that the project's file set, `env.NAME` for variables: they beat its root."""
        return self._from_project

    @property
    def options(self) -> dict[str, Any]:
        """What was written for its backend, `kind` left out; the keys above have their types."""
        values = {**self.__dict__, **(self.model_extra or {})}
        written = self.model_fields_set - {"kind"}
        return {key: value for key, value in values.items() if key in written}

    def merged_with(self, project: Target) -> Target:
        """This target with the entry of the project's file over it; maps merge, lists replace."""
        changes = project.options
        if project.kind is not None:
            changes["kind"] = project.kind
        for key, value in self.options.items():
            if isinstance(value, dict) and isinstance(changes.get(key), dict):
                changes[key] = {**value, **changes[key]}
        merged = self.model_copy(update=changes)
        variables = {f"env.{name}" for name in project.env}
        merged._from_project = frozenset(project.model_fields_set | variables)  # noqa: SLF001
        return merged


MACHINE_KEYS = frozenset(Target.model_fields)
"""What a target of kind `machine` may say."""


class Written(Part):
    """A whole file, which knows where each of its keys stands."""

    _document: Document = PrivateAttr(default=NO_DOCUMENT)

    @property
    def document(self) -> Document:
        """What the file said, as typed."""
        return self._document

    def remember(self, document: Document) -> None:
        """Note the document that this was made from."""
        self._document = document


Targets = dict[TargetName, Target]


class ExperimentFile(Written, Needs):
    """The experiment file, `bay.yaml`."""

    project: Title | None = Field(
        default=None,
        validation_alias=AliasChoices("project", "project_name"),
        description="The project's name, the first word of a run's; unset is that of its folder.",
    )
    name: Title | None = Field(
        default=None, description="The experiment's name; unset is the project's."
    )
    command: Command = Field(
        description="A shell script; `<key>` is the value of a parameter, quoted where it stands."
    )
    params: dict[ParamName, Values] = Field(
        default={},
        validation_alias=AliasChoices("params", "hparam"),
        description=(
            "Parameters to sweep, each with one value, a list, `0..4` or "
            "`{range: [start, stop, step]}`, both ends inclusive. Values are text as typed."
        ),
    )
    nodes: Count | None = Field(default=None, description="Machines of a run; unset is 1.")
    parallel: Count | None = Field(
        default=None, description="At most so many runs of this experiment at once."
    )
    target: str | None = Field(default=None, description="Where to run unless a flag says so.")
    targets: Targets = Field(
        default={}, description="Targets of this project, merged over the user's of that name."
    )
    env: Environment = Field(default={}, description="Environment variables of every run.")
    setup: Lines = Field(
        default="",
        description="Shell lines before the command, text or a list; a failing one fails the run.",
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


class UserConfig(Written):
    """The user's own configuration."""

    targets: Targets = Field(default={}, description="Targets of every project, by their names.")
    use: str | None = Field(
        default=None, description="The target of projects that name none; unset is `local`."
    )
