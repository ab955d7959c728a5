//! The agent inside the daemon through its port, against a small endpoint of the test: what no surface can
//! trigger yet, mainly tools of clients.

mod endpoint;

use std::sync::Arc;
use std::time::Duration;

use agent_port::toolbox::{SessionToolbox, SessionTools, ToolOutput, ToolTask, Work};
use agent_port::{InProcessAgent, LaunchPlan, LaunchRequest, Provider};
use domain::event::ClientTool;
use domain::request::RequestSubject;
use domain::turn::EndReason;
use domain::{AgentEvent, AgentInput, Decision, ErrorCode, ProviderKind, SessionSpec};
use providers::openai::OpenaiApi;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::support::{spec, starting};
use endpoint::{Endpoint, called, said};

/// Returns what it was asked to do.
struct Echo;

impl SessionTools for Echo {
    fn perform(&self, task: ToolTask) -> Work<ToolOutput> {
        Box::pin(async move { Ok(ToolOutput { ok: true, output: format!("{task:?}"), exit_code: None }) })
    }
}

impl SessionToolbox for Echo {
    fn open(&self, _spec: &SessionSpec) -> Arc<dyn SessionTools> {
        Arc::new(Echo)
    }
}

struct Live {
    agent: Box<dyn InProcessAgent>,
    events: mpsc::Receiver<AgentEvent>,
    endpoint: Endpoint,
}

impl Live {
    /// Starts an agent with this model at a running endpoint.
    fn start(endpoint: Endpoint, model: &str) -> Live {
        let mut spec = spec(ProviderKind::OpenaiApi, std::path::Path::new("/repo"));
        spec.provider_config.insert("base_url".to_owned(), endpoint.url());
        spec.model = model.to_owned();
        let state = starting(&spec);
        let request = LaunchRequest {
            spec: &spec,
            state: &state,
            resume: false,
            environment: Vec::new(),
            bridge: None,
            past: None,
            given: Vec::new(),
            programs: None,
        };
        let LaunchPlan::InProcess(mut agent) = OpenaiApi::new(Some(Arc::new(Echo))).launch(&request).unwrap()
        else {
            panic!("expected an agent inside the daemon")
        };
        let (sender, events) = mpsc::channel(64);
        agent.start(sender);
        Live { agent, events, endpoint }
    }

    async fn ready(replies: Vec<Vec<Value>>) -> Live {
        let mut live = Live::start(Endpoint::start(replies).await, "");
        live.wait(|event| matches!(event, AgentEvent::Ready { .. })).await;
        live
    }

    fn tell(&mut self, input: AgentInput) {
        self.agent.check(&input).unwrap();
        self.agent.send(input).unwrap();
    }

    fn prompt(&mut self, text: &str) {
        self.tell(AgentInput::Prompt { text: text.to_owned(), attachments: Vec::new() });
    }

    async fn next(&mut self) -> AgentEvent {
        let next = tokio::time::timeout(Duration::from_secs(30), self.events.recv());
        next.await.unwrap().unwrap()
    }

    /// Waits for an event and returns everything up to it.
    async fn wait(&mut self, wanted: impl Fn(&AgentEvent) -> bool) -> Vec<AgentEvent> {
        let mut seen = Vec::new();
        loop {
            seen.push(self.next().await);
            if seen.last().is_some_and(&wanted) {
                return seen;
            }
        }
    }

    async fn ended(&mut self) -> Vec<AgentEvent> {
        self.wait(|event| matches!(event, AgentEvent::TurnEnded { .. })).await
    }
}

fn tool(name: &str, exclusive: bool, timeout_ms: Option<u64>) -> ClientTool {
    let input_schema = json!({"type": "object", "properties": {"on": {"type": "boolean"}}});
    ClientTool {
        name: name.to_owned(),
        description: "switches".to_owned(),
        input_schema,
        exclusive,
        timeout_ms,
        asks: false,
    }
}

fn asked(event: &AgentEvent) -> bool {
    matches!(event, AgentEvent::Asked { .. })
}

