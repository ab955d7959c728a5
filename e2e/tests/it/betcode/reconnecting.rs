//! Clients that lose their connection: whatever the moment, together they hear the journal, once and in order.

use std::hash::{BuildHasher, Hasher};

use anyhow::Result;
use e2e::deadline::within;
use serde_json::json;
use wire::betcode::v1 as pb;
use wire::betcode::v1::agent_event::Event as Body;

use super::talk::{Talk, again, assert_increasing, numbered, stop_reason, stored, text};
use crate::stage::{Agent, scenarios_with_claude, script, stage};

scenarios_with_claude!(a_client_that_reconnects_fifty_times_hears_every_event_once);

/// Numbers nobody chose; printed, so that a failure can be understood.
fn random(most: u64) -> u64 {
    std::collections::hash_map::RandomState::new().build_hasher().finish() % most
}

async fn a_client_that_reconnects_fifty_times_hears_every_event_once(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut talk = Talk::new(&stage).await?;
    let session = talk.session().to_owned();
    let words: String = (0..400).map(|word| format!("w{word} ")).collect();
    talk.prompt(&script(agent, "long", &json!([{"text": words, "chunks": 400, "gap_ms": 10}]))).await?;
    // What was said is only sure once it is heard.
    talk.until("the prompt", |body| matches!(body, Body::UserInput(_))).await?;
    let mut heard: Vec<pb::AgentEvent> = Vec::new();
    let mut cuts = Vec::new();
    for _ in 0..50 {
        // Reads a few events and leaves, wherever that is. Behind the end of the turn there is nothing to wait for.
        for _ in 0..random(14) {
            if stop_reason(&talk.heard).is_empty() && stop_reason(&heard).is_empty() {
                talk.next().await?;
            }
        }
        heard.extend(numbered(&talk.heard));
        let last = heard.last().map_or(0, |event| event.sequence);
        cuts.push(last);
        drop(talk);
        talk = Talk::start(&stage.clients, again(&session, last)).await?;
    }
    within("the end", async {
        while stop_reason(&talk.heard).is_empty() && stop_reason(&heard).is_empty() {
            talk.next().await?;
        }
        anyhow::Ok(())
    })
    .await??;
    heard.extend(numbered(&talk.heard));
    assert_increasing(&heard);
    let said = text(&heard);
    assert_eq!(said.trim_end(), words.trim_end(), "cut at {cuts:?}");
    let kept = stored(&stage.clients, &session, 0).await?;
    assert_eq!(heard, kept[..heard.len()], "cut at {cuts:?}");
    // And a client that starts over finds the same.
    let mut fresh = Talk::start(&stage.clients, again(&session, 0)).await?;
    fresh.hush();
    fresh.rest().await?;
    assert_eq!(numbered(&fresh.heard)[..heard.len()], heard);
    stage.close().await
}
