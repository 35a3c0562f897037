"""What this side remembers of runs. Many `bay` processes may use it at once."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launchbay.core.errors import StoreError
from launchbay.core.run import Attempt, Cause, Run, State, Status
from launchbay.runstore.migrations import MIGRATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

WAIT_S = 60.0
NETWORK_DISKS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "beegfs", "fuse.sshfs", "afs"}
)
OUTCOME = ("native_id", "state", "cause", "exit_code", "reason", "started_at", "ended_at")
SEEN = (*OUTCOME, "allocation", "nodes", "metrics", "suspect_since", "seen_at")
ATTEMPT_COLUMNS = ("run", "number", "target", "code", "created_at", *OUTCOME)


def _assignments(names: Iterable[str]) -> str:
    return ", ".join(f"{name} = :{name}" for name in names)


# Column names are ours; values are bound.
UPDATE_RUN = f"UPDATE runs SET {_assignments(SEEN)} WHERE id = :id AND attempt = :attempt"  # noqa: S608
UPDATE_ATTEMPT = (
    f"UPDATE attempts SET {_assignments(OUTCOME)} WHERE run = :id AND number = :attempt"  # noqa: S608
)


@dataclass(frozen=True, kw_only=True)
class Query:
    """Which runs are meant; what is not given does not matter."""

    project: str | None = None
    experiment: str | None = None
    experiments: Sequence[str] = ()
    ids: Sequence[str] = ()
    states: Sequence[State] = ()
    targets: Sequence[str] = ()
    identities: Sequence[str] = ()
    since: float | None = None
    last: int | None = None


class RunStore:
    """The index of runs, one SQLite file."""

    def __init__(self, path: Path | None) -> None:
        """Open the file, making it where there is none; None is an empty one in memory."""
        self.path = path or Path(":memory:")
        self._connection = _open(path) if path else _connect(self.path)

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, and nobody else writes meanwhile."""
        with _translated(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        with _translated(self.path):
            self._connection.execute("COMMIT")

    def add_project(self, project_id: str, *, name: str, folder: Path) -> None:
        """Remember where a project is now."""
        row = (project_id, name, str(folder))
        if self._rows("SELECT 1 FROM projects WHERE (id, name, folder) = (?, ?, ?)", row):
            return
        self._write("INSERT OR REPLACE INTO projects VALUES (?, ?, ?)", [row])

    def projects(self) -> dict[str, tuple[str, Path]]:
        """Id to name and folder."""
        rows = self._rows("SELECT id, name, folder FROM projects", ())
        return {row["id"]: (row["name"], Path(row["folder"])) for row in rows}

    def move_project(self, project_id: str, old: Path, new: Path) -> None:
        """Follow a project whose folder was moved, and the runs that it holds."""
        root = json.dumps(str(old / ".bay"))[1:-1]
        fresh = json.dumps(str(new / ".bay"))[1:-1]
        self._write(
            "UPDATE runs SET place = replace(place, ?, ?) WHERE project = ?",
            [(f'"{root}"', f'"{fresh}"', project_id)],
        )
        self._write("UPDATE projects SET folder = ? WHERE id = ?", [(str(new), project_id)])

    def add_launch(self, tag: str, *, project: str, argv: Sequence[str], created_at: float) -> None:
        """Remember what was typed."""
        row = (tag, project, json.dumps(list(argv)), created_at)
        self._write("INSERT OR REPLACE INTO launches VALUES (?, ?, ?, ?)", [row])

    def launch_argv(self, tag: str) -> list[str]:
        """What was typed; empty when nobody knows any more."""
        rows = self._rows("SELECT argv FROM launches WHERE tag = ?", (tag,))
        return list(json.loads(rows[0]["argv"])) if rows else []

    def add(self, runs: Iterable[Run]) -> None:
        """Store runs that are new, or begin another attempt."""
        rows = [_row(run) for run in runs]
        if not rows:
            return
        self._write(_upsert("runs", [*rows[0]], ["id"]), rows)
        attempts = [_attempt_row(row) for row in rows]
        self._write(_upsert("attempts", ATTEMPT_COLUMNS, ["run", "number"]), attempts)

    def update(self, runs: Iterable[Run]) -> None:
        """Store what became of runs; one that has begun another attempt meanwhile is left alone."""
        rows = [_seen(run) for run in runs]
        self._write(UPDATE_RUN, rows)
        self._write(UPDATE_ATTEMPT, rows)

    def request_cancel(self, run_ids: Sequence[str]) -> None:
        """Remember that somebody asked for their end."""
        self._write(
            "UPDATE runs SET cancel_requested = 1 WHERE id = ?", [(run_id,) for run_id in run_ids]
        )

    def unwanted(self, run_ids: Sequence[str]) -> set[str]:
        """Those whose end somebody asked for."""
        rows = self._rows(
            "SELECT id FROM runs WHERE cancel_requested AND id IN (SELECT value FROM json_each(?))",
            [json.dumps(list(run_ids))],
        )
        return {row["id"] for row in rows}

    def claim_look(self, place: str, *, now: float, every_s: float) -> bool:
        """Whether it is our turn to ask a place; then it is nobody else's for a while."""
        turn = (place, now, now, now - every_s, now)
        with _translated(self.path):
            done = self._connection.execute(
                "INSERT INTO looks VALUES (?, ?) ON CONFLICT (place) DO UPDATE SET at = ? "
                # A clock that was put back must not silence everybody.
                "WHERE at <= ? OR at > ?",
                turn,
            )
        return done.rowcount > 0

    def suffixes(self) -> set[str]:
        """Every suffix that a run id has."""
        return {row["suffix"] for row in self._rows("SELECT suffix FROM runs", ())}

    def runs(self, query: Query) -> list[Run]:
        """The runs meant, oldest first."""
        where, values = _where(query)
        limit = "" if query.last is None else f" LIMIT {int(query.last)}"
        rows = self._rows(
            f"SELECT * FROM runs{where} ORDER BY created_at DESC, rowid DESC{limit}",  # noqa: S608
            values,
        )
        return [_run(row) for row in reversed(rows)]

    def named(self, run_ids: Sequence[str]) -> dict[str, Run]:
        """The runs of these ids, as far as they are known, by id; of none, none."""
        return {run.id: run for run in self.runs(Query(ids=run_ids))} if run_ids else {}

    def experiments(self, query: Query) -> list[tuple[str, State, int, float]]:
        """For each experiment and state: how many runs, and when the newest was made."""
        where, values = _where(query)
        rows = self._rows(
            "SELECT experiment, state, count(*) AS n, max(created_at) AS newest "  # noqa: S608
            f"FROM runs{where} GROUP BY experiment, state",
            values,
        )
        return [(row["experiment"], State(row["state"]), row["n"], row["newest"]) for row in rows]

    def attempts(self, run_id: str) -> list[Attempt]:
        """Every attempt at a run, oldest first."""
        rows = self._rows("SELECT * FROM attempts WHERE run = ? ORDER BY number", (run_id,))
        return [_attempt(row) for row in rows]

    def newest_attempts(self, run_ids: Sequence[str]) -> dict[str, int]:
        """The number of the last attempt at each run."""
        rows = self._rows(
            "SELECT id, attempt FROM runs WHERE id IN (SELECT value FROM json_each(?))",
            [json.dumps(list(run_ids))],
        )
        return {row["id"]: row["attempt"] for row in rows}

    def find(self, word: str, project: str | None) -> list[Run]:
        """The runs of which this is the id or its suffix."""
        return self._matching("id = ?", [word], project) or self._matching(
            "suffix = ?", [word], project
        )

    def find_named(self, word: str, project: str | None) -> list[Run]:
        """The newest run of this name, or else those whose ids end so."""
        named = self._matching("name = ?", [word], project)[-1:]
        return named or self._matching("substr(id, -length(?)) = ?", [word, word], project)

    def forget(self, run_ids: Sequence[str]) -> None:
        """Remove runs from the index."""
        rows = [(run_id,) for run_id in run_ids]
        self._write("DELETE FROM runs WHERE id = ?", rows)
        self._write("DELETE FROM attempts WHERE run = ?", rows)

    def _matching(self, condition: str, values: Sequence[str], project: str | None) -> list[Run]:
        if project is not None:
            condition, values = f"{condition} AND project = ?", [*values, project]
        statement = f"SELECT * FROM runs WHERE {condition} ORDER BY created_at"  # noqa: S608
        return [_run(row) for row in self._rows(statement, values)]

    def _rows(self, statement: str, values: Sequence[Any]) -> list[sqlite3.Row]:
        with _translated(self.path):
            return self._connection.execute(statement, values).fetchall()

    def _write(self, statement: str, rows: Sequence[Any]) -> None:
        if not rows:
            return
        with _translated(self.path):
            if self._connection.in_transaction:
                self._connection.executemany(statement, rows)
                return
            with self.transaction():
                self._connection.executemany(statement, rows)


def index_path(state: Path) -> Path:
    """Where the index lies: in the state folder, or on local disk where that is a network one.

    SQLite's locks cannot be trusted over a network.
    """
    if _disk_kind(state) in NETWORK_DISKS:
        return Path("/var/tmp") / f"launchbay-{os.getuid()}" / "index.sqlite"  # noqa: S108
    return state / "index.sqlite"


def _open(path: Path) -> sqlite3.Connection:
    with _translated(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600, exist_ok=True)
        try:
            return _connect(path)
        except sqlite3.DatabaseError as err:
            if isinstance(err, sqlite3.OperationalError):
                raise
            # Everything in it is also in the run folders.
            path.replace(path.with_name(f"{path.name}.damaged"))
            path.touch(mode=0o600)
            return _connect(path)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)
    connection.row_factory = sqlite3.Row
    # What is lost with the power is in the run folders.
    connection.execute("PRAGMA synchronous = NORMAL")
    if connection.execute("PRAGMA user_version").fetchone()[0] == len(MIGRATIONS):
        return connection
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    (done,) = connection.execute("PRAGMA user_version").fetchone()
    if done > len(MIGRATIONS):
        connection.execute("ROLLBACK")
        raise StoreError(
            f"`{path}` was written by a newer launchbay",
            hint="update launchbay, or set BAY_HOME to another folder",
        )
    for migration in MIGRATIONS[done:]:
        for statement in migration.split(";"):
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
    connection.execute("COMMIT")
    return connection


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.OperationalError, OSError) as err:
        raise StoreError(
            f"the index `{path}` cannot be used: {err}",
            hint="free some space, or set BAY_HOME to a folder you can write",
        ) from err
    except sqlite3.DatabaseError as err:
        raise StoreError(
            f"the index `{path}` is damaged: {err}",
            hint=f"remove it and run `bay ls --rebuild`: rm '{path}'",
        ) from err


