//! One conversation line by line: the handshake, a turn, requests, refusals.

use domain::event::{TodoPriority, TodoStatus};
use domain::request::RequestSubject;
use domain::turn::EndReason;
use domain::{AgentEvent, AgentInput, Decision, ErrorCode, Mode};
use serde_json::{Value, json};

use super::state::AcpState;
use super::*;

mod keeping;
mod lenient;
mod modes;
mod permissions;
mod types;

struct Talk {
    codec: AcpCodec,
    /// Our lines that were not checked yet.
    written: Vec<Value>,
}

impl Talk {
    fn new(state: AcpState) -> Self {
        let settings = AcpSettings { name: "goose".to_owned(), client_tools: true, ..AcpSettings::default() };
        let mut codec = AcpCodec { state: state.into(), settings, begun: Vec::new() };
        let mut wire = Vec::new();
        codec.open(&mut wire);
        let mut talk = Self { codec, written: Vec::new() };
        talk.wrote(&wire);
        talk
    }

    /// A started conversation with a prompt in progress.
    fn at_work() -> Self {
        let mut talk = Self::new(AcpState { cwd: "/repo".to_owned(), ..AcpState::default() });
        talk.answer("initialize", json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}}));
        talk.answer("session/new", json!({"sessionId": "s1"}));
        talk.tell(AgentInput::Prompt { text: "go".to_owned(), attachments: Vec::new() });
        talk
    }

    fn wrote(&mut self, wire: &[u8]) {
        for line in wire.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            self.written.push(serde_json::from_slice(line).unwrap());
        }
    }

    fn tell(&mut self, input: AgentInput) {
        let mut wire = Vec::new();
        self.codec.encode(&input, &mut wire).unwrap();
        self.wrote(&wire);
    }

    /// Takes our next line with this method.
    fn sent(&mut self, method: &str) -> Value {
        let at = self.written.iter().position(|line| line["method"] == method);
        let at = at.unwrap_or_else(|| panic!("no {method} in {:?}", self.written));
        self.written.remove(at)
    }

    /// Answers our request.
    fn answer(&mut self, method: &str, result: Value) -> Vec<AgentEvent> {
        let id = self.sent(method)["id"].clone();
        self.line(json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }

    fn refuse(&mut self, method: &str, code: i64, message: &str) -> Vec<AgentEvent> {
        let id = self.sent(method)["id"].clone();
        self.line(json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}))
    }

    fn line(&mut self, line: Value) -> Vec<AgentEvent> {
        let mut out = Decoded::default();
        self.codec.decode(line.to_string().as_bytes(), &mut out);
        self.wrote(&out.replies);
        out.events
    }

    fn update(&mut self, update: Value) -> Vec<AgentEvent> {
        self.line(json!({"method": "session/update", "params": {"sessionId": "s1", "update": update}}))
    }

    fn request(&mut self, id: Value, method: &str, params: Value) -> Vec<AgentEvent> {
        self.line(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
    }

    /// Returns our answer to the agent's request.
    fn answered(&mut self, id: &Value) -> Value {
        let at = self.written.iter().position(|line| line["id"] == *id && line.get("method").is_none());
        self.written.remove(at.unwrap_or_else(|| panic!("{id} was not answered: {:?}", self.written)))
    }

    fn decide(&mut self, event: &AgentEvent, decision: Decision, message: &str) {
        let (native, ask) = match event {
            AgentEvent::Asked { native, ask } => (native, ask.clone()),
            AgentEvent::Checks { native, ask } => (native, RequestSubject::Permission(ask.clone())),
            other => panic!("{other:?}"),
        };
        self.tell(AgentInput::Decide {
            native: native.clone(),
            decision,
            message: message.to_owned(),
            updated_input: None,
            ask,
        });
    }
}

