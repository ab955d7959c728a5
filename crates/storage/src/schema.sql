-- Version 1. Tables are named as the published specification names them; agent_activities is the journal.

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta VALUES ('epoch', 0), ('synced', 0);

CREATE TABLE campaigns (
    id          TEXT PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE,
    path        TEXT NOT NULL UNIQUE,
    description TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL
) STRICT;

CREATE TABLE festivals (
    campaign_id     TEXT NOT NULL,
    id              TEXT NOT NULL,
    name            TEXT NOT NULL,
    status          TEXT NOT NULL,
    phase           TEXT NOT NULL,
    total_tasks     INTEGER NOT NULL,
    completed_tasks INTEGER NOT NULL,
    current_task    TEXT NOT NULL,
    current_agent   TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    PRIMARY KEY (campaign_id, id)
) STRICT;

-- Reports of campaigns and festivals as they came.
CREATE TABLE events (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    campaign_id TEXT NOT NULL,
    festival_id TEXT NOT NULL,
    event_type  TEXT NOT NULL,
    payload     TEXT NOT NULL,
    source      TEXT NOT NULL,
    created_at  INTEGER NOT NULL
) STRICT;

-- What was reported last about each thing, to tell a repeated report from a new one.
CREATE TABLE recent_events (
    entity_key TEXT PRIMARY KEY,
    event      TEXT NOT NULL,
    event_id   INTEGER NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE agent_sessions (
    -- Never given twice: a reader of a session that was cleared away must not find another one's journal.
    key               INTEGER PRIMARY KEY AUTOINCREMENT,
    id                TEXT NOT NULL UNIQUE,
    campaign_id       TEXT,
    provider          TEXT NOT NULL,
    status            TEXT NOT NULL,
    created_at        INTEGER NOT NULL,
    last_activity_at  INTEGER,
    ended_at          INTEGER,
    parent_session_id TEXT,
    last_seq          INTEGER NOT NULL,
    -- What the session was created with and what it has become.
    spec              TEXT NOT NULL,
    state             TEXT NOT NULL,
    -- The run of the agent and how far its spool was read, in step with the journal.
    run               INTEGER NOT NULL DEFAULT 0,
    codec             TEXT NOT NULL DEFAULT '',
    spool_segment     INTEGER NOT NULL DEFAULT 0,
    spool_offset      INTEGER NOT NULL DEFAULT 0,
    spool_carry       BLOB NOT NULL DEFAULT x'',
    next_write_id     INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE INDEX agent_sessions_live ON agent_sessions (status) WHERE status NOT IN ('STOPPED', 'FAILED');
CREATE INDEX agent_sessions_campaign ON agent_sessions (campaign_id);

-- The journal. id = session key << 32 | sequence number: one tree, in reading order, without a second index.
CREATE TABLE agent_activities (
    id   INTEGER PRIMARY KEY,
    at   INTEGER NOT NULL,
    body TEXT NOT NULL
) STRICT;

-- Input that was accepted for an agent and is not yet known to have reached it.
CREATE TABLE outbox (
    session_key INTEGER NOT NULL,
    write_id    INTEGER NOT NULL,
    bytes       BLOB NOT NULL,
    PRIMARY KEY (session_key, write_id)
) STRICT, WITHOUT ROWID;
