//! Requests of ours to the client, such as a permission or the content of a file, and its answers. Bounded in number;
//! an errand that is given up is called off.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::outbox::ClientOutbox;
use super::resume_state::{NoteWriter as _, Notes};
use super::rpc::{self, RpcId};
use crate::limits;

/// What the client said to an errand: its result, or its error object.
pub(super) type Reply = Result<Value, Value>;

/// The open errands of one connection. Cheap to clone.
#[derive(Clone)]
pub(super) struct ClientRequests {
    out: ClientOutbox,
    open: Arc<Mutex<OpenClientRequest>>,
}

#[derive(Default)]
struct OpenClientRequest {
    last: u64,
    waiting: HashMap<RpcId, oneshot::Sender<ClientResponse>>,
}

/// An answer, and the line it came in.
pub(super) struct ClientResponse {
    pub(super) reply: Reply,
    pub(super) line: u64,
}

/// An errand under way. Dropping it does not call it off: the answer is then nobody's.
pub(super) struct PendingClientRequest {
    pub(super) id: RpcId,
    reply: oneshot::Receiver<ClientResponse>,
}

impl ClientRequests {
    pub(super) fn new(out: ClientOutbox) -> Self {
        Self { out, open: Arc::default() }
    }

    /// Goes on where another daemon ended: numbers up to this one are taken.
    pub(super) fn go_on_after(&self, last: u64) {
        self.locked().last = last;
    }

    /// Sends a request behind whatever was sent before; nothing where the client is gone or has too many already.
    /// `note` is told its number.
    pub(super) async fn send(
        &self,
        method: &str,
        params: &Value,
        note: impl FnOnce(&mut Notes, u64),
    ) -> Option<PendingClientRequest> {
        let (number, client_request) = {
            let mut open = self.locked();
            if open.waiting.len() >= limits::ACP_ERRANDS_MAX {
                return None;
            }
            open.last += 1;
            let number = open.last;
            (number, open.wait_for(number))
        };
        let mut line = Vec::new();
        rpc::write_request(&mut line, &client_request.id, method, params);
        let sent = self.out.send_noting(line, |notes| {
            notes.client_requests(number);
            note(notes, number);
        });
        if sent.await.is_err() {
            self.locked().waiting.remove(&client_request.id);
            return None;
        }
        Some(client_request)
    }

    /// Waits for the answer to a request that was sent by another daemon.
    pub(super) fn again(&self, number: u64) -> PendingClientRequest {
        self.locked().wait_for(number)
    }

    /// Sends a request and waits for its answer.
    pub(super) async fn send_request(&self, method: &str, params: &Value) -> Option<Reply> {
        let replied = self.send(method, params, |_, _| {}).await?.answer().await?;
        self.out.done([replied.line]);
        Some(replied.reply)
    }

    /// Takes an answer of the client. False: nobody waits for it.
    pub(super) fn answered(&self, id: &RpcId, reply: Reply, line: u64) -> bool {
        let waiting = self.locked().waiting.remove(id);
        waiting.is_some_and(|waiting| waiting.send(ClientResponse { reply, line }).is_ok())
    }

    /// Tells the client that an answer is no longer wanted.
    pub(super) async fn call_off(&self, id: &RpcId) {
        if self.locked().waiting.remove(id).is_none() {
            return;
        }
        let mut line = Vec::new();
        rpc::write_notification(&mut line, "$/cancel_request", &json!({"requestId": id.to_json()}));
        // A client that is gone waits for nothing.
        let _gone = self.out.send(line).await;
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, OpenClientRequest> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenClientRequest {
    fn wait_for(&mut self, number: u64) -> PendingClientRequest {
        let (sender, reply) = oneshot::channel();
        let id = RpcId::number(number);
        self.waiting.insert(id.clone(), sender);
        PendingClientRequest { id, reply }
    }
}

impl PendingClientRequest {
    /// Waits for the answer; nothing where it was called off.
    pub(super) async fn answer(self) -> Option<ClientResponse> {
        self.reply.await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::super::outbox::OutputFrame;
    use super::*;

    #[tokio::test]
    async fn an_answer_finds_its_request_and_late_ones_are_dropped() {
        let (out, mut frames) = ClientOutbox::new(false);
        let client_requests = ClientRequests::new(out);
        let first = client_requests.send("fs/read_text_file", &json!({}), |_, _| {}).await.unwrap();
        let second = client_requests.send("fs/read_text_file", &json!({}), |_, _| {}).await.unwrap();
        assert!(client_requests.answered(&second.id, Ok(json!("b")), 3));
        assert!(!client_requests.answered(&second.id, Ok(json!("again")), 4));
        let replied = second.answer().await.unwrap();
        assert_eq!((replied.reply, replied.line), (Ok(json!("b")), 3));
        client_requests.call_off(&first.id).await;
        assert!(first.answer().await.is_none());
        let mut told = String::new();
        for _ in 0..3 {
            let Some(OutputFrame::Lines(line, _)) = frames.recv().await else { panic!() };
            told.push_str(std::str::from_utf8(&line).unwrap());
        }
        assert!(told.ends_with(
            "{\"jsonrpc\":\"2.0\",\"method\":\"$/cancel_request\",\"params\":{\"requestId\":1}}\n"
        ));
    }
}
