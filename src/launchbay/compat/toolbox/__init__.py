"""The first tool's imports: `s3utils`, `kubeutils` and `utils`, and all of their names here.

A program changes one line: `from toolbox.s3utils import download_s3_path` becomes
`from launchbay.compat.toolbox.s3utils import download_s3_path`, and so for the other two. Nothing
is read, opened or asked for by importing, in a project or outside of one.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from launchbay.compat.toolbox.kubeutils import batch, create_config
    from launchbay.compat.toolbox.s3utils import (
        delete_local_files,
        download_s3_objects,
        download_s3_path,
        get_local_files,
        get_s3_objects,
        list_s3_objects,
        monitor,
        remove_s3_objects,
        remove_s3_path,
        upload_s3_objects,
        upload_s3_path,
    )
    from launchbay.compat.toolbox.utils import (
        increase_u_limit,
        load_class,
        load_env_file,
        load_wandb_artifact,
        loadable_artifacts,
    )

__all__ = [
    "batch",
    "create_config",
    "delete_local_files",
    "download_s3_objects",
    "download_s3_path",
    "get_local_files",
    "get_s3_objects",
    "increase_u_limit",
    "list_s3_objects",
    "load_class",
    "load_env_file",
    "load_wandb_artifact",
    "loadable_artifacts",
    "monitor",
    "remove_s3_objects",
    "remove_s3_path",
    "upload_s3_objects",
    "upload_s3_path",
]
ELSEWHERE = {
    "kubeutils": ("batch", "create_config"),
    "utils": (
        "increase_u_limit",
        "load_class",
        "load_env_file",
        "load_wandb_artifact",
        "loadable_artifacts",
    ),
}
"""The modules whose names are not those of `s3utils`."""


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """A function of one of the modules, which is loaded when it is first asked for."""
    if name not in __all__:
        raise AttributeError(f"module `{__name__}` has no `{name}`")
    found = (module for module, names in ELSEWHERE.items() if name in names)
    return getattr(import_module(f"{__name__}.{next(found, 's3utils')}"), name)
