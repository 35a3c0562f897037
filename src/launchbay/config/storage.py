"""The types of the fields that speak of data: folders of runs, and object storage."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator
from pydantic import WithJsonSchema as Form

from launchbay.config import forms
from launchbay.config.fields import check_inside, check_word
from launchbay.config.resources import parse_truth
from launchbay.core.job import Folder
from launchbay.core.nearest import suggest

ENGINES = ("built-in", "s5cmd")
FOLDER_KEYS = ("from", "at", "ro")
FOLDER_FIX = "write `data: /scratch/data`, `data: s3://lab/data`, or `{from: …, at: …, ro: true}`"
STORAGE = re.compile(r"none|claim:[a-z0-9][a-z0-9.-]*|[A-Za-z0-9][\w-]*:\S.*", re.ASCII)
URL = re.compile(r"(?:s3|gs|az|file)://.*")


def _read_folders(written: object) -> object:
    """Names in the working folder with what is found there."""
    if not isinstance(written, dict):
        raise ValueError(f"must be a mapping of names to folders; {FOLDER_FIX}")  # noqa: TRY004
    return {name: _read_folder(check_inside(name), one) for name, one in written.items()}


def _read_folder(name: str, written: object) -> object:
    if isinstance(written, Folder):
        return written
    one = {"from": written} if isinstance(written, str) else written
    if not isinstance(one, dict) or not isinstance(one.get("from"), str) or not one["from"]:
        raise ValueError(f"`{name}` does not say where it comes from; {FOLDER_FIX}")
    for key in one:
        if key not in FOLDER_KEYS:
            hint = suggest(key, FOLDER_KEYS, listing=True)
            raise ValueError(f"`{name}` has no key `{key}`; {hint}")
    at = one.get("at") or ""
    if at and not (isinstance(at, str) and at.startswith(("/", "~/"))):
        raise ValueError(f"`{at}` is no absolute path; write one, such as `/root/.mujoco`")
    read_only = parse_truth(str(one.get("ro") or "false"))
    return Folder(name=name, source=one["from"], at=at, read_only=read_only)


def _check_storage(text: str) -> str:
    """A place in object storage, a claim, or `none`."""
    if not STORAGE.fullmatch(text) or ("://" in text and not URL.fullmatch(text)):
        fix = "write `s3://lab/results`, `claim:NAME` or `none`"
        raise ValueError(f"`{text}` is no place that outputs can go to; {fix}")
    return text


def _check_url(text: str) -> str:
    if not URL.fullmatch(text) and not text.startswith(("/", "~", ".")):
        fix = "write `s3://NAME`, `gs://NAME`, `az://CONTAINER`, or the path of a folder"
        raise ValueError(f"`{text}` is no place in object storage; {fix}")
    return text


def _refuse_key(written: object) -> object:
    """Keys are looked up where they are used; a file that holds them would be copied about."""
    if written in ("null", "~", ""):
        return ""
    fix = "write `null`, or nothing, and give it as a variable of the environment or of `.env`"
    raise ValueError(f"keys do not belong into files; {fix}")


def _check_engine(text: str) -> str:
    if text not in ENGINES:
        raise ValueError(f"`{text}` carries no bytes; {suggest(text, ENGINES, listing=True)}")
    return text


def read_buckets(written: object) -> object:
    """One place in object storage, or several by their names."""
    if isinstance(written, str):
        return {"": {"url": written}}
    if isinstance(written, dict) and "url" in written:
        return {"": written}
    if not isinstance(written, dict):
        return written
    return {
        name: {"url": one} if isinstance(one, str) else one
        for name, one in written.items()
        if _check_bucket(name)
    }


def _check_bucket(name: str) -> bool:
    """Whether paths can begin with the name; `s3:` and `claim:` are taken."""
    if name in {"s3", "gs", "az", "file", "claim", "http", "https"}:
        raise ValueError(f"`{name}` cannot be the name of a bucket; choose another")
    return bool(check_word(name, "bucket")) if name else True


Folders = Annotated[
    dict[str, Folder],
    BeforeValidator(_read_folders),
    Form(forms.mapping(f"^(?!{forms.LEADS_OUT})", forms.FOLDER)),
]
Storage = Annotated[str, AfterValidator(_check_storage), Form(forms.STORAGE)]
StorageUrl = Annotated[str, AfterValidator(_check_url), Form(forms.COMMAND)]
Engine = Annotated[str, AfterValidator(_check_engine), Form(forms.TEXT)]
NoKey = Annotated[str, BeforeValidator(_refuse_key), Form({"type": "null"})]
