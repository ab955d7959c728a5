//! The agent of a session as its actor sees it, whether it is a process behind a shim or lives in the daemon.

use std::path::PathBuf;

use domain::{AgentEvent, AgentInput, Error, Exit, Input, Timestamp};
use tokio::sync::mpsc;

use crate::clock;
use crate::process::{Batch, Ending, Line, LineAssembler, Link, Position, Stream};
use crate::provider::{Codec, Decoded, InProcessAgent};
use crate::store::SpoolMark;

/// What holds the agent, if there is one.
pub(super) enum Agent {
    None,
    Process(Box<ProcessAgent>),
    InProcess { agent: Box<dyn InProcessAgent>, events: mpsc::Receiver<AgentEvent> },
}

/// What an agent brought.
pub(super) enum Heard {
    Output(Batch),
    Event(AgentEvent),
    /// The agent inside the daemon is gone.
    Silence,
}

impl Agent {
    /// Waits for what comes next; without an agent, forever. Cancel-safe.
    pub(super) async fn next(&mut self) -> Heard {
        match self {
            Self::None => std::future::pending().await,
            Self::Process(process) => Heard::Output(process.link.next().await),
            Self::InProcess { events, .. } => events.recv().await.map_or(Heard::Silence, Heard::Event),
        }
    }
}

/// A process behind its shim, with the codec for its lines.
pub(super) struct ProcessAgent {
    pub(super) link: Link,
    pub(super) codec: Box<dyn Codec>,
    pub(super) dir: PathBuf,
    out: LineAssembler,
    err: LineAssembler,
}

/// What a batch of output meant.
#[derive(Default)]
pub(super) struct Ingested {
    pub(super) inputs: Vec<(Timestamp, Input)>,
    /// Answers the agent must get, in the codec's words.
    pub(super) replies: Vec<Vec<u8>>,
    pub(super) applied: Option<u64>,
    pub(super) mark: SpoolMark,
    pub(super) ended: bool,
}

impl ProcessAgent {
    pub(super) fn new(link: Link, codec: Box<dyn Codec>, dir: PathBuf) -> Self {
        Self { link, codec, dir, out: LineAssembler::default(), err: LineAssembler::default() }
    }

    /// Goes on where a stored mark says.
    pub(super) fn resumed(link: Link, codec: Box<dyn Codec>, dir: PathBuf, carry: &[u8]) -> Self {
        let (out, err) = split_carry(carry);
        Self { link, codec, dir, out: LineAssembler::restore(out), err: LineAssembler::restore(err) }
    }

    /// Translates a batch. Everything it says is in the result; nothing is done yet.
    pub(super) fn ingest(&mut self, batch: &Batch) -> Ingested {
        let mut ingested = Ingested::default();
        for record in batch.records() {
            let at = clock::wall_time_of(record.t_mono_ns);
            match record.stream {
                Stream::Out => self.take_output(at, record.payload, &mut ingested),
                Stream::Err => {
                    self.err.push(record.payload, |line| ingested.inputs.push((at, logged(line))));
                }
                Stream::Input => {
                    if let Some(id) = record.write_id() {
                        ingested.applied = Some(id);
                    }
                }
                Stream::Meta | Stream::Exit => {}
            }
        }
        if let Some(ending) = batch.ending() {
            self.finish(ending, &mut ingested);
        }
        let Position { segment, offset } = batch.after();
        ingested.mark = SpoolMark { segment, offset, carry: join_carry(&self.out.save(), &self.err.save()) };
        ingested
    }

    fn take_output(&mut self, at: Timestamp, bytes: &[u8], ingested: &mut Ingested) {
        let codec = &mut self.codec;
        self.out.push(bytes, |line| {
            let mut decoded = Decoded::default();
            match line {
                Line::Whole(line) => codec.decode(line, &mut decoded),
                Line::Oversize { head, length } => decoded.events.push(AgentEvent::Unparsed {
                    raw: String::from_utf8_lossy(head).into_owned(),
                    length: Some(length),
                }),
            }
            ingested.inputs.extend(decoded.events.into_iter().map(|event| (at, Input::Agent(event))));
            if !decoded.replies.is_empty() {
                ingested.replies.push(decoded.replies);
            }
        });
    }

    fn finish(&mut self, ending: &Ending, ingested: &mut Ingested) {
        let now = clock::now();
        // An agent may end without a line end; what it said still counts.
        self.take_output(now, b"\n", ingested);
        let exit = match ending {
            Ending::Exited { code, signal } => {
                Exit { code: *code, signal: *signal, message: String::new() }
            }
            Ending::ShimLost => {
                Exit { message: "the process that held the agent was killed".to_owned(), ..Exit::default() }
            }
            Ending::Corrupt { reason } => {
                Exit { message: format!("its output on disk is damaged: {reason}"), ..Exit::default() }
            }
        };
        ingested.inputs.push((now, Input::AgentExited(exit)));
        ingested.ended = true;
    }
}

fn logged(line: Line<'_>) -> Input {
    let bytes = match line {
        Line::Whole(bytes) => bytes,
        Line::Oversize { head, .. } => head,
    };
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(domain::limits::UNPARSED_MAX_BYTES)]);
    Input::Agent(AgentEvent::Logged(text.into_owned()))
}

/// Both carries in one blob: the length of the first, the first, the second.
fn join_carry(out: &[u8], err: &[u8]) -> Vec<u8> {
    if out.is_empty() && err.is_empty() {
        return Vec::new();
    }
    let mut joined = Vec::with_capacity(out.len() + err.len() + 8);
    joined.extend_from_slice(&(out.len() as u64).to_le_bytes());
    joined.extend_from_slice(out);
    joined.extend_from_slice(err);
    joined
}

fn split_carry(joined: &[u8]) -> (&[u8], &[u8]) {
    let Some((length, rest)) = joined.split_first_chunk::<8>() else { return (&[], &[]) };
    let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
    rest.split_at(length.min(rest.len()))
}

/// Tells an agent inside the daemon; one that is a process is told through the outbox.
pub(super) fn tell_in_process(agent: &mut Agent, input: AgentInput) -> Result<(), Error> {
    match agent {
        Agent::InProcess { agent, .. } => agent.tell(input),
        Agent::None | Agent::Process(_) => Ok(()),
    }
}
