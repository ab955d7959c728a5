//! Agents and shims die, stand still or leave children behind. Exactly their own sessions are concerned, the reason is
//! told, and nothing stays.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use e2e::{deadline, processes};
use rustix::process::Signal;
use serde_json::json;
use wire::obey::local::v1::{ActivityType, SessionStatus};

use super::{agents_dir, assert_numbered, crash, gone, no_folder_left, revive, said, shim_of};
use crate::stage::{Agent, Stage, contents, process_scenarios, script, stage};

process_scenarios!(
    memory_that_runs_out_ends_agents_before_those_who_hold_their_words,
    a_killed_agent_fails_its_session_and_no_other,
    a_killed_shim_fails_its_session_and_nothing_of_its_agent_lives_on,
    an_agent_that_dies_without_a_daemon_is_found_with_its_end,
    a_stop_ends_every_process_of_the_agent,
    an_agent_that_stands_still_can_be_stopped,
    a_shim_killed_without_a_daemon_is_found_and_its_processes_ended,
    a_shim_that_stands_still_cannot_keep_a_session_from_ending,
);

/// A stop must be over after this long.
const STOP_MAX: Duration = Duration::from_secs(5);

/// Lets the agent say something, leave a child in a session of its own, and work on. Returns the child.
async fn leave_child(stage: &Stage, id: &str) -> Result<i32> {
    let pid_file = stage.world.path(&format!("child-{id}"));
    let steps = match stage.agent {
        Agent::Scripted => {
            json!([{"text": "child "}, {"spawn_child": true}, {"text": " stays"}, {"hang": true}])
        }
        _ => {
            let command =
                format!("setsid sleep 600 >/dev/null 2>&1 & echo $! >{} && echo left", pid_file.display());
            // Codex: outside its sandbox, where a process has the same number for everybody.
            json!([stage.agent.asking(&command), [{"text": " stays"}, {"hang": true}]])
        }
    };
    drop(stage.send(id, &script(stage.agent, "child", &steps)).await?);
    stage.wait_for_text(id, " stays").await?;
    let text = match stage.agent {
        Agent::Scripted => {
            let said = said(&stage.journal(id).await?);
            said.split_whitespace().nth(1).context("no child")?.to_owned()
        }
        _ => std::fs::read_to_string(pid_file)?,
    };
    let child = text.trim().parse()?;
    assert!(processes::alive(child), "the child of the test itself is missing");
    Ok(child)
}

/// A session that does what it wants without asking.
async fn create_free(stage: &Stage) -> Result<String> {
    let mut request = stage.new_session();
    request.provider_config.insert("permission_mode".into(), "autonomous".into());
    Ok(stage.create_as(request).await?.id)
}

async fn a_killed_agent_fails_its_session_and_no_other(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let (id, other) = (stage.create().await?, stage.create().await?);
    let stuck = json!([[{"text": "half a "}, {"hang": true}]]);
    drop(stage.send(&id, &script(agent, "stuck", &stuck)).await?);
    // With its last letter, which may come as a piece of its own.
    stage.wait_for_text(&id, "half a ").await?;
    processes::signal(stage.info(&id).await?.pid, Signal::KILL);
    let failed = stage.wait_for_status(&id, "FAILED").await?;
    assert_eq!(failed["code"], "OBEY-2031", "{failed}");
    assert!(failed["message"].as_str().is_some_and(|message| message.contains("signal 9")), "{failed}");
    let journal = stage.journal(&id).await?;
    assert_numbered(&journal);
    assert_eq!(said(&journal), "half a ");
    let turn = stage.turn(&other, &script(agent, "other", &json!([{"text": "untouched"}]))).await?;
    assert_eq!(contents(&turn, ActivityType::Completion), "untouched");
    stage.close().await
}

async fn a_killed_shim_fails_its_session_and_nothing_of_its_agent_lives_on(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let (id, other) = (create_free(&stage).await?, stage.create().await?);
    let child = leave_child(&stage, &id).await?;
    let pid = stage.info(&id).await?.pid;
    processes::signal(shim_of(&stage, &id)?, Signal::KILL);
    let failed = stage.wait_for_status(&id, "FAILED").await?;
    assert_eq!(failed["code"], "OBEY-2031", "{failed}");
    gone(pid).await?;
    gone(child).await?;
    let left = |name: &String| name.starts_with(&id);
    deadline::poll("the end of its folder", || {
        (!e2e::faults::crew::folders(&agents_dir(&stage)).iter().any(left)).then_some(())
    })
    .await?;
    let turn = stage.turn(&other, &script(agent, "other", &json!([{"text": "untouched"}]))).await?;
    assert_eq!(contents(&turn, ActivityType::Completion), "untouched");
    // The session itself can begin again.
    assert_eq!(stage.restart(&id).await?.status(), SessionStatus::Running);
    stage.close().await
}

