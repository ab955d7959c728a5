//! Other machines as the page sees them: which there are, how each is called, and the live stream of each, passed on frame by frame.
//! A machine that is gone is said to be gone and is tried again; it holds up nobody. What comes from another machine is data: only
//! known kinds of frames with valid JSON are passed on. Knows no relay and no certificate.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use domain::{Error, ErrorCode};
use http::{Method, Request, Response};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time;
use tokio_stream::StreamExt as _;
use tonic::client::GrpcService as _;
use tonic::transport::Channel;

use crate::events::Frame;
use crate::limits;

/// A machine that this one's user paired it with.
#[derive(Clone, Debug)]
pub struct OtherMachine {
    pub id: String,
    pub name: String,
    /// What this machine's device may do there.
    pub role: String,
}

/// The machines that are known here. Whoever assembles the daemon supplies them.
pub trait OtherMachines: Send + Sync {
    /// Returns all of them by name. Reads files.
    fn list(&self) -> Result<Vec<OtherMachine>, Error>;

    /// Returns the connection to one, which is made when it is used and made again when it broke.
    fn channel(&self, id: &str) -> Result<Channel, Error>;
}

/// No machine but this one.
pub struct NoMachines;

impl OtherMachines for NoMachines {
    fn list(&self) -> Result<Vec<OtherMachine>, Error> {
        Ok(Vec::new())
    }

    fn channel(&self, _id: &str) -> Result<Channel, Error> {
        Err(Error::new(ErrorCode::MachineNotFound, "this machine is paired with no other one"))
    }
}

/// Sends a request to another machine and waits for the beginning of its answer.
pub(super) async fn send(
    machines: &Arc<dyn OtherMachines>,
    id: &str,
    request: Request<Body>,
) -> Result<Response<tonic::body::Body>, Error> {
    let (known, named) = (Arc::clone(machines), id.to_owned());
    let opening = tokio::task::spawn_blocking(move || known.channel(&named));
    let mut channel = opening.await.map_err(|error| unreachable_machine(&error))??;
    let exchange = async {
        std::future::poll_fn(|context| channel.poll_ready(context)).await?;
        channel.call(request.map(tonic::body::Body::new)).await
    };
    match time::timeout(limits::MACHINE_WAIT, exchange).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(error)) => Err(unreachable_machine(&error)),
        Err(_) => Err(Error::new(ErrorCode::MachineOffline, "the machine does not answer")),
    }
}

fn unreachable_machine(error: &dyn std::error::Error) -> Error {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    Error::new(ErrorCode::MachineOffline, format!("the machine is not reached: {cause}"))
}

/// What a page follows on one machine.
pub(super) struct MachineFeed {
    pub(super) machines: Arc<dyn OtherMachines>,
    pub(super) id: String,
    /// For each session where the page begins to read it, as `/api/live` takes it.
    pub(super) sessions: BTreeMap<String, Value>,
    pub(super) sender: mpsc::Sender<Frame>,
}

impl MachineFeed {
    /// Passes on the live stream of a machine for as long as the page is there.
    pub(super) async fn run(self) {
        let mut is_first = true;
        loop {
            // What a page has read meanwhile only the page knows: it opens its own stream again when the machine is back.
            let sessions = if is_first { json!(self.sessions) } else { json!({}) };
            let problem = match self.open(&sessions).await {
                Ok(body) => {
                    let state = if is_first || self.sessions.is_empty() { "live" } else { "back" };
                    is_first = false;
                    if self.tell(state, "").await.is_err() {
                        return;
                    }
                    match self.pass_on(body).await {
                        Ok(problem) => problem,
                        Err(PageGone) => return,
                    }
                }
                Err(error) => error.message,
            };
            if self.tell("gone", &problem).await.is_err() {
                return;
            }
            time::sleep(limits::MACHINE_PAUSE).await;
        }
    }

    async fn open(&self, sessions: &Value) -> Result<tonic::body::Body, Error> {
        let message = json!({ "sessions": sessions, "overview": 0 });
        let request = request(Method::POST, "/api/live", Body::from(message.to_string()))?;
        let response = send(&self.machines, &self.id, request).await?;
        let status = response.status();
        if !status.is_success() {
            let message =
                format!("the machine refuses to be watched ({status}); see obey machine doctor there");
            return Err(Error::new(ErrorCode::MachineOffline, message));
        }
        Ok(response.into_body())
    }

    /// Passes frames on until the stream ends, and returns why it did.
    async fn pass_on(&self, body: tonic::body::Body) -> Result<String, PageGone> {
        let mut pieces = Body::new(body).into_data_stream();
        let mut parser = FrameParser::default();
        loop {
            let piece = match time::timeout(limits::MACHINE_SILENCE_WAIT, pieces.next()).await {
                Ok(Some(Ok(piece))) => piece,
                Ok(Some(Err(_)) | None) => return Ok("the connection ended".to_owned()),
                Err(_) => return Ok("it does not answer".to_owned()),
            };
            let Ok(frames) = parser.push(&piece) else {
                return Ok("it sends more at once than is taken".to_owned());
            };
            for (event, data) in frames {
                let frame = passed_on(&self.id, &event, &data);
                if let Some(frame) = frame {
                    self.sender.send(Ok(frame.into())).await.map_err(|_| PageGone)?;
                }
            }
        }
    }

