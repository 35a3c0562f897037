"""SSH, as a real sshd and real login shells have it."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier, Thread
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.conftest import eventually, require_program

from launchbay.core.errors import Rejected, TargetError, Unauthorized, Unreachable
from launchbay.core.host import Completed
from launchbay.hosts.ssh import SSHHost
from launchbay.testing.contract import NASTY, HostContract

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.real.conftest import Sshd

    from launchbay.core.host import Host

pytestmark = [pytest.mark.slow, pytest.mark.real]

NOISE = {
    "bash": (".bashrc", "echo hello; echo oops >&2; stty -a; printf 'no newline'\n"),
    "zsh": (".zshenv", "echo hello; echo oops >&2; stty -a; printf 'no newline'\n"),
    "fish": (".config/fish/config.fish", "echo hello; echo oops >&2; stty -a; printf nope\n"),
    "tcsh": (".tcshrc", "echo hello; sh -c 'echo oops >&2'; stty -a; printf nope\n"),
    "sh": (".profile", "echo hello; echo oops >&2\n"),
}
ANY_TEXT = st.text(st.characters(codec="utf-8"), max_size=6000)
WORDS = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=3000))
CROWD = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from launchbay.hosts.ssh import SSHHost
host = SSHHost("box", config=Path(sys.argv[1]))
def count(_):
    return host.run(["sh", "-c", sys.argv[2], sys.argv[3]]).stdout.strip()
with ThreadPoolExecutor(12) as pool:
    print(*pool.map(count, range(15)))
"""
INTERRUPTED = """
import sys
from pathlib import Path
from launchbay.hosts.ssh import SSHHost
host = SSHHost("box", config=Path(sys.argv[1]))
host.run(["sh", "-c", 'echo $$ >"$0"; exec sleep 600', sys.argv[2]])
"""
COUNTING = 'mkdir "$0/$$" && sleep 0.1 && ls "$0" | wc -l && rmdir "$0/$$"'


class TestSSHHost(HostContract):
    """An account reached by ssh."""

    @pytest.fixture
    def host(self, box: SSHHost) -> Host:
        return box

    @pytest.fixture
    def folder(self, sshd: Sshd) -> Path:
        return own_folder(sshd)


def own_folder(sshd: Sshd) -> Path:
    """A folder of the account."""
    folder = Path(tempfile.mkdtemp(dir=sshd.home))
    owner = sshd.home.stat()
    os.chown(folder, owner.st_uid, owner.st_gid)
    return folder


@given(words=WORDS, text=ANY_TEXT)
@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_all_characters_arrive(box: SSHHost, words: list[str], text: str) -> None:
    """Words and standard input arrive as they are, whatever is in them."""
    done = box.run(["sh", "-c", 'printf "%s\\0" "$@"; cat >&2', "sh", *words], stdin=text)

    assert done.stdout == "".join(f"{word}\0" for word in words or [""])
    assert done.stderr == text


def test_bytes_that_are_no_text_survive(box: SSHHost) -> None:
    """What is not UTF-8 goes there and back unchanged."""
    odd = bytes(range(1, 256)).decode("utf-8", "surrogateescape")

    assert box.run(["printf", "%s", odd]).stdout == odd
    assert box.run(["cat"], stdin=odd).stdout == odd


@pytest.mark.parametrize("tail", ["", "\n", "\n\n"])
def test_megabytes_of_input(box: SSHHost, tail: str) -> None:
    """Five megabytes arrive, with or without a newline at their end."""
    text = "0123456789abcdé\n" * 310_000 + "end" + tail

    assert box.run(["cat"], stdin=text) == Completed(code=0, stdout=text, stderr="")


def test_input_that_nobody_reads(box: SSHHost) -> None:
    """A command may end without reading what it was given."""
    assert box.run(["true"], stdin="x" * 3_000_000).ok


def test_big_output_on_both(box: SSHHost) -> None:
    """Megabytes on standard output and standard error come back whole."""
    done = box.run(["sh", "-c", "seq 500000 >&2 & seq 500000; wait"])
    numbers = "".join(f"{number}\n" for number in range(1, 500_001))

    assert (done.stdout == numbers, done.stderr == numbers) == (True, True)


