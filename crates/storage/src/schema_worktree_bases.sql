-- What a worktree was made from, and whether the daemon made it; only its own are ever collected.
ALTER TABLE worktrees ADD COLUMN base_ref TEXT NOT NULL DEFAULT '';
ALTER TABLE worktrees ADD COLUMN base_commit TEXT NOT NULL DEFAULT '';
ALTER TABLE worktrees ADD COLUMN made_here INTEGER NOT NULL DEFAULT 0;

-- Set-up hooks of projects that the user allowed, by the hash of the file that names them.
CREATE TABLE setup_hooks (
    repository TEXT NOT NULL,
    hash TEXT NOT NULL,
    allowed_at INTEGER NOT NULL,
    allowed_by TEXT NOT NULL,
    PRIMARY KEY (repository, hash)
) STRICT;

-- The files of a session's folder at the start of a turn, as a tree object of its repository.
CREATE TABLE turn_trees (
    session TEXT NOT NULL,
    turn INTEGER NOT NULL,
    tree TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (session, turn)
) STRICT;
