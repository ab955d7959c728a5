-- What an environment is, its emergency stop, and what hosts report of themselves.
ALTER TABLE environments ADD COLUMN kind TEXT NOT NULL DEFAULT 'simulation';
-- When it was stopped, and why; 0: it is not.
ALTER TABLE environments ADD COLUMN stopped_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE environments ADD COLUMN stop_reason TEXT NOT NULL DEFAULT '';
ALTER TABLE hosts ADD COLUMN host_type TEXT NOT NULL DEFAULT 'edge';
-- A JSON object of texts.
ALTER TABLE hosts ADD COLUMN labels TEXT NOT NULL DEFAULT '{}';
-- When it reported its status last; 0: never.
ALTER TABLE hosts ADD COLUMN seen_at INTEGER NOT NULL DEFAULT 0;
