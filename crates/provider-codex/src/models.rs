//! Which model names Codex accepts. It starts with any text, whatever its model provider has, and fails at
//! the first prompt; we refuse a name that neither its own list nor its configuration contains. Pure.

use domain::{Error, ErrorCode};
use serde_json::Value;

use crate::limits::{MODEL_NAME_MAX_CHARS, MODELS_MAX};
use provider_common::json_fields::Look;
use provider_common::suggestion::near;

/// Checks what can be checked before the agent runs; empty means the agent's default.
pub(super) fn check_form(model: &str) -> Result<(), Error> {
    let plain = |letter: char| letter.is_ascii_graphic() && !matches!(letter, '"' | '\'' | '\\' | '`');
    let begins = model.starts_with(|letter: char| letter.is_ascii_alphanumeric());
    if model.is_empty() || (model.len() <= MODEL_NAME_MAX_CHARS && begins && model.chars().all(plain)) {
        return Ok(());
    }
    let shown: String = model.chars().filter(|letter| !letter.is_control()).take(64).collect();
    Err(unsupported(format!("model: {shown:?} cannot be the name of a model")))
}

/// Checks a name against those the agent knows.
pub(super) fn check_known(model: &str, known: &[String]) -> Result<(), Error> {
    if model.is_empty() || known.iter().any(|name| name == model) {
        return Ok(());
    }
    let found = near(model, known.iter().map(String::as_str));
    let remedy = match found.first() {
        Some(name) => format!("did you mean {name}?"),
        None => format!("it has {}.", known.join(", ")),
    };
    Err(unsupported(format!(
        "model: codex has no model {model:?}; {remedy} A model of your own provider is known once it is the `model` \
         of Codex's config.toml"
    )))
}

fn unsupported(message: String) -> Error {
    Error::new(ErrorCode::ModelUnsupported, message)
}

/// Adds the names on one page of the agent's list.
pub(super) fn add_listed(known: &mut Vec<String>, page: &Value) {
    for model in page.list("data") {
        add(known, model.text("model"));
        add(known, model.text("id"));
    }
}

/// Adds the names that the agent's configuration uses.
pub(super) fn add_configured(known: &mut Vec<String>, config: &Value) {
    add(known, config.text("model"));
    add(known, config.text("review_model"));
    for profile in config.under("profiles").as_object().into_iter().flat_map(|profiles| profiles.values()) {
        add(known, profile.text("model"));
    }
}

fn add(known: &mut Vec<String>, name: &str) {
    let fits = !name.is_empty() && name.len() <= MODEL_NAME_MAX_CHARS && known.len() < MODELS_MAX;
    if fits && !known.iter().any(|known| known == name) {
        known.push(name.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_come_from_the_list_and_the_configuration() {
        let mut known = Vec::new();
        add_listed(&mut known, &json!({"data": [{"id": "gpt-5.5", "model": "gpt-5.5"}, {"model": 1}]}));
        add_configured(
            &mut known,
            &json!({"model": "own-model", "review_model": null, "profiles": {"fast": {"model": "own-mini"}}}),
        );
        assert_eq!(known, ["gpt-5.5", "own-model", "own-mini"]);
        for model in ["", "gpt-5.5", "own-model", "own-mini"] {
            assert_eq!(check_known(model, &known), Ok(()));
        }
        let error = check_known("gpt-55", &known).unwrap_err();
        assert!(error.to_string().starts_with(
            "OBEY-2003: model: codex has no model \"gpt-55\"; did you mean gpt-5.5? A model of your own"
        ));
        let error = check_known("claude-opus-4-5", &known).unwrap_err();
        assert!(error.message.contains("it has gpt-5.5, own-model, own-mini"), "{error}");
    }

    #[test]
    fn what_cannot_be_a_name_is_refused_at_once() {
        for model in ["", "gpt-5.5", "openai/gpt-oss-120b", "qwen3:8b", "o3"] {
            assert_eq!(check_form(model), Ok(()), "{model}");
        }
        for model in ["--x", "a b", "a\n", "a\"b", "é", &"x".repeat(500)] {
            assert_eq!(check_form(model).unwrap_err().code, ErrorCode::ModelUnsupported, "{model}");
        }
    }
}
