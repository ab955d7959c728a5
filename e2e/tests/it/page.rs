//! The page from outside: its API with plain HTTP, and its screens in a real browser against a real daemon. A scenario in
//! the browser is a script below `tests/page`; its exit code says whether everything in it held.

mod agents;
mod api;
mod screens;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use e2e::cli::Cli;
use e2e::daemon::Daemon;
use e2e::deadline::within;
use e2e::http::{self, Answer};
use e2e::tools;
use e2e::world::World;
use serde_json::Value;

/// A daemon with a TCP listener and one campaign, the project.
pub(crate) struct PageStage {
    pub(crate) world: World,
    pub(crate) daemon: Daemon,
    pub(crate) address: SocketAddr,
}

impl PageStage {
    pub(crate) async fn start() -> Result<Self> {
        Self::start_after(|_| Ok(())).await
    }

    /// The same, in a world that was prepared.
    pub(crate) async fn start_after(prepare: impl FnOnce(&World) -> Result<()>) -> Result<Self> {
        let world = World::new()?;
        prepare(&world)?;
        let daemon = Daemon::start_with(&world, &["--listen", "127.0.0.1:0"]).await?;
        let address = *daemon.listen().first().context("no TCP address")?;
        let project = world.project().display().to_string();
        Cli::new(&world).ok(&["campaign", "add", &project, "--name", "project"]).await?;
        Ok(Self { world, daemon, address })
    }

    pub(crate) fn cli(&self) -> Cli {
        Cli::new(&self.world)
    }

    /// Calls a method as JSON, with a key or without.
    pub(crate) async fn call(&self, method: &str, message: &Value, key: Option<&str>) -> Result<Answer> {
        let authorization = key.map(|key| format!("authorization: Bearer {key}\r\n")).unwrap_or_default();
        self.post(&format!("/{method}"), message, &authorization).await
    }

    /// Posts JSON with further header lines.
    pub(crate) async fn post(&self, path: &str, message: &Value, headers: &str) -> Result<Answer> {
        let (to, body) = (self.address, message.to_string());
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {to}\r\n{headers}content-type: application/json\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n{body}",
            body.len()
        );
        within("an answer", http::exchange(to, head)).await?
    }

    /// Asks for a path with further header lines.
    pub(crate) async fn get(&self, path: &str, headers: &str) -> Result<Answer> {
        let to = self.address;
        let head = format!("GET {path} HTTP/1.1\r\nhost: {to}\r\n{headers}connection: close\r\n\r\n");
        within("an answer", http::exchange(to, head)).await?
    }

    /// Gets a key as a page does: with the code of `obey web`.
    pub(crate) async fn key(&self) -> Result<(String, String)> {
        let code = self.code().await?;
        let message = serde_json::json!({ "code": code });
        let given = self.call("obey.v1.PageService/Login", &message, None).await?;
        ensure!(given.status == 200, "{given:?}");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok((text(&given.json()?["key"]), text(&given.json()?["name"])))
    }

    pub(crate) async fn code(&self) -> Result<String> {
        let printed = self.cli().json(&["web"]).await?;
        let url = printed["url"].as_str().context("no url")?;
        let code =
            url.strip_prefix(&format!("http://{}/#k=", self.address)).with_context(|| url.to_owned())?;
        Ok(code.to_owned())
    }

    /// Makes a session of the scripted agent.
    pub(crate) async fn session(&self, name: &str) -> Result<String> {
        let made = self
            .cli()
            .ok(&["session", "create", "--provider", "scripted", "--name", name, "-c", "project"])
            .await?;
        made.session_id()
    }

    /// Runs a scenario in a real browser. False: there is none, and that is allowed here.
    pub(crate) async fn drive(&self, script: &str) -> Result<bool> {
        drive(&self.world, &self.daemon, self.address, script).await
    }

    pub(crate) async fn end(mut self) -> Result<()> {
        self.daemon.terminate().await?;
        Ok(())
    }
}

/// What a scenario is started with: the program, its script, and its environment. None: there is no browser, and that is allowed
/// here.
pub(crate) struct Scenario {
    pub(crate) node: PathBuf,
    pub(crate) script: PathBuf,
    pub(crate) environment: Vec<(&'static str, OsString)>,
}

impl Scenario {
    pub(crate) fn new(
        world: &World,
        daemon: &Daemon,
        address: SocketAddr,
        script: &str,
    ) -> Result<Option<Self>> {
        let Some(browser) = tools::browser()? else { return Ok(None) };
        let Some((node, modules)) = tools::page_driver()? else { return Ok(None) };
        let mut environment = vec![
            ("PAGE_BASE", format!("http://{address}").into()),
            ("PAGE_CHROMIUM", browser.into()),
            ("PAGE_MODULES", modules.into()),
            ("PAGE_PROFILE", world.path("tmp").into()),
            ("PAGE_OBEY", world.obey()?.into()),
            ("PAGE_DAEMON_PID", daemon.pid().unwrap_or(0).to_string().into()),
        ];
        // A whole browser instead of the one that the tests fetch, which shows no notices.
        if let Some(whole) = std::env::var_os("OBEY_TEST_CHROMIUM") {
            environment.push(("PAGE_CHROMIUM", whole));
            environment.push(("PAGE_HEADLESS", "new".into()));
        }
        let script = tools::repository().join("e2e/tests/page").join(script);
        Ok(Some(Self { node, script, environment }))
    }
}

/// Runs a scenario in a real browser. False: there is none, and that is allowed here.
pub(crate) async fn drive(world: &World, daemon: &Daemon, address: SocketAddr, script: &str) -> Result<bool> {
    let Some(scenario) = Scenario::new(world, daemon, address, script)? else { return Ok(false) };
    let mut command = tokio::process::Command::from(world.command(&scenario.node));
    let child = command
        .arg(&scenario.script)
        .envs(scenario.environment)
        .current_dir(world.project())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("starting node")?;
    let output = within("a scenario in the browser", child.wait_with_output()).await??;
    let told = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let picture = world.path("tmp/failed.png");
        if let Some(kept) = std::env::var_os("OBEY_TEST_SCREENSHOTS") {
            // For a person who looks; the outcome does not depend on it.
            let _ = std::fs::copy(&picture, std::path::Path::new(&kept).join("failed.png"));
        }
    }
    let script = scenario.script.display();
    ensure!(output.status.success(), "{script}\n{told}\n{}", String::from_utf8_lossy(&output.stderr));
    // Figures that a scenario measured, for whoever runs it with --no-capture.
    println!("{told}");
    Ok(true)
}
