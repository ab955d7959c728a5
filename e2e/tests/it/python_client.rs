//! A second, independent client: Python with grpcio and stubs compiled from the published files. The scripts drive
//! every call of a service; this file only runs them and shows what they said.

use std::ffi::OsString;

use anyhow::{Context, Result, ensure};
use e2e::daemon::Daemon;
use e2e::deadline::within;
use e2e::tools;
use e2e::world::World;

#[tokio::test]
async fn python_drives_every_call_of_the_local_service() -> Result<()> {
    run("local_v1.py", |daemon, world| vec![daemon.socket().into(), world.project().into()]).await
}

#[tokio::test]
async fn an_unknown_symbol_does_not_end_a_reflection_stream() -> Result<()> {
    run("reflection.py", |daemon, _| {
        let address = format!("unix:{}", daemon.socket().display());
        vec![address.into(), "".into(), "obey.local.v1.LocalDaemonService".into()]
    })
    .await
}

#[tokio::test]
async fn a_client_of_the_published_interface_relies_on_modes_outside_agents_and_tables() -> Result<()> {
    let world = World::new()?;
    world.set_env("OBEY_SESSIONS_DEFAULT_MODE", "autonomous");
    let obey = world.obey()?;
    run_in(world, "seed_local.py", |daemon, world| {
        let database = world.path("data/obey/daemon.db");
        vec![daemon.socket().into(), world.project().into(), obey.into(), database.into()]
    })
    .await
}

/// Runs a script of `tests/python` against a daemon of its own. The script's last call is Shutdown.
pub(crate) async fn run(
    script: &str,
    arguments: impl FnOnce(&Daemon, &World) -> Vec<OsString>,
) -> Result<()> {
    run_in(World::new()?, script, arguments).await
}

/// The same in a world that is there.
pub(crate) async fn run_in(
    world: World,
    script: &str,
    arguments: impl FnOnce(&Daemon, &World) -> Vec<OsString>,
) -> Result<()> {
    let Some((python, stubs)) = tools::python()? else { return Ok(()) };
    let mut daemon = Daemon::start(&world).await?;
    let script = tools::repository().join("e2e/tests/python").join(script);
    let mut command = tokio::process::Command::from(world.command(python));
    command.arg(script).args(arguments(&daemon, &world)).env("PYTHONPATH", stubs).kill_on_drop(true);
    let output = within("the end of the script", command.output()).await?.context("running Python")?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    ensure!(
        output.status.success(),
        "{}\n{}\nthe daemon's log:\n{}",
        text(&output.stdout),
        text(&output.stderr),
        daemon.log()
    );
    daemon.wait().await?;
    daemon.assert_no_descendants().await
}
