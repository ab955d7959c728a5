//! Requests of ours to the client, such as a permission or the content of a file, and its answers. Bounded in number;
//! an errand that is given up is called off.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::outbox::Outbox;
use super::rpc::{self, RpcId};
use crate::limits;

/// What the client said to an errand: its result, or its error object.
pub(super) type Reply = Result<Value, Value>;

/// The open errands of one connection. Cheap to clone.
#[derive(Clone)]
pub(super) struct Errands {
    out: Outbox,
    open: Arc<Mutex<Open>>,
}

#[derive(Default)]
struct Open {
    last: u64,
    waiting: HashMap<RpcId, oneshot::Sender<Reply>>,
}

/// An errand under way. Dropping it does not call it off: the answer is then nobody's.
pub(super) struct Errand {
    pub(super) id: RpcId,
    reply: oneshot::Receiver<Reply>,
}

impl Errands {
    pub(super) fn new(out: Outbox) -> Self {
        Self { out, open: Arc::default() }
    }

    /// Sends a request behind whatever was sent before; nothing where the client is gone or has too many already.
    pub(super) async fn send(&self, method: &str, params: &Value) -> Option<Errand> {
        let (sender, reply) = oneshot::channel();
        let id = {
            let mut open = self.locked();
            if open.waiting.len() >= limits::ACP_ERRANDS_MAX {
                return None;
            }
            open.last += 1;
            let id = RpcId::number(open.last);
            open.waiting.insert(id.clone(), sender);
            id
        };
        let mut line = Vec::new();
        rpc::write_request(&mut line, &id, method, params);
        if self.out.send(line).await.is_err() {
            self.locked().waiting.remove(&id);
            return None;
        }
        Some(Errand { id, reply })
    }

    /// Sends a request and waits for its answer.
    pub(super) async fn ask(&self, method: &str, params: &Value) -> Option<Reply> {
        self.send(method, params).await?.answer().await
    }

    /// Takes an answer of the client. False: nobody waits for it.
    pub(super) fn answered(&self, id: &RpcId, reply: Reply) -> bool {
        let waiting = self.locked().waiting.remove(id);
        waiting.is_some_and(|waiting| waiting.send(reply).is_ok())
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

    fn locked(&self) -> std::sync::MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Errand {
    /// Waits for the answer; nothing where it was called off.
    pub(super) async fn answer(self) -> Option<Reply> {
        self.reply.await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::super::outbox::Frame;
    use super::*;

    #[tokio::test]
    async fn an_answer_finds_its_errand_and_late_ones_find_nobody() {
        let (out, mut frames) = Outbox::new();
        let errands = Errands::new(out);
        let first = errands.send("fs/read_text_file", &json!({})).await.unwrap();
        let second = errands.send("fs/read_text_file", &json!({})).await.unwrap();
        assert!(errands.answered(&second.id, Ok(json!("b"))));
        assert!(!errands.answered(&second.id, Ok(json!("again"))));
        assert_eq!(second.answer().await, Some(Ok(json!("b"))));
        errands.call_off(&first.id).await;
        assert_eq!(first.answer().await, None);
        let mut told = String::new();
        for _ in 0..3 {
            let Some(Frame::Lines(line)) = frames.recv().await else { panic!() };
            told.push_str(std::str::from_utf8(&line).unwrap());
        }
        assert!(told.ends_with(
            "{\"jsonrpc\":\"2.0\",\"method\":\"$/cancel_request\",\"params\":{\"requestId\":1}}\n"
        ));
    }
}
