//! Where the daemon listens: flags add addresses, and a default port that somebody else has stops nobody.

use anyhow::{Result, ensure};
use e2e::cli::Cli;
use e2e::daemon::Daemon;
use e2e::http;
use e2e::world::World;

const DEFAULT_PORT: u16 = 50_051;

#[tokio::test]
async fn a_taken_default_port_is_stepped_over_and_doctor_says_so() -> Result<()> {
    // Ours, or somebody else's already.
    let _taken = std::net::TcpListener::bind(("127.0.0.1", DEFAULT_PORT));
    let world = World::new()?;
    world.remove_env("OBEY_LISTEN");
    let mut daemon = Daemon::start(&world).await?;
    let [asked, found] = daemon.listen()[..] else { anyhow::bail!("{:?}", daemon.listen()) };
    ensure!(found.port() > DEFAULT_PORT && found.port() < DEFAULT_PORT + 64, "{found}");
    for address in [asked, found] {
        let health = http::send(address, "GET", "/health", None).await?;
        ensure!(health.status == 200, "{address}: {health:?}");
    }
    ensure!(daemon.log().contains("the next free one is used"), "{}", daemon.log());
    let doctor = Cli::new(&world).json(&["doctor"]).await?;
    let text = doctor.to_string();
    let note = format!("this daemon listens on {found}");
    ensure!(text.contains(&note), "{text}");
    let status = Cli::new(&world).ok(&["status"]).await?;
    ensure!(
        status.stdout.contains(&format!("{asked}, {found}")) && status.stderr.contains(&note),
        "{status:?}"
    );
    let status = Cli::new(&world).json(&["status"]).await?;
    ensure!(status["listen"] == serde_json::json!([asked, found]), "{status}");
    daemon.terminate().await?;
    Ok(())
}

#[tokio::test]
async fn a_taken_port_that_was_asked_for_is_an_error() -> Result<()> {
    let taken = std::net::TcpListener::bind("127.0.0.1:0")?;
    let address = taken.local_addr()?.to_string();
    let world = World::new()?;
    let refused = Cli::new(&world).run(&["serve", "--listen", &address]).await?;
    ensure!(refused.stderr.contains("OBEY-1013") && refused.stderr.contains(&address), "{refused:?}");
    let listed = Daemon::start_with(&world, &["--listen", "none"]).await?.listen().len();
    ensure!(listed == 1, "none leaves only what was given as a flag: {listed}");
    Ok(())
}

/// Two readers of one text could take different members of the same name.
#[tokio::test]
async fn a_message_of_mcp_that_names_a_member_twice_is_refused() -> Result<()> {
    let world = World::new()?;
    let mut daemon = Daemon::start(&world).await?;
    let address = daemon.listen()[0];
    for body in [
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"path":"a","path":"b"}}}"#,
    ] {
        let answer = http::send(address, "POST", "/mcp", Some(body)).await?;
        ensure!(answer.status == 400 && answer.body.contains("names a member twice"), "{answer:?}");
    }
    daemon.terminate().await?;
    Ok(())
}
