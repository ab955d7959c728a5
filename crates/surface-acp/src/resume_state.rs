//! The notes with which the next daemon restores a connection. The client's side stores them and sends them
//! back; everything else is in the journal. Defines the names and formats of notes; decides nothing.

use std::collections::BTreeMap;

use domain::author::{self, Author, Correlation};
use domain::{RequestId, SessionId, TurnId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::client_requests::Reply;
use super::rpc::RpcId;

/// Notes by name; an empty text deletes a note.
pub type Notes = BTreeMap<String, String>;

/// Changes sent along with output: the notes to store, and the client lines that are acknowledged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NoteChanges {
    pub notes: Notes,
    pub done: Vec<u64>,
}

impl NoteChanges {
    pub(super) fn is_empty(&self) -> bool {
        self.notes.is_empty() && self.done.is_empty()
    }
}

const CLIENT: &str = "client";
const ERRANDS: &str = "errands";

/// An open session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct NotedSession {
    /// Events up to this one existed when it was opened.
    pub(super) until: u64,
    /// The request that opened it, if it is not answered yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) asked: Option<NotedLoad>,
}

/// A `session/load` or `session/resume` that is not answered yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct NotedLoad {
    pub(super) rpc: Value,
    /// The client wants the history.
    pub(super) told: bool,
}

/// A pending prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct NotedPrompt {
    pub(super) turn: TurnId,
    pub(super) rpc: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ends_as: Option<String>,
    /// The size of the notify file when the prompt was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) notify_from: Option<u64>,
}

/// The questions sent to a client for one request: the answers so far, and the pending question.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct NotedQuestions {
    pub(super) replies: Vec<Reply>,
    pub(super) client_request: u64,
}

/// The notes of one session.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SessionNotes {
    pub(super) opened: NotedSession,
    /// Everything up to this event was sent.
    pub(super) told: u64,
    pub(super) owns: bool,
    pub(super) prompt: Option<NotedPrompt>,
    pub(super) trails: BTreeMap<RequestId, NotedQuestions>,
}

/// All notes of a connection.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ConnectionNotes {
    /// The parameters of `initialize`.
    pub(super) client: Option<Value>,
    pub(super) last_errand: u64,
    pub(super) sessions: BTreeMap<SessionId, SessionNotes>,
}

impl ConnectionNotes {
    /// Parses notes of this or an earlier version; skips what it cannot parse.
    pub(super) fn read(notes: &Notes) -> Self {
        let mut all = Self {
            client: notes.get(CLIENT).and_then(|text| serde_json::from_str(text).ok()),
            last_errand: notes.get(ERRANDS).and_then(|text| text.parse().ok()).unwrap_or_default(),
            sessions: BTreeMap::new(),
        };
        for (name, text) in notes {
            let mut parts = name.splitn(3, '/');
            if let (Some("open"), Some(id)) = (parts.next(), parts.next())
                && let Ok(opened) = serde_json::from_str(text)
            {
                all.sessions.insert(SessionId::new(id), SessionNotes { opened, ..SessionNotes::default() });
            }
        }
        for (name, text) in notes {
            let mut parts = name.splitn(3, '/');
            let (Some(what), Some(id)) = (parts.next(), parts.next()) else { continue };
            let Some(session) = all.sessions.get_mut(&SessionId::new(id)) else { continue };
            match what {
                "told" => session.told = text.parse().unwrap_or_default(),
                "owns" => session.owns = true,
                "prompt" => session.prompt = serde_json::from_str(text).ok(),
                "ask" => {
                    let request = parts.next().and_then(|number| number.parse().ok());
                    if let (Some(request), Ok(trail)) = (request, serde_json::from_str(text)) {
                        session.trails.insert(RequestId(request), trail);
                    }
                }
                _ => {}
            }
        }
        all
    }
}

/// Writes notes, each under its own name, so that writers never overwrite each other's notes.
pub(super) trait NoteWriter {
    fn client(&mut self, params: &Value);
    fn client_requests(&mut self, last: u64);
    fn opened(&mut self, id: &SessionId, opened: &NotedSession);
    fn set_sent(&mut self, id: &SessionId, seq: u64);
    fn owns(&mut self, id: &SessionId);
    fn prompt(&mut self, id: &SessionId, prompt: Option<&NotedPrompt>);
    fn trail(&mut self, id: &SessionId, request: RequestId, trail: Option<&NotedQuestions>);
    fn closed(&mut self, id: &SessionId);
}

