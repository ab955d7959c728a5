//! A client of `betcode.v1.AgentService.Converse`: one stream of one session, read turn by turn.

use std::collections::HashMap;

use anyhow::{Context, Result, bail, ensure};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use wire::betcode::v1 as pb;
use wire::betcode::v1::agent_event::Event as Body;
use wire::betcode::v1::agent_request::Request as Said;

use crate::clock::monotonic_ns;
use crate::peer::Peer;
use crate::reader::chunk_of;

pub(crate) struct Talk {
    said: mpsc::Sender<pb::AgentRequest>,
    events: Streaming<pb::AgentEvent>,
    last: u64,
}

impl Talk {
    /// Creates a session in a folder; its agent starts with the first message.
    pub(crate) async fn begin(peer: &Peer, folder: &str) -> Result<Self> {
        let metadata = HashMap::from([("provider".to_owned(), "scripted".to_owned())]);
        let working_directory = folder.to_owned();
        Self::open(peer, pb::StartConversation { working_directory, metadata, ..Default::default() }).await
    }

    /// Joins a session from its beginning.
    pub(crate) async fn join(peer: &Peer, session: &str) -> Result<Self> {
        Self::open(peer, pb::StartConversation { session_id: session.to_owned(), ..Default::default() }).await
    }

    async fn open(peer: &Peer, start: pb::StartConversation) -> Result<Self> {
        let (said, stream) = mpsc::channel(16);
        said.send(pb::AgentRequest { request: Some(Said::Start(start)) }).await?;
        let events = peer.agents.clone().converse(ReceiverStream::new(stream)).await?.into_inner();
        let mut talk = Self { said, events, last: 0 };
        match talk.next().await? {
            Body::SessionInfo(_) => Ok(talk),
            other => bail!("a start was answered with {other:?}"),
        }
    }

    /// Returns the next event; verifies that sequence numbers increase.
    pub(crate) async fn next(&mut self) -> Result<Body> {
        let event = self.events.message().await?.context("the stream ended")?;
        if event.sequence > 0 {
            ensure!(event.sequence > self.last, "after event {} came {}", self.last, event.sequence);
            self.last = event.sequence;
        }
        event.event.context("an empty event")
    }

    /// Reads to the end of a turn with this many chunks; returns the age of each in microseconds.
    pub(crate) async fn turn(&mut self, chunks: u64) -> Result<Vec<f64>> {
        let mut ages = Vec::new();
        loop {
            let body = self.next().await?;
            let now = monotonic_ns();
            match body {
                Body::TextDelta(delta) => {
                    let (number, written) = chunk_of(&delta.text).context("a harmed chunk")?;
                    ensure!(number == ages.len() as u64, "chunk {} came as number {number}", ages.len());
                    ages.push(now.saturating_sub(written) as f64 / 1e3);
                }
                Body::TurnComplete(_) => break,
                _ => {}
            }
        }
        ensure!(ages.len() as u64 == chunks, "{} of {chunks} chunks came", ages.len());
        Ok(ages)
    }

    /// Skips a number of turns.
    pub(crate) async fn skip_turns(&mut self, mut turns: usize) -> Result<()> {
        while turns > 0 {
            turns -= usize::from(matches!(self.next().await?, Body::TurnComplete(_)));
        }
        Ok(())
    }

    /// Reads a number of text deltas.
    pub(crate) async fn read(&mut self, mut pieces: u64) -> Result<()> {
        while pieces > 0 {
            pieces -= u64::from(matches!(self.next().await?, Body::TextDelta(_)));
        }
        Ok(())
    }

    /// Reads a turn of permission requests and allows each at once; returns how long the agent waited, in
    /// microseconds.
    pub(crate) async fn allow(&mut self, asks: u64) -> Result<Vec<f64>> {
        let mut waits = Vec::new();
        loop {
            match self.next().await? {
                Body::PermissionRequest(asked) => {
                    let decision = pb::PermissionDecision::AllowOnce.into();
                    let request_id = asked.request_id;
                    let response = pb::PermissionResponse { request_id, decision, ..Default::default() };
                    self.said.send(pb::AgentRequest { request: Some(Said::Permission(response)) }).await?;
                }
                Body::TextDelta(delta) => {
                    let (_, took) = chunk_of(&delta.text).context("a harmed chunk")?;
                    waits.push(took as f64 / 1e3);
                }
                Body::TurnComplete(_) => break,
                _ => {}
            }
        }
        ensure!(waits.len() as u64 == asks, "{} of {asks} answers came", waits.len());
        Ok(waits)
    }
}
