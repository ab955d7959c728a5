//! What strangers meet first: metrics and schemas, the packages of clients, the examples, and what an installation puts
//! where. Everything is judged by programs that know nothing of obey: Prometheus' parser, a schema validator, pip, npm, dpkg.

mod clients;
mod earlier_release;
mod guide;
mod observe;
mod packaging;
mod telemetry;

use std::ffi::OsStr;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use e2e::deadline::within;
use e2e::world::World;

/// Runs a program in a world until it ends; it must succeed. Returns what it printed.
async fn run<S: AsRef<OsStr>>(
    world: &World,
    program: impl AsRef<OsStr>,
    args: &[S],
    folder: &Path,
) -> Result<String> {
    run_with(world, program, args, folder, &[]).await
}

/// The same with further variables.
async fn run_with<S: AsRef<OsStr>>(
    world: &World,
    program: impl AsRef<OsStr>,
    args: &[S],
    folder: &Path,
    variables: &[(&str, &OsStr)],
) -> Result<String> {
    let shown = program.as_ref().to_string_lossy().into_owned();
    let mut command = tokio::process::Command::from(world.command(program));
    command.args(args).current_dir(folder).envs(variables.iter().copied()).kill_on_drop(true);
    let output = within(&format!("the end of {shown}"), command.output()).await?.context(shown.clone())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    ensure!(
        output.status.success(),
        "{shown}: {}\n{}\n{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    Ok(text(&output.stdout))
}

/// Copies a folder of the repository, without what builds leave behind.
fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name();
        if ["build", "dist", "node_modules", "__pycache__", "target"].iter().any(|left| name == *left) {
            continue;
        }
        match entry.file_type()?.is_dir() {
            true => copy(&entry.path(), &to.join(name))?,
            false => std::fs::copy(entry.path(), to.join(name)).map(drop)?,
        }
    }
    Ok(())
}
