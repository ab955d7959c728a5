-- Version 2. Worktrees are known by name.

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
