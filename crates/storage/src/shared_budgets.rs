//! Rows of what sessions spent by campaign and day, and of the budgets that were set for them. Sums survive the sessions:
//! removing one gives nothing back.

use domain::shared_budget::{LocalDay, SharedBudgetKey, SharedScope, SpendingChange};
use domain::{Budget, CampaignId};
use rusqlite::{Connection, params};

/// A budget that a user set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetBudgetRow {
    pub key: SharedBudgetKey,
    /// None: for good.
    pub day: Option<LocalDay>,
    pub budget: Budget,
}

/// Adds what a session spent. Money can become less, never below nothing.
pub fn add_spending(connection: &Connection, change: &SpendingChange) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO daily_spending (campaign, day, tokens, cost_micro_usd, work_ms, calls)
             VALUES (?1, ?2, ?3, max(0, ?4), ?5, ?6)
             ON CONFLICT (campaign, day) DO UPDATE SET tokens = tokens + ?3,
                 cost_micro_usd = max(0, cost_micro_usd + ?4), work_ms = work_ms + ?5, calls = calls + ?6",
        )?
        .execute(params![
            campaign_text(change.campaign.as_ref()),
            change.day.0,
            whole(change.tokens),
            change.cost_micro_usd,
            whole(change.work_ms),
            whole(change.calls),
        ])?;
    Ok(())
}

/// Returns all sums.
pub fn spending(connection: &Connection) -> rusqlite::Result<Vec<SpendingChange>> {
    connection
        .prepare("SELECT campaign, day, tokens, cost_micro_usd, work_ms, calls FROM daily_spending")?
        .query_map([], |row| {
            let part = |index: usize| row.get::<_, i64>(index).map(|n| u64::try_from(n).unwrap_or(0));
            Ok(SpendingChange {
                campaign: campaign_of(row.get(0)?),
                day: LocalDay(row.get(1)?),
                tokens: part(2)?,
                cost_micro_usd: row.get(3)?,
                work_ms: part(4)?,
                calls: part(5)?,
            })
        })?
        .collect()
}

/// Stores a budget. One that is set for good removes those of single days.
pub fn set(connection: &Connection, row: &SetBudgetRow) -> rusqlite::Result<()> {
    let (scope, campaign) = (row.key.scope.name(), campaign_text(row.key.campaign.as_ref()));
    if row.day.is_none() {
        connection
            .execute("DELETE FROM shared_budgets WHERE scope = ?1 AND campaign = ?2", [scope, campaign])?;
    }
    let day = row.day.as_ref().map_or("", |day| day.0.as_str());
    connection.execute(
        "INSERT OR REPLACE INTO shared_budgets (scope, campaign, day, budget) VALUES (?1, ?2, ?3, ?4)",
        params![scope, campaign, day, crate::sessions::json(&row.budget)],
    )?;
    Ok(())
}

/// Returns all budgets that were set. One that cannot be read counts as used up rather than as unlimited.
pub fn budgets(connection: &Connection) -> rusqlite::Result<Vec<SetBudgetRow>> {
    let rows: Vec<Option<SetBudgetRow>> = connection
        .prepare("SELECT scope, campaign, day, budget FROM shared_budgets")?
        .query_map([], |row| {
            let Some(scope) = SharedScope::parse(&row.get::<_, String>(0)?) else { return Ok(None) };
            let day: String = row.get(2)?;
            let nothing = Budget { tokens: Some(0), ..Budget::default() };
            Ok(Some(SetBudgetRow {
                key: SharedBudgetKey { scope, campaign: campaign_of(row.get(1)?) },
                day: (!day.is_empty()).then_some(LocalDay(day)),
                budget: serde_json::from_str(&row.get::<_, String>(3)?).unwrap_or(nothing),
            }))
        })?
        .collect::<rusqlite::Result<_>>()?;
    Ok(rows.into_iter().flatten().collect())
}

fn campaign_text(campaign: Option<&CampaignId>) -> &str {
    campaign.map_or("", CampaignId::as_str)
}

fn campaign_of(text: String) -> Option<CampaignId> {
    (!text.is_empty()).then(|| CampaignId::new(text))
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_budgets_are_read_as_they_were_written() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(include_str!("schema_shared_budgets.sql")).unwrap();
        let day = LocalDay("2026-11-16".to_owned());
        let change = |cost_micro_usd| SpendingChange {
            campaign: Some(CampaignId::new("c_1")),
            day: day.clone(),
            tokens: 5,
            cost_micro_usd,
            work_ms: 7,
            calls: 1,
        };
        add_spending(&connection, &change(100)).unwrap();
        add_spending(&connection, &change(-300)).unwrap();
        let sum = SpendingChange { tokens: 10, work_ms: 14, calls: 2, ..change(0) };
        assert_eq!(spending(&connection).unwrap(), [sum]);

        let key = SharedBudgetKey { scope: SharedScope::Day, campaign: None };
        let budget = Budget { calls: Some(3), ..Budget::default() };
        let today = SetBudgetRow { key: key.clone(), day: Some(day), budget };
        set(&connection, &today).unwrap();
        assert_eq!(budgets(&connection).unwrap(), [today]);
        let always = SetBudgetRow { key, day: None, budget };
        set(&connection, &always).unwrap();
        assert_eq!(budgets(&connection).unwrap(), [always]);
    }
}
