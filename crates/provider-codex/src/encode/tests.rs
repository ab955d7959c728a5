//! What is written for inputs that are in no recording.

use agent_port::Revisioned;
use domain::request::PermissionSubject;
use domain::{Decision, Mode};

use super::super::state::AnswerForm;
use super::*;

fn ready() -> Revisioned<CodexState> {
    let state = CodexState {
        thread: "t1".into(),
        model: "gpt-5.5".into(),
        version: "0.166.0".into(),
        models: vec!["gpt-5.5".into()],
        ..CodexState::default()
    };
    state.into()
}

fn written(state: &mut Revisioned<CodexState>, told: &AgentInput) -> Vec<Value> {
    let mut wire = Vec::new();
    input(state, &CodexSettings::default(), told, &mut wire).unwrap();
    assert!(wire.is_empty() || wire.ends_with(b"\n"));
    std::str::from_utf8(&wire).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn decide(state: &mut Revisioned<CodexState>, decision: Decision, updated: Option<Value>) -> Vec<Value> {
    let ask = domain::request::RequestSubject::Permission(PermissionSubject {
        call: None,
        tool: "shell".into(),
        input: json!({"command": "x", "permissions": {"network": {"enabled": true}}}),
        title: String::new(),
        parent: None,
    });
    let (native, message) = ("7".to_owned(), String::new());
    written(state, &AgentInput::Decide { native, decision, message, updated_input: updated, ask })
}

#[test]
fn every_kind_of_request_gets_its_own_answer() {
    let answer = |asking: AnswerForm, decision: Decision| {
        let mut state = ready();
        state.remember_request("7", asking);
        let written = decide(&mut state, decision, None);
        assert_eq!((written.len(), &written[0]["id"]), (1, &json!(7)));
        assert!(state.asks.is_empty());
        written[0]["result"].clone()
    };
    let words = [
        (Decision::AllowOnce, "accept"),
        (Decision::AllowSession, "accept"),
        (Decision::Deny, "decline"),
        (Decision::DenyAndStop, "cancel"),
    ];
    for (decision, word) in words {
        assert_eq!(answer(AnswerForm::Decision, decision), json!({"decision": word}));
        assert_eq!(answer(AnswerForm::Consent, decision)["action"], word);
        assert_eq!(answer(AnswerForm::Form(Default::default()), decision)["action"], word);
    }
    let given = answer(AnswerForm::Permissions, Decision::AllowSession);
    assert_eq!(given, json!({"permissions": {"network": {"enabled": true}}, "scope": "turn"}));
    assert_eq!(answer(AnswerForm::Permissions, Decision::Deny), json!({"permissions": {}, "scope": "turn"}));
    assert_eq!(answer(AnswerForm::Answers, Decision::Deny), json!({"answers": {}}));
}

#[test]
fn a_changed_call_is_declined_and_explained() {
    for asking in [AnswerForm::Decision, AnswerForm::Consent] {
        let mut state = ready();
        state.remember_request("7", asking);
        let written = decide(&mut state, Decision::AllowOnce, Some(json!({"command": "y"})));
        assert_eq!((written.len(), &written[0]["method"]), (1, &json!("turn/start")));
        assert!(written[0]["params"]["input"][0]["text"].as_str().unwrap().contains(r#"{"command":"y"}"#));
        // The answer waits until the agent has accepted the message, and is sent once.
        let mut wire = Vec::new();
        release(&mut state, &json!("obey-steer-7"), &mut wire);
        assert_eq!(wire, b"");
        for _ in 0..2 {
            release(&mut state, &written[0]["id"], &mut wire);
        }
        let answer: Value = serde_json::from_slice(&wire).unwrap();
        assert_eq!(answer["id"], 7);
        assert!(answer["result"].to_string().contains("decline"));
    }
    // A server's form is meant to be filled in.
    let mut state = ready();
    state.remember_request("7", AnswerForm::Form(Default::default()));
    let written = decide(&mut state, Decision::AllowOnce, Some(json!({"name": "Ann"})));
    assert_eq!(written.len(), 1);
    assert_eq!(written[0]["result"], json!({"action": "accept", "content": {"name": "Ann"}}));
}

#[test]
fn models_are_checked_against_what_the_agent_said() {
    let set = |model: &str| {
        let mut state = ready();
        input(&mut state, &CodexSettings::default(), &AgentInput::SetModel(model.into()), &mut Vec::new())
    };
    assert_eq!(set("gpt-5.5"), Ok(()));
    for model in ["gpt-9", "", "--x"] {
        assert!(set(model).is_err(), "{model}");
    }
}

#[test]
fn a_mode_is_told_with_everything_it_means() {
    let mut state = ready();
    let written = written(&mut state, &AgentInput::SetMode(Mode::Plan));
    assert_eq!(
        written[0]["params"],
        json!({
            "threadId": "t1", "approvalPolicy": "on-request", "sandboxPolicy": {"type": "readOnly"},
            "collaborationMode": {"mode": "plan", "settings":
                {"model": "gpt-5.5", "reasoning_effort": null, "developer_instructions": null}},
        })
    );
}

#[test]
fn a_conversation_begins_with_what_the_session_was_created_with() {
    let settings = CodexSettings {
        sandbox: "workspace-write".into(),
        network_access: true,
        add_dirs: vec!["/b".into()],
        reasoning_effort: "low".into(),
        append_system_prompt: "be nice".into(),
        ..CodexSettings::default()
    };
    let begin = |state: &mut Revisioned<CodexState>| -> Value {
        let mut wire = Vec::new();
        begin_thread(state, &settings, &mut wire);
        serde_json::from_slice(&wire).unwrap()
    };
    let mut state = ready();
    state.asked_model = "gpt-5.5".into();
    state.workspace.writable_roots = vec!["/a".into()];
    let started = begin(&mut state);
    let params = &started["params"];
    assert_eq!(started["method"], "thread/start");
    assert_eq!(
        (&params["sandbox"], &params["approvalPolicy"]),
        (&json!("workspace-write"), &json!("on-request"))
    );
    assert_eq!((&params["model"], &params["approvalsReviewer"]), (&json!("gpt-5.5"), &json!("user")));
    assert_eq!(params["developerInstructions"], "be nice");
    let config = &params["config"];
    assert_eq!(config["sandbox_workspace_write.writable_roots"], json!(["/a", "/b"]));
    assert_eq!(config["sandbox_workspace_write.network_access"], true);
    assert_eq!(config["model_reasoning_effort"], "low");
    assert_eq!(config["tools.update_plan.enabled"], true);
    // On a resume the same is sent again; another version does not get what it may not know.
    state.resume = "t0".into();
    state.version = "0.9.0".into();
    let resumed = begin(&mut state);
    assert_eq!((&resumed["method"], &resumed["params"]["threadId"]), (&json!("thread/resume"), &json!("t0")));
    assert_eq!(resumed["params"]["sandbox"], "workspace-write");
    assert_eq!(resumed["params"]["excludeTurns"], true);
    assert!(resumed["params"]["config"].get("tools.update_plan.enabled").is_none());
}

#[test]
fn files_that_cannot_be_sent_are_named() {
    let send = |media_type: &str, content: &str| {
        let file = Attachment { name: "a".into(), media_type: media_type.into(), content: content.into() };
        content_of(&[file])
    };
    fn content_of(files: &[Attachment]) -> Result<Value, Error> {
        super::content("look", &files.iter().collect::<Vec<_>>())
    }
    assert_eq!(send("image/png", "aGVs\nbG8=").unwrap()[0]["url"], "data:image/png;base64,aGVsbG8=");
    assert_eq!(
        send("text/plain", "aGVsbG8=").unwrap()[0]["text"],
        "<attachment name=\"a\">\nhello\n</attachment>"
    );
    assert!(send("application/pdf", "/+8A").unwrap_err().message.contains("text, PNG, JPEG"));
    assert!(send("text/plain", "*").unwrap_err().message.contains("is not base64"));
}
