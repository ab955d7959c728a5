//! A session's agent with a gateway controlled by the test, over a real socket.

use domain::Decision;
use domain::request::RequestSubject;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::{WebSocketStream, accept_async};

use super::*;
use crate::frames::ConversationSettings;
use crate::gateway::StartedGateway;

/// How long anything may take on a busy machine.
const DEADLINE: Duration = Duration::from_secs(30);

/// The gateway's side of one connection.
struct Side {
    socket: WebSocketStream<TcpStream>,
    /// The announced interval of its ticks.
    tick_millis: u64,
}

impl Side {
    async fn say(&mut self, frame: Value) {
        self.socket.send(Message::text(frame.to_string())).await.unwrap();
    }

    /// Answers requests until this method is called; that request is returned and not answered.
    async fn until(&mut self, method: &str) -> Value {
        loop {
            let message = tokio::time::timeout(DEADLINE, self.socket.next()).await;
            let message = message.unwrap_or_else(|_| panic!("no {method}")).unwrap().unwrap();
            let Message::Text(text) = message else { continue };
            let asked: Value = serde_json::from_str(text.as_str()).unwrap();
            if asked["method"] == method {
                return asked;
            }
            let payload = match asked["method"].as_str().unwrap() {
                "connect" => {
                    json!({"protocol": 4, "server": {"version": "2026.9.6", "bootId": "b"}, "policy": {"tickIntervalMs": self.tick_millis}})
                }
                _ => json!({}),
            };
            self.answer(&asked, payload).await;
        }
    }

    async fn answer(&mut self, asked: &Value, payload: Value) {
        self.say(json!({"type": "res", "id": asked["id"], "ok": true, "payload": payload})).await;
    }
}

struct Scene {
    heard: TcpListener,
    agent: OpenclawAgent,
    events: mpsc::Receiver<AgentEvent>,
    tick_millis: u64,
}

impl Scene {
    async fn open(tick_millis: u64) -> Scene {
        let heard = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}", heard.local_addr().unwrap());
        let conversation = GatewayConversation::new(ConversationSettings {
            key: "agent:main:k".to_owned(),
            ..ConversationSettings::default()
        });
        let gateway =
            Gateway::new(url.clone(), None, Vec::new(), std::sync::Arc::new(StartedGateway::default()));
        let tools = GatewayTools {
            registry: ConfigWriter::default(),
            url,
            token: String::new(),
            servers: Vec::new(),
        };
        let mut agent = OpenclawAgent::new(conversation, gateway, tools);
        let (sender, events) = mpsc::channel(64);
        agent.start(sender);
        Scene { heard, agent, events, tick_millis }
    }

    /// A scene with a run in progress, and the message that started it.
    async fn at_work() -> (Scene, Side, Value) {
        let mut scene = Scene::open(60_000).await;
        let mut side = scene.connection().await;
        let asked = side.until("sessions.messages.subscribe").await;
        side.answer(&asked, json!({})).await;
        scene.wait_for("start", |event| matches!(event, AgentEvent::Ready { .. })).await;
        scene.agent.send(AgentInput::Prompt { text: "go".to_owned(), attachments: Vec::new() }).unwrap();
        let sent = side.until("chat.send").await;
        side.answer(&sent, json!({"status": "started"})).await;
        (scene, side, sent)
    }

    /// Accepts a connection and starts as a gateway does.
    async fn connection(&mut self) -> Side {
        let (stream, _) = tokio::time::timeout(DEADLINE, self.heard.accept()).await.unwrap().unwrap();
        let mut side = Side { socket: accept_async(stream).await.unwrap(), tick_millis: self.tick_millis };
        side.say(json!({"type": "event", "event": "connect.challenge", "payload": {"nonce": "n"}})).await;
        side
    }

    /// Waits for an event.
    async fn wait_for(&mut self, what: &str, is: impl Fn(&AgentEvent) -> bool) -> AgentEvent {
        loop {
            let event = tokio::time::timeout(DEADLINE, self.events.recv()).await;
            let event = event.unwrap_or_else(|_| panic!("no {what}")).unwrap();
            if is(&event) {
                return event;
            }
        }
    }

    async fn notice(&mut self, word: &str) {
        let says = |event: &AgentEvent| matches!(event, AgentEvent::Notice { message, .. } | AgentEvent::Waits { message, .. } if message.contains(word));
        self.wait_for(word, says).await;
    }
}

#[tokio::test]
async fn a_gateway_that_falls_silent_is_lost_and_asked_again() {
    let mut scene = Scene::open(2_000).await;
    let mut first = scene.connection().await;
    let asked = first.until("sessions.messages.subscribe").await;
    first.answer(&asked, json!({})).await;
    scene.wait_for("start", |event| matches!(event, AgentEvent::Ready { .. })).await;
    // It neither sends anything nor closes the connection.
    scene.notice("OBEY-2032").await;
    let mut second = scene.connection().await;
    let asked = second.until("sessions.messages.subscribe").await;
    second.answer(&asked, json!({})).await;
    scene.notice("is back").await;
    drop(first);
}

#[tokio::test]
async fn a_decision_is_told_when_the_connection_is_there_again() {
    let (mut scene, mut side, _) = Scene::at_work().await;
    let approval = json!({"id": "a1", "request": {"command": "ls", "sessionKey": "agent:main:k"}});
    side.say(json!({"type": "event", "event": "exec.approval.requested", "payload": approval})).await;
    let asks =
        |event: &AgentEvent| matches!(event, AgentEvent::Asked { ask: RequestSubject::Permission(_), .. });
    let AgentEvent::Asked { ask, .. } = scene.wait_for("request", asks).await else { panic!("no request") };
    drop(side);
    scene.notice("OBEY-2032").await;
    let decide = AgentInput::Decide {
        native: "a1".to_owned(),
        decision: Decision::AllowOnce,
        message: String::new(),
        updated_input: None,
        ask,
    };
    scene.agent.send(decide).unwrap();
    let mut side = scene.connection().await;
    let asked = side.until("exec.approval.list").await;
    side.answer(&asked, json!([approval])).await;
    let told = side.until("exec.approval.resolve").await;
    assert_eq!(told["params"], json!({"id": "a1", "decision": "allow-once"}));
}

#[tokio::test]
async fn what_is_being_done_ends_with_the_session() {
    let (mut scene, mut side, sent) = Scene::at_work().await;
    scene.agent.stop();
    let asked = side.until("chat.abort").await;
    assert_eq!(asked["params"]["runId"], sent["params"]["idempotencyKey"]);
    side.answer(&asked, json!({"aborted": true})).await;
    // It has ended when nothing can send reports any more.
    let ended = async { while scene.events.recv().await.is_some() {} };
    tokio::time::timeout(DEADLINE, ended).await.expect("its end");
}
