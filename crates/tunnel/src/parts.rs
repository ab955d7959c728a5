//! What has come of one call and its reader has not taken yet. Small pieces of data are joined, so that what waits takes as much
//! memory as its bytes say: credit counts bytes, and a piece of one byte would cost a hundred.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use wire::betcode::v1::CallHead;

use crate::limits;
use crate::link::CallFailure;

/// What a call receives.
#[derive(Debug)]
pub(crate) enum Part {
    Head(CallHead),
    Data(Vec<u8>),
    End,
    Tail(http::HeaderMap),
    Failed(CallFailure),
}

#[derive(Debug)]
struct State {
    parts: VecDeque<Part>,
    /// Nothing more comes.
    is_closed: bool,
    /// Nobody takes any more.
    is_abandoned: bool,
    reader: Option<Waker>,
    /// Counts the bytes that wait in all queues of a tunnel.
    held: Arc<AtomicUsize>,
}

impl Drop for State {
    fn drop(&mut self) {
        self.clear();
    }
}

impl State {
    fn counted(held: &Arc<AtomicUsize>) -> Self {
        let held = Arc::clone(held);
        Self { parts: VecDeque::new(), is_closed: false, is_abandoned: false, reader: None, held }
    }

    fn clear(&mut self) {
        let left: usize = self.parts.drain(..).map(|part| part.length()).sum();
        self.held.fetch_sub(left, Ordering::Relaxed);
    }
}

impl Part {
    fn length(&self) -> usize {
        match self {
            Self::Data(data) => data.len(),
            _ => 0,
        }
    }
}

type Shared = Arc<Mutex<State>>;

/// The end of the queue that the tunnel has.
#[derive(Debug)]
pub(crate) struct PartSender(Shared);

/// The end that whoever reads the call has.
#[derive(Debug)]
pub(crate) struct PartReceiver(Shared);

/// Makes a queue. Credit bounds it; `held` counts the bytes that wait in it, too, also when its call is over.
pub(crate) fn queue(held: &Arc<AtomicUsize>) -> (PartSender, PartReceiver) {
    let shared = Arc::new(Mutex::new(State::counted(held)));
    (PartSender(Arc::clone(&shared)), PartReceiver(shared))
}

fn locked(shared: &Shared) -> MutexGuard<'_, State> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wake(mut state: MutexGuard<'_, State>) {
    let reader = state.reader.take();
    drop(state);
    if let Some(reader) = reader {
        reader.wake();
    }
}

impl PartSender {
    /// Adds a part. The reader may be gone; then it is dropped.
    pub(crate) fn give(&self, part: Part) {
        let mut state = locked(&self.0);
        if state.is_abandoned {
            return;
        }
        state.held.fetch_add(part.length(), Ordering::Relaxed);
        match (state.parts.back_mut(), part) {
            (Some(Part::Data(waiting)), Part::Data(data))
                if waiting.len() + data.len() <= limits::FRAME_DATA_MAX_BYTES =>
            {
                waiting.extend_from_slice(&data);
            }
            (_, part) => state.parts.push_back(part),
        }
        wake(state);
    }
}

impl Drop for PartSender {
    fn drop(&mut self) {
        let mut state = locked(&self.0);
        state.is_closed = true;
        wake(state);
    }
}

impl PartReceiver {
    pub(crate) fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Option<Part>> {
        let mut state = locked(&self.0);
        if let Some(part) = state.parts.pop_front() {
            state.held.fetch_sub(part.length(), Ordering::Relaxed);
            return Poll::Ready(Some(part));
        }
        if state.is_closed {
            return Poll::Ready(None);
        }
        state.reader = Some(context.waker().clone());
        Poll::Pending
    }

    /// Waits for the next part; nothing when there is and comes none.
    pub(crate) async fn recv(&mut self) -> Option<Part> {
        std::future::poll_fn(|context| self.poll_recv(context)).await
    }

    pub(crate) fn is_empty(&self) -> bool {
        locked(&self.0).parts.is_empty()
    }
}

impl Drop for PartReceiver {
    fn drop(&mut self) {
        let mut state = locked(&self.0);
        state.is_abandoned = true;
        state.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn small_pieces_are_joined_and_nothing_is_lost() {
        let held = Arc::default();
        let (sender, mut receiver) = queue(&held);
        let all: Vec<u8> = (0..100_000_u32).map(|at| at as u8).collect();
        for byte in &all {
            sender.give(Part::Data(vec![*byte]));
        }
        sender.give(Part::End);
        let most = all.len() / limits::FRAME_DATA_MAX_BYTES + 2;
        assert!(locked(&sender.0).parts.len() <= most, "{} parts wait", locked(&sender.0).parts.len());
        assert_eq!(held.load(Ordering::Relaxed), all.len());
        let mut got = Vec::new();
        while let Some(Part::Data(data)) = receiver.recv().await {
            got.extend(data);
        }
        assert!(got == all);
        assert_eq!(held.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_reader_learns_of_the_end_and_a_writer_needs_no_reader() {
        let held = Arc::default();
        let (sender, mut receiver) = queue(&held);
        let waiting = tokio::spawn(async move { receiver.recv().await.is_none() });
        tokio::task::yield_now().await;
        drop(sender);
        assert!(waiting.await.unwrap());
        let (sender, receiver) = queue(&held);
        sender.give(Part::Data(vec![1]));
        drop(receiver);
        sender.give(Part::Data(vec![1]));
        assert_eq!(held.load(Ordering::Relaxed), 0);
        assert!(locked(&sender.0).parts.is_empty());
    }
}
