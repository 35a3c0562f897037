"""A plan of sheets on its way to a host: a folder, as `take_plan` of node/plans.sh has it."""

from __future__ import annotations

import io
import tarfile
from typing import TYPE_CHECKING

from launchbay.backends.sheet import (
    is_own,
    own_secrets_name,
    parse_document,
    render_secrets,
    secret_groups,
    secrets_name,
)
from launchbay.core.host import decoded, encoded

if TYPE_CHECKING:
    from collections.abc import Callable

    from launchbay.core.backend import Plan


def archive_plan(plan: Plan, secret: Callable[[str], str]) -> str:
    """The plan's files as a tar archive, with the values that may not stand in the plan itself."""
    files = parse_document(plan.document)
    for group, names in enumerate(secret_groups(plan.jobs)):
        if names:
            files[secrets_name(group)] = render_secrets({name: secret(name) for name in names})
    for job in plan.jobs:
        if own := {name: secret(name) for name in job.secrets if is_own(name)}:
            files[own_secrets_name(job.run_id)] = render_secrets(own)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        # The last one tells that nothing broke off before it.
        for name, text in {**files, "whole": ""}.items():
            data = encoded(text)
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o600
            archive.addfile(info, io.BytesIO(data))
    return decoded(buffer.getvalue())
