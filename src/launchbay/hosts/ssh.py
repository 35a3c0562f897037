"""A machine reached by the user's own `ssh`, over one shared connection.

One call is one session on that connection. The login shell only ever sees `exec /bin/sh -s`;
the rest is a conversation with that `sh`:

```text
here    a script, read to its end before any of it runs
there   a start line on standard output and on standard error: what rc files printed is before it
here    `go`, then the standard input of the command, then its end
there   what the command prints, then an end line with its exit code
```

Nothing runs before `go`, so a connection that breaks earlier can be tried again; one that breaks
before the end line is told apart from a command that exits with 255.
"""

from __future__ import annotations

import os
import secrets
import signal
import stat
import subprocess
import time
from contextlib import contextmanager
from functools import cache, cached_property, partial
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryFile
from threading import local
from typing import IO, TYPE_CHECKING, cast

from launchbay.core.errors import (
    ConfigError,
    Rejected,
    StoreError,
    TargetError,
    Unreachable,
)
from launchbay.core.host import Completed, Host, decoded, encoded
from launchbay.hosts.ssh_pipes import (
    START_S,
    ended,
    feeding,
    finished,
    listens,
    locked,
    no_ssh,
    one_of,
    read_all,
    started,
    until_ended,
    until_started,
    write_anew,
)
from launchbay.hosts.ssh_words import (
    ABSENT,
    Answer,
    explain,
    last_line,
    parse_answer,
    parse_configured_socket,
    render_command,
    render_reading,
    render_script,
    render_verbatim,
    render_writing,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

SESSIONS = 8
"""On one connection at once: sshd refuses the 11th, and a person may want one too."""
OPENING_S = 60.0
"""For a login without questions, jump hosts included."""
LONGEST_SOCKET = 85
"""Bytes: the system allows about 100, and ssh adds 17 of its own while it binds."""
SSH_FAILED = 255

OPTIONS = (
    *("-o", "ConnectTimeout=10"),
    *("-o", "ServerAliveInterval=15"),
    *("-o", "ServerAliveCountMax=3"),
    # Of the user's config, what is meant for a person at a terminal.
    *("-o", "RemoteCommand=none"),
    *("-o", "PermitLocalCommand=no"),
)
NO_TERMINAL = ("-o", "RequestTTY=no", "-o", "ClearAllForwardings=yes")
QUIETLY = ("-o", "BatchMode=yes", "-o", "LogLevel=ERROR")
# Who answered questions does not want to answer them again today; of two, ssh takes the first.
ANSWERED = ("-o", "ControlPersist=43200")
MASTER = ("-o", "ControlMaster=auto", "-o", "ControlPersist=600", "-fN")
# Without a control master ssh would log in anew, past the limit; a proxy that fails prevents it.
SESSION = ("-o", "ControlMaster=no", "-o", "ProxyCommand=false")
# A forwarding that is asked of the shared connection outlives whoever asked, so it is taken back.
# $0 the host, $1 and $2 the forwarding, then ssh. Where there is no connection, ssh makes one.
FORWARD = """\
option=$1 lead=$2
shift 2
"$@" -O check -- "$0" 2>/dev/null ||
    exec "$@" -N -T -o ControlMaster=no -o ExitOnForwardFailure=yes "$option" "$lead" -- "$0"
"$@" -O forward "$option" "$lead" -- "$0" || exit
end() { "$@" -O cancel "$option" "$lead" -- "$0" 2>/dev/null; exit 0; }
trap 'end "$@"' INT TERM HUP
while "$@" -O check -- "$0" 2>/dev/null; do
    sleep 5 &
    wait $!
done
exit 255
"""


class SSHHost(Host):
    """The machine that `ssh NAME` reaches."""

    def __init__(self, name: str, *, target: str = "", config: Path | None = None) -> None:
        self.name = name
        self._target = target or name
        # Another ssh config than ~/.ssh/config.
        other = os.environ.get("BAY_SSH_CONFIG")
        self._config = config or (Path(other) if other else None)
        self._thread = _OfThread()

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str = "",
        tell: Callable[[str], None] | None = None,
    ) -> Completed:
        told = None if tell is None else partial(_tell_text, tell)
        answer = self._ask(render_command(argv), stdin=encoded(stdin), tell=told)
        if answer.code == ABSENT:
            raise Unreachable(f"`{argv[0]}` does not start on `{self.name}`: it is not there")
        return Completed(
            code=int(answer.code), stdout=decoded(answer.stdout), stderr=decoded(answer.stderr)
        )

    def read_bytes(self, path: Path, *, offset: int = 0, most: int | None = None) -> bytes:
        answer = self._ask(render_reading(path, offset, most))
        if answer.code == "0":
            return answer.stdout
        problem = last_line(decoded(answer.stderr))
        if problem.endswith(": No such file or directory"):
            return b""
        raise Unreachable(f"`{path}` on `{self.name}` cannot be read: {problem}")

    def write_bytes(self, path: Path, data: bytes, *, mode: int = 0o600) -> None:
        answer = self._ask(render_writing(path, len(data), mode), stdin=data)
        if answer.code != "0":
            problem = last_line(decoded(answer.stderr))
            raise Rejected(f"`{path}` on `{self.name}` cannot be written: {problem}")

    def terminal_argv(self, argv: Sequence[str]) -> list[str]:
        # A person sits there: where the shared connection is closed, ssh may log in and ask.
        words = ["-t", "-o", "ControlMaster=no", "--", self.name, render_verbatim(argv)]
        return [*self._ssh_for_a_person, *words]

    def forward_argv(self, port: int, to_host: str, to_port: int) -> list[str]:
        lead = ["-L", f"127.0.0.1:{port}:{to_host}:{to_port}"]
        return ["sh", "-c", FORWARD, self.name, *lead, *self._ssh_for_a_person]

    def environment(self) -> Mapping[str, str]:
        # A run there has the environment of its own login.
        return {}

    def login_argv(self) -> list[str]:
        """What a person runs in a terminal to open the shared connection; it may ask questions.

        `close` first: with an open connection it would only wait beside it.
        """
        return [*self._ssh, "-o", "BatchMode=no", *ANSWERED, *MASTER, "--", self.name]

    def close(self) -> None:
        """End the shared connection, unless it is the user's own."""
        if self._users_socket is None and self._socket.exists():
            self._control("exit")

    @property
    def _ssh(self) -> list[str]:
        """`ssh` with what all calls have in common."""
        return self._ssh_with(*OPTIONS, *NO_TERMINAL)

    @property
    def _ssh_for_a_person(self) -> list[str]:
        return self._ssh_with(*OPTIONS)

    def _ssh_with(self, *options: str) -> list[str]:
        config = [] if self._config is None else ["-F", str(self._config)]
        return ["ssh", *config, *options, "-S", str(self._socket).replace("%", "%%")]

    @cached_property
    def _users_socket(self) -> Path | None:
        return _configured_socket(self.name, self._config)

    @cached_property
    def _ours(self) -> Path:
        """Where our own socket would be; the locks stand beside it."""
        return control_folder(os.environ) / _short_hash(f"{self.name}\0{self._config}")

    @property
    def _socket(self) -> Path:
        return self._users_socket or self._ours

    def _ask(
        self,
        body: str,
        *,
        stdin: bytes = b"",
        tell: Callable[[bytes], None] | None = None,
    ) -> Answer:
        """What a piece of shell text answers, run once or not at all."""
        with self._session():
            answer = self._ask_patiently(body, stdin, tell)
            if not (answer.started or answer.refused) and self._lost_master(answer.ssh_code):
                answer = self._ask_patiently(body, stdin, tell)
        if answer.code:
            return answer
        raise self._broken(answer)

    @contextmanager
    def _session(self) -> Iterator[None]:
        """Keep to the limit, except for what a listener calls: it would wait for itself."""
        if self._thread.busy:
            yield
            return
        with one_of(SESSIONS, self._ours):
            self._thread.busy = True
            try:
                yield
            finally:
                self._thread.busy = False

    def _broken(self, answer: Answer) -> TargetError:
        """The error of a session without an end line."""
        said = last_line(answer.ssh_said)
        if answer.started:
            said = said or "the connection broke"
            return Unreachable(f"`{self.name}` broke off in the middle of a command: {said}")
        if answer.refused:
            return Unreachable(f"`{self.name}` has no room for one more session on its connection")
        if answer.ssh_code == SSH_FAILED:
            return explain(self.name, self._target, answer.ssh_said)
        if answer.ssh_code < 0:
            return Unreachable(f"`{self.name}` gave no shell within {START_S:.0f} s")
        said = said or f"its login shell ended with {answer.ssh_code}"
        return Rejected(f"`{self.name}` gives no shell: {said}")

    def _ask_patiently(
        self, body: str, stdin: bytes, tell: Callable[[bytes], None] | None
    ) -> Answer:
        """The answer, once sshd has room: others may have sessions on the same connection."""
        deadline = time.monotonic() + START_S
        while True:
            self._open()
            answer = self._converse(body, stdin, tell)
            if not answer.refused or time.monotonic() > deadline:
                return answer
            time.sleep(0.1)

    def _open(self) -> None:
        """Have a control master that takes calls; one caller opens it, the others wait."""
        if listens(self._socket):
            return
        began = time.time_ns()
        with locked(self._ours.with_suffix(".open")) as failure:
            if listens(self._socket):
                return
            # Or a crowd would wait for one timeout after the other.
            if os.fstat(failure.fileno()).st_mtime_ns < began or not (said := read_all(failure)):
                said = self._log_in()
                write_anew(failure, said)
        if said:
            raise explain(self.name, self._target, decoded(said))

    def _log_in(self) -> bytes:
        """Start a control master without asking anybody; what was said if that failed."""
        self._socket.unlink(missing_ok=True)
        # A file: the master inherits it, and a pipe would stay open as long as the master.
        with TemporaryFile() as errors:
            code = finished([*self._ssh, *QUIETLY, *MASTER, "--", self.name], errors, OPENING_S)
            if code == 0:
                return b""
            return read_all(errors) or f"no login within {OPENING_S:.0f} s".encode()

    def _lost_master(self, ssh_code: int) -> bool:
        """Whether a session that did not start may fare better on a fresh connection.

        A master that is ending is let end; one that does not answer is made to, if it is ours.
        """
        if ssh_code not in {SSH_FAILED, -signal.SIGTERM}:
            return False
        if not listens(self._socket):
            return True
        if self._control("check"):
            return ssh_code == SSH_FAILED
        if self._users_socket is None:
            self.close()
            self._socket.unlink(missing_ok=True)
        return True

    def _control(self, verb: str) -> bool:
        """Whether the control master obeyed."""
        with TemporaryFile() as errors:
            return finished([*self._ssh, *QUIETLY, "-O", verb, "--", self.name], errors) == 0

    def _converse(self, body: str, stdin: bytes, tell: Callable[[bytes], None] | None) -> Answer:
        """One session, from its script to its end."""
        mark = secrets.token_hex(8)
        argv = [*self._ssh, *QUIETLY, *SESSION, "--", self.name, "exec /bin/sh -s"]
        script, rest = encoded(render_script(body, mark)), f"{mark}\n".encode() + stdin
        with (
            TemporaryFile() as errors,
            started(argv, errors) as process,
            feeding(process, script, rest) as go,
        ):
            pipe = cast("IO[bytes]", process.stdout)
            heard, pid = until_started(pipe, mark)
            if not pid:
                code = ended(process)
                return parse_answer(pid, b"", read_all(errors), code, mark)
            try:
                go.set()
                stdout = until_ended(pipe, heard, mark, tell)
            except BaseException:
                pipe.close()
                self._end_command(pid, process)
                raise
            code = process.wait()
            return parse_answer(pid, stdout, read_all(errors), code, mark)

    def _end_command(self, pid: str, process: subprocess.Popen[bytes]) -> None:
        """Ask the command to end: closing the session would reach it only when it writes."""
        body = f"kill -s TERM -- -{pid}; code=$?"
        try:
            asked = self._converse(body, b"", None).code == "0"
        except (OSError, TargetError):
            asked = False
        if not asked:
            process.terminate()


