//! Requests from us to the client (a permission, the content of a file) and the client's answers. Their
//! number is bounded. A request that is abandoned is cancelled at the client.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::outbox::ClientOutbox;
use super::resume_state::{NoteWriter as _, Notes};
use super::rpc::{self, RpcId};
use crate::limits;

/// The client's answer to a request: its result, or its error object.
pub(super) type Reply = Result<Value, Value>;

/// The pending client requests of one connection. Cheap to clone.
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

/// An answer, and the number of the line it came in.
pub(super) struct ClientResponse {
    pub(super) reply: Reply,
    pub(super) line: u64,
}

/// A client request that waits for its answer. Dropping it does not cancel the request; the answer is then
/// discarded.
pub(super) struct PendingClientRequest {
    pub(super) id: RpcId,
    reply: oneshot::Receiver<ClientResponse>,
}

impl ClientRequests {
    pub(super) fn new(out: ClientOutbox) -> Self {
        Self { out, open: Arc::default() }
    }

    /// Continues the numbering of a previous daemon: ids up to `last` are in use.
    pub(super) fn go_on_after(&self, last: u64) {
        self.locked().last = last;
    }

    /// Sends a request after everything that was sent before. Returns `None` if the client is gone or too
    /// many requests are pending. `note` receives the request's number.
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

    /// Waits for the answer to a request that a previous daemon sent.
    pub(super) fn again(&self, number: u64) -> PendingClientRequest {
        self.locked().wait_for(number)
    }

    /// Sends a request and waits for its answer.
    pub(super) async fn send_request(&self, method: &str, params: &Value) -> Option<Reply> {
        let replied = self.send(method, params, |_, _| {}).await?.answer().await?;
        self.out.done([replied.line]);
        Some(replied.reply)
    }

    /// Delivers an answer of the client. Returns false if no request waits for it.
    pub(super) fn answered(&self, id: &RpcId, reply: Reply, line: u64) -> bool {
        let waiting = self.locked().waiting.remove(id);
        waiting.is_some_and(|waiting| waiting.send(ClientResponse { reply, line }).is_ok())
    }

    /// Cancels a request at the client.
    pub(super) async fn call_off(&self, id: &RpcId) {
        if self.locked().waiting.remove(id).is_none() {
            return;
        }
        let mut line = Vec::new();
        rpc::write_notification(&mut line, "$/cancel_request", &json!({"requestId": id.to_json()}));
        // An error means that the client is gone; then nothing needs to be cancelled.
        let _gone = self.out.send(line).await;
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, OpenClientRequest> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenClientRequest {
    /// Registers the request with this number and returns the handle that waits for its answer.
    fn wait_for(&mut self, number: u64) -> PendingClientRequest {
        let (sender, reply) = oneshot::channel();
        let id = RpcId::number(number);
        self.waiting.insert(id.clone(), sender);
        PendingClientRequest { id, reply }
    }
}

impl PendingClientRequest {
    /// Waits for the answer; `None` if the request was cancelled.
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
