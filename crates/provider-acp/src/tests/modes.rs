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

/// Begins what the agent wants done, and ends it at once.
fn do_client_requests(talk: &mut Talk) -> Vec<AgentEvent> {
    let mut out = Decoded::default();
    for wanted in talk.codec.take_client_requests() {
        talk.codec.client_request_done(&wanted.id, Ok(Value::Null), &mut out);
    }
    out.events
}

const LEFT: [AgentEvent; 2] = [AgentEvent::PlanMode(false), AgentEvent::Mode(Mode::Supervised)];

#[test]
fn an_agent_leaves_plan_mode_only_when_a_person_says_so() {
    let mut talk = Talk::in_mode(Mode::Plan, &["plan", "default", "acceptEdits", "bypassPermissions"]);
    talk.tell(AgentInput::Prompt { text: "go".to_owned(), attachments: Vec::new() });
    let asked = talk.says_mode("default");
    let [AgentEvent::Asked { native, ask: RequestSubject::Permission(ask) }] = &asked[..] else {
        panic!("a person is asked: {asked:?}")
    };
    assert_eq!((native.as_str(), ask.tool.as_str()), ("leave-plan", "ExitPlanMode"));
    let write = json!({"path": "/repo/a", "content": "x"});
    talk.request(json!(1), "fs/write_text_file", write.clone());
    assert!(talk.answered(&json!(1)).get("error").is_some(), "nothing is written before the answer");
    // Saying it again asks nobody again; planning again withdraws the request.
    assert_eq!(talk.says_mode("default"), []);
    assert_eq!(talk.says_mode("plan"), [AgentEvent::Withdrew { native: "leave-plan".to_owned() }]);
    let asked = talk.says_mode("default");
    talk.decide(&asked[0], Decision::Deny, "not yet");
    assert_eq!(talk.sent("session/set_mode")["params"]["modeId"], "plan", "the agent is sent back");
    assert_eq!((talk.codec.state.mode, do_client_requests(&mut talk)), (Mode::Plan, Vec::new()));

    let mut talk = Talk::in_mode(Mode::Plan, &["plan", "default", "acceptEdits"]);
    talk.tell(AgentInput::Prompt { text: "go".to_owned(), attachments: Vec::new() });
    let asked = talk.says_mode("default");
    talk.decide(&asked[0], Decision::AllowOnce, "");
    assert_eq!(do_client_requests(&mut talk), LEFT);
    let events = talk.request(json!(2), "fs/write_text_file", write);
    assert!(matches!(&events[..], [AgentEvent::Asked { .. }]), "it may be asked for again: {events:?}");
    // It plans on its own for a while; the mode it returns to is the session's.
    assert_eq!(talk.says_mode("plan"), [AgentEvent::PlanMode(true)]);
    assert_eq!(talk.says_mode("default"), [AgentEvent::PlanMode(false)]);
    assert_eq!(talk.says_mode("default"), []);
    // Accepting edits is the session's choice.
    let events = talk.says_mode("acceptEdits");
    let is_warning = matches!(&events[..],
        [AgentEvent::Notice { level: domain::event::Level::Warning, message }] if message.contains("acceptEdits"));
    assert!(is_warning, "{events:?}");
}

#[test]
fn an_agent_without_modes_cannot_talk_itself_out_of_plan_mode() {
    let mut talk = Talk::begun(Mode::Plan, json!({"sessionId": "s1"}));
    assert_eq!(talk.says_mode("plan"), [AgentEvent::PlanMode(true)]);
    let asked = talk.says_mode("default");
    assert!(matches!(&asked[..], [AgentEvent::Asked { .. }]), "{asked:?}");
    assert_eq!(talk.codec.state.mode, Mode::Plan);
    // A saved codec still knows what it asked.
    talk.codec.state = serde_json::from_str::<AcpState>(&talk.codec.save()).unwrap().into();
    talk.decide(&asked[0], Decision::AllowOnce, "");
    assert_eq!(do_client_requests(&mut talk), LEFT);
}

#[test]
fn a_plan_that_a_person_approved_is_left_without_a_second_request() {
    let mut talk = Talk::in_mode(Mode::Plan, &["plan", "default"]);
    talk.tell(AgentInput::Prompt { text: "go".to_owned(), attachments: Vec::new() });
    let options = json!([{"optionId": "default", "name": "Yes", "kind": "allow_once"},
        {"optionId": "plan", "name": "No", "kind": "reject_once"}]);
    let call = json!({"toolCallId": "c1", "kind": "switch_mode", "title": "Ready to code?"});
    let ask = json!({"sessionId": "s1", "toolCall": call, "options": options});
    for (decision, expected) in [(Decision::Deny, None), (Decision::AllowOnce, Some(LEFT))] {
        let events = talk.request(json!(7), "session/request_permission", ask.clone());
        talk.decide(events.last().unwrap(), decision, "");
        match expected {
            Some(left) => assert_eq!(talk.says_mode("default"), left),
            None => assert!(!talk.codec.state.may_leave_plan),
        }
    }
    assert!(!talk.codec.state.may_leave_plan, "once");
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
    let events = talk.update(update("build"));
    assert!(matches!(&events[..], [AgentEvent::Asked { .. }]), "{events:?}");
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
