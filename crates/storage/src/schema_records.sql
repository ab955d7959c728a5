-- Records that programs keep here beside environments and hosts: streams, commands, leases, safety policies, triggers, and the
-- codes of a login that is not completed.
CREATE TABLE records (
    id         TEXT PRIMARY KEY,
    kind       TEXT NOT NULL,
    -- What no two records of a kind share; NULL: nothing.
    unique_key TEXT,
    -- JSON.
    body       TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (kind, unique_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX records_kind ON records (kind, created_at);
