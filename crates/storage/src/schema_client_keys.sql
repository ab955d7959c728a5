-- Keys by which clients make a command take effect once, however often they send it.
CREATE TABLE client_keys (
    -- The session; empty for keys that create one.
    scope       TEXT NOT NULL,
    key         TEXT NOT NULL,
    -- Digest of the request.
    fingerprint TEXT NOT NULL,
    -- The created session, or the first and the last event of the command.
    answer      TEXT NOT NULL,
    at          INTEGER NOT NULL,
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX client_keys_at ON client_keys (scope, at);
