-- What an environment sets for the provider of its sessions: a JSON object of texts.
ALTER TABLE environments ADD COLUMN provider_config TEXT NOT NULL DEFAULT '{}';
