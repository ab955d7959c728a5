//! The agent of a session as its actor sees it, whether it is a process behind a shim or runs inside the
//! daemon.

use std::path::PathBuf;
use std::sync::Arc;

use domain::{AgentEvent, AgentInput, Error, ErrorCode, Exit, Input, Timestamp};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::carry;
use crate::limits;
use crate::process::lines::{LineAssembler, OutputLine};
use crate::process::{self, AgentLink, AgentOutput, Batch, Delivery, OutputEnd, Position, Stream};
use agent_port::{ClientRequestHandler, Codec, Decoded, InProcessAgent};
use host::clock;
use storage::SpoolMark;

/// The connection to the agent, if there is one.
pub(super) enum AgentHandle {
    None,
    Process(Box<ProcessAgent>),
    InProcess { agent: Box<dyn InProcessAgent>, events: mpsc::Receiver<AgentEvent> },
}

/// Something that came from an agent.
pub(super) enum AgentInputEvent {
    Output(AgentOutput),
    Events(Vec<AgentEvent>),
    /// A client request is done.
    Returned {
        id: String,
        result: Result<Value, Error>,
    },
    /// The agent inside the daemon has ended.
    Silence,
}

impl AgentHandle {
    /// Waits for the next item; forever if there is no agent. Cancel-safe.
    pub(super) async fn next(&mut self) -> AgentInputEvent {
        match self {
            Self::None => std::future::pending().await,
            Self::Process(process) => process.next().await,
            Self::InProcess { events, .. } => {
                // Everything that has accumulated is written in one transaction.
                let mut heard = Vec::new();
                match events.recv_many(&mut heard, limits::IN_PROCESS_EVENTS_MAX).await {
                    0 => AgentInputEvent::Silence,
                    _ => AgentInputEvent::Events(heard),
                }
            }
        }
    }
}

/// A process behind its shim. The codec for its lines is part of the session's state.
pub(super) struct ProcessAgent {
    pub(super) link: AgentLink,
    pub(super) dir: PathBuf,
    out: LineAssembler,
    err: LineAssembler,
    /// The segment of the stored position; segments before it are not needed any more.
    marked_segment: u32,
    /// Bytes read since the stored position.
    unmarked_bytes: u64,
    helper: Option<Arc<dyn ClientRequestHandler>>,
    /// The codec gave up on the agent and it is being killed; the rest of its output is ignored.
    pub(super) is_given_up: bool,
    /// Client requests in progress; they are aborted when the agent ends.
    client_requests: JoinSet<(String, Result<Value, Error>)>,
}

/// The meaning of a batch of output.
pub(super) struct Ingested {
    pub(super) inputs: Vec<(Timestamp, Input)>,
    /// Answers for the agent, encoded by the codec.
    pub(super) replies: Vec<Vec<u8>>,
    pub(super) applied: Option<u64>,
    /// The position after the last record.
    pub(super) after: Position,
}

impl Ingested {
    fn until(after: Position) -> Self {
        Self { inputs: Vec::new(), replies: Vec::new(), applied: None, after }
    }
}

impl ProcessAgent {
    pub(super) fn new(link: AgentLink, dir: PathBuf) -> Self {
        Self::resumed(link, dir, &[])
    }

    /// Resumes at a stored position.
    pub(super) fn resumed(link: AgentLink, dir: PathBuf, carry: &[u8]) -> Self {
        let (out, err) = carry::lines(carry);
        let (out, err) = (LineAssembler::restore(out), LineAssembler::restore(err));
        let marked_segment = link.position().segment;
        Self {
            link,
            dir,
            out,
            err,
            marked_segment,
            unmarked_bytes: 0,
            helper: None,
            is_given_up: false,
            client_requests: JoinSet::new(),
        }
    }

    /// Sets the handler for the agent's client requests.
    pub(super) fn helped_by(mut self, helper: Option<Arc<dyn ClientRequestHandler>>) -> Self {
        self.helper = helper;
        self
    }

