//! Agents that say too much, or nonsense: memory and disk stay bounded, nothing is lost, the session goes on.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::deadline::{poll, within};
use e2e::faults::crew::Crew;
use e2e::faults::output::{self, field, spooled, texts, turn};
use e2e::faults::story::Story;
use e2e::processes;
use e2e::world::World;
use rustix::process::Signal;
use serde_json::json;

use super::{assert_numbered, said};

#[tokio::test]
async fn one_endless_line_costs_a_bounded_amount_of_memory() -> Result<()> {
    // A release run (`make faults`) writes a whole gigabyte; what it costs does not depend on the length.
    let line = output::long_line(100_000_000).await?;
    println!("{}", line.figures());
    ensure!(line.figures().holds(), "{}", line.figures());
    Ok(())
}

#[tokio::test]
async fn a_hundred_thousand_lines_at_once_arrive_each_once_and_in_order() -> Result<()> {
    let flood = output::flood(100_000).await?;
    println!("{}", flood.figures());
    ensure!(flood.figures().holds(), "{}", flood.figures());
    Ok(())
}

/// Has the agent stand still in the middle of a line that is longer than a segment of its spool, kills the daemon
/// there, and lets the line go on under the next one.
async fn crash_within_a_line(bytes: u64) -> Result<Vec<wire::obey::v1::Event>> {
    let mut crew = Crew::start(World::new()?).await?;
    let info = crew.create().await?;
    let dir = crew.agents_dir().join(format!("{}.1", info.id));
    let steps = json!([{"text": "before "}, {"long_line": bytes}, {"text": " after"}]);
    crew.prompt(&info.id, &format!("long SCRIPT: {steps}")).await?;
    poll("a second segment", || dir.join("out.000002").exists().then_some(())).await?;
    processes::signal(info.pid, Signal::STOP);
    // The daemon has read all there is when the first segment is gone, or when it would be.
    let _ = tokio::time::timeout(Duration::from_secs(2), async {
        while dir.join("out.000001").exists() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    crew.crash().await?;
    processes::signal(info.pid, Signal::CONT);
    let request =
        wire::obey::v1::ReadEventsRequest { session_id: info.id.clone(), follow: true, ..Default::default() };
    // One event may be as large as the line.
    let mut client = crew.clients().events.max_decoding_message_size(128 << 20);
    let mut stream = client.read_events(request).await?.into_inner();
    let mut events = Vec::new();
    within("the end of the turn", async {
        while let Some(event) = stream.message().await? {
            let done = matches!(event.r#type.as_str(), "turn_ended" | "agent_exited");
            events.push(event);
            if done {
                return Ok(());
            }
        }
        anyhow::bail!("the stream ended")
    })
    .await??;
    drop(stream);
    crew.close().await?;
    Ok(events)
}

#[tokio::test]
async fn a_crash_within_a_long_line_loses_nothing_of_it() -> Result<()> {
    let bytes = 17 << 20;
    let events = crash_within_a_line(bytes).await?;
    assert_numbered(&events);
    let said = said(&events);
    ensure!(
        said.len() as u64 == bytes + 13 && said.starts_with("before xxx") && said.ends_with("xxx after"),
        "{} bytes were said; the last event is {:?}",
        said.len(),
        events.last().map(|event| &event.json[..event.json.len().min(300)])
    );
    Ok(())
}

#[tokio::test]
async fn a_crash_within_an_endless_line_keeps_count_of_it() -> Result<()> {
    let bytes: u64 = 80 << 20;
    let events = crash_within_a_line(bytes).await?;
    assert_numbered(&events);
    let unparsed = events.iter().find(|event| event.r#type == "unparsed");
    let unparsed = unparsed.with_context(|| format!("the end: {:?}", events.last()))?;
    assert_eq!(field(unparsed, "length"), bytes + 24);
    assert_eq!(said(&events), "before  after");
    Ok(())
}

#[tokio::test]
async fn a_line_longer_than_the_whole_spool_still_arrives() -> Result<()> {
    let world = World::new()?;
    world.set_env("OBEY_RETENTION_SPOOL_MAX_MB", "4");
    let crew = Crew::start(world).await?;
    let id = crew.create().await?.id;
    let steps = json!([{"text": "before "}, {"long_line": 40 << 20}, {"text": "after"}]);
    let events = turn(&crew, &id, &steps).await?;
    assert_eq!(texts(&events), "before after");
    let unparsed = events.iter().find(|event| event.r#type == "unparsed").context("no trace of it")?;
    assert_eq!(field(unparsed, "length"), (40 << 20) + 24);
    crew.close().await
}

#[tokio::test]
async fn the_spool_stays_small_while_somebody_reads_it() -> Result<()> {
    let world = World::new()?;
    world.set_env("OBEY_RETENTION_SPOOL_MAX_MB", "8");
    let crew = Crew::start(world).await?;
    let info = crew.create().await?;
    let dir = crew.agents_dir().join(format!("{}.1", info.id));
    let text = "y".repeat(4_000);
    let lines = 5_000;
    let steps = json!([{"flood": {"lines": lines, "text": text}}]);
    let mut most = 0;
    let look = async {
        loop {
            tokio::time::sleep(Duration::from_millis(5)).await;
            most = most.max(spooled(&dir));
        }
    };
    let events = tokio::select! {
        events = turn(&crew, &info.id, &steps) => events?,
        () = look => unreachable!(),
    };
    let said = events.iter().filter(|event| event.r#type == "text_delta").count();
    assert_eq!(said, lines);
    println!("at most {most} bytes of {} were on disk at once", lines * text.len());
    assert!(most <= 10 << 20, "{most} bytes were on disk at once");
    // What was read is deleted but for the segment that is being written.
    assert!(spooled(&dir) <= 2 << 20, "{} bytes stay", spooled(&dir));
    crew.close().await
}

#[tokio::test]
async fn nonsense_is_kept_as_it_came_and_the_session_goes_on() -> Result<()> {
    let crew = Crew::start(World::new()?).await?;
    let id = crew.create().await?.id;
    let pid = crew.daemon.pid().context("no daemon")?;
    turn(&crew, &id, &json!([{"text": "warm"}])).await?;
    let before = e2e::faults::memory::now(pid)?;
    let deep = "[".repeat(1_000_000);
    let nonsense = [
        json!([0xff, 0xfe, 0, 0xc3, 0x28, 0xe2, 0x82]),
        json!("{\"say\":\"text\",\"text\":\"cut"),
        json!("{\"say\":\"text\",\"text\":\"a\",\"text\":\"b\"}"),
        json!("{\"say\":\"text\",\"text\":1e400}"),
        json!("{\"say\":\"unheard_of\",\"n\":18446744073709551616}"),
        json!("\u{feff}{\"say\":\"text\"}"),
        json!("\u{1b}[2J\u{1b}]0;title\u{7}\u{0}"),
        json!("{\"say\":\"thinking\",\"text\":\"with an end of line\"}\r"),
        json!(deep),
        json!(""),
    ];
    let mut steps = vec![json!({"text": "begin "})];
    steps.extend(nonsense.iter().map(|bytes| json!({"garbage": bytes})));
    steps.push(json!({"text": "end"}));
    let events = turn(&crew, &id, &json!(steps)).await?;
    assert_eq!(texts(&events), "begin end");
    let count = |kind: &str| events.iter().filter(|event| event.r#type == kind).count();
    assert_eq!((count("unparsed"), count("thinking_delta")), (8, 1));
    let growth = e2e::faults::memory::most(pid)?.saturating_sub(before);
    assert!(growth <= 32 << 20, "{growth} bytes for some nonsense");
    let story = Story::of_text("after", "as before");
    crew.prompt(&id, &story.prompt()).await?;
    assert_numbered(&crew.journal(&id).await?);
    crew.close().await
}
