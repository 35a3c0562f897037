"""From a typed grid to the table of results."""

from __future__ import annotations

from statistics import mean, stdev

from tests.conftest import Bay, eventually

TRAIN = """
import argparse, json, os, pathlib, time
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--width", type=int)
parser.add_argument("--seed", type=int)
args = parser.parse_args()
with open(os.environ["BAY_OUT"] + "/metrics.jsonl", "a") as file:
    file.write(json.dumps({"epoch": 1, "acc": 0.0}) + "\\n")
    file.write(json.dumps({"acc": args.lr * 10 + args.width + args.seed / 10}) + "\\n")
go = pathlib.Path("data/go")
while args.seed == 2 and args.width == 2 and not go.exists():
    time.sleep(0.02)
assert (args.lr, args.width, args.seed) != (0.1, 2, 2), "this one fails"
"""
GRID = ("lr=0.1,0.01", "width=1,2", "seed=0..2")


def test_sweep_then_results(bay: Bay) -> None:
    """Four rows, best first, mean and deviation right; while runs go on, and with a failed one."""
    bay.write("train.py", TRAIN)
    bay.write(".bayignore", "data\n")
    bay.write("data/x", "")
    bay("run", "-d", "-j", "2", *GRID, "python3", "train.py")
    eventually(lambda: bay.states().count("succeeded") >= 4)
    early = bay.json("results", "--over", "seed", "--sort", "-acc")
    bay.write("data/go", "")
    bay("wait", "train", code=1)
    late = bay.json("results", "--over", "seed", "--sort", "-acc")
    means = {
        (lr, width): [lr * 10 + width + seed / 10 for seed in range(3)]
        for lr in (0.1, 0.01)
        for width in (1, 2)
    }
    means[0.1, 2].pop()
    expected = sorted(((mean(v), stdev(v), *key) for key, v in means.items()), reverse=True)

    assert len(early) == len(late) == 4
    assert [(float(row["lr"]), float(row["width"])) for row in late] == [
        (lr, width) for _, _, lr, width in expected
    ]
    assert [round(row["acc"], 9) for row in late] == [round(row[0], 9) for row in expected]
    assert [round(row["acc ±"], 9) for row in late] == [round(row[1], 9) for row in expected]
    assert [(row["n"], row["state"]) for row in late] == [
        (3, "2 succeeded, 1 failed"),
        (3, "succeeded"),
        (3, "succeeded"),
        (3, "succeeded"),
    ]


def test_results_in_a_pipe_are_complete(bay: Bay) -> None:
    """The plain table has every row, the failed one with its state; CSV has the same."""
    bay("run", "-q", "x=1,2", "--", "sh", "-c", "exit $(($0 - 1))", "<x>", code=1)
    table = bay("results").out.splitlines()
    text = bay("results", "--csv").out.splitlines()

    assert [line.split()[1:3] for line in table[-2:]] == [["1", "succeeded"], ["2", "failed"]]
    assert text[0] == "run,x,state,time"
    assert len(text) == 3


def test_metrics_are_read_from_the_log(bay: Bay) -> None:
    """A program that only prints is left alone; the last match counts."""
    bay.write(
        "bay.yaml",
        "command: |\n  echo val_acc=0.1\n  echo val_acc=0.75\n"
        "metrics: {val_acc: 'val_acc=([0-9.]+)'}\n",
    )
    bay("run", "-q")

    assert [row["metrics"] for row in bay.json("ls", "--all")] == [{"val_acc": 0.75}]


def test_failed_runs_are_grouped_by_their_last_error(bay: Bay) -> None:
    """The summary says each error once, with the runs that had it."""
    program = "import sys; n = int(sys.argv[1]); raise ValueError(n) if n < 3 else KeyError('k')"
    said = bay("run", "-j", "2", "n=1..4", "--", "python3", "-c", program, "<n>", code=1)

    assert "4 failed" in said.err
    assert "  2 failed: ValueError: 1\n" in said.err
    assert "  2 failed: KeyError: 'k'\n" in said.err


def test_others_run_on_when_one_fails_unless_told(bay: Bay) -> None:
    """One failing run of three: the others run, the exit code says so; `--fail-fast` ends them."""
    words = ("-j", "1", "n=1,0,0.0", "--", "sh", "-c", "test $0 != 1", "<n>")
    bay("run", "-q", *words, code=1)
    first = bay.states()
    slow = ("-j", "1", "n=1,20,21", "--", "sh", "-c", "test $0 != 1 && sleep $0", "<n>")
    bay("run", "-q", "--fail-fast", "--name", "fast", *slow, code=1)

    assert first == ["failed", "succeeded", "succeeded"]
    assert bay.states("-e", "fast") == ["failed", "cancelled", "cancelled"]
