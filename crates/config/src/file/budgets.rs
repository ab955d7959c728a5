//! `[budgets]`: what sessions may spend together, by campaign and by day. Parses the amounts; the runtime enforces them.

use domain::Budget;
use domain::shared_budget::{ConfiguredBudgets, SharedScope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::failure::Result;

/// Amounts are written as `usd:5 tokens:1000000 minutes:60 calls:200`; what is left out is unlimited.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Budgets {
    /// What all sessions together may spend in one day.
    pub day: String,
    /// What the sessions of each campaign may spend in all.
    pub campaign: String,
    /// What the sessions of each campaign may spend in one day.
    pub campaign_day: String,
    /// Other amounts than `campaign` for some campaigns: `NAME=AMOUNTS`.
    pub campaigns: Vec<String>,
    /// Other amounts than `campaign_day` for some campaigns: `NAME=AMOUNTS`.
    pub campaigns_day: Vec<String>,
}

/// Returns the budgets of a configuration that was loaded, and therefore checked. One that is wrong all the same lets nothing
/// be spent.
pub fn loaded(budgets: &Budgets) -> ConfiguredBudgets {
    configured(budgets).unwrap_or_else(|_| {
        let nothing = Budget { tokens: Some(0), ..Budget::default() };
        ConfiguredBudgets { usual: [(SharedScope::Day, nothing)].into(), ..ConfiguredBudgets::default() }
    })
}

/// Returns the configured budgets.
pub fn configured(budgets: &Budgets) -> Result<ConfiguredBudgets> {
    let mut configured = ConfiguredBudgets::default();
    let usual = [
        (SharedScope::Day, "day", &budgets.day),
        (SharedScope::Campaign, "campaign", &budgets.campaign),
        (SharedScope::CampaignDay, "campaign_day", &budgets.campaign_day),
    ];
    for (scope, key, text) in usual {
        if !text.trim().is_empty() {
            configured.usual.insert(scope, amounts(key, text)?);
        }
    }
    let named = [
        (SharedScope::Campaign, "campaigns", &budgets.campaigns),
        (SharedScope::CampaignDay, "campaigns_day", &budgets.campaigns_day),
    ];
    for (scope, key, entries) in named {
        for entry in entries {
            let Some((name, text)) = entry.split_once('=').filter(|(name, _)| !name.trim().is_empty()) else {
                return Err(super::invalid(format!(
                    "budgets.{key}: {entry:?} names no campaign; write it like app=usd:5 calls:200"
                )));
            };
            configured.named.insert((scope, name.trim().to_owned()), amounts(key, text)?);
        }
    }
    Ok(configured)
}

/// Parses amounts such as `usd:5 calls:200`.
fn amounts(key: &str, text: &str) -> Result<Budget> {
    let mut budget = Budget::default();
    for part in text.split_whitespace() {
        let parsed = part.split_once(':').and_then(|(unit, number)| {
            match unit {
                "usd" => budget.cost_micro_usd = Some(scaled(number, 1_000_000.0)?),
                "minutes" => budget.work_ms = Some(scaled(number, 60_000.0)?),
                "tokens" => budget.tokens = Some(number.parse().ok()?),
                "calls" => budget.calls = Some(number.parse().ok()?),
                _ => return None,
            }
            Some(())
        });
        parsed.ok_or_else(|| {
            super::invalid(format!(
                "budgets.{key}: {part:?} is no amount; write usd:5, tokens:1000000, minutes:60 or calls:200, with \
                 spaces between them"
            ))
        })?;
    }
    Ok(budget)
}

fn scaled(number: &str, by: f64) -> Option<u64> {
    let number: f64 = number.parse().ok()?;
    (number.is_finite() && number >= 0.0).then(|| (number * by).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_for_a_day_for_campaigns_and_for_one_by_name() {
        let configured = configured(&Budgets {
            day: "usd:20 minutes:1.5".to_owned(),
            campaign: "tokens:100".to_owned(),
            campaigns_day: vec!["my app=calls:7".to_owned()],
            ..Budgets::default()
        })
        .unwrap();
        let day = Budget { cost_micro_usd: Some(20_000_000), work_ms: Some(90_000), ..Budget::default() };
        assert_eq!(configured.usual[&SharedScope::Day], day);
        assert_eq!(configured.usual[&SharedScope::Campaign].tokens, Some(100));
        assert_eq!(configured.named[&(SharedScope::CampaignDay, "my app".to_owned())].calls, Some(7));
    }

    #[test]
    fn a_wrong_amount_names_its_key_and_is_not_unlimited() {
        for (wrong, key) in
            [("5 dollars", "budgets.day"), ("usd:-5", "budgets.day"), ("calls=1", "budgets.day")]
        {
            let budgets = Budgets { day: wrong.to_owned(), ..Budgets::default() };
            let failure = configured(&budgets).unwrap_err();
            assert!(failure.message.contains(key), "{wrong}: {failure:?}");
            assert_eq!(loaded(&budgets).usual[&SharedScope::Day].tokens, Some(0));
        }
        let budgets = Budgets { campaigns: vec!["usd:5".to_owned()], ..Budgets::default() };
        assert!(configured(&budgets).unwrap_err().message.contains("budgets.campaigns"));
    }
}
