-- What was done and refused. Rows are added and never changed; docs/decisions/0039.
CREATE TABLE audit (
    seq  INTEGER PRIMARY KEY,
    body TEXT NOT NULL,
    -- Repeated from the body, to find a session's rows.
    session TEXT NOT NULL,
    -- SHA-256 of the hash before and the body: for others, who have no key.
    hash BLOB NOT NULL,
    -- Keyed, over the one before, the number and the hash; null in rows from before there was a key.
    mac  BLOB
) STRICT;
CREATE INDEX audit_session ON audit (session, seq);
