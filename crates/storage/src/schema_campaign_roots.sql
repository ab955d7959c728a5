-- Which folder a campaign's root is, as device, inode and boot; empty: not looked at yet.
ALTER TABLE campaigns ADD COLUMN root_pin TEXT NOT NULL DEFAULT '';
