//! Modes and models an agent offers, and which of them a session uses. Pure.

use agent_client_protocol_schema::v1;
use domain::{Error, ErrorCode, Mode};
use serde_json::Value;

use super::state::SelectableOption;
use crate::limits::{MODEL_NAME_MAX_CHARS, MODELS_MAX, MODELS_SHOWN_MAX};
use provider_common::json_fields::Look;
use provider_common::suggestion::near;

/// Reads the modes of a new conversation.
pub(super) fn modes(session: &v1::NewSessionResponse) -> SelectableOption {
    let modes = session.modes.as_ref().and_then(|modes| {
        read(modes.available_modes.iter().map(|mode| &*mode.id.0), &modes.current_mode_id.0)
    });
    modes.unwrap_or_else(|| mode_option(session.config_options.as_deref().unwrap_or_default()))
}

/// Reads modes that are a configuration option.
pub(super) fn mode_option(options: &[v1::SessionConfigOption]) -> SelectableOption {
    option(options, &v1::SessionConfigOptionCategory::Mode, "mode")
}

/// Reads the models of a new conversation. The protocol once had a list of them, which the types no longer
/// have: codex-acp 2.6 and goose still send it beside their options, gemini sends nothing else.
pub(super) fn models(session: &v1::NewSessionResponse, beside: &Value) -> SelectableOption {
    let models = beside.under("models");
    let names = models.list("availableModels").iter().map(|model| model.text("modelId"));
    read(names, models.text("currentModelId")).unwrap_or_else(|| {
        let options = session.config_options.as_deref().unwrap_or_default();
        option(options, &v1::SessionConfigOptionCategory::Model, "model")
    })
}

fn read<'a>(names: impl Iterator<Item = &'a str>, current: &str) -> Option<SelectableOption> {
    let names: Vec<String> = names.filter(|name| fits(name)).map(str::to_owned).collect();
    (!names.is_empty()).then(|| SelectableOption {
        names,
        current: current.to_owned(),
        ..SelectableOption::default()
    })
}

impl SelectableOption {
    /// Drops names beyond the limit. Whether the agent has a model that was dropped is then up to the agent.
    pub(super) fn shortened(mut self) -> Self {
        self.is_cut = self.names.len() > MODELS_MAX;
        self.names.truncate(MODELS_MAX);
        self
    }
}

/// Reads a configuration option, which newer agents use instead, with or without groups.
fn option(
    options: &[v1::SessionConfigOption],
    category: &v1::SessionConfigOptionCategory,
    id: &str,
) -> SelectableOption {
    let is_wanted =
        |option: &&v1::SessionConfigOption| option.category.as_ref() == Some(category) || &*option.id.0 == id;
    let Some(option) = options.iter().find(is_wanted) else {
        return SelectableOption::default();
    };
    let v1::SessionConfigKind::Select(select) = &option.kind else { return SelectableOption::default() };
    // They were taken out of their groups when they were read.
    let v1::SessionConfigSelectOptions::Ungrouped(values) = &select.options else {
        return SelectableOption::default();
    };
    let values = values.iter().map(|entry| &*entry.value.0);
    let mut choice = read(values, &select.current_value.0).unwrap_or_default();
    (*option.id.0).clone_into(&mut choice.option);
    choice
}

fn fits(name: &str) -> bool {
    !name.is_empty() && name.len() <= MODEL_NAME_MAX_CHARS
}

/// Returns the agent's name for one of our modes, the best match first. Autonomy is decided by our rules: the
/// agent asks as in a supervised session, and is answered.
pub(super) fn mode_of(mode: Mode, choice: &SelectableOption) -> Option<String> {
    const ASKING: &[&str] = &["default", "approve", "ask", "manual", "read-only", "build", "workspace-write"];
    const EDITING: &[&str] =
        &["acceptEdits", "accept-edits", "autoEdit", "auto_edit", "smart_approve", "auto", "workspace-write"];
    let wanted: [&[&str]; 2] = match mode {
        Mode::Supervised | Mode::Autonomous => [ASKING, &[]],
        // An agent without such a mode asks, and its edits are accepted here; it must not stay in plan mode.
        Mode::AcceptEdits => [EDITING, ASKING],
        Mode::Plan => [&["plan", "read-only", "chat"], &[]],
    };
    let known = |name: &&&str| choice.names.iter().any(|known| known == **name);
    wanted.concat().iter().find(|name| known(name)).map(|name| (*name).to_owned())
}

