"""Which files are code, and what is linked beside them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from tests.sync.playground import git, linked, listed, make_repository, settle, write

from launchbay.core.errors import ConfigError
from launchbay.sync.codebase import NEVER
from launchbay.sync.snapshot import freeze, scan


@pytest.fixture(autouse=True)
def _plain_git(monkeypatch: pytest.MonkeyPatch) -> None:
    settle(monkeypatch)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with one file of code."""
    return write(tmp_path / "project" / "train.py").parent


@pytest.fixture
def repository(project: Path) -> Path:
    """The same folder as a git repository."""
    return make_repository(project)


@pytest.fixture(params=["git", "plain"])
def either(request: pytest.FixtureRequest, project: Path) -> Path:
    """A project that is a repository, and one that is not."""
    return make_repository(project) if request.param == "git" else write(project / "README").parent


def test_tracked_and_untracked_files_are_code(repository: Path) -> None:
    """In git: what is tracked and what is new, without what is ignored or deleted."""
    write(repository / ".gitignore", "*.log\n")
    for name in ("new.py", "run.log", "deep/new.py"):
        write(repository / name)
    (repository / "README").unlink()

    assert listed(repository) == [".gitignore", "deep/new.py", "new.py", "train.py"]


def test_project_in_a_subfolder_of_its_repository(repository: Path) -> None:
    """Only what lies in the project is code, with paths relative to it."""
    project = write(repository / "sub" / "model.py").parent

    assert listed(project) == ["model.py"]


def test_ignored_project_is_walked(repository: Path) -> None:
    """A project that the repository around it ignores, as in a home kept in git, is not empty."""
    write(repository / ".gitignore", "*\n")
    project = write(repository / "sub" / "model.py").parent

    assert listed(project) == ["model.py"]


def test_submodules_and_nested_repositories_are_entered(repository: Path, tmp_path: Path) -> None:
    """Each is listed by its own rules, also one within another."""
    library = write(tmp_path / "library" / "lib.py").parent
    make_repository(library)
    git(repository, "submodule", "--quiet", "add", str(library), "vendor")
    nested = write(repository / "nested" / "inner.py").parent
    write(nested / ".gitignore", "*.log\n")
    write(nested / "run.log")
    make_repository(nested)
    make_repository(write(nested / "deeper" / "deep.py").parent)

    assert listed(repository) == [
        ".gitmodules",
        "README",
        "nested/.gitignore",
        "nested/README",
        "nested/deeper/README",
        "nested/deeper/deep.py",
        "nested/inner.py",
        "train.py",
        "vendor/README",
        "vendor/lib.py",
    ]


def test_submodule_that_was_never_fetched_is_empty(repository: Path, tmp_path: Path) -> None:
    """A clone without its submodules is listed, and ends."""
    library = make_repository(tmp_path / "library")
    git(repository, "submodule", "--quiet", "add", str(library), "vendor")
    git(repository, "commit", "--quiet", "--message=vendor")
    git(tmp_path, "clone", "--quiet", str(repository), "clone")

    assert listed(tmp_path / "clone") == [".gitmodules", "README", "train.py"]


def test_file_in_conflict_is_listed_once(repository: Path) -> None:
    """During a merge git names a file three times."""
    git(repository, "checkout", "--quiet", "-b", "other")
    write(repository / "train.py", "other\n")
    git(repository, "commit", "--quiet", "--all", "--message=other")
    git(repository, "checkout", "--quiet", "main")
    write(repository / "train.py", "main\n")
    git(repository, "commit", "--quiet", "--all", "--message=main")
    # The merge fails, as it should, so its exit code is passed over.
    git(repository, "-c", "alias.try=!git merge --quiet other || true", "try")

    assert listed(repository) == ["README", "train.py"]


def test_folder_replaced_by_a_link(repository: Path, tmp_path: Path) -> None:
    """Tracked files that are now reached through a symbolic link are not code; the link is."""
    write(repository / "data" / "a.txt")
    git(repository, "add", ".")
    (repository / "data").rename(tmp_path / "elsewhere")
    (repository / "data").symlink_to(tmp_path / "elsewhere")

    assert listed(repository) == ["README", "data", "train.py"]