@pytest.mark.parametrize("shell", sorted(NOISE))
def test_noisy_login_shells(sshd: Sshd, control: Path, shell: str) -> None:
    """Whatever the login shell is and its rc files print, a command's words are its own."""
    name, text = NOISE[shell]
    rc_file = sshd.home / name
    rc_file.parent.mkdir(parents=True, exist_ok=True)
    rc_file.write_text(text)
    sshd.shell(require_program(shell))
    host = SSHHost("box", config=sshd.config)
    told: list[str] = []
    try:
        quiet = host.run(["sh", "-c", 'cat; echo "$0" >&2; exit 4', "it's !$x"], stdin="a\n\nb")
        host.run(["printf", "one\n\ntwo"], tell=told.append)
        data = host.read_bytes(Path(f"~/{name}"))
    finally:
        host.close()
        sshd.shell("/bin/bash")
        rc_file.unlink()

    assert quiet == Completed(code=4, stdout="a\n\nb", stderr="it's !$x\n")
    assert (told, data) == (["one", "", "two"], text.encode())


def test_account_without_a_shell(sshd: Sshd, control: Path) -> None:
    """An account that lets nobody in says so."""
    sshd.shell("/usr/sbin/nologin")
    host = SSHHost("box", config=sshd.config)
    try:
        with pytest.raises(Rejected, match="`box` gives no shell"):
            host.run(["true"])
    finally:
        host.close()
        sshd.shell("/bin/bash")


@pytest.mark.parametrize("code", [0, 3, 255])
def test_exit_codes_are_the_commands(box: SSHHost, code: int) -> None:
    """Even the code that ssh uses for its own failures is the command's."""
    assert box.run(["sh", "-c", f"exit {code}"]).code == code


def test_command_killed_by_a_signal(box: SSHHost) -> None:
    """A killed command has the exit code that shells give it."""
    assert box.run(["sh", "-c", "kill -9 $$"]).code == 128 + 9


def test_told_end_reaches_the_command(box: SSHHost, sshd: Sshd) -> None:
    """What the listener raises ends the command there and all that it started."""
    seen: list[str] = []

    def tell(line: str) -> None:
        seen.append(line)
        raise InterruptedError(line)

    with pytest.raises(InterruptedError):
        box.run(["sh", "-c", "sleep 600 & echo $!; wait"], tell=tell)

    eventually(lambda: ended(int(seen[0])))


def ended(process: int) -> bool:
    """Whether it is gone, or only waits to be reaped."""
    try:
        return " Z " in Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return True


def test_binary_files_both_ways(box: SSHHost, sshd: Sshd) -> None:
    """Any bytes are written and read back, from any offset."""
    data = os.urandom(300_000) + b"\0\n"
    path = own_folder(sshd) / "a b" / "c'd" / "data"
    box.write_bytes(path, data)

    assert [box.read_bytes(path, offset=at) == data[at:] for at in (0, 1, 299_999)] == [True] * 3
    assert box.read_bytes(path, offset=400_000) == b""
    assert [stat.S_IMODE(at.stat().st_mode) for at in (path, path.parent)] == [0o600, 0o700]


def test_home_is_the_one_there(box: SSHHost, sshd: Sshd) -> None:
    """A path that begins with `~` is in the account's home."""
    box.write_bytes(Path("~/new/note"), b"here", mode=0o640)
    written = sshd.home / "new" / "note"

    assert (written.read_bytes(), stat.S_IMODE(written.stat().st_mode)) == (b"here", 0o640)
    assert box.read_bytes(Path("~/new/note"), offset=1) == b"ere"


def test_failed_writing_leaves_what_was(box: SSHHost, sshd: Sshd) -> None:
    """A file that cannot be written stays as it is, and no draft is left."""
    folder = own_folder(sshd)
    box.write_bytes(folder / "file", b"old")
    (folder / "sub").mkdir()
    folder.chmod(0o755)
    os.chown(folder, 0, 0)

    for path in (folder / "file", folder / "sub", Path("/proc/none/file")):
        with pytest.raises(Rejected, match=r"cannot be written: .*(denied|directory)"):
            box.write_bytes(path, b"new")
    assert sorted(path.name for path in folder.iterdir()) == ["file", "sub"]
    assert (folder / "file").read_bytes() == b"old"


