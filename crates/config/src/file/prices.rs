//! `[prices]`: what models cost, to estimate the cost of tokens that an agent reports without one. Parses the table; the
//! runtime estimates with it.

use std::collections::BTreeMap;

use domain::price::{ModelPrice, PriceTable};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::failure::Result;

/// Prices of models, in US dollars for a million tokens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Prices {
    /// `MODEL=INPUT/OUTPUT[/CACHE_READ[/CACHE_WRITE]]`; MODEL is the beginning of the model's name.
    pub models: Vec<String>,
}

/// List prices of common models; `prices.models` replaces them one by one.
const BUILT_IN: [(&str, &str); 9] = [
    ("claude-opus-4", "15/75/1.5/18.75"),
    ("claude-opus-4-5", "5/25/0.5/6.25"),
    ("claude-sonnet-4", "3/15/0.3/3.75"),
    ("claude-haiku-4-5", "1/5/0.1/1.25"),
    ("gpt-5", "1.25/10/0.125"),
    ("gpt-5-mini", "0.25/2/0.025"),
    ("gpt-5-nano", "0.05/0.4/0.005"),
    ("gpt-4.1", "2/8/0.5"),
    ("gpt-4o", "2.5/10/1.25"),
];

/// Returns the table of a configuration that was loaded, and therefore checked.
pub fn loaded(prices: &Prices) -> PriceTable {
    table(prices).unwrap_or_default()
}

/// Returns the table: the built-in prices, and what is configured instead.
pub fn table(prices: &Prices) -> Result<PriceTable> {
    let mut table = BTreeMap::new();
    for (model, text) in BUILT_IN {
        table.extend(price(text).map(|price| (model.to_owned(), price)));
    }
    for entry in &prices.models {
        let parsed = entry.split_once('=').and_then(|(model, text)| {
            let model = model.trim();
            Some((model.to_owned(), price(text)?)).filter(|_| !model.is_empty())
        });
        let (model, price) = parsed.ok_or_else(|| {
            super::invalid(format!(
                "prices.models: {entry:?} is no price; write it like gpt-5=1.25/10/0.125 (input/output/cache read, \
                 in US dollars for a million tokens)"
            ))
        })?;
        table.insert(model, price);
    }
    Ok(PriceTable::new(table))
}

fn price(text: &str) -> Option<ModelPrice> {
    let numbers: Vec<f64> =
        text.split('/').map(|number| number.trim().parse().ok()).collect::<Option<_>>()?;
    let price = match numbers.as_slice() {
        [input, output] => ModelPrice { input: *input, output: *output, ..ModelPrice::default() },
        [input, output, read] => {
            ModelPrice { input: *input, output: *output, cache_read: Some(*read), cache_write: None }
        }
        [input, output, read, write] => {
            ModelPrice { input: *input, output: *output, cache_read: Some(*read), cache_write: Some(*write) }
        }
        _ => return None,
    };
    price.is_valid().then_some(price)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(entries: &[&str]) -> Result<PriceTable> {
        table(&Prices { models: entries.iter().map(|entry| (*entry).to_owned()).collect() })
    }

    #[test]
    fn every_built_in_price_is_one_and_a_configured_one_goes_before_it() {
        let table = of(&["gpt-5=7/8", "llama = 0/0"]).unwrap();
        for (model, _) in BUILT_IN {
            assert!(table.of_model(model).is_some(), "{model}");
        }
        assert_eq!(table.of_model("gpt-5").unwrap().input, 7.0);
        assert_eq!(table.of_model("llama-4").unwrap().output, 0.0);
    }

    #[test]
    fn what_is_no_price_is_refused_by_name() {
        for wrong in ["gpt-5", "=1/2", "gpt-5=1", "gpt-5=1/x", "gpt-5=-1/2", "gpt-5=1/2/3/4/5", "gpt-5=inf/1"]
        {
            let failure = of(&[wrong]).unwrap_err();
            assert!(failure.message.contains("prices.models"), "{wrong}: {failure:?}");
        }
    }
}
