//! What agents omit, write in their own way or send out of order is accepted all the same: it costs the
//! field, never the line.

use domain::CallId;

use super::*;

const ASK: &str = "session/request_permission";

/// Returns the permission that is asked for.
fn asked(events: &[AgentEvent]) -> &AgentEvent {
    let found = events.iter().find(|event| matches!(event, AgentEvent::Asked { .. }));
    found.unwrap_or_else(|| panic!("nobody is asked: {events:?}"))
}

/// Returns what an agent that asks like this gets, when it is allowed and when it is denied.
fn outcomes(params: &Value) -> [Value; 2] {
    [Decision::AllowOnce, Decision::Deny].map(|decision| {
        let mut talk = Talk::at_work();
        let events = talk.request(json!("r-1"), ASK, params.clone());
        talk.decide(asked(&events), decision, "");
        talk.answered(&json!("r-1"))["result"]["outcome"].clone()
    })
}

fn selected(option: &str) -> Value {
    json!({"outcome": "selected", "optionId": option})
}

#[test]
fn a_permission_without_its_call_is_asked_for_and_answered() {
    let options = json!([{"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"}]);
    for call in [json!(null), json!(7), json!("ls"), json!([]), json!({}), json!({"title": null})] {
        let params = json!({"sessionId": "s1", "toolCall": call, "options": options});
        assert_eq!(outcomes(&params), [selected("yes"), selected("no")], "{params}");
    }
    let params = json!({"options": options});
    assert_eq!(outcomes(&params), [selected("yes"), selected("no")]);
    let mut talk = Talk::at_work();
    let events = talk.request(json!(1), ASK, params);
    let [AgentEvent::Asked { ask: RequestSubject::Permission(permission), .. }] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert_eq!((&permission.call, permission.tool.as_str()), (&None, "Tool"));
    // What it does report is passed on.
    let call = json!({"title": "Wipe the disk", "kind": "execute", "rawInput": {"command": "wipe"}});
    let events = talk.request(json!(2), ASK, json!({"toolCall": call, "options": options}));
    let [AgentEvent::Asked { ask: RequestSubject::Permission(permission), .. }] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert_eq!((permission.title.as_str(), &permission.input["command"]), ("Wipe the disk", &json!("wipe")));
    let events = talk.request(json!(3), ASK, json!({"toolCall": {"toolCallId": "c1"}, "options": options}));
    assert!(matches!(&events[0], AgentEvent::ToolStarted { call, .. } if *call == CallId::new("c1")));
    talk.decide(asked(&events), Decision::AllowOnce, "");
    assert_eq!(talk.answered(&json!(3))["result"]["outcome"], selected("yes"));
}

#[test]
fn a_permission_that_says_nothing_at_all_is_asked_for_and_answered() {
    for params in [json!(null), json!([]), json!("please"), json!({}), json!({"options": null})] {
        let cancelled = json!({"outcome": "cancelled"});
        assert_eq!(outcomes(&params), [cancelled.clone(), cancelled], "{params}");
    }
}

#[test]
fn options_without_a_kind_are_chosen_by_their_words() {
    let with = |options: Value| outcomes(&json!({"toolCall": {"toolCallId": "c1"}, "options": options}));
    // In the form of the types, with everything omitted that can be.
    let kinds = json!([{"optionId": "1", "kind": "allow_once"}, {"optionId": "2", "kind": "reject_once"}]);
    assert_eq!(with(kinds), [selected("1"), selected("2")]);
    for (yes, no) in [("allow", "reject"), ("allow_once", "reject_once"), ("Approve", "Deny"), ("yes", "no")]
    {
        let options = json!([{"optionId": no, "name": null}, {"optionId": yes, "kind": null}]);
        assert_eq!(with(options), [selected(yes), selected(no)], "{yes} {no}");
    }
    let named = json!([{"optionId": "a", "name": "Yes, once"}, {"optionId": "b", "name": "No, tell it why"}]);
    assert_eq!(with(named), [selected("a"), selected("b")]);
    let kinds = json!([{"optionId": "a", "kind": "allow"}, {"optionId": "b", "kind": "reject_forever"}]);
    assert_eq!(with(kinds), [selected("a"), selected("b")]);
    let broken = json!([null, 7, "allow_once", {"optionId": "a", "kind": "allow_once"}, {}]);
    assert_eq!(with(broken), [selected("a"), json!({"outcome": "cancelled"})]);
}

