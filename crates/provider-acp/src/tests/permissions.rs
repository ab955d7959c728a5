//! What a permission covers: this kind of action, on this file or with this command, once; and what rules
//! see.

use domain::permission::pattern::{CallPattern, PatternCall};

use super::*;

const OPTIONS: &str =
    r#"[{"kind": "allow_once", "optionId": "yes"}, {"kind": "reject_once", "optionId": "no"}]"#;

impl Talk {
    /// Asks for permission as an agent does; returns what the session is asked.
    fn asks(&mut self, id: i64, call: Value) -> AgentEvent {
        let options: Value = serde_json::from_str(OPTIONS).unwrap();
        let params = json!({"sessionId": "s1", "toolCall": call, "options": options});
        self.request(json!(id), "session/request_permission", params).pop().unwrap()
    }

    fn allow(&mut self, id: i64, call: Value) {
        let asked = self.asks(id, call);
        self.decide(&asked, Decision::AllowOnce, "");
    }

    fn writes(&mut self, id: i64, path: &str) -> Vec<AgentEvent> {
        self.request(json!(id), "fs/write_text_file", json!({"path": path, "content": "x"}))
    }

    /// Returns the client requests that were not started yet.
    fn doing(&mut self) -> Vec<String> {
        let errands = self.codec.take_client_requests().into_iter();
        errands.map(|errand| errand.what["do"].as_str().unwrap().to_owned()).collect()
    }
}

fn asked(event: &AgentEvent) -> (&str, &Value) {
    let (AgentEvent::Asked { ask: RequestSubject::Permission(ask), .. } | AgentEvent::Checks { ask, .. }) =
        event
    else {
        panic!("{event:?}")
    };
    (&ask.tool, &ask.input)
}

/// Returns whether a rule allows the request, and whether it denies it.
fn judged(event: &AgentEvent, rule: &str) -> (bool, bool) {
    let (tool, input) = asked(event);
    let folder = Path::new("/repo");
    let paths = domain::permission::pattern::paths_of(tool, input, folder);
    let call = PatternCall { tool, input, working_dir: folder, real_paths: Some(&paths) };
    let pattern = CallPattern::parse("rule", rule).unwrap();
    (pattern.surely_covers(&call), pattern.may_cover(&call))
}

#[test]
fn a_permission_to_read_is_none_to_write() {
    let mut talk = Talk::at_work();
    talk.allow(
        1,
        json!({"toolCallId": "c1", "kind": "read", "title": "Read a", "rawInput": {"path": "/repo/a"}}),
    );
    let events = talk.writes(2, "/repo/a");
    assert!(talk.doing().is_empty());
    assert_eq!(asked(&events[0]).0, "Write");
}

#[test]
fn a_permission_to_edit_is_for_that_file_and_for_once() {
    let edit = json!({"toolCallId": "c1", "kind": "edit", "title": "Edit", "content": [
        {"type": "diff", "path": "/repo/a", "newText": "x"}, {"type": "diff", "path": "/repo/b", "newText": "y"}]});
    let mut talk = Talk::at_work();
    talk.allow(1, edit.clone());
    assert!(talk.writes(2, "/repo/a").is_empty());
    assert!(talk.writes(3, "/repo/./b").is_empty());
    assert_eq!(talk.doing(), ["write", "write"]);
    assert_eq!(talk.writes(4, "/repo/a").len(), 1, "the second time is asked about");
    assert_eq!(talk.writes(5, "/repo/c").len(), 1);
    assert!(talk.doing().is_empty());
    // Deleting a file is not writing it.
    let mut talk = Talk::at_work();
    talk.allow(
        1,
        json!({"toolCallId": "c1", "kind": "delete", "title": "rm", "locations": [{"path": "/repo/a"}]}),
    );
    assert_eq!(talk.writes(2, "/repo/a").len(), 1);
    // The permission ends with its call.
    let mut talk = Talk::at_work();
    talk.allow(1, edit);
    talk.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed"}));
    assert_eq!(talk.writes(2, "/repo/a").len(), 1);
}

#[test]
fn plan_mode_is_heeded_before_what_was_allowed() {
    let mut talk = Talk::at_work();
    talk.allow(
        1,
        json!({"toolCallId": "c1", "kind": "edit", "title": "Edit", "locations": [{"path": "/repo/a"}]}),
    );
    talk.tell(AgentInput::SetMode(Mode::Plan));
    assert!(matches!(talk.writes(2, "/repo/a")[..], [AgentEvent::Notice { .. }]));
    assert!(talk.doing().is_empty());
    assert!(talk.answered(&json!(2))["error"]["message"].as_str().unwrap().contains("plan mode"));
}