class _OfThread(local):
    """What each thread knows for itself."""

    busy = False


def control_folder(environment: Mapping[str, str]) -> Path:
    """The folder of our sockets and locks, which only we can enter."""
    runtime = environment.get("XDG_RUNTIME_DIR", "")
    folder = Path(runtime) / "bay-ssh"
    if (
        not runtime.startswith("/")
        or "${" in runtime
        or len(os.fsencode(folder)) > LONGEST_SOCKET - 17
    ):
        folder = Path(f"/tmp/bay-ssh-{os.getuid()}")  # noqa: S108
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        seen = folder.lstat()
    except OSError as err:
        raise StoreError(f"`{folder}` cannot be made: {err.strerror}") from err
    # Under /tmp anybody may have been first.
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.getuid() or seen.st_mode & 0o077:
        raise StoreError(
            f"`{folder}` is not a folder that only you can enter",
            hint=f"remove it, or chmod 700 {folder}",
        )
    return folder


@cache
def _configured_socket(name: str, config: Path | None) -> Path | None:
    words = [] if config is None else ["-F", str(config)]
    try:
        done = subprocess.run(
            ["ssh", *words, "-T", "-G", "--", name],
            capture_output=True,
            check=False,
            timeout=OPENING_S,
        )
    except subprocess.TimeoutExpired as err:
        raise ConfigError(f"`ssh -G {name}` does not end") from err
    except OSError as err:
        raise no_ssh(err) from err
    if done.returncode:
        raise ConfigError(f"ssh config of `{name}`: {last_line(decoded(done.stderr))}")
    return parse_configured_socket(decoded(done.stdout))


def _tell_text(tell: Callable[[str], None], line: bytes) -> None:
    tell(decoded(line))


def _short_hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]
