//! `obey acp --playback`: a corpus of transcripts of our own, and what happens when one does not hold.

use std::collections::HashMap;

use anyhow::{Context, Result, ensure};
use e2e::acp::Schema;
use e2e::tools;
use serde_json::Value;

use super::SCRIPTED;
use crate::stage::stage;

/// Holds every line of the server in a playback's log against the published schema; returns how many there were.
fn check_lines(schema: &Schema, log: &str) -> Result<usize> {
    let of = |mark: &str| -> Vec<Value> {
        let lines = log.lines().filter_map(|line| line.split_once(&format!("playback: {mark} ")));
        // What a transcript sends may be no JSON on purpose.
        lines.filter_map(|(_, text)| serde_json::from_str(text).ok()).collect()
    };
    let asked: HashMap<String, String> = of(">")
        .iter()
        .filter_map(|sent| Some((sent["id"].to_string(), sent["method"].as_str()?.to_owned())))
        .collect();
    let received = of("<");
    for message in &received {
        let checked = if message.get("method").is_some() {
            schema.check_message(message)
        } else {
            schema.check_answer(asked.get(&message["id"].to_string()).map(String::as_str), message)
        };
        checked.with_context(|| message.to_string())?;
    }
    Ok(received.len())
}

#[tokio::test]
async fn every_transcript_of_the_corpus_holds() -> Result<()> {
    let stage = stage!(SCRIPTED);
    let corpus = tools::repository().join("e2e/tests/acp/transcripts");
    let mut files: Vec<_> = std::fs::read_dir(corpus)?.flatten().map(|entry| entry.path()).collect();
    files.sort();
    ensure!(files.len() >= 25, "{}", files.len());
    stage.world.set_env("RUST_LOG", "playback=debug");
    let schema = tools::acp_schema()?.map(|path| Schema::read(&path)).transpose()?;
    for file in files {
        let name = file.display().to_string();
        let args = ["acp", "--provider", "scripted", "--playback", &name];
        let output = stage.cli().run(&args).await?;
        ensure!(output.code == Some(0), "{name}: {output:#?}");
        ensure!(output.stdout.starts_with("passed: "), "{name}: {output:#?}");
        let told: usize = output.stdout.split(' ').nth(3).and_then(|word| word.parse().ok()).unwrap_or(0);
        if let Some(schema) = &schema {
            let checked = check_lines(schema, &output.stderr).with_context(|| name.clone())?;
            ensure!(checked > 0 && checked == told, "{name}: {checked} of {told} lines were checked");
        }
    }
    stage.close().await
}

#[tokio::test]
async fn a_transcript_that_does_not_hold_names_its_line() -> Result<()> {
    let stage = stage!(SCRIPTED);
    let play = async |text: &str| {
        let file = stage.world.path("transcript.jsonl");
        std::fs::write(&file, text)?;
        let name = file.display().to_string();
        stage.cli().run(&["acp", "--provider", "scripted", "--playback", &name]).await
    };
    let output = play("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"no/such\"}\n").await?;
    ensure!(output.code == Some(1) && output.stdout.contains("nobody expected"), "{output:#?}");
    let output = play("#reply x {\n").await?;
    ensure!(output.code == Some(2) && output.stderr.contains("line 1"), "{output:#?}");
    let output = stage.cli().run(&["acp", "--playback", "/nowhere"]).await?;
    ensure!(output.code == Some(2), "{output:#?}");
    stage.close().await
}

#[tokio::test]
async fn a_transcript_is_played_without_a_daemon() -> Result<()> {
    let world = e2e::world::World::new()?;
    let file = tools::repository().join("e2e/tests/acp/transcripts/basic_session.jsonl");
    let name = file.display().to_string();
    let args = ["acp", "--provider", "scripted", "--standalone", "--playback", &name];
    e2e::cli::Cli::new(&world).ok(&args).await?;
    ensure!(!world.socket().exists());
    world.assert_no_process_left().await
}