#[test]
fn an_option_that_may_allow_more_than_once_is_not_chosen_unless_it_is_known() {
    let cancelled = json!({"outcome": "cancelled"});
    for option in [
        json!({"optionId": "a", "name": "Allow", "kind": "allow_session"}),
        json!({"optionId": "allow_once", "name": "Allow", "kind": "allow_twice"}),
        json!({"optionId": "a", "name": "Allow", "kind": "escalate"}),
        json!({"optionId": "allow_always"}),
        json!({"optionId": "approved-for-session", "name": "Yes"}),
        json!({"optionId": "always", "name": "Yes"}),
        json!({"optionId": "a", "name": "Yes, and don't ask again"}),
        json!({"optionId": "a", "name": "Allow everything"}),
        json!({"optionId": "a", "name": "Surprise me"}),
    ] {
        let params = json!({"toolCall": {"toolCallId": "c1"}, "options": [option]});
        assert_eq!(outcomes(&params), [cancelled.clone(), cancelled.clone()], "{option}");
    }
}

#[test]
fn a_permission_that_an_earlier_build_remembered_is_answered() {
    let saved = |options: Value| {
        json!({"session": "s1", "is_ready": true, "turn": {"prompt": 3}, "asks": {"7": {"id": 7, "call": "c1",
            "what": {"options": {"options": options, "about": ["ls"]}}}}})
        .to_string()
    };
    for (options, chosen) in [
        (
            json!([["allow_twice", "a"], ["allow_once", "b"], ["reject_once", "c"]]),
            [selected("b"), selected("c")],
        ),
        (json!([["", "allow"], ["", "reject"]]), [selected("allow"), selected("reject")]),
        (json!([["allow_twice", "a"]]), [json!({"outcome": "cancelled"}), json!({"outcome": "cancelled"})]),
        (json!([]), [json!({"outcome": "cancelled"}), json!({"outcome": "cancelled"})]),
    ] {
        let answers = [Decision::AllowOnce, Decision::Deny].map(|decision| {
            let state = serde_json::from_str(&saved(options.clone())).unwrap();
            let mut talk = Talk::new(state);
            let ask = RequestSubject::Permission(domain::request::PermissionSubject {
                call: Some(CallId::new("c1")),
                tool: "Bash".to_owned(),
                input: json!({}),
                title: "ls".to_owned(),
                parent: None,
            });
            talk.decide(&AgentEvent::Asked { native: "7".to_owned(), ask }, decision, "");
            talk.answered(&json!(7))["result"]["outcome"].clone()
        });
        assert_eq!(answers, chosen, "{options}");
    }
    // What this version stores is what it reads.
    let mut talk = Talk::at_work();
    let options =
        json!([{"optionId": "a", "kind": "allow_always"}, {"optionId": "b", "kind": "reject_once"}]);
    talk.request(json!(1), ASK, json!({"options": options}));
    let again: AcpState = serde_json::from_str(&talk.codec.save()).unwrap();
    assert_eq!(again, *talk.codec.state);
}

#[test]
fn numbers_where_texts_belong_are_taken_by_their_digits() {
    let mut talk = Talk::at_work();
    let call = json!({"sessionUpdate": "tool_call", "toolCallId": 7, "title": 3, "kind": "read"});
    let events = talk.update(call);
    assert!(
        matches!(&events[0], AgentEvent::ToolStarted { call, title, .. } if call.as_str() == "7" && title == "3"),
        "{events:?}"
    );
    let said = json!([{"type": "content", "content": {"type": "text", "text": 42}}]);
    let done =
        json!({"sessionUpdate": "tool_call_update", "toolCallId": 7, "status": "completed", "content": said});
    let finished = AgentEvent::ToolFinished { call: CallId::new("7"), ok: true, output: "42".to_owned() };
    assert_eq!(talk.update(done), [finished]);
    let create = json!({"command": "sleep", "args": [1, null, "x"], "env": [{"name": "K", "value": 8080}, null],
        "cwd": 7, "outputByteLimit": "many"});
    let events = talk.request(json!(1), "terminal/create", create);
    talk.decide(asked(&events), Decision::AllowOnce, "");
    let what = talk.codec.take_client_requests().remove(0).what;
    assert_eq!((&what["command"], &what["env"][0]["value"]), (&json!("sleep 1 x"), &json!("8080")));
    assert_eq!((&what["cwd"], &what["limit"]), (&Value::Null, &Value::Null));
}

