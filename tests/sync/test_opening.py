"""Objects opened like files: fetched once, written whole."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from launchbay.core.errors import BadRequest, DataError
from launchbay.sync.bucket import BucketOptions, open_bucket
from launchbay.sync.opening import open_cached, open_outgoing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any


class Counted:
    """A bucket that counts what is asked of it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._bucket = open_bucket(BucketOptions(url=f"file://{folder}"))
        self.url = self._bucket.url
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        self.calls[name] += 1
        found: Callable[..., Any] = getattr(self._bucket, name)
        return found


@pytest.fixture
def bucket(tmp_path: Path) -> Any:
    """A folder with one object."""
    made = Counted(tmp_path / "bucket")
    (tmp_path / "bucket" / "x").write_text("one")
    return made


def test_the_second_open_makes_no_request(bucket: Any, tmp_path: Path) -> None:
    """The bytes come from the cache, and nothing is asked."""
    with open_cached(bucket, "x", cache=tmp_path / "cache") as file:
        first = file.read()
    asked = bucket.calls.total()
    with open_cached(bucket, "x", cache=tmp_path / "cache") as file:
        assert (first, file.read(), bucket.calls.total()) == (b"one", b"one", asked)


def test_refresh_fetches_only_what_changed(bucket: Any, tmp_path: Path) -> None:
    """Asking again costs one question, and bytes only when there are others."""
    cache = tmp_path / "cache"
    open_cached(bucket, "x", cache=cache).close()
    open_cached(bucket, "x", cache=cache, refresh=True).close()
    fetched = bucket.calls["read"]
    (tmp_path / "bucket" / "x").write_text("other")
    old = open_cached(bucket, "x", cache=cache)
    with open_cached(bucket, "x", cache=cache, refresh=True, mode="r") as file:
        text = file.read()
    with old:
        assert (fetched, text, old.read()) == (1, "other", b"one")
    # The version that nobody can open any more is not kept.
    assert len([path for path in cache.rglob("*") if path.is_file()]) == 3


def test_age_decides_when_to_ask(bucket: Any, tmp_path: Path) -> None:
    """Within the age nothing is asked, beyond it one question is."""
    cache = tmp_path / "cache"
    open_cached(bucket, "x", cache=cache).close()
    before = bucket.calls["head"]
    open_cached(bucket, "x", cache=cache, max_age_s=3600).close()
    within = bucket.calls["head"]
    open_cached(bucket, "x", cache=cache, max_age_s=0).close()

    assert (within - before, bucket.calls["head"] - within) == (0, 1)


def test_a_damaged_cache_is_fetched_anew(bucket: Any, tmp_path: Path) -> None:
    """A version cut short, or a record that is none, counts as not there."""
    cache = tmp_path / "cache"
    open_cached(bucket, "x", cache=cache).close()
    (version,) = (path for path in cache.rglob("*") if path.is_file() and len(path.name) == 32)
    version.write_text("o")
    version.with_name("current").write_text("{")
    version.unlink()
    with open_cached(bucket, "x", cache=cache) as file:
        assert file.read() == b"one"


def test_equal_names_in_two_places_are_two(bucket: Any, tmp_path: Path) -> None:
    """Two services may each have a bucket of one name; what is kept of one is not the other's."""
    cache = tmp_path / "cache"
    open_cached(bucket, "x", cache=cache, place="here").close()
    before = bucket.calls["read"]
    open_cached(bucket, "x", cache=cache, place="there").close()

    assert bucket.calls["read"] == before + 1


def test_a_missing_object_is_a_missing_file(bucket: Any, tmp_path: Path) -> None:
    """Who opens it gets what `open` raises, with the whole name."""
    with pytest.raises(FileNotFoundError, match="bucket/nowhere"):
        open_cached(bucket, "nowhere", cache=tmp_path / "cache")


READ = """
import sys, time
from pathlib import Path
from launchbay.sync.bucket import BucketOptions, open_bucket
from launchbay.sync.opening import open_cached

class Slow:
    def __init__(self, bucket):
        self.bucket, self.url = bucket, bucket.url
    def head(self, key):
        return self.bucket.head(key)
    def read(self, key, etag):
        with open(sys.argv[3], "a") as log:
            log.write("fetch\\n")
        time.sleep(0.5)
        return self.bucket.read(key, etag=etag)

bucket = Slow(open_bucket(BucketOptions(url=sys.argv[1])))
print(open_cached(bucket, "x", cache=Path(sys.argv[2])).read().decode())
"""


def test_processes_that_open_together_fetch_once(bucket: Any, tmp_path: Path) -> None:
    """Three programs read the same object at the same time, and it comes once."""
    log = tmp_path / "log"
    words = [sys.executable, "-c", READ, bucket.url, str(tmp_path / "cache"), str(log)]
    started = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = [process.communicate(timeout=60)[0] for process in started]

    assert said == ["one\n"] * 3
    assert log.read_text() == "fetch\n"


@pytest.mark.parametrize(("mode", "written"), [("wb", b"new"), ("w", "new")])
def test_what_is_written_is_sent_when_closed(
    mode: str, written: Any, bucket: Any, tmp_path: Path
) -> None:
    """Not before, and then whole."""
    target = tmp_path / "bucket" / "y"
    with open_outgoing(lambda path: bucket.put("y", path), mode=mode) as file:
        file.write(written)
        file.flush()
        early = target.exists()

    assert (early, target.read_text()) == (False, "new")


@pytest.mark.parametrize("mode", ["wb", "w"])
def test_nothing_is_sent_when_the_block_fails(mode: str, bucket: Any, tmp_path: Path) -> None:
    """What was there before stays as it was."""
    with (
        pytest.raises(ZeroDivisionError),
        open_outgoing(lambda path: bucket.put("x", path), mode=mode),
    ):
        raise ZeroDivisionError
    assert (tmp_path / "bucket" / "x").read_text() == "one"


def test_a_file_that_cannot_be_sent_tells_who_closes_it(tmp_path: Path) -> None:
    """The error comes out of `close`, and the draft is gone."""
    drafts: list[Path] = []

    def refuse(path: Path) -> None:
        drafts.append(path)
        raise DataError("no")

    file = open_outgoing(refuse)
    with pytest.raises(DataError, match="no"):
        file.close()
    assert not drafts[0].exists()


@pytest.mark.parametrize("mode", ["a", "r+", "x"])
def test_other_modes_are_refused(mode: str, bucket: Any, tmp_path: Path) -> None:
    """An object is read or written whole."""
    with pytest.raises(BadRequest, match="is not known"):
        open_cached(bucket, "x", cache=tmp_path, mode=mode)
