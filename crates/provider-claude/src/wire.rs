//! The lines of Claude Code as written. The pieces of a message come by the thousand and are parsed into
//! types. Every other line is parsed as a value and read field by field, so that a field of another type in
//! another version costs that field and not the line. Interpretation is in `translate`.

use std::borrow::Cow;

use domain::Usage;
use serde::Deserialize;
use serde_json::Value;

pub(super) use provider_common::json_fields::Look;

/// What every line has: enough to know how to parse the rest. `type` is not always the first field.
#[derive(Deserialize)]
pub(super) struct LineHead<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Cow<'a, str>,
}

/// A piece of a message while the model writes it.
#[derive(Deserialize)]
pub(super) struct StreamEvent<'a> {
    #[serde(borrow)]
    pub(super) event: ApiEvent<'a>,
    #[serde(default)]
    pub(super) parent_tool_use_id: Option<String>,
    #[serde(default)]
    pub(super) api_message_id: Option<String>,
}

/// An event of the Messages API.
#[derive(Deserialize)]
pub(super) struct ApiEvent<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Cow<'a, str>,
    #[serde(default)]
    pub(super) index: u64,
    #[serde(default)]
    pub(super) delta: Option<Delta>,
    #[serde(default)]
    pub(super) message: Option<MessageStart>,
    #[serde(default)]
    pub(super) usage: Value,
}

#[derive(Deserialize)]
pub(super) struct Delta {
    #[serde(default)]
    pub(super) text: Option<String>,
    #[serde(default)]
    pub(super) thinking: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct MessageStart {
    #[serde(default)]
    pub(super) id: String,
    #[serde(default)]
    pub(super) usage: Value,
}

/// Reads the tokens of a message's or a turn's `usage`. Tokens written to the cache are input too; a later
/// report on the same message omits what has not changed.
pub(super) fn api_usage(value: &Value) -> Usage {
    let written = value.count("cache_creation_input_tokens").unwrap_or(0);
    Usage {
        input_tokens: value.count("input_tokens").unwrap_or(0).saturating_add(written),
        output_tokens: value.count("output_tokens").unwrap_or(0),
        cache_read_tokens: value.count("cache_read_input_tokens").unwrap_or(0),
        cache_write_tokens: written,
        ..Usage::default()
    }
}

/// Sums the tokens and the cost, in billionths of a dollar, of a `modelUsage` map.
pub(super) fn model_usage(models: &Value) -> (Usage, u64) {
    let (mut sum, mut nano_usd) = (Usage::default(), 0_u64);
    for model in models.as_object().into_iter().flat_map(|map| map.values()) {
        let written = model.count("cacheCreationInputTokens").unwrap_or(0);
        sum.add(&Usage {
            input_tokens: model.count("inputTokens").unwrap_or(0).saturating_add(written),
            output_tokens: model.count("outputTokens").unwrap_or(0),
            cache_read_tokens: model.count("cacheReadInputTokens").unwrap_or(0),
            cache_write_tokens: written,
            ..Usage::default()
        });
        nano_usd = nano_usd.saturating_add(nano(model.under("costUSD")));
    }
    (sum, nano_usd)
}

/// Converts dollars to billionths.
pub(super) fn nano(dollars: &Value) -> u64 {
    let dollars = dollars.as_f64().filter(|dollars| dollars.is_finite()).unwrap_or(0.0);
    // A float that is too large or negative saturates.
    (dollars * 1e9).round() as u64
}
