"""`bay init --makefile`, and what a real `make` does with what it writes."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from tests.cli.conftest import Terminal
from tests.conftest import Said, require_program

from launchbay.cli.toolbox import ALIASES, VERBS
from launchbay.engine.makefile import MARK

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Bay

RECORDER = '#!/bin/sh\nfor word; do printf "<%s>" "$word"; done\necho\n'
LINK = "src/toolbox/Makefile"
OWN = "first:\n\t@echo mine\n\nhelp shell: first\n\t@echo own $@\n"


def make(bay: Bay, *words: str, code: int = 0, cwd: Path | None = None) -> Said:
    """A real make in the project."""
    done = subprocess.run(
        [require_program("make"), *words],
        cwd=cwd or bay.project,
        env=bay.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    said = Said(done.stdout, done.stderr, done.returncode)
    assert said.code == code, said
    return said


def put_program(bay: Bay, text: str = RECORDER) -> None:
    """A `bay` that is first on PATH; this one prints what it is given."""
    tools = bay.home / "tools"
    tools.mkdir(exist_ok=True)
    (tools / "bay").write_text(text)
    (tools / "bay").chmod(0o755)
    bay.extra["PATH"] = f"{tools}:{os.environ['PATH']}"


def files(bay: Bay) -> list[str]:
    return sorted(str(path.relative_to(bay.project)) for path in bay.project.rglob("*"))


@pytest.fixture
def recorded(bay: Bay) -> Bay:
    """A project with the Makefile, and a `bay` that prints what it is given."""
    bay("init", "--makefile")
    put_program(bay)
    return bay


def test_make_alone_lists_the_verbs(bay: Bay) -> None:
    """In an empty folder the Makefile is all that is written, and its default is the help."""
    said = bay("init", "--makefile")
    text = (bay.project / "Makefile").read_text()

    assert said.err == (
        f"wrote {bay.project}/Makefile: `make VERB` is `bay toolbox VERB`\n\nnext:\n  make help\n"
    )
    assert (files(bay), text.startswith(MARK)) == (["Makefile"], True)
    assert make(bay).out == make(bay, "help").out == bay("toolbox", "help").out


def test_every_verb_is_a_target(recorded: Bay) -> None:
    """Verbs and their short names reach `bay`, also where files are called the same."""
    names = [*VERBS, *ALIASES]
    for name in names:
        recorded.write(name, "")

    assert make(recorded, *names).out.splitlines() == [f"<toolbox><{name}>" for name in names]


@pytest.mark.parametrize(
    "value",
    [
        "Model/*t5*wise*419*",
        'it\'s "quoted" `here`',
        "two  words; touch made & | > x",
        "$HOME $$ ${x} $x",
        "$(shell touch made)",
        "$(",
        "# no comment",
        "100%.pt %",
        "données/ü, (a) {b} [c]",
        "a=b:=c",
        "ends in \\",
        "~/x !y ?z",
    ],
)
def test_a_value_arrives_as_it_was_typed(recorded: Bay, value: str) -> None:
    """Neither make nor the shell reads anything into it."""
    said = make(recorded, "upload", f"file={value}", "local_path=out", "overwrite=true")

    assert said.out == f"<toolbox><upload><overwrite=true><file={value}><local_path=out>\n"
    assert (said.err, files(recorded)) == ("", ["Makefile"])


def test_what_was_not_typed_does_not_count(recorded: Bay) -> None:
    """A variable of the environment or of project.mk is no answer; one that is typed empty is."""
    recorded.extra["file"] = "elsewhere"
    recorded.write("project.mk", "target = x\n")

    assert make(recorded, "upload").out == "<toolbox><upload>\n"
    assert make(recorded, "-e", "debug").out == "<toolbox><debug>\n"
    assert make(recorded, "upload", "file=").out == "<toolbox><upload><file=>\n"


def test_a_copy_works_from_any_folder(recorded: Bay) -> None:
    """The file holds no path: a frozen copy in a folder with spaces does the same."""
    copy = recorded.home / "a run's folder"
    copy.mkdir()
    shutil.copy(recorded.project / "Makefile", copy)

    assert make(recorded, "down", "file=a", cwd=copy).out == "<toolbox><down><file=a>\n"


def test_a_missing_bay_is_one_clear_line(bay: Bay) -> None:
    """It says what to install, and where else the program may be."""
    bay("init", "--makefile")
    put_program(bay)
    program = bay.home / "tools" / "bay"
    elsewhere = program.rename(program.with_name("elsewhere"))
    bay.extra["PATH"] = "/usr/bin:/bin"
    said = make(bay, "upload", "file=a", code=2)
    named = make(bay, "upload", "file=a", f"bay.program={elsewhere}")

    assert said.err.splitlines()[0] == (
        "error: `bay` is not on PATH; install launchbay (`pip install .` in its clone), or type"
        " `make upload bay.program=/path/to/bay`"
    )
    assert len(said.err.splitlines()) == 2
    assert named.out == "<toolbox><upload><file=a>\n"


def test_make_inside_of_a_run_is_a_fresh_one(recorded: Bay) -> None:
    """A command that calls `make` sees no variable of the outer one, nor does it say more."""
    put_program(recorded, "#!/bin/sh\nmake inner\n")
    recorded.write("project.mk", 'inner:\n\t@echo "<$(file)>" "<$$file>"\n')

    assert make(recorded, "-w", "upload", "file=a").out.splitlines()[1:-1] == ["<> <>"]


def test_own_targets_are_in_project_mk(recorded: Bay) -> None:
    """What stands there is a target too, and may need one of ours."""
    recorded.write("project.mk", "all: upload\n\t@echo done\n")

    assert make(recorded, "all", "file=a").out == "<toolbox><upload><file=a>\ndone\n"


def test_it_is_brought_up_to_date(bay: Bay) -> None:
    """The file of another version is replaced, the very same left alone; both are said."""
    from launchbay.engine.makefile import render_makefile  # noqa: PLC0415

    path = bay.write("Makefile", render_makefile(["help", "old-verb"], ["file"]))
    first = bay("init", "--makefile")
    second = bay("init", "--makefile")

    assert f"brought {path} up to date\n" in first.err
    assert f"{path} is up to date\n" in second.err
    assert "old-verb" not in path.read_text()
    assert files(bay) == ["Makefile"]


def test_changes_by_hand_are_not_lost_unasked(bay: Bay) -> None:
    """A file of ours with a line of the user's is replaced only after a yes."""
    bay("init", "--makefile")
    path = bay.project / "Makefile"
    path.write_text(path.read_text() + "mine:\n\t@echo mine\n")
    refused = bay("init", "--makefile", code=2)
    kept = path.read_text()
    bay("init", "--makefile", "--yes")

    assert f"replace {path}, which was changed by hand?" in refused.err
    assert kept.endswith("mine\n")
    assert "mine" not in path.read_text()