#[test]
fn a_list_loses_the_entry_that_cannot_be_read_and_no_other() {
    let mut talk = Talk::at_work();
    let entries =
        json!([null, 7, "look", {"content": "leap"}, {"content": "land", "priority": 1, "status": null}]);
    let events = talk.update(json!({"sessionUpdate": "plan", "entries": entries}));
    let [AgentEvent::Todos(todos)] = events.as_slice() else { panic!("{events:?}") };
    let shown: Vec<(&str, TodoStatus)> = todos.iter().map(|todo| (todo.text.as_str(), todo.status)).collect();
    assert_eq!(shown, [("leap", TodoStatus::Pending), ("land", TodoStatus::Pending)]);
    let commands = json!([[], {"name": "compact", "input": 7}, {"name": "help", "description": null}]);
    let events =
        talk.update(json!({"sessionUpdate": "available_commands_update", "availableCommands": commands}));
    let [AgentEvent::Commands(commands)] = events.as_slice() else { panic!("{events:?}") };
    let names: Vec<&str> = commands.iter().map(|command| command.name.as_str()).collect();
    assert_eq!(names, ["compact", "help"]);
    let modes =
        json!({"currentModeId": "a", "availableModes": [7, {"id": "a"}, {"name": "no id"}, {"id": "b"}]});
    let models = json!({"currentModelId": 1, "availableModels": [null, {"modelId": "m"}, {"name": "no id"}]});
    let mut talk = Talk::new(AcpState::default());
    talk.answer("initialize", json!({"protocolVersion": 1}));
    talk.answer("session/new", json!({"sessionId": "s1", "modes": modes, "models": models}));
    assert_eq!(talk.codec.state.modes.names, ["a", "b"]);
    assert_eq!(talk.codec.state.models.names, ["m"]);
}

#[test]
fn an_answer_to_a_prompt_ends_the_turn_whatever_it_says() {
    for result in [
        json!(null),
        json!([]),
        json!({}),
        json!({"stopReason": null}),
        json!({"stopReason": 7, "usage": null}),
        json!({"stopReason": "tired", "usage": "much", "_meta": 7}),
        json!({"stopReason": "end_turn", "usage": {}, "userMessageId": null, "_meta": null}),
    ] {
        let mut talk = Talk::at_work();
        let events = talk.answer("session/prompt", result.clone());
        let [AgentEvent::TurnEnded { reason: EndReason::Completed, .. }] = events.as_slice() else {
            panic!("{result}: {events:?}")
        };
    }
    // The form in which zed's codex-acp and opencode report that a model failed.
    for (error, wanted) in [
        (json!({"code": -32603, "message": "Internal error", "data": {"details": "HTTP 500"}}), "HTTP 500"),
        (json!({"code": "odd", "message": null}), "it gave no reason"),
        (json!("went away"), "it gave no reason"),
    ] {
        let mut talk = Talk::at_work();
        let id = talk.sent("session/prompt")["id"].clone();
        let events = talk.line(json!({"id": id, "error": error}));
        let [AgentEvent::TurnEnded { reason: EndReason::Failed, error, .. }] = events.as_slice() else {
            panic!("{events:?}")
        };
        assert!(error.contains(wanted), "{error}");
    }
}

#[test]
fn a_turn_that_too_many_requests_ended_is_one_that_a_rate_limit_ended() {
    for (error, is_limited) in [
        // Gemini CLI's answer, and that of agents which pass the model's status on.
        (json!({"code": 429, "message": "Rate limit exceeded. Try again later."}), true),
        (
            json!({"code": -32603, "message": "Internal error", "data": {"statusCode": 429, "message": "slow down"}}),
            true,
        ),
        (
            json!({"code": -32603, "message": "Internal error", "data": {"details": "HTTP 429 in a file"}}),
            false,
        ),
        (json!({"code": 401, "message": "no key"}), false),
    ] {
        let mut talk = Talk::at_work();
        let id = talk.sent("session/prompt")["id"].clone();
        let events = talk.line(json!({"id": id, "error": error}));
        let limited =
            events.iter().any(|event| matches!(event, AgentEvent::RateLimited { resumes_at: None, .. }));
        assert_eq!(limited, is_limited, "{error}: {events:?}");
        assert!(matches!(events.last(), Some(AgentEvent::TurnEnded { reason: EndReason::Failed, .. })));
    }
}

#[test]
fn what_is_said_before_the_conversation_has_begun_is_heard() {
    let mut talk = Talk::new(AcpState { cwd: "/repo".to_owned(), ..AcpState::default() });
    let commands =
        json!({"sessionUpdate": "available_commands_update", "availableCommands": [{"name": "help"}]});
    let mode = json!({"sessionUpdate": "current_mode_update", "currentModeId": "plan"});
    let notice = json!({"sessionUpdate": "notice", "message": "an update is there"});
    let heard = |talk: &mut Talk| {
        assert!(matches!(talk.update(commands.clone()).as_slice(), [AgentEvent::Commands(_)]));
        assert!(talk.update(mode.clone()).is_empty());
        let events = talk.update(notice.clone());
        assert!(matches!(&events[0], AgentEvent::Notice { message, .. } if message == "an update is there"));
        assert!(talk.line(json!({"method": "_auth/status_update", "params": [7]})).is_empty());
    };
    heard(&mut talk);
    talk.answer("initialize", json!({"protocolVersion": 1}));
    heard(&mut talk);
    let events = talk.answer("session/new", json!({"sessionId": "s1"}));
    assert!(matches!(events.as_slice(), [AgentEvent::Ready { .. }]), "{events:?}");
}

