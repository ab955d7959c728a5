//! OpenTelemetry: a collector of the test's own decodes what the daemon sends by the published messages. One trace goes from
//! a client's call to the agent's first output, and nothing that was said or is secret is in it.

use std::collections::HashMap;
use std::fs;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use e2e::cli::Cli;
use e2e::clients::wait_event;
use e2e::daemon::Daemon;
use e2e::deadline::poll;
use e2e::world::World;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::task::JoinHandle;
use wire::obey::v1::{PromptRequest, ReadEventsRequest};

/// What looks like a token of GitHub to every scanner.
const SECRET: &str = "ghp_0123456789abcdefghijABCDEFGHIJ456789";
/// Words of the prompt and of the output, which must stay here.
const SAID: [&str; 3] = ["pomegranate", "quince", SECRET];
const PROMPT: &str = r#"a pomegranate SCRIPT: [{"text":"one quince, ghp_0123456789abcdefghijABCDEFGHIJ456789\n"},
    {"tool":"Bash","input":{"command":"ls"},"ask":true,"result":"README.md"}]"#;

/// The place of the test in a trace of its own.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// One request of the daemon.
struct Received {
    path: &'static str,
    headers: HeaderMap,
    body: Bytes,
}

type Requests = Arc<Mutex<Vec<Received>>>;

/// A collector that keeps what it gets.
struct Collector {
    address: std::net::SocketAddr,
    requests: Requests,
    task: JoinHandle<()>,
}

impl Collector {
    async fn start() -> Result<Self> {
        let requests = Requests::default();
        let keep = |path: &'static str| {
            post(move |State(kept): State<Requests>, headers: HeaderMap, body: Bytes| async move {
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(Received { path, headers, body });
                StatusCode::OK
            })
        };
        let routes = Router::new().route("/v1/traces", keep("traces")).route("/v1/logs", keep("logs"));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let service = routes.with_state(Arc::clone(&requests));
        let task = tokio::spawn(async move {
            // It is ended with the test.
            let _ended = axum::serve(listener, service).await;
        });
        Ok(Self { address, requests, task })
    }

    /// Decodes what came to a path.
    fn decoded<M: prost::Message + Default>(&self, path: &str) -> Vec<M> {
        let kept = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let bodies = kept.iter().filter(|received| received.path == path);
        bodies.map(|received| M::decode(received.body.clone()).unwrap_or_default()).collect()
    }

    /// Every span, with its name.
    fn spans(&self) -> Vec<Span> {
        let requests = self.decoded::<ExportTraceServiceRequest>("traces");
        let resources = requests.into_iter().flat_map(|request| request.resource_spans);
        resources.flat_map(|resource| resource.scope_spans).flat_map(|scope| scope.spans).collect()
    }

    /// The message, level and fields of every line of the log.
    fn lines(&self) -> Vec<String> {
        let requests = self.decoded::<ExportLogsServiceRequest>("logs");
        let resources = requests.into_iter().flat_map(|request| request.resource_logs);
        let records = resources.flat_map(|resource| resource.scope_logs).flat_map(|scope| scope.log_records);
        records
            .map(|record| {
                let fields: Vec<String> = texts(&record.attributes).into_values().collect();
                format!("{} {} {}", record.severity_text, shown(record.body.as_ref()), fields.join(" "))
            })
            .collect()
    }
}

fn shown(value: Option<&AnyValue>) -> String {
    match value.and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        other => format!("{other:?}"),
    }
}

