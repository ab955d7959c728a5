//! Several daemons at once, a daemon that stands still, one whose program is replaced, one whose folders are not as
//! they should be: the sessions belong to exactly one, and lose nothing.

use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use e2e::deadline::{poll, within};
use e2e::faults::crew::signal_daemon;
use e2e::faults::random::Random;
use e2e::faults::story::Story;
use e2e::processes;
use e2e::world::World;
use rustix::process::Signal;
use serde_json::json;
use wire::obey::local::v1::{ActivityType, SessionStatus};

use super::{agents_dir, assert_numbered, crash, revive, said, seed};
use crate::stage::{Agent, contents, script, stage};

/// Starts one more daemon in the world and waits for its end; returns its exit code and what it said.
async fn second_daemon(world: &World, options: &[&str]) -> Result<(Option<i32>, String)> {
    let child = tokio::process::Command::from(world.command(world.obey()?))
        .args(["serve", "--listen", "127.0.0.1:0"])
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let output = within("the end of a second daemon", child.wait_with_output()).await??;
    let text = [output.stdout, output.stderr].concat();
    Ok((output.status.code(), String::from_utf8_lossy(&text).into_owned()))
}

#[tokio::test]
async fn of_several_daemons_exactly_one_serves() -> Result<()> {
    let mut stage = stage!(Agent::Scripted);
    let id = stage.create().await?;
    for _ in 0..3 {
        let (code, said) = second_daemon(&stage.world, &[]).await?;
        assert!(code.is_some_and(|code| code != 0) && said.contains("OBEY-1012"), "{code:?}: {said}");
    }
    // Another socket for the same data, and other data for the same socket.
    let elsewhere = stage.world.path("elsewhere").display().to_string();
    let socket = stage.world.path("run/other.sock").display().to_string();
    for options in [["--socket", socket.as_str()], ["--data-dir", elsewhere.as_str()]] {
        let (code, said) = second_daemon(&stage.world, &options).await?;
        assert!(code.is_some_and(|code| code != 0) && said.contains("OBEY-1012"), "{options:?}: {said}");
    }
    let turn = stage.turn(&id, &script(Agent::Scripted, "first", &json!([{"text": "unmoved"}]))).await?;
    assert_eq!(contents(&turn, ActivityType::Completion), "unmoved");
    // All at once, with nobody there before them.
    for _ in 0..4 {
        stage.daemon.kill9().await?;
        let world = stage.world.clone();
        let mut racers = Vec::new();
        for _ in 0..4 {
            let mut racer = tokio::process::Command::from(world.command(world.obey()?))
                .args(["serve", "--listen", "127.0.0.1:0"])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .kill_on_drop(true)
                .spawn()?;
            racer.stdin.take();
            racers.push(racer);
        }
        let mut left = racers.len();
        within("the end of all but one", async {
            while left > 1 {
                for racer in &mut racers {
                    if racer.id().is_some() && racer.try_wait()?.is_some() {
                        left -= 1;
                    }
                }
                tokio::task::yield_now().await;
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            anyhow::Ok(())
        })
        .await??;
        let mut clients = poll_clients(&world).await?;
        let list = clients.local.list_sessions(wire::obey::local::v1::ListSessionsRequest::default()).await?;
        assert_eq!(list.into_inner().sessions.len(), 1);
        for mut racer in racers.into_iter().filter(|racer| racer.id().is_some()) {
            racer.start_kill()?;
            racer.wait().await?;
        }
        revive(&mut stage).await?;
    }
    let turn = stage.turn(&id, &script(Agent::Scripted, "last", &json!([{"text": "still one"}]))).await?;
    assert_eq!(contents(&turn, ActivityType::Completion), "still one");
    assert_numbered(&stage.journal(&id).await?);
    stage.close().await
}

/// Connects once somebody serves.
async fn poll_clients(world: &World) -> Result<e2e::clients::Clients> {
    let socket = world.socket();
    poll("somebody who listens", || std::os::unix::net::UnixStream::connect(&socket).ok()).await?;
    e2e::clients::Clients::connect(&socket).await
}

#[tokio::test]
async fn a_daemon_that_stands_still_blocks_no_agent_and_loses_nothing() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let mut random = Random::new(seed());
    let mut stories = Vec::new();
    for number in 0..5 {
        let id = stage.create().await?;
        let gate = stage.world.path("gate");
        let story = Story::new(&format!("s{number}"), 4_000, 0, &mut random).after_file(&gate);
        let dir = agents_dir(&stage).join(format!("{id}.1"));
        let before = e2e::faults::output::spooled(&dir);
        drop(stage.send(&id, &story.prompt()).await?);
        // A prompt that is still on its way would wait until the daemon goes on.
        poll("the prompt's delivery", || (e2e::faults::output::spooled(&dir) > before).then_some(())).await?;
        stories.push((id, story));
    }
    signal_daemon(&stage.daemon, Signal::STOP);
    stage.world.touch("gate")?;
    // Far more than a pipe holds: without a shim that reads, every agent would wait in its write.
    for (id, story) in &stories {
        let dir = agents_dir(&stage).join(format!("{id}.1"));
        let wanted = story.text().len() as u64;
        poll("all output on disk", || {
            let spooled: u64 = std::fs::read_dir(&dir)
                .ok()?
                .flatten()
                .filter(|entry| entry.file_name().to_string_lossy().starts_with("out."))
                .filter_map(|entry| Some(entry.metadata().ok()?.len()))
                .sum();
            (spooled > wanted).then_some(())
        })
        .await?;
    }
    signal_daemon(&stage.daemon, Signal::CONT);
    for (id, story) in &stories {
        let ended = stage.wait_for(id, "turn_ended", |_| true).await?;
        assert_eq!(ended["reason"], "completed");
        let journal = stage.journal(id).await?;
        assert_numbered(&journal);
        ensure!(said(&journal) == story.text(), "the text of {} is another", story.key());
    }
    stage.close().await
}