def _disk_kind(path: Path) -> str:
    """The type of the file system that holds the path; empty where nobody tells."""
    try:
        lines = Path("/proc/mounts").read_text(errors="replace").splitlines()
    except OSError:
        return ""
    mounts = {fields[1]: fields[2] for fields in map(str.split, lines) if len(fields) > 2}  # noqa: PLR2004
    for folder in (path, *path.parents):
        if str(folder) in mounts:
            return mounts[str(folder)]
    return ""


def _where(query: Query) -> tuple[str, list[Any]]:
    conditions: list[str] = []
    values: list[Any] = []
    for column, value in (("project", query.project), ("experiment", query.experiment)):
        if value is not None:
            conditions.append(f"{column} = ?")
            values.append(value)
    for column, wanted in (
        ("id", query.ids),
        ("experiment", query.experiments),
        ("state", query.states),
        ("target", query.targets),
        ("identity", query.identities),
    ):
        if wanted:
            # One JSON value: the number of bound variables has a limit.
            conditions.append(f"{column} IN (SELECT value FROM json_each(?))")  # noqa: S608
            values.append(json.dumps(list(wanted)))
    if query.since is not None:
        conditions.append("created_at >= ?")
        values.append(query.since)
    return (" WHERE " + " AND ".join(conditions) if conditions else ""), values


