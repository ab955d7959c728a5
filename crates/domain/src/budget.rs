//! Budgets of a session: tokens, money, working time and calls, and what was spent of them. Knows no prices and no clock.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::usage::Usage;

/// What a session may spend in all; a part that is not set is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Budget {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// In millionths of a US dollar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_micro_usd: Option<u64>,
    /// Time in which a turn is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work_ms: Option<u64>,
    /// Uses of tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
}

/// What a session has spent so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spending {
    pub tokens: u64,
    pub cost_micro_usd: u64,
    pub work_ms: u64,
    pub calls: u64,
}

impl Spending {
    /// Returns tokens and money of a usage, without time and calls.
    pub fn of_usage(usage: &Usage) -> Self {
        Self { tokens: usage.budgeted_tokens(), cost_micro_usd: usage.spent_micro_usd(), ..Self::default() }
    }
}

impl Spending {
    /// Adds what somebody else has spent.
    pub fn add(&mut self, other: &Self) {
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.cost_micro_usd = self.cost_micro_usd.saturating_add(other.cost_micro_usd);
        self.work_ms = self.work_ms.saturating_add(other.work_ms);
        self.calls = self.calls.saturating_add(other.calls);
    }
}

impl Budget {
    /// Returns whether nothing is limited.
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }

    /// Returns this budget where it says something, the other elsewhere.
    pub fn or(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.or(other.tokens),
            cost_micro_usd: self.cost_micro_usd.or(other.cost_micro_usd),
            work_ms: self.work_ms.or(other.work_ms),
            calls: self.calls.or(other.calls),
        }
    }

    /// Returns `now` with the parts that this one names: 0 removes a limit.
    pub fn over(&self, now: &Self) -> Self {
        let part = |change: Option<u64>, now: Option<u64>| match change {
            None => now,
            Some(0) => None,
            limit => limit,
        };
        Self {
            tokens: part(self.tokens, now.tokens),
            cost_micro_usd: part(self.cost_micro_usd, now.cost_micro_usd),
            work_ms: part(self.work_ms, now.work_ms),
            calls: part(self.calls, now.calls),
        }
    }

    /// Says which part is used up, such as "100 of its 100 tokens"; none if something is left of every part.
    pub fn exhausted_by(&self, spent: &Spending) -> Option<String> {
        let is_used_up = |limit: Option<u64>, spent: u64| limit.filter(|limit| spent >= *limit);
        if let Some(limit) = is_used_up(self.tokens, spent.tokens) {
            return Some(format!("{} of its {limit} tokens", spent.tokens));
        }
        if let Some(limit) = is_used_up(self.cost_micro_usd, spent.cost_micro_usd) {
            return Some(format!("{} of its {}", dollars(spent.cost_micro_usd), dollars(limit)));
        }
        if let Some(limit) = is_used_up(self.work_ms, spent.work_ms) {
            return Some(format!("{} of its {} of working time", minutes(spent.work_ms), minutes(limit)));
        }
        let limit = is_used_up(self.calls, spent.calls)?;
        Some(format!("{} of its {limit} calls", spent.calls))
    }

    /// Returns what is left; none if a part is used up.
    pub fn left_after(&self, spent: &Spending) -> Option<Budget> {
        self.exhausted_by(spent).is_none().then(|| self.remaining(spent))
    }

    /// Returns what is left of every part, 0 where it is used up.
    pub fn remaining(&self, spent: &Spending) -> Budget {
        let left = |limit: Option<u64>, spent: u64| limit.map(|limit| limit.saturating_sub(spent));
        Budget {
            tokens: left(self.tokens, spent.tokens),
            cost_micro_usd: left(self.cost_micro_usd, spent.cost_micro_usd),
            work_ms: left(self.work_ms, spent.work_ms),
            calls: left(self.calls, spent.calls),
        }
    }

    /// Returns how long a turn that starts now may go on; none: without a limit.
    pub fn time_left(&self, spent: &Spending) -> Option<Duration> {
        self.work_ms.map(|limit| Duration::from_millis(limit.saturating_sub(spent.work_ms)))
    }

    /// Returns this budget with the parts that are used up raised, so that as much as the whole part is left again.
    pub fn renewed(&self, spent: &Spending) -> Budget {
        let renewed = |limit: Option<u64>, spent: u64| {
            limit.map(|limit| if spent >= limit { spent.saturating_add(limit.max(1)) } else { limit })
        };
        Budget {
            tokens: renewed(self.tokens, spent.tokens),
            cost_micro_usd: renewed(self.cost_micro_usd, spent.cost_micro_usd),
            work_ms: renewed(self.work_ms, spent.work_ms),
            calls: renewed(self.calls, spent.calls),
        }
    }

    /// Describes the limits in words, such as "5 USD, 100000 tokens".
    pub fn describe(&self) -> String {
        let parts: Vec<String> = [
            self.cost_micro_usd.map(dollars),
            self.tokens.map(|tokens| format!("{tokens} tokens")),
            self.work_ms.map(|work| format!("{} of working time", minutes(work))),
            self.calls.map(|calls| format!("{calls} calls")),
        ]
        .into_iter()
        .flatten()
        .collect();
        if parts.is_empty() { "unlimited".to_owned() } else { parts.join(", ") }
    }
}

