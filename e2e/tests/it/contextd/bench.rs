//! A daemon with a project, and calls to it over REST.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use e2e::daemon::Daemon;
use e2e::http::{self, Answer};
use e2e::world::World;
use serde_json::{Value, json};

/// A running daemon and the address of its REST interface.
pub(super) struct Bench {
    pub(super) world: World,
    pub(super) daemon: Daemon,
}

impl Bench {
    pub(super) async fn start() -> Result<Bench> {
        let world = World::new()?;
        let daemon = Daemon::start(&world).await?;
        Ok(Bench { world, daemon })
    }

    pub(super) fn address(&self) -> Result<SocketAddr> {
        self.daemon.listen().first().copied().context("the daemon has no port")
    }

    pub(super) async fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Answer> {
        http::send(self.address()?, method, path, body.map(Value::to_string).as_deref()).await
    }

    /// Posts JSON; the answer must be 200.
    pub(super) async fn post(&self, path: &str, body: Value) -> Result<Value> {
        let answer = self.send("POST", path, Some(&body)).await?;
        ensure!(answer.status == 200, "{path} {body}: {} {}", answer.status, answer.body);
        answer.json()
    }

    /// Posts JSON that must be refused; returns the error.
    pub(super) async fn refused(&self, path: &str, body: Value, status: u16) -> Result<Value> {
        let answer = self.send("POST", path, Some(&body)).await?;
        ensure!(answer.status == status, "{path} {body}: {} {}", answer.status, answer.body);
        let error = answer.json()?;
        ensure!(
            error["status"] == status && error["code"].is_string() && error["error"].is_string(),
            "{error}"
        );
        Ok(error)
    }

    /// Makes a folder of its own for a project.
    pub(super) fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.world.path(name);
        std::fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// Starts a session on a folder.
    pub(super) async fn session(&self, folder: &std::path::Path) -> Result<String> {
        let answer = self.post("/api/v1/session/start", json!({ "project_path": folder })).await?;
        Ok(answer["session_id"].as_str().context("no session_id")?.to_owned())
    }

    pub(super) async fn bash(&self, session: &str, command: &str) -> Result<Value> {
        self.post("/api/v1/safeexec/bash", json!({ "session_id": session, "cmd": command })).await
    }

    pub(super) async fn end(mut self) -> Result<()> {
        self.daemon.terminate().await?;
        self.daemon.assert_no_descendants().await
    }
}

/// A token that the scrubber's rules know; put together here, so that no text of ours looks like a live one.
pub(super) fn token() -> String {
    format!("ghp_{}", "aB3dE5gH7jK9mN1pQ3sT5vX7zB9dF1hJ2kL4")
}