#[test]
fn the_handshake_leads_to_a_conversation() {
    let mut talk = Talk::new(AcpState { cwd: "/repo".to_owned(), mode: Mode::Plan, ..AcpState::default() });
    let info = json!({"name": "goose", "version": "1.34.0"});
    let result = json!({"protocolVersion": 1, "agentInfo": info, "agentCapabilities": {}});
    assert!(talk.answer("initialize", result).is_empty());
    let modes = json!({"currentModeId": "auto", "availableModes": [{"id": "auto"}, {"id": "plan"}]});
    let events = talk.answer("session/new", json!({"sessionId": "s1", "modes": modes}));
    let ready = AgentEvent::Ready {
        native_session: "s1".to_owned(),
        model: String::new(),
        version: "goose 1.34.0".to_owned(),
        resolved_model: String::new(),
    };
    // Some agents start a prompt concurrently with a change of mode, in the previous mode.
    assert_eq!(events, []);
    talk.tell(AgentInput::Prompt { text: "go".to_owned(), attachments: Vec::new() });
    assert!(talk.written.iter().all(|line| line["method"] != "session/prompt"), "{:?}", talk.written);
    let at = talk.written.iter().position(|line| line["params"]["modeId"] == "plan");
    assert!(at.is_some(), "{:?}", talk.written);
    assert_eq!(talk.answer("session/set_mode", json!({})), [ready]);
    assert_eq!(talk.sent("session/prompt")["params"]["prompt"][0]["text"], "go");
}

#[test]
fn a_prompt_that_is_interrupted_before_it_is_said_is_said_and_cancelled() {
    let mut talk = Talk::at_work();
    let id = talk.sent("session/prompt")["id"].clone();
    talk.line(json!({"id": id, "result": {"stopReason": "end_turn"}}));
    talk.codec.state.unsettled = 1;
    talk.tell(AgentInput::Prompt { text: "never mind".to_owned(), attachments: Vec::new() });
    talk.tell(AgentInput::Interrupt);
    talk.sent("session/cancel");
    talk.line(json!({"id": "obey:session/set_mode:99", "result": {}}));
    let id = talk.sent("session/prompt")["id"].clone();
    talk.sent("session/cancel");
    let events = talk.line(json!({"id": id, "result": {"stopReason": "cancelled"}}));
    assert!(
        matches!(events.as_slice(), [AgentEvent::TurnEnded { reason: EndReason::Cancelled, .. }]),
        "{events:?}"
    );
}

