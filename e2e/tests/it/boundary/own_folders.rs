//! What an ordinary user's daemon keeps to itself: its environment and its folders. And what an agent leaves in its working tree
//! to make a review fail does not.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use e2e::cli::Cli;
use e2e::daemon::Daemon;
use e2e::world::World;

const TOKEN: &str = "glpat-kept-for-the-daemon";

/// Tries to read what the kernel shows of a process, as this world's user.
fn look_at(world: &World, pid: i32) -> Result<String> {
    let script = format!("cat /proc/{pid}/environ; ls -l /proc/{pid}/fd; readlink /proc/{pid}/exe; true");
    let output = world.command("sh").args(["-c", &script]).output()?;
    Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

fn give(world: &World, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    world.hand_over()?;
    Ok(())
}

#[tokio::test]
async fn nobody_of_the_same_user_reads_the_daemons_environment_and_an_upgrade_keeps_it() -> Result<()> {
    let Some(world) = World::of_user(61_237)? else { return Ok(()) };
    world.set_env("GITLAB_TOKEN", TOKEN);
    let mut daemon = Daemon::start(&world).await?;
    world.remove_env("GITLAB_TOKEN");
    let cli = Cli::new(&world);
    let pid = daemon.pid().context("no pid")?;
    let seen = look_at(&world, pid)?;
    ensure!(!seen.contains(TOKEN) && seen.contains("Permission denied"), "{seen}");
    let upgraded = cli.json(&["upgrade"]).await?;
    let next = upgraded["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()).context("no pid")?;
    ensure!(next != pid, "{upgraded}");
    // Only root can look.
    let environment = std::fs::read(format!("/proc/{next}/environ"))?;
    ensure!(
        String::from_utf8_lossy(&environment).contains(TOKEN),
        "the next daemon has the same environment"
    );
    ensure!(!look_at(&world, next)?.contains(TOKEN));
    cli.ok(&["stop"]).await?;
    daemon.wait().await?;
    world.assert_no_process_left().await
}

#[tokio::test]
async fn a_project_with_the_daemons_folders_is_told_and_gets_no_sandboxed_agent() -> Result<()> {
    let Some(world) = World::of_user(61_238)? else { return Ok(()) };
    let mut daemon = Daemon::start(&world).await?;
    let cli = Cli::new(&world);
    let dotfiles = world.path("config");
    give(&world, &dotfiles.join("obey"))?;
    let added = cli.ok(&["campaign", "add", &dotfiles.display().to_string(), "--name", "dotfiles"]).await?;
    let told = [added.stdout, added.stderr].concat();
    ensure!(told.contains("contains") && told.contains("OBEY-2005"), "{told}");
    let words = ["session", "create", "-c", "dotfiles", "-p", "scripted", "--sandbox"];
    let refused = cli.run(&words).await?;
    ensure!(refused.code != Some(0), "{refused:?}");
    ensure!(
        refused.stderr.contains("OBEY-2005") && refused.stderr.contains("without the sandbox"),
        "{refused:?}"
    );
    // A project beside them is not affected.
    let project = world.project().display().to_string();
    let added = cli.json(&["campaign", "add", &project, "--name", "demo"]).await?;
    ensure!(added.get("warnings").is_none(), "{added}");
    daemon.terminate().await?;
    Ok(())
}

#[tokio::test]
async fn a_folder_that_cannot_be_read_hides_nothing_else_from_a_review() -> Result<()> {
    let Some(world) = World::of_user(61_239)? else { return Ok(()) };
    let mut daemon = Daemon::start(&world).await?;
    let cli = Cli::new(&world);
    let project = world.project();
    let git = |args: &[&str]| -> Result<()> {
        let done = world.command("git").args(args).output()?;
        ensure!(done.status.success(), "git {args:?}: {done:?}");
        Ok(())
    };
    for (name, text) in [("locked/a", "1\n"), ("kept", "1\n"), ("unread", "1\n")] {
        std::fs::create_dir_all(project.join("locked"))?;
        std::fs::write(project.join(name), text)?;
    }
    world.hand_over()?;
    git(&["add", "-A"])?;
    git(&["-c", "user.name=T", "-c", "user.email=t@e.invalid", "commit", "-qm", "more"])?;
    git(&["checkout", "-qb", "work"])?;
    std::fs::write(project.join("kept"), "2\n")?;
    std::fs::write(project.join("unread"), "2\n")?;
    std::fs::write(project.join("secret"), "x\n")?;
    std::fs::create_dir_all(project.join("hidden"))?;
    world.hand_over()?;
    for name in ["locked", "unread", "secret", "hidden"] {
        std::fs::set_permissions(project.join(name), std::fs::Permissions::from_mode(0o000))?;
    }
    let diff = cli.json(&["diff"]).await?;
    let files: Vec<&str> =
        diff["files"].as_array().into_iter().flatten().filter_map(|file| file["path"].as_str()).collect();
    ensure!(files == ["kept"], "{diff:#}");
    let skipped: Vec<&str> =
        diff["skipped"].as_array().into_iter().flatten().filter_map(|path| path["path"].as_str()).collect();
    ensure!(skipped == ["hidden", "locked", "secret", "unread"], "{diff:#}");
    ensure!(
        diff["skipped"].as_array().into_iter().flatten().all(|path| path["reason"] == "unreadable"),
        "{diff:#}"
    );
    let shown = cli.ok(&["diff"]).await?;
    ensure!(format!("{shown:?}").contains("chmod -R u+rX locked"), "{shown:?}");
    let refused = cli.run(&["merge", "--into", "main", "--commit", "work"]).await?;
    ensure!(refused.code != Some(0) && refused.stderr.contains("locked cannot be read"), "{refused:?}");
    for name in ["locked", "unread", "secret", "hidden"] {
        std::fs::set_permissions(project.join(name), std::fs::Permissions::from_mode(0o755))?;
    }
    daemon.terminate().await?;
    Ok(())
}
