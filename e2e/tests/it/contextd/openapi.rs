//! The OpenAPI document is true: schemathesis makes requests of every kind from it, right ones and wrong ones, and holds
//! every answer against it.

use anyhow::{Context, Result, ensure};
use e2e::deadline::{deadline, within_time};
use e2e::tools;

use super::bench::Bench;

#[tokio::test]
async fn published_schemathesis_finds_no_answer_that_the_document_does_not_have() -> Result<()> {
    let Some(clients) = tools::mcp_clients()? else { return Ok(()) };
    let bench = Bench::start().await?;
    let address = bench.address()?;
    let config = tools::repository().join("e2e/tests/mcp/schemathesis.toml");
    let mut command =
        tokio::process::Command::from(bench.world.command(clients.join("python/bin/schemathesis")));
    command
        .arg("--config-file")
        .arg(config)
        .args(["run", &format!("http://{address}/openapi.json")])
        // Commands of its making run for seconds at most.
        .args(["--seed", "1", "--workers", "1", "--suppress-health-check", "all", "--warnings", "off"])
        .args(["--request-timeout", "60", "--no-color"])
        .current_dir(bench.world.path("tmp"))
        .kill_on_drop(true);
    let output = within_time("the end of schemathesis", deadline() * 10, command.output()).await?;
    let output = output.context("running schemathesis")?;
    let text: String = String::from_utf8_lossy(&output.stdout).into_owned();
    let end: Vec<&str> =
        text.lines().filter(|line| line.contains("generated") || line.contains("Tested:")).collect();
    println!("{}", end.join("; "));
    ensure!(output.status.success(), "{text}\n{}", bench.daemon.log());
    bench.end().await
}
