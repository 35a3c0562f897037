"""A bucket for `make download` and its like, in images that have no bay.

Used as a program, `python3 s3.py VERB PATTERN [FOLDER/ [overwrite]]`; VERB is download, upload,
list, find or remove. Which bucket and with which keys the environment says, see toolbox.sh.
Standard library only, and Python 3.6: images for old code have nothing newer.
"""

import calendar
import contextlib
import errno
import hashlib
import hmac
import http.client
import os
import re
import ssl
import sys
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import IO, Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple
from urllib.parse import quote, unquote_plus, urlencode, urlsplit
from xml.etree import ElementTree as ET

AT_ONCE = 8
TRIES = 3
LONGEST_S = 60
BLOCK = 1024 * 1024
MOST_BYTES = 5 * 1024**3
"""What one request may send."""
OURS = 500
"""Answers below this are no trouble of the service, and the same the next time."""
TOO_MANY = 429
EVERYTHING = ("", ".", "./")
HERE = {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS} | {
    *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.EEXIST)
}
"""Trouble with files, which no second try mends."""
MD5 = re.compile(r"[0-9a-f]{32}\Z")
UNHASHED = "UNSIGNED-PAYLOAD"


class Trouble(Exception):
    """What went wrong, in one sentence."""


class Item(NamedTuple):
    """An object; its key counts from the folder of the bucket that is ours."""

    key: str
    size: int
    modified: float
    etag: str