    async fn next(&mut self) -> AgentInputEvent {
        tokio::select! {
            biased;
            next = self.link.next() => AgentInputEvent::Output(next),
            Some(done) = self.client_requests.join_next(), if !self.client_requests.is_empty() => match done {
                Ok((id, result)) => AgentInputEvent::Returned { id, result },
                // Which request panicked is unknown; the agent's own timeout ends it.
                Err(error) => {
                    tracing::error!(%error, "an errand broke down");
                    AgentInputEvent::Returned { id: String::new(), result: Err(broken_down()) }
                }
            },
        }
    }

    /// Begins what the agent wants done.
    pub(super) fn begin_client_requests(&mut self, codec: &mut dyn Codec) {
        for client_request in codec.take_client_requests() {
            let Some(helper) = &self.helper else {
                self.client_requests.spawn(async { (client_request.id, Err(broken_down())) });
                continue;
            };
            let work = helper.run(client_request.what);
            self.client_requests.spawn(async { (client_request.id, work.await) });
        }
    }

    /// Translates the result of a client request.
    pub(super) fn take_returned(
        &self,
        codec: &mut dyn Codec,
        id: &str,
        result: Result<Value, Error>,
    ) -> Ingested {
        let (mut decoded, now) = (Decoded::default(), clock::now());
        codec.client_request_done(id, result, &mut decoded);
        let mut ingested = Ingested::until(self.link.position());
        ingested.inputs.extend(decoded.events.into_iter().map(|event| (now, Input::Agent(event))));
        if !decoded.replies.is_empty() {
            ingested.replies.push(decoded.replies);
        }
        ingested
    }

    /// Translates a batch. The result contains everything it means; nothing is carried out yet.
    pub(super) fn ingest(&mut self, codec: &mut dyn Codec, batch: &Batch) -> Ingested {
        let mut ingested = Ingested::until(batch.after);
        for record in batch.records() {
            self.unmarked_bytes += record.payload.len() as u64;
            let at = clock::wall_time_of(record.t_mono_ns);
            match record.stream {
                Stream::Out => self.take_output(codec, at, record.payload, &mut ingested),
                Stream::Err => {
                    self.err.push(record.payload, &mut |line| ingested.inputs.push((at, logged(line))));
                }
                Stream::Input => {
                    if let Some(input) = process::Input::decode(record.payload) {
                        ingested.applied = Some(input.write_id);
                        if input.delivery == Delivery::Undeliverable {
                            ingested.inputs.push((at, undelivered()));
                        }
                    }
                }
                Stream::Meta | Stream::Exit | Stream::Other(_) => {}
            }
        }
        ingested
    }

    /// Translates the end. A last line without a line end still counts.
    pub(super) fn finish(&mut self, codec: &mut dyn Codec, exit: Exit) -> Ingested {
        let mut ingested = Ingested::until(self.link.position());
        let now = clock::now();
        if !self.out.carry().partial.is_empty() {
            self.take_output(codec, now, b"\n", &mut ingested);
        }
        self.err.finish(&mut |line| ingested.inputs.push((now, logged(line))));
        ingested.inputs.push((now, Input::AgentExited(exit)));
        ingested
    }

    /// Returns whether the position should be stored although no event came of what was read, so that
    /// segments can be deleted. An unfinished line is stored with the position, so a long one stays in the
    /// spool unless it fills it.
    pub(super) fn wants_mark(&self, after: Position, spool_bytes_max: u64) -> bool {
        let carried = self.out.carry().partial.len() + self.err.carry().partial.len();
        after.segment > self.marked_segment
            && (carried <= limits::CARRY_CHEAP_BYTES || self.unmarked_bytes > spool_bytes_max / 4)
    }

    /// Returns the mark to store for a position. It contains a copy of an unfinished line, so it is made only for a write.
    pub(super) fn mark(&self, position: Position) -> SpoolMark {
        carry::mark(position, self.out.carry(), self.err.carry())
    }

    /// Notes that a mark is stored.
    pub(super) fn note_mark(&mut self, mark: &SpoolMark) {
        self.marked_segment = mark.segment;
        self.unmarked_bytes = 0;
    }