/// Prints millionths of a dollar, with as many decimals as they need and at least two.
pub fn dollars(micro_usd: u64) -> String {
    let (whole, part) = (micro_usd / 1_000_000, micro_usd % 1_000_000);
    let mut decimals = format!("{part:06}");
    while decimals.len() > 2 && decimals.ends_with('0') {
        decimals.pop();
    }
    format!("{whole}.{decimals} USD")
}

fn minutes(ms: u64) -> String {
    if ms.is_multiple_of(60_000) {
        format!("{} min", ms / 60_000)
    } else {
        format!("{:.1} min", ms as f64 / 60_000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: Budget =
        Budget { tokens: Some(100), cost_micro_usd: Some(5_000_000), work_ms: Some(60_000), calls: Some(3) };

    #[test]
    fn a_budget_says_which_part_is_used_up() {
        let spent = Spending { tokens: 99, cost_micro_usd: 4_999_999, work_ms: 59_999, calls: 2 };
        assert_eq!(BUDGET.exhausted_by(&spent), None);
        let of = |spent: Spending| BUDGET.exhausted_by(&spent).unwrap();
        assert_eq!(of(Spending { tokens: 101, ..spent }), "101 of its 100 tokens");
        assert_eq!(of(Spending { cost_micro_usd: 5_000_100, ..spent }), "5.0001 USD of its 5.00 USD");
        assert_eq!(of(Spending { work_ms: 90_000, ..spent }), "1.5 min of its 1 min of working time");
        assert_eq!(of(Spending { calls: 3, ..spent }), "3 of its 3 calls");
        assert_eq!(Budget::default().exhausted_by(&Spending { tokens: u64::MAX, ..spent }), None);
    }

    #[test]
    fn what_is_left_is_a_budget_again_and_nothing_is_left_of_one_that_is_used_up() {
        let spent = Spending { tokens: 40, calls: 1, ..Spending::default() };
        let left = BUDGET.left_after(&spent).unwrap();
        assert_eq!((left.tokens, left.calls), (Some(60), Some(2)));
        assert_eq!(BUDGET.left_after(&Spending { calls: 3, ..spent }), None);
    }

    #[test]
    fn a_renewed_budget_has_its_whole_amount_left_again() {
        let spent = Spending { tokens: 130, ..Spending::default() };
        let renewed = BUDGET.renewed(&spent);
        assert_eq!(renewed, Budget { tokens: Some(230), ..BUDGET });
        assert_eq!(renewed.exhausted_by(&spent), None);
    }
}