class Store:
    """A bucket, and who asks it.

    Args:
        env: what toolbox.sh says; without keys nothing is signed.
    """

    def __init__(self, env: Dict[str, str]) -> None:
        self.region = env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or "us-east-1"
        own = f"https://s3.{self.region}.amazonaws.com"
        self.endpoint = (env.get("S3_ENDPOINT_URL") or env.get("AWS_ENDPOINT_URL") or own).rstrip(
            "/"
        )
        name = env["S3_BUCKET_NAME"]
        name = name[len("s3://") :] if name.startswith("s3://") else name
        self.bucket, _, folder = name.strip("/").partition("/")
        self.folder = folder + "/" if folder else ""
        self.id = env.get("AWS_ACCESS_KEY_ID", "")
        self.secret = env.get("AWS_SECRET_ACCESS_KEY", "")
        self.token = env.get("AWS_SESSION_TOKEN", "")
        # Reading the usual certificates takes longer than most requests.
        context = ssl.create_default_context(cafile=env.get("AWS_CA_BUNDLE") or None)
        self.opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context))

    def __str__(self) -> str:
        """As a person writes it."""
        return f"s3://{self.bucket}/{self.folder}"

    def open(
        self,
        method: str,
        key: str,
        query: Optional[Dict[str, str]] = None,
        body: Optional[Iterator[bytes]] = None,
        size: int = 0,
    ) -> Any:  # noqa: ANN401 - what urllib gives
        """Ask once; the answer has to be closed."""
        place = urlsplit(self.endpoint)
        path = f"{place.path}/{quote(self.bucket)}"
        if key:
            path += "/" + quote(key.encode("utf-8", "surrogateescape"), safe="/~")
        asked = urlencode(sorted((query or {}).items()), quote_via=quote, safe="~")
        headers = self.sign(method, path, asked, place.netloc) if self.id else {}
        if body is not None:
            headers.update(
                {"Content-Length": str(size), "Content-Type": "application/octet-stream"}
            )
        url = "{}://{}{}{}".format(place.scheme, place.netloc, path, "?" + asked if asked else "")
        request = urllib.request.Request(url, data=body, method=method, headers=headers)  # noqa: S310
        return self.opener.open(request, timeout=LONGEST_S)

    def sign(self, method: str, path: str, query: str, host: str) -> Dict[str, str]:
        """The headers of version 4 of AWS; what is sent is not part of it, so that it can flow."""
        now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        headers = {"host": host, "x-amz-content-sha256": UNHASHED, "x-amz-date": now}
        if self.token:
            headers["x-amz-security-token"] = self.token
        names = ";".join(sorted(headers))
        lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
        whole = f"{method}\n{path}\n{query}\n{lines}\n{names}\n{UNHASHED}"
        scope = f"{now[:8]}/{self.region}/s3/aws4_request"
        digest = hashlib.sha256(whole.encode()).hexdigest()
        text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{digest}"
        key = ("AWS4" + self.secret).encode()
        for word in [*scope.split("/"), text]:
            key = hmac.new(key, word.encode(), hashlib.sha256).digest()
        del headers["host"]
        who = f"Credential={self.id}/{scope}, SignedHeaders={names}, Signature={key.hex()}"
        return {**headers, "authorization": f"AWS4-HMAC-SHA256 {who}"}

    def pages(self, start: str, delimiter: str = "") -> Iterator[Tuple[List[str], List[Item]]]:
        """The folders and objects whose keys begin so, a page at a time."""
        asked = {"list-type": "2", "encoding-type": "url", "prefix": self.folder + start}
        if delimiter:
            asked["delimiter"] = delimiter
        more = ""
        while True:
            query = dict(asked, **({"continuation-token": more} if more else {}))
            text = self.again(partial(self.read, query), f"the list of {self}")
            # It comes from the storage that the keys are for.
            page = ET.fromstring(text)  # noqa: S314
            space = page.tag.rpartition("}")[0] + "}" if "}" in page.tag else ""
            above = page.iterfind(f"{space}CommonPrefixes/{space}Prefix")
            folders = [self.inside(one.text or "") for one in above]
            yield folders, [self.item(one, space) for one in page.iterfind(space + "Contents")]
            more = page.findtext(space + "NextContinuationToken") or ""
            if page.findtext(space + "IsTruncated") != "true" or not more:
                return

    def items(self, start: str) -> Iterator[Item]:
        """The objects whose keys begin so."""
        for _, items in self.pages(start):
            yield from items

    def read(self, query: Dict[str, str]) -> bytes:
        """A whole answer."""
        with self.open("GET", "", query) as answer:
            return bytes(answer.read())

    def inside(self, text: str) -> str:
        """A key as it counts for us, from the form in which all names can be told."""
        return unquote_plus(text, errors="surrogateescape")[len(self.folder) :]

    def item(self, found: ET.Element, space: str) -> Item:
        """An entry of a list."""
        when = (found.findtext(space + "LastModified") or "1970-01-01T00:00:00Z")[:19]
        return Item(
            self.inside(found.findtext(space + "Key") or ""),
            int(found.findtext(space + "Size") or 0),
            calendar.timegm(time.strptime(when, "%Y-%m-%dT%H:%M:%S")),
            (found.findtext(space + "ETag") or "").strip('"'),
        )

    def get(self, item: Item, path: str) -> None:
        """Have the file, whole or not at all."""
        folder = os.path.dirname(path)
        os.makedirs(folder or ".", exist_ok=True)
        draft = os.path.join(folder, f".bay-{os.getpid()}-{threading.get_ident()}.part")
        try:
            with self.open("GET", self.folder + item.key) as answer, open(draft, "wb") as file:
                expected = int(answer.headers.get("Content-Length") or item.size)
                if copy(answer, file) != expected:
                    raise ConnectionError("the answer broke off")
            os.replace(draft, path)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(draft)

    def put(self, key: str, path: str) -> None:
        """Send the file as it is now."""
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > MOST_BYTES:
                raise Trouble("it is larger than 5 GiB; install s5cmd or launchbay in the image")
            self.open("PUT", self.folder + key, body=blocks(file, size), size=size).close()

    def delete(self, key: str) -> None:
        """Remove the object."""
        self.open("DELETE", self.folder + key).close()

    def again(self, act: Callable[[], Any], what: str) -> Any:  # noqa: ANN401 - as the act
        """Do it, again where the network or the service fails.

        Raises:
            Trouble: when it could not be done.
        """
        trouble = ""
        for number in range(TRIES):
            time.sleep(number)
            try:
                return act()
            except Trouble as error:
                raise Trouble(f"{what}: {error}") from error
            except urllib.error.HTTPError as error:
                trouble = self.explain(error)
                if error.code < OURS and error.code != TOO_MANY:
                    break
            except (OSError, http.client.HTTPException) as error:
                trouble = str(
                    getattr(error, "reason", "") or getattr(error, "strerror", "") or error
                )
                if getattr(error, "errno", None) in HERE:
                    break
        raise Trouble(f"{what}: {trouble}")

    def explain(self, error: urllib.error.HTTPError) -> str:
        """What the service answered, with what to do about it."""
        found = re.search(rb"<Code>(\w+)</Code>", error.read())
        code = found.group(1).decode() if found else ""
        said = f"the store answered {error.code} {code or error.reason}"
        if code == "NoSuchBucket":
            return f"there is no bucket `{self.bucket}` at {self.endpoint}"
        if not self.id:
            return f"{said}; AWS_ACCESS_KEY_ID is not set, write it into .env"
        return f"{said}; check the keys of .env" if error.code in {401, 403} else said


