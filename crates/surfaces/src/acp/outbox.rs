//! What goes to the client, in order and bounded: a client that reads slowly makes whoever writes wait, and the journal
//! is where the rest waits. Carries whole lines; knows no method.

use bytes::Bytes;
use tokio::sync::mpsc;

use super::rpc::{self, Fault, RpcId};
use crate::limits;

/// A piece of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Whole lines for the client.
    Lines(Bytes),
    /// For the standard error of whoever serves it.
    Log { level: &'static str, message: String },
    /// Nothing follows.
    End,
}

/// The client is gone.
#[derive(Debug)]
pub(super) struct HungUp;

/// The way to the client. Cheap to clone.
#[derive(Clone)]
pub(super) struct Outbox {
    sender: mpsc::Sender<Frame>,
}

impl Outbox {
    pub(super) fn new() -> (Self, mpsc::Receiver<Frame>) {
        let (sender, receiver) = mpsc::channel(limits::ACP_FRAMES_READY_MAX);
        (Self { sender }, receiver)
    }

    /// Sends lines, once there is room; nothing where there are none.
    pub(super) async fn send(&self, lines: Vec<u8>) -> Result<(), HungUp> {
        if lines.is_empty() {
            return Ok(());
        }
        self.sender.send(Frame::Lines(lines.into())).await.map_err(|_| HungUp)
    }

    pub(super) async fn answer(
        &self,
        id: &RpcId,
        result: Result<serde_json::Value, Fault>,
    ) -> Result<(), HungUp> {
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
        self.send(line).await
    }

    /// Says something on standard error. Dropped where the client does not read: it is only a log.
    pub(super) fn log(&self, level: &'static str, message: impl Into<String>) {
        let _full = self.sender.try_send(Frame::Log { level, message: message.into() });
    }

    /// Ends the output, whoever else still has something to say.
    pub(super) async fn end(&self) {
        // A client that does not read will not miss it, and one that is gone has ended already.
        let _late = self.sender.send_timeout(Frame::End, limits::ACP_POLLING_INTERVAL).await;
    }

    pub(super) async fn hung_up(&self) {
        self.sender.closed().await;
    }
}
