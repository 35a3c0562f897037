"""SSH: what is sent and what is understood; `tests/real` has the rest."""

from __future__ import annotations

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.conftest import require_program

from launchbay.core.errors import (
    StoreError,
    TargetError,
    Unauthorized,
    Unreachable,
    Unsupported,
)
from launchbay.hosts.local import LocalHost
from launchbay.hosts.reach import reach
from launchbay.hosts.ssh import SSHHost, control_folder
from launchbay.hosts.ssh_words import (
    explain,
    find_start,
    parse_answer,
    parse_configured_socket,
    render_command,
    render_path,
    render_reading,
    render_script,
    render_verbatim,
    render_writing,
    tell_lines,
)

SHELLS = (["dash", "-s"], ["busybox", "sh", "-s"], ["bash", "-s"], ["bash", "--posix", "-s"])
CHANGED = """\
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!
Host key verification failed.
"""
JUMP = """\
ssh: connect to host gate port 22: Connection refused
kex_exchange_identification: Connection closed by remote host
Connection closed by UNKNOWN port 65535
"""


def converse(shell: list[str], body: str, stdin: bytes = b"") -> tuple[str, bytes, bytes]:
    """Talk with a shell as a session does: code, standard output, standard error."""
    require_program(shell[0])
    pipe = subprocess.PIPE
    with subprocess.Popen(shell, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(render_script(body, "m4rk").encode())
        heard = b""
        while not (found := find_start(heard, "m4rk")):
            heard += process.stdout.read(4096)
        out, err = process.communicate(b"m4rk\n" + stdin, timeout=30)
    answer = parse_answer(found[0], heard[found[1] :] + out, err, process.returncode, "m4rk")
    return answer.code, answer.stdout, answer.stderr


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_every_shell_has_the_conversation(shell: list[str]) -> None:
    """Words, input, output and exit code are the same in every `sh`."""
    words = ["sh", "-c", 'cat; printf %s "$0" >&2; exit 7', "it's\n$x\\ü`"]
    data = bytes(range(256)) * 2000 + b"end"

    assert converse(shell, render_command(words), data) == ("7", data, "it's\n$x\\ü`".encode())


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_builtins_are_not_meant(shell: list[str]) -> None:
    """A word that the shell would keep for itself is still a program."""
    assert converse(shell, render_command(["exit", "3"]))[0] == "127"
    assert converse(shell, render_command(["bay-none"]))[0] == "absent"


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_every_shell_writes_and_reads(shell: list[str], tmp_path: Path) -> None:
    """Files are written whole and read from an offset in every `sh`."""
    path, data = tmp_path / "a b" / "it's", bytes(range(256)) * 100
    code, _, err = converse(shell, render_writing(path, len(data), 0o640), data)

    assert (code, err, path.read_bytes(), path.stat().st_mode & 0o777) == ("0", b"", data, 0o640)
    assert converse(shell, render_reading(path, 300)) == ("0", data[300:], b"")


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_input_that_broke_off_is_not_written(shell: list[str], tmp_path: Path) -> None:
    """A file that arrived in part is thrown away."""
    path = tmp_path / "file"
    path.write_text("old")

    assert converse(shell, render_writing(path, 10, 0o600), b"new")[0] == "1"
    assert [(at.name, at.read_text()) for at in tmp_path.iterdir()] == [("file", "old")]


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_nothing_runs_before_go(shell: list[str], tmp_path: Path) -> None:
    """A script whose connection ends before `go` does nothing."""
    require_program(shell[0])
    script = render_script(render_command(["touch", str(tmp_path / "mark")]), "m4rk")
    subprocess.run(shell, input=script.encode(), capture_output=True, check=False)

    assert list(tmp_path.iterdir()) == []


def test_null_byte_is_refused() -> None:
    """No program can be given a null byte, so none is sent."""
    with pytest.raises(ValueError, match="null"):
        render_command(["echo", "a\0b"])


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("~", '"$HOME"'),
        ("~/a b", "\"$HOME\"/'a b'"),
        ("/x/~", "'/x/~'"),
        ("-", "./-"),
        ("~other/x", "'./~other/x'"),
    ],
)
def test_paths_as_words(path: str, word: str) -> None:
    """Only a `~` that stands alone at the start is a home."""
    assert render_path(Path(path)) == word


def test_start_line_after_noise() -> None:
    """What rc files print, a start line that is not ours included, is passed over."""
    noise = b"hello\nbay-other-start 1\nno newline"

    assert find_start(noise, "m4rk") is None
    assert find_start(noise + b"\nbay-m4rk-start 12", "m4rk") is None
    assert find_start(noise + b"\nbay-m4rk-start 12\nx", "m4rk") == ("12", len(noise) + 19)


def test_answer_without_end_line_has_no_code() -> None:
    """A connection that broke, even inside the end line, is no exit code."""
    for cut in (b"out", b"outbay-m4rk-end 25"):
        answer = parse_answer("9", cut, b"noise\nbay-m4rk-start\nmine\nssh: broken\n", 255, "m4rk")
        assert (answer.started, answer.code, answer.ssh_said) == (True, "", "mine\nssh: broken\n")