    async fn tell(&self, state: &str, message: &str) -> Result<(), PageGone> {
        let data = json!({ "machine": self.id, "state": state, "message": message });
        let frame = format!("event: machine_state\ndata: {data}\n\n");
        self.sender.send(Ok(frame.into())).await.map_err(|_| PageGone)
    }
}

/// Nobody reads the stream any more.
struct PageGone;

/// Returns a request of this daemon to another one.
pub(super) fn request(method: Method, path: &str, body: Body) -> Result<Request<Body>, Error> {
    Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .body(body)
        .map_err(|_| Error::invalid("path", "has characters that cannot be sent"))
}

/// The kinds of frames that are passed on.
const PASSED_ON: &[&str] = &["hello", "overview", "events", "caught_up", "gap", "plan", "failed"];

/// Returns the frame in which a page gets a frame of another machine; none for what a page does not take from there.
fn passed_on(machine: &str, event: &str, data: &str) -> Option<String> {
    let is_json = serde_json::from_str::<serde::de::IgnoredAny>(data).is_ok();
    let is_taken = PASSED_ON.contains(&event) && is_json && !data.contains(['\n', '\r']);
    is_taken.then(|| {
        let machine = json!(machine);
        format!("event: machine\ndata: {{\"machine\":{machine},\"event\":\"{event}\",\"data\":{data}}}\n\n")
    })
}

/// Cuts a stream of server-sent events into its frames, whatever the pieces are.
#[derive(Default)]
struct FrameParser {
    pending: Vec<u8>,
    /// Up to here there is no end of a frame.
    searched: usize,
}

impl FrameParser {
    /// Takes a piece and returns the frames that are complete: each one's kind and its data.
    fn push(&mut self, piece: &[u8]) -> Result<Vec<(String, String)>, TooLong> {
        self.pending.extend_from_slice(piece);
        let mut frames = Vec::new();
        while let Some(end) = self.frame_end() {
            let block: Vec<u8> = self.pending.drain(..end + 2).collect();
            self.searched = 0;
            let text = String::from_utf8_lossy(&block);
            let named = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
            if let (Some(event), Some(data)) = (named("event: "), named("data: ")) {
                frames.push((event.to_owned(), data.to_owned()));
            }
        }
        if self.pending.len() > limits::MACHINE_FRAME_MAX_BYTES {
            return Err(TooLong);
        }
        Ok(frames)
    }

    fn frame_end(&mut self) -> Option<usize> {
        let from = self.searched.saturating_sub(1);
        let found = self.pending.get(from..)?.windows(2).position(|pair| pair == b"\n\n");
        self.searched = self.pending.len();
        found.map(|at| from + at)
    }
}

/// A frame is larger than any that is sent.
#[derive(Debug)]
struct TooLong;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_another_machine_are_cut_at_any_byte() {
        let text =
            "event: hello\ndata: {\"a\":1}\n\n: still here\n\nevent: overview\ndata: {\"é\":\"\\n\\n\"}\n\n";
        let whole = FrameParser::default().push(text.as_bytes()).unwrap();
        let expected = [("hello", "{\"a\":1}"), ("overview", "{\"é\":\"\\n\\n\"}")]
            .map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(whole, expected);
        for size in 1..text.len() {
            let mut parser = FrameParser::default();
            let mut all = Vec::new();
            for piece in text.as_bytes().chunks(size) {
                all.extend(parser.push(piece).unwrap());
            }
            assert_eq!(all, expected, "pieces of {size}");
        }
    }

    #[test]
    fn a_machine_can_neither_sign_the_page_out_nor_speak_for_another_one() {
        let frame = passed_on("mach_1", "overview", "{\"sessions\":[]}").unwrap();
        let data = frame.strip_prefix("event: machine\ndata: ").unwrap().trim_end();
        let value: Value = serde_json::from_str(data).unwrap();
        assert_eq!((&value["machine"], &value["event"]), (&json!("mach_1"), &json!("overview")));
        for (event, data) in [
            ("signed_out", "{}"),
            ("machine", "{\"machine\":\"mach_2\"}"),
            ("machine_state", "{}"),
            ("overview", "not JSON"),
            ("overview", "{}} , \"machine\":\"mach_2\""),
            ("overview", "{}\n\nevent: signed_out"),
        ] {
            assert!(passed_on("mach_1", event, data).is_none(), "{event} {data}");
        }
    }

    #[test]
    fn a_frame_without_an_end_is_given_up() {
        let mut parser = FrameParser::default();
        let piece = vec![b'x'; limits::MACHINE_FRAME_MAX_BYTES / 2 + 1];
        assert!(parser.push(&piece).is_ok());
        assert!(parser.push(&piece).is_err());
    }
}
