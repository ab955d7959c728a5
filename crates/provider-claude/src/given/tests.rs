//! Which lines an earlier conversation becomes.

use domain::turn::{EndReason, TurnOrigin};
use domain::{SessionId, TurnId};

use super::*;

const NAME: &str = "01930000-0000-8000-8000-000000000001";

fn events(kinds: Vec<EventKind>) -> Vec<Arc<Event>> {
    let event = |(seq, kind): (u64, EventKind)| {
        let session = SessionId::new("sess_01JC0000000000000000000001");
        Arc::new(Event { session, seq, at: Timestamp(1_500_000), kind })
    };
    (1..).zip(kinds).map(event).collect()
}

fn began(prompt: &str, attachments: Vec<Attachment>) -> EventKind {
    let (turn, origin) = (TurnId(1), TurnOrigin::Client);
    EventKind::TurnStarted { turn, origin, prompt: prompt.to_owned(), attachments, by: String::new() }
}

fn text(text: &str) -> EventKind {
    EventKind::TextDelta { text: text.to_owned(), parent: None }
}

fn called(call: &str, tool: &str) -> EventKind {
    EventKind::ToolStarted {
        call: CallId::new(call),
        tool: tool.to_owned(),
        input: json!({"where": "left"}),
        title: String::new(),
        parent: None,
    }
}

fn returned(call: &str, ok: bool, output: &str) -> EventKind {
    let (call, output) = (CallId::new(call), output.to_owned());
    EventKind::ToolFinished { call, tool: String::new(), ok, output }
}

fn ended() -> EventKind {
    let (turn, reason) = (TurnId(1), EndReason::Completed);
    EventKind::TurnEnded { turn, reason, text: String::new(), error: String::new() }
}

fn written(kinds: Vec<EventKind>) -> Vec<Value> {
    let conversation = Conversation { name: NAME, folder: Path::new("/repo") };
    let text = lines(&conversation, &events(kinds));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn said(lines: &[Value]) -> Vec<(&str, &Value)> {
    let messages = lines.iter().map(|line| &line["message"]);
    messages.map(|message| (message["role"].as_str().unwrap(), &message["content"])).collect()
}

#[test]
fn turns_become_a_chain_of_messages() {
    let dot = Attachment {
        name: "dot".to_owned(),
        media_type: "image/png".to_owned(),
        content: "aGVsbG8=".to_owned(),
    };
    let lines = written(vec![
        began("look", vec![dot]),
        text("I "),
        text("look"),
        called("c1", "camera"),
        returned("c1", true, "a door"),
        text("a door"),
        ended(),
    ]);
    let expected = [
        (
            "user",
            json!([
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}},
                {"type": "text", "text": "look"},
            ]),
        ),
        (
            "assistant",
            json!([
                {"type": "text", "text": "I look"},
                {"type": "tool_use", "id": "c1", "name": "camera", "input": {"where": "left"}},
            ]),
        ),
        (
            "user",
            json!([
                {"type": "tool_result", "tool_use_id": "c1", "is_error": false, "content": "a door"},
            ]),
        ),
        ("assistant", json!([{"type": "text", "text": "a door"}])),
    ];
    let expected: Vec<(&str, &Value)> = expected.iter().map(|(role, content)| (*role, content)).collect();
    assert_eq!(said(&lines), expected);
    assert_eq!(lines[0]["parentUuid"], Value::Null);
    for pair in lines.windows(2) {
        assert_eq!(pair[1]["parentUuid"], pair[0]["uuid"]);
    }
    let first = &lines[0];
    assert_eq!(
        (&first["sessionId"], &first["cwd"], &first["type"]),
        (&json!(NAME), &json!("/repo"), &json!("user"))
    );
    assert_eq!(first["timestamp"], "1970-01-01T00:00:01.500Z");
}

/// Results stand directly behind the reply with their calls; ids and names are those that the model's interface takes.
#[test]
fn what_a_model_would_refuse_is_put_in_order() {
    let lines = written(vec![
        began("", vec![]),
        text("  "),
        called("a/1", "read file"),
        called("a/1", "list"),
        text("meanwhile"),
        returned("a/1", false, "gone"),
        text("and"),
        returned("a/1", true, "late"),
        ended(),
    ]);
    let roles: Vec<&str> = said(&lines).iter().map(|(role, _)| *role).collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant"]);
    let reply = &lines[1]["message"]["content"];
    assert_eq!((&reply[0]["id"], &reply[0]["name"]), (&json!("a_1"), &json!("read_file")));
    assert_eq!((&reply[1]["id"], &reply[2]["text"]), (&json!("a_1_1"), &json!("meanwhile")));
    let results = lines[2]["message"]["content"].as_array().unwrap();
    let ids: Vec<&Value> = results.iter().map(|result| &result["tool_use_id"]).collect();
    assert_eq!(ids, [&reply[0]["id"], &reply[1]["id"]]);
    assert_eq!(lines[3]["message"]["content"], json!([{"type": "text", "text": "and"}]));
}

#[test]
fn the_file_is_private_and_replaces_what_a_killed_daemon_left() {
    use std::os::unix::fs::MetadataExt as _;
    let root = tempfile::tempdir().unwrap();
    let projects = root.path().join("projects");
    let folder = projects.join("-home-anna-a-b");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(format!("{NAME}.new")), "half").unwrap();
    let conversation = Conversation { name: NAME, folder: Path::new("/home/anna/a b") };
    write(&projects, &conversation, &events(vec![began("hello", vec![])])).unwrap();
    let file = folder.join(format!("{NAME}.jsonl"));
    assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
    assert!(std::fs::read_to_string(&file).unwrap().contains("hello"));
    assert_eq!(folder.read_dir().unwrap().count(), 1);
    // A folder that leads elsewhere is not followed.
    std::fs::remove_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink(root.path(), &folder).unwrap();
    assert!(write(&projects, &conversation, &events(vec![began("hello", vec![])])).is_err());
}

/// The names are those that the agent gave its own folders.
#[test]
fn the_folder_of_a_project_has_the_name_that_the_agent_gives_it() {
    let name = |path: &str| folder_name(Path::new(path));
    assert_eq!(name("/home/me/a.b_c"), "-home-me-a-b-c");
    assert_eq!(name("/p/\u{1f980}é/x"), "-p-----x");
    let long = format!("/work/{}", "project/".repeat(30));
    assert_eq!(&name(&long)[195..], "ct-pr-fguxtv");
    let letters = format!("/work/{}", "é1".repeat(120));
    assert_eq!(&name(&letters)[195..], "1-1-1-8wwisv");
}