def copy(source: IO[bytes], file: IO[bytes]) -> int:
    """Copy all there is; how much it was."""
    total = 0
    while True:
        block = source.read(BLOCK)
        if not block:
            return total
        total += file.write(block)


def blocks(file: IO[bytes], size: int) -> Iterator[bytes]:
    """So many bytes of a file, which may grow meanwhile."""
    while size:
        block = file.read(min(size, BLOCK))
        if not block:
            raise Trouble("it became shorter while it was sent")
        size -= len(block)
        yield block


class Pattern:
    """Which keys are meant: `*` crosses folders, a name is that object and what is below it.

    Args:
        text: as it was typed.
    """

    def __init__(self, text: str) -> None:
        while text.startswith("./"):
            text = text[2:]
        text = "" if text in EVERYTHING else text
        wild = re.search(r"[*?\[\\]", text)
        self.wild = wild is not None
        self.text = text
        self.start = text[: wild.start()] if wild else text
        """What every key that is meant begins with."""
        end = "" if text.endswith("*") else ".+" if text.endswith("/") else "(?:/.+)?"
        self.meant = re.compile("".join(translate(text)) + end if text else ".*", re.DOTALL)

    def matches(self, key: str) -> bool:
        """Whether the key is meant; names that end like folders are none of objects."""
        return not key.endswith("/") and self.meant.fullmatch(key) is not None


def translate(text: str) -> Iterator[str]:
    """The pieces of a regular expression."""
    at = 0
    while at < len(text):
        letter = text[at]
        end = text.find("]", at + 2) if letter == "[" else -1
        if letter == "[" and end > 0:
            inner = text[at + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            inner = "^/" + inner[1:] if inner[0] in "!^" else inner
            yield f"(?!/)[{inner}]"
            at = end
        elif letter == "\\" and at + 1 < len(text):
            yield re.escape(text[at + 1])
            at += 1
        else:
            yield {"*": ".*", "?": "[^/]"}.get(letter) or re.escape(letter)
        at += 1


def local_files(pattern: Pattern, folder: str) -> List[str]:
    """The keys of the files here that are meant; links are followed, each folder once."""
    found = []
    top = pattern.start if not pattern.wild else os.path.dirname(pattern.start)
    start = native(os.path.join(folder, top))
    if os.path.isfile(start):
        return [pattern.text] if pattern.matches(pattern.text) else []
    seen = set()
    for above, names, files in os.walk(start, followlinks=True):
        status = os.stat(above)
        if (status.st_dev, status.st_ino) in seen:
            names[:] = []
            continue
        seen.add((status.st_dev, status.st_ino))
        inside = told(os.path.relpath(above, native(folder)))
        keys = [name if inside == "." else f"{inside}/{name}" for name in map(told, files)]
        found += [key for key in keys if pattern.matches(key) and not is_draft(key)]
    return sorted(key for key in found if os.path.isfile(native(os.path.join(folder, key))))


def told(name: str) -> str:
    """A name from the system, as it is told to everybody, whatever its locale."""
    return os.fsencode(name).decode("utf-8", "surrogateescape")


def native(name: str) -> str:
    """A name for the system."""
    return os.fsdecode(name.encode("utf-8", "surrogateescape"))


def is_draft(key: str) -> bool:
    """Whether it is the beginning of a download."""
    name = os.path.basename(key)
    return name.startswith(".bay-") and ".part" in name


def is_safe(key: str) -> bool:
    """Whether the file of a key is where the key says."""
    return not {"", ".", ".."} & set(key.split("/")) and "\0" not in key


def has_it(item: Item, path: str) -> bool:
    """Whether a file is as large as the object, and no older."""
    try:
        status = os.stat(path)
    except OSError:
        return False
    return status.st_size == item.size and status.st_mtime >= item.modified


def is_sent(item: Optional[Item], path: str) -> bool:
    """Whether the object is the file: by content where the store tells it, else by time."""
    status = os.stat(path)
    if item is None or item.size != status.st_size:
        return False
    if not MD5.match(item.etag):
        return status.st_mtime <= item.modified
    try:
        total = hashlib.md5()  # noqa: S324 - what the store tells
    except ValueError:
        return False
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(BLOCK), b""):
            total.update(block)
    return total.hexdigest() == item.etag