def test_unreadable_file_is_an_error(box: SSHHost, sshd: Sshd) -> None:
    """A file that is there and cannot be read is not an empty one."""
    secret = sshd.home / "secret"
    secret.write_text("x")
    secret.chmod(0o600)

    with pytest.raises(Unreachable, match=r"cannot be read: .*Permission denied"):
        box.read_bytes(secret)


def test_crowd_shares_one_connection(box: SSHHost, sshd: Sshd) -> None:
    """Calls of many threads in two processes: one login, never more sessions than the limit."""
    folder, before = own_folder(sshd), sshd.logins
    argv = [sys.executable, "-c", CROWD, str(sshd.config), COUNTING, str(folder)]
    crowds = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    counts = [int(word) for crowd in crowds for word in crowd.communicate(timeout=60)[0].split()]

    assert len(counts) == 30
    assert 2 <= max(counts) <= 8
    assert sshd.logins - before == 1


def test_sessions_of_others_are_waited_for(box: SSHHost, sshd: Sshd) -> None:
    """Where a person holds sessions on the same connection, calls wait for room."""
    go = own_folder(sshd) / "go"
    holding = 'touch "$0.$$"; until [ -e "$0" ]; do sleep 0.05; done'
    argv = [*box._ssh, "-o", "ControlMaster=no", "box", f"set -- {go}; sh -c '{holding}' {go}"]
    box.run(["true"])
    others = [subprocess.Popen(argv) for _ in range(10)]
    eventually(lambda: len(list(go.parent.iterdir())) == 10)
    caller = Thread(target=box.run, args=[["true"]])
    caller.start()
    before = sshd.logins
    eventually(lambda: sshd.log.count("no more sessions"))
    go.touch()
    caller.join(20)

    assert [other.wait(20) for other in others] == [0] * 10
    assert (caller.is_alive(), sshd.logins) == (False, before)


def test_listeners_may_call_too(box: SSHHost) -> None:
    """Where all sessions are taken, what their listeners call still goes through."""
    together = Barrier(8)

    def tell(line: str) -> None:
        together.wait(30)
        assert box.run(["echo", line]).stdout == f"{line}\n"

    with ThreadPoolExecutor(8) as pool:
        runs = [pool.submit(box.run, ["sh", "-c", "echo x; cat"], tell=tell) for _ in range(8)]
        assert all(run.result(timeout=60).ok for run in runs)


def test_broken_connection_is_told(box: SSHHost, sshd: Sshd) -> None:
    """A command whose connection is cut is not taken for ended; the next call logs in anew."""
    box.run(["true"])
    before = sshd.logins

    def cut(line: str) -> None:
        for process in sshd.sessions():
            os.kill(process, signal.SIGKILL)

    began = time.monotonic()
    with pytest.raises(Unreachable, match="`box` broke off in the middle of a command") as caught:
        box.run(["sh", "-c", "echo now; exec sleep 30"], tell=cut)

    assert time.monotonic() - began < 25  # it did not hang
    assert "\n" not in str(caught.value)
    assert box.run(["echo", "again"]).stdout == "again\n"
    assert sshd.logins == before + 1


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_dead_master_is_replaced(box: SSHHost, sshd: Sshd, how: signal.Signals) -> None:
    """A control master that died, leaving its socket or not, costs one more login."""
    box.run(["true"])
    os.kill(master_of(box), how)
    before = sshd.logins

    assert box.run(["echo", "again"]).stdout == "again\n"
    assert sshd.logins == before + 1


def test_connection_cut_between_calls(box: SSHHost, sshd: Sshd) -> None:
    """Where the connection is gone before anything started, the call is made on a fresh one."""
    box.run(["true"])
    mark = own_folder(sshd) / "mark"
    for process in sshd.sessions():
        os.kill(process, signal.SIGKILL)
    box.run(["sh", "-c", 'echo x >>"$0"', str(mark)])

    assert mark.read_text() == "x\n"


