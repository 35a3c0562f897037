"""Keys that a program hands out: the session of a cloud's own login, used as it is."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from launchbay.core.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LONGEST_S = 60


@dataclass(frozen=True, kw_only=True)
class Keys:
    """A key of S3, perhaps for a while only."""

    id: str
    secret: str = field(repr=False)
    token: str = field(default="", repr=False)
    expires: datetime | None = None


def which(name: str, env: Mapping[str, str]) -> str | None:
    """Where the program is on the PATH that the variables give."""
    return shutil.which(name, path=env.get("PATH"))


def keys_from_process(command: str, profile: str, env: Mapping[str, str]) -> Keys:
    """What a profile's `credential_process` says."""
    hint = f"try it by hand: {command}"
    return _parsed(_output(shlex.split(command), env, f"profile {profile}", hint), profile, hint)


def keys_from_aws(profile: str, env: Mapping[str, str]) -> Keys:
    """The session that `aws` has, by single sign-on or a role."""
    program = which("aws", env)
    if program is None:
        raise DataError(
            f"profile {profile} logs in through the `aws` program, which is not on PATH",
            hint="install it, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in .env",
        )
    hint = f"log in with `aws sso login --profile {profile}`"
    argv = [program, "configure", "export-credentials", "--profile", profile]
    said = _output([*argv, "--format", "process"], env, f"profile {profile}", hint)
    return _parsed(said, profile, hint)


def token_from_gcloud(env: Mapping[str, str]) -> str:
    """The session that `gcloud` has."""
    hint = "log in with `gcloud auth login`"
    program = which("gcloud", env) or "gcloud"
    return _output([program, "auth", "print-access-token"], env, "gcloud", hint).strip()


def _output(argv: Sequence[str], env: Mapping[str, str], who: str, hint: str) -> str:
    try:
        done = subprocess.run(
            argv,
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DataError(f"the login of {who} cannot be had", hint=hint) from error
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2]
        told = f": {last}" if last else ""
        raise DataError(f"the login of {who} is missing or has run out{told}", hint=hint)
    return done.stdout


def _parsed(text: str, profile: str, hint: str) -> Keys:
    try:
        said = json.loads(text)
        until = said.get("Expiration")
        return Keys(
            id=said["AccessKeyId"],
            secret=said["SecretAccessKey"],
            token=said.get("SessionToken") or "",
            expires=_moment(until) if until else None,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        # What it said may hold a secret, so it is not repeated.
        message = f"the login of profile {profile} gave no keys"
        raise DataError(message, hint=hint) from error


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
