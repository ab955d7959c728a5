-- Version 2. Sessions can be deleted, and worktrees are known by name.

-- The key of a deleted session is never given to another one: its journal would be read as the other's.
CREATE TRIGGER agent_sessions_keep_key AFTER DELETE ON agent_sessions BEGIN
    INSERT INTO meta VALUES ('last_key', OLD.key)
    ON CONFLICT (key) DO UPDATE SET value = max(value, excluded.value);
END;

-- Working trees of git repositories that somebody has asked about or made. Git itself knows which of them exist.
CREATE TABLE worktrees (
    id         TEXT PRIMARY KEY,
    path       TEXT NOT NULL UNIQUE,
    -- The folder that all working trees of a repository share.
    repository TEXT NOT NULL,
    name       TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    -- When somebody switched to it last; 0: never.
    chosen_at  INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX worktrees_repository ON worktrees (repository);
