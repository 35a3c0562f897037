"""`bay rm`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Bay


def run_folders(bay: Bay) -> list[Path]:
    """The run folders that there are."""
    return sorted((bay.project / ".bay" / "runs").iterdir())


def test_run_and_folder_are_gone(bay: Bay) -> None:
    """An ended run is forgotten with its folder; what would be lost is said first."""
    bay.write("say.sh", 'head -c 2000 /dev/zero > "$BAY_OUT/x"; rm -rf ../work\n')
    bay("run", "-q", "n=1,2", "sh", "say.sh")
    first, second = (run["id"] for run in bay.json("ls"))
    bay("fetch", first)
    said = bay("rm", first, second, "--yes")
    table = [line.split() for line in said.err.splitlines()]

    assert table[0] == ["experiment", "runs", "size", "never", "fetched"]
    assert (table[1][:2], table[1][3:], table[2][:3]) == (
        ["say", "2"],
        ["kB", "1"],
        ["removed", "2", "runs,"],
    )
    assert (bay.json("ls"), run_folders(bay)) == ([], [])
    assert bay("ls", "--rebuild", "--json").out == "[]\n"


def test_rm_asks(bay: Bay) -> None:
    """Without anybody to answer nothing is removed."""
    bay("run", "-q", "true")
    said = bay("rm", "true", code=2)

    assert said.err.endswith("nobody is here to answer\n\nhint: add `--yes`\n")
    assert (bay.states(), len(run_folders(bay))) == (["succeeded"], 1)


def test_failed_ones(bay: Bay) -> None:
    """A state chooses: the failed ones go, the others stay."""
    bay("run", "-q", "n=0,1", "sh", "-c", "exit <n>", code=1)
    bay("rm", "--state", "failed", "--yes")

    assert (bay.states(), len(run_folders(bay))) == (["succeeded"], 1)


def test_nothing_given(bay: Bay) -> None:
    """Nothing given removes nothing."""
    bay("run", "-q", "true")

    assert bay("rm", "--yes", code=2).err.startswith("error: which runs?\n")
    assert bay.states() == ["succeeded"]


def test_running(bay: Bay) -> None:
    """A run that goes on is refused with the command that ends it, and the others stay too."""
    bay("run", "-q", "true")
    bay("run", "-q", "-d", "sleep", "60")
    done, running = (run["id"][-5:] for run in bay.json("ls"))
    said = bay("rm", done, running, "--yes", code=2)
    bay("cancel", running, "--yes")

    assert said.err == (
        f"error: 1 of 2 runs have not ended: {running}\n\n"
        f"hint: `bay cancel {running}` ends them; `--state failed` leaves them out\n"
    )
    assert len(run_folders(bay)) == 2


def test_data_of_the_user_stays(bay: Bay) -> None:
    """The working folder's links to ignored data are removed, what they lead to is not."""
    bay.write(".gitignore", "data/\n")
    data = bay.write("data/big.bin", "precious")
    bay.write("say.sh", 'cat data/big.bin; ln -s "$PWD/data" "$BAY_OUT/link"\n')
    bay("run", "-q", "sh", "say.sh")
    (folder,) = run_folders(bay)
    linked = (folder / "work" / "data").is_symlink()
    bay("rm", "say", "--yes")

    assert (linked, run_folders(bay), data.read_text()) == (True, [], "precious")


def test_link_out_of_the_runs(bay: Bay, tmp_path: Path) -> None:
    """A run folder that is a link to elsewhere is left alone, and so is what it leads to."""
    bay("run", "-q", "true")
    (folder,) = run_folders(bay)
    outside = tmp_path / "outside"
    folder.rename(outside)
    folder.symlink_to(outside)
    said = bay("rm", "true", "--yes", code=1)

    assert said.err == (
        f"error: `{folder}` leads to somewhere else; nothing was removed\n\n"
        "hint: look at it and remove it by hand\n"
    )
    assert ((outside / "job.json").exists(), bay.states()) == (True, ["succeeded"])


def test_read_only_folders(ordinary: Bay) -> None:
    """Folders that a program made read-only go too."""
    ordinary.write(
        "say.sh", 'mkdir -p "$BAY_OUT/a/b"; touch "$BAY_OUT/a/b/c"; chmod -R a-w "$BAY_OUT"\n'
    )
    ordinary("run", "-q", "sh", "say.sh")
    ordinary("rm", "say", "--yes")

    assert (ordinary.states(), run_folders(ordinary)) == ([], [])


def test_folder_is_gone_already(bay: Bay) -> None:
    """A run whose folder somebody removed by hand can still be forgotten."""
    bay("run", "-q", "true")
    (folder,) = run_folders(bay)
    folder.rename(bay.project / "elsewhere")
    bay("rm", "true", "--yes")

    assert bay.states() == []


def test_queue_goes_on(bay: Bay) -> None:
    """Removing a run right after its end leaves the queue able to run the next."""
    for _ in range(3):
        bay("run", "-q", "true")
        bay("rm", "true", "--yes")

    assert bay("run", "-q", "true").code == 0
