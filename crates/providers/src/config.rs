//! Reads `provider_config`: which keys a provider takes and what their values may be. Every error names
//! `provider_config.<key>`. Knows no provider.

use std::collections::BTreeMap;

use domain::{Error, Mode};

use crate::near::near;

/// Refuses keys that are not on a provider's list; a key that is silently ignored is a trap.
pub(crate) fn check_keys(config: &BTreeMap<String, String>, allowed: &[&str]) -> Result<(), Error> {
    for key in config.keys() {
        if allowed.contains(&key.as_str()) {
            continue;
        }
        let remedy = match near(key, allowed.iter().copied()).first() {
            Some(name) => format!("is not known; did you mean {name}?"),
            None => format!("is not known; this provider takes {}", allowed.join(", ")),
        };
        return Err(invalid(key, remedy));
    }
    Ok(())
}

/// Makes the error for one key.
pub(crate) fn invalid(key: &str, remedy: impl std::fmt::Display) -> Error {
    // The key comes from a client and ends up in logs: no control characters, no novel.
    let shown: String = key.chars().filter(|letter| !letter.is_control()).take(64).collect();
    Error::invalid(&format!("provider_config.{shown}"), remedy)
}

/// Reads a yes or no; absent means no.
pub(crate) fn flag(config: &BTreeMap<String, String>, key: &str) -> Result<bool, Error> {
    match config.get(key).map(String::as_str) {
        None | Some("false" | "0" | "no" | "") => Ok(false),
        Some("true" | "1" | "yes") => Ok(true),
        Some(_) => Err(invalid(key, "must be true or false")),
    }
}

/// Reads a whole number within bounds.
pub(crate) fn number(
    config: &BTreeMap<String, String>,
    key: &str,
    bounds: std::ops::RangeInclusive<u64>,
) -> Result<Option<u64>, Error> {
    let Some(text) = config.get(key) else { return Ok(None) };
    match text.parse::<u64>() {
        Ok(value) if bounds.contains(&value) => Ok(Some(value)),
        _ => Err(invalid(
            key,
            format_args!("must be a whole number from {} to {}", bounds.start(), bounds.end()),
        )),
    }
}

/// Checks `permission_mode`, which the surfaces turn into the session's mode; here it only must make sense.
pub(crate) fn check_permission_mode(config: &BTreeMap<String, String>) -> Result<(), Error> {
    match config.get("permission_mode") {
        Some(text) if Mode::parse(text).is_none() => {
            let names: Vec<&str> = Mode::ALL.iter().map(|(_, name)| *name).collect();
            Err(invalid("permission_mode", format_args!("must be one of {}", names.join(", "))))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn an_unknown_key_is_named_with_the_nearest_known_one() {
        let error = check_keys(&config(&[("max_truns", "3")]), &["max_turns", "add_dirs"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "OBEY-1001: provider_config.max_truns: is not known; did you mean max_turns?"
        );
    }

    #[test]
    fn a_strange_key_gets_the_list() {
        let error = check_keys(&config(&[("--settings\n", "{}")]), &["max_turns"]).unwrap_err();
        assert_eq!(error.message, "provider_config.--settings: is not known; this provider takes max_turns");
    }

    #[test]
    fn values_are_checked() {
        assert!(flag(&config(&[("a", "true")]), "a").unwrap());
        assert!(!flag(&config(&[]), "a").unwrap());
        assert!(flag(&config(&[("a", "maybe")]), "a").is_err());
        assert_eq!(number(&config(&[("n", "3")]), "n", 1..=9).unwrap(), Some(3));
        assert!(number(&config(&[("n", "-3")]), "n", 1..=9).is_err());
        assert!(check_permission_mode(&config(&[("permission_mode", "bypassPermissions")])).is_ok());
        assert!(check_permission_mode(&config(&[("permission_mode", "yolo")])).is_err());
    }
}
