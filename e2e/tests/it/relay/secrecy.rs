//! What a relay knows of a sealed conversation: nothing. Its memory, its log and its files are searched for what was said.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use anyhow::{Context, Result, ensure};
use e2e::cli::Cli;
use e2e::files::holders;
use e2e::world::World;
use prost::Message as _;
use serde_json::json;

use super::scene::{Machine, RelayScene};

/// Bytes that are read at once.
const BLOCK_BYTES: usize = 1024 * 1024;

/// Returns which of some texts are in the memory of a process; nothing where this test may not read it.
fn in_memory(pid: i32, texts: &[&str]) -> Result<Option<Vec<String>>> {
    let Ok(memory) = File::open(format!("/proc/{pid}/mem")) else {
        println!("SKIPPED: the memory of another process cannot be read here");
        return Ok(None);
    };
    let longest = texts.iter().map(|text| text.len()).max().unwrap_or(0);
    let mut found = Vec::new();
    for line in std::fs::read_to_string(format!("/proc/{pid}/maps"))?.lines() {
        let mut words = line.split_whitespace();
        let (Some(range), Some(rights)) = (words.next(), words.next()) else { continue };
        if !rights.starts_with("rw") {
            continue;
        }
        let (from, to) = range.split_once('-').context("no range")?;
        let (mut at, end) = (u64::from_str_radix(from, 16)?, u64::from_str_radix(to, 16)?);
        let mut block = vec![0; BLOCK_BYTES];
        while at < end {
            let most = usize::try_from(end - at)?.min(BLOCK_BYTES);
            // A region that was given back meanwhile has nothing to read.
            let Ok(read) = memory.read_at(&mut block[..most], at) else { break };
            if read == 0 {
                break;
            }
            found.extend(texts_in(&block[..read], texts));
            // A text may lie across two blocks.
            let step = if read > longest && at + (read as u64) < end { read - longest } else { read };
            at += step as u64;
        }
    }
    found.sort();
    found.dedup();
    Ok(Some(found))
}

fn texts_in(bytes: &[u8], texts: &[&str]) -> Vec<String> {
    // What is no text becomes a sign of its own; ASCII stays as it is.
    let all = String::from_utf8_lossy(bytes);
    texts.iter().filter(|text| all.contains(**text)).map(|text| (*text).to_owned()).collect()
}

/// Has a conversation over a sealed connection: both what is asked and what is answered contain the text.
async fn converse(device: &World, machine: &Machine, text: &str, more: &[&str]) -> Result<()> {
    let project = machine.world.project().display().to_string();
    machine.cli().ok(&["campaign", "add", &project, "--name", "demo"]).await?;
    let steps = json!([{"text": format!("answer {text}"), "chunks": 3}, {"text": "the end"}]);
    let message = format!("asked {text} SCRIPT: {steps}");
    let cli = Cli::new(device);
    let run = async |words: &[&str]| {
        let way = more.iter().chain(&["--machine", "box", "session"]);
        cli.ok(&way.chain(words).copied().collect::<Vec<_>>()).await
    };
    let session = run(&["create", "-c", "demo", "-p", "scripted"]).await?.session_id()?;
    let said = run(&["send", &session, &message]).await?;
    ensure!(said.stdout.contains(&format!("answer {text}")), "the device has read it: {said:?}");
    Ok(())
}

#[tokio::test]
async fn nothing_of_a_sealed_conversation_is_in_the_relays_memory_log_or_files() -> Result<()> {
    let world = World::new()?;
    world.set_env("OBEY_LOG", "trace");
    let mut relay = RelayScene::start_in(world).await?;
    let machine = relay.machine("box", "off").await?;
    let device = machine.device("laptop", "operator").await?;
    let sealed = "sealed-9d41f7c2-kingfisher";
    converse(&device, &machine, sealed, &[]).await?;

    // The same search finds what the relay does know: a call in the clear that waits for a machine which is away.
    let mut open = relay.machine("open", "full").await?;
    open.daemon.terminate().await?;
    let clear = "clear-51b6e08a-kingfisher";
    let request = wire::obey::v1::AddCampaignRequest {
        path: open.world.project().display().to_string(),
        name: clear.to_owned(),
        ..Default::default()
    };
    let told = relay.post(&open, "obey.v1.CampaignService/AddCampaign", &request.encode_to_vec()).await?;
    ensure!(told.contains("request%20buffered"), "{told}");

    let texts = [sealed, clear, machine.id.as_str()];
    if let Some(found) = in_memory(relay.pid()?, &texts)? {
        ensure!(found.contains(&machine.id), "the search finds what is there: {found:?}");
        ensure!(!found.iter().any(|text| text == sealed), "it is in the relay's memory");
    }
    // The message that the test itself sent with curl lies in the same folder.
    std::fs::remove_file(relay.world.path("message"))?;
    ensure!(!holders(relay.world.root(), &[clear])?.is_empty(), "the search finds what is there");
    let found = holders(relay.world.root(), &[sealed])?;
    ensure!(found.is_empty(), "it is in the relay's files: {found:?}");
    let log = relay.terminate().await?.stderr;
    ensure!(log.contains("TRACE"), "the log has everything: {log}");
    ensure!(!log.contains(sealed), "it is in the relay's log");
    Ok(())
}

#[cfg(feature = "nats")]
#[tokio::test]
async fn nothing_of_a_sealed_conversation_is_in_what_relays_share_over_nats() -> Result<()> {
    let Some(nats) = super::nats::NatsServer::start().await? else { return Ok(()) };
    let first = RelayScene::start_with(&["--nats", &nats.url()]).await?;
    let second = RelayScene::join(&first, &nats.url()).await?;
    let machine = first.machine("box", "off").await?;
    let device = machine.device("laptop", "operator").await?;
    let url = super::nats::reach_through(&second, &device).await?;
    let sealed = "sealed-c07be5d3-kingfisher";
    converse(&device, &machine, sealed, &["--relay", &url]).await?;
    let texts = [sealed, machine.id.as_str()];
    let bus = nats.child.id().and_then(|pid| i32::try_from(pid).ok()).context("no NATS server")?;
    let is_sealed = |text: &String| text == sealed;
    for pid in [first.pid()?, second.pid()?, bus] {
        let Some(found) = in_memory(pid, &texts)? else { break };
        ensure!(pid == bus || found.contains(&machine.id), "the search finds what is there: {found:?}");
        ensure!(!found.iter().any(is_sealed), "it is in the memory of {pid}");
    }
    for world in [&first.world, &second.world, &nats.world] {
        let found = holders(world.root(), &[sealed])?;
        ensure!(found.is_empty(), "it is in {found:?}");
    }
    Ok(())
}