    /// Splits stdout into lines and decodes each.
    fn take_output(&mut self, codec: &mut dyn Codec, at: Timestamp, bytes: &[u8], ingested: &mut Ingested) {
        let is_given_up = &mut self.is_given_up;
        self.out.push(bytes, &mut |line| {
            let mut decoded = Decoded::default();
            match line {
                OutputLine::Whole(line) => codec.decode(line, &mut decoded),
                OutputLine::Oversize { head, length } => decoded.events.push(AgentEvent::Unparsed {
                    raw: String::from_utf8_lossy(head).into_owned(),
                    length: Some(length),
                }),
            }
            *is_given_up |= decoded.events.iter().any(|event| matches!(event, AgentEvent::Broken { .. }));
            ingested.inputs.extend(decoded.events.into_iter().map(|event| (at, Input::Agent(event))));
            if !decoded.replies.is_empty() {
                ingested.replies.push(decoded.replies);
            }
        });
    }
}

/// A codec that understands and sends nothing: for the remaining output of an agent whose real codec
/// panicked.
#[derive(Clone)]
pub(super) struct SilentCodec {
    pub(super) saved: String,
}

impl Codec for SilentCodec {
    fn open(&mut self, _wire: &mut Vec<u8>) {}

    fn decode(&mut self, line: &[u8], out: &mut Decoded) {
        let raw =
            String::from_utf8_lossy(&line[..line.len().min(domain::limits::UNPARSED_MAX_BYTES)]).into_owned();
        out.events.push(AgentEvent::Unparsed { raw, length: None });
    }

    fn encode(&mut self, _input: &AgentInput, _wire: &mut Vec<u8>) -> Result<(), Error> {
        Ok(())
    }

    fn save(&self) -> String {
        self.saved.clone()
    }

    fn revision(&self) -> u64 {
        0
    }

    fn boxed_clone(&self) -> Box<dyn Codec> {
        Box::new(self.clone())
    }
}

fn broken_down() -> Error {
    Error::new(ErrorCode::CommandFailed, "nobody here can do that")
}

/// Exit message of an agent whose shim obeyed a program that was not the daemon.
pub(super) const TAKEN_OVER: &str =
    "another program took control of the process that held the agent; both were ended";

/// Returns how an agent ended.
pub(super) fn exit_of(end: OutputEnd) -> Exit {
    match end {
        OutputEnd::Exited(exit) if exit.signal != 0 => {
            Exit { signal: Some(exit.signal), message: lost_bytes(exit.lost_bytes), ..Exit::default() }
        }
        OutputEnd::Exited(exit) => {
            Exit { code: Some(exit.code), message: lost_bytes(exit.lost_bytes), ..Exit::default() }
        }
        OutputEnd::ShimLost => {
            Exit { message: "the process that held the agent was killed".to_owned(), ..Exit::default() }
        }
    }
}

fn lost_bytes(count: u64) -> String {
    if count == 0 { String::new() } else { format!("{count} bytes of its last output could not be kept") }
}

/// Input for an agent that has closed its stdin and can never be reached again.
fn undelivered() -> Input {
    Input::Agent(AgentEvent::Broken {
        code: Some(ErrorCode::DeliveryFailed),
        message: "the agent no longer takes input, so a message did not reach it".to_owned(),
    })
}

fn logged(line: OutputLine<'_>) -> Input {
    let bytes = match line {
        OutputLine::Whole(bytes) => bytes,
        OutputLine::Oversize { head, .. } => head,
    };
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(domain::limits::UNPARSED_MAX_BYTES)]);
    Input::Agent(AgentEvent::Logged(text.into_owned()))
}

/// Sends input to an agent inside the daemon. A process gets its input through the outbox.
pub(super) fn tell_in_process(agent: &mut AgentHandle, input: AgentInput) -> Result<(), Error> {
    match agent {
        AgentHandle::InProcess { agent, .. } => agent.send(input),
        AgentHandle::None | AgentHandle::Process(_) => Ok(()),
    }
}
