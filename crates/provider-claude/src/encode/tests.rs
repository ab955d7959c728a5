//! What is written to the agent, line by line.

use agent_port::Revisioned;
use domain::CallId;
use domain::request::{PermissionSubject, QuestionOption};

use super::*;

fn lines(wire: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(wire).unwrap();
    assert!(text.ends_with('\n') || text.is_empty());
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn told(state: &mut Revisioned<ClaudeState>, input: &AgentInput) -> Vec<Value> {
    let mut wire = Vec::new();
    super::input(state, input, &mut wire).unwrap();
    lines(&wire)
}

fn permission() -> RequestSubject {
    RequestSubject::Permission(PermissionSubject {
        call: Some(CallId::new("c1")),
        tool: "Bash".into(),
        input: json!({"command": "ls"}),
        title: String::new(),
        parent: None,
    })
}

fn decide(decision: Decision, updated_input: Option<Value>) -> Vec<Value> {
    let (native, message) = ("r1".to_owned(), "no".to_owned());
    let input = AgentInput::Decide { native, decision, message, updated_input, ask: permission() };
    told(&mut Revisioned::default(), &input).iter().map(|line| line["response"]["response"].clone()).collect()
}

fn attachment(name: &str, media_type: &str, content: &str) -> Attachment {
    Attachment { name: name.into(), media_type: media_type.into(), content: content.into() }
}

#[test]
fn permissions_are_answered() {
    let allowed = json!({"behavior": "allow", "updatedInput": {"command": "ls"}});
    for decision in [Decision::AllowOnce, Decision::AllowSession] {
        assert_eq!(decide(decision, None), std::slice::from_ref(&allowed));
    }
    let updated = json!({"command": "ls -l"});
    assert_eq!(decide(Decision::AllowOnce, Some(updated.clone()))[0]["updatedInput"], updated);
    assert_eq!(decide(Decision::Deny, None), [json!({"behavior": "deny", "message": "no"})]);
    let stopped = json!({"behavior": "deny", "message": "no", "interrupt": true});
    assert_eq!(decide(Decision::DenyAndStop, None), [stopped]);
}

#[test]
fn a_stop_takes_back_what_was_added_to_the_turn() {
    let mut state = Revisioned::<ClaudeState>::default();
    told(&mut state, &AgentInput::Prompt { text: "a".into(), attachments: Vec::new() });
    told(&mut state, &AgentInput::Steer { text: "b".into() });
    let input = AgentInput::Decide {
        native: "r1".into(),
        decision: Decision::DenyAndStop,
        message: String::new(),
        updated_input: None,
        ask: permission(),
    };
    let lines = told(&mut state, &input);
    assert_eq!(lines[0]["response"]["response"]["message"], "The user denied this.");
    assert_eq!(lines[1]["request"], json!({"subtype": "interrupt", "cancel_queued": true}));
}

#[test]
fn questions_are_answered_by_id_or_by_text() {
    let question = |id: &str, text: &str| Question {
        id: id.into(),
        header: "H".into(),
        text: text.into(),
        options: vec![QuestionOption { label: "A".into(), description: String::new() }],
        multi_select: true,
    };
    let ask = RequestSubject::Question {
        questions: vec![question("q1", "One?"), question("q2", "Two?")],
        call: None,
    };
    let answers = [("q1", "A"), ("Two?", "B")].map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let lines = told(&mut Revisioned::default(), &AgentInput::Answer { native: "r1".into(), answers, ask });
    let input = &lines[0]["response"]["response"]["updatedInput"];
    assert_eq!(input["answers"], json!({"One?": "A", "Two?": "B"}));
    assert_eq!(input["questions"][1]["multiSelect"], true);
}

#[test]
fn text_that_looks_like_something_else_stays_text() {
    for text in ["-p", "--resume=x", "@file", "!ls", "a\nb\r\nc", "\u{2028}\u{2029}\0", "{\"type\":\"x\"}"] {
        let mut wire = Vec::new();
        let prompt = AgentInput::Prompt { text: text.into(), attachments: Vec::new() };
        super::input(&mut Revisioned::default(), &prompt, &mut wire).unwrap();
        let written = String::from_utf8(wire.clone()).unwrap();
        assert!(!written.trim_end().contains(['\n', '\r', '\u{2028}', '\u{2029}']), "{text:?}");
        assert_eq!(lines(&wire)[0]["message"]["content"], text);
    }
}

#[test]
fn files_become_blocks() {
    let attachments = vec![
        attachment("a.png", "image/png", "AAAA"),
        attachment("a.pdf", "application/pdf", "AAAA"),
        attachment("a \"b\".txt", "text/plain", "aGVsbG8="),
    ];
    let lines = told(&mut Revisioned::default(), &AgentInput::Prompt { text: "see".into(), attachments });
    let content = lines[0]["message"]["content"].as_array().unwrap();
    let kinds: Vec<&str> = content.iter().map(|block| block["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["image", "document", "text", "text"]);
    assert_eq!(content[2]["text"], "<attachment name=\"a _b_.txt\">\nhello\n</attachment>");
    assert_eq!(content[3]["text"], "see");
}

#[test]
fn files_that_cannot_be_sent_are_named() {
    let refused = |file: Attachment| {
        let prompt = AgentInput::Prompt { text: String::new(), attachments: vec![file] };
        let mut state = Revisioned::<ClaudeState>::default();
        let error = super::input(&mut state, &prompt, &mut Vec::new()).unwrap_err();
        // A prompt that was not sent is not waited for.
        assert_eq!(*state, ClaudeState::default());
        error.message
    };
    assert!(refused(attachment("x", "text/plain", "*")).starts_with("attachments: the content of \"x\""));
    assert!(refused(attachment("x.zip", "application/zip", "/w==")).contains("application/zip"));
}

#[test]
fn requests_say_what_they_are_for() {
    for purpose in ControlRequestKind::ALL {
        assert_eq!(super::purpose(&format!("obey-{}-12", purpose.name())), Some(purpose));
    }
    assert_eq!(super::purpose("obey-other-1"), None);
    assert_eq!(super::purpose("3f1c"), None);
    let mut state = Revisioned::<ClaudeState>::default();
    let line = &told(&mut state, &AgentInput::SetMode(Mode::Autonomous))[0];
    assert_eq!(line["request"], json!({"subtype": "set_permission_mode", "mode": "default"}));
    assert_eq!(super::purpose(line["request_id"].as_str().unwrap()), Some(ControlRequestKind::SetMode));
    assert!(super::input(&mut state, &AgentInput::SetModel("gpt-5".into()), &mut Vec::new()).is_err());
}

#[test]
fn servers_are_told_after_the_greeting() {
    let mut wire = Vec::new();
    let servers = json!({"a": {"command": "x", "args": []}}).as_object().unwrap().clone();
    open(&mut Revisioned::default(), "Be brief.", servers.clone(), &mut wire);
    let lines = lines(&wire);
    assert_eq!(lines[0]["request"]["appendSystemPrompt"], "Be brief.");
    assert_eq!(lines[1]["request"], json!({"subtype": "mcp_set_servers", "servers": servers}));
}
