"""Where `bay` begins: the table of commands, and errors as people see them."""

from __future__ import annotations

import os
import sys

GROUPS = ("Start", "Look", "Act", "Set up")
COMMANDS = {
    "init": ("Start", "Write a small example, or bay.yaml beside your code"),
    "plan": ("Start", "Show what `bay run` would do, and do nothing"),
    "run": ("Start", "Freeze the code, start the runs, follow them"),
    "ls": ("Look", "List runs and what became of them"),
    "show": ("Look", "Everything about one run, first why it waits or failed"),
    "logs": ("Look", "What runs printed"),
    "results": ("Look", "The table of parameters and metrics"),
    "watch": ("Look", "The live table of what runs now"),
    "cancel": ("Act", "End runs"),
    "rerun": ("Act", "Run again, with the same frozen code"),
    "fetch": ("Act", "Copy outputs and logs to results/"),
    "shell": ("Act", "A shell, or a command, where a run runs"),
    "dev": ("Act", "A place to work by hand, with the code and its Python"),
    "target": ("Set up", "Name the places to run on"),
    "doctor": ("Set up", "Check what works, and say how to mend the rest"),
    "data": ("Set up", "Object storage beside the working folder"),
    "wait": ("", "Wait for runs; exit 0 only if all succeeded"),
    "diff": ("", "What differs between two runs"),
    "port": ("", "Lead a port of this computer to a run's"),
    "copy": ("", "Copy files into a run that runs"),
    "storage": ("", "Volume claims of a Kubernetes, and files in them"),
    "capacity": ("", "What is free on targets, and who uses it"),
    "rm": ("", "Forget ended runs, with their outputs"),
    "clean": ("", "Remove frozen code and scratch that nobody needs"),
    "config": ("", "Show, set and explain configuration"),
    "completion": ("", "Print what makes your shell complete bay"),
}
"""Every command with its group, none for those that `bay help --all` shows, and what it does."""


def main() -> None:
    """Run the command that was typed, and exit with its code."""
    words = sys.argv[1:]
    try:
        if words in (["--help"], ["-h"], ["help"]):
            # The first thing that people type needs nothing but this table.
            sys.stdout.write(render_help(everything=False))
        elif words == ["help", "--all"]:
            sys.stdout.write(render_help(everything=True))
        else:
            if words[:1] == ["help"]:
                words = [*words[1:], "--help"]
            from launchbay.cli.app import run_app  # noqa: PLC0415

            sys.exit(run_app(words))
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read us has seen enough.
        drop_output()
        sys.exit(1)


def drop_output() -> None:
    """Let go of what could not be printed: the interpreter must not complain at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def render_help(*, everything: bool) -> str:
    """The page that `bay --help` prints."""
    lines = [
        "Usage: bay COMMAND …",
        "",
        "Describe experiments once, run them anywhere.",
        "",
        "  bay run lr=0.1,0.01 seed=0..2 python train.py",
        "  bay results --sort -acc --over seed",
    ]
    groups = (*GROUPS, "") if everything else GROUPS
    for group in groups:
        lines += ["", f"{group or 'More'}:"]
        lines += [
            f"  {name:<10} {what}" for name, (where, what) in COMMANDS.items() if where == group
        ]
    lines += ["", "`bay COMMAND --help` explains one."]
    if not everything:
        lines += ["`bay help --all` lists the rest, `bay --version` tells the version."]
    return "\n".join(lines) + "\n"
