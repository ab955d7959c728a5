//! Modes and models an agent offers, and which of them a session gets. Pure.

use agent_client_protocol_schema::v1;
use domain::{Error, ErrorCode, Mode};
use serde_json::Value;

use super::memory::Choice;
use crate::limits::{MODEL_NAME_MAX_CHARS, MODELS_MAX};
use crate::look::Look;
use crate::near::near;

/// Reads the modes of a new conversation.
pub(super) fn modes(session: &v1::NewSessionResponse) -> Choice {
    let modes = session.modes.as_ref().and_then(|modes| {
        read(modes.available_modes.iter().map(|mode| &*mode.id.0), &modes.current_mode_id.0)
    });
    modes.unwrap_or_else(|| option(session, &v1::SessionConfigOptionCategory::Mode, "mode"))
}

/// Reads the models of a new conversation. The protocol had a list of them once, which the types no longer have:
/// codex-acp 2.6 and goose send it still beside their options, gemini has nothing else.
pub(super) fn models(session: &v1::NewSessionResponse, beside: &Value) -> Choice {
    let models = beside.under("models");
    let names = models.list("availableModels").iter().map(|model| model.text("modelId"));
    read(names, models.text("currentModelId"))
        .unwrap_or_else(|| option(session, &v1::SessionConfigOptionCategory::Model, "model"))
}

fn read<'a>(names: impl Iterator<Item = &'a str>, current: &str) -> Option<Choice> {
    let names: Vec<String> = names.filter(|name| fits(name)).take(MODELS_MAX).map(str::to_owned).collect();
    (!names.is_empty()).then(|| Choice { names, current: current.to_owned(), option: String::new() })
}

/// Newer agents have options instead, in groups or not.
fn option(session: &v1::NewSessionResponse, category: &v1::SessionConfigOptionCategory, id: &str) -> Choice {
    let is_wanted =
        |option: &&v1::SessionConfigOption| option.category.as_ref() == Some(category) || &*option.id.0 == id;
    let Some(option) = session.config_options.iter().flatten().find(is_wanted) else {
        return Choice::default();
    };
    let v1::SessionConfigKind::Select(select) = &option.kind else { return Choice::default() };
    // They were taken out of their groups when they were read.
    let v1::SessionConfigSelectOptions::Ungrouped(values) = &select.options else { return Choice::default() };
    let values = values.iter().map(|entry| &*entry.value.0);
    let mut choice = read(values, &select.current_value.0).unwrap_or_default();
    (*option.id.0).clone_into(&mut choice.option);
    choice
}

fn fits(name: &str) -> bool {
    !name.is_empty() && name.len() <= MODEL_NAME_MAX_CHARS
}

/// What agents call our modes, the best first. Autonomy is decided by our rules: the agent asks as in a supervised
/// session, and is answered.
pub(super) fn mode_of(mode: Mode, choice: &Choice) -> Option<String> {
    let wanted: &[&str] = match mode {
        Mode::Supervised | Mode::Autonomous => {
            &["default", "approve", "ask", "manual", "read-only", "build", "workspace-write"]
        }
        Mode::AcceptEdits => &[
            "acceptEdits",
            "accept-edits",
            "autoEdit",
            "auto_edit",
            "smart_approve",
            "auto",
            "workspace-write",
        ],
        Mode::Plan => &["plan", "read-only", "chat"],
    };
    wanted.iter().find(|name| choice.names.iter().any(|known| known == *name)).map(|name| (*name).to_owned())
}

