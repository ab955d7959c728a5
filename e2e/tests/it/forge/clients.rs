//! The server of these tests, read by the published client of the real one: it must take it for real.

use anyhow::{Result, ensure};
use e2e::forge_server::{ForgeServer, TOKEN};
use e2e::tools;

#[tokio::test]
async fn python_gitlab_reads_the_server_of_these_tests() -> Result<()> {
    let Some(python) = tools::forge_client()? else { return Ok(()) };
    let other = ForgeServer::start("", "")?;
    let server = ForgeServer::start("/git", &other.url())?;
    let script = tools::repository().join("e2e/tests/forge/read_gitlab.py");
    let run =
        tokio::process::Command::new(python).arg(script).args([server.url(), TOKEN.to_owned()]).output();
    let done = e2e::deadline::within("python-gitlab", run).await??;
    ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Ok(())
}

#[tokio::test]
#[ignore = "large: make test-all"]
async fn gitbeaker_and_octokit_read_the_server_of_these_tests() -> Result<()> {
    let Some((node, packages)) = tools::forge_js_clients() else { return Ok(()) };
    let other = ForgeServer::start("", "")?;
    let server = ForgeServer::start("/git", &other.url())?;
    let script = tools::repository().join("e2e/tests/forge/read_forges.mjs");
    let run = tokio::process::Command::new(node)
        .arg(script)
        .arg(packages)
        .args([server.url(), TOKEN.to_owned()])
        .output();
    let done = e2e::deadline::within("gitbeaker and Octokit", run).await??;
    ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Ok(())
}