#[test]
fn a_call_that_shows_a_terminal_of_ours_has_what_was_printed_there() {
    let mut talk = Talk::at_work();
    let command = json!({"command": "echo hi"});
    talk.update(
        json!({"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "shell", "rawInput": command}),
    );
    let terminal = json!([{"type": "terminal", "terminalId": "term_1"}]);
    talk.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c1", "content": terminal}));
    // What it prints is told while it runs.
    let watch = talk.codec.take_client_requests().remove(0);
    assert_eq!(watch.what, json!({"do": "watch", "terminal": "term_1", "seen": 0}));
    let mut out = Decoded::default();
    talk.codec.client_request_done(&watch.id, Ok(json!({"text": "h", "seen": 1})), &mut out);
    let progress = AgentEvent::ToolProgress { call: domain::CallId::new("c1"), output: "h".to_owned() };
    assert!(out.events == [progress] && out.replies.is_empty(), "{:?}", out.events);
    let watch = talk.codec.take_client_requests().remove(0);
    assert_eq!(watch.what["seen"], 1);
    let mut out = Decoded::default();
    talk.codec.client_request_done(&watch.id, Ok(json!(null)), &mut out);
    assert!(out.events.is_empty() && talk.codec.take_client_requests().is_empty());
    talk.request(json!("r"), "terminal/output", json!({"sessionId": "s1", "terminalId": "term_1"}));
    let errand = talk.codec.take_client_requests().remove(0);
    talk.codec.client_request_done(
        &errand.id,
        Ok(json!({"output": "hi\n", "truncated": false})),
        &mut Decoded::default(),
    );
    talk.request(json!("s"), "terminal/release", json!({"sessionId": "s1", "terminalId": "term_1"}));
    let errand = talk.codec.take_client_requests().remove(0);
    talk.codec.client_request_done(&errand.id, Ok(json!({})), &mut Decoded::default());
    let events =
        talk.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed"}));
    let finished =
        AgentEvent::ToolFinished { call: domain::CallId::new("c1"), ok: true, output: "hi\n".to_owned() };
    assert_eq!(events, [finished]);
}

#[test]
fn a_version_that_was_not_tested_is_named_with_the_range() {
    let mut talk = Talk::new(AcpState::default());
    let info = json!({"name": "gemini-cli", "version": "9.0.0"});
    let events = talk.answer("initialize", json!({"protocolVersion": 1, "agentInfo": info}));
    let message =
        "this gemini-cli is 9.0.0; obey is tested with 0.61.0 up to, but not including, 0.62.0".to_owned();
    assert_eq!(events, [AgentEvent::Notice { level: domain::event::Level::Warning, message }]);
    let mut talk = Talk::new(AcpState::default());
    let info = json!({"name": "my own", "version": "9.0.0"});
    assert_eq!(talk.answer("initialize", json!({"protocolVersion": 1, "agentInfo": info})), []);
}

#[test]
fn another_protocol_a_missing_login_and_an_unknown_model_are_named() {
    let mut talk = Talk::new(AcpState::default());
    let events = talk.answer("initialize", json!({"protocolVersion": 2}));
    assert!(
        matches!(&events[0], AgentEvent::Notice { message, .. } if message.contains("protocol 2") && message.contains("version 1"))
    );
    let events = talk.refuse("session/new", -32000, "Authentication required");
    let [AgentEvent::Broken { code: Some(ErrorCode::ProviderNotReady), message }] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert!(message.contains("signed in"), "{message}");

    let state = AcpState { asked_model: "gpt-55".to_owned(), model_is_wanted: true, ..AcpState::default() };
    let mut talk = Talk::new(state);
    talk.answer("initialize", json!({"protocolVersion": 1}));
    let models = json!({"currentModelId": "gpt-5.5", "availableModels": [{"modelId": "gpt-5.5"}]});
    let events = talk.answer("session/new", json!({"sessionId": "s", "models": models}));
    assert!(
        matches!(&events[0], AgentEvent::Broken { code: Some(ErrorCode::ModelUnsupported), message } if message.contains("did you mean gpt-5.5?"))
    );
}

#[test]
fn a_conversation_is_taken_up_in_the_best_way_there_is() {
    let state = || AcpState { resume: "old".to_owned(), had_turns: true, ..AcpState::default() };
    let with = |can: Value| {
        let mut talk = Talk::new(state());
        let events = talk.answer("initialize", json!({"protocolVersion": 1, "agentCapabilities": can}));
        (talk, events)
    };
    let (mut talk, _) = with(json!({"loadSession": true, "sessionCapabilities": {"resume": {}}}));
    assert_eq!(talk.sent("session/resume")["params"]["sessionId"], "old");
    let (mut talk, _) = with(json!({"loadSession": true}));
    // Updates that are repeated during loading are known.
    let chunk =
        json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "old news"}});
    assert!(talk.update(chunk.clone()).is_empty());
    let events = talk.answer("session/load", json!({}));
    assert!(matches!(&events[0], AgentEvent::Ready { native_session, .. } if native_session == "old"));
    assert_eq!(talk.update(chunk).len(), 1);
    let (mut talk, events) = with(json!({}));
    assert!(matches!(&events[0], AgentEvent::Notice { .. }), "{events:?}");
    talk.sent("session/new");
    let (mut talk, _) = with(json!({"loadSession": true}));
    let events = talk.refuse("session/load", -32002, "Resource not found");
    assert!(matches!(&events[0], AgentEvent::Notice { .. }), "{events:?}");
    talk.sent("session/new");
}