/// Checks a model's name against those the agent knows; one that lists none cannot be asked whether it has one.
pub(super) fn check_model(model: &str, choice: &Choice) -> Result<(), Error> {
    if model.is_empty() || choice.names.is_empty() || choice.names.iter().any(|name| name == model) {
        return Ok(());
    }
    let found = near(model, choice.names.iter().map(String::as_str));
    let remedy = match found.first() {
        Some(name) => format!("did you mean {name}?"),
        None => format!("it has {}", choice.names.join(", ")),
    };
    let message = format!("model: the agent has no model {model:?}; {remedy}");
    Err(Error::new(ErrorCode::ModelUnsupported, message))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::acp::typed;

    #[test]
    fn choices_are_read_in_both_forms() {
        let old = json!({"modes": {"currentModeId": "auto", "availableModes": [{"id": "read-only"}, {"id": "auto"}]},
            "models": {"currentModelId": "m1", "availableModels": [{"modelId": "m1"}, {"modelId": "m2"}]}});
        let session = |value: &Value| typed::read(&mut value.clone(), "session/new").unwrap();
        assert_eq!(modes(&session(&old)).names, ["read-only", "auto"]);
        let models_of = |value: &Value| models(&session(value), value);
        assert_eq!((models_of(&old).current.as_str(), models_of(&old).option.as_str()), ("m1", ""));
        let new = json!({"configOptions": [
            {"id": "the-model", "category": "model", "currentValue": "a", "options": [
                {"value": "a"}, {"group": "more", "options": [{"value": "b"}]}]}]});
        assert_eq!(
            models_of(&new),
            Choice {
                names: vec!["a".to_owned(), "b".to_owned()],
                current: "a".to_owned(),
                option: "the-model".to_owned(),
            }
        );
        assert_eq!(modes(&session(&new)), Choice::default());
    }

    #[test]
    fn options_are_read_in_groups_without_and_in_both_ways_at_once() {
        let names = |options: Value| {
            let mut value =
                json!({"configOptions": [{"id": "model", "currentValue": "a", "options": options}]});
            let session = typed::read(&mut value, "session/new").unwrap();
            models(&session, &value).names
        };
        let (a, b, c) = (json!({"value": "a", "name": "A"}), json!({"value": "b"}), json!({"value": "c"}));
        assert_eq!(names(json!([a, b, c])), ["a", "b", "c"]);
        assert_eq!(
            names(json!([{"group": "1", "name": "One", "options": [a, b]}, {"options": [c]}])),
            ["a", "b", "c"]
        );
        // In the order in which they were said.
        assert_eq!(names(json!([a, {"group": "1", "options": [b]}, c])), ["a", "b", "c"]);
        assert_eq!(names(json!([{"group": "1", "name": "One", "options": [a, b]}, c])), ["a", "b", "c"]);
        // One that says nothing costs itself.
        let odd = json!([null, 7, {"name": "no value"}, {"value": 7}, a, {"group": "1", "options": [[], b]},
            {"group": "none", "options": []}, {"value": "c", "name": null, "options": []}]);
        assert_eq!(names(odd), ["7", "a", "b", "c"]);
    }

    #[test]
    fn every_known_agent_has_a_word_for_our_modes() {
        let of = |names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            let choice = Choice { names, ..Choice::default() };
            [Mode::Supervised, Mode::AcceptEdits, Mode::Plan]
                .map(|mode| mode_of(mode, &choice).unwrap_or_default())
        };
        assert_eq!(of(&["read-only", "auto", "full-access"]), ["read-only", "auto", "read-only"]);
        assert_eq!(of(&["default", "autoEdit", "yolo", "plan"]), ["default", "autoEdit", "plan"]);
        assert_eq!(of(&["auto", "approve", "smart_approve", "chat"]), ["approve", "smart_approve", "chat"]);
        assert_eq!(of(&["default", "acceptEdits", "plan"]), ["default", "acceptEdits", "plan"]);
        assert_eq!(of(&["build", "plan"]), ["build", "", "plan"]);
    }

    #[test]
    fn an_unknown_model_is_answered_with_near_names() {
        let choice = Choice { names: vec!["gpt-5.5".to_owned()], ..Choice::default() };
        assert_eq!(check_model("gpt-5.5", &choice), Ok(()));
        assert_eq!(check_model("anything", &Choice::default()), Ok(()));
        let error = check_model("gpt-55", &choice).unwrap_err();
        assert_eq!(
            error.to_string(),
            "OBEY-2003: model: the agent has no model \"gpt-55\"; did you mean gpt-5.5?"
        );
    }
}
