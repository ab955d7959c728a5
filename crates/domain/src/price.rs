//! Prices of models, to estimate the cost of tokens that an agent reports without a cost. Pure; where the table comes
//! from is the runtime's business.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::usage::Usage;

/// What a million tokens cost, in US dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelPrice {
    pub input: f64,
    pub output: f64,
    /// Tokens read from the provider's prompt cache; unset: a tenth of `input`.
    #[serde(default)]
    pub cache_read: Option<f64>,
    /// Tokens written to it; unset: as `input`.
    #[serde(default)]
    pub cache_write: Option<f64>,
}

impl ModelPrice {
    /// Returns whether every price is a finite number that is not negative.
    pub fn is_valid(&self) -> bool {
        [Some(self.input), Some(self.output), self.cache_read, self.cache_write]
            .into_iter()
            .flatten()
            .all(|price| price.is_finite() && price >= 0.0)
    }

    /// Returns the cost of a usage in millionths of a dollar, rounded up.
    fn cost_micro_usd(&self, usage: &Usage) -> u64 {
        // Written tokens are part of the input tokens.
        let plain = usage.input_tokens.saturating_sub(usage.cache_write_tokens);
        let cost = plain as f64 * self.input
            + usage.output_tokens as f64 * self.output
            + usage.cache_read_tokens as f64 * self.cache_read.unwrap_or(self.input / 10.0)
            + usage.cache_write_tokens as f64 * self.cache_write.unwrap_or(self.input);
        // Dollars for a million tokens are millionths of a dollar for one.
        cost.ceil() as u64
    }
}

/// Prices by the beginning of a model's name; the longest beginning that fits counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PriceTable {
    prices: BTreeMap<String, ModelPrice>,
}

impl PriceTable {
    pub fn new(prices: BTreeMap<String, ModelPrice>) -> Self {
        Self { prices }
    }

    pub fn is_empty(&self) -> bool {
        self.prices.is_empty()
    }

    /// Returns the price of a model. A name in front of a slash, such as that of a gateway, does not count.
    pub fn of_model(&self, model: &str) -> Option<&ModelPrice> {
        let bare = model.rsplit('/').next().unwrap_or(model);
        [model, bare].into_iter().find_map(|name| {
            let fitting = self.prices.iter().filter(|(start, _)| name.starts_with(start.as_str()));
            fitting.max_by_key(|(start, _)| start.len()).map(|(_, price)| price)
        })
    }

    /// Fills in the estimate of a usage whose cost the agent does not report.
    pub fn estimate(&self, model: &str, usage: &mut Usage) {
        if usage.cost_micro_usd > 0 {
            return;
        }
        if let Some(price) = self.of_model(model) {
            usage.estimated_micro_usd = price.cost_micro_usd(usage);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> PriceTable {
        let price = |input: f64, output: f64| ModelPrice { input, output, ..ModelPrice::default() };
        PriceTable::new(BTreeMap::from([
            ("gpt-5".to_owned(), price(1.0, 10.0)),
            ("gpt-5-mini".to_owned(), price(0.25, 2.0)),
        ]))
    }

    #[test]
    fn the_longest_name_that_fits_gives_the_price() {
        assert_eq!(table().of_model("gpt-5-mini-2026").unwrap().output, 2.0);
        assert_eq!(table().of_model("gpt-5.1").unwrap().output, 10.0);
        assert_eq!(table().of_model("openai/gpt-5").unwrap().output, 10.0);
        assert_eq!(table().of_model("llama"), None);
    }

    #[test]
    fn an_estimate_prices_every_kind_of_token_and_leaves_a_reported_cost_alone() {
        let mut usage = Usage {
            input_tokens: 1_000,
            output_tokens: 100,
            cache_read_tokens: 10_000,
            cache_write_tokens: 400,
            ..Usage::default()
        };
        table().estimate("gpt-5", &mut usage);
        assert_eq!(usage.estimated_micro_usd, 1_000 + 1_000 + 1_000);
        let mut reported = Usage { cost_micro_usd: 7, estimated_micro_usd: 0, ..usage };
        table().estimate("gpt-5", &mut reported);
        assert_eq!((reported.cost_micro_usd, reported.estimated_micro_usd), (7, 0));
    }
}
