//! Questions and permissions as an editor gets them.

use domain::request::QuestionOption;

use crate::from_wire::ClientCapabilities;

use super::*;

fn question() -> Question {
    let option = |label: &str| QuestionOption { label: label.into(), description: String::new() };
    Question {
        id: "q".into(),
        text: "Which?".into(),
        options: vec![option("A"), option("B")],
        ..Question::default()
    }
}

#[test]
fn every_outcome_is_a_decision() {
    let of = |reply: Reply| decision(&reply).0;
    let selected = |id: &str| Ok(json!({"outcome": {"outcome": "selected", "optionId": id}}));
    assert_eq!(of(selected("allow-once")), Decision::AllowOnce);
    assert_eq!(of(selected("allow-always")), Decision::AllowSession);
    assert_eq!(of(selected("allow-always:prefix")), Decision::AllowOnce);
    assert_eq!(of(selected("reject-once")), Decision::Deny);
    assert_eq!(of(selected("what is this")), Decision::Deny);
    assert_eq!(of(Ok(json!({"outcome": {"outcome": "cancelled"}}))), Decision::DenyAndStop);
    assert_eq!(of(Ok(json!({}))), Decision::Deny);
    assert_eq!(of(Err(json!({"code": -32601}))), Decision::Deny);
}

/// Ids and names of the options that a client of this name gets for a permission that can be remembered in two ways.
fn shown_to(client: &str) -> Vec<String> {
    let proposal = |id: &str| Proposal { id: id.to_owned(), text: format!("{id}, in this session") };
    let initialize =
        serde_json::from_value(json!({"protocolVersion": 1, "clientInfo": {"name": client}})).unwrap();
    let names_options = ClientCapabilities::read(&initialize).names_options;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    options(&[proposal("command"), proposal("prefix")], names_options)
        .iter()
        .map(|option| format!("{}: {}", text(&option["optionId"]), text(&option["name"])))
        .collect()
}

#[test]
fn a_client_that_shows_kinds_of_options_gets_one_of_each() {
    let shown = shown_to("CodeCompanion.nvim");
    assert_eq!(
        shown,
        ["allow-once: Allow", "allow-always: Allow command, in this session", "reject-once: Reject"]
    );
}

#[test]
fn an_option_says_what_it_grants() {
    assert_eq!(
        shown_to("zed"),
        [
            "allow-once: Allow",
            "allow-always: Allow command, in this session",
            "allow-always:prefix: Allow prefix, in this session",
            "reject-once: Reject",
        ]
    );
    let reply: Reply = Ok(json!({"outcome": {"outcome": "selected", "optionId": "allow-always:prefix"}}));
    assert_eq!(chosen_grant(&reply).unwrap().proposal, "prefix");
}

#[test]
fn a_question_is_a_form_or_a_choice() {
    let form = schema(&[question()]);
    assert_eq!(form["properties"]["q"]["enum"], json!(["A", "B"]));
    assert_eq!(form_answers(&json!({"q": "B", "m": ["x", "y"]}))["m"], "x, y");
    let params = choice("sess_1", RequestId(3), &question(), &[]);
    assert_eq!(params["options"].as_array().unwrap().len(), 3);
    let reply = Ok(json!({"outcome": {"outcome": "selected", "optionId": "choice-1"}}));
    assert_eq!(chosen(&reply, &question()), Some(Chosen::Option(1)));
    let skip = Ok(json!({"outcome": {"outcome": "selected", "optionId": "skip"}}));
    assert_eq!(chosen(&skip, &question()), None);
}

#[test]
fn several_options_are_chosen_one_by_one() {
    let question = Question { multi_select: true, ..question() };
    let mut so_far = Vec::new();
    toggle(&mut so_far, 1);
    toggle(&mut so_far, 0);
    assert_eq!(labels(&question, &so_far), "A, B");
    toggle(&mut so_far, 0);
    let params = choice("sess_1", RequestId(3), &question, &so_far);
    let names: Vec<&str> =
        params["options"].as_array().unwrap().iter().map(|option| option["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["A", "✓ B", "Done: B", "Skip"]);
    let done = Ok(json!({"outcome": {"outcome": "selected", "optionId": "done"}}));
    assert_eq!(chosen(&done, &question), Some(Chosen::Done));
}
