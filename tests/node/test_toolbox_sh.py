"""toolbox.sh in every shell that an image may have, with each program that it may use."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from tests.conftest import require_program
from tests.node.test_pod_sh import Pod, script
from tests.node.workshop import NODE
from tests.real.object_servers import find_program, started
from tests.stubs import SHELLS, write_program

from launchbay.backends.kubernetes.packing import render_programs
from launchbay.backends.kubernetes.podspec import Frame, render_pod_spec
from launchbay.backends.kubernetes.volumes import Carried

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from launchbay.sync.bucket import BucketOptions

pytestmark = [pytest.mark.real, pytest.mark.slow]
NAMES = ("data/1.txt", "data/2 two.txt", "data/it's.txt", 'data/q"$x.txt', "data/st*r", "data/s/ü")
# Keeps a bucket in a folder, says what the real one says, and notes how it was called.
AWS = r"""#!/bin/sh
case $1 in --version) exit 0 ;; esac
printf '%s\n' "$*" >>"$STORE.calls"
for word do
    shift
    case $word in --endpoint-url=* | --no-*) ;; *) set -- "$@" "$word" ;; esac
done
[ "$1" = s3 ] || exit 2
verb=$2
shift 2
place() { case $1 in s3://*) printf %s "$STORE/${1#s3://}" ;; *) printf %s "$1" ;; esac; }
move() { mkdir -p "$(dirname "$(place "$2")")" && cp "$(place "$1")" "$(place "$2")" || exit
    case $1 in s3://*) echo "download: $1 to ${2#./}" ;; *) echo "upload: $1 to $2" ;; esac; }
case $verb in
ls)
    [ "$1" = --recursive ] || exit 2
    bucket=${2#s3://} && bucket=${bucket%%/*}
    cd "$STORE/$bucket" || exit
    found=$(find . -type f | sort | sed 's|^\./||' | grep "^${2#s3://*/}") || exit 1
    printf '%s\n' "$found" | sed 's/^/2026-01-01 00:00:00          9 /'
    ;;
cp) move "$1" "$2" ;;
rm) rm "$(place "$1")" && echo "delete: $1" ;;
sync)
    find "$(place "${1%/}")" -type f | sort | while IFS= read -r file; do
        name=${file#"$(place "${1%/}")"/}
        cmp -s "$file" "$(place "${2%/}")/$name" || move "${1%/}/$name" "${2%/}/$name"
    done
    ;;
esac
"""
BASE = ("cat", "chmod", "cmp", "cp", "dirname", "env", "find")
MORE = ("grep", "ls", "mkdir", "mv", "rm", "sed", "sort")


@dataclass
class Image:
    """What a container has: a shell, some programs, a bucket, and a folder to work in."""

    shell: list[str]
    folder: Path
    options: BucketOptions
    changes: dict[str, str] = field(default_factory=dict)

    @property
    def tools(self) -> Path:
        return self.folder / "tools"

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def kept(self) -> Path:
        """The bucket of the program that stands in for aws."""
        return self.folder / "store/lab"

    def install(self, tool: str) -> None:
        """Have one more program."""
        if tool == "aws":
            write_program(self.tools / "aws", AWS)
            self.kept.mkdir(parents=True)
            self.changes |= {"S3_BUCKET_NAME": "lab", "STORE": str(self.kept.parent)}
        elif tool == "s5cmd":
            # By a program of ours, which notes how it was called.
            text = f'#!/bin/sh\nprintf "%s\\n" "$*" >>"$0.calls"\nexec {find_program(tool)} "$@"\n'
            write_program(self.tools / tool, text)
        else:
            (self.tools / tool).symlink_to(require_program(f"/usr/bin/{tool}"))

    def write(self, *names: str) -> None:
        """Files that say what they are called."""
        for name in names:
            (self.work / name).parent.mkdir(parents=True, exist_ok=True)
            (self.work / name).write_text(name)

    def files(self) -> list[str]:
        found = (path for path in self.work.rglob("*") if path.is_file())
        return sorted(str(path.relative_to(self.work)) for path in found)

    def run(self, *words: str, code: int = 0) -> tuple[list[str], str]:
        """The lines that it printed, and what it complained of."""
        env = {
            "PATH": str(self.tools),
            "HOME": str(self.folder),
            "S3_BUCKET_NAME": self.options.url,
            "S3_ENDPOINT_URL": self.options.endpoint,
            **self.options.env,
            **self.changes,
        }
        done = subprocess.run(
            [*self.shell, str(NODE / "toolbox.sh"), *words],
            cwd=self.work,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == code, done
        return sorted(done.stdout.splitlines()), done.stderr


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    """The S3 of rclone."""
    made = started("rclone")
    yield made
    made.stop()


@pytest.fixture(params=SHELLS)
def bare(request: pytest.FixtureRequest, server: Any, tmp_path: Path) -> Image:
    """An image with little more than a shell."""
    shell = SHELLS[request.param]
    made = Image([require_program(shell[0]), *shell[1:]], tmp_path, server.fresh())
    made.tools.mkdir()
    made.work.mkdir()
    for name in (*BASE, *MORE):
        (made.tools / name).symlink_to(require_program(name))
    (made.tools / "sh").symlink_to("/bin/sh")
    return made


@pytest.fixture(params=["s5cmd", "python3", "aws"])
def image(bare: Image, request: pytest.FixtureRequest) -> Image:
    """An image with one program that can."""
    bare.install(request.param)
    return bare


def test_there_and_back(image: Image) -> None:
    """A folder goes and comes in the document's words, whatever its files are called."""
    image.write(*NAMES, "data2/1.txt")
    up = [f"Uploaded {name} to {name}" for name in sorted(NAMES)]
    assert image.run("make", "upload", "file=data/")[0] == up
    again = ["bay", "toolbox", "up", "file=data", "overwrite=true", "local_path=", "api=false"]
    assert image.run(*again)[0] == up
    down = [f"Downloaded {name} to out/{name}" for name in sorted(NAMES)]
    assert image.run("make", "-s", "download", "file=data/", "local_path=out")[0] == down
    for name in NAMES:
        assert (image.work / "out" / name).read_text() == name
    assert image.run("make", "down", "local_path=out", "file=data/")[0] == []
    assert image.run("make", "down", "file=data/1.txt", "overwrite=1")[0] == [
        "Downloaded data/1.txt to ./data/1.txt"
    ]


def test_scope(image: Image) -> None:
    """A folder is never what only begins so; a name is that one; `*` crosses folders, `?` none."""
    names = ("data/1", "data/10", "data/a/1", "data2/1", "database")
    image.write(*names)
    image.run("make", "up", "file=.")

    def found(pattern: str) -> list[str]:
        return image.run("make", "find", f"file={pattern}")[0]

    assert found("data/") == found("./data") == ["data/1", "data/10", "data/a/1"]
    assert found("data/1") == ["data/1"]
    assert found("data*1") == ["data/1", "data/a/1", "data2/1"]
    assert found("data?") == ["data2/1"]
    assert found("d??a/?") == ["data/1", "data/a/1"]
    image.run("make", "find", "file=data?1", code=1)
    assert found("data[2b]*") == ["data2/1", "database"]
    assert image.run("make", "list")[0] == ["data/", "data2/", "database"]
    assert image.run("make", "ls", "file=data")[0] == ["data/1", "data/10", "data/a/"]
    assert image.run("make", "ls", "file=data/10")[0] == ["data/10"]
    gone = image.run("bay", "toolbox", "rm", "file=data/", "--yes")[0]
    assert gone == ["Removed data/1", "Removed data/10", "Removed data/a/1"]
    assert found("*") == ["data2/1", "database"]


def test_folder_of_a_bucket(image: Image) -> None:
    """A bucket may be a folder of one: keys count from there."""
    place = image.changes.get("S3_BUCKET_NAME") or image.options.url
    image.write("data/1.txt")
    image.changes["S3_BUCKET_NAME"] = f"s3://{place.removeprefix('s3://')}/team"
    assert image.run("make", "up", "file=data/")[0] == ["Uploaded data/1.txt to data/1.txt"]
    assert image.run("make", "find", "file=*")[0] == ["data/1.txt"]
    image.changes["S3_BUCKET_NAME"] = place
    assert image.run("make", "find", "file=*")[0] == ["team/data/1.txt"]


def test_secrets_are_in_no_command_line(image: Image) -> None:
    """Keys reach the programs by their environment only."""
    image.write("data/1.txt")
    image.run("make", "up", "file=data/")
    calls = [path.read_text() for path in image.folder.rglob("*.calls")]

    assert calls or (image.tools / "python3").exists()
    assert image.options.env["AWS_SECRET_ACCESS_KEY"] not in "".join(calls)


def test_nothing_matches(image: Image) -> None:
    """A pattern that means nothing fails, with where it was looked for."""
    image.write("x")
    image.run("make", "up", "file=x")
    assert "matches `nope/`" in image.run("make", "down", "file=nope/", code=1)[1]
    assert "nothing in ./ matches `nope`" in image.run("make", "up", "file=nope", code=1)[1]
    assert "matches `nope`" in image.run("make", "rm", "file=nope", "yes=true", code=1)[1]


def test_first_that_is_there(bare: Image) -> None:
    """s5cmd goes before python3, and a program that only complains counts as none."""
    bare.write("x")
    bare.install("python3")
    bare.install("s5cmd")
    bare.run("make", "up", "file=x")
    assert "run" in (bare.tools / "s5cmd.calls").read_text().split()
    write_program(bare.tools / "s5cmd", "#!/bin/sh\nexit 127\n")
    assert bare.run("make", "find", "file=x")[0] == ["x"]


def test_nothing_is_there(bare: Image) -> None:
    """Without any of them one line names what would do."""
    said = "`make download` needs s5cmd, python3 or aws in the image, or bay itself"

    assert said in bare.run("make", "download", "file=data/", code=1)[1]


@pytest.mark.parametrize("key", ["../x", "data/../../x"])
def test_names_that_lead_out(key: str, bare: Image) -> None:
    """A key that would be written elsewhere is refused with s5cmd too, and the others come."""
    fake = f'case $1 in ls) echo "{bare.options.url}/{key}"; echo "{bare.options.url}/y" ;; run)'
    write_program(bare.tools / "s5cmd", f"#!/bin/sh\n{fake} cat >>orders ;; esac\n")
    _, err = bare.run("make", "down", "file=*", code=1)

    assert f"`{key}` is left out" in err
    orders = (bare.work / "orders").read_text()
    assert orders == f"cp -n -s -u --raw '{bare.options.url}/y' './y'\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["make"], "this image has no make"),
        (["make", "train"], "this image has no make; `make train` needs one"),
        (["make", "download", "train", "file=x"], "`make train` needs one"),
        (["make", "-f", "x", "download"], "`-f` is nothing for"),
        (["make", "local"], "`make local` in a pod needs bay and make in the image"),
        (["make", "download"], "`make download` needs `file=…`"),
        (["make", "download", "files=x"], "no variable `files`"),
        (["make", "download", "file=x", "overwrite=maybe"], "neither yes nor no"),
        (["make", "remove", "file=x"], "`make remove` in a pod needs `yes=true`"),
        (["make", "remove", "file=x", "yes=no"], "`make remove` in a pod needs `yes=true`"),
        (["make", "list", "file=x*"], "`make find"),
        (["make", "upload", "file=../x"], "`file=../x` leads out of the folder"),
        (["make", "upload", "file=/etc/"], "`file=/etc/` leads out of the folder"),
        (["bay"], "this image has no bay"),
        (["bay", "carry", "--help"], "this image has no bay"),
        (["bay", "toolbox", "local"], "`make local` in a pod needs bay in the image: pip install"),
        (["bay", "toolbox", "upload", "x"], "write `file=x`"),
    ],
)
def test_asked_wrongly(words: list[str], says: str, bare: Image) -> None:
    """What cannot be done here is one line that says why, and nothing is done."""
    bare.install("python3")
    out, err = bare.run(*words, code=2)

    assert out == []
    assert says in err
    assert err.count("\n") == 1