#[tokio::test]
async fn an_upgrade_by_renaming_keeps_every_turn() -> Result<()> {
    let mut stage = stage!(Agent::Scripted);
    // The daemon runs from a file of its own, which is then replaced as package managers do it.
    let (built, program) = (stage.world.obey()?, stage.world.path("obey"));
    let fresh = stage.world.path("fresh");
    let install = || -> Result<()> {
        std::fs::copy(&built, &fresh)?;
        std::fs::rename(&fresh, &program).context("replacing the program")
    };
    install()?;
    stage.world.use_obey(&program);
    revive(&mut stage).await?;
    let id = stage.create().await?;
    let gate = stage.world.path("gate");
    let steps = json!([{"text": "old "}, {"wait_file": gate}, {"text": "and new"}]);
    drop(stage.send(&id, &script(Agent::Scripted, "upgrade", &steps)).await?);
    stage.wait_for_text(&id, "old").await?;
    let pid = stage.info(&id).await?.pid;
    install()?;
    // The old daemon goes on, and starts what is new.
    let other = stage.create().await?;
    let turn = stage.turn(&other, &script(Agent::Scripted, "other", &json!([{"text": "works"}]))).await?;
    assert_eq!(contents(&turn, ActivityType::Completion), "works");
    // A polite end and a crash are the same to an agent.
    stage.daemon.terminate().await?;
    assert!(processes::alive(pid));
    revive(&mut stage).await?;
    crash(&mut stage).await?;
    stage.world.touch("gate")?;
    let ended = stage.wait_for(&id, "turn_ended", |_| true).await?;
    assert_eq!(ended["text"], "old and new");
    assert_eq!((stage.info(&id).await?.pid, stage.info(&id).await?.status()), (pid, SessionStatus::Running));
    stage.close().await
}

#[tokio::test]
async fn a_data_folder_that_cannot_be_used_is_refused_with_its_name() -> Result<()> {
    let world = World::new()?;
    let file = world.path("a-file");
    std::fs::write(&file, "x")?;
    let open = world.path("open");
    std::fs::create_dir(&open)?;
    std::fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o777))?;
    for folder in [file.clone(), file.join("below"), open] {
        let name = folder.display().to_string();
        let (code, said) = second_daemon(&world, &["--data-dir", &name]).await?;
        assert!(code.is_some_and(|code| code != 0), "{name} was taken");
        assert!(said.contains(&name) && said.contains("OBEY-"), "{name}: {said}");
    }
    Ok(())
}
