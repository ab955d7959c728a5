//! What an agent, a stranger or a hostile repository must not be able to do, tried from outside. Each module is one
//! boundary; the stage here runs an agent that executes whatever its prompt says.

mod access;
mod audit;
mod callers;
mod contained;
mod devices;
mod escape;
mod floods;
mod grants;
mod hostile;
mod killed_shims;
mod limits;
mod listeners;
mod own_folders;
mod repositories;
mod secrets;
mod session_commands;

use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Context, Result};
use e2e::clients::collect;
use e2e::tools;
use e2e::world::World;
use wire::obey::local::v1 as pb;

use crate::stage::{Agent, Stage, contents};

pub(crate) use devices::with_tls;

/// The name of the hostile agent's program, one of those the provider `acp` knows.
const PROGRAM: &str = "goose";

/// Opens a stage whose ACP agent runs its prompts as shell commands (`e2e/tests/acp/shell_agent.py`).
pub(crate) async fn hostile_stage() -> Result<Stage> {
    hostile_stage_with(|_| Ok(())).await
}

/// The same in a world that was changed before.
pub(crate) async fn hostile_stage_with(change: impl FnOnce(&World) -> Result<()>) -> Result<Stage> {
    let stage = Stage::open_with(Agent::Scripted, |world| {
        change(world)?;
        let folder = world.path("hostile");
        std::fs::create_dir(&folder)?;
        let agent = tools::repository().join("e2e/tests/acp/shell_agent.py");
        let program = folder.join(PROGRAM);
        std::fs::write(&program, format!("#!/bin/sh\nexec python3 '{}'\n", agent.display()))?;
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
        world.prepend_path(&folder)
    });
    stage.await?.context("the scripted agent is part of the daemon")
}

/// Creates a session of the hostile agent in a permission mode; returns its id.
pub(crate) async fn hostile_session(stage: &Stage, mode: &str) -> Result<String> {
    let mut request = stage.new_session();
    request.provider = pb::SessionProvider::Acp.into();
    request.model = String::new();
    request.provider_config.insert("agent".into(), PROGRAM.into());
    request.provider_config.insert("permission_mode".into(), mode.into());
    Ok(stage.create_as(request).await?.id)
}

/// Has the hostile agent run a shell command to its end; returns what it printed, with `exit N` at the end.
pub(crate) async fn run_as_agent(stage: &Stage, session: &str, command: &str) -> Result<String> {
    let events = collect(stage.send(session, command).await?).await?;
    Ok(contents(&events, pb::ActivityType::Completion))
}

/// The command line as an agent calls it: this stage's binary on the daemon's own socket.
pub(crate) fn obey(stage: &Stage) -> Result<String> {
    Ok(format!(
        "{} --socket {} --no-autostart",
        stage.world.obey()?.display(),
        stage.daemon.socket().display()
    ))
}
