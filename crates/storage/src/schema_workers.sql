-- Sessions that work for another session.
CREATE TABLE workers (
    session_id    TEXT PRIMARY KEY,
    parent        TEXT NOT NULL,
    -- What it was started with, as JSON.
    record        TEXT NOT NULL,
    -- Why it was cancelled; NULL: it was not.
    cancel_reason TEXT,
    -- Empty until it has ended.
    status        TEXT NOT NULL DEFAULT '',
    summary       TEXT NOT NULL DEFAULT '',
    ended_at      INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX workers_parent ON workers (parent);
CREATE INDEX workers_open ON workers (session_id) WHERE ended_at IS NULL;

-- Orchestrations of workers, each with a journal of its own.
CREATE TABLE orchestrations (
    id          TEXT PRIMARY KEY,
    parent      TEXT NOT NULL,
    -- 1: the parent was made for it and ends with it.
    owns_parent INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    ended_at    INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX orchestrations_parent ON orchestrations (parent);
CREATE TABLE orchestration_events (
    orchestration TEXT NOT NULL,
    seq           INTEGER NOT NULL,
    at            INTEGER NOT NULL,
    body          TEXT NOT NULL,
    PRIMARY KEY (orchestration, seq)
) STRICT, WITHOUT ROWID;
