//! Changes the servers in a gateway's configuration, with the gateway's own method (`config.patch`). Every
//! session of this daemon that has servers there uses it. Concurrent changes are written together, and not
//! too often: the gateway limits the rate. The patch is computed in `servers`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;

use super::frames::{hello, reason};
use super::gateway::{Socket, open};
use super::servers::{Changes, patch};
use crate::limits::{GATEWAY_WRITE_GAP, GATEWAY_WRITE_WAIT, RETRY_BASE_WAIT};
use provider_common::json_fields::Look;

/// Pending changes, by the gateway's address. An entry exists while a task is writing.
#[derive(Clone, Default)]
pub(super) struct ConfigWriter {
    waiting: Arc<Mutex<BTreeMap<String, Vec<PendingPatch>>>>,
}

struct PendingPatch {
    token: String,
    changes: Changes,
    done: oneshot::Sender<Result<(), String>>,
}

impl ConfigWriter {
    /// Changes servers of a gateway. An error says why the gateway did not accept it.
    pub(super) async fn change(&self, url: &str, token: &str, changes: Changes) -> Result<(), String> {
        let (done, told) = oneshot::channel();
        let wish = PendingPatch { token: token.to_owned(), changes, done };
        let is_first = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let is_first = !waiting.contains_key(url);
            waiting.entry(url.to_owned()).or_default().push(wish);
            is_first
        };
        if is_first {
            tokio::spawn(self.clone().write_all(url.to_owned()));
        }
        // Each write is bounded itself; other writes may come first.
        let told = tokio::time::timeout(GATEWAY_WRITE_WAIT * 2, told).await;
        told.ok().and_then(Result::ok).unwrap_or_else(|| Err("it does not answer in time".to_owned()))
    }

    /// Writes pending changes of a gateway until there are none, with a pause after each write.
    async fn write_all(self, url: String) {
        loop {
            let wishes = {
                let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                match waiting.get_mut(&url) {
                    Some(wishes) if !wishes.is_empty() => std::mem::take(wishes),
                    _ => {
                        waiting.remove(&url);
                        return;
                    }
                }
            };
            write_together(&url, wishes).await;
            tokio::time::sleep(GATEWAY_WRITE_GAP).await;
        }
    }
}

/// Writes several changes at once. If that is refused, each is tried alone: an error in one must not fail the
/// others.
async fn write_together(url: &str, wishes: Vec<PendingPatch>) {
    let Some(token) = wishes.first().map(|wish| wish.token.clone()) else { return };
    let all: Changes = wishes.iter().flat_map(|wish| wish.changes.clone()).collect();
    let written = write(url, &token, &all).await;
    let alone = written.is_err() && wishes.len() > 1;
    for wish in wishes {
        let outcome = if alone { write(url, &wish.token, &wish.changes).await } else { written.clone() };
        // The caller may have stopped waiting.
        let _ = wish.done.send(outcome);
    }
}

/// Why a change was refused, and after which wait it may be retried.
struct PatchRefusal {
    reason: String,
    again: Option<Duration>,
}

impl PatchRefusal {
    fn lost(reason: impl ToString) -> Self {
        Self { reason: reason.to_string(), again: None }
    }
}

async fn write(url: &str, token: &str, changes: &Changes) -> Result<(), String> {
    let until = Instant::now() + GATEWAY_WRITE_WAIT;
    loop {
        let tried = tokio::time::timeout_at(until, write_once(url, token, changes)).await;
        match tried {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(PatchRefusal { again: Some(wait), .. })) if Instant::now() + wait < until => {
                tokio::time::sleep(wait).await;
            }
            Ok(Err(refusal)) => return Err(refusal.reason),
            Err(_) => return Err("it does not answer in time".to_owned()),
        }
    }
}

async fn write_once(url: &str, token: &str, changes: &Changes) -> Result<(), PatchRefusal> {
    let mut socket = open(url).await.map_err(PatchRefusal::lost)?;
    // The gateway sends the first message.
    while heard(&mut socket).await?.text("event") != "connect.challenge" {}
    call(&mut socket, "connect", hello(token)).await?;
    let known = call(&mut socket, "config.get", json!({})).await?;
    let Some(patch) = patch(known.under("config"), changes).map_err(PatchRefusal::lost)? else {
        return Ok(());
    };
    let mut params = json!({"raw": patch.raw, "replacePaths": patch.replace});
    if let Some(hash) = known.get("hash").filter(|hash| hash.is_string()) {
        params["baseHash"] = hash.clone();
    }
    call(&mut socket, "config.patch", params).await.map(drop)
}

async fn call(socket: &mut Socket, method: &str, params: Value) -> Result<Value, PatchRefusal> {
    let request = json!({"type": "req", "id": method, "method": method, "params": params}).to_string();
    socket.send(Message::text(request)).await.map_err(PatchRefusal::lost)?;
    loop {
        let mut frame = heard(socket).await?;
        if frame.text("type") != "res" || frame.text("id") != method {
            continue;
        }
        if frame.is("ok") {
            return Ok(frame.get_mut("payload").map(Value::take).unwrap_or_default());
        }
        return Err(refused(frame.under("error")));
    }
}

/// Parses a refusal. The configuration may have been changed meanwhile, or the gateway may be busy.
fn refused(error: &Value) -> PatchRefusal {
    let reason = reason(error);
    let again = match error.count("retryAfterMs") {
        Some(millis) => Some(Duration::from_millis(millis)),
        None if error.is("retryable") || error.text("code") == "UNAVAILABLE" => Some(RETRY_BASE_WAIT),
        None if reason.contains("re-run config.get") => Some(Duration::ZERO),
        None => None,
    };
    PatchRefusal { reason, again }
}

async fn heard(socket: &mut Socket) -> Result<Value, PatchRefusal> {
    loop {
        match socket.next().await {
            Some(Ok(Message::Text(text))) => {
                return serde_json::from_str(text.as_str()).map_err(PatchRefusal::lost);
            }
            Some(Ok(Message::Close(_))) | None => return Err(PatchRefusal::lost("it hung up")),
            Some(Err(error)) => return Err(PatchRefusal::lost(error)),
            // The library answers pings.
            Some(Ok(_)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_tried_again_is_tried_again() {
        let waits = |error: Value| refused(&error).again;
        let limited = json!({"code": "UNAVAILABLE", "message": "rate limit exceeded", "retryAfterMs": 1500});
        assert_eq!(waits(limited), Some(Duration::from_millis(1500)));
        let changed = "config changed since last load; re-run config.get and retry";
        assert_eq!(waits(json!({"code": "INVALID_REQUEST", "message": changed})), Some(Duration::ZERO));
        assert_eq!(waits(json!({"code": "INVALID_REQUEST", "message": "invalid config"})), None);
        assert_eq!(waits(json!({"code": "UNAVAILABLE", "message": "starting"})), Some(RETRY_BASE_WAIT));
    }
}
