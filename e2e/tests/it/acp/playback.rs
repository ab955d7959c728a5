//! `obey acp --playback`: a corpus of transcripts of our own, and what happens when one does not hold.

use anyhow::{Result, ensure};
use e2e::tools;

use super::SCRIPTED;
use crate::stage::stage;

#[tokio::test]
async fn every_transcript_of_the_corpus_holds() -> Result<()> {
    let stage = stage!(SCRIPTED);
    let corpus = tools::repository().join("e2e/tests/acp/transcripts");
    let mut files: Vec<_> = std::fs::read_dir(corpus)?.flatten().map(|entry| entry.path()).collect();
    files.sort();
    ensure!(files.len() >= 25, "{}", files.len());
    for file in files {
        let name = file.display().to_string();
        let args = ["acp", "--provider", "scripted", "--playback", &name];
        let output = stage.cli().run(&args).await?;
        ensure!(output.code == Some(0), "{name}: {output:#?}");
        ensure!(output.stdout.starts_with("passed: "), "{name}: {output:#?}");
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