def _upsert(table: str, names: Sequence[str], key: Sequence[str]) -> str:
    """A row that is there already stays where it is: runs are listed in the order they came."""
    marks = ", ".join(f":{name}" for name in names)
    fresh = ", ".join(f"{name} = excluded.{name}" for name in names if name not in key)
    return (
        f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks}) "  # noqa: S608
        f"ON CONFLICT ({', '.join(key)}) DO UPDATE SET {fresh}"
    )


def _attempt_row(row: dict[str, Any]) -> dict[str, Any]:
    at = row["seen_at"] or row["created_at"]
    return {**row, "run": row["id"], "number": row["attempt"], "created_at": at}


def _row(run: Run) -> dict[str, Any]:
    return {
        **_seen(run),
        "suffix": run.suffix,
        "name": run.name,
        "experiment": run.experiment,
        "project": run.project,
        "identity": run.identity,
        "target": run.target,
        "place": _json(run.place),
        "code": run.code,
        "params": _json(run.params),
        "command": run.command,
        "resources": _json(run.resources),
        "launch": run.launch,
        "note": run.note,
        "tags": _json(run.tags),
        "cancel_requested": run.cancel_requested,
        "created_at": run.created_at,
    }


def _seen(run: Run) -> dict[str, Any]:
    """What a look may change, and which row it is of."""
    status = run.status
    return {
        "id": run.id,
        "attempt": run.attempt,
        "native_id": run.native_id,
        "state": str(status.state),
        "cause": status.cause and str(status.cause),
        "exit_code": status.exit_code,
        "reason": status.reason,
        "allocation": status.allocation,
        "nodes": _json(status.nodes),
        "metrics": _json(status.metrics),
        "suspect_since": run.suspect_since,
        "started_at": status.started_at,
        "ended_at": status.ended_at,
        "seen_at": run.seen_at,
    }


