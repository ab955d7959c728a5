//! Parses single values of the command line: durations, assignments, names of providers and modes, JSON
//! objects. Every error says what is accepted.

use std::collections::HashMap;
use std::time::Duration;

use domain::{AgentNetwork, Mode, ProviderKind, Resource, Status};
use serde_json::Value;

use config::nearest::suggestion;

/// Parses an amount such as `5` or `0.5`.
pub fn amount(text: &str) -> Result<f64, String> {
    let amount = text.parse::<f64>().ok().filter(|amount| amount.is_finite() && *amount >= 0.0);
    amount.ok_or_else(|| format!("{text:?} is no amount; write it like 5 or 0.5"))
}

/// Parses a number of things.
pub fn count(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text:?} is no number of 0 or more; write it like 200000"))
}

/// Parses an amount of money above 0.
pub fn dollars(text: &str) -> Result<f64, String> {
    let amount = amount(text.trim_start_matches('$')).ok().filter(|amount| *amount > 0.0);
    amount.ok_or_else(|| format!("{text:?} is no amount of US dollars above 0; write it like 5 or 0.5"))
}

/// Parses a duration such as `90`, `90s`, `500ms`, `10m` or `1h30m`; a bare number is in seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no duration; write it like 90s, 10m or 1h30m");
    if let Ok(seconds) = text.parse() {
        return Ok(Duration::from_secs(seconds));
    }
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, after) = rest.split_at(digits);
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let unit_end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let millis = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(wrong()),
        };
        let part = number.checked_mul(millis).ok_or_else(wrong)?;
        total = total.checked_add(Duration::from_millis(part)).ok_or_else(wrong)?;
        rest = after;
    }
    if text.is_empty() { Err(wrong()) } else { Ok(total) }
}

/// Parses `KEY=VALUE`.
pub fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("{text:?} is no KEY=VALUE")),
    }
}

/// Parses a provider's name. Also accepts the short forms `claude` and `openai`.
pub fn provider(text: &str) -> Result<ProviderKind, String> {
    let name = match text {
        "claude" => "claude-code",
        "openai" => "openai-api",
        _ => text,
    };
    ProviderKind::parse(name)
        .ok_or_else(|| one_of(text, ProviderKind::ALL.map(ProviderKind::name).as_slice()))
}

/// Parses a mode.
pub fn mode(text: &str) -> Result<Mode, String> {
    Mode::parse(text).ok_or_else(|| one_of(text, Mode::ALL.map(|(_, name)| name).as_slice()))
}

/// Parses the network of an agent in the sandbox.
pub fn network(text: &str) -> Result<AgentNetwork, String> {
    let all = [AgentNetwork::Full, AgentNetwork::Model, AgentNetwork::None].map(AgentNetwork::name);
    AgentNetwork::parse(text).ok_or_else(|| one_of(text, &all))
}

/// Checks a size of memory; the daemon reads it again.
pub fn memory(text: &str) -> Result<String, String> {
    Resource::Memory.parse(text).map(|_| text.to_owned())
}

/// Checks a number of processors; the daemon reads it again.
pub fn cpus(text: &str) -> Result<String, String> {
    Resource::Cpus.parse(text).map(|_| text.to_owned())
}

/// Checks a number of processes; the daemon reads it again.
pub fn processes(text: &str) -> Result<String, String> {
    Resource::Processes.parse(text).map(|_| text.to_owned())
}

/// Reads a session's status in any case.
pub fn status(text: &str) -> Result<Status, String> {
    let names = Status::ALL.map(Status::name);
    Status::parse(&text.to_uppercase()).ok_or_else(|| one_of(&text.to_uppercase(), &names))
}

/// Parses a JSON object into strings: strings stay as they are, other values become compact JSON.
pub fn config(text: &str) -> Result<HashMap<String, String>, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let Value::Object(object) = value else {
        return Err("must be a JSON object such as {\"key\":\"value\"}".to_owned());
    };
    let texts = object.into_iter().map(|(key, value)| match value {
        Value::String(text) => (key, text),
        other => (key, other.to_string()),
    });
    Ok(texts.collect())
}

/// Parses a JSON object and returns it in compact form.
pub fn json_object(text: &str) -> Result<String, String> {
    match serde_json::from_str::<Value>(text) {
        Ok(value @ Value::Object(_)) => Ok(value.to_string()),
        Ok(_) => Err("must be a JSON object".to_owned()),
        Err(error) => Err(format!("not JSON: {error}")),
    }
}

fn one_of(text: &str, names: &[&'static str]) -> String {
    let meant = suggestion(text, names.iter().copied());
    format!("{text:?} is none of {}{meant}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        for (text, millis) in
            [("90", 90_000), ("90s", 90_000), ("500ms", 500), ("10m", 600_000), ("1h30m", 5_400_000)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "m", "10x", "1h30", "-5s", "1.5h", "99999999999999999999d"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn configuration_values_become_texts() {
        let read = config(r#"{"a":"x y","b":true,"c":[1, 2],"d":{"e":null}}"#).unwrap();
        assert_eq!(read["a"], "x y");
        assert_eq!(read["b"], "true");
        assert_eq!(read["c"], "[1,2]");
        assert_eq!(read["d"], r#"{"e":null}"#);
        assert!(config("[1]").is_err());
        assert!(config("{").is_err());
    }

    #[test]
    fn names_are_read_and_slips_explained() {
        assert_eq!(provider("claude"), Ok(ProviderKind::ClaudeCode));
        assert!(provider("claud-code").unwrap_err().ends_with("did you mean claude-code?"));
        assert_eq!(mode("bypassPermissions"), Ok(Mode::Autonomous));
        assert!(mode("x").is_err());
        assert_eq!(status("running"), Ok(Status::Running));
    }

    #[test]
    fn assignments_keep_later_equal_signs() {
        assert_eq!(assignment("A=b=c"), Ok(("A".to_owned(), "b=c".to_owned())));
        assert!(assignment("=x").is_err());
        assert!(assignment("x").is_err());
    }
}
