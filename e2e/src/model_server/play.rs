//! Plays a chosen reply: order, pace, pauses and faults, the same for every model API. An API module only encodes the
//! frames it is handed. Knows neither how a reply was chosen nor any API's wire format.

use std::io;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::mpsc;

use super::record::{Ledger, Outcome};
use super::script::{Block, Pace, Reply, cut};
use super::stamp;

/// How often a `wait_file` pause looks for its file. There is no event to wait for that works on every file system.
const FILE_POLL: Duration = Duration::from_millis(20);
/// Deltas into which a tool's input is cut, so that agents must join them.
const TOOL_CHUNKS: usize = 3;

/// What an API module turns into bytes, in this order: `Open`, then for each block a start, deltas and an end, then
/// `Close`; `Fault` ends a stream instead of `Close`.
#[derive(Debug)]
pub(crate) enum Frame<'a> {
    Open,
    TextStart,
    TextDelta(&'a str),
    TextEnd(&'a str),
    ThinkingStart,
    ThinkingDelta(&'a str),
    ThinkingEnd(&'a str),
    ToolStart {
        id: &'a str,
        name: &'a str,
    },
    ToolDelta(&'a str),
    ToolEnd {
        id: &'a str,
        name: &'a str,
        input: &'a Value,
    },
    /// Nothing happened; shows that the connection lives, where the API has a way to say so.
    Ping,
    Fault {
        kind: &'a str,
        message: &'a str,
    },
    Close,
}

/// Encodes frames for one reply of one API.
pub(crate) trait Encoder: Send + Sync + 'static {
    /// The bytes of one frame; empty where the API has nothing to say for it.
    fn encode(&mut self, frame: Frame<'_>) -> Vec<u8>;
}

/// Where frames go: the body of a streaming response.
pub(crate) type Body = mpsc::Sender<Result<Bytes, io::Error>>;

/// One reply on its way.
pub(crate) struct Player<E> {
    pub(crate) ledger: Ledger,
    /// The request that is being answered.
    pub(crate) request: usize,
    pub(crate) encoder: E,
    pub(crate) body: Body,
    /// Makes tool ids that are unique across servers.
    pub(crate) ids: super::Ids,
    /// Which attempt at this step this is, from 1.
    pub(crate) attempt: u64,
}

/// Why a reply stopped before its end.
enum Stop {
    ClientGone,
    Cut,
    /// The stream ended with an error the API defines.
    Faulted,
}

impl<E: Encoder> Player<E> {
    /// Plays the reply to its end, whatever that is, and records the outcome.
    pub(crate) async fn play(mut self, reply: Reply) {
        let outcome = match self.frames(&reply).await {
            Ok(()) | Err(Stop::Faulted) => Outcome::Finished,
            Err(Stop::ClientGone) => Outcome::ClientGone,
            Err(Stop::Cut) => {
                // An error from the body makes the server abort the connection without the final chunk.
                let _ = self.body.send(Err(io::Error::other("cut by the script"))).await;
                Outcome::Cut
            }
        };
        self.ledger.ended(self.request, outcome);
    }

    async fn frames(&mut self, reply: &Reply) -> Result<(), Stop> {
        self.frame(Frame::Open).await?;
        self.frame(Frame::Ping).await?;
        for block in &reply.blocks {
            self.block(block).await?;
        }
        self.frame(Frame::Close).await
    }

    async fn block(&mut self, block: &Block) -> Result<(), Stop> {
        match block {
            Block::Text { text, pace } => {
                self.frame(Frame::TextStart).await?;
                for part in cut(text, pace.chunks) {
                    self.frame(Frame::TextDelta(part)).await?;
                    self.ledger.sent(self.request, part);
                    self.gap(*pace).await?;
                }
                self.frame(Frame::TextEnd(text)).await
            }
            Block::Stamped { count, gap_ms } => {
                self.frame(Frame::TextStart).await?;
                let mut all = String::new();
                for number in 0..*count {
                    let part = stamp::of(number);
                    self.frame(Frame::TextDelta(&part)).await?;
                    all.push_str(&part);
                    self.gap(Pace { chunks: 1, gap_ms: *gap_ms }).await?;
                }
                self.frame(Frame::TextEnd(&all)).await
            }
            Block::Thinking { text, pace } => {
                self.frame(Frame::ThinkingStart).await?;
                for part in cut(text, pace.chunks) {
                    self.frame(Frame::ThinkingDelta(part)).await?;
                    self.gap(*pace).await?;
                }
                self.frame(Frame::ThinkingEnd(text)).await
            }
            Block::Tool { name, input, id } => {
                let id = id.clone().unwrap_or_else(|| self.ids.next("toolu"));
                self.frame(Frame::ToolStart { id: &id, name }).await?;
                for part in cut(&input.to_string(), TOOL_CHUNKS) {
                    self.frame(Frame::ToolDelta(part)).await?;
                }
                self.frame(Frame::ToolEnd { id: &id, name, input }).await
            }
            Block::Hang => {
                self.body.closed().await;
                Err(Stop::ClientGone)
            }
            Block::Wait(name) => {
                let ledger = self.ledger.clone();
                self.unless_gone(ledger.pause(name)).await?;
                self.frame(Frame::Ping).await
            }
            Block::WaitFile(path) => {
                self.unless_gone(file_exists(path)).await?;
                self.frame(Frame::Ping).await
            }
            Block::Drop { times } if times.is_none_or(|times| self.attempt <= times) => Err(Stop::Cut),
            // The status was sent instead of this stream, or its attempts are used up.
            Block::Drop { .. } | Block::Status { .. } => Ok(()),
            Block::StreamError { kind, message } => {
                self.frame(Frame::Fault { kind, message }).await?;
                Err(Stop::Faulted)
            }
        }
    }

    async fn frame(&mut self, frame: Frame<'_>) -> Result<(), Stop> {
        let bytes = self.encoder.encode(frame);
        if bytes.is_empty() {
            return Ok(());
        }
        self.body.send(Ok(bytes.into())).await.map_err(|_| Stop::ClientGone)
    }

    async fn gap(&self, pace: Pace) -> Result<(), Stop> {
        if pace.gap_ms == 0 {
            return Ok(());
        }
        self.unless_gone(tokio::time::sleep(Duration::from_millis(pace.gap_ms))).await
    }

    async fn unless_gone(&self, what: impl Future<Output = ()>) -> Result<(), Stop> {
        tokio::select! {
            () = what => Ok(()),
            () = self.body.closed() => Err(Stop::ClientGone),
        }
    }
}

async fn file_exists(path: &Path) {
    while !path.exists() {
        tokio::time::sleep(FILE_POLL).await;
    }
}