#[test]
fn a_turn_streams_and_ends() {
    let mut talk = Talk::at_work();
    let text = |text: &str| json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}});
    assert_eq!(talk.update(text("hi")), [AgentEvent::Text { text: "hi".to_owned(), parent: None }]);
    let plan = json!({"sessionUpdate": "plan", "entries": [
        {"content": "look", "status": "in_progress", "priority": "high"}, {"content": "leap", "status": "pending", "priority": "low"}]});
    let events = talk.update(plan);
    let AgentEvent::Todos(todos) = &events[0] else { panic!("{events:?}") };
    assert_eq!(todos[0].status, TodoStatus::InProgress);
    assert_eq!([todos[0].priority, todos[1].priority], [Some(TodoPriority::High), Some(TodoPriority::Low)]);
    let usage = json!({"inputTokens": 90, "cachedReadTokens": 10, "outputTokens": 20});
    let events = talk.answer("session/prompt", json!({"stopReason": "end_turn", "usage": usage}));
    assert!(
        matches!(&events[0], AgentEvent::Usage { usage, .. } if usage.input_tokens == 90 && usage.output_tokens == 20)
    );
    let ended =
        AgentEvent::TurnEnded { reason: EndReason::Completed, text: "hi".to_owned(), error: String::new() };
    assert_eq!(events[1], ended);
}

#[test]
fn a_permission_may_come_before_its_call_and_a_denial_is_told() {
    let mut talk = Talk::at_work();
    let id = json!("9287b4fa");
    let call = json!({"toolCallId": "c1", "kind": "execute", "title": "touch x", "rawInput": {"command": ["bash", "-lc", "touch x"]}});
    let options = json!([{"kind": "allow_always", "optionId": "always"}, {"kind": "allow_once", "optionId": "yes"},
        {"kind": "reject_once", "optionId": "abort"}]);
    let ask = json!({"sessionId": "s1", "toolCall": call, "options": options});
    let events = talk.request(id.clone(), "session/request_permission", ask.clone());
    let [
        AgentEvent::ToolStarted { tool, input, .. },
        asked @ AgentEvent::Asked { ask: RequestSubject::Permission(permission), .. },
    ] = events.as_slice()
    else {
        panic!("{events:?}")
    };
    assert_eq!((tool.as_str(), &input["command"]), ("Bash", &json!("touch x")));
    assert_eq!(permission.call.as_ref().map(|call| call.as_str()), Some("c1"));
    talk.decide(asked, Decision::Deny, "not on a Sunday");
    assert_eq!(talk.answered(&id)["result"]["outcome"], json!({"outcome": "selected", "optionId": "abort"}));
    // The agent ends its turn with that; the reason is sent in the same turn of ours.
    let events = talk.answer("session/prompt", json!({"stopReason": "cancelled"}));
    assert!(
        matches!(&events[0], AgentEvent::ToolFinished { ok: false, output, .. } if output.contains("not on a Sunday"))
    );
    assert_eq!(events.len(), 1, "{events:?}");
    let next = talk.sent("session/prompt");
    assert!(next["params"]["prompt"][0]["text"].as_str().unwrap().contains("not on a Sunday"));

    let mut talk = Talk::at_work();
    let events = talk.request(id.clone(), "session/request_permission", ask);
    talk.decide(&events[1], Decision::AllowSession, "");
    // Grants are remembered by us.
    assert_eq!(talk.answered(&id)["result"]["outcome"]["optionId"], "yes");
}

#[test]
fn an_interrupt_answers_what_was_asked() {
    let mut talk = Talk::at_work();
    let call = json!({"toolCallId": "c1", "kind": "execute", "rawInput": {"command": "ls"}});
    talk.request(json!(7), "session/request_permission", json!({"toolCall": call, "options": []}));
    talk.tell(AgentInput::Interrupt);
    talk.sent("session/cancel");
    assert_eq!(talk.answered(&json!(7))["result"]["outcome"], json!({"outcome": "cancelled"}));
    // Some agents report success.
    let events = talk.answer("session/prompt", json!({"stopReason": "end_turn"}));
    let ended = events.last().unwrap();
    assert!(matches!(ended, AgentEvent::TurnEnded { reason: EndReason::Cancelled, .. }), "{ended:?}");
}

#[test]
fn what_is_said_during_a_turn_is_said_at_its_end() {
    let mut talk = Talk::at_work();
    talk.tell(AgentInput::Steer { text: "and hurry".to_owned() });
    assert!(talk.answer("session/prompt", json!({"stopReason": "end_turn"})).is_empty());
    assert_eq!(talk.sent("session/prompt")["params"]["prompt"][0]["text"], "and hurry");
}

