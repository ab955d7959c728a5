//! Disks that fail to sync (EIO). The kernel may drop what it could not write and say that all is well when asked again:
//! a sync that failed is never tried again to tell a client that its words are safe.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::deadline::poll;
use e2e::faults::crew::Crew;
use e2e::faults::output::spooled;
use e2e::faults::random::Random;
use e2e::faults::story::Story;
use e2e::world::World;
use wire::obey::v1::Event;

use super::{assert_numbered, said, seed};
use crate::stage::fields;

/// A world whose daemon and shims sync through us.
fn world() -> Result<World> {
    let world = World::new()?;
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/faults/failing_sync.c");
    let library = world.path("failing_sync.so");
    let built =
        Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).output()?;
    ensure!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    world.set_env("LD_PRELOAD", library.display().to_string());
    world.set_env("SYNC_ORDER", world.path("order").display().to_string());
    world.set_env("SYNC_NOTES", world.path("notes").display().to_string());
    Ok(world)
}

/// Orders syncs to fail from now on; whole at once, as the next one may be under way.
fn order(world: &World, order: &str) -> Result<()> {
    fs::write(world.path("draft"), order)?;
    Ok(fs::rename(world.path("draft"), world.path("order"))?)
}

fn notes(world: &World) -> Vec<String> {
    let notes = fs::read_to_string(world.path("notes")).unwrap_or_default();
    notes.lines().map(str::to_owned).collect()
}

/// Waits for the order to be carried out.
async fn carried_out(world: &World) -> Result<()> {
    poll("the sync that fails", || (!world.path("order").exists()).then_some(())).await
}

/// The words that each turn began with.
fn prompts(journal: &[Event]) -> Vec<String> {
    let prompts = journal.iter().filter(|event| event.r#type == "turn_started");
    prompts
        .filter_map(|event| Some(fields(event)["prompt"].as_str()?.split(' ').next()?.to_owned()))
        .collect()
}

async fn turns_ended(crew: &Crew, id: &str, count: usize) -> Result<Vec<Event>> {
    let request =
        wire::obey::v1::ReadEventsRequest { session_id: id.to_owned(), follow: true, ..Default::default() };
    let mut events = crew.clients().events.read_events(request).await?.into_inner();
    let mut journal = Vec::new();
    let mut ended = 0;
    while ended < count {
        let event = e2e::deadline::within("the next event", events.message()).await??;
        let event = event.context("the journal ended")?;
        ended += usize::from(event.r#type == "turn_ended");
        journal.push(event);
    }
    Ok(journal)
}

#[tokio::test]
async fn a_sync_of_the_journal_that_fails_is_not_asked_again() -> Result<()> {
    let mut crew = Crew::start(world()?).await?;
    let id = crew.create().await?.id;
    let mut accepted = Vec::new();
    for round in 0..24 {
        let key = format!("r{round}");
        // Every other one only fills the log: what is not in it cannot be lost from it.
        let fails = round % 2 == 1;
        if fails {
            order(&crew.world, "once daemon.db-wal")?;
        }
        // It meets the prompt, which is then refused, or the output of an agent, which nobody was promised.
        if crew.prompt(&id, &Story::of_text(&key, &format!("{key} said\n")).prompt()).await.is_ok() {
            accepted.push(key);
        }
        if fails {
            carried_out(&crew.world).await?;
        }
        turns_ended(&crew, &id, accepted.len()).await?;
    }
    let key = "last".to_owned();
    crew.prompt(&id, &Story::of_text(&key, "last said\n").prompt()).await?;
    accepted.push(key);
    turns_ended(&crew, &id, accepted.len()).await?;

    let notes = notes(&crew.world);
    let failures = notes.iter().filter(|note| *note == "daemon.db-wal EIO").count();
    assert_eq!(failures, 12, "{notes:#?}");
    for (at, _) in notes.iter().enumerate().filter(|(_, note)| *note == "daemon.db-wal EIO") {
        let next = notes[at + 1..].iter().take_while(|note| *note != "daemon.db-wal EIO");
        let moved = next.into_iter().any(|note| note == "daemon.db ok");
        ensure!(moved, "after failure {at} the log is trusted as before: {notes:#?}");
    }
    crew.crash().await?;
    let journal = turns_ended(&crew, &id, accepted.len()).await?;
    assert_numbered(&journal);
    assert_eq!(prompts(&journal), accepted);
    assert_eq!(said(&journal), accepted.iter().map(|key| format!("{key} said\n")).collect::<String>());
    crew.close().await
}

#[tokio::test]
async fn a_disk_that_syncs_no_more_takes_nothing_in_until_the_next_daemon() -> Result<()> {
    let mut random = Random::new(seed());
    let mut crew = Crew::start(world()?).await?;
    let id = crew.create().await?.id;
    let gate = crew.world.path("gate");
    let story = Story::new("told", 40, 5, &mut random).after_file(&gate);
    crew.prompt(&id, &story.prompt()).await?;
    order(&crew.world, "always daemon.db-wal")?;
    let refused = crew.create().await.err().context("a session was accepted")?;
    ensure!(format!("{refused:#}").contains("obey upgrade"), "{refused:#}");
    // The agent goes on, and its shim keeps what it says.
    let dir = crew.agents_dir().join(format!("{id}.1"));
    let before = spooled(&dir);
    crew.world.touch("gate")?;
    poll("the agent's output", || (spooled(&dir) > before + story.text().len() as u64).then_some(())).await?;
    fs::remove_file(crew.world.path("order"))?;
    // The disk says that all is well again. It said so before.
    let refused = crew.prompt(&id, "again").await.err().context("it was accepted")?;
    ensure!(refused.message().contains("obey upgrade"), "{refused}");

    crew.crash().await?;
    let journal = turns_ended(&crew, &id, 1).await?;
    assert_numbered(&journal);
    assert_eq!(said(&journal), story.text());
    crew.prompt(&id, &Story::of_text("after", "well").prompt()).await?;
    turns_ended(&crew, &id, 2).await?;
    crew.close().await
}

#[tokio::test]
async fn a_sync_of_a_spool_that_fails_costs_its_session_nothing() -> Result<()> {
    let mut random = Random::new(seed());
    let crew = Crew::start(world()?).await?;
    let id = crew.create().await?.id;
    let other = crew.create().await?.id;
    // With its id: the first sync of the other session may still be due.
    order(&crew.world, &format!("once {id}.1/out.000001"))?;
    let first = Story::new("first", 40, 5, &mut random);
    crew.prompt(&id, &first.prompt()).await?;
    carried_out(&crew.world).await?;
    turns_ended(&crew, &id, 1).await?;
    let second = Story::new("second", 40, 5, &mut random);
    crew.prompt(&id, &second.prompt()).await?;
    let journal = turns_ended(&crew, &id, 2).await?;
    assert_numbered(&journal);
    assert_eq!(said(&journal), first.text() + &second.text());
    let next = crew.agents_dir().join(format!("{id}.1/out.000002"));
    ensure!(next.exists(), "the segment that was not synced got more");
    crew.prompt(&other, &Story::of_text("other", "untouched").prompt()).await?;
    turns_ended(&crew, &other, 1).await?;
    crew.close().await
}
