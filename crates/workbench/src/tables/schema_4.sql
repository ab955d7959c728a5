-- Version 4. Checkpoints that the daemon makes by itself: the turn before which it did; those of users have none.
ALTER TABLE bench_checkpoints ADD COLUMN turn INTEGER;
CREATE UNIQUE INDEX bench_checkpoints_turn ON bench_checkpoints (session, turn) WHERE turn IS NOT NULL;
