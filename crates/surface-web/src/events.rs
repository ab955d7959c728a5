//! `GET /api/sessions/{id}/events`: the events of one session for `curl` and small clients, as server-sent events whose ids
//! are sequence numbers, so that `Last-Event-ID` resumes; or, with `Accept: application/json`, one part of them as a list.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use domain::{Error, ErrorCode, Event, SessionId};
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request};
use runtime::journal::Cursor;
use surface::follow::{self, FollowEnd, Follower, JournalGap};
use surface::pump::Flow;
use surface::{query, status};
use tokio::sync::mpsc;
use tokio::time;
use tokio_stream::wrappers::ReceiverStream;

use crate::{Web, event_json, limits};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// One part of a stream.
pub(super) type Frame = Result<Bytes, Infallible>;

/// What a caller wants to read.
struct Reading {
    after: u64,
    limit: Option<u64>,
    follow: bool,
}

/// Serves the events of a session.
pub(super) async fn serve(
    State(web): State<Web>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> Response {
    let (parts, _) = request.into_parts();
    match answer(&web, SessionId::new(id), parts).await {
        Ok(response) => response,
        Err(error) => status::rest(&error),
    }
}

async fn answer(web: &Web, id: SessionId, request: Parts) -> Result<Response, Error> {
    let reading = reading(request.uri.query().unwrap_or_default(), &request.headers)?;
    let cursor = web.supervisor.events_after(&id, reading.after).await?;
    let newest = cursor.newest();
    if reading.after > newest {
        let message = format!("{} is after the newest event, {newest}", reading.after);
        return Err(Error::invalid("after", message));
    }
    let wants = request.headers.get(ACCEPT).and_then(|wanted| wanted.to_str().ok()).unwrap_or_default();
    if wants.contains("application/json") && !wants.contains("text/event-stream") {
        return list(cursor, &reading, newest).await;
    }
    let (sender, receiver) = mpsc::channel(limits::LIVE_READY_MAX);
    tokio::spawn(feed(cursor, reading, newest, sender));
    Ok(stream(receiver))
}

/// Reads what is wanted from the query; `Last-Event-ID` counts where the query says nothing.
fn reading(text: &str, headers: &HeaderMap) -> Result<Reading, Error> {
    let mut reading = Reading { after: 0, limit: None, follow: true };
    let number = |name: &str, value: &str| {
        value.parse::<u64>().map_err(|_| Error::invalid(name, "must be a number, 0 or larger"))
    };
    if let Some(last) = headers.get(LAST_EVENT_ID) {
        reading.after = number("Last-Event-ID", last.to_str().unwrap_or("?"))?;
    }
    for (name, value) in query::pairs(text) {
        match name.as_str() {
            "after" => reading.after = number("after", &value)?,
            "limit" => reading.limit = Some(number("limit", &value)?),
            "follow" => {
                reading.follow = match value.as_str() {
                    "true" => true,
                    "false" => false,
                    _ => return Err(Error::invalid("follow", "must be true or false")),
                };
            }
            _ => return Err(Error::invalid("query", "takes after, limit and follow")),
        }
    }
    Ok(reading)
}

/// Returns a part of the events as a list.
async fn list(mut cursor: Cursor, reading: &Reading, newest: u64) -> Result<Response, Error> {
    let mut left = reading.limit.unwrap_or(limits::EVENTS_PAGE_MAX).min(limits::EVENTS_PAGE_MAX);
    let mut text = format!("{{\"newest\":{newest},\"events\":[");
    let mut is_first = true;
    let mut removed_through = 0;
    'read: while left > 0 {
        let events = match cursor.available().await {
            Err(error) if error.code == ErrorCode::EventsExpired => {
                cursor.skip_removed().await?;
                removed_through = cursor.seq();
                continue;
            }
            events => events?,
        };
        if events.is_empty() {
            break;
        }
        for event in events {
            if left == 0 || text.len() > limits::EVENTS_PAGE_BYTES {
                break 'read;
            }
            if !std::mem::take(&mut is_first) {
                text.push(',');
            }
            event_json::append(&event, &mut text);
            left -= 1;
        }
    }
    text.push_str(&format!("],\"removed_through\":{removed_through}}}"));
    let mut response = text.into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Sends events until the reader goes, or until what was wanted is sent.
async fn feed(cursor: Cursor, reading: Reading, newest: u64, sender: mpsc::Sender<Frame>) {
    let mut feed = EventFeed { left: reading.limit.unwrap_or(u64::MAX), reading, newest, sender };
    if let Err(FollowEnd::Failed(error)) = follow::follow(cursor, &mut feed).await {
        tracing::warn!(%error, "a stream of events ends");
    }
}

struct EventFeed {
    reading: Reading,
    /// The newest event when the reader asked.
    newest: u64,
    /// How many more events are wanted.
    left: u64,
    sender: mpsc::Sender<Frame>,
}

impl EventFeed {
    async fn send(&self, text: String) -> Result<Flow, FollowEnd> {
        self.sender.send(Ok(text.into())).await?;
        Ok(Flow::More)
    }
}

impl Follower for EventFeed {
    /// The stream was silent for a while.
    type Signal = ();

    async fn take(&mut self, events: Vec<Arc<Event>>) -> Result<Flow, FollowEnd> {
        let mut text = String::new();
        for event in events.iter().take(usize::try_from(self.left).unwrap_or(usize::MAX)) {
            text.push_str(&format!("id: {}\ndata: ", event.seq));
            event_json::append(event, &mut text);
            text.push_str("\n\n");
            self.left -= 1;
        }
        self.send(text).await
    }

    async fn signal(&mut self) -> Result<(), FollowEnd> {
        tokio::select! {
            () = time::sleep(limits::HEARTBEAT_INTERVAL) => Ok(()),
            () = self.sender.closed() => Err(FollowEnd::ClientGone),
        }
    }

    async fn handle(&mut self, (): ()) -> Result<Flow, FollowEnd> {
        self.send(": still here\n\n".to_owned()).await
    }

    async fn before_wait(&mut self, cursor: &Cursor) -> Result<Flow, FollowEnd> {
        let is_wanted = self.left > 0 && (self.reading.follow || cursor.seq() < self.newest);
        Ok(if is_wanted { Flow::More } else { Flow::Done })
    }

    async fn skipped(&mut self, gap: JournalGap) -> Result<(), FollowEnd> {
        let JournalGap { after, next, error } = gap;
        let gap = serde_json::json!({ "after": after, "next": next, "message": error.message });
        self.send(format!("event: gap\ndata: {gap}\n\n")).await.map(drop)
    }
}

/// Returns the answer that a stream of frames is.
pub(super) fn stream(receiver: mpsc::Receiver<Frame>) -> Response {
    let mut response = Body::from_stream(ReceiverStream::new(receiver)).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Some proxies hold streams back unless they are told not to.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_counts_before_last_event_id_and_wrong_values_are_named() {
        let mut headers = HeaderMap::new();
        headers.insert(LAST_EVENT_ID, HeaderValue::from_static("7"));
        assert_eq!(reading("", &headers).unwrap().after, 7);
        let wanted = reading("after=3&limit=5&follow=false", &headers).unwrap();
        assert_eq!((wanted.after, wanted.limit, wanted.follow), (3, Some(5), false));
        for (text, field) in
            [("after=x", "after"), ("limit=-1", "limit"), ("follow=maybe", "follow"), ("a=b", "query")]
        {
            let error = reading(text, &HeaderMap::new()).err().unwrap();
            assert!(error.message.starts_with(&format!("{field}: ")), "{error}");
        }
        headers.insert(LAST_EVENT_ID, HeaderValue::from_static("x"));
        assert!(reading("", &headers).err().unwrap().message.starts_with("Last-Event-ID: "));
    }
}