def say(text: str, stream: Any = None) -> None:  # noqa: ANN401 - a stream with bytes
    """A line, whatever letters names have."""
    to = (stream or sys.stdout).buffer
    to.write(text.encode("utf-8", "surrogateescape") + b"\n")
    to.flush()


def complain(text: str) -> None:
    """A line for whoever looks why."""
    say("launchbay: " + text, sys.stderr)


class Desk:
    """The verbs, on one bucket and one folder."""

    def __init__(self, store: Store, folder: str, *, overwrite: bool) -> None:
        self.store, self.folder, self.overwrite = store, folder, overwrite

    def download(self, pattern: Pattern) -> int:
        """Have here what is meant, as far as it is not."""
        items = list(filter(lambda one: pattern.matches(one.key), self.store.items(pattern.start)))
        if not items:
            return self.nothing(self.store, pattern)
        wanted = [item for item in items if is_safe(item.key)]
        for item in items:
            if not is_safe(item.key):
                complain(f"`{item.key}` is left out: it leads out of the folder")

        def bring(item: Item) -> str:
            path = native(self.folder + item.key)
            if not self.overwrite and has_it(item, path):
                return ""
            self.store.again(lambda: self.store.get(item, path), item.key)
            return f"Downloaded {item.key} to {self.folder}{item.key}"

        return max(self.all(bring, wanted), int(len(wanted) < len(items)))

    def upload(self, pattern: Pattern) -> int:
        """Have there what is meant, as far as it is not."""
        keys = local_files(pattern, self.folder)
        if not keys:
            return self.nothing(self.folder, pattern)
        there = {} if self.overwrite else {one.key: one for one in self.store.items(pattern.start)}
        shown = "" if self.folder == "./" else self.folder

        def send(key: str) -> str:
            path = native(self.folder + key)
            if not self.overwrite and is_sent(there.get(key), path):
                return ""
            self.store.again(lambda: self.store.put(key, path), self.folder + key)
            return f"Uploaded {shown}{key} to {key}"

        return self.all(send, keys)

    def remove(self, pattern: Pattern) -> int:
        """Have nothing there of what is meant."""
        keys = [one.key for one in self.store.items(pattern.start) if pattern.matches(one.key)]
        if not keys:
            return self.nothing(self.store, pattern)

        def take(key: str) -> str:
            self.store.again(lambda: self.store.delete(key), key)
            return "Removed " + key

        return self.all(take, keys)

    def find(self, pattern: Pattern) -> int:
        """Name the objects that are meant."""
        found = [one.key for one in self.store.items(pattern.start) if pattern.matches(one.key)]
        for key in found:
            say(key)
        return 0 if found else self.nothing(self.store, pattern)

    def list(self, pattern: Pattern) -> int:
        """Name what lies directly in a folder, folders first; or what is called so."""
        if pattern.wild:
            complain("`list` shows one folder; `make find` with the same looks through all")
            return 2
        start = pattern.text.rstrip("/") + "/" if pattern.text else ""
        folders, keys = [], []  # type: Tuple[List[str], List[str]]
        for above, items in self.store.pages(start, "/"):
            folders += above
            keys += [one.key for one in items if one.key != start]
        if not folders and not keys and pattern.text:
            keys = [one.key for one in self.store.items(pattern.text) if one.key == pattern.text]
        for name in sorted(folders) + sorted(keys):
            say(name)
        return 0

    def all(self, act: Callable[[Any], str], things: List[Any]) -> int:
        """Do it to all of them, several at once; what failed is said, and the rest goes on."""

        def careful(thing: Any) -> Tuple[str, str]:  # noqa: ANN401 - an item or a key
            try:
                return act(thing), ""
            except Trouble as trouble:
                return "", str(trouble)

        code = 0
        with ThreadPoolExecutor(AT_ONCE) as crew:
            for said, trouble in crew.map(careful, things):
                if said:
                    say(said)
                if trouble:
                    complain(trouble)
                    code = 1
        return code

    @staticmethod
    def nothing(where: object, pattern: Pattern) -> int:
        """Say that nothing is meant."""
        complain(f"nothing in {where} matches `{pattern.text}`")
        return 1


def main(words: List[str]) -> int:
    """One verb; its exit code."""
    verb, text, folder, overwrite = ([*map(told, words)] + [""] * 4)[:4]
    desk = Desk(Store(dict(os.environ)), folder or "./", overwrite=bool(overwrite))
    try:
        code = getattr(desk, verb)(Pattern(text))  # type: int
    except Trouble as trouble:
        complain(str(trouble))
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