#[test]
fn files_and_commands_are_errands_that_need_permission_once() {
    let mut talk = Talk::at_work();
    let events = talk.request(json!(1), "fs/read_text_file", json!({"path": "/repo/a"}));
    talk.decide(&events[0], Decision::AllowOnce, "");
    let errands = talk.codec.take_client_requests();
    assert_eq!((errands.len(), &errands[0].what["do"]), (1, &json!("read")));
    assert!(talk.codec.take_client_requests().is_empty());
    let mut out = Decoded::default();
    talk.codec.client_request_done(&errands[0].id, Ok(json!({"content": "x"})), &mut out);
    talk.wrote(&out.replies);
    assert_eq!(talk.answered(&json!(1))["result"], json!({"content": "x"}));

    let write = json!({"path": "/repo/a", "content": "new"});
    let events = talk.request(json!(2), "fs/write_text_file", write.clone());
    assert!(talk.codec.take_client_requests().is_empty());
    talk.decide(&events[0], Decision::AllowOnce, "");
    let errands = talk.codec.take_client_requests();
    assert_eq!(errands[0].what["content"], "new");
    // A restarted daemon runs it again.
    let saved = talk.codec.save();
    let mut twin = AcpCodec {
        state: serde_json::from_str::<AcpState>(&saved).unwrap().into(),
        settings: AcpSettings::default(),
        begun: Vec::new(),
    };
    assert_eq!(twin.take_client_requests(), errands);

    // What was approved in the turn is not asked a second time.
    let call =
        json!({"toolCallId": "c1", "kind": "other", "title": "shell", "rawInput": {"command": "make"}});
    let options = json!([{"kind": "allow_once", "optionId": "yes"}]);
    let events =
        talk.request(json!(3), "session/request_permission", json!({"toolCall": call, "options": options}));
    talk.decide(&events[1], Decision::AllowOnce, "");
    assert!(talk.request(json!(4), "terminal/create", json!({"command": "make"})).is_empty());
    assert!(talk.codec.take_client_requests().iter().any(|errand| errand.what["command"] == "make"));
    let events = talk.request(json!(5), "terminal/create", json!({"command": "make", "args": ["install"]}));
    talk.decide(&events[0], Decision::Deny, "no");
    assert_eq!(talk.answered(&json!(5))["error"]["message"], "no");
}

#[test]
fn nothing_is_changed_in_plan_mode() {
    let mut talk = Talk::at_work();
    talk.tell(AgentInput::SetMode(Mode::Plan));
    let calls = [
        ("fs/write_text_file", json!({"path": "/repo/a", "content": "x"})),
        ("terminal/create", json!({"command": "touch a"})),
    ];
    for (id, (method, params)) in (10..).zip(calls) {
        let events = talk.request(json!(id), method, params);
        let told =
            matches!(&events[..], [AgentEvent::Notice { message, .. }] if message.contains("plan mode"));
        assert!(told, "a refusal is on record: {events:?}");
        assert!(talk.answered(&json!(id))["error"]["message"].as_str().unwrap().contains("plan mode"));
        assert!(talk.codec.take_client_requests().is_empty());
    }
    talk.tell(AgentInput::SetMode(Mode::AcceptEdits));
    let events = talk.request(json!(2), "fs/write_text_file", json!({"path": "/repo/a", "content": "x"}));
    talk.decide(&events[0], Decision::AllowOnce, "");
    assert_eq!(talk.codec.take_client_requests().len(), 1);
}

