"""`bay diff`."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from launchbay.engine.code import CodeDifference, compare_trees, render_patch

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Bay

SCRIPT = 'echo "{\\"acc\\": 0.$2}" > "$BAY_OUT/metrics.jsonl"\n'


def run(bay: Bay, *words: str) -> str:
    """Run to the end; the suffix of the run's id."""
    return bay("run", "-q", "--again", *words).out.strip().rpartition("-")[2]


def test_only_what_differs(bay: Bay) -> None:
    """Parameters, command, code and metrics are shown where they differ."""
    bay.write("say.sh", SCRIPT)
    first = run(bay, "lr=1", "seed=0", "sh", "say.sh")
    bay.write("say.sh", SCRIPT + "true\n")
    bay.write("new.txt", "new\n")
    second = run(bay, "lr=2", "seed=0", "--memory", "100M", "sh", "say.sh")
    codes = [row["code"] for row in bay.json("ls")]

    assert bay("diff", first, second).out == (
        f"              {first}         {second}\n"
        "parameter lr  1             2\n"
        f"code          {codes[0]}  {codes[1]}\n"
        "memory        –             100M\n"
        "metric acc    0.1           0.2\n"
        "- sh say.sh --lr 1 --seed 0\n"
        "+ sh say.sh --lr 2 --seed 0\n"
        "code added    new.txt\n"
        "code changed  say.sh\n"
    )


def test_no_difference(bay: Bay) -> None:
    """Where nothing differs, that is said."""
    first, second = run(bay, "true"), run(bay, "true")
    said = bay("diff", first, second)

    assert (said.out, said.err) == (
        "",
        "no difference in parameters, command, code, resources or metrics\n",
    )


def test_as_json(bay: Bay) -> None:
    """Scripts get every part, empty where nothing differs."""
    first, second = run(bay, "lr=1", "true"), run(bay, "lr=2", "true")

    assert bay.json("diff", first, second) == {
        "runs": [row["id"] for row in bay.json("ls")],
        "params": {"lr": ["1", "2"]},
        "command": ["true --lr 1", "true --lr 2"],
        "code": None,
        "files": None,
        "target": None,
        "resources": {},
        "metrics": {},
    }


def test_patch(bay: Bay) -> None:
    """The patch turns the one code into the other."""
    bay.write("a.txt", "one\ntwo\n")
    first = run(bay, "true")
    bay.write("a.txt", "one\nthree")
    second = run(bay, "true")

    assert bay("diff", first, second, "--patch").out == (
        "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n"
        "\\ No newline at end of file\n"
    )


def test_code_that_is_gone(bay: Bay) -> None:
    """Without the frozen code the ids still tell that it differs; a patch cannot be."""
    bay.write("a.txt", "one\n")
    first = run(bay, "true")
    bay.write("a.txt", "two\n")
    second = run(bay, "true")
    ids = [row["id"] for row in bay.json("ls")]
    (bay.project / ".bay" / "snapshots").rename(bay.project / "gone")

    assert "code (its files are gone)" in bay("diff", first, second).out
    assert bay("diff", first, second, "--patch", code=2).err == (
        f"error: the frozen code of `{ids[0]}` is gone\n\n"
        "hint: `bay diff` without `--patch` tells the rest\n"
    )


def test_unknown_run(bay: Bay) -> None:
    """A run that does not exist is a wrong request."""
    first = run(bay, "true")

    assert bay("diff", first, "nope", code=2).err.startswith(
        "error: no run or experiment is called `nope`\n"
    )


@pytest.fixture
def trees(tmp_path: Path) -> tuple[Path, Path]:
    """Two trees that differ in every way."""
    old, new = tmp_path / "old", tmp_path / "new"
    for tree in (old, new):
        (tree / "sub").mkdir(parents=True)
        (tree / "same.txt").write_text("same")
        (tree / "form.txt").write_text(f"page\x0cbreak {tree.name}\n")
        (tree / "picture").write_bytes(b"\0" + tree.name.encode())
        (tree / "link").symlink_to(tree.name)
        (tree / "script").touch(mode=0o755 if tree == new else 0o644)
    (old / "sub" / "gone.txt").write_text("gone\n")
    (new / "sub" / "came.txt").write_text("came")
    return old, new


def test_compare_trees(trees: tuple[Path, Path]) -> None:
    """Texts, other files, links and modes are compared; no link is followed."""
    assert compare_trees(*trees) == CodeDifference(
        added=("sub/came.txt",),
        removed=("sub/gone.txt",),
        changed=("form.txt", "link", "picture", "script"),
    )


def test_patch_can_be_applied(trees: tuple[Path, Path], tmp_path: Path) -> None:
    """What `render_patch` gives, `git apply` takes; what is no text is only named."""
    old, new = trees
    patch = "".join(render_patch(old, new, compare_trees(old, new)))
    subprocess.run(["git", "apply", "-"], cwd=old, input=patch, text=True, check=True)
    left = compare_trees(old, new)

    assert left == CodeDifference(changed=("link", "picture", "script"))
    assert "Files a/picture and b/picture differ\n" in patch
