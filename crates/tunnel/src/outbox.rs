//! What one end of a tunnel has to send: frames about the tunnel first, then the calls in turn, one frame each, so that no
//! call waits for the whole of another. Holds frames; knows nothing of what they mean.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_core::Stream;
use wire::betcode::v1::TunnelFrame;

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
    calls: HashMap<String, VecDeque<TunnelFrame>>,
    is_closed: bool,
    reader: Option<Waker>,
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

    /// Adds a frame of a call, after those it has already.
    pub(crate) fn push(&self, frame: TunnelFrame) {
        let mut state = self.locked();
        if state.is_closed {
            return;
        }
        let id = frame.request_id.clone();
        match state.calls.get_mut(&id) {
            Some(waiting) => waiting.push_back(frame),
            None => {
                state.calls.insert(id.clone(), VecDeque::from([frame]));
                state.turns.push_back(id);
            }
        }
        wake(state);
    }

    /// Forgets what a call still had to send.
    pub(crate) fn forget(&self, id: &str) {
        let mut state = self.locked();
        if state.calls.remove(id).is_some() {
            state.turns.retain(|waiting| waiting != id);
        }
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
        let frame = waiting.pop_front();
        if waiting.is_empty() {
            self.calls.remove(&id);
        } else {
            self.turns.push_back(id);
        }
        frame
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