#[test]
fn a_permission_for_a_command_is_for_its_folder_and_without_variables() {
    let run = json!({"toolCallId": "c1", "kind": "other", "title": "shell", "rawInput": {"command": "make"}});
    for (more, free) in [
        (json!({}), true),
        (json!({"cwd": "/repo"}), true),
        (json!({"cwd": "/repo/sub"}), false),
        (json!({"env": [{"name": "PATH", "value": "/tmp/x"}]}), false),
    ] {
        let mut talk = Talk::at_work();
        talk.allow(1, run.clone());
        let mut params = json!({"command": "make"});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(talk.request(json!(2), "terminal/create", params.clone()).is_empty(), free, "{more}");
        assert_eq!(talk.doing().len(), usize::from(free), "{more}");
        assert_eq!(talk.request(json!(3), "terminal/create", params).len(), 1, "{more}");
    }
    // The same text is a command for one tool and a file for another.
    let mut talk = Talk::at_work();
    talk.allow(
        1,
        json!({"toolCallId": "c1", "kind": "execute", "title": "x", "rawInput": {"command": "/repo/a"}}),
    );
    assert_eq!(talk.writes(2, "/repo/a").len(), 1);
}

#[test]
fn a_command_is_asked_about_with_its_folder_and_variables() {
    let mut talk = Talk::at_work();
    let params =
        json!({"command": "git status", "cwd": "/repo/sub", "env": [{"name": "PATH", "value": "/tmp/a b"}]});
    let events = talk.request(json!(1), "terminal/create", params);
    let (tool, input) = asked(&events[0]);
    assert_eq!(
        (tool, &input["cwd"], &input["env"]),
        ("Bash", &json!("/repo/sub"), &json!({"PATH": "/tmp/a b"}))
    );
    // A rule for the command does not allow what another PATH makes of it, and a rule against it holds.
    assert_eq!(judged(&events[0], "Bash(git *)"), (false, true));
    talk.decide(&events[0], Decision::AllowOnce, "");
    assert_eq!(talk.codec.take_client_requests()[0].what["command"], "git status");
    let events = talk.request(json!(2), "terminal/create", json!({"command": "git status"}));
    assert_eq!(judged(&events[0], "Bash(git *)"), (true, true));
}

