//! `POST /api/live`: one stream for everything a page shows. The page names the sessions it follows and the last event it
//! has of each; from there on it gets every event once and in order, in frames of one session each. Reads journals like
//! every other client; a slow page lags there.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use axum::body::{Body, HttpBody as _};
use axum::extract::State;
use axum::response::Response;
use domain::{Error, ErrorCode, Event, SessionId};
use http::{Extensions, Request};
use runtime::journal::Cursor;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use surface::follow::{self, FollowEnd, Follower, JournalGap};
use surface::peer::{self, PageKey};
use surface::pump::Flow;
use surface::server::json_calls::Methods;
use surface::{access, status};
use tokio::sync::mpsc;
use tokio::time;

use crate::events::{Frame, stream};
use crate::machines::{MachineFeed, OtherMachine};
use crate::{Web, assets, event_json, limits};

/// What a page follows.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    #[serde(default)]
    sessions: BTreeMap<String, From>,
    /// The revision of the overview that the page has. A revision holds for one daemon only, so that a new stream always
    /// begins with a snapshot.
    #[serde(default)]
    overview: Option<u64>,
    /// Also the overviews of all other machines, and for each machine the sessions that are followed there. Not for a page without
    /// a key.
    #[serde(default)]
    machines: Option<BTreeMap<String, BTreeMap<String, From>>>,
}

/// The method whose messages are the frames of the overview.
const OVERVIEW: &str = "obey.v1.OverviewService/Watch";

/// The route whose row says who may use other machines.
const MACHINE_CALLS: &str = "/api/machines/{machine}/{service}/{method}";

/// The method whose messages are the plans of a session.
const PLANS: &str = "obey.v1.PlanService/Watch";

/// Where a page begins to read a session.
#[derive(Clone, Copy, Deserialize, Serialize)]
#[serde(untagged)]
enum From {
    /// After this event.
    After(u64),
    Tail(Tail),
}

#[derive(Clone, Copy, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Tail {
    /// With the newest events, so many of them.
    tail: u64,
}

/// Serves the stream.
pub(super) async fn serve(State(web): State<Web>, request: Request<Body>) -> Response {
    let (parts, body) = request.into_parts();
    let asked = Asked {
        key: parts.extensions.get::<PageKey>().cloned(),
        methods: parts.extensions.get::<Methods>().cloned(),
        extensions: parts.extensions,
    };
    match wanted(body).await {
        Ok(wanted) => {
            if let Err(error) = check_machines(&wanted, &asked.extensions) {
                return status::rest(&error);
            }
            let (sender, receiver) = mpsc::channel(limits::LIVE_READY_MAX);
            tokio::spawn(web.follow(wanted, asked, sender));
            stream(receiver)
        }
        Err(error) => status::rest(&error),
    }
}

/// Who reads a stream, and how methods are called for them.
struct Asked {
    key: Option<PageKey>,
    methods: Option<Methods>,
    extensions: Extensions,
}

async fn wanted(body: Body) -> Result<Wanted, Error> {
    let bytes = access::read_body(body).await?;
    let members = access::json::object(&bytes).map_err(|error| access::not_json(&error))?;
    let wanted: Wanted = serde_json::from_value(Value::Object(members)).map_err(|_| {
        Error::invalid("body", "takes {\"sessions\": {ID: SEQ}, \"overview\": 0, \"machines\": {MACHINE: {ID: SEQ}}}, where SEQ is the last event the page has or {\"tail\": N}")
    })?;
    let elsewhere = wanted.machines.iter().flatten().map(|(_, sessions)| sessions.len()).sum::<usize>();
    if wanted.sessions.len() + elsewhere > limits::LIVE_SESSIONS_MAX {
        let most = limits::LIVE_SESSIONS_MAX;
        return Err(Error::new(
            ErrorCode::LimitReached,
            format!("sessions: a stream follows at most {most} of them"),
        ));
    }
    Ok(wanted)
}