fn texts(attributes: &[KeyValue]) -> HashMap<String, String> {
    attributes.iter().map(|pair| (pair.key.clone(), shown(pair.value.as_ref()))).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn one_trace_goes_from_a_call_to_the_first_output_and_says_nothing() -> Result<()> {
    let collector = Collector::start().await?;
    let world = World::new()?;
    world.set_env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}/", collector.address));
    world.set_env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20of-the-collector");
    world.set_env("OTEL_BSP_SCHEDULE_DELAY", "100");
    world.set_env("OTEL_BLRP_SCHEDULE_DELAY", "100");
    let config = world.path("config/obey");
    fs::create_dir_all(&config)?;
    // Each notice fails, and the log says for which program.
    fs::write(config.join("config.toml"), format!("[notices]\nhook = \"/nowhere/{SECRET}\"\n"))?;
    let mut daemon = Daemon::start(&world).await?;
    let cli = Cli::new(&world);
    cli.ok(&["campaign", "add", ".", "--name", "shop"]).await?;
    let id = cli.ok(&["session", "create", "-c", "shop", "-p", "scripted"]).await?.session_id()?;

    let mut clients = daemon.clients().await?;
    let prompt = PromptRequest { session_id: id.clone(), text: PROMPT.to_owned(), ..Default::default() };
    let mut call = tonic::Request::new(prompt);
    call.metadata_mut().insert("traceparent", format!("00-{TRACE}-{PARENT}-01").parse()?);
    clients.turns.prompt(call).await?;
    let request = ReadEventsRequest { session_id: id.clone(), follow: true, ..Default::default() };
    let mut events = clients.events.read_events(request).await?.into_inner();
    wait_event(&mut events, "the request", |event| event.r#type == "request_opened").await?;
    // Answered sooner, the request would be no reason for a notice any more.
    let lines = poll("the lines of the log", || {
        let lines = collector.lines();
        lines.iter().any(|line| line.contains("a notice was not delivered")).then_some(lines)
    })
    .await?;
    ensure!(lines.iter().any(|line| line.starts_with("WARN ") && line.contains("/nowhere/")), "{lines:?}");
    cli.ok(&["session", "approve", &id]).await?;
    wait_event(&mut events, "the end of the turn", |event| event.r#type == "turn_ended").await?;

    let spans = poll("three spans of the trace", || {
        let spans = collector.spans();
        let ours: Vec<Span> = spans.into_iter().filter(|span| hex(&span.trace_id) == TRACE).collect();
        (ours.len() >= 3).then_some(ours)
    })
    .await?;
    follow(&spans, &id)?;
    let others = collector.spans().into_iter().filter(|span| hex(&span.trace_id) != TRACE);
    let is_root = |span: &Span| span.parent_span_id.is_empty() && span.name.ends_with("CreateSession");
    ensure!(others.into_iter().any(|span| is_root(&span)), "a call without a trace begins one");

    nothing_was_said(&collector)?;

    // What waits is sent at the end; a collector that is away delays nothing.
    daemon.terminate().await?;
    ensure!(collector.lines().iter().any(|line| line.contains("told to end")), "{:?}", collector.lines());
    collector.task.abort();
    daemon.restart().await?;
    poll("the warning", || daemon.log().contains("do not reach telemetry.endpoint").then_some(())).await?;
    cli.ok(&["ping"]).await?;
    daemon.terminate().await?;
    Ok(())
}

/// Checks the way from the call over the turn to the first output.
fn follow(spans: &[Span], id: &str) -> Result<()> {
    let named = |name: &str| {
        spans.iter().find(|span| span.name == name).with_context(|| format!("{name}: {spans:?}"))
    };
    let call = named("obey.v1.TurnService/Prompt")?;
    let (turn, first) = (named("turn")?, named("first_output")?);
    ensure!(hex(&call.parent_span_id) == PARENT, "{call:?}");
    ensure!(turn.parent_span_id == call.span_id && first.parent_span_id == turn.span_id, "{spans:?}");
    ensure!(call.start_time_unix_nano <= turn.start_time_unix_nano, "{spans:?}");
    ensure!(
        call.end_time_unix_nano < turn.end_time_unix_nano,
        "the call is over when its turn begins: {spans:?}"
    );
    ensure!(first.end_time_unix_nano < turn.end_time_unix_nano, "the turn waited for an answer: {spans:?}");
    let attributes = texts(&turn.attributes);
    ensure!(attributes["session.id"] == id && attributes["provider"] == "scripted", "{attributes:?}");
    ensure!(attributes["end_reason"] == "completed", "{attributes:?}");
    Ok(())
}

/// Looks through every byte that was sent.
fn nothing_was_said(collector: &Collector) -> Result<()> {
    let requests = collector.requests.lock().unwrap_or_else(PoisonError::into_inner);
    for received in requests.iter() {
        let text = String::from_utf8_lossy(&received.body);
        for word in SAID {
            ensure!(!text.contains(word), "{word} was sent: {text}");
        }
        let header = |name: &str| received.headers.get(name).and_then(|value| value.to_str().ok());
        ensure!(header("authorization") == Some("Bearer of-the-collector"), "{:?}", received.headers);
        ensure!(header("content-type") == Some("application/x-protobuf"), "{:?}", received.headers);
        ensure!(text.contains("service.name") && text.contains("obey"), "{text}");
    }
    Ok(())
}
