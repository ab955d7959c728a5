//! One line of a gigabyte: it is recorded with its head and its length, and costs the daemon next to nothing.

use std::time::Instant;

use anyhow::{Result, ensure};

use crate::daemon::Home;
use crate::emitter::Script;
use crate::machine::{reset_peak, status};
use crate::reader::Follower;
use crate::stats::mib;
use crate::table::{Goal, Table};

const LINE_BYTES: u64 = 1 << 30;

pub(crate) async fn run(table: &mut Table) -> Result<()> {
    let (home, peer, session) = Home::with_session("line").await?;
    let pid = home.pid()?;
    let mut follower = Follower::new(&peer, &session.id).await?;
    let before = status(pid, "VmRSS")?;
    reset_peak(pid)?;
    let began = Instant::now();
    peer.prompt(&session.id, Script::line(LINE_BYTES).prompt()).await?;
    let mut length = 0;
    loop {
        let event = follower.next().await?;
        if event.r#type == "unparsed" {
            let body: serde_json::Value = serde_json::from_str(&event.json)?;
            length = body["length"].as_u64().unwrap_or(0);
        }
        if event.r#type == "turn_ended" {
            break;
        }
    }
    ensure!(length == LINE_BYTES, "a line of {LINE_BYTES} bytes is on record with {length}");
    let grown = status(pid, "VmHWM")?.saturating_sub(before);
    let rate = LINE_BYTES as f64 / (1 << 20) as f64 / began.elapsed().as_secs_f64();
    let ours = format!("{} at {rate:.0} MiB/s", mib(grown));
    let goal = Goal::AtMost(64.0 * 1024.0, mib(64 * 1024));
    table.row("a line of 1 GiB, daemon's growth", ours, String::new(), grown as f64, goal);
    Ok(())
}
