//! The agent of a session as its actor sees it, whether it is a process behind a shim or lives in the daemon.

use std::path::PathBuf;
use std::sync::Arc;

use domain::{AgentEvent, AgentInput, Error, ErrorCode, Exit, Input, Timestamp};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::limits;
use crate::process::lines::{LineAssembler, OutputLine, OversizeLine, PartialLine};
use crate::process::{self, AgentLink, AgentOutput, Batch, Delivery, OutputEnd, Position, Stream};
use agent_port::{ClientRequestHandler, Codec, Decoded, InProcessAgent};
use host::clock;
use storage::SpoolMark;

/// What holds the agent, if there is one.
pub(super) enum AgentHandle {
    None,
    Process(Box<ProcessAgent>),
    InProcess { agent: Box<dyn InProcessAgent>, events: mpsc::Receiver<AgentEvent> },
}

/// What an agent brought.
pub(super) enum AgentInputEvent {
    Output(AgentOutput),
    Events(Vec<AgentEvent>),
    /// An errand is done.
    Returned {
        id: String,
        result: Result<Value, Error>,
    },
    /// The agent inside the daemon is gone.
    Silence,
}

impl AgentHandle {
    /// Waits for what comes next; without an agent, forever. Cancel-safe.
    pub(super) async fn next(&mut self) -> AgentInputEvent {
        match self {
            Self::None => std::future::pending().await,
            Self::Process(process) => process.next().await,
            Self::InProcess { events, .. } => {
                // What has piled up is written in one go.
                let mut heard = Vec::new();
                match events.recv_many(&mut heard, limits::IN_PROCESS_EVENTS_MAX).await {
                    0 => AgentInputEvent::Silence,
                    _ => AgentInputEvent::Events(heard),
                }
            }
        }
    }
}

/// A process behind its shim, with the codec for its lines.
pub(super) struct ProcessAgent {
    pub(super) link: AgentLink,
    pub(super) codec: Box<dyn Codec>,
    pub(super) dir: PathBuf,
    out: LineAssembler,
    err: LineAssembler,
    /// The segment of the stored mark; what lies before it is not needed any more.
    marked_segment: u32,
    /// Read since the stored mark.
    unmarked_bytes: u64,
    helper: Option<Arc<dyn ClientRequestHandler>>,
    /// Its codec has given it up and it is being killed: whatever else it said is of no use.
    pub(super) is_given_up: bool,
    /// Errands under way; they end with the agent.
    client_requests: JoinSet<(String, Result<Value, Error>)>,
}

/// What a batch of output meant.
pub(super) struct Ingested {
    pub(super) inputs: Vec<(Timestamp, Input)>,
    /// Answers the agent must get, in the codec's words.
    pub(super) replies: Vec<Vec<u8>>,
    pub(super) applied: Option<u64>,
    /// The place after the last record.
    pub(super) after: Position,
}

impl Ingested {
    fn until(after: Position) -> Self {
        Self { inputs: Vec::new(), replies: Vec::new(), applied: None, after }
    }
}

impl ProcessAgent {
    pub(super) fn new(link: AgentLink, codec: Box<dyn Codec>, dir: PathBuf) -> Self {
        Self::resumed(link, codec, dir, &[])
    }

