"""What git says about the code."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.sync.playground import git, make_repository, settle, write

from launchbay.sync.provenance import Git, read_git


@pytest.fixture(autouse=True)
def _plain_git(monkeypatch: pytest.MonkeyPatch) -> None:
    settle(monkeypatch)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit."""
    folder = tmp_path / "repository"
    write(folder / "train.py", "one\ntwo\nthree\n")
    write(folder / "sub" / "old.py", "old\n")
    (folder / "weights.bin").write_bytes(bytes(range(256)))
    (folder / "link").symlink_to("train.py")
    return make_repository(folder)


def tracked(folder: Path) -> dict[str, tuple[int, bytes]]:
    """The mode and content of every tracked file."""
    paths = [folder / name for name in git(folder, "ls-files", "-z").split("\0")[:-1]]
    return {
        str(path.relative_to(folder)): (path.lstat().st_mode, _content(path))
        for path in paths
        if path.is_symlink() or path.exists()
    }


def _content(path: Path) -> bytes:
    return os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()


def edit(folder: Path) -> None:
    """Change the index, then the files again, in every way that git knows."""
    write(folder / "train.py", "one\nstaged\nthree\n")
    (folder / "sub" / "old.py").rename(folder / "sub" / "new.py")
    (folder / "text").write_bytes(b"latin-\xe9\r\nno newline at the end")
    git(folder, "add", "--all")
    write(folder / "train.py", "one\nstaged\nthree\nunstaged\n")
    (folder / "weights.bin").write_bytes(bytes(range(255, -1, -1)))
    (folder / "sub" / "new.py").chmod(0o755)
    (folder / "link").unlink()
    (folder / "link").symlink_to("elsewhere")
    (folder / "README").unlink()


def apply(folder: Path, patch: str) -> None:
    """Apply a patch to index and files."""
    argv = ["git", "apply", "--index", "--allow-empty"]
    subprocess.run(argv, cwd=folder, check=True, input=patch.encode("utf-8", "surrogateescape"))


def test_clean_repository(repository: Path) -> None:
    """Without changes there are a commit and a branch, and nothing else."""
    commit = git(repository, "rev-parse", "HEAD").strip()

    assert read_git(repository) == Git(
        commit=commit, branch="main", staged="", unstaged="", untracked=()
    )


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"diff.noprefix": "true", "diff.external": "false", "color.ui": "always"},
        {"diff.context": "0", "diff.submodule": "log", "diff.relative": "true"},
        {"diff.renames": "copies", "diff.mnemonicPrefix": "true", "core.quotePath": "false"},
    ],
)
def test_patches_reproduce_the_tree(
    repository: Path, tmp_path: Path, settings: dict[str, str]
) -> None:
    """Commit, staged and unstaged give the tracked files back, however git is configured."""
    for name, value in settings.items():
        git(repository, "config", name, value)
    edit(repository)
    seen = read_git(repository / "sub")
    assert seen is not None
    git(tmp_path, "clone", "--quiet", str(repository), "again")
    again = tmp_path / "again"
    git(again, "checkout", "--quiet", seen.commit)
    apply(again, seen.staged)
    apply(again, seen.unstaged)

    assert tracked(again) == tracked(repository)


def test_text_conversion_is_not_used(repository: Path) -> None:
    """A patch holds bytes, not what a filter for readers makes of them."""
    write(repository / ".gitattributes", "*.bin diff=hex\n")
    git(repository, "config", "diff.hex.textconv", "od -c")
    (repository / "weights.bin").write_bytes(b"\0new")
    seen = read_git(repository)

    assert seen is not None
    assert "GIT binary patch" in seen.unstaged


def test_untracked_files_are_named(repository: Path) -> None:
    """From the whole repository, relative to its top, without what is ignored."""
    write(repository / ".git" / "info" / "exclude", "*.log\n")
    for name in ("new file.py", "sub/new.py", "run.log"):
        write(repository / name)
    Path(os.fsdecode(os.fsencode(repository) + b"/\xe9")).touch()
    seen = read_git(repository / "sub")

    assert seen is not None
    assert sorted(seen.untracked) == ["new file.py", "sub/new.py", "\udce9"]


def test_repository_without_commits(tmp_path: Path) -> None:
    """Before the first commit, the index is a patch to nothing."""
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    write(tmp_path / "train.py", "one\n")
    git(tmp_path, "add", ".")
    seen = read_git(tmp_path)

    assert seen is not None
    assert (seen.commit, seen.branch, seen.unstaged, seen.untracked) == ("", "main", "", ())
    assert "+one\n" in seen.staged


def test_detached_head_has_no_branch(repository: Path) -> None:
    """The commit is known, the branch is empty."""
    git(repository, "checkout", "--quiet", "--detach")
    seen = read_git(repository)

    assert seen is not None
    assert (len(seen.commit), seen.branch) == (40, "")


def test_outside_of_git(tmp_path: Path) -> None:
    """No repository, no answer."""
    assert read_git(tmp_path) is None


def test_without_a_git_program(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No git, no answer."""
    monkeypatch.setenv("PATH", str(tmp_path))

    assert read_git(repository) is None


def test_damaged_repository_has_no_answer(repository: Path) -> None:
    """When git cannot tell what changed, that is not the same as no change."""
    (repository / ".git" / "index").write_bytes(b"garbage")

    assert read_git(repository) is None


def test_index_is_not_touched(repository: Path) -> None:
    """Asking takes no lock and refreshes nothing."""
    os.utime(repository / "train.py", (1, 1))
    index = repository / ".git" / "index"
    before = index.stat()
    read_git(repository)

    assert (index.stat().st_ino, index.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
