-- What sessions spent, by campaign (empty: none) and local day; one row for each pair.
CREATE TABLE daily_spending (
    campaign       TEXT NOT NULL,
    day            TEXT NOT NULL,
    tokens         INTEGER NOT NULL DEFAULT 0,
    cost_micro_usd INTEGER NOT NULL DEFAULT 0,
    work_ms        INTEGER NOT NULL DEFAULT 0,
    calls          INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (campaign, day)
) WITHOUT ROWID;

-- Budgets that a user set: for good (day empty) or for one day.
CREATE TABLE shared_budgets (
    scope    TEXT NOT NULL,
    campaign TEXT NOT NULL,
    day      TEXT NOT NULL,
    budget   TEXT NOT NULL,
    PRIMARY KEY (scope, campaign, day)
) WITHOUT ROWID;
