-- Version 1 of the workbench's tables. They share the daemon's file and have a version of their own (meta, 'workbench').

CREATE TABLE bench_sessions (
    id         TEXT PRIMARY KEY,
    project    TEXT NOT NULL,
    tenant     TEXT NOT NULL,
    team       TEXT NOT NULL,
    task       TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER,
    outcome    TEXT NOT NULL DEFAULT ''
) STRICT;

-- What was done. Rows are added and never changed; hash = SHA-256 of the previous hash and the row's text.
CREATE TABLE bench_audit (
    seq  INTEGER PRIMARY KEY,
    body TEXT NOT NULL,
    -- Repeated from the body, to find a session's rows.
    session TEXT NOT NULL,
    hash BLOB NOT NULL
) STRICT;
CREATE INDEX bench_audit_session ON bench_audit (session, seq);
CREATE TRIGGER bench_audit_no_change BEFORE UPDATE ON bench_audit
BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;
CREATE TRIGGER bench_audit_no_removal BEFORE DELETE ON bench_audit
BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;

CREATE TABLE bench_memories (
    key         INTEGER PRIMARY KEY AUTOINCREMENT,
    id          TEXT NOT NULL UNIQUE,
    tenant      TEXT NOT NULL,
    team        TEXT NOT NULL,
    project     TEXT NOT NULL,
    title       TEXT NOT NULL,
    description TEXT NOT NULL,
    content     TEXT NOT NULL,
    outcome     TEXT NOT NULL,
    confidence  REAL NOT NULL,
    usage_count INTEGER NOT NULL DEFAULT 0,
    tags        TEXT NOT NULL,
    -- explicit or distilled, and the session it came from.
    origin      TEXT NOT NULL,
    session     TEXT NOT NULL,
    outdated    INTEGER NOT NULL DEFAULT 0,
    created_at  INTEGER NOT NULL,
    -- When confidence was last confirmed; it fades from here.
    held_at     INTEGER NOT NULL,
    -- The vectors' maker; those of different makers are never compared.
    model       TEXT NOT NULL,
    vector      BLOB NOT NULL
) STRICT;
CREATE VIRTUAL TABLE bench_memory_words USING fts5(title, description, content, tags, content = '', contentless_delete = 1);
-- In how many memories each of their words is.
CREATE VIRTUAL TABLE bench_memory_vocabulary USING fts5vocab('bench_memory_words', 'row');

CREATE TABLE bench_feedback (
    memory  TEXT NOT NULL,
    at      INTEGER NOT NULL,
    helpful INTEGER NOT NULL,
    comment TEXT NOT NULL,
    session TEXT NOT NULL
) STRICT;
CREATE INDEX bench_feedback_memory ON bench_feedback (memory);

CREATE TABLE bench_checkpoints (
    key        INTEGER PRIMARY KEY AUTOINCREMENT,
    id         TEXT NOT NULL UNIQUE,
    session    TEXT NOT NULL,
    project    TEXT NOT NULL,
    summary    TEXT NOT NULL,
    tags       TEXT NOT NULL,
    context    TEXT NOT NULL,
    everything TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX bench_checkpoints_project ON bench_checkpoints (project, key);

-- Skills and agents.
CREATE TABLE bench_catalog (
    id         TEXT PRIMARY KEY,
    kind       TEXT NOT NULL,
    name       TEXT NOT NULL,
    scope      TEXT NOT NULL,
    tenant     TEXT NOT NULL,
    team       TEXT NOT NULL,
    project    TEXT NOT NULL,
    body       TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    -- team and project are empty where the scope is wider.
    UNIQUE (kind, name, tenant, team, project)
) STRICT;

CREATE TABLE bench_remediations (
    key         INTEGER PRIMARY KEY AUTOINCREMENT,
    id          TEXT NOT NULL UNIQUE,
    tenant      TEXT NOT NULL,
    project     TEXT NOT NULL,
    title       TEXT NOT NULL,
    problem     TEXT NOT NULL,
    -- The problem without paths, numbers and addresses.
    pattern     TEXT NOT NULL,
    solution    TEXT NOT NULL,
    -- Symptoms, root cause, change and files as JSON.
    body        TEXT NOT NULL,
    occurrences INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    model       TEXT NOT NULL,
    vector      BLOB NOT NULL
) STRICT;
CREATE INDEX bench_remediations_pattern ON bench_remediations (tenant, project, pattern);
