//! Which models an endpoint has and which of them a session uses. Pure.

use domain::{Error, ErrorCode};

use crate::limits::{MODEL_NAME_MAX_CHARS, WINDOW_TOKENS};
use provider_common::suggestion::near;

/// Used if a session names no model and the endpoint has it; otherwise the endpoint's first.
const USUAL: &str = "gpt-5.5";

/// Context windows of models by prefixes of their names, longer ones before shorter ones.
const WINDOWS: [(&str, u64); 8] = [
    ("gpt-5", 272_000),
    ("gpt-6", 272_000),
    ("gpt-4.1", 1_000_000),
    ("gpt-4o", 128_000),
    ("gpt-3.5", 16_000),
    ("o1", 200_000),
    ("o3", 200_000),
    ("o4", 200_000),
];

/// Names of models shown if none is similar to the requested one.
const SHOWN_MAX: usize = 12;

/// Checks what can be checked without the endpoint; empty means the default model.
pub(super) fn check_form(model: &str) -> Result<(), Error> {
    let plain = |letter: char| letter.is_ascii_graphic() && !matches!(letter, '"' | '\'' | '\\' | '`');
    if model.len() <= MODEL_NAME_MAX_CHARS && model.chars().all(plain) {
        return Ok(());
    }
    let shown: String = model.chars().filter(|letter| !letter.is_control()).take(64).collect();
    Err(unsupported(format!("model: {shown:?} cannot be the name of a model")))
}

/// Returns the model of a session: the requested one, if the endpoint has it, or the default. An endpoint
/// without a list is assumed to have it.
pub(super) fn choose(asked: &str, known: &[String]) -> Result<String, Error> {
    if known.is_empty() {
        if asked.is_empty() {
            return Err(Error::invalid("model", "is required: the endpoint does not list its models"));
        }
        return Ok(asked.to_owned());
    }
    if asked.is_empty() {
        let usual = known.iter().find(|name| *name == USUAL).or(known.first());
        return Ok(usual.cloned().unwrap_or_default());
    }
    if known.iter().any(|name| name == asked) {
        return Ok(asked.to_owned());
    }
    let found = near(asked, known.iter().map(String::as_str));
    let remedy = match found.first() {
        Some(name) => format!("did you mean {name}?"),
        None => {
            let shown: Vec<&str> = known.iter().take(SHOWN_MAX).map(String::as_str).collect();
            let more = if known.len() > SHOWN_MAX { ", …" } else { "" };
            format!("it has {}{more}", shown.join(", "))
        }
    };
    Err(unsupported(format!("model: the endpoint has no model {asked:?}; {remedy}")))
}

/// Returns the context window of a model in tokens, as far as known.
pub(super) fn window(model: &str) -> u64 {
    let name = model.rsplit('/').next().unwrap_or(model);
    WINDOWS.iter().find(|(start, _)| name.starts_with(start)).map_or(WINDOW_TOKENS, |(_, window)| *window)
}

fn unsupported(message: String) -> Error {
    Error::new(ErrorCode::ModelUnsupported, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_model_must_be_on_the_list_if_there_is_one() {
        let list = known(&["alpha", "gpt-5.5"]);
        assert_eq!(choose("alpha", &list).unwrap(), "alpha");
        assert_eq!(choose("", &list).unwrap(), "gpt-5.5");
        assert_eq!(choose("", &known(&["alpha"])).unwrap(), "alpha");
        assert_eq!(choose("anything", &[]).unwrap(), "anything");
        assert_eq!(choose("", &[]).unwrap_err().code, ErrorCode::InvalidArgument);
        let error = choose("gpt-55", &list).unwrap_err();
        assert_eq!(
            error.to_string(),
            "OBEY-2003: model: the endpoint has no model \"gpt-55\"; did you mean gpt-5.5?"
        );
        assert!(choose("claude", &list).unwrap_err().message.ends_with("it has alpha, gpt-5.5"));
    }

    #[test]
    fn windows_are_known_by_the_models_name() {
        assert_eq!(window("gpt-5.5"), 272_000);
        assert_eq!(window("openai/gpt-4o-mini"), 128_000);
        assert_eq!(window("qwen3:8b"), WINDOW_TOKENS);
        assert!(check_form("a b").is_err() && check_form("openai/gpt-oss-120b").is_ok());
    }
}