    /// Goes on where a stored mark says.
    pub(super) fn resumed(link: AgentLink, codec: Box<dyn Codec>, dir: PathBuf, carry: &[u8]) -> Self {
        let mut rest = carry;
        let out = LineAssembler::restore(take_carry(&mut rest));
        let err = LineAssembler::restore(take_carry(&mut rest));
        let marked_segment = link.position().segment;
        Self {
            link,
            codec,
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

    /// Gives the agent somebody who runs its errands.
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
                // Nobody knows whose it was; the agent's own patience ends it.
                Err(error) => {
                    tracing::error!(%error, "an errand broke down");
                    AgentInputEvent::Returned { id: String::new(), result: Err(broken_down()) }
                }
            },
        }
    }

    /// Begins what the agent wants done.
    pub(super) fn begin_client_requests(&mut self) {
        for client_request in self.codec.take_client_requests() {
            let Some(helper) = &self.helper else {
                self.client_requests.spawn(async { (client_request.id, Err(broken_down())) });
                continue;
            };
            let work = helper.run(client_request.what);
            self.client_requests.spawn(async { (client_request.id, work.await) });
        }
    }

    /// Translates what became of an errand.
    pub(super) fn take_returned(&mut self, id: &str, result: Result<Value, Error>) -> Ingested {
        let (mut decoded, now) = (Decoded::default(), clock::now());
        self.codec.client_request_done(id, result, &mut decoded);
        let mut ingested = Ingested::until(self.link.position());
        ingested.inputs.extend(decoded.events.into_iter().map(|event| (now, Input::Agent(event))));
        if !decoded.replies.is_empty() {
            ingested.replies.push(decoded.replies);
        }
        ingested
    }

    /// Translates a batch. Everything it says is in the result; nothing is done yet.
    pub(super) fn ingest(&mut self, batch: &Batch) -> Ingested {
        let mut ingested = Ingested::until(batch.after);
        for record in batch.records() {
            self.unmarked_bytes += record.payload.len() as u64;
            let at = clock::wall_time_of(record.t_mono_ns);
            match record.stream {
                Stream::Out => self.take_output(at, record.payload, &mut ingested),
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

    /// Translates the end: what was said without a line end still counts.
    pub(super) fn finish(&mut self, exit: Exit) -> Ingested {
        let mut ingested = Ingested::until(self.link.position());
        let now = clock::now();
        if !self.out.carry().partial.is_empty() {
            self.take_output(now, b"\n", &mut ingested);
        }
        self.err.finish(&mut |line| ingested.inputs.push((now, logged(line))));
        ingested.inputs.push((now, Input::AgentExited(exit)));
        ingested
    }

    /// Whether the place should be stored although nothing came of what was read, so that segments can be deleted. An
    /// unfinished line is stored with it, so a long one is left where it is, unless it fills the spool.
    pub(super) fn wants_mark(&self, after: Position, spool_bytes_max: u64) -> bool {
        let carried = self.out.carry().partial.len() + self.err.carry().partial.len();
        after.segment > self.marked_segment
            && (carried <= limits::CARRY_CHEAP_BYTES || self.unmarked_bytes > spool_bytes_max / 4)
    }

    /// What is to be stored for a place; from then on it is the stored one. Holds a copy of an unfinished line, so it is
    /// made only for a write.
    pub(super) fn mark(&mut self, Position { segment, offset }: Position) -> SpoolMark {
        self.marked_segment = segment;
        self.unmarked_bytes = 0;
        let mut carry = Vec::new();
        if *self.out.carry() != PartialLine::default() || *self.err.carry() != PartialLine::default() {
            put_carry(self.out.carry(), &mut carry);
            put_carry(self.err.carry(), &mut carry);
        }
        SpoolMark { segment, offset, carry }
    }

    fn take_output(&mut self, at: Timestamp, bytes: &[u8], ingested: &mut Ingested) {
        let (codec, is_given_up) = (&mut self.codec, &mut self.is_given_up);
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

/// Understands nothing and says nothing: for the last words of an agent whose real codec broke down.
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
}

fn broken_down() -> Error {
    Error::new(ErrorCode::CommandFailed, "nobody here can do that")
}

/// How an agent ended whose shim obeyed a program that was not the daemon.
pub(super) const TAKEN_OVER: &str =
    "another program took control of the process that held the agent; both were ended";

/// Says how an agent ended.
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

/// An agent that has closed its input can never be told anything again.
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

/// Stored form of a carry: length, bytes, and for a line that is too long its length so far and whether it ends in CR.
fn put_carry(carry: &PartialLine, out: &mut Vec<u8>) {
    out.extend_from_slice(&(carry.partial.len() as u64).to_le_bytes());
    out.extend_from_slice(&carry.partial);
    match carry.oversize {
        None => out.push(0),
        Some(OversizeLine { length, ends_with_cr }) => {
            out.push(1 + u8::from(ends_with_cr));
            out.extend_from_slice(&length.to_le_bytes());
        }
    }
}

/// Reads a carry off the front; what is cut short reads as nothing carried.
fn take_carry(rest: &mut &[u8]) -> PartialLine {
    take_carry_checked(rest).unwrap_or_default()
}

fn take_carry_checked(rest: &mut &[u8]) -> Option<PartialLine> {
    let (length, behind) = rest.split_first_chunk::<8>()?;
    let (partial, behind) = behind.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    let (&mark, behind) = behind.split_first()?;
    *rest = behind;
    let oversize = if mark == 0 {
        None
    } else {
        let (length, behind) = rest.split_first_chunk::<8>()?;
        *rest = behind;
        Some(OversizeLine { length: u64::from_le_bytes(*length), ends_with_cr: mark == 2 })
    };
    Some(PartialLine { partial: partial.to_vec(), oversize })
}

/// Tells an agent inside the daemon; one that is a process is told through the outbox.
pub(super) fn tell_in_process(agent: &mut AgentHandle, input: AgentInput) -> Result<(), Error> {
    match agent {
        AgentHandle::InProcess { agent, .. } => agent.send(input),
        AgentHandle::None | AgentHandle::Process(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_carry_reads_back() {
        let plain = PartialLine { partial: b"half a li".to_vec(), oversize: None };
        let huge = PartialLine {
            partial: b"head".to_vec(),
            oversize: Some(OversizeLine { length: 1 << 40, ends_with_cr: true }),
        };
        let mut stored = Vec::new();
        put_carry(&plain, &mut stored);
        put_carry(&huge, &mut stored);
        let mut rest = stored.as_slice();
        assert_eq!(take_carry(&mut rest), plain);
        assert_eq!(take_carry(&mut rest), huge);
        assert_eq!(take_carry(&mut rest), PartialLine::default());
    }
}