async fn an_agent_that_dies_without_a_daemon_is_found_with_its_end(agent: Agent) -> Result<()> {
    let mut stage = stage!(agent);
    let id = stage.create().await?;
    let gate = stage.world.path("gate");
    let steps = match agent {
        Agent::Scripted => {
            json!([{"text": "before "}, {"stderr": "the roof is on fire"}, {"wait_file": gate}, {"text": "after"}, {"crash": 7}])
        }
        _ => json!([[{"text": "before "}, {"hang": true}]]),
    };
    drop(stage.send(&id, &script(agent, "dies", &steps)).await?);
    stage.wait_for_text(&id, "before").await?;
    let pid = stage.info(&id).await?.pid;
    stage.daemon.kill9().await?;
    match agent {
        Agent::Scripted => drop(stage.world.touch("gate")?),
        _ => processes::signal(pid, Signal::KILL),
    }
    gone(pid).await?;
    revive(&mut stage).await?;
    let failed = stage.wait_for_status(&id, "FAILED").await?;
    assert_eq!(failed["code"], "OBEY-2031", "{failed}");
    let message = failed["message"].as_str().unwrap_or_default().to_owned();
    let journal = stage.journal(&id).await?;
    assert_numbered(&journal);
    match agent {
        Agent::Scripted => {
            assert!(message.contains("code 7") && message.contains("the roof is on fire"), "{message}");
            assert_eq!(said(&journal), "before after");
        }
        _ => assert!(message.contains("signal 9"), "{message}"),
    }
    no_folder_left(&stage).await?;
    stage.close().await
}

async fn a_stop_ends_every_process_of_the_agent(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = create_free(&stage).await?;
    let child = leave_child(&stage, &id).await?;
    let (pid, shim) = (stage.info(&id).await?.pid, shim_of(&stage, &id)?);
    let began = Instant::now();
    let stopped = stage.stop(&id, false).await?;
    assert_eq!(stopped.status(), SessionStatus::Stopped);
    assert!(began.elapsed() < STOP_MAX, "the stop took {:?}", began.elapsed());
    for pid in [pid, child, shim] {
        gone(pid).await?;
    }
    no_folder_left(&stage).await?;
    stage.close().await
}

async fn an_agent_that_stands_still_can_be_stopped(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = stage.create().await?;
    let pid = stage.info(&id).await?.pid;
    processes::signal(pid, Signal::STOP);
    // What is sent to it is accepted, and waits.
    drop(stage.send(&id, &script(agent, "unheard", &json!([{"text": "never"}]))).await?);
    let began = Instant::now();
    let stopped = stage.stop(&id, false).await?;
    assert_eq!(stopped.status(), SessionStatus::Stopped);
    assert!(began.elapsed() < STOP_MAX, "the stop took {:?}", began.elapsed());
    gone(pid).await?;
    no_folder_left(&stage).await?;
    stage.close().await
}

async fn a_shim_killed_without_a_daemon_is_found_and_its_processes_ended(agent: Agent) -> Result<()> {
    let mut stage = stage!(agent);
    let id = create_free(&stage).await?;
    let child = leave_child(&stage, &id).await?;
    let (pid, shim) = (stage.info(&id).await?.pid, shim_of(&stage, &id)?);
    stage.daemon.kill9().await?;
    processes::signal(shim, Signal::KILL);
    gone(pid).await?;
    revive(&mut stage).await?;
    let failed = stage.wait_for_status(&id, "FAILED").await?;
    assert_eq!(failed["code"], "OBEY-2031", "{failed}");
    gone(child).await?;
    no_folder_left(&stage).await?;
    // Nothing changes by coming back once more.
    let before = stage.journal(&id).await?.len();
    crash(&mut stage).await?;
    assert_eq!(stage.journal(&id).await?.len(), before);
    stage.close().await
}

async fn a_shim_that_stands_still_cannot_keep_a_session_from_ending(agent: Agent) -> Result<()> {
    let mut stage = stage!(agent);
    let (id, other) = (stage.create().await?, stage.create().await?);
    let (pid, shim) = (stage.info(&id).await?.pid, shim_of(&stage, &id)?);
    processes::signal(shim, Signal::STOP);
    let began = Instant::now();
    let stopped = stage.stop(&id, false).await?;
    assert_eq!(stopped.status(), SessionStatus::Stopped);
    assert!(began.elapsed() < STOP_MAX, "the stop took {:?}", began.elapsed());
    gone(pid).await?;
    gone(shim).await?;
    // One that a new daemon finds like that is given up, and only that one.
    let id = stage.create().await?;
    let (pid, shim) = (stage.info(&id).await?.pid, shim_of(&stage, &id)?);
    stage.daemon.kill9().await?;
    processes::signal(shim, Signal::STOP);
    revive(&mut stage).await?;
    let turn = stage.turn(&other, &script(agent, "other", &json!([{"text": "untouched"}]))).await?;
    assert_eq!(contents(&turn, ActivityType::Completion), "untouched");
    let failed = stage.wait_for_status(&id, "FAILED").await?;
    assert_eq!(failed["code"], "OBEY-2031", "{failed}");
    gone(pid).await?;
    gone(shim).await?;
    stage.stop(&other, false).await?;
    no_folder_left(&stage).await?;
    stage.close().await
}

async fn memory_that_runs_out_ends_agents_before_those_who_hold_their_words(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let session = stage.create_as(stage.new_session()).await?;
    let likelihood = |pid: i32| -> Result<i32> {
        Ok(std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj"))?.trim().parse()?)
    };
    let daemon = likelihood(stage.daemon.pid().context("no daemon")?)?;
    let shim = likelihood(shim_of(&stage, &session.id)?)?;
    let agent = likelihood(session.pid)?;
    assert_eq!(shim, daemon, "whoever holds the words is as safe as the daemon");
    assert!(agent > shim || daemon == 1_000, "agent {agent}, shim {shim}, daemon {daemon}");
    stage.close().await
}
