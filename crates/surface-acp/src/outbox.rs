//! The output queue to the client, in order and bounded. A slow client makes the writers wait; the journal
//! holds what they have not read yet. Carries whole lines together with the notes to save; knows no methods.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::resume_state::{NoteChanges, Notes};
use super::rpc::{self, RpcError, RpcId};
use crate::limits;

/// A unit of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputFrame {
    /// Whole lines for the client, and the notes that hold once it has received them.
    Lines(Bytes, NoteChanges),
    /// For the standard error of the process that serves the client.
    Log { level: &'static str, message: String },
    /// The output ends here.
    End,
    /// The output of this daemon ends here; the next daemon continues the connection.
    Leave,
}

/// The client is gone.
#[derive(Debug)]
pub(super) struct ClientGone;

/// The sending side of the queue. Cheap to clone.
#[derive(Clone)]
pub(super) struct ClientOutbox {
    sender: mpsc::Sender<OutputFrame>,
    pending: Arc<Mutex<Pending>>,
    keeps_notes: bool,
}

/// What is sent along with the next frame.
#[derive(Default)]
struct Pending {
    marks: NoteChanges,
    /// The lines of unanswered requests, by request id. A client may use an id twice.
    asked: HashMap<RpcId, VecDeque<u64>>,
}

impl Pending {
    /// Marks the line of an answered request as done.
    fn answered(&mut self, id: &RpcId) {
        let Some(lines) = self.asked.get_mut(id) else { return };
        self.marks.done.extend(lines.pop_front());
        if lines.is_empty() {
            self.asked.remove(id);
        }
    }
}

impl ClientOutbox {
    /// Creates a queue; `keeps_notes` says whether the receiver saves notes.
    pub(super) fn new(keeps_notes: bool) -> (Self, mpsc::Receiver<OutputFrame>) {
        let (sender, receiver) = mpsc::channel(limits::ACP_FRAMES_READY_MAX);
        (Self { sender, pending: Arc::default(), keeps_notes }, receiver)
    }

    /// Sends lines once there is room; does nothing if there are none.
    pub(super) async fn send(&self, lines: Vec<u8>) -> Result<(), ClientGone> {
        self.send_noting(lines, |_| {}).await
    }

    /// Sends lines, and the notes that hold once they have arrived.
    pub(super) async fn send_noting(
        &self,
        lines: Vec<u8>,
        note: impl FnOnce(&mut Notes),
    ) -> Result<(), ClientGone> {
        if lines.is_empty() {
            return Ok(());
        }
        self.put(lines, |pending| note(&mut pending.marks.notes)).await
    }

    /// Waits for room and sends. Notes leave in the order they were made, because both steps happen under one
    /// lock.
    async fn put(&self, lines: Vec<u8>, mark: impl FnOnce(&mut Pending)) -> Result<(), ClientGone> {
        let room = self.sender.reserve().await.map_err(|_| ClientGone)?;
        let mut pending = self.locked();
        if self.keeps_notes {
            mark(&mut pending);
        }
        room.send(OutputFrame::Lines(lines.into(), std::mem::take(&mut pending.marks)));
        Ok(())
    }

    /// Saves a note without a line. Does not wait: if the queue is full, the note goes with the next line.
    pub(super) fn note(&self, note: impl FnOnce(&mut Notes)) {
        self.mark(|pending| note(&mut pending.marks.notes));
    }

    /// Acknowledges lines of the client: they need not be replayed.
    pub(super) fn done(&self, lines: impl IntoIterator<Item = u64>) {
        self.mark(|pending| pending.marks.done.extend(lines));
    }

    /// Notes the state of a request that is not answered yet but no longer needs its line replayed.
    pub(super) fn note_taken(&self, id: &RpcId, note: impl FnOnce(&mut Notes)) {
        self.mark(|pending| {
            pending.answered(id);
            note(&mut pending.marks.notes);
        });
    }

    /// Records marks and sends them at once if there is room; otherwise they go out with the next lines.
    fn mark(&self, mark: impl FnOnce(&mut Pending)) {
        if !self.keeps_notes {
            return;
        }
        let mut pending = self.locked();
        mark(&mut pending);
        if !pending.marks.is_empty()
            && let Ok(room) = self.sender.try_reserve()
        {
            room.send(OutputFrame::Lines(Bytes::new(), std::mem::take(&mut pending.marks)));
        }
    }

    /// Remembers which line a request came in.
    pub(super) fn remember_line(&self, id: &RpcId, line: u64) {
        if self.keeps_notes {
            self.locked().asked.entry(id.clone()).or_default().push_back(line);
        }
    }

