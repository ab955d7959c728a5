-- Whether secrets are taken out of the events of a campaign's sessions; nothing: as the daemon is configured.
ALTER TABLE campaigns ADD COLUMN scrub INTEGER;
