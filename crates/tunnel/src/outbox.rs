//! What one end of a tunnel has to send: frames about the tunnel first, then the calls in turn, one frame each, so that no
//! call waits for the whole of another. Holds frames; knows nothing of what they mean.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_core::Stream;
use wire::betcode::v1::tunnel_frame::Payload;
use wire::betcode::v1::{StreamFrame, TunnelFrame};

use crate::credit::Credit;
use crate::limits;

/// The frames that wait to be sent.
#[derive(Default)]
pub(crate) struct Outbox {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    control: VecDeque<TunnelFrame>,
    /// The calls that have something to send, in the order of their turns.
    turns: VecDeque<String>,
    calls: HashMap<String, VecDeque<WaitingFrame>>,
    is_closed: bool,
    reader: Option<Waker>,
}

/// A frame that waits, and the credit that is given back when it leaves.
struct WaitingFrame {
    frame: TunnelFrame,
    owed: Option<(Arc<Credit>, usize)>,
}

impl Outbox {
    /// Adds a frame that goes before those of calls. Returns whether there was room.
    pub(crate) fn push_control(&self, frame: TunnelFrame) -> bool {
        let mut state = self.locked();
        if state.is_closed || state.control.len() >= limits::CONTROL_WAITING_MAX {
            return false;
        }
        state.control.push_back(frame);
        wake(state);
        true
    }

    /// Adds data to the last frame of a call that still waits. Returns whether there was one, and room in it.
    pub(crate) fn join(&self, id: &str, more: &[u8]) -> bool {
        let mut state = self.locked();
        let last = state.calls.get_mut(id).and_then(VecDeque::back_mut);
        match last.and_then(|waiting| waiting.frame.payload.as_mut()) {
            Some(Payload::Stream(StreamFrame { data, end_of_stream: false }))
                if data.len() + more.len() <= limits::FRAME_DATA_MAX_BYTES =>
            {
                data.extend_from_slice(more);
                true
            }
            _ => false,
        }
    }

    /// Adds a frame of a call, after those it has already.
    pub(crate) fn push(&self, frame: TunnelFrame) {
        self.add(WaitingFrame { frame, owed: None });
    }

    /// The same; `owed` is given back to the credit when the frame leaves.
    pub(crate) fn push_owing(&self, frame: TunnelFrame, credit: &Arc<Credit>, owed: usize) {
        self.add(WaitingFrame { frame, owed: Some((Arc::clone(credit), owed)) });
    }

    fn add(&self, added: WaitingFrame) {
        let mut state = self.locked();
        if state.is_closed {
            return;
        }
        let id = added.frame.request_id.clone();
        match state.calls.get_mut(&id) {
            Some(waiting) => waiting.push_back(added),
            None => {
                state.calls.insert(id.clone(), VecDeque::from([added]));
                state.turns.push_back(id);
            }
        }
        wake(state);
    }

    /// Forgets what a call still had to send. Returns whether its first frame was among that: the other end has never heard of it.
    pub(crate) fn forget(&self, id: &str) -> bool {
        let mut state = self.locked();
        let Some(waiting) = state.calls.remove(id) else { return false };
        state.turns.retain(|waiting| waiting != id);
        waiting.front().is_some_and(|first| first.frame.sequence == 1)
    }

    /// Returns how many frames of a call wait.
    #[cfg(test)]
    pub(crate) fn waiting(&self, id: &str) -> usize {
        self.locked().calls.get(id).map_or(0, VecDeque::len)
    }

    /// Sends what is there and nothing more.
    pub(crate) fn close(&self) {
        let mut state = self.locked();
        state.is_closed = true;
        wake(state);
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wake(mut state: MutexGuard<'_, State>) {
    let reader = state.reader.take();
    drop(state);
    if let Some(reader) = reader {
        reader.wake();
    }
}

impl State {
    fn next(&mut self) -> Option<TunnelFrame> {
        if let Some(frame) = self.control.pop_front() {
            return Some(frame);
        }
        let id = self.turns.pop_front()?;
        let waiting = self.calls.get_mut(&id)?;
        let WaitingFrame { frame, owed } = waiting.pop_front()?;
        if waiting.is_empty() {
            self.calls.remove(&id);
        } else {
            self.turns.push_back(id);
        }
        if let Some((credit, bytes)) = owed {
            // No more than was taken comes back.
            let _ = credit.add(bytes as u64);
        }
        Some(frame)
    }
}

/// The frames of a tunnel's end, in the order in which they are sent.
pub struct FrameStream(pub(crate) Arc<Outbox>);

impl Stream for FrameStream {
    type Item = TunnelFrame;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<TunnelFrame>> {
        let mut state = self.0.locked();
        if let Some(frame) = state.next() {
            return Poll::Ready(Some(frame));
        }
        if state.is_closed {
            return Poll::Ready(None);
        }
        state.reader = Some(context.waker().clone());
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(id: &str, sequence: u64) -> TunnelFrame {
        TunnelFrame { request_id: id.to_owned(), sequence, ..TunnelFrame::default() }
    }

    fn sent(outbox: &Outbox) -> Vec<String> {
        let mut state = outbox.locked();
        let mut all = Vec::new();
        while let Some(frame) = state.next() {
            all.push(format!("{}{}", frame.request_id, frame.sequence));
        }
        all
    }

    #[test]
    fn calls_take_turns_and_the_tunnel_itself_comes_first() {
        let outbox = Outbox::default();
        for (id, sequence) in [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("c", 1), ("b", 2)] {
            outbox.push(frame(id, sequence));
        }
        assert!(outbox.push_control(frame("", 0)));
        assert_eq!(sent(&outbox), ["0", "a1", "b1", "c1", "a2", "b2", "a3"]);
    }

    #[test]
    fn a_forgotten_call_sends_nothing_more() {
        let outbox = Outbox::default();
        outbox.push(frame("a", 1));
        outbox.push(frame("b", 1));
        outbox.forget("a");
        assert_eq!(sent(&outbox), ["b1"]);
        outbox.push(frame("a", 2));
        outbox.close();
        outbox.push(frame("a", 3));
        assert_eq!(sent(&outbox), ["a2"]);
    }

    #[test]
    fn frames_about_the_tunnel_are_bounded() {
        let outbox = Outbox::default();
        for _ in 0..limits::CONTROL_WAITING_MAX {
            assert!(outbox.push_control(frame("", 0)));
        }
        assert!(!outbox.push_control(frame("", 0)));
    }
}
