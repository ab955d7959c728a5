//! What a session may spend and what is left of it, part by part. Knows which part is used up first; the words are the
//! client's.

use domain::budget::Budget;
use serde::Serialize;

/// The limits of a session, and what is left of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SummaryBudget {
    pub limit: Budget,
    pub left: Budget,
}

/// What a part of a budget counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetUnit {
    /// Millionths of a US dollar.
    Money,
    Tokens,
    /// Milliseconds in which a turn is open.
    Time,
    Calls,
}

/// One limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetPart {
    pub unit: BudgetUnit,
    pub limit: u64,
    pub left: u64,
}

impl BudgetPart {
    /// Returns how much is used.
    pub fn used(&self) -> u64 {
        self.limit.saturating_sub(self.left)
    }

    /// Returns how much is used of the whole, from 0 to 1.
    pub fn share_used(&self) -> f64 {
        self.used() as f64 / self.limit.max(1) as f64
    }
}

impl SummaryBudget {
    /// Returns money, tokens, time and calls; none where there is no limit.
    pub fn parts(&self) -> [Option<BudgetPart>; 4] {
        let part = |unit: BudgetUnit, limit: Option<u64>, left: Option<u64>| {
            limit.map(|limit| BudgetPart { unit, limit, left: left.unwrap_or(limit) })
        };
        let (limit, left) = (&self.limit, &self.left);
        [
            part(BudgetUnit::Money, limit.cost_micro_usd, left.cost_micro_usd),
            part(BudgetUnit::Tokens, limit.tokens, left.tokens),
            part(BudgetUnit::Time, limit.work_ms, left.work_ms),
            part(BudgetUnit::Calls, limit.calls, left.calls),
        ]
    }

    /// Returns the part of which the least is left.
    pub fn tightest(&self) -> Option<BudgetPart> {
        let parts = self.parts().into_iter().flatten();
        parts.max_by(|a, b| a.share_used().total_cmp(&b.share_used()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_of_which_the_least_is_left_is_the_tightest() {
        let limit = Budget { tokens: Some(1_000), cost_micro_usd: Some(5_000_000), ..Budget::default() };
        let left = Budget { tokens: Some(900), cost_micro_usd: Some(1_000_000), ..Budget::default() };
        let tightest = SummaryBudget { limit, left }.tightest().unwrap();
        assert_eq!((tightest.unit, tightest.used()), (BudgetUnit::Money, 4_000_000));
        assert!(SummaryBudget::default().tightest().is_none());
    }
}
