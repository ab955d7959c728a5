//! What a session sees of its caller's environment, and a daemon that is started again by whoever waits.

use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};

use anyhow::{Context, Result};
use e2e::tmux::Tmux;
use e2e::world::World;
use e2e::{processes, tools};
use rustix::process::Signal;
use serde_json::json;

use crate::stage::{Agent, script, stage};

/// Puts an ACP agent `goose` into a folder of the world: it says its PATH and a key into a file, and ends.
fn write_agent(world: &World) -> Result<std::path::PathBuf> {
    let folder = world.path("late-bin");
    std::fs::create_dir_all(&folder)?;
    let program = folder.join("goose");
    let seen = world.path("seen").display().to_string();
    std::fs::write(
        &program,
        format!(
            "#!/bin/sh\nenv | grep -E '^(PATH|ANTHROPIC_API_KEY|GITHUB_TOKEN)=' > {seen}.new; mv {seen}.new {seen}\nexec cat > /dev/null\n"
        ),
    )?;
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
    Ok(folder)
}

#[tokio::test]
async fn a_session_has_its_callers_path_and_its_providers_variables_only() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let cli = stage.cli();
    let state = |listed: &serde_json::Value| -> (String, String) {
        let all = listed["agents"].as_array().cloned().unwrap_or_default();
        let goose = all.into_iter().find(|agent| agent["name"] == "goose").unwrap_or_default();
        (goose["state"].as_str().unwrap_or_default().to_owned(), goose["daemon_program"].to_string())
    };
    assert_eq!(state(&cli.json(&["agents", "list"]).await?).0, "missing");
    // A shell with another PATH and other keys than the daemon's.
    stage.world.prepend_path(&write_agent(&stage.world)?)?;
    stage.world.set_env("ANTHROPIC_API_KEY", "of-the-caller");
    stage.world.set_env("GITHUB_TOKEN", "not-for-agents");
    let listed = cli.json(&["agents", "list"]).await?;
    assert_eq!(state(&listed), ("installed".to_owned(), "null".to_owned()), "{listed}");
    let told = cli.ok(&["agents", "list"]).await?;
    assert!(told.stderr.contains("not with the daemon's"), "{told:?}");
    let seen = stage.world.path("seen");
    let mut creating = cli.spawn(&["run", "-p", "goose", "--detach"]).await?;
    let text = e2e::deadline::poll("what the agent saw", || std::fs::read_to_string(&seen).ok()).await?;
    creating.write("").await?;
    assert!(text.contains("late-bin"), "{text}");
    assert!(text.contains("ANTHROPIC_API_KEY=of-the-caller"), "{text}");
    assert!(!text.contains("GITHUB_TOKEN"), "{text}");
    drop(creating);
    stage.close().await
}

#[tokio::test]
async fn a_session_made_in_the_terminal_ui_has_its_callers_environment_too() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    if tools::tmux()?.is_none() {
        return stage.close().await;
    }
    stage.world.prepend_path(&write_agent(&stage.world)?)?;
    stage.world.set_env("ANTHROPIC_API_KEY", "of-the-caller");
    stage.world.set_env("GITHUB_TOKEN", "not-for-agents");
    let tmux = Tmux::start(&stage.world, 120, 40, &["ui"])?;
    tmux.wait_for("No sessions yet.").await?;
    tmux.press(&["N"])?;
    tmux.wait_for("arrows choose").await?;
    // From the message up to the agent, which daemons with another PATH do not find.
    tmux.press(&["Up", "Up", "Up", "Up", "Up", "Up"])?;
    tmux.press_until("Right", "the agent", |screen| screen.contains("< goose >")).await?;
    tmux.press(&["Down", "Down", "Down", "Down", "Down", "Down"])?;
    tmux.type_text("go")?;
    tmux.press(&["Enter"])?;
    let seen = stage.world.path("seen");
    let text = e2e::deadline::poll("what the agent saw", || std::fs::read_to_string(&seen).ok()).await?;
    assert!(text.contains("late-bin") && text.contains("ANTHROPIC_API_KEY=of-the-caller"), "{text}");
    assert!(!text.contains("GITHUB_TOKEN"), "{text}");
    drop(tmux);
    stage.close().await
}

#[tokio::test]
async fn a_path_is_taken_from_this_machines_user_only() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let mut request = stage.new_session();
    request.provider_config.insert("caller_environment".to_owned(), "[1]".to_owned());
    let refused = stage.clients.local.clone().create_session(request).await.err().context("it was taken")?;
    assert!(refused.message().contains("caller_environment"), "{refused:?}");
    stage.close().await
}

#[tokio::test]
async fn whoever_waits_starts_a_crashed_daemon_again_and_misses_nothing() -> Result<()> {
    let world = World::new()?;
    let cli = e2e::cli::Cli::new(&world);
    let go = world.path("go");
    let steps = json!([{"text": "before "}, {"wait_file": go}, {"text": "and after"}]);
    cli.ok(&["run", "-p", "scripted", "--yes", "--name", "worker", "--detach"]).await?;
    let prompt = script(Agent::Scripted, "x", &steps);
    let sending = cli.spawn(&["send", "worker", &prompt, "--json"]).await?;
    let mut sending = sending;
    sending.wait_for_line("the first words", |line| line.contains("before ")).await?;
    let pid = cli.json(&["ping", "--no-autostart"]).await?["pid"].as_i64().context("no pid")?;
    processes::signal(i32::try_from(pid)?, Signal::KILL);
    world.touch("go")?;
    let done = sending.finish().await?;
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stdout.contains("and after"), "{done:?}");
    let now = cli.json(&["ping", "--no-autostart"]).await?["pid"].as_i64().context("no pid")?;
    assert_ne!(now, pid);
    cli.ok(&["stop", "--sessions"]).await?;
    Ok(())
}

/// The kernel accepts connections for a process that is being killed.
#[tokio::test]
async fn a_command_that_reaches_a_dying_daemon_starts_the_next_one() -> Result<()> {
    let world = World::new()?;
    let cli = e2e::cli::Cli::new(&world);
    let socket = world.socket();
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(socket.parent().context("no folder")?)?;
    let dying = tokio::net::UnixListener::bind(&socket)?;
    let accepted = tokio::spawn(async move {
        let probe = dying.accept().await?;
        let call = dying.accept().await?;
        drop((probe, call));
        anyhow::Ok(())
    });
    let answered = cli.run(&["ping"]).await?;
    assert_eq!(answered.code, Some(0), "{answered:?}");
    e2e::deadline::within("both connections", accepted).await???;
    cli.ok(&["stop"]).await?;
    Ok(())
}

#[tokio::test]
async fn a_daemon_that_was_told_to_end_is_not_started_again() -> Result<()> {
    let world = World::new()?;
    let cli = e2e::cli::Cli::new(&world);
    cli.ok(&["run", "-p", "scripted", "--yes", "--name", "worker", "--detach"]).await?;
    let mut watching = cli.spawn(&["session", "watch", "worker", "--json"]).await?;
    watching.wait_for_line("an event", |line| line.contains("seq")).await?;
    cli.ok(&["stop", "--sessions"]).await?;
    let ended = watching.finish().await?;
    assert!(ended.code.is_some(), "{ended:?}");
    let ping = cli.run(&["ping", "--no-autostart"]).await?;
    assert_eq!(ping.code, Some(3), "{ping:?}");
    Ok(())
}