fn returned(native: &str, output: &str) -> AgentInput {
    AgentInput::ToolResult { native: native.to_owned(), ok: true, output: output.to_owned() }
}

#[tokio::test]
async fn a_client_runs_its_own_tool_within_the_turn() {
    let replies = vec![called(&[("c1", "lamp", json!({"on": true}))]), said("lit")];
    let mut live = Live::ready(replies).await;
    live.tell(AgentInput::Tools(vec![tool("lamp", false, None)]));
    live.prompt("light");
    let seen = live.wait(asked).await;
    let Some(AgentEvent::Asked { native, ask: RequestSubject::ClientTool { tool, input, .. } }) = seen.last()
    else {
        panic!("{seen:?}")
    };
    assert_eq!((native.as_str(), tool.as_str(), input), ("c1", "lamp", &json!({"on": true})));
    live.tell(returned("c1", "the lamp is on"));
    let seen = live.ended().await;
    assert!(seen.iter().any(|event| matches!(event, AgentEvent::ToolFinished { ok: true, output, .. } if output == "the lamp is on")));
    let bodies = live.endpoint.bodies();
    let offered: Vec<&str> =
        bodies[0]["tools"].as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert!(offered.contains(&"lamp") && offered.contains(&"Bash"), "{offered:?}");
    let result = json!({"type": "function_call_output", "call_id": "c1", "output": "the lamp is on"});
    assert_eq!(bodies[1]["input"].as_array().unwrap().last(), Some(&result));
}

/// The session decides which tools run alone and how long each may take, in the same way for every agent.
#[tokio::test]
async fn every_call_of_a_clients_tool_is_told_to_the_session_at_once() {
    let calls = [("c1", "lamp", json!({})), ("c2", "lamp", json!({})), ("c3", "bell", json!({}))];
    let mut live = Live::ready(vec![called(&calls), said("done")]).await;
    live.tell(AgentInput::Tools(vec![tool("lamp", true, None), tool("bell", false, None)]));
    live.prompt("ring and light");
    for expected in ["c1", "c2", "c3"] {
        let seen = live.wait(asked).await.pop();
        assert!(matches!(&seen, Some(AgentEvent::Asked { native, .. }) if native == expected), "{seen:?}");
    }
    for call in ["c1", "c3", "c2"] {
        live.tell(returned(call, "done"));
    }
    let ended = live.ended().await.pop();
    assert!(matches!(ended, Some(AgentEvent::TurnEnded { reason: EndReason::Completed, .. })), "{ended:?}");
}

#[tokio::test]
async fn what_was_changed_with_a_permission_is_what_is_done() {
    let write = json!({"file_path": "a", "content": "one"});
    let mut live = Live::ready(vec![called(&[("c1", "Write", write)]), said("ok")]).await;
    live.prompt("write");
    let seen = live.wait(asked).await;
    let Some(AgentEvent::Asked { native, ask }) = seen.last().cloned() else { panic!("{seen:?}") };
    live.tell(AgentInput::Decide {
        native,
        decision: Decision::AllowOnce,
        message: String::new(),
        updated_input: Some(json!({"file_path": "b", "content": "two"})),
        ask,
    });
    let seen = live.ended().await;
    let done = seen.iter().find_map(|event| match event {
        AgentEvent::ToolFinished { output, .. } => Some(output.clone()),
        _ => None,
    });
    assert_eq!(done.as_deref(), Some("Write { path: \"b\", content: \"two\" }"));
}

#[tokio::test]
async fn an_endpoint_without_a_list_takes_any_model_that_is_named() {
    let endpoint = Endpoint::start(Vec::new()).await;
    endpoint.forget_models();
    let mut live = Live::start(endpoint, "");
    let broken = live.next().await;
    let AgentEvent::Broken { code, message } = broken else { panic!("{broken:?}") };
    assert_eq!(code, Some(ErrorCode::InvalidArgument));
    assert!(message.contains("model: is required"), "{message}");
    let mut live = Live::start(live.endpoint, "own-model");
    assert!(matches!(live.next().await, AgentEvent::Ready { model, .. } if model == "own-model"));
}