/// Rejects callers that may not use other machines and name some.
fn check_machines(wanted: &Wanted, extensions: &Extensions) -> Result<(), Error> {
    if wanted.machines.is_none() {
        return Ok(());
    }
    let row = access::rest("POST", MACHINE_CALLS);
    let row = row.ok_or_else(|| Error::invalid("machines", "are not served"))?;
    let is_tunnelled = extensions.get::<access::Tunnelled>().is_some();
    match access::decide(row, &peer::caller(extensions), is_tunnelled) {
        access::Verdict::Allowed => Ok(()),
        access::Verdict::Refused(error) => Err(error),
        access::Verdict::OwnSession(own) => Err(access::other_session(row, &own)),
    }
}

impl Web {
    /// Feeds a stream until its page goes or its key ends.
    async fn follow(self, wanted: Wanted, asked: Asked, sender: mpsc::Sender<Frame>) {
        let feeding = self.feed(wanted, &asked, &sender);
        let ended = async {
            match &asked.key {
                Some(PageKey(id)) => self.about.devices.ended_one(id).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = feeding => {}
            () = sender.closed() => {}
            () = ended => {
                // The page may have gone meanwhile.
                let _ = sender.send(Ok(frame("signed_out", &json!({})).into())).await;
            }
        }
    }

    async fn feed(&self, wanted: Wanted, asked: &Asked, sender: &mpsc::Sender<Frame>) {
        let mut verdicts = serde_json::Map::new();
        let mut cursors = Vec::new();
        for (id, from) in wanted.sessions {
            match self.open(&SessionId::new(id.clone()), from).await {
                Ok((cursor, verdict)) => {
                    verdicts.insert(id.clone(), verdict);
                    cursors.push((id, cursor));
                }
                Err(error) => {
                    let problem = json!({ "verdict": "missing", "code": error.code.to_string(), "message": error.message });
                    verdicts.insert(id, problem);
                }
            }
        }
        let mut hello =
            json!({ "version": self.about.version, "build": assets::BUILD, "sessions": verdicts });
        let others = match &wanted.machines {
            Some(_) => self.other_machines(&mut hello).await,
            None => Vec::new(),
        };
        if sender.send(Ok(frame("hello", &hello).into())).await.is_err() {
            return;
        }
        let mut feeds = tokio::task::JoinSet::new();
        for (id, cursor) in cursors {
            if let Some(methods) = &asked.methods {
                let plans = feed_plans(methods.clone(), asked.extensions.clone(), id.clone(), sender.clone());
                feeds.spawn(plans);
            }
            feeds.spawn(feed_session(id, cursor, sender.clone()));
        }
        if let (Some(methods), Some(_)) = (&asked.methods, wanted.overview) {
            feeds.spawn(feed_overview(methods.clone(), asked.extensions.clone(), sender.clone()));
        }
        let mut elsewhere = wanted.machines.unwrap_or_default();
        for OtherMachine { id, .. } in others {
            let sessions = elsewhere.remove(&id).unwrap_or_default();
            let sessions = sessions.into_iter().map(|(session, from)| (session, json!(from))).collect();
            let machines = Arc::clone(&self.about.machines);
            feeds.spawn(MachineFeed { machines, id, sessions, sender: sender.clone() }.run());
        }
        feeds.spawn(beat(sender.clone()));
        while feeds.join_next().await.is_some() {}
    }

    /// Returns the machines that are followed, and tells the page which they are.
    async fn other_machines(&self, hello: &mut Value) -> Vec<OtherMachine> {
        let machines = Arc::clone(&self.about.machines);
        let listed = tokio::task::spawn_blocking(move || machines.list()).await;
        let mut all = match listed {
            Ok(Ok(all)) => all,
            Ok(Err(error)) => {
                hello["machines_problem"] = json!(error.message);
                Vec::new()
            }
            // Only where the daemon ends.
            Err(_) => Vec::new(),
        };
        all.truncate(limits::LIVE_MACHINES_MAX);
        let shown = |one: &OtherMachine| json!({ "id": one.id, "name": one.name, "role": one.role });
        hello["machine"] = json!(self.about.machine);
        hello["machines"] = all.iter().map(shown).collect();
        all
    }

    /// Returns a reader of a session and what the page must know of it.
    async fn open(&self, id: &SessionId, from: From) -> Result<(Cursor, Value), Error> {
        let newest = self.supervisor.events_after(id, 0).await?.newest();
        let (after, verdict) = match from {
            From::After(after) if after <= newest => (after, "ok"),
            // The page has events that this journal never had, such as those of a removed session.
            From::After(_) => (0, "reset"),
            From::Tail(Tail { tail }) => (newest.saturating_sub(tail), "ok"),
        };
        let cursor = self.supervisor.events_after(id, after).await?;
        Ok((cursor, json!({ "verdict": verdict, "after": after, "newest": newest })))
    }
}

/// Sends the events of one session to a page.
async fn feed_session(id: String, cursor: Cursor, sender: mpsc::Sender<Frame>) {
    let mut feed = LiveFeed { id, newest: Some(cursor.newest()), sender };
    if let Err(FollowEnd::Failed(error)) = follow::follow(cursor, &mut feed).await {
        let problem = json!({ "session": feed.id, "code": error.code.to_string(), "message": error.message });
        // The page may have gone meanwhile.
        let _ = feed.send(frame("failed", &problem)).await;
    }
}

struct LiveFeed {
    id: String,
    /// The newest event when the page asked, until the page is told that it has all there were.
    newest: Option<u64>,
    sender: mpsc::Sender<Frame>,
}

impl LiveFeed {
    async fn send(&self, frame: String) -> Result<(), FollowEnd> {
        Ok(self.sender.send(Ok(frame.into())).await?)
    }
}

impl Follower for LiveFeed {
    type Signal = ();

