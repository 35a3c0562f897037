"""signed.py: a file is there whole or not at all, whatever the line does."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

from tests.node.workshop import NODE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONTENT = b"0123456789" * 1000


@contextmanager
def breaking(times: int) -> Iterator[str]:
    """A server that ends so many answers in the middle; its address."""
    left = [times]

    class Half(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(CONTENT)))
            self.end_headers()
            left[0] -= 1
            self.wfile.write(CONTENT[: 5000 if left[0] >= 0 else len(CONTENT)])

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Half)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/x"
    finally:
        server.shutdown()
        server.server_close()


def bring(address: str, path: Path) -> subprocess.CompletedProcess[str]:
    """Have the program fetch one file."""
    return subprocess.run(
        [sys.executable, str(NODE / "signed.py"), "get"],
        input=f"{address} {json.dumps(str(path))}\n",
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_answer_that_breaks_off_is_asked_for_again(tmp_path: Path) -> None:
    """Half of a file is no file; the next try brings all of it."""
    with breaking(1) as address:
        done = bring(address, tmp_path / "x")

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "x").read_bytes() == CONTENT