def _json(value: Mapping[str, Any] | Sequence[str]) -> str:
    """Plain data as text; most of it is empty, and there may be many."""
    listed = isinstance(value, (tuple, list))
    if not value:
        return "[]" if listed else "{}"
    return json.dumps(value if listed or isinstance(value, dict) else dict(value))  # type: ignore[arg-type]


def _run(row: sqlite3.Row) -> Run:
    return Run(
        id=row["id"],
        name=row["name"],
        experiment=row["experiment"],
        project=row["project"],
        identity=row["identity"],
        target=row["target"],
        place=json.loads(row["place"]),
        native_id=row["native_id"],
        attempt=row["attempt"],
        code=row["code"],
        params=json.loads(row["params"]),
        command=row["command"],
        resources=json.loads(row["resources"]),
        launch=row["launch"],
        note=row["note"],
        tags=tuple(json.loads(row["tags"])),
        status=Status(
            **_outcome(row),
            allocation=row["allocation"],
            nodes=tuple(json.loads(row["nodes"])),
            metrics=json.loads(row["metrics"]),
        ),
        cancel_requested=bool(row["cancel_requested"]),
        suspect_since=row["suspect_since"],
        created_at=row["created_at"],
        seen_at=row["seen_at"],
    )


def _attempt(row: sqlite3.Row) -> Attempt:
    return Attempt(
        number=row["number"],
        native_id=row["native_id"],
        target=row["target"],
        code=row["code"],
        created_at=row["created_at"],
        status=Status(**_outcome(row)),
    )


def _outcome(row: sqlite3.Row) -> dict[str, Any]:
    return {
        "state": State(row["state"]),
        "cause": Cause(row["cause"]) if row["cause"] else None,
        "exit_code": row["exit_code"],
        "reason": row["reason"],
        "started_at": row["started_at"],
        "ended_at": row["ended_at"],
    }