def test_bucket_is_asked_for(bare: Image) -> None:
    """Without a bucket it says where to write one."""
    bare.changes["S3_BUCKET_NAME"] = ""

    assert "S3_BUCKET_NAME is not set" in bare.run("make", "download", "file=x", code=2)[1]


def test_several_at_once(image: Image) -> None:
    """Targets are made in turn, and none after one that failed."""
    image.write("data/x")
    both = image.run("make", "upload", "find", "file=data/")[0]
    assert both == ["Uploaded data/x to data/x", "data/x"]
    assert image.run("make", "download", "find", "file=nope/", code=1)[1].count("nope") == 1


def test_programs_of_a_pod() -> None:
    """Every pod has the programs mounted, and those of the first tool's target are told so."""

    def names(target: str) -> set[str]:
        frame = Frame(target=target, namespace="lab", user="me")
        spec = render_pod_spec(
            script("true", image="x"), frame, Carried(plan="p", programs="n"), {}
        )
        return {one["name"] for one in spec["containers"][0]["env"]}

    assert {"toolbox.sh", "s3.py"} <= render_programs({})["data"].keys()
    assert names("kube") - names("lab") == {"BAY_TOOLBOX"}


@pytest.fixture
def pod(bare: Image) -> Pod:
    """A pod of busybox, as the first tool's target makes them."""
    busybox = require_program("busybox")
    names = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout
    place = bare.folder / "busybox"
    place.mkdir()
    for name in set(names.split()) - {"make", "bay"}:
        (place / name).symlink_to(busybox)
    return Pod(bare.shell, bare.folder)


