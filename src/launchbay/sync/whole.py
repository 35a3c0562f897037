"""A small object with what is kept beside it, in one request where the store can."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from launchbay.core.errors import ChangedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Buffer

    from launchbay.sync.bucket import Bucket
    from launchbay.sync.object_bucket import ObjectBucket
    from launchbay.sync.object_store import Store


class Whole(NamedTuple):
    """An object's bytes and details."""

    data: Buffer
    details: Mapping[str, str]


def take_whole(bucket: Bucket, key: str, etag: str) -> Whole:
    """The object as it was listed; ChangedError when it is another by now."""
    if bucket.parts:
        from launchbay.sync.object_bucket import ObjectBucket  # noqa: PLC0415 - a heavy one

        if isinstance(bucket, ObjectBucket):
            return _take(bucket, key, etag)
    return Whole(b"".join(bucket.read(key, etag=etag)), bucket.details(key))


def _take(bucket: ObjectBucket, key: str, etag: str) -> Whole:
    import obstore  # noqa: PLC0415 - loaded already

    full = bucket._full(key)  # noqa: SLF001 - one of us

    def get(store: Store) -> tuple[Whole, str]:
        answer = obstore.get(store, full)
        found = answer.meta["e_tag"] or ""
        details = {name.lower(): value for name, value in answer.attributes.items()}
        return Whole(answer.bytes(), details), found.removeprefix("W/").strip('"')

    whole, found = bucket._ask(key, get)  # noqa: SLF001
    if etag and found != etag:
        raise ChangedError(f"{key} in {bucket.url} was changed meanwhile", hint="try again")
    return whole
