//! The escape suite: a hostile agent tries every way out it knows, as root and as an ordinary user, without the sandbox and
//! inside it. The tables say what must become of each attempt. They are held both ways: what is refused must be refused,
//! and what a program with the user's rights can do without the sandbox must still be possible, so that the tables
//! and the documents stay true. An attempt has succeeded when its effect is there: a mark outside the project, a secret in
//! its output, a changed record. Error texts alone prove nothing.

mod arena;
mod client;
mod identity;
mod kernel;
mod network;
mod plan;
mod planted;
mod resources;
mod secrets;
mod speaking;
mod table;
mod walls;

use anyhow::Result;

use arena::Arena;
use table::Tier;

/// A user without an account, as which nothing else on the machine runs.
pub(super) const ORDINARY_USER: u32 = 61_234;

async fn attempts(tier: Tier) -> Result<()> {
    let Some(mut arena) = Arena::open(tier).await? else { return Ok(()) };
    // The agent's own permission waits for an answer while it speaks for the user.
    arena.run("speaking", true, speaking::ATTEMPTS).await?;
    arena.walk_every_method().await?;
    arena.run("identity", false, identity::ATTEMPTS).await?;
    arena.run("secrets", false, secrets::ATTEMPTS).await?;
    arena.run("kernel", false, kernel::ATTEMPTS).await?;
    arena.run("walls", false, walls::ATTEMPTS).await?;
    arena.change_mode("autonomous").await?;
    arena.run("client", false, client::ATTEMPTS).await?;
    arena.change_mode("plan").await?;
    arena.run("plan", false, plan::ATTEMPTS).await?;
    arena.run("planted", false, planted::ATTEMPTS).await?;
    arena.work_as_user(planted::WORK).await?;
    if !tier.contained {
        arena.run("network", false, network::ATTEMPTS).await?;
    }
    arena.run("resources", false, resources::ATTEMPTS).await?;
    if tier.contained {
        for network in ["model", "none"] {
            arena.change_network(network).await?;
            arena.run(&format!("network-{network}"), false, network::ATTEMPTS).await?;
            arena.run(&format!("walls-{network}"), false, walls::ATTEMPTS).await?;
        }
    }
    arena.close().await
}

#[tokio::test]
async fn an_agent_of_root_stays_in_its_place() -> Result<()> {
    attempts(Tier { user: None, contained: false }).await
}

#[tokio::test]
async fn an_agent_of_an_ordinary_user_stays_in_its_place() -> Result<()> {
    attempts(Tier { user: Some(ORDINARY_USER), contained: false }).await
}

#[tokio::test]
async fn an_agent_of_root_in_the_sandbox_finds_no_way_out() -> Result<()> {
    attempts(Tier { user: None, contained: true }).await
}

#[tokio::test]
async fn an_agent_of_an_ordinary_user_in_the_sandbox_finds_no_way_out() -> Result<()> {
    attempts(Tier { user: Some(ORDINARY_USER), contained: true }).await
}