def run_in(pod: Pod, text: str, **variables: str) -> str:
    """What a command shows in the pod."""
    pod.lay_out(script(text))
    path = str(pod.folder / "busybox")
    code, shown = pod.finish(pod.start(**{"PATH": path, "BAY_TOOLBOX": "1", **variables}))
    assert code == 0, shown
    return shown.decode()


def test_lent_to_a_run(pod: Pod) -> None:
    """A command finds `make` and `bay` where the image has neither, and they answer."""
    text = "make train 2>&1; echo $?; bay toolbox local 2>&1; echo $?"
    said = run_in(pod, text).splitlines()

    assert said[0].startswith("launchbay: this image has no make")
    assert said[2].startswith("launchbay: `make local` in a pod needs bay")
    assert (said[1], said[3]) == ("2", "2")


def test_images_own_come_first(pod: Pod) -> None:
    """What the image has is used, and so is what comes on PATH later, as from conda."""
    write_program(pod.folder / "busybox/make", "#!/bin/sh\necho own make\n")
    write_program(pod.folder / "later/bay", "#!/bin/sh\necho own bay\n")

    assert run_in(pod, f"make; PATH={pod.folder}/later:$PATH; bay") == "own make\nown bay\n"


def test_nothing_is_lent_elsewhere(pod: Pod) -> None:
    """A pod of another target has what its image has."""
    assert run_in(pod, "command -v make || echo none", BAY_TOOLBOX="") == "none\n"
    assert not (pod.root / "bin").exists()


def test_lent_to_who_enters(pod: Pod) -> None:
    """Whoever goes into the pod finds them too."""
    run_in(pod, "true")
    done = subprocess.run(
        [*pod.shell, str(NODE / "enter.sh"), str(pod.run), "sh", "-c", "command -v make bay"],
        env={"PATH": str(pod.folder / "busybox"), "BAY_TOOLBOX": "1"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.split()[0] == str(pod.root / "bin/make")


def test_root_that_cannot_be_written(pod: Pod) -> None:
    """A folder of others in its place does not keep a run from running."""
    pod.root.mkdir()
    (pod.root / "bin").write_text("of others")

    assert run_in(pod, "command -v make || echo none") == "none\n"