def test_answer_keeps_the_streams_apart() -> None:
    """Noise before and words of ssh after are not the command's."""
    err = b"oops\n\nbay-m4rk-start\nmine\nbay-m4rk-end\nShared connection closed.\n"
    answer = parse_answer("9", b"no newlinebay-m4rk-end 255\n", err, 0, "m4rk")

    assert (answer.code, answer.stdout, answer.stderr) == ("255", b"no newline", b"mine\n")


@pytest.mark.parametrize(
    ("heard", "lines", "told"),
    [
        (b"one\n\ntwo", [b"one", b""], 5),
        (b"twobay-m4rk-end 0\n", [b"two"], 18),
        (b"bay-m4rk-end 0\n", [], 15),
    ],
)
def test_lines_told(heard: bytes, lines: list[bytes], told: int) -> None:
    """Whole lines are told, the end line is not."""
    seen: list[bytes] = []

    assert (tell_lines(heard, "m4rk", seen.append), seen) == (told, lines)


@pytest.mark.parametrize(
    ("said", "kind", "message"),
    [
        ("Host key verification failed.", Unauthorized, "the host key of `box` is not known yet"),
        (CHANGED, Unauthorized, "`box` shows another host key than before"),
        (
            "me@box: Permission denied (publickey).\r\nConnection closed by UNKNOWN port 65535\r\n",
            Unauthorized,
            "`box` wants a login: me@box: Permission denied (publickey).",
        ),
        (
            JUMP,
            Unreachable,
            "`box` does not answer: ssh: connect to host gate port 22: Connection refused",
        ),
        ("", Unreachable, "`box` does not answer: ssh ended without a word"),
    ],
)
def test_errors_of_ssh(said: str, kind: type[TargetError], message: str) -> None:
    """Each thing that ssh says is one line with what to try."""
    error = explain("box", "there", said)

    assert (type(error), str(error)) == (kind, message)
    assert error.hint


def test_configured_socket() -> None:
    """The user's `ControlPath` is found, `none` is none."""
    assert parse_configured_socket("user me\ncontrolpath /a b/c\nport 22\n") == Path("/a b/c")
    assert parse_configured_socket("controlpath none\n") is None
    assert parse_configured_socket("user me\n") is None


def test_folder_that_others_can_enter_is_refused() -> None:
    """Somebody else's folder of that name is not used."""
    with TemporaryDirectory(prefix="bay-") as folder:
        (Path(folder) / "bay-ssh").mkdir(mode=0o755)

        with pytest.raises(StoreError, match="not a folder that only you can enter"):
            control_folder({"XDG_RUNTIME_DIR": folder})


def test_long_runtime_folder_is_not_used(tmp_path: Path) -> None:
    """Where a socket's path would be too long, the folder is under /tmp."""
    folder = control_folder({"XDG_RUNTIME_DIR": str(tmp_path / ("x" * 90))})

    assert folder.parent == Path("/tmp")  # noqa: S108


ODD = [
    "",
    "it's",
    '"',
    "!x !! ",
    "a\\\\b\\",
    "$HOME `no`",
    "ü\udcff",
    "%s\\0",
    "{a,b}*~",
    "\n",
    "x\n",
]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "tcsh", "dash"])
def test_every_login_shell_passes_words_on(shell: str) -> None:
    """Whatever reads the text of a login, the program gets its words verbatim."""
    text = render_verbatim(["printf", "[%s]", *ODD])
    argv = [require_program(shell), "-c", text]
    done = subprocess.run(argv, capture_output=True, check=False)

    assert done.stdout.decode("utf-8", "surrogateescape") == "".join(f"[{word}]" for word in ODD)


def test_text_for_a_login_shell_is_plain() -> None:
    """Of what shells read differently nothing is left but one pair of quotes."""
    text = render_verbatim(["a b", "it's"])

    assert text.count("'") == 2
    assert text.endswith(" exec,0040,0047a,0040b,0047,0040,0047it,0047,0042,0047,0042,0047s,0047")
    with pytest.raises(ValueError, match="null"):
        render_verbatim(["a\0b"])


def test_config_of_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`BAY_SSH_CONFIG` names another file than ~/.ssh/config."""
    config = tmp_path / "config"
    config.write_text("")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("BAY_SSH_CONFIG", str(config))
    given = SSHHost("me@box").terminal_argv(["true"])
    monkeypatch.delenv("BAY_SSH_CONFIG")
    own = SSHHost("me@box").terminal_argv(["true"])

    assert given[:3] == ["ssh", "-F", str(config)]
    assert "-F" not in own


def test_host_of_a_target() -> None:
    """Without a name it is this machine, with one what `ssh` reaches."""
    here, there = reach("", "local"), reach("me@box", "box")

    assert (type(here), type(there)) == (LocalHost, SSHHost)
    assert (here.name, there.name) == ("", "me@box")


def test_nothing_leads_through_this_machine() -> None:
    """A port of this machine needs no way to it."""
    with pytest.raises(Unsupported, match="needs no forwarding") as caught:
        LocalHost().forward_argv(8000, "127.0.0.1", 80)

    assert caught.value.hint == "its programs reach `127.0.0.1:80` as it is"
