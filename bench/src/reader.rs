//! Reads one turn of an emitter from either side and verifies it: every chunk exactly once, in order, intact.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tonic::Streaming;
use wire::obey::v1 as pb;

use crate::clock::{monotonic_ns, wall_ahead_ns};
use crate::emitter::{FILLER, Script};
use crate::peer::Peer;
use crate::stats;

/// A stream that is read turn by turn.
pub(crate) struct Follower {
    stream: Streaming<pb::Event>,
    last_seq: u64,
}

/// The measurements of a turn.
pub(crate) struct Heard {
    /// From the writing of each chunk to its reading, in microseconds, sorted.
    pub(crate) ages: Vec<f64>,
    /// From the writing of each chunk to its time in the journal, which is when the shim had it; empty for
    /// the floor.
    pub(crate) shim_ages: Vec<f64>,
    /// From the writing of the first chunk to the reading of the last.
    pub(crate) span: Duration,
}

impl Heard {
    pub(crate) fn p50(&self) -> f64 {
        stats::percentile(&self.ages, 0.5)
    }

    pub(crate) fn p99(&self) -> f64 {
        stats::percentile(&self.ages, 0.99)
    }

    pub(crate) fn rate(&self) -> f64 {
        self.ages.len() as f64 / self.span.as_secs_f64()
    }
}

impl Follower {
    /// Follows a session from its beginning.
    pub(crate) async fn new(peer: &Peer, session: &str) -> Result<Self> {
        Self::after(peer, session, 0).await
    }

    pub(crate) async fn after(peer: &Peer, session: &str, last_seq: u64) -> Result<Self> {
        Ok(Self { stream: peer.follow(session, last_seq).await?, last_seq })
    }

    /// Returns the next event; verifies that sequence numbers have no gaps.
    pub(crate) async fn next(&mut self) -> Result<pb::Event> {
        let event = self.stream.message().await?.context("the stream ended")?;
        ensure!(event.seq == self.last_seq + 1, "after event {} came {}", self.last_seq, event.seq);
        self.last_seq = event.seq;
        Ok(event)
    }

    /// Reads to the end of the running turn.
    pub(crate) async fn turn(&mut self, script: &Script) -> Result<Heard> {
        let mut ages = Vec::with_capacity(usize::try_from(script.chunks).unwrap_or(0));
        let mut shim_ages = Vec::with_capacity(ages.capacity());
        let ahead = wall_ahead_ns();
        let mut first_written = None;
        let mut last_read = 0;
        loop {
            let event = self.next().await?;
            let now = monotonic_ns();
            let Some((number, written)) = chunk(&event.json) else {
                if event.json.contains("turn_ended") {
                    break;
                }
                continue;
            };
            ensure!(number == ages.len() as u64, "chunk {} came as number {number}", ages.len());
            first_written.get_or_insert(written);
            last_read = now;
            ages.push(now.saturating_sub(written) as f64 / 1e3);
            if let Some(at) = event.at {
                let at =
                    u64::try_from(at.seconds).unwrap_or(0) * 1_000_000_000 + at.nanos.unsigned_abs() as u64;
                shim_ages.push(at.saturating_sub(ahead).saturating_sub(written) as f64 / 1e3);
            }
        }
        ensure!(ages.len() as u64 == script.chunks, "{} of {} chunks came", ages.len(), script.chunks);
        let span = Duration::from_nanos(last_read.saturating_sub(first_written.unwrap_or(0)));
        Ok(Heard { ages: stats::sorted(ages), shim_ages: stats::sorted(shim_ages), span })
    }
}

/// Runs a turn and reads it.
pub(crate) async fn play(
    peer: &Peer,
    session: &str,
    follower: &mut Follower,
    script: &Script,
) -> Result<Heard> {
    peer.prompt(session, script.prompt()).await?;
    follower.turn(script).await
}

/// Reads a number of past events; returns how long that took, and the time to the first one.
pub(crate) async fn replay(peer: &Peer, session: &str, count: u64) -> Result<(Duration, Duration)> {
    let began = Instant::now();
    let mut stream = peer.replay(session, 0, count).await?;
    let mut first = None;
    let mut last_seq = 0;
    while let Some(event) = stream.message().await? {
        first.get_or_insert_with(|| began.elapsed());
        ensure!(event.seq == last_seq + 1, "after event {last_seq} came {}", event.seq);
        last_seq = event.seq;
    }
    ensure!(last_seq == count, "{last_seq} of {count} events came");
    Ok((began.elapsed(), first.unwrap_or_default()))
}

/// Returns the number and the time of a chunk, if it is complete.
fn chunk(json: &str) -> Option<(u64, u64)> {
    chunk_of(json.split_once("\"text\":\"")?.1.split_once('"')?.0)
}

/// The same for a chunk's text.
pub(crate) fn chunk_of(text: &str) -> Option<(u64, u64)> {
    let (number, rest) = text.split_once(' ')?;
    let (written, filler) = rest.split_once(' ')?;
    if filler != FILLER {
        return None;
    }
    Some((number.parse().ok()?, written.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_told_from_everything_else_on_both_sides() {
        let text = format!("00000007 0000000000000042 {FILLER}");
        assert_eq!(chunk(&format!(r#"{{"say":"text","text":"{text}"}}"#)), Some((7, 42)));
        assert_eq!(chunk(&format!(r#"{{"type":"text_delta","text":"{text}"}}"#)), Some((7, 42)));
        assert_eq!(chunk(&format!(r#"{{"type":"text_delta","text":"{text}."}}"#)), None, "harmed");
        assert_eq!(chunk(r#"{"say":"turn_ended","reason":"completed","text":"","error":""}"#), None);
    }
}