@pytest.mark.parametrize("old", ["old:\n", ""], ids=["submodule", "dangling"])
def test_the_old_link_is_replaced_after_asking(bay: Bay, old: str) -> None:
    """With `--yes` a file is in its place; what it led to is untouched, as is `launch.py`."""
    if old:
        bay.write(LINK, old)
    path, script = bay.project / "Makefile", bay.project / "launch.py"
    path.symlink_to(LINK)
    script.symlink_to("src/toolbox/launch.py")
    refused = bay("init", "--makefile", code=2)
    still = path.is_symlink()
    said = bay("init", "--makefile", "--yes")

    assert f"replace the link to {LINK}?" in refused.err
    assert (still, path.is_symlink(), path.read_text().startswith(MARK)) == (True, False, True)
    assert [one.read_text() for one in bay.project.glob(LINK)] == [old] * bool(old)
    assert "launch.py is a link to src/toolbox/launch.py; bay does not need it\n" in said.err
    assert script.is_symlink()


def test_a_terminal_is_asked_about_the_link(bay: Bay) -> None:
    """A no leaves it, a yes replaces it."""
    path = bay.project / "Makefile"
    path.symlink_to(LINK)
    for answer, code in (("n\n", 1), ("y\n", 0)):
        terminal = Terminal(bay, "init", "--makefile")
        terminal.until(f"replace the link to {LINK}? [y/N]")
        terminal.type(answer)

        assert (terminal.end(), path.is_symlink()) == (code, bool(code))


