-- The mode of a campaign's sessions that are created without one; nothing: as the daemon is configured.
ALTER TABLE campaigns ADD COLUMN mode TEXT;
