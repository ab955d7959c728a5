//! A second, independent client: Python with grpcio and stubs compiled from the published files. The script drives
//! every call of the service; this file only runs it and shows what it said.

use anyhow::{Context, Result, ensure};
use e2e::deadline::within;
use e2e::tools;
use e2e::world::World;

#[tokio::test]
async fn python_drives_every_call_of_the_local_service() -> Result<()> {
    let Some((python, stubs)) = tools::python()? else { return Ok(()) };
    let world = World::new()?;
    let mut daemon = e2e::daemon::Daemon::start(&world).await?;
    let script = tools::repository().join("e2e/tests/python/local_v1.py");
    let mut command = tokio::process::Command::from(world.command(python));
    command.arg(script).arg(daemon.socket()).arg(world.project()).env("PYTHONPATH", stubs).kill_on_drop(true);
    let output = within("the end of the script", command.output()).await?.context("running Python")?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    println!("{}", text(&output.stdout));
    ensure!(
        output.status.success(),
        "{}\n{}\nthe daemon's log:\n{}",
        text(&output.stdout),
        text(&output.stderr),
        daemon.log()
    );
    // The script's last call was Shutdown.
    daemon.wait().await?;
    daemon.assert_no_descendants().await
}
