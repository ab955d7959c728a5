//! Much at once: a thousand commands, output without end, processes without end. The daemon stays small and answers.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::deadline::within_time;
use serde_json::json;

use super::bench::Bench;

/// Bytes of output; the full test of the specification asks for a gigabyte.
fn output_bytes() -> u64 {
    let full = std::env::var("OBEY_TEST_FULL").is_ok_and(|value| value == "1");
    if full { 1 << 30 } else { 32 << 20 }
}

const PATIENCE: Duration = Duration::from_secs(300);

/// Memory of the daemon that is its own, in bytes.
fn memory(bench: &Bench) -> Result<u64> {
    let pid = bench.daemon.pid().context("the daemon is gone")?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).context("no RssAnon")?;
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kilobytes * 1024)
}

#[tokio::test]
async fn a_thousand_commands_at_once_all_end() -> Result<()> {
    let bench = Bench::start().await?;
    let session = bench.session(&bench.folder("one")?).await?;
    let address = bench.address()?;
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..1000 {
        let body =
            json!({"session_id": session, "cmd": format!("echo {number}"), "timeout": 300}).to_string();
        calls.spawn(async move {
            let head = format!(
                "POST /api/v1/safeexec/bash HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
                 content-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            (number, e2e::http::exchange(address, head).await)
        });
    }
    let all = within_time("the end of all commands", PATIENCE, calls.join_all()).await?;
    for (number, answer) in all {
        let answer = answer?.json()?;
        ensure!(answer["stdout_preview"] == format!("{number}\n"), "{number}: {answer}");
    }
    bench.end().await
}

#[tokio::test]
async fn a_large_output_costs_little_memory() -> Result<()> {
    let bench = Bench::start().await?;
    let session = bench.session(&bench.folder("one")?).await?;
    bench.bash(&session, "seq 1 100000").await?;
    let before = memory(&bench)?;
    let bytes = output_bytes();
    let command = format!("yes 'a line of an ordinary build log, compiled in 0.3s' | head -c {bytes}");
    let request = json!({"session_id": session, "cmd": command, "timeout": 300}).to_string();
    let send = e2e::http::exchange(bench.address()?, {
        let head = format!(
            "POST /api/v1/safeexec/bash HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n",
            bench.address()?
        );
        format!("{head}content-length: {}\r\nconnection: close\r\n\r\n{request}", request.len())
    });
    let mut most = 0;
    let mut look = tokio::time::interval(Duration::from_millis(50));
    tokio::pin!(send);
    let answer = within_time("the end of the output", PATIENCE, async {
        loop {
            tokio::select! {
                answer = &mut send => return answer,
                _ = look.tick() => most = most.max(memory(&bench).unwrap_or(0)),
            }
        }
    });
    let answer = answer.await??.json()?;
    ensure!(
        answer["exit_code"] == 0 && answer["stdout_ref"].as_str().is_some_and(|it| !it.is_empty()),
        "{answer}"
    );
    let grown = most.saturating_sub(before);
    println!("{} MB of output cost {} KB of memory", bytes >> 20, grown >> 10);
    ensure!(grown <= 32 << 20, "{} MB of output cost {} MB of memory", bytes >> 20, grown >> 20);
    bench.end().await
}

#[tokio::test]
async fn a_fork_bomb_hurts_nobody_else() -> Result<()> {
    let bench = Bench::start().await?;
    let session = bench.session(&bench.folder("one")?).await?;
    let other = bench.session(&bench.folder("two")?).await?;
    let bomb = json!({"session_id": session, "cmd": "b() { b & b; }; b", "timeout": 3});
    let bombing = bench.post("/api/v1/safeexec/bash", bomb);
    let working = async {
        for number in 0..5 {
            let answer = bench.bash(&other, &format!("echo {number}")).await?;
            ensure!(answer["exit_code"] == 0, "{answer}");
        }
        anyhow::Ok(())
    };
    let (bombed, worked) = tokio::join!(bombing, working);
    worked?;
    ensure!(bombed?["exit_code"] != 0);
    bench.end().await
}
