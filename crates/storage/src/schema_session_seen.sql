-- The time of the newest event of a session that somebody has looked at; 0: nobody has looked.
ALTER TABLE agent_sessions ADD COLUMN seen_at INTEGER NOT NULL DEFAULT 0;
