"""The shape of the files. The reference page comes from the descriptions here.

Values arrive as text (see `files`) and leave with the type that the core wants (see `fields`).
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AliasChoices, BeforeValidator, ConfigDict, Field, PrivateAttr
from pydantic import WithJsonSchema as Form

from launchbay.config import forms
from launchbay.config.common import ClusterFields, Common, Part, Profile, SlurmFields
from launchbay.config.fields import (
    Code,
    Command,
    Count,
    Devices,
    EntryName,
    HostName,
    Inside,
    Memory,
    Names,
    Pattern,
    Raw,
    Seconds,
    Secrets,
    TargetName,
    Text,
    Title,
    Truth,
    Variable,
)
from launchbay.config.files import Document
from launchbay.config.problems import Route  # noqa: TC001
from launchbay.config.storage import Engine, NoKey, StorageUrl, read_buckets
from launchbay.core.job import DEFAULT_OUTPUTS

MACHINE = "machine"
SLURM = "slurm"
LOCAL = "local"
KUBE = "kube"
KUBERNETES = "kubernetes"
NO_DOCUMENT = Document()


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


class BucketEntry(Part):
    """An entry of `bucket:`, a place in object storage."""

    url: StorageUrl = Field(
        description="`s3://NAME/PREFIX`, `gs://…`, `az://CONTAINER/…`, or the path of a folder."
    )
    endpoint: Text | None = Field(
        default=None, description="Where the service answers; unset is the cloud's own."
    )
    region: Text | None = Field(default=None, description="The region that it is in.")
    account: Text | None = Field(default=None, description="The storage account, of Azure.")
    profile: Text | None = Field(
        default=None, description="The profile of your AWS configuration that has its keys."
    )
    keys: Variable | None = Field(
        default=None,
        description=(
            "A word at the end of the variables that have its keys: with `WEST` they are "
            "`AWS_ACCESS_KEY_ID_WEST`, `AWS_SECRET_ACCESS_KEY_WEST` and so on."
        ),
    )
    anonymous: Truth | None = Field(
        default=None, description="Whether it is asked without keys, though there are some."
    )
    engine: Engine | None = Field(
        default=None,
        description="What carries the bytes: `built-in`, which is the default, or `s5cmd`.",
    )
    access_key: NoKey | None = Field(
        default=None, description="Nothing: it is given as `AWS_ACCESS_KEY_ID`."
    )
    secret_key: NoKey | None = Field(
        default=None, description="Nothing: it is given as `AWS_SECRET_ACCESS_KEY`."
    )
    account_key: NoKey | None = Field(
        default=None, description="Nothing: it is given as `AZURE_STORAGE_KEY`."
    )
    sas_token: NoKey | None = Field(
        default=None, description="Nothing: it is given as `AZURE_STORAGE_SAS_TOKEN`."
    )


def _bucket_form() -> forms.Schema:
    """A place, a mapping that has a `url`, or names with either."""
    fields = BucketEntry.model_fields.items()
    entry = {
        "type": "object",
        "properties": {key: {**forms.TEXT, "description": one.description} for key, one in fields},
        "required": ["url"],
        "additionalProperties": False,
    }
    place = {**forms.TEXT, "pattern": r"\S"}
    return {"anyOf": [place, entry, forms.mapping("", {"anyOf": [place, entry]})]}


BucketEntries = Annotated[
    dict[str, BucketEntry], BeforeValidator(read_buckets), Form(_bucket_form())
]
BUCKET_WORDS = (
    "Object storage: one place, `s3://lab/me`, which mirrors the project's folder; or several by "
    "their names, each a place or a mapping."
)


class Target(Common):
    """A named place to run; each kind of target checks its own further options."""

    model_config = ConfigDict(extra="allow")

    kind: Text | None = Field(
        default=None, description="What drives it: `machine`, `slurm` or `kubernetes`."
    )
    host: HostName | None = Field(
        default=None,
        description=(
            "Where to log in, `me@box` or a name of your ssh configuration; unset is this computer."
        ),
    )
    root: Text | None = Field(
        default=None,
        description=(
            "The folder for runs; unset is `.bay/` in the project for a machine without `host`, "
            "`~/bay` for all else. `~` is the home folder there."
        ),
    )
    parallel: Count | None = Field(
        default=None,
        description="At most so many runs at once; unset is one a GPU, else one in four cores.",
    )
    devices: Devices | None = Field(
        default=None,
        description="The GPUs that it has: `auto` (those that nobody else uses), a number, or ids.",
    )
    profiles: dict[EntryName, Profile] | None = Field(
        default=None,
        description="Sets of keys to choose from, by their names: `{gpu: {partition: gpu}}`.",
    )
    look_every: Seconds | None = Field(
        default=None,
        description="How often a cluster is asked at most; unset is `10s`, of Kubernetes `2s`.",
    )
    namespace: Text | None = Field(default=None, description="The namespace, of a Kubernetes.")
    context: Text | None = Field(
        default=None,
        description="The context of your `kubectl`; unset is the one that it uses by itself.",
    )
    kubeconfig: Text | None = Field(
        default=None, description="The file that `kubectl` reads; unset is its own choice."
    )
    user: Text | None = Field(
        default=None, description="Whose work it is, as a label; unset is your name here."
    )
    endpoints: dict[str, Text] | None = Field(
        default=None,
        description=(
            "Addresses that runs on this target reach by another name, `{PUBLIC: INSIDE}`: "
            "variables with the one as value have the other there."
        ),
    )

    @property
    def options(self) -> dict[str, Any]:
        """What was written for its backend; the keys above have their types."""
        chosen_elsewhere = {"kind", "profiles"}
        return {key: value for key, value in self._said.items() if key not in chosen_elsewhere}

    @property
    def _said(self) -> dict[str, Any]:
        values = {**self.__dict__, **(self.model_extra or {})}
        return {key: value for key, value in values.items() if key in self.model_fields_set}

    def merged_with(self, over: Target) -> Target:
        """This target with another entry over it; maps merge, lists replace."""
        changes = over._said
        for key, value in self._said.items():
            if isinstance(value, dict) and isinstance(changes.get(key), dict):
                changes[key] = {**value, **changes[key]}
        return self.model_copy(update=changes)


PLACE_KEYS = frozenset({"namespace", "context", "kubeconfig", "user"})
CLUSTER_KEYS = frozenset(ClusterFields.model_fields) | PLACE_KEYS
ONLY_SLURM = frozenset(SlurmFields.model_fields)
LOOKED_AT = frozenset({"look_every"})
ONLY_MACHINE = frozenset({"devices"})
KEYS_OF = {
    MACHINE: frozenset(Target.model_fields) - CLUSTER_KEYS - ONLY_SLURM - LOOKED_AT,
    SLURM: frozenset(Target.model_fields) - CLUSTER_KEYS - ONLY_MACHINE,
    KUBERNETES: frozenset(Target.model_fields) - ONLY_SLURM - ONLY_MACHINE - {"root"},
}
"""What a target may say, by its kind; of other kinds any key is taken."""


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
    bucket: BucketEntries = Field(default={}, description=BUCKET_WORDS)
    code: Code = Field(
        default=(),
        description=(
            "Paths outside the project that travel with it, `SRC:DST`, as `../lib:lib`; or `image` "
            "where the image has all of the code, and nothing travels but `file`."
        ),
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
    context: Text | None = Field(
        default=None,
        description="The context of your `kubectl`; unset is the one that it uses by itself.",
    )
    endpoints: dict[str, Text] | None = Field(
        default=None,
        description="Addresses that pods reach by another name, `{PUBLIC: INSIDE}`.",
    )
    prefix: Text | None = Field(
        default=None, description="A word in front of the runs' names; an empty one takes it away."
    )


class SiteFile(Written, Common):
    """What a site has prepared for its people: defaults, and targets to build on."""

    targets: Targets = Field(default={}, description="Targets of everybody, by their names.")
    bucket: BucketEntries = Field(default={}, description=BUCKET_WORDS)


class UserConfig(Written):
    """The user's own configuration."""

    targets: Targets = Field(default={}, description="Targets of every project, by their names.")
    use: Text | None = Field(
        default=None, description="The target of projects that name none; unset is `local`."
    )
    include: tuple[Text, ...] = Field(default=(), description="Site files to build on.")
    bucket: BucketEntries = Field(default={}, description=BUCKET_WORDS)
