//! The floor: a bare relay in memory, pipe in, gRPC stream out. No journal, no rules, no shim, no recovery.
//! No daemon on this machine, with these libraries, can be much better than this.
//!
//! It serves the same calls as the daemon, so that one client reads both.

use std::path::PathBuf;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as TaskContext, Poll};

use anyhow::{Context, Result};
use futures_core::Stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio_stream::wrappers::{UnixListenerStream, WatchStream};
use tonic::{Request, Response, Status};
use wire::obey::v1 as pb;
use wire::obey::v1::event_service_server::{EventService, EventServiceServer};
use wire::obey::v1::request_service_server::{RequestService, RequestServiceServer};
use wire::obey::v1::turn_service_server::{TurnService, TurnServiceServer};

/// Serves on the given socket until it is killed.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let socket = PathBuf::from(args.first().context("floor SOCKET")?);
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(serve(socket))
}

async fn serve(socket: PathBuf) -> Result<()> {
    let mut emitter = Command::new(std::env::current_exe()?)
        .arg("scripted-agent")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let input = emitter.stdin.take().context("no stdin")?;
    let output = emitter.stdout.take().context("no stdout")?;
    // As the shim does for its agents.
    let _best_effort = rustix::pipe::fcntl_setpipe_size(&output, 256 << 10);
    let relay =
        Relay { log: Arc::new(Log::default()), input: Arc::new(tokio::sync::Mutex::new(input)), emitter };
    tokio::spawn(take_output(output, Arc::clone(&relay.log)));
    let listener = UnixListener::bind(&socket)?;
    println!("ready");
    let relay = Arc::new(relay);
    tonic::transport::Server::builder()
        .add_service(EventServiceServer::from_arc(Arc::clone(&relay)))
        .add_service(RequestServiceServer::from_arc(Arc::clone(&relay)))
        .add_service(TurnServiceServer::from_arc(relay))
        .serve_with_incoming(UnixListenerStream::new(listener))
        .await?;
    Ok(())
}

struct Relay {
    log: Arc<Log>,
    input: Arc<tokio::sync::Mutex<ChildStdin>>,
    /// Killed together with us.
    #[allow(dead_code)]
    emitter: tokio::process::Child,
}

/// All lines so far, and their number.
struct Log {
    lines: Mutex<Vec<Arc<str>>>,
    count: watch::Sender<usize>,
}

impl Default for Log {
    fn default() -> Self {
        Self { lines: Mutex::default(), count: watch::Sender::new(0) }
    }
}

async fn take_output(mut output: ChildStdout, log: Arc<Log>) {
    let mut buffer = Vec::with_capacity(256 << 10);
    while let Ok(1..) = output.read_buf(&mut buffer).await {
        let Some(end) = buffer.iter().rposition(|byte| *byte == b'\n') else { continue };
        let count = {
            let mut lines = log.lines.lock().unwrap_or_else(PoisonError::into_inner);
            let whole = buffer[..end].split(|byte| *byte == b'\n');
            lines.extend(whole.map(|line| Arc::from(String::from_utf8_lossy(line))));
            lines.len()
        };
        buffer.drain(..=end);
        log.count.send_replace(count);
    }
}

/// Reads the log from a position on.
struct Lines {
    log: Arc<Log>,
    at: usize,
    left: u64,
    ready: std::vec::IntoIter<Arc<str>>,
    count: WatchStream<usize>,
}

/// Lines taken under one lock.
const TAKE_MAX: usize = 512;

impl Stream for Lines {
    type Item = Result<pb::Event, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if self.left == 0 {
                return Poll::Ready(None);
            }
            if let Some(line) = self.ready.next() {
                self.at += 1;
                self.left -= 1;
                let (seq, json) = (self.at as u64, String::from(&*line));
                return Poll::Ready(Some(Ok(pb::Event { seq, json, ..pb::Event::default() })));
            }
            let taken: Vec<Arc<str>> = {
                let lines = self.log.lines.lock().unwrap_or_else(PoisonError::into_inner);
                lines.iter().skip(self.at).take(TAKE_MAX).cloned().collect()
            };
            if !taken.is_empty() {
                self.ready = taken.into_iter();
                continue;
            }
            match Pin::new(&mut self.count).poll_next(context) {
                Poll::Ready(Some(_)) => {}
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

#[tonic::async_trait]
impl EventService for Relay {
    type ReadEventsStream = Lines;

    async fn reveal(
        &self,
        _: tonic::Request<wire::obey::v1::RevealRequest>,
    ) -> Result<tonic::Response<wire::obey::v1::RevealResponse>, tonic::Status> {
        Err(tonic::Status::unimplemented("reveal"))
    }

    async fn get_scrubbing(
        &self,
        _: tonic::Request<wire::obey::v1::GetScrubbingRequest>,
    ) -> Result<tonic::Response<wire::obey::v1::GetScrubbingResponse>, tonic::Status> {
        Err(tonic::Status::unimplemented("get_scrubbing"))
    }

    async fn read_events(&self, request: Request<pb::ReadEventsRequest>) -> Result<Response<Lines>, Status> {
        let request = request.into_inner();
        Ok(Response::new(Lines {
            log: Arc::clone(&self.log),
            at: usize::try_from(request.after_seq).unwrap_or(usize::MAX),
            left: if request.limit == 0 { u64::MAX } else { request.limit },
            ready: Vec::new().into_iter(),
            count: WatchStream::new(self.log.count.subscribe()),
        }))
    }
}

impl Relay {
    async fn tell(&self, told: &serde_json::Value) -> Result<(), Status> {
        let written = self.input.lock().await.write_all(format!("{told}\n").as_bytes()).await;
        written.map_err(|error| Status::internal(error.to_string()))
    }
}

#[tonic::async_trait]
impl RequestService for Relay {
    async fn answer_permission(
        &self,
        request: Request<pb::AnswerPermissionRequest>,
    ) -> Result<Response<pb::AnswerResponse>, Status> {
        let id = request.into_inner().request_id;
        self.tell(&serde_json::json!({"do": "decide", "id": id, "allow": true})).await?;
        Ok(Response::new(pb::AnswerResponse::default()))
    }

    async fn answer_question(
        &self,
        _: Request<pb::AnswerQuestionRequest>,
    ) -> Result<Response<pb::AnswerResponse>, Status> {
        Err(Status::unimplemented("the floor only relays"))
    }

    async fn list_requests(
        &self,
        _: Request<pb::ListRequestsRequest>,
    ) -> Result<Response<pb::ListRequestsResponse>, Status> {
        Err(Status::unimplemented("the floor only relays"))
    }
}

#[tonic::async_trait]
impl TurnService for Relay {
    async fn prompt(
        &self,
        request: Request<pb::PromptRequest>,
    ) -> Result<Response<pb::PromptResponse>, Status> {
        self.tell(&serde_json::json!({"do": "prompt", "text": request.into_inner().text})).await?;
        Ok(Response::new(pb::PromptResponse::default()))
    }

    async fn cancel_turn(
        &self,
        _: Request<pb::CancelTurnRequest>,
    ) -> Result<Response<pb::CancelTurnResponse>, Status> {
        Err(Status::unimplemented("the floor only relays"))
    }

    async fn set_mode(
        &self,
        _: Request<pb::SetModeRequest>,
    ) -> Result<Response<pb::SetModeResponse>, Status> {
        Err(Status::unimplemented("the floor only relays"))
    }
}
