-- Environments, hosts and tasks: plain records whose ids are UUIDs.

-- A named folder with what sessions in it use unless they say otherwise; empty: the default.
CREATE TABLE environments (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE,
    directory  TEXT NOT NULL,
    provider   TEXT NOT NULL DEFAULT '',
    model      TEXT NOT NULL DEFAULT '',
    mode       TEXT NOT NULL DEFAULT '',
    -- Seconds until a permission nobody answers is denied; 0: the default.
    answer_wait_secs INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE hosts (
    id             TEXT PRIMARY KEY,
    name           TEXT NOT NULL,
    environment_id TEXT NOT NULL,
    status         TEXT NOT NULL,
    -- A JSON object of texts.
    capabilities   TEXT NOT NULL,
    created_at     INTEGER NOT NULL
) STRICT;
CREATE INDEX hosts_environment ON hosts (environment_id);

-- What was asked for as a task; how it goes is in the journal of its session.
CREATE TABLE tasks (
    id             TEXT PRIMARY KEY,
    prompt         TEXT NOT NULL,
    environment_id TEXT NOT NULL,
    host_id        TEXT NOT NULL DEFAULT '',
    parent_task_id TEXT NOT NULL DEFAULT '',
    -- Empty until the session exists.
    session_id     TEXT NOT NULL DEFAULT '',
    -- Why there will be no session; empty: none of that.
    error          TEXT NOT NULL DEFAULT '',
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL
) STRICT;
CREATE INDEX tasks_session ON tasks (session_id);
