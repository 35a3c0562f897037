"""The index's shape, as a list of steps; a database remembers how many it has taken."""

from __future__ import annotations

MIGRATIONS = (
    """
    CREATE TABLE projects (
        id TEXT PRIMARY KEY,
        name TEXT NOT NULL,
        folder TEXT NOT NULL
    );
    CREATE TABLE launches (
        tag TEXT PRIMARY KEY,
        project TEXT NOT NULL,
        argv TEXT NOT NULL,
        created_at REAL NOT NULL
    );
    CREATE TABLE runs (
        id TEXT PRIMARY KEY,
        suffix TEXT NOT NULL,
        name TEXT NOT NULL,
        experiment TEXT NOT NULL,
        project TEXT NOT NULL,
        identity TEXT NOT NULL,
        target TEXT NOT NULL,
        place TEXT NOT NULL,
        native_id TEXT NOT NULL,
        attempt INTEGER NOT NULL,
        code TEXT NOT NULL,
        params TEXT NOT NULL,
        command TEXT NOT NULL,
        resources TEXT NOT NULL,
        launch TEXT NOT NULL,
        note TEXT NOT NULL,
        tags TEXT NOT NULL,
        state TEXT NOT NULL,
        cause TEXT,
        exit_code INTEGER,
        reason TEXT NOT NULL,
        allocation TEXT NOT NULL,
        nodes TEXT NOT NULL,
        metrics TEXT NOT NULL,
        cancel_requested INTEGER NOT NULL,
        suspect_since REAL,
        created_at REAL NOT NULL,
        started_at REAL,
        ended_at REAL,
        seen_at REAL
    );
    CREATE INDEX runs_by_project ON runs (project, created_at);
    CREATE INDEX runs_by_experiment ON runs (project, experiment, state, created_at);
    CREATE INDEX runs_by_identity ON runs (identity);
    CREATE INDEX runs_by_suffix ON runs (suffix);
    CREATE INDEX runs_unfinished ON runs (state)
        WHERE state IN ('created', 'queued', 'running');
    CREATE TABLE attempts (
        run TEXT NOT NULL,
        number INTEGER NOT NULL,
        native_id TEXT NOT NULL,
        target TEXT NOT NULL,
        code TEXT NOT NULL,
        created_at REAL NOT NULL,
        state TEXT NOT NULL,
        cause TEXT,
        exit_code INTEGER,
        reason TEXT NOT NULL,
        started_at REAL,
        ended_at REAL,
        PRIMARY KEY (run, number)
    );
    """,
    """
    CREATE TABLE looks (
        place TEXT PRIMARY KEY,
        at REAL NOT NULL
    );
    """,
)
