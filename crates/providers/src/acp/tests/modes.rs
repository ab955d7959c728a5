//! Modes: what is sent to the agent, and what the session takes over from the agent.

use super::*;

impl Talk {
    /// A conversation in one of the session's modes, with an agent that has these modes; the first is the
    /// current one.
    fn in_mode(mode: Mode, names: &[&str]) -> Self {
        let all: Vec<Value> = names.iter().map(|name| json!({"id": name, "name": name})).collect();
        let modes = json!({"currentModeId": names[0], "availableModes": all});
        Self::begun(mode, json!({"sessionId": "s1", "modes": modes}))
    }

    fn begun(mode: Mode, session: Value) -> Self {
        let mut talk = Self::new(AcpState { cwd: "/repo".to_owned(), mode, ..AcpState::default() });
        talk.answer("initialize", json!({"protocolVersion": 1}));
        talk.answer("session/new", session);
        talk
    }

    fn says_mode(&mut self, name: &str) -> Vec<AgentEvent> {
        self.update(json!({"sessionUpdate": "current_mode_update", "currentModeId": name}))
    }
}

#[test]
fn a_session_leaves_plan_mode_with_its_agent() {
    let mut talk = Talk::in_mode(Mode::Plan, &["plan", "default", "acceptEdits", "bypassPermissions"]);
    let events = talk.says_mode("default");
    assert_eq!(events, [AgentEvent::PlanMode(false), AgentEvent::Mode(Mode::Supervised)]);
    talk.tell(AgentInput::Prompt { text: "go".to_owned(), attachments: Vec::new() });
    let write = json!({"path": "/repo/a", "content": "x"});
    let events = talk.request(json!(1), "fs/write_text_file", write);
    assert!(matches!(&events[..], [AgentEvent::Asked { .. }]), "it may be asked for again: {events:?}");
    // It plans on its own for a while; the mode it returns to is the session's.
    assert_eq!(talk.says_mode("plan"), [AgentEvent::PlanMode(true)]);
    assert_eq!(talk.says_mode("default"), [AgentEvent::PlanMode(false)]);
    assert_eq!(talk.says_mode("default"), []);
    // Accepting edits is the session's choice, also when leaving plan mode.
    let warned = |events: &[AgentEvent]| {
        events.iter().any(|event| {
            matches!(event, AgentEvent::Notice { level: domain::event::Level::Warning, message } if message.contains("acceptEdits"))
        })
    };
    let events = talk.says_mode("acceptEdits");
    assert!(warned(&events) && events.len() == 1, "{events:?}");
    let mut talk = Talk::in_mode(Mode::Plan, &["plan", "default", "acceptEdits"]);
    let events = talk.says_mode("acceptEdits");
    assert!(events.contains(&AgentEvent::Mode(Mode::Supervised)) && warned(&events), "{events:?}");
}

#[test]
fn what_an_agent_was_told_before_does_not_undo_what_it_is_told_now() {
    let mut talk = Talk::in_mode(Mode::Supervised, &["default", "acceptEdits", "plan"]);
    talk.tell(AgentInput::SetMode(Mode::AcceptEdits));
    talk.tell(AgentInput::SetMode(Mode::Plan));
    assert_eq!(talk.says_mode("acceptEdits"), []);
    assert_eq!(talk.says_mode("plan"), []);
    assert_eq!(talk.codec.state.mode, Mode::Plan);
}

#[test]
fn no_agent_takes_freedom_by_its_own_word() {
    for name in ["bypassPermissions", "yolo", "full-access", "auto"] {
        let mut talk = Talk::in_mode(Mode::Supervised, &["default", "acceptEdits", "plan", name]);
        let events = talk.says_mode(name);
        assert!(!events.iter().any(|event| matches!(event, AgentEvent::Mode(_))), "{name}: {events:?}");
        assert_eq!(talk.codec.state.mode, Mode::Supervised);
    }
    // An autonomous session lets the agent ask and answers itself.
    let mut talk = Talk::in_mode(Mode::Autonomous, &["plan", "default"]);
    assert!(!talk.says_mode("default").iter().any(|event| matches!(event, AgentEvent::Mode(_))));
    assert_eq!(talk.codec.state.mode, Mode::Autonomous);
    // It does not make a planning session change things either.
    let mut talk = Talk::in_mode(Mode::Plan, &["plan", "default", "bypassPermissions"]);
    let events = talk.says_mode("bypassPermissions");
    assert!(!events.iter().any(|event| matches!(event, AgentEvent::Mode(_))), "{events:?}");
}

#[test]
fn a_mode_that_is_told_as_an_option_is_a_mode() {
    let option = |current: &str| {
        json!([{"id": "mode", "name": "Mode", "category": "mode", "type": "select", "currentValue": current,
            "options": [{"value": "build", "name": "build"}, {"value": "plan", "name": "plan"}]}])
    };
    let mut talk = Talk::begun(Mode::Plan, json!({"sessionId": "s1", "configOptions": option("plan")}));
    let update =
        |current: &str| json!({"sessionUpdate": "config_option_update", "configOptions": option(current)});
    assert_eq!(
        talk.update(update("build")),
        [AgentEvent::PlanMode(false), AgentEvent::Mode(Mode::Supervised)]
    );
    assert_eq!(talk.update(update("build")), []);
    assert_eq!(talk.codec.state.modes.current, "build");
}

#[test]
fn edits_are_accepted_by_us_where_the_agent_has_no_word_for_it() {
    let mut talk = Talk::in_mode(Mode::Plan, &["plan", "build"]);
    talk.tell(AgentInput::SetMode(Mode::AcceptEdits));
    assert_eq!(talk.sent("session/set_mode")["params"]["modeId"], "build");
    // What the agent then reports is what it was sent, and no other mode of the session.
    assert_eq!(talk.says_mode("build"), []);
    assert_eq!(talk.codec.state.mode, Mode::AcceptEdits);
}