    async fn take(&mut self, events: Vec<Arc<Event>>) -> Result<Flow, FollowEnd> {
        for frame in frames(&self.id, &events) {
            self.send(frame).await?;
        }
        Ok(Flow::More)
    }

    async fn signal(&mut self) -> Result<(), FollowEnd> {
        self.sender.closed().await;
        Err(FollowEnd::ClientGone)
    }

    async fn before_wait(&mut self, cursor: &Cursor) -> Result<Flow, FollowEnd> {
        if self.newest.take_if(|newest| cursor.seq() >= *newest).is_some() {
            self.send(frame("caught_up", &json!({ "session": self.id, "seq": cursor.seq() }))).await?;
        }
        Ok(Flow::More)
    }

    async fn skipped(&mut self, gap: JournalGap) -> Result<(), FollowEnd> {
        let JournalGap { after, next, error } = gap;
        let gap = json!({ "session": self.id, "after": after, "next": next, "message": error.message });
        self.send(frame("gap", &gap)).await
    }
}

/// Sends the overview of all sessions: a snapshot, then changes.
async fn feed_overview(methods: Methods, extensions: Extensions, sender: mpsc::Sender<Frame>) {
    let response = methods.stream(OVERVIEW, &json!({}), &extensions).await;
    feed_lines(response.into_body(), &sender, |line| format!("event: overview\ndata: {line}\n\n")).await;
}

/// Sends the plans of a session, and again after changes.
async fn feed_plans(methods: Methods, extensions: Extensions, id: String, sender: mpsc::Sender<Frame>) {
    let response = methods.stream(PLANS, &json!({ "parent_session_id": id }), &extensions).await;
    // A session that is being removed has no plans any more; the page learns of that from its events.
    if !response.status().is_success() {
        return;
    }
    let in_frame =
        |line: &str| format!("event: plan\ndata: {{\"session\":{},\"plan\":{line}}}\n\n", json!(id));
    feed_lines(response.into_body(), &sender, in_frame).await;
}

/// Sends every line of a method's answer as a frame. A line that tells of the method's failure is its last, and is left out: the
/// page opens the stream again when the connection ends.
async fn feed_lines(mut body: Body, sender: &mpsc::Sender<Frame>, in_frame: impl Fn(&str) -> String) {
    let mut pending = Vec::new();
    while let Some(Ok(frame)) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await
    {
        let Some(data) = frame.data_ref() else { continue };
        pending.extend_from_slice(data);
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            if line.starts_with("{\"error\"") || line.starts_with("{\"code\"") {
                return;
            }
            if sender.send(Ok(in_frame(line.trim_end()).into())).await.is_err() {
                return;
            }
        }
    }
}