#[test]
fn nonsense_is_kept_and_a_stranger_is_found_out() {
    let mut talk = Talk::new(AcpState::default());
    for at in 1..=crate::limits::GARBAGE_MAX_LINES {
        let mut out = Decoded::default();
        talk.codec.decode(b"hello there", &mut out);
        let broken = out.events.iter().any(|event| matches!(event, AgentEvent::Broken { .. }));
        assert_eq!(broken, at == crate::limits::GARBAGE_MAX_LINES);
    }
    let mut talk = Talk::at_work();
    assert!(matches!(talk.line(json!({"what": 1}))[0], AgentEvent::Unparsed { .. }));
    assert!(talk.line(json!({"method": "_auth/status_update", "params": {}})).is_empty());
    assert!(talk.request(json!(1), "bogus/x", json!({})).is_empty());
    assert_eq!(talk.answered(&json!(1))["error"]["code"], -32601);
    for update in [
        json!({}),
        json!(null),
        json!([]),
        json!({"sessionUpdate": "tool_call"}),
        json!({"sessionUpdate": 1}),
    ] {
        talk.update(update);
    }
}

#[test]
fn servers_are_passed_on_as_far_as_the_agent_reaches_them() {
    let servers = json!({"a": {"command": "x", "args": ["y"], "env": {"K": "v"}},
        "b": {"type": "http", "url": "http://127.0.0.1/mcp", "headers": {"authorization": "Bearer x"}}});
    let Value::Object(servers) = servers else { panic!() };
    let begin = |http: bool| {
        let settings = AcpSettings { mcp_servers: servers.clone(), ..AcpSettings::default() };
        let mut talk = Talk::new(AcpState::default());
        talk.codec.settings = settings;
        let can = json!({"mcpCapabilities": {"http": http}});
        let events = talk.answer("initialize", json!({"protocolVersion": 1, "agentCapabilities": can}));
        (talk.sent("session/new")["params"]["mcpServers"].clone(), events.len())
    };
    let own = json!({"name": "a", "command": "x", "args": ["y"], "env": [{"name": "K", "value": "v"}]});
    let remote = json!({"type": "http", "name": "b", "url": "http://127.0.0.1/mcp",
        "headers": [{"name": "authorization", "value": "Bearer x"}]});
    assert_eq!(begin(true), (json!([own, remote]), 0));
    assert_eq!(begin(false), (json!([own]), 1));
}

#[test]
fn the_daemons_own_server_is_passed_on_and_asks_for_itself() {
    let bridge = state::BridgeCommand { command: "/bin/obey".to_owned(), args: vec!["mcp".to_owned()] };
    let mut talk =
        Talk::new(AcpState { cwd: "/repo".to_owned(), bridge: Some(bridge), ..AcpState::default() });
    talk.answer("initialize", json!({"protocolVersion": 1, "agentCapabilities": {}}));
    let servers = json!([{"name": "obey", "command": "/bin/obey", "args": ["mcp"], "env": []}]);
    let begin = talk.written.iter().find(|line| line["method"] == "session/new").unwrap();
    assert_eq!(begin["params"]["mcpServers"], servers);
    talk.answer("session/new", json!({"sessionId": "s1"}));
    talk.tell(AgentInput::Prompt { text: "go".to_owned(), attachments: Vec::new() });
    let call = json!({"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Tool: obey/lift",
        "rawInput": {"server": "obey", "tool": "lift", "arguments": {"x": 1}}});
    let mut events = talk.line(json!({"jsonrpc": "2.0", "method": "session/update",
        "params": {"sessionId": "s1", "update": call}}));
    // The form in which codex-acp asks about it.
    let call =
        json!({"toolCallId": "c1", "title": "Approve MCP tool call", "rawInput": {"server_name": "obey"}});
    let options =
        json!([{"kind": "allow_once", "optionId": "yes"}, {"kind": "reject_once", "optionId": "no"}]);
    let params = json!({"sessionId": "s1", "toolCall": call, "options": options});
    events.extend(
        talk.line(
            json!({"jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": params}),
        ),
    );
    let started: Vec<&str> = events
        .iter()
        .map(|event| match event {
            AgentEvent::ToolStarted { tool, .. } => tool.as_str(),
            _ => "something else",
        })
        .collect();
    assert_eq!(started, ["lift"], "only the start of the call is reported: {events:?}");
    let answer = talk.written.iter().find(|line| line["id"] == 7).unwrap();
    assert_eq!(answer["result"]["outcome"], json!({"outcome": "selected", "optionId": "yes"}));
}