def master_of(host: SSHHost) -> int:
    """The process id of the control master."""
    said = subprocess.run(
        [*host._ssh, "-O", "check", host.name], capture_output=True, text=True, check=True
    )
    return int(said.stderr.partition("pid=")[2].partition(")")[0])


def test_stopped_sshd_is_unreachable(box: SSHHost, sshd: Sshd) -> None:
    """Nobody listening is one line with the words of ssh."""
    sshd.stop()

    error = refusal(box)
    assert isinstance(error, Unreachable)
    assert str(error).endswith(f"port {sshd.port}: Connection refused")


def test_wrong_key_is_unauthorized(sshd: Sshd, control: Path) -> None:
    """A key that is not accepted asks for a login, and does not prompt."""
    error = refusal(SSHHost("denied", target="there", config=denying(sshd)))

    assert isinstance(error, Unauthorized)
    assert "Permission denied" in str(error)
    assert error.hint == "`bay target login there`"


def denying(sshd: Sshd) -> Path:
    """The ssh config without the right key."""
    path = sshd.folder / "denied_config"
    path.write_text(sshd.config.read_text().replace(f"IdentityFile {sshd.folder}/user_key", ""))
    return path


def test_unknown_host_key_is_unauthorized(sshd: Sshd, control: Path) -> None:
    """A host that was never seen is not trusted silently."""
    error = refusal(SSHHost("stranger", config=sshd.config))

    assert isinstance(error, Unauthorized)
    assert (str(error), error.hint) == (
        "the host key of `stranger` is not known yet",
        "`ssh stranger` once, and compare the fingerprint that it shows",
    )


def test_changed_host_key_is_unauthorized(sshd: Sshd, control: Path) -> None:
    """A host with another key than before is not trusted."""
    other = (sshd.folder / "other_key.pub").read_text().split()[:2]
    sshd.write("no_hosts", f"[127.0.0.1]:{sshd.port} {' '.join(other)}\n")
    error = refusal(SSHHost("stranger", config=sshd.config))
    sshd.write("no_hosts", "")

    assert isinstance(error, Unauthorized)
    assert str(error) == "`stranger` shows another host key than before"


def refusal(host: SSHHost) -> TargetError:
    """The error of a call, which is one line and comes soon."""
    began = time.monotonic()
    with pytest.raises(TargetError) as caught:
        host.run(["true"])
    assert time.monotonic() - began < 25  # it did not hang
    assert "\n" not in str(caught.value)
    return caught.value


def test_unknown_name_is_unreachable(sshd: Sshd, control: Path) -> None:
    """A name that nobody knows is said to be that."""
    error = refusal(SSHHost("bay-no-such-host.invalid", config=sshd.config))

    assert isinstance(error, Unreachable)
    assert "Could not resolve hostname" in str(error)


def test_nobody_else_can_enter(box: SSHHost, control: Path) -> None:
    """Socket and locks are for their owner only."""
    box.run(["true"])
    folder = control / "bay-ssh"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert len(modes) == 1 + 1 + 8
    assert set(modes.values()) == {0o600}


@pytest.fixture
def own(sshd: Sshd, control: Path) -> Iterator[SSHHost]:
    """The account under a name for which the user's config has a `ControlPath`."""
    host = SSHHost("own", config=sshd.config)
    yield host
    for path in sshd.folder.glob("own-*"):
        subprocess.run(["ssh", "-S", path, "-O", "exit", "own"], capture_output=True, check=True)


def test_connection_of_the_user_is_used(own: SSHHost, sshd: Sshd) -> None:
    """The user's own `ControlPath` is used and never closed."""
    before = sshd.logins
    own.run(["true"])
    own.close()
    own.run(["true"])

    assert len(list(sshd.folder.glob("own-*"))) == 1
    assert sshd.logins == before + 1


