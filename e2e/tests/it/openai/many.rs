//! Hundreds of sessions of the agent inside the daemon, all at work at once.

use std::sync::Arc;

use anyhow::{Context, Result};
use e2e::deadline::within_time;
use e2e::model_server::stamp;
use serde_json::json;
use wire::obey::v1 as own;

use crate::stage::{Agent, Stage, fields, script};

const SESSIONS: usize = 500;
const PIECES: u64 = 20;
/// Enough for the slowest machine; a client that waits for a stream that never comes waits for ever.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(120);

/// Reads one turn and counts its pieces: each once, in order, unharmed.
async fn read(stage: &Stage, id: &str) -> Result<u64> {
    let mut events = stage.follow(id).await?;
    let mut pieces = stamp::Reader::default();
    let mut last = 0;
    loop {
        let event = events.message().await?.context("the journal ended")?;
        assert_eq!(event.seq, last + 1, "a gap in {id}");
        last = event.seq;
        match event.r#type.as_str() {
            "text_delta" => {
                let text = fields(&event)["text"].as_str().unwrap_or_default().to_owned();
                pieces
                    .take(&text)
                    .with_context(|| format!("{id}: a piece is missing or harmed at {text:?}"))?;
            }
            "turn_ended" => return Ok(pieces.count()),
            _ => {}
        }
    }
}

#[tokio::test]
async fn five_hundred_sessions_stream_at_once_to_one_client_and_nothing_is_lost() -> Result<()> {
    let opened = Stage::open_with(Agent::Openai, |world| {
        std::fs::create_dir_all(world.path("config/obey"))?;
        Ok(std::fs::write(world.path("config/obey/config.toml"), "[sessions]\nmax_active = 1000\n")?)
    });
    let stage = Arc::new(opened.await?.context("a model is always there")?);
    let mut ids = Vec::new();
    for _ in 0..SESSIONS {
        ids.push(stage.create().await?);
    }
    // Every session is followed on the same connection before any begins.
    let mut reading = tokio::task::JoinSet::new();
    for id in &ids {
        let (stage, id) = (Arc::clone(&stage), id.clone());
        reading.spawn(async move { read(&stage, &id).await });
    }
    let prompt = script(Agent::Openai, "go", &json!([{"stamped": PIECES, "gap_ms": 5}]));
    let all = async {
        for id in &ids {
            let request = own::PromptRequest {
                session_id: id.clone(),
                text: prompt.clone(),
                steer: false,
                ..Default::default()
            };
            stage.clients.turns.clone().prompt(request).await?;
        }
        while let Some(pieces) = reading.join_next().await {
            assert_eq!(pieces??, PIECES);
        }
        anyhow::Ok(())
    };
    within_time("every turn of every session", PATIENCE, all).await??;
    drop(reading);
    Arc::into_inner(stage).context("somebody still reads")?.close().await
}
