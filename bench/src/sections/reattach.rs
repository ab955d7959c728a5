//! The daemon is killed, and the next one finds every agent again. Measured from starting the program until
//! it has every session's spool open, which it has once the shim has answered and the actor reads.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::daemon::{Home, Session};
use crate::emitter::Script;
use crate::machine;
use crate::reader::{Follower, play};
use crate::stats::{median, millis, worst};
use crate::table::{Goal, Table};

const WAIT_MAX: Duration = Duration::from_secs(30);

pub(crate) async fn run(table: &mut Table) -> Result<()> {
    let mut home = Home::new("reattach")?;
    home.start()?;
    let mut sessions = grow(&mut home, 50).await?;
    let few = crashes(&mut home, sessions.len(), 20, Duration::from_millis(2))?;
    report(table, "reattach of 50 after kill -9", &few, 250.0);
    sessions.extend(grow(&mut home, 1_950).await?);
    let many = crashes(&mut home, sessions.len(), 5, Duration::from_millis(25))?;
    report(table, "reattach of 2,000 idle after kill -9", &many, 2_000.0);
    check_lives(&home, &sessions).await
}

fn report(table: &mut Table, what: &str, took: &[f64], most: f64) {
    let ours = format!("{:.0} ms (worst of {}: {:.0})", median(took), took.len(), worst(took));
    table.row(what, ours, String::new(), worst(took), Goal::AtMost(most, format!("{most} ms")));
}

async fn grow(home: &mut Home, count: usize) -> Result<Vec<Session>> {
    let peer = home.peer().await?;
    let campaign = home.campaign(&peer).await?;
    home.sessions(&peer, &campaign, count).await
}

fn crashes(home: &mut Home, sessions: usize, times: usize, look: Duration) -> Result<Vec<f64>> {
    let mut took = Vec::new();
    for _ in 0..times {
        home.crash()?;
        let began = Instant::now();
        home.start()?;
        let pid = home.pid()?;
        while machine::open_files(pid, "/out.0") < sessions {
            ensure!(
                began.elapsed() < WAIT_MAX,
                "{} of {sessions} came back",
                machine::open_files(pid, "/out.0")
            );
            std::thread::sleep(look);
        }
        took.push(millis(began.elapsed()));
    }
    Ok(took)
}

/// Verifies that the sessions not only exist but work.
async fn check_lives(home: &Home, sessions: &[Session]) -> Result<()> {
    let peer = home.peer().await?;
    for session in sessions.iter().step_by(100) {
        let mut follower = Follower::new(&peer, &session.id).await?;
        play(&peer, &session.id, &mut follower, &Script::burst(10)).await.context("a reattached session")?;
    }
    Ok(())
}