@pytest.mark.parametrize("name", ["Makefile", "makefile", "GNUmakefile"])
def test_beside_another_makefile(bay: Bay, name: str) -> None:
    """The targets are in `bay.mk`, the line to add is named, and then own targets still win."""
    if name == "GNUmakefile":
        # Which make would never look at.
        bay("init", "--makefile")
    path = bay.write(name, OWN)
    said = bay("init", "--makefile")
    untouched = path.read_text()
    path.write_text(f"include bay.mk\n\n{OWN}")
    again = bay("init", "--makefile")
    put_program(bay)
    made = [make(bay), make(bay, "help"), make(bay, "upload", "file=a $b")]

    assert f"add this line to {path}:\n  include bay.mk\n" in said.err
    assert f"without help, shell: {name} has its own\n" in said.err
    assert (untouched, "add this line" in again.err) == (OWN, False)
    assert [one.out for one in made] == [
        "mine\n",
        "mine\nown help\n",
        "<toolbox><upload><file=a $b>\n",
    ]
    assert [one.err for one in made] == ["", "", ""]


def test_the_part_is_brought_up_to_date_too(bay: Bay) -> None:
    """A target that the user's Makefile no longer has comes back."""
    path = bay.write("Makefile", OWN)
    bay("init", "--makefile")
    path.write_text("first:\n\t@echo mine\n\n-include ./bay.mk\n")
    said = bay("init", "--makefile")

    assert f"brought {bay.project}/bay.mk up to date\n" in said.err
    assert make(bay, "help").out == bay("toolbox", "help").out
    assert make(bay).out == "mine\n"


def test_nothing_else_is_overwritten(bay: Bay) -> None:
    """A `bay.mk` of somebody else is refused, and a link to any other Makefile is left."""
    other = bay.write("shared/Makefile", OWN)
    (bay.project / "Makefile").symlink_to("shared/Makefile")
    part = bay.write("bay.mk", "mine = 1\n")
    said = bay("init", "--makefile", "--yes", code=2)
    part.unlink()
    bay("init", "--makefile")

    assert f"`{part}` is there already, and not from `bay`" in said.err
    assert (bay.project / "Makefile").is_symlink()
    assert other.read_text() == OWN
    assert part.read_text().startswith(MARK)


def test_a_folder_that_cannot_be_written(bay: Bay) -> None:
    """That is one sentence with a way out."""
    path = bay.write("demo", "mine")
    said = bay("init", "--makefile", "demo/inner", code=1)

    assert said.err == (
        f"error: cannot write `{path}/inner/Makefile`: Not a directory\n\n"
        "hint: choose a folder that you can write\n"
    )


def test_in_the_documents_layout(bay: Bay) -> None:
    """Nothing but the Makefile is written, and plain `bay init` tells of it until it is there."""
    bay.write("config/launch.yaml", "model: {m: {command: 'true'}}\n")
    bay.write("config/kube.yaml", "project_name: example\nnamespace: lab\nuser: me\n")
    before = files(bay)
    told = bay("init")
    said = bay("init", "--makefile")
    silent = bay("init")

    assert "`bay init --makefile` writes the Makefile that goes with it\n" in told.err
    assert "--makefile" not in silent.err
    assert said.err.endswith("next:\n  make help\n  make local\n")
    assert files(bay) == sorted([*before, "Makefile"])


def test_in_a_new_folder(bay: Bay) -> None:
    """The folder is made, and what to type next begins there; `--from` is another thing."""
    said = bay("init", "--makefile", "new one")
    refused = bay("init", "--makefile", "--from", "x", code=2)

    assert said.err.endswith("next:\n  cd 'new one' && make help\n")
    assert (bay.project / "new one" / "Makefile").exists()
    assert "choose one of them" in refused.err


def test_a_name_that_only_looks_like_an_include(bay: Bay) -> None:
    """A comment, or another file's name, is no include line."""
    bay.write("Makefile", "# include bay.mk\ninclude mybay.mk\nfirst:\n")

    assert "add this line" in bay("init", "--makefile").err