impl NoteWriter for Notes {
    fn client(&mut self, params: &Value) {
        self.insert(CLIENT.to_owned(), params.to_string());
    }

    fn client_requests(&mut self, last: u64) {
        self.insert(ERRANDS.to_owned(), last.to_string());
    }

    fn opened(&mut self, id: &SessionId, opened: &NotedSession) {
        self.insert(format!("open/{id}"), text(Some(opened)));
    }

    fn set_sent(&mut self, id: &SessionId, seq: u64) {
        self.insert(format!("told/{id}"), seq.to_string());
    }

    fn owns(&mut self, id: &SessionId) {
        self.insert(format!("owns/{id}"), "yes".to_owned());
    }

    fn prompt(&mut self, id: &SessionId, prompt: Option<&NotedPrompt>) {
        self.insert(format!("prompt/{id}"), text(prompt));
    }

    fn trail(&mut self, id: &SessionId, request: RequestId, trail: Option<&NotedQuestions>) {
        self.insert(format!("ask/{id}/{}", request.0), text(trail));
    }

    fn closed(&mut self, id: &SessionId) {
        for what in ["open", "told", "owns", "prompt"] {
            self.insert(format!("{what}/{id}"), String::new());
        }
    }
}

/// Serializes a note; the empty text deletes it. Our own types always serialize.
fn text<T: Serialize>(value: Option<&T>) -> String {
    value.and_then(|value| serde_json::to_string(value).ok()).unwrap_or_default()
}

/// The `by` field that identifies a prompt in the journal: client name, connection and request.
pub(super) fn signed(by: &str, connection: &str, rpc: &RpcId) -> String {
    let id = rpc.to_json().to_string();
    let correlation = (!connection.is_empty()).then_some(Correlation::Request { connection, id: &id });
    Author { client: by, correlation }.to_string()
}

/// Extracts the request id from a prompt's `by` field, if this connection sent it.
pub(super) fn signature(by: &str, connection: &str) -> Option<RpcId> {
    if connection.is_empty() {
        return None;
    }
    RpcId::read(&serde_json::from_str(author::request_of(by, connection)?).ok()?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_noted_is_read_again() {
        let id = SessionId::new("sess_1");
        let mut notes = Notes::new();
        let params = json!({"protocolVersion": 1});
        notes.client(&params);
        notes.client_requests(7);
        let begun = NotedLoad { rpc: json!("a"), told: true };
        let opened = NotedSession { until: 5, asked: Some(begun) };
        notes.opened(&id, &opened);
        notes.set_sent(&id, 3);
        notes.owns(&id);
        let prompt = NotedPrompt {
            turn: TurnId(2),
            rpc: json!(4),
            ends_as: Some("cancelled".into()),
            notify_from: Some(9),
        };
        notes.prompt(&id, Some(&prompt));
        let trail =
            NotedQuestions { replies: vec![Ok(json!({"x": 1})), Err(json!({"code": 2}))], client_request: 7 };
        notes.trail(&id, RequestId(3), Some(&trail));
        let read = ConnectionNotes::read(&notes);
        assert_eq!((read.client, read.last_errand), (Some(params), 7));
        let session = &read.sessions[&id];
        assert_eq!((session.told, session.owns, &session.opened), (3, true, &opened));
        assert_eq!((session.prompt.as_ref(), &session.trails[&RequestId(3)]), (Some(&prompt), &trail));
        notes.closed(&id);
        notes.retain(|_, text| !text.is_empty());
        assert!(ConnectionNotes::read(&notes).sessions.is_empty());
    }

    #[test]
    fn nonsense_is_passed_over() {
        let nonsense = [("client", "{"), ("open/x", "7"), ("told/y", "1"), ("ask/x", ""), ("", "")];
        let notes = nonsense.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        assert_eq!(ConnectionNotes::read(&notes), ConnectionNotes::default());
    }

    #[test]
    fn a_prompt_is_known_again_by_its_connection_and_request() {
        for rpc in [json!(7), json!("a#b:c"), json!(null)] {
            let rpc = RpcId::read(&rpc).unwrap();
            let by = signed("acp:zed", "c1", &rpc);
            assert_eq!(signature(&by, "c1"), Some(rpc));
            assert_eq!(signature(&by, "c2"), None);
            assert_eq!(signature(&by, ""), None);
        }
        assert_eq!(signed("acp:zed", "", &RpcId::number(1)), "acp:zed");
    }
}