def test_variables_of_a_hook_do_not_mislead(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inside a git hook, another repository is still asked about itself."""
    write(repository / ".gitignore", "*.log\n")
    write(repository / "tracked.log")
    git(repository, "add", "--force", "tracked.log")
    other = make_repository(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))

    assert listed(repository) == [".gitignore", "README", "tracked.log", "train.py"]


def test_plain_folder_is_walked_without_what_is_never_code(project: Path) -> None:
    """Outside git: no caches, environments, outputs or other version control."""
    left_out = [
        *(".hg/x", ".svn/x", "__pycache__/x", "a.pyc", "a.pyo", ".venv/x", "venv/x"),
        *("node_modules/x", ".mypy_cache/x", ".pytest_cache/x", ".ruff_cache/x", ".tox/x"),
        *(".nox/x", ".ipynb_checkpoints/x", ".DS_Store", ".idea/x", "p.egg-info/x", "outputs/x"),
        *("sub/__pycache__/x", "sub/node_modules/x"),
    ]
    for name in [*left_out, "sub/outputs/kept.py"]:
        write(project / name)

    assert listed(project, outputs=["outputs/"]) == ["sub/outputs/kept.py", "train.py"]


def test_plain_folder_honours_gitignore_files(project: Path) -> None:
    """Outside git: `.gitignore` files count as in git, the deeper one first."""
    write(project / ".gitignore", "*.log\n/data/\n")
    write(project / "sub" / ".gitignore", "!keep.log\n")
    for name in ("a.log", "data/x", "sub/b.log", "sub/keep.log", "sub/data/x"):
        write(project / name)

    assert listed(project) == [
        ".gitignore",
        "sub/.gitignore",
        "sub/data/x",
        "sub/keep.log",
        "train.py",
    ]


def test_without_a_git_program(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repository is walked where git is not installed."""
    write(repository / ".gitignore", "*.log\n")
    write(repository / "run.log")
    monkeypatch.setenv("PATH", str(tmp_path))

    assert listed(repository) == [".gitignore", "README", "train.py"]


def test_caches_are_not_code_even_where_nothing_ignores_them(either: Path) -> None:
    """Running the code once in a fresh repository does not change what it is."""
    before = listed(either)
    for name in ("__pycache__/train.pyc", "sub/.mypy_cache/x", "sub/.DS_Store"):
        write(either / name)

    assert listed(either) == before


def test_bayignore_leaves_out_and_takes_back(either: Path) -> None:
    """`*.ckpt` and `!keep.ckpt` mean what they mean in git, for tracked files, too."""
    write(
        either / ".bayignore", "*.ckpt\n!keep.ckpt\n/big/\n!/big/keep.ckpt\n!/big/deep/\n\\\r\n!\n"
    )
    for name in ("a.ckpt", "keep.ckpt", "sub/a.ckpt", "sub/keep.ckpt"):
        write(either / name)
    for name in ("big/keep.ckpt", "big/deep/keep.ckpt"):
        write(either / name)
    if (either / ".git").exists():
        git(either, "add", "--all")

    assert listed(either) == [
        ".bayignore",
        "README",
        "keep.ckpt",
        "sub/keep.ckpt",
        "train.py",
    ]


def test_bayignore_takes_back_what_git_ignores(either: Path) -> None:
    """A `!` in `.bayignore` outranks `.gitignore`: for files, and for folders as a whole."""
    write(either / ".gitignore", "*.ckpt\n/data/\n/raw/\n")
    write(either / ".bayignore", "!keep.ckpt\n!/data/\n")
    for name in ("a.ckpt", "sub/a.ckpt", "sub/keep.ckpt", "data/x/y", "raw/keep.ckpt"):
        write(either / name)

    assert listed(either) == [
        ".bayignore",
        ".gitignore",
        "README",
        "data/x/y",
        "sub/keep.ckpt",
        "train.py",
    ]


SECRETS = [".env", "sub/.env", ".env.local", ".env.d/x", "bay.local.yaml", "sub/bay.local.yaml"]


def test_secrets_are_never_code(either: Path) -> None:
    """Not tracked, not asked for by name, at no depth; examples of them are."""
    write(either / ".bayignore", "!.env\n!.env.*\n!bay.local.yaml\n!.bay/\n")
    for name in [*SECRETS, ".bay/runs/x", ".env.example", ".env.prod.sample", ".envrc"]:
        write(either / name, "TOKEN=1\n")
    if (either / ".git").exists():
        git(either, "add", "--all", "--force")

    assert listed(either) == [
        ".bayignore",
        ".env.example",
        ".env.prod.sample",
        ".envrc",
        "README",
        "train.py",
    ]


@pytest.mark.parametrize("name", ["example", "sample", "template", "dist", "a.example"])
def test_examples_of_secrets_are_no_secrets(name: str) -> None:
    """What ends in one of four words is meant to be read by everybody."""
    assert NEVER.search(f"/sub/.env.{name}") is None


def test_store_of_any_name_is_not_code(either: Path) -> None:
    """A store inside of the project does not swallow itself."""
    store = either / "frozen"
    before = scan(either, store=store)
    freeze(before, store)
    after = scan(either, store=store)

    assert (after.id, after.links) == (before.id, {})


def test_kinds_of_files(either: Path) -> None:
    """Hidden and empty files and all symbolic links are code; pipes and sockets are not."""
    write(either / ".hidden" / ".empty")
    (either / "to_file").symlink_to("train.py")
    (either / "to_folder").symlink_to(".hidden")
    (either / "dangling").symlink_to("./no//where")
    os.mkfifo(either / "pipe")
    os.mknod(either / "socket", stat.S_IFSOCK | 0o600)

    assert listed(either) == [
        ".hidden/.empty",
        "README",
        "dangling",
        "to_file",
        "to_folder",
        "train.py",
    ]


def test_odd_names(either: Path, tmp_path: Path) -> None:
    """Names may hold spaces, newlines, any script, and bytes that are no text."""
    names = [b" a b ", b"new\nline", "größe-模型".encode(), b"latin-\xe9", b"*[!x]?"]
    for name in names:
        Path(os.fsdecode(os.fsencode(either) + b"/" + name)).write_bytes(name)
    store = tmp_path / "store"
    tree = freeze(scan(either, store=store), store).tree

    frozen = {os.fsencode(path.name): path.read_bytes() for path in tree.iterdir()}
    assert frozen == {name: name for name in names} | {b"README": b"", b"train.py": b""}


def test_ignored_entries_are_linked_once_each(repository: Path) -> None:
    """One link for a whole folder, and for what is ignored in a folder that is partly code."""
    write(repository / ".gitignore", "/.venv/\n/data/raw/\n*.so\n")
    for name in (".venv/bin/python", "data/README", "data/raw/a/b", "src/x.py", "src/x.so"):
        write(repository / name)

    assert scan(repository, store=repository / ".bay").links == {
        name: str(repository / name) for name in (".venv", "data/raw", "src/x.so")
    }


def test_what_is_linked_outside_git(project: Path) -> None:
    """What the ignore files and the usual names leave out is there all the same."""
    write(project / ".gitignore", "/data/\n")
    write(project / ".bayignore", "big.bin\n")
    for name in ("data/x", "big.bin", ".venv/x", "sub/code.py", "sub/big.bin"):
        write(project / name)

    assert linked(project) == [".venv", "big.bin", "data", "sub/big.bin"]


def test_what_bayignore_names_is_linked(repository: Path) -> None:
    """Leaving a large file out of snapshots does not take it from runs on this machine."""
    write(repository / ".bayignore", "big.bin\n")
    write(repository / "big.bin")
    git(repository, "add", ".")

    assert linked(repository) == ["big.bin"]


def test_what_is_not_linked(either: Path) -> None:
    """Outputs, caches, secrets, our own folders, empty folders and pipes are not linked."""
    write(either / ".gitignore", "*\n!.gitignore\n!train.py\n!README\n")
    for name in [*SECRETS, ".bay/x", "outputs/x", "logs/train/x", "a.pyc", "p.egg-info/x"]:
        write(either / name)
    for name in ("__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".svn"):
        write(either / name / "x")
    (either / "empty").mkdir()
    os.mkfifo(either / "pipe")
    write(either / "data" / "x")

    # A folder `sub` that holds nothing but secrets is ignored as a whole, like any other.
    assert linked(either, outputs=["outputs", "logs/train"]) == ["data", "sub"]


def test_at_most_a_thousand_links(repository: Path) -> None:
    """A folder full of ignored files does not flood a run's folder."""
    write(repository / ".gitignore", "*.log\n")
    for number in range(1002):
        write(repository / f"{number:04d}.log")

    assert linked(repository) == [f"{number:04d}.log" for number in range(1000)]


def test_extra_code_lands_where_it_is_told(either: Path) -> None:
    """A folder, a file and a nested place, each listed by its own rules."""
    library = write(either.parent / "lib" / "lib.py").parent
    write(library / ".bayignore", "*.bin\n")
    write(library / "weights.bin")
    write(library / ".env")
    write(either.parent / "one.py")
    code = [("../lib", "lib"), ("../one.py", "deep/er/uno.py"), ("../one.py", ".")]
    listing = scan(either, store=either / ".bay", code=code)

    assert [entry.path for entry in listing.entries] == [
        "README",
        "deep/er/uno.py",
        "lib/.bayignore",
        "lib/lib.py",
        "one.py",
        "train.py",
    ]
    assert listing.links == {}


def test_extra_code_takes_the_place_of_an_ignored_folder(repository: Path) -> None:
    """Nothing is linked where, or into where, extra code lands."""
    write(repository / ".gitignore", "/lib\n/other\n")
    write(repository / "lib" / "old.py")
    write(repository / "other" / "old.py")
    write(repository.parent / "lib" / "lib.py")
    listing = scan(repository, store=repository / ".bay", code=[("../lib", "lib")])

    assert list(listing.links) == ["other"]


@pytest.mark.parametrize(
    ("source", "landing", "message"),
    [
        ("../none", "lib", "`code`: there is no `../none`"),
        ("../lib", "../up", "`code`: `../lib` would land outside of the project, at `../up`"),
        ("../lib", "/up", "`code`: `../lib` would land outside of the project, at `/up`"),
        ("../lib", ".", "`code`: two files want to be `train.py`"),
        ("../lib/train.py", "sub", "`code`: two files want to be `sub`"),
        ("../lib", "train.py", "`code`: two files want to be `train.py`"),
        ("../.env", "env", "`code`: `../.env` may hold secrets and never enters a snapshot"),
    ],
)
def test_extra_code_that_cannot_be(either: Path, source: str, landing: str, message: str) -> None:
    """What is missing, in the way, outside or secret is refused before anything is read."""
    write(either.parent / "lib" / "train.py")
    write(either.parent / ".env")
    write(either / "sub" / "model.py")

    with pytest.raises(ConfigError) as caught:
        scan(either, store=either / ".bay", code=[(source, landing)])
    assert str(caught.value) == message
