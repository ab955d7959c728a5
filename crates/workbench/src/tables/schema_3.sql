-- Version 3. The audit is the runtime's; its rows were taken over before this runs.
DROP TABLE IF EXISTS bench_audit;
