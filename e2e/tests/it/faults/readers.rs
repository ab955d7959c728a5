//! Many readers of one session, some of which stand still.

use anyhow::{Context, Result, ensure};
use e2e::deadline::within;
use e2e::faults::crew::Crew;
use e2e::faults::random::Random;
use e2e::faults::story::Story;
use e2e::faults::view::View;
use e2e::faults::{readers, stops};
use e2e::world::World;
use tokio_stream::StreamExt;
use wire::obey::local::v1 as pb;
use wire::obey::v1 as own;

use super::seed;

#[tokio::test]
async fn readers_that_stand_still_cost_little_and_miss_nothing() -> Result<()> {
    let options = readers::Options { seed: seed(), lines: 1_500, gap_ms: 1, healthy: 6, stuck: 10 };
    let figures = readers::run(&options).await?.figures(false);
    println!("{figures}");
    ensure!(figures.holds(), "seed {}:\n{figures}", options.seed);
    Ok(())
}

#[tokio::test]
async fn agents_that_resist_are_ended_in_time_and_leave_nothing() -> Result<()> {
    let options = stops::Options { seed: seed(), stops: 12, at_once: 6 };
    let figures = stops::run(&options, |_| {}).await?.figures();
    println!("{figures}");
    ensure!(figures.holds(), "seed {}:\n{figures}", options.seed);
    Ok(())
}

/// How many connections a flood comes over, how many calls are under way on each, and what it may cost.
const FLOOD_CONNECTIONS: usize = 8;
const FLOOD_CALLS: usize = 32;
const FLOOD_BYTES: u64 = 64 << 20;

#[tokio::test]
async fn a_client_that_calls_without_pause_starves_nobody() -> Result<()> {
    let mut random = Random::new(seed());
    let mut crew = Crew::start(World::new()?).await?;
    let id = crew.create().await?.id;
    crew.weigh();
    let before = crew.most_memory();
    let mut flood: tokio::task::JoinSet<Result<()>> = tokio::task::JoinSet::new();
    for _ in 0..FLOOD_CONNECTIONS {
        let clients = crew.daemon.clients().await?;
        for _ in 0..FLOOD_CALLS {
            let mut local = clients.local.clone();
            flood.spawn(async move {
                loop {
                    local.list_sessions(pb::ListSessionsRequest::default()).await?;
                    let nothing = local.create_session(pb::CreateSessionRequest::default()).await;
                    ensure!(nothing.is_err(), "a session was made of nothing");
                }
            });
        }
    }
    let mut view = View::default();
    let request = own::ReadEventsRequest { session_id: id.clone(), follow: true, ..Default::default() };
    let mut events = crew.clients().events.read_events(request).await?.into_inner();
    for turn in 0..3 {
        let story = Story::new(&format!("told-{turn}"), 100, 1, &mut random);
        crew.prompt(&id, &story.prompt()).await?;
        view.expect(story);
        while view.ended().len() <= turn {
            let event = within("the next event", events.next()).await?.context("the stream ended")??;
            view.take(&event);
        }
    }
    ensure!(!view.faults().any(), "{:?}", view.first_fault());
    let failed = flood.try_join_next();
    ensure!(failed.is_none(), "a call of the flood failed: {failed:?}");
    flood.shutdown().await;
    crew.weigh();
    let more = crew.most_memory().saturating_sub(before);
    ensure!(more <= FLOOD_BYTES, "the flood cost {more} bytes");
    crew.close().await
}

/// How many sessions speak at once, and how many clients each listen to all of them.
const SPEAKERS: usize = 10;
const LISTENERS: usize = 10;

#[tokio::test]
async fn nobody_ever_hears_a_word_of_another_session() -> Result<()> {
    let mut random = Random::new(seed());
    let crew = Crew::start(World::new()?).await?;
    let mut told = Vec::new();
    for number in 0..SPEAKERS {
        let story = Story::new(&format!("canary-{number}"), 200, 1, &mut random);
        told.push((crew.create().await?.id, story));
    }
    let mut listening = Vec::new();
    for _ in 0..LISTENERS {
        let clients = crew.daemon.clients().await?;
        for (id, story) in told.clone() {
            let mut events = clients.events.clone();
            listening.push(tokio::spawn(async move {
                let request =
                    own::ReadEventsRequest { session_id: id.clone(), follow: true, ..Default::default() };
                let mut events = events.read_events(request).await?.into_inner();
                let mut view = View::default();
                view.expect(story);
                while view.ended().is_empty() {
                    let event = events.next().await.context("the stream ended")??;
                    ensure!(event.session_id == id, "{} was sent to {id}", event.session_id);
                    view.take(&event);
                }
                Ok(view)
            }));
        }
    }
    for (id, story) in &told {
        crew.prompt(id, &story.prompt()).await?;
    }
    for listener in listening {
        let view = within("the end of a story", listener).await???;
        ensure!(!view.faults().any(), "{:?}", view.first_fault());
    }
    crew.close().await
}
