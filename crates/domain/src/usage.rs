//! Counting tokens and money, and the budget that bounds them.

use serde::{Deserialize, Serialize};

/// Tokens and cost, either of one report (a difference) or of a whole session (a sum).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens sent to the model that were not read from a cache.
    pub input_tokens: u64,
    /// Tokens the model produced.
    pub output_tokens: u64,
    /// Tokens read from the provider's prompt cache; they do not count against a budget.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_read_tokens: u64,
    /// Tokens written to the provider's prompt cache; already part of `input_tokens`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write_tokens: u64,
    /// Cost as the agent reports it, in millionths of a US dollar.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cost_micro_usd: u64,
    /// Cost of tokens whose cost the agent has not reported (yet), estimated from the price table, in the same unit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub estimated_micro_usd: u64,
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl Usage {
    /// Adds a report to a sum.
    pub fn add(&mut self, more: &Usage) {
        self.input_tokens = self.input_tokens.saturating_add(more.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(more.output_tokens);
        self.cache_read_tokens = self.cache_read_tokens.saturating_add(more.cache_read_tokens);
        self.cache_write_tokens = self.cache_write_tokens.saturating_add(more.cache_write_tokens);
        self.cost_micro_usd = self.cost_micro_usd.saturating_add(more.cost_micro_usd);
        // A reported cost includes that of the tokens before it.
        self.estimated_micro_usd = match more.cost_micro_usd {
            0 => self.estimated_micro_usd.saturating_add(more.estimated_micro_usd),
            _ => more.estimated_micro_usd,
        };
    }

    /// Returns what is in `self` beyond `reported`, field by field.
    pub fn beyond(&self, reported: &Usage) -> Usage {
        Usage {
            input_tokens: self.input_tokens.saturating_sub(reported.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(reported.output_tokens),
            cache_read_tokens: self.cache_read_tokens.saturating_sub(reported.cache_read_tokens),
            cache_write_tokens: self.cache_write_tokens.saturating_sub(reported.cache_write_tokens),
            cost_micro_usd: self.cost_micro_usd.saturating_sub(reported.cost_micro_usd),
            estimated_micro_usd: self.estimated_micro_usd.saturating_sub(reported.estimated_micro_usd),
        }
    }

    /// Returns whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        *self == Usage::default()
    }

    /// Returns what counts against a token budget.
    pub fn budgeted_tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Returns the reported cost and the estimate of what is not reported.
    pub fn spent_micro_usd(&self) -> u64 {
        self.cost_micro_usd.saturating_add(self.estimated_micro_usd)
    }
}