/// Packs events of one session into frames of a bounded size.
fn frames(id: &str, events: &[Arc<Event>]) -> Vec<String> {
    let mut all = Vec::new();
    let mut events = events.iter().peekable();
    while let Some(first) = events.next() {
        let mut text = format!("event: events\ndata: {{\"session\":{},\"events\":[", json!(id));
        event_json::append(first, &mut text);
        let mut last = first.seq;
        while let Some(event) = events.next_if(|_| text.len() < limits::LIVE_FRAME_BYTES) {
            text.push(',');
            event_json::append(event, &mut text);
            last = event.seq;
        }
        text.push_str(&format!("],\"last\":{last}}}\n\n"));
        all.push(text);
    }
    all
}

/// Says now and then that the stream lives.
async fn beat(sender: mpsc::Sender<Frame>) {
    let mut ticks = time::interval(limits::HEARTBEAT_INTERVAL);
    loop {
        ticks.tick().await;
        if sender.send(Ok(": still here\n\n".into())).await.is_err() {
            return;
        }
    }
}

fn frame(event: &str, data: &Value) -> String {
    format!("event: {event}\ndata: {data}\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    use domain::{EventKind, Timestamp};

    #[test]
    fn frames_are_bounded_and_contain_every_event_once_in_order() {
        let text = |length| EventKind::TextDelta { text: "x".repeat(length), parent: None };
        let events: Vec<Arc<Event>> = (1..=300)
            .map(|seq| {
                let kind = text(if seq == 7 { 200_000 } else { 1_000 });
                Arc::new(Event { session: SessionId::new("sess_1"), seq, at: Timestamp(0), kind })
            })
            .collect();
        let frames = frames("sess_1", &events);
        let mut seen = Vec::new();
        for frame in &frames {
            let data = frame.strip_prefix("event: events\ndata: ").unwrap().strip_suffix("\n\n").unwrap();
            let value: Value = serde_json::from_str(data).unwrap();
            let all = value["events"].as_array().unwrap();
            assert_eq!(value["last"], all.last().unwrap()["seq"]);
            assert!(
                frame.len() < limits::LIVE_FRAME_BYTES + 2_000 || all.iter().any(|event| event["seq"] == 7)
            );
            seen.extend(all.iter().map(|event| event["seq"].as_u64().unwrap()));
        }
        assert_eq!(seen, (1..=300).collect::<Vec<u64>>());
        assert!(frames.len() > 3);
    }

    #[test]
    fn a_page_begins_after_an_event_or_with_the_newest() {
        let wanted: Wanted =
            serde_json::from_str(r#"{"sessions":{"sess_a":4812,"sess_b":{"tail":200}}}"#).unwrap();
        assert!(matches!(wanted.sessions["sess_a"], From::After(4812)));
        assert!(matches!(wanted.sessions["sess_b"], From::Tail(Tail { tail: 200 })));
        assert!(serde_json::from_str::<Wanted>(r#"{"sessions":{"a":-1}}"#).is_err());
        assert!(serde_json::from_str::<Wanted>(r#"{"session":{}}"#).is_err());
    }
}