/// Returns the session's mode for an agent's own mode; `None` if its name says too little, or that it would
/// no longer ask.
pub(super) fn meant(name: &str) -> Option<Mode> {
    match name {
        "default" | "approve" | "ask" | "manual" | "build" => Some(Mode::Supervised),
        "acceptEdits" | "accept-edits" | "autoEdit" | "auto_edit" => Some(Mode::AcceptEdits),
        _ => None,
    }
}

/// Checks a model's name against those the agent lists; an agent that lists none cannot be checked.
pub(super) fn check_model(model: &str, choice: &SelectableOption) -> Result<(), Error> {
    let is_known = choice.names.iter().any(|name| name == model);
    if model.is_empty() || choice.names.is_empty() || choice.is_cut || is_known {
        return Ok(());
    }
    let found = near(model, choice.names.iter().map(String::as_str));
    let remedy = match found.first() {
        Some(name) => format!("did you mean {name}?"),
        None => {
            let shown = choice.names.len().min(MODELS_SHOWN_MAX);
            let more = match choice.names.len() - shown {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!("it has {}{more}", choice.names[..shown].join(", "))
        }
    };
    let message = format!("model: the agent has no model {model:?}; {remedy}");
    Err(Error::new(ErrorCode::ModelUnsupported, message))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::typed;

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
            SelectableOption {
                names: vec!["a".to_owned(), "b".to_owned()],
                current: "a".to_owned(),
                option: "the-model".to_owned(),
                is_cut: false,
            }
        );
        assert_eq!(modes(&session(&new)), SelectableOption::default());
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
        // In the original order.
        assert_eq!(names(json!([a, {"group": "1", "options": [b]}, c])), ["a", "b", "c"]);
        assert_eq!(names(json!([{"group": "1", "name": "One", "options": [a, b]}, c])), ["a", "b", "c"]);
        // An invalid entry is skipped alone.
        let odd = json!([null, 7, {"name": "no value"}, {"value": 7}, a, {"group": "1", "options": [[], b]},
            {"group": "none", "options": []}, {"value": "c", "name": null, "options": []}]);
        assert_eq!(names(odd), ["7", "a", "b", "c"]);
    }

    #[test]
    fn every_known_agent_has_a_word_for_our_modes() {
        let of = |names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            let choice = SelectableOption { names, ..SelectableOption::default() };
            [Mode::Supervised, Mode::AcceptEdits, Mode::Plan]
                .map(|mode| mode_of(mode, &choice).unwrap_or_default())
        };
        assert_eq!(of(&["read-only", "auto", "full-access"]), ["read-only", "auto", "read-only"]);
        assert_eq!(of(&["default", "autoEdit", "yolo", "plan"]), ["default", "autoEdit", "plan"]);
        assert_eq!(of(&["auto", "approve", "smart_approve", "chat"]), ["approve", "smart_approve", "chat"]);
        assert_eq!(of(&["default", "acceptEdits", "plan"]), ["default", "acceptEdits", "plan"]);
        assert_eq!(of(&["build", "plan"]), ["build", "build", "plan"]);
    }

    #[test]
    fn an_unknown_model_is_answered_with_near_names() {
        let choice = SelectableOption { names: vec!["gpt-5.5".to_owned()], ..SelectableOption::default() };
        assert_eq!(check_model("gpt-5.5", &choice), Ok(()));
        assert_eq!(check_model("anything", &SelectableOption::default()), Ok(()));
        let error = check_model("gpt-55", &choice).unwrap_err();
        assert_eq!(
            error.to_string(),
            "OBEY-2003: model: the agent has no model \"gpt-55\"; did you mean gpt-5.5?"
        );
    }
    #[test]
    fn a_model_is_known_however_many_there_are() {
        let names = (0..500).map(|at| json!({"modelId": format!("vendor-{at}/some-model")}));
        let beside = json!({"models": {"currentModelId": "vendor-0/some-model", "availableModels": names.collect::<Vec<_>>()}});
        let session = typed::read(&mut beside.clone(), "session/new").unwrap();
        let choice = models(&session, &beside);
        assert_eq!(check_model("vendor-499/some-model", &choice), Ok(()));
        let error = check_model("zzz", &choice).unwrap_err();
        assert!(error.message.len() < 2_000 && error.message.ends_with("and 480 more"), "{}", error.message);
        // Fewer names are kept; the agent itself then decides.
        let kept = choice.shortened();
        assert_eq!((kept.names.len(), check_model("vendor-499/some-model", &kept)), (MODELS_MAX, Ok(())));
    }
}