    /// Answers a request and acknowledges its line.
    pub(super) async fn answer(
        &self,
        id: &RpcId,
        result: Result<serde_json::Value, RpcError>,
        note: impl FnOnce(&mut Notes),
    ) -> Result<(), ClientGone> {
        let line = self.answer_line(id, result);
        self.put(line, |pending| {
            pending.answered(id);
            note(&mut pending.marks.notes);
        })
        .await
    }

    /// Answers a line that is not a request.
    pub(super) async fn refuse(&self, id: &RpcId, fault: RpcError, line: u64) -> Result<(), ClientGone> {
        let answer = self.answer_line(id, Err(fault));
        self.put(answer, |pending| pending.marks.done.push(line)).await
    }

    /// Formats the answer to a request; an error is also logged.
    fn answer_line(&self, id: &RpcId, result: Result<serde_json::Value, RpcError>) -> Vec<u8> {
        let mut line = Vec::new();
        match result {
            Ok(result) => rpc::write_result(&mut line, id, &result),
            Err(fault) => {
                let (code, message) = (fault.code, &fault.message);
                tracing::debug!(code, message, "refused a client's request");
                self.log("warn", format!("refused with {code}: {message}"));
                rpc::write_fault(&mut line, id, &fault);
            }
        }
        line
    }

    /// Writes to standard error of the client's side. Dropped if the client does not read: it is only a log.
    pub(super) fn log(&self, level: &'static str, message: impl Into<String>) {
        let _full = self.sender.try_send(OutputFrame::Log { level, message: message.into() });
    }

    /// Ends the output, even if other senders still hold the queue.
    pub(super) async fn end(&self, frame: OutputFrame) {
        // A slow client does not miss this frame, and a client that is gone has already ended.
        let _late = self.sender.send_timeout(frame, limits::ACP_POLLING_INTERVAL).await;
    }

    /// Waits until the client is gone.
    pub(super) async fn hung_up(&self) {
        self.sender.closed().await;
    }

    fn locked(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn next(frames: &mut mpsc::Receiver<OutputFrame>) -> (String, NoteChanges) {
        match frames.try_recv() {
            Ok(OutputFrame::Lines(lines, marks)) => (String::from_utf8(lines.to_vec()).unwrap(), marks),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_request_is_done_with_its_answer_and_notes_go_with_the_lines_they_tell_of() {
        let (out, mut frames) = ClientOutbox::new(true);
        let id = RpcId::number(1);
        out.remember_line(&id, 4);
        out.remember_line(&id, 5);
        let note = |notes: &mut Notes| drop(notes.insert("a".into(), "b".into()));
        out.send_noting(b"x\n".to_vec(), note).await.unwrap();
        let (lines, marks) = next(&mut frames);
        assert_eq!((lines.as_str(), marks.notes["a"].as_str(), marks.done.len()), ("x\n", "b", 0));
        out.answer(&id, Ok(json!({})), |_| {}).await.unwrap();
        assert_eq!(next(&mut frames).1, NoteChanges { done: vec![4], ..NoteChanges::default() });
        out.note_taken(&id, note);
        let (lines, marks) = next(&mut frames);
        assert_eq!((lines.as_str(), marks.done), ("", vec![5]), "the same id twice is two lines");
        assert!(out.locked().asked.is_empty());
    }

    #[tokio::test]
    async fn notes_wait_for_a_client_that_does_not_read() {
        let (out, mut frames) = ClientOutbox::new(true);
        for _ in 0..limits::ACP_FRAMES_READY_MAX {
            out.send(b"x\n".to_vec()).await.unwrap();
        }
        out.done([7]);
        out.note(|notes| drop(notes.insert("a".into(), "1".into())));
        out.note(|notes| drop(notes.insert("a".into(), "2".into())));
        assert!(next(&mut frames).1.is_empty());
        out.send(b"y\n".to_vec()).await.unwrap();
        let last = (1..=limits::ACP_FRAMES_READY_MAX).map(|_| next(&mut frames)).last().unwrap();
        assert_eq!((last.0.as_str(), last.1.notes["a"].as_str(), last.1.done), ("y\n", "2", vec![7]));
    }

    #[tokio::test]
    async fn nothing_is_noted_where_nobody_keeps_it() {
        let (out, mut frames) = ClientOutbox::new(false);
        out.remember_line(&RpcId::number(1), 0);
        out.done([0]);
        out.note(|notes| drop(notes.insert("a".into(), "b".into())));
        out.answer(&RpcId::number(1), Ok(json!({})), |_| {}).await.unwrap();
        assert!(next(&mut frames).1.is_empty() && frames.try_recv().is_err());
    }
}
