//! GitLab and GitHub from outside: commands, `betcode.v1`, sessions that start from issues, and servers that misbehave.

mod clients;
mod issues;
mod misbehaving;
mod project_tokens;
mod showing;

use anyhow::{Context, Result, ensure};
use e2e::forge_server::{ForgeServer, TOKEN};
use serde_json::Value;

use crate::stage::{Agent, Stage};

/// A daemon that knows a server of GitLab and GitHub below a path, and another server that nobody configured.
pub(super) struct Forges {
    pub(super) stage: Stage,
    pub(super) server: ForgeServer,
    pub(super) other: ForgeServer,
}

impl Forges {
    /// Starts the servers, and the daemon with their address and token in its environment. The project's remote is on the
    /// server.
    pub(super) async fn open(agent: Agent) -> Result<Option<Forges>> {
        let other = ForgeServer::start("", "")?;
        let server = ForgeServer::start("/git", &other.url())?;
        let stage = Stage::open_with(agent, |world| {
            world.set_env("GITLAB_URL", server.url());
            world.set_env("GITLAB_TOKEN", TOKEN);
            // The same server by another name: one address is never both.
            world.set_env("OBEY_GITHUB_URL", server.url().replace("127.0.0.1", "localhost"));
            world.set_env("GITHUB_TOKEN", TOKEN);
            let remote = format!("{}/group/demo.git", server.url());
            let done = world
                .command("git")
                .args(["remote", "add", "origin", &remote])
                .current_dir(world.project())
                .output()?;
            ensure!(done.status.success(), "{done:?}");
            Ok(())
        });
        Ok(stage.await?.map(|stage| Forges { stage, server, other }))
    }

    /// Nobody but the server was given the token.
    pub(super) fn check_token_stayed(&self) {
        let leaked: Vec<_> = self.other.asked().into_iter().filter(|asked| asked.token.is_some()).collect();
        assert!(leaked.is_empty(), "{leaked:?}");
    }
}

/// The texts of one field of a list.
pub(super) fn column(list: &Value, name: &str, key: &str) -> Result<Vec<String>> {
    let rows = list[name].as_array().with_context(|| format!("no {name}: {list}"))?;
    Ok(rows.iter().map(|row| row[key].as_str().map_or_else(|| row[key].to_string(), str::to_owned)).collect())
}
