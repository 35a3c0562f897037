"""Sends or brings files by addresses that work without keys, where there is no curl.

Used as a program, `python3 signed.py get|put`; each line of standard input is an address, a blank,
and the path of a file in quotes. Standard library only, Python 3.8 or newer. An address is a
secret and never shown.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import sys
import time
import urllib.error
import urllib.request

TRIES = 4
LONGEST_S = 60
OURS = 500
"""Answers below this are no trouble of the service, and the same the next time."""


def carry(way: str, address: str, path: str) -> str:
    """Send or bring one file, again where the network fails; why it could not be done."""
    trouble = ""
    for number in range(TRIES):
        time.sleep(2**number - 1)
        try:
            if way == "get":
                bring(address, path)
            else:
                send(address, path)
        except urllib.error.HTTPError as error:
            trouble = f"{path}: the store answered with {error.code}"
            if error.code < OURS:
                break
        except (OSError, http.client.HTTPException) as error:
            trouble = f"{path}: {getattr(error, 'reason', error)}"
        else:
            return ""
    return trouble


def bring(address: str, path: str) -> None:
    """Have the file, whole or not at all."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    draft = f"{path}.bay-part"
    answer = urllib.request.urlopen(address, timeout=LONGEST_S)  # noqa: S310
    with answer, open(draft, "wb") as file:
        shutil.copyfileobj(answer, file)
        came, whole = file.tell(), answer.headers.get("Content-Length")
    # A line that breaks in the middle looks like an end.
    if whole and came != int(whole):
        raise http.client.IncompleteRead(b"", int(whole) - came)
    os.replace(draft, path)


def send(address: str, path: str) -> None:
    """Send the file."""
    with open(path, "rb") as file:
        request = urllib.request.Request(address, data=file, method="PUT")  # noqa: S310
        request.add_header("Content-Length", str(os.path.getsize(path)))
        # Else a form is meant, which was not signed.
        request.add_header("Content-Type", "")
        request.add_header("x-ms-blob-type", "BlockBlob")
        urllib.request.urlopen(request, timeout=LONGEST_S).close()  # noqa: S310


def main() -> None:
    """Every line in turn; the first that fails is said."""
    for line in sys.stdin:
        address, _, path = line.strip().partition(" ")
        trouble = carry(sys.argv[1], address, json.loads(path)) if address else ""
        if trouble:
            sys.exit(f"launchbay: {trouble}")


if __name__ == "__main__":
    main()
