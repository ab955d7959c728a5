//! The wall clock jumps while no daemon runs, as after a night of a laptop or a battery that lost the time. In debug
//! builds `OBEY_TEST_CLOCK_OFFSET` moves the daemon's clock by so many seconds.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use e2e::faults::crew::Crew;
use e2e::faults::output::turn;
use e2e::faults::story::Story;
use e2e::faults::view::View;
use e2e::world::World;
use serde_json::json;
use wire::obey::local::v1::SessionStatus;

use super::said;

const HOUR: i64 = 3600;
const TEN_YEARS: i64 = 10 * 365 * 24 * HOUR;

/// Kills the daemon and starts the next one in another time.
async fn crash_into(crew: &mut Crew, offset_secs: i64) -> Result<()> {
    crew.kill().await?;
    crew.world.set_env("OBEY_TEST_CLOCK_OFFSET", offset_secs.to_string());
    crew.restart().await?;
    Ok(())
}

#[tokio::test]
async fn a_timeout_comes_neither_early_nor_late_when_the_clock_jumps() -> Result<()> {
    let timeout = Duration::from_secs(6);
    let mut crew = Crew::start(World::new()?).await?;
    let mut sessions = Vec::new();
    for offset in [HOUR, -HOUR, TEN_YEARS, 0] {
        let began = Instant::now();
        let info = crew
            .create_with(|request| {
                request.timeout = Some(prost_types::Duration { seconds: timeout.as_secs() as i64, nanos: 0 });
            })
            .await?;
        crew.prompt(&info.id, &format!("stuck SCRIPT: {}", json!([{"text": "half"}, {"hang": true}])))
            .await?;
        sessions.push((info.id, began));
        crash_into(&mut crew, offset).await?;
    }
    // None is early, however slow the machine is.
    let mut working: Vec<_> = sessions.iter().collect();
    e2e::deadline::within("the timeouts", async {
        while !working.is_empty() {
            let mut still = Vec::new();
            for session @ (id, began) in working {
                let info = crew.info(id).await?;
                if info.status() == SessionStatus::Working {
                    still.push(session);
                } else {
                    ensure!(began.elapsed() >= timeout, "after {:?}: {info:?}", began.elapsed());
                }
            }
            working = still;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        anyhow::Ok(())
    })
    .await??;
    // Nor late: a clock that jumped by an hour would have kept one waiting beyond the deadline.
    for (id, _) in &sessions {
        let request =
            wire::obey::v1::ReadEventsRequest { session_id: id.clone(), follow: true, ..Default::default() };
        let journal = crew.clients().events.read_events(request).await?.into_inner();
        let journal = e2e::clients::collect(journal).await?;
        let info = crew.info(id).await?;
        ensure!(info.error_message.contains("OBEY-2014"), "{info:?}");
        assert_eq!(said(&journal), "half");
    }
    crew.close().await
}

#[tokio::test]
async fn nothing_is_removed_because_the_clock_is_wrong() -> Result<()> {
    let mut crew = Crew::start(World::new()?).await?;
    let id = crew.create().await?.id;
    turn(&crew, &id, &json!([{"text": "keep me"}])).await?;
    let stop = wire::obey::local::v1::StopSessionRequest { session_id: id.clone(), graceful: false };
    crew.clients().local.stop_session(stop).await?;
    let journal = crew.journal(&id).await?;
    for offset in [TEN_YEARS, -TEN_YEARS, 0] {
        crash_into(&mut crew, offset).await?;
        // Whatever a daemon clears away by itself it does at its start, before or beside the first turns.
        let other = crew.create().await?.id;
        turn(&crew, &other, &json!([{"text": "meanwhile"}])).await?;
        let stop = wire::obey::local::v1::StopSessionRequest { session_id: other, graceful: false };
        crew.clients().local.stop_session(stop).await?;
        let kept = crew.journal(&id).await?;
        ensure!(kept == journal, "at {offset} s only {} of {} events are left", kept.len(), journal.len());
    }
    crew.close().await
}

#[tokio::test]
async fn the_order_of_events_does_not_depend_on_the_clock() -> Result<()> {
    let mut crew = Crew::start(World::new()?).await?;
    let id = crew.create().await?.id;
    let mut view = View::default();
    for (number, offset) in [HOUR, -HOUR, TEN_YEARS, -TEN_YEARS, 0].into_iter().enumerate() {
        let gate = crew.world.path(&format!("gate-{number}"));
        let story = Story::of_lines(&format!("turn{number}"), 20).after_file(&gate);
        view.expect(story.clone());
        crew.prompt(&id, &story.prompt()).await?;
        crash_into(&mut crew, offset).await?;
        crew.world.touch(&format!("gate-{number}"))?;
        e2e::deadline::within("the turn's end", async {
            while crew.info(&id).await?.status() != SessionStatus::Running {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            anyhow::Ok(())
        })
        .await??;
    }
    let journal = crew.journal(&id).await?;
    journal.iter().for_each(|event| view.take(event));
    ensure!(!view.faults().any() && view.ended().len() == 5, "{:?}", view.first_fault());
    // New sessions and turns work in any time, and lists stay in the order of creation.
    let mut ids = vec![id];
    for offset in [-TEN_YEARS, TEN_YEARS] {
        crash_into(&mut crew, offset).await?;
        let other = crew.create().await?.id;
        turn(&crew, &other, &json!([{"text": "now"}])).await?;
        ids.push(other);
    }
    let request = wire::obey::local::v1::ListSessionsRequest::default();
    let list = crew.clients().local.list_sessions(request).await?.into_inner().sessions;
    assert_eq!(list.into_iter().map(|session| session.id).collect::<Vec<_>>(), ids);
    crew.close().await
}
