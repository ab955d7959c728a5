//! The cost of an idle daemon: alone, and with a thousand idle sessions.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::daemon::{Floor, Home};
use crate::machine::{self, Wakeups, smaps, status};
use crate::stats::{median, mib, millis, percentile, sorted};
use crate::table::{Goal, Table};

const SESSIONS: usize = 1_000;
const WATCHED: Duration = Duration::from_secs(10);

pub(crate) async fn run(table: &mut Table) -> Result<()> {
    let mut home = Home::new("idle")?;
    home.start()?;
    let pid = home.pid()?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let floor = Floor::start()?;
    // A daemon releases the memory of its start once that is over.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let alone = status(pid, "VmRSS")?;
    let goal = Goal::AtMost(20.0 * 1024.0, mib(20 * 1024));
    table.row("idle RSS", mib(alone), mib(status(floor.pid(), "VmRSS")?), alone as f64, goal);
    drop(floor);
    let peer = home.peer().await?;
    let campaign = home.campaign(&peer).await?;
    // The first session of a daemon initializes everything that any session needs.
    home.session(&peer, &campaign).await?;
    let before = status(pid, "VmRSS")?;
    let mut sessions = Vec::new();
    let mut took = Vec::new();
    for _ in 0..SESSIONS {
        let began = Instant::now();
        sessions.push(home.session(&peer, &campaign).await?);
        took.push(millis(began.elapsed()));
    }
    let took = sorted(took);
    let ours = format!("{:.1} ms (p99 {:.1})", percentile(&took, 0.5), percentile(&took, 0.99));
    table.row("creating a session", ours, String::new(), 0.0, Goal::None);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let grown = status(pid, "VmRSS")?.saturating_sub(before);
    let goal = Goal::AtMost(50.0 * 1024.0, mib(50 * 1024));
    table.row("1,000 idle sessions, daemon's growth", mib(grown), String::new(), grown as f64, goal);
    let mut private = Vec::new();
    for session in &sessions {
        let dirty = smaps(session.shim, "Private_Dirty")? + smaps(session.shim, "Private_Clean")?;
        private.push(dirty as f64);
    }
    let each = median(&private);
    let goal = Goal::AtMost(1024.0, "1 MiB".to_owned());
    let ours = format!("{each:.0} KiB (together {})", mib(private.iter().sum::<f64>() as u64));
    table.row("private memory of a shim", ours, String::new(), each, goal);
    let (woken, used) = (Wakeups::of(pid)?, machine::cpu(pid)?);
    tokio::time::sleep(WATCHED).await;
    let wakeups = Wakeups::of(pid)?.since(&woken) as f64 / WATCHED.as_secs_f64();
    let cpu = (machine::cpu(pid)? - used).as_secs_f64() / WATCHED.as_secs_f64() * 100.0;
    let ours = format!("{wakeups:.0} /s, {cpu:.1} % CPU");
    table.row(
        "1,000 idle sessions, wake-ups",
        ours,
        String::new(),
        wakeups,
        Goal::AtMost(5.0, "5 /s".to_owned()),
    );
    Ok(())
}
