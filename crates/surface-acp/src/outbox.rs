//! What goes to the client, in order and bounded: a client that reads slowly makes whoever writes wait, and the journal
//! is where the rest waits. Carries whole lines, and with them what is to be noted; knows no method.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::resume_state::{NoteChanges, Notes};
use super::rpc::{self, RpcError, RpcId};
use crate::limits;

/// A piece of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputFrame {
    /// Whole lines for the client, and what is true once it has them.
    Lines(Bytes, NoteChanges),
    /// For the standard error of whoever serves it.
    Log { level: &'static str, message: String },
    /// Nothing follows.
    End,
    /// Nothing follows from here; whoever comes next goes on.
    Leave,
}

/// The client is gone.
#[derive(Debug)]
pub(super) struct ClientGone;

/// The way to the client. Cheap to clone.
#[derive(Clone)]
pub(super) struct ClientOutbox {
    sender: mpsc::Sender<OutputFrame>,
    pending: Arc<Mutex<Pending>>,
    keeps_notes: bool,
}

/// What goes with the next piece.
#[derive(Default)]
struct Pending {
    marks: NoteChanges,
    /// The lines of requests that are not answered, by their ids, which a client may use twice.
    asked: HashMap<RpcId, VecDeque<u64>>,
}

impl Pending {
    fn answered(&mut self, id: &RpcId) {
        let Some(lines) = self.asked.get_mut(id) else { return };
        self.marks.done.extend(lines.pop_front());
        if lines.is_empty() {
            self.asked.remove(id);
        }
    }
}

impl ClientOutbox {
    /// Makes the way to a client; `keeps_notes` where somebody at its end keeps them.
    pub(super) fn new(keeps_notes: bool) -> (Self, mpsc::Receiver<OutputFrame>) {
        let (sender, receiver) = mpsc::channel(limits::ACP_FRAMES_READY_MAX);
        (Self { sender, pending: Arc::default(), keeps_notes }, receiver)
    }

    /// Sends lines, once there is room; nothing where there are none.
    pub(super) async fn send(&self, lines: Vec<u8>) -> Result<(), ClientGone> {
        self.send_noting(lines, |_| {}).await
    }

    /// Sends lines, and what is to be noted once they are there.
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

    /// Waits for room and sends. Marks leave in the order they were made, because both happens under one lock.
    async fn put(&self, lines: Vec<u8>, mark: impl FnOnce(&mut Pending)) -> Result<(), ClientGone> {
        let room = self.sender.reserve().await.map_err(|_| ClientGone)?;
        let mut pending = self.locked();
        if self.keeps_notes {
            mark(&mut pending);
        }
        room.send(OutputFrame::Lines(lines.into(), std::mem::take(&mut pending.marks)));
        Ok(())
    }

    /// Notes something that no line goes with. Waits for nothing: where there is no room it goes with the next line.
    pub(super) fn note(&self, note: impl FnOnce(&mut Notes)) {
        self.mark(|pending| note(&mut pending.marks.notes));
    }

    /// Says that lines of the client need not be heard again.
    pub(super) fn done(&self, lines: impl IntoIterator<Item = u64>) {
        self.mark(|pending| pending.marks.done.extend(lines));
    }

    /// Notes what has become of a request, which is not answered yet but no longer depends on its line.
    pub(super) fn note_taken(&self, id: &RpcId, note: impl FnOnce(&mut Notes)) {
        self.mark(|pending| {
            pending.answered(id);
            note(&mut pending.marks.notes);
        });
    }

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

    /// Answers a request; its line is done with.
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

    /// Answers a line that was no request.
    pub(super) async fn refuse(&self, id: &RpcId, fault: RpcError, line: u64) -> Result<(), ClientGone> {
        let answer = self.answer_line(id, Err(fault));
        self.put(answer, |pending| pending.marks.done.push(line)).await
    }

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

    /// Says something on standard error. Dropped where the client does not read: it is only a log.
    pub(super) fn log(&self, level: &'static str, message: impl Into<String>) {
        let _full = self.sender.try_send(OutputFrame::Log { level, message: message.into() });
    }

    /// Ends the output, whoever else still has something to say.
    pub(super) async fn end(&self, frame: OutputFrame) {
        // A client that does not read will not miss it, and one that is gone has ended already.
        let _late = self.sender.send_timeout(frame, limits::ACP_POLLING_INTERVAL).await;
    }

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
