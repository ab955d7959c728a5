//! The daemon as a service of a real systemd user manager: what `obey service` writes is what systemd takes, and its
//! restarts and kills disturb no agent. Needs root and systemd, for a manager of its own in a mount namespace; where
//! these are missing it says so.

use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use e2e::cli::Cli;
use e2e::deadline::poll;
use e2e::processes;
use e2e::world::World;
use rustix::process::Signal;

/// Runs a user manager as the only one of its cgroup tree. It insists on a system that was started by systemd.
const MANAGER: &str = r#"
umount -l /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup || exit 9
mount -t tmpfs none /run && mkdir -p /run/systemd/system || exit 9
mkdir -p "/sys/fs/cgroup/$0" && echo $$ >"/sys/fs/cgroup/$0/cgroup.procs" || exit 9
systemd --user --unit=default.target
echo $$ >/sys/fs/cgroup/cgroup.procs
find "/sys/fs/cgroup/$0" -depth -type d -exec rmdir {} ";"
"#;

struct Systemd {
    world: World,
    manager: Child,
}

impl Systemd {
    /// `None`: there can be no manager here.
    async fn start() -> Result<Option<Self>> {
        let may = rustix::process::geteuid().is_root()
            && Command::new("systemctl").arg("--version").output().is_ok_and(|ran| ran.status.success());
        if !may {
            println!("SKIPPED: a systemd user manager of our own needs root and systemd");
            return Ok(None);
        }
        let world = World::new()?;
        world.set_env("OBEY_LISTEN", "none");
        let name = world.root().file_name().context("a world has a name")?.to_owned();
        let manager = world
            .command("unshare")
            .args(["--mount", "sh", "-c", MANAGER])
            .arg(name)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut systemd = Self { world, manager };
        let is_up = poll("the user manager", || {
            match systemd.manager.try_wait() {
                Ok(Some(_)) => Some(false),
                // It answers questions before it has come up entirely.
                _ => systemd.ask(&["list-units"]).ok().map(|_| true),
            }
        })
        .await?;
        if !is_up {
            println!("SKIPPED: systemd does not run in a namespace here");
            return Ok(None);
        }
        Ok(Some(systemd))
    }

    /// Runs `systemctl --user`.
    fn ask(&self, words: &[&str]) -> Result<String> {
        let ran = self.world.command("systemctl").arg("--user").args(words).output()?;
        let said = String::from_utf8_lossy(&ran.stdout).into_owned();
        ensure!(ran.status.success(), "{words:?}: {said}{}", String::from_utf8_lossy(&ran.stderr));
        Ok(said)
    }

    fn main_pid(&self) -> Result<i32> {
        Ok(self.ask(&["show", "-p", "MainPID", "--value", "obey.service"])?.trim().parse()?)
    }

    fn agent(&self) -> Option<i32> {
        let all = self.world.processes();
        all.iter().find(|process| process.command.contains("scripted-agent")).map(|found| found.pid)
    }

    async fn end(mut self) -> Result<()> {
        for manager in self.world.processes().iter().filter(|process| process.command.starts_with("systemd "))
        {
            processes::signal(manager.pid, Signal::TERM);
        }
        poll("the end of the user manager", || self.manager.try_wait().ok().flatten()).await?;
        Ok(())
    }
}

#[tokio::test]
async fn restarts_and_kills_by_systemd_disturb_no_agent() -> Result<()> {
    let Some(systemd) = Systemd::start().await? else { return Ok(()) };
    let cli = Cli::new(&systemd.world);
    cli.ok(&["service", "install", "--now"]).await?;
    let first = systemd.main_pid()?;
    ensure!(first > 0, "the service does not run");
    let ping = cli.json(&["ping"]).await?;
    ensure!(ping["pid"] == first, "{ping} is not the service, {first}");
    let project = systemd.world.project().display().to_string();
    cli.ok(&["campaign", "add", &project, "--name", "here"]).await?;
    let id = cli.ok(&["session", "create", "-c", "here", "-p", "scripted"]).await?.session_id()?;
    let agent = systemd.agent().context("no agent")?;
    for is_crash in [false, true] {
        let before = systemd.main_pid()?;
        if is_crash {
            processes::signal(before, Signal::KILL);
        } else {
            systemd.ask(&["restart", "obey.service"])?;
        }
        // The manager listens on the socket, so this waits for the next daemon rather than fail.
        poll("the next daemon", || systemd.main_pid().ok().filter(|pid| ![0, before].contains(pid))).await?;
        let sent = cli.ok(&["session", "send", &id, "still there? SCRIPT: [{\"text\": \"yes\"}]"]).await?;
        ensure!(sent.stdout.contains("yes"), "{sent:?}");
        ensure!(systemd.agent() == Some(agent), "the agent is another one");
    }
    cli.ok(&["stop", "--sessions"]).await?;
    poll("the end of the agent", || systemd.agent().is_none().then_some(())).await?;
    cli.ok(&["service", "uninstall"]).await?;
    ensure!(systemd.ask(&["list-unit-files", "obey*", "--no-legend"]).unwrap_or_default().is_empty());
    systemd.end().await
}

#[tokio::test]
async fn the_service_takes_over_from_a_daemon_that_a_command_started() -> Result<()> {
    let Some(systemd) = Systemd::start().await? else { return Ok(()) };
    let cli = Cli::new(&systemd.world);
    let project = systemd.world.project().display().to_string();
    cli.ok(&["campaign", "add", &project, "--name", "here"]).await?;
    let id = cli.ok(&["session", "create", "-c", "here", "-p", "scripted"]).await?.session_id()?;
    let (agent, before) = (systemd.agent().context("no agent")?, cli.json(&["ping"]).await?["pid"].clone());
    cli.ok(&["service", "install"]).await?;
    systemd.ask(&["start", "obey.service"])?;
    let ping = cli.json(&["ping"]).await?;
    ensure!(ping["pid"] != before && ping["pid"] == systemd.main_pid()?, "{ping} after {before}");
    let sent = cli.ok(&["session", "send", &id, "still there? SCRIPT: [{\"text\": \"yes\"}]"]).await?;
    ensure!(sent.stdout.contains("yes"), "{sent:?}");
    ensure!(systemd.agent() == Some(agent), "the agent is another one");
    cli.ok(&["stop", "--sessions"]).await?;
    systemd.end().await
}

#[tokio::test]
async fn a_daemon_that_lost_its_socket_can_still_be_stopped() -> Result<()> {
    let world = World::new()?;
    world.set_env("OBEY_LISTEN", "none");
    let cli = Cli::new(&world);
    cli.ok(&["ping"]).await?;
    std::fs::remove_file(world.socket())?;
    let stopped = cli.ok(&["stop"]).await?;
    ensure!(stopped.stdout.contains("had lost its socket, has ended"), "{stopped:?}");
    world.assert_no_process_left().await?;
    let nobody = cli.run(&["stop"]).await?;
    ensure!(nobody.code == Some(3), "{nobody:?}");
    Ok(())
}