#[test]
fn what_is_beside_the_protocol_is_let_be_wherever_it_is() {
    for meta in [json!(null), json!(7), json!("x"), json!([]), json!({"a": {"b": [1]}})] {
        let mut talk = Talk::at_work();
        let content = json!({"type": "text", "text": "hi", "_meta": meta, "annotations": meta, "more": meta});
        let chunk = json!({"sessionUpdate": "agent_message_chunk", "content": content, "_meta": meta,
            "messageId": meta, "more": meta});
        assert_eq!(talk.update(chunk), [AgentEvent::Text { text: "hi".to_owned(), parent: None }], "{meta}");
        let call = json!({"toolCallId": "c1", "kind": "unheard of", "status": meta, "_meta": meta, "more": meta,
            "content": [{"type": "hologram", "_meta": meta}], "locations": meta, "rawInput": meta, "name": null});
        let options = json!([{"optionId": "a", "kind": "allow_once", "_meta": meta, "more": meta}]);
        let params = json!({"toolCall": call, "options": options, "_meta": meta, "more": meta});
        let events = talk.request(json!(1), ASK, params);
        talk.decide(asked(&events), Decision::AllowOnce, "");
        assert_eq!(talk.answered(&json!(1))["result"]["outcome"], selected("a"), "{meta}");
        let usage = json!({"sessionUpdate": "usage_update", "used": 5, "cost": meta, "_meta": meta});
        let events = talk.update(usage);
        assert!(
            matches!(&events[0], AgentEvent::Usage { context_tokens: Some(5), .. }),
            "{meta}: {events:?}"
        );
    }
}

#[test]
fn texts_are_told_whatever_kind_of_part_they_are_in() {
    let mut talk = Talk::at_work();
    for part in
        [json!({"text": "hm"}), json!({"type": "musing", "text": "hm"}), json!({"type": 7, "text": "hm"})]
    {
        let events = talk.update(json!({"sessionUpdate": "agent_thought_chunk", "content": part}));
        assert_eq!(events, [AgentEvent::Thinking { text: "hm".to_owned(), parent: None }], "{part}");
        talk.update(json!({"sessionUpdate": "tool_call", "toolCallId": "c1"}));
        let content = json!([{"type": "content", "content": part}, {"type": "sound"}, null]);
        let done = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed",
            "content": content});
        let finished =
            AgentEvent::ToolFinished { call: CallId::new("c1"), ok: true, output: "hm".to_owned() };
        assert_eq!(talk.update(done), [finished], "{part}");
    }
    let events = talk.update(json!({"sessionUpdate": "agent_message_chunk", "content": {"text": "hi"}}));
    assert_eq!(events, [AgentEvent::Text { text: "hi".to_owned(), parent: None }]);
}

#[test]
fn an_update_of_a_call_nobody_saw_begins_it_if_it_says_what_it_is() {
    for kind in [json!("execute"), json!("unheard of"), json!(7)] {
        let mut talk = Talk::at_work();
        let update = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c9", "kind": kind,
            "status": "completed", "rawOutput": "done"});
        let events = talk.update(update);
        let [AgentEvent::ToolStarted { .. }, AgentEvent::ToolFinished { ok: true, output, .. }] =
            events.as_slice()
        else {
            panic!("{kind}: {events:?}")
        };
        assert_eq!(output, "done");
        // The end of a call is reported once.
        let again = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c9", "status": "completed"});
        assert!(talk.update(again).is_empty());
    }
    // Opencode asks twice about one command: whether outside of the folder, and whether at all.
    let mut talk = Talk::at_work();
    let options = json!([{"optionId": "once", "kind": "allow_once"}]);
    let ask = json!({"toolCall": {"toolCallId": "c1", "kind": "execute"}, "options": options});
    let first = talk.request(json!(1), ASK, ask.clone());
    let second = talk.request(json!(2), ASK, ask);
    assert_eq!((first.len(), second.len()), (2, 1));
    for (id, events) in [(json!(1), first), (json!(2), second)] {
        talk.decide(asked(&events), Decision::AllowOnce, "");
        assert_eq!(talk.answered(&id)["result"]["outcome"], selected("once"));
    }
}