def test_login_opens_what_calls_use(box: SSHHost, sshd: Sshd) -> None:
    """After a person's login nothing logs in again; closing ends the connection."""
    before = sshd.logins
    subprocess.run(box.login_argv(), check=True, stderr=subprocess.DEVNULL, timeout=20)
    master = master_of(box)
    box.run(["true"])

    assert sshd.logins == before + 1
    box.close()
    eventually(lambda: ended(master))


def test_host_behind_another(sshd: Sshd, control: Path) -> None:
    """A jump host of the user's config is gone through, once."""
    host, before = SSHHost("far", config=sshd.config), sshd.logins
    try:
        assert [host.run(["echo", "far"]).stdout for _ in range(3)] == ["far\n"] * 3
    finally:
        host.close()

    assert sshd.logins == before + 2


def test_interrupted_call_ends_its_command(box: SSHHost, sshd: Sshd) -> None:
    """An interrupt from the keyboard ends what runs there."""
    mark = own_folder(sshd) / "pid"
    # Whoever started us in the background has the signal ignored, and so would we.
    listening = ["env", "--default-signal=INT", sys.executable, "-c", INTERRUPTED]
    call = [*listening, str(sshd.config), str(mark)]
    caller = subprocess.Popen(call, stderr=subprocess.PIPE, start_new_session=True)
    eventually(lambda: mark.exists() and mark.read_text().endswith("\n"))
    os.killpg(caller.pid, signal.SIGINT)

    assert b"KeyboardInterrupt" in caller.communicate(timeout=60)[1]
    eventually(lambda: ended(int(mark.read_text())))


def test_forwarded_ports_and_commands_stay_out(sshd: Sshd, control: Path) -> None:
    """What the config has for a person at a terminal does not get into a call's way."""
    path = sshd.folder / "busy_config"
    busy = "Host *\n RemoteCommand tmux\n RequestTTY force\n LocalForward 1 127.0.0.1:1\n"
    path.write_text(sshd.config.read_text() + busy + " ExitOnForwardFailure yes\n")
    host = SSHHost("box", config=path)
    try:
        assert host.run(["echo", "fine"]) == Completed(code=0, stdout="fine\n", stderr="")
    finally:
        host.close()


def callers(server: socket.socket) -> int:
    """How many have called."""
    server.settimeout(0)
    number = 0
    with suppress(BlockingIOError):
        while True:
            server.accept()[0].close()
            number += 1
    return number


def test_silent_host_is_unreachable_for_all_at_once(sshd: Sshd, control: Path) -> None:
    """A host that never speaks costs a crowd one timeout, not one each."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        path = sshd.folder / "silent_config"
        port = silent.getsockname()[1]
        path.write_text(f"Host box\n Port {port}\n" + sshd.config.read_text())
        host = SSHHost("box", config=path)
        with ThreadPoolExecutor(6) as pool:
            errors = [pool.submit(host.run, ["true"]).exception for _ in range(6)]
            said = {str(error(timeout=90)) for error in errors}
        tried = callers(silent)

    assert tried == 1
    assert said == {"`box` does not answer: Connection timed out during banner exchange"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "tcsh"])
def test_terminal_by_every_login_shell(box: SSHHost, sshd: Sshd, shell: str) -> None:
    """A person's command gets its words over the open connection, whatever shell reads them."""
    box.run(["true"])
    before = sshd.logins
    sshd.shell(require_program(shell))
    words = [*NASTY, "!x", "\\\\", "\udcff", "%s", "{a,b}", "x\n"]
    argv = box.terminal_argv(["printf", "[%s]", *words])
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    finally:
        sshd.shell("/bin/bash")

    assert done.stdout.decode("utf-8", "surrogateescape") == "".join(f"[{word}]" for word in words)
    assert sshd.logins == before


def test_terminal_without_a_connection(box: SSHHost, sshd: Sshd) -> None:
    """Where the shared connection is closed a person's command logs in by itself."""
    before = sshd.logins
    argv = box.terminal_argv(["echo", "in"])
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False)

    assert (done.stdout, done.returncode, sshd.logins) == (b"in\n", 0, before + 1)