#[test]
fn a_tool_with_a_command_keeps_its_own_name() {
    for call in [
        json!({"title": "mcp__deploy__run"}),
        json!({"title": "mcp__deploy__run", "kind": "execute"}),
        json!({"title": "Run", "name": "mcp__deploy__run"}),
        json!({"title": "Run", "_meta": {"claudeCode": {"toolName": "mcp__deploy__run"}}}),
        json!({"title": "Tool: deploy/run", "server": "deploy", "tool": "run"}),
    ] {
        let mut talk = Talk::at_work();
        let mut call = call;
        call["toolCallId"] = json!("c1");
        call["rawInput"] = json!({"command": "git push", "server": call["server"], "tool": call["tool"]});
        let ask = talk.asks(1, call.clone());
        assert_eq!(asked(&ask).0, "mcp__deploy__run", "{call}");
        assert_eq!(judged(&ask, "Bash(git *)"), (false, true), "{call}");
        assert_eq!(judged(&ask, "mcp__deploy__run"), (true, true), "{call}");
        // And the permission does not cover a command of its own.
        talk.decide(&ask, Decision::AllowOnce, "");
        assert_eq!(
            talk.request(json!(2), "terminal/create", json!({"command": "git push"})).len(),
            1,
            "{call}"
        );
    }
    for call in [
        json!({"title": "shell"}),
        json!({"title": "x", "name": "run_shell_command"}),
        json!({"title": "x", "_meta": {"goose": {"toolCall": {"toolName": "developer__shell"}}}}),
        json!({"title": "git push", "kind": "execute"}),
    ] {
        let mut talk = Talk::at_work();
        let mut call = call;
        call["toolCallId"] = json!("c1");
        call["rawInput"] = json!({"command": "git push"});
        let ask = talk.asks(1, call.clone());
        assert_eq!(asked(&ask).0, "Bash", "{call}");
    }
    // opencode asks about a folder in the form of the command, which it has reported before.
    let mut talk = Talk::at_work();
    talk.update(json!({"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "bash", "kind": "execute", "rawInput": {}}));
    let ask = talk.asks(
        1,
        json!({"toolCallId": "c1", "title": "touch /x/y", "kind": "other",
        "locations": [{"path": "/x"}], "rawInput": {"command": "touch /x/y", "directories": ["/x"]}}),
    );
    assert_eq!(asked(&ask), ("Bash", &json!({"command": "touch /x/y", "directories": ["/x"]})));
}

#[test]
fn rules_see_every_file_of_a_call() {
    let diff = |path: &str| json!({"type": "diff", "path": path, "newText": "x"});
    for call in [
        json!({"content": [diff("/repo/src/a"), diff("/repo/.env")]}),
        json!({"content": [diff("/repo/src/a")], "locations": [{"path": "/repo/src/a"}, {"path": "/repo/.env"}]}),
        json!({"rawInput": {"changes": {"/repo/src/a": {"add": {}}, "/repo/.env": {"add": {}}}}}),
        json!({"rawInput": {"changes": {"/repo/src/a": {"update": {"move_path": "/repo/.env"}}}}}),
        json!({"rawInput": {"changes": [{"path": "/repo/src/a"}, {"path": ".env"}]}}),
        json!({"content": [diff("/repo/.env")], "rawInput": {"changes": {"/repo/src/a": {}}}}),
    ] {
        let mut talk = Talk::at_work();
        let mut call = call;
        (call["toolCallId"], call["kind"], call["title"]) = (json!("c1"), json!("edit"), json!("Edit"));
        let ask = talk.asks(1, call.clone());
        assert!(!judged(&ask, "Edit(src/**)").0, "{call}");
        assert!(judged(&ask, "Edit(**/.env)").1, "{call}");
        assert!(judged(&ask, "Edit(src/**)").1, "{call}");
    }
    // One file in several spellings is one file.
    let mut talk = Talk::at_work();
    let ask = talk.asks(
        1,
        json!({"toolCallId": "c1", "kind": "edit", "title": "Edit", "content": [diff("/repo/src/a")],
        "rawInput": {"path": "src/a"}, "locations": [{"path": "/repo/./src/a"}]}),
    );
    assert_eq!(judged(&ask, "Edit(src/**)"), (true, true));
}

#[test]
fn rules_are_heard_before_a_file_is_served() {
    let mut talk = Talk::at_work();
    let events = talk.request(json!(1), "fs/read_text_file", json!({"path": "/repo/.env"}));
    assert!(talk.doing().is_empty(), "it waits for what the rules say");
    assert!(matches!(&events[..], [AgentEvent::Checks { .. }]), "{events:?}");
    assert_eq!(judged(&events[0], "Read(**/.env)"), (true, true));
    talk.decide(&events[0], Decision::Deny, "denied by a rule");
    assert_eq!(talk.answered(&json!(1))["error"]["message"], "denied by a rule");
    assert!(talk.doing().is_empty());

    talk.tell(AgentInput::SetMode(Mode::AcceptEdits));
    let events = talk.writes(2, "/repo/.env");
    assert!(talk.doing().is_empty());
    assert!(matches!(&events[..], [AgentEvent::Checks { .. }]), "{events:?}");
    assert_eq!(judged(&events[0], "Edit(**/.env)"), (false, true));
    // A daemon that restarts in between behaves the same.
    let state: AcpState = serde_json::from_str(&talk.codec.save()).unwrap();
    talk.codec = AcpCodec { state: state.into(), settings: AcpSettings::default(), begun: Vec::new() };
    talk.decide(&events[0], Decision::AllowOnce, "");
    assert_eq!(talk.doing(), ["write"]);
}

#[test]
fn nothing_waits_beyond_its_turn() {
    let mut talk = Talk::at_work();
    talk.request(json!(1), "fs/read_text_file", json!({"path": "/repo/a"}));
    talk.request(json!(2), "terminal/create", json!({"command": "make"}));
    talk.answer("session/prompt", json!({"stopReason": "end_turn"}));
    for id in [1, 2] {
        let said = talk.answered(&json!(id));
        assert!(said["error"]["message"].as_str().unwrap().contains("the turn"), "{said}");
    }
}
