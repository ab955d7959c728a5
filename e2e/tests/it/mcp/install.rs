//! `obey mcp install`: the real clients find obey where it was put, use it, and everything else of their files stays.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use e2e::cli::Cli;
use e2e::daemon::Daemon;
use e2e::deadline::within;
use e2e::tools;
use e2e::world::World;
use serde_json::{Value, json};

async fn run(world: &World, program: &Path, args: &[&str]) -> Result<String> {
    let mut command = tokio::process::Command::from(world.command(program));
    command.args(args).kill_on_drop(true).stdin(std::process::Stdio::null());
    let output = within("the client", command.output()).await?.context("running the client")?;
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    ensure!(output.status.success(), "{}: {}\n{}", output.status, text[0], text[1]);
    Ok(text.concat())
}

/// A client's own words, in a home that has never seen it.
async fn found_and_used(
    world: World,
    program: PathBuf,
    client: &str,
    list: &[&str],
    turn: &[&str],
) -> Result<()> {
    let mut daemon = Daemon::start(&world).await?;
    let cli = Cli::new(&world);
    let socket = daemon.socket().display().to_string();
    let install = ["mcp", "install", "--client", client, "--socket", &socket];
    let first = cli.ok(&install).await?.stdout;
    let path = PathBuf::from(cli.json(&install).await?["path"].as_str().context("no path")?);
    let listed = run(&world, &program, list).await?;
    ensure!(listed.contains("obey"), "{first}\n{listed}");
    let said = run(&world, &program, turn).await?;
    ensure!(said.contains("all done"), "{said}\n{}", daemon.log());
    let rows = cli.ok(&["audit", "tail", "--json"]).await?.json_lines()?;
    let bash = rows.iter().find(|row| row["operation"] == "SafeExec.Bash");
    let bash = bash.with_context(|| format!("no call: {rows:#?}\n{said}"))?;
    ensure!(bash["caller"] == "user" && bash["input"]["cmd"] == "echo from my own client", "{bash}");
    let requests = world.model().requests();
    let sent: String = requests.iter().map(|request| request.body.to_string()).collect();
    ensure!(sent.contains("from my own client\\\\n"), "the model was not told what came of it");
    // A second time nothing is written; gone again, it is not listed.
    let again = cli.json(&install).await?;
    ensure!(again["changed"] == false, "{again}");
    ensure!(path.starts_with(world.root()), "{}", path.display());
    cli.ok(&[&install[..], &["--uninstall"]].concat()).await?;
    let listed = run(&world, &program, list).await?;
    ensure!(!listed.contains("obey"), "{listed}");
    daemon.terminate().await?;
    daemon.assert_no_descendants().await
}

#[tokio::test]
async fn real_claude_finds_and_uses_what_install_wrote() -> Result<()> {
    let (Some(world), Some(program)) = (World::with_claude()?, tools::claude()?) else { return Ok(()) };
    let script = json!([
        {"tool": "mcp__obey__safe_bash", "input": {"cmd": "echo from my own client"}}, {"text": "all done"},
    ]);
    let prompt = format!("go SCRIPT: {script}");
    let turn = ["-p", &prompt, "--allowedTools", "mcp__obey__safe_bash", "--model", "sonnet"];
    found_and_used(world, program, "claude", &["mcp", "list"], &turn).await
}

#[tokio::test]
async fn real_codex_finds_and_uses_what_install_wrote() -> Result<()> {
    let (Some(world), Some(program)) = (World::with_codex()?, tools::codex()?) else { return Ok(()) };
    let script = json!([
        {"tool": "mcp__obey__safe_bash", "input": {"cmd": "echo from my own client"}}, {"text": "all done"},
    ]);
    let prompt = format!("go SCRIPT: {script}");
    let turn = ["exec", "--dangerously-bypass-approvals-and-sandbox", "--skip-git-repo-check", &prompt];
    found_and_used(world, program, "codex", &["mcp", "list"], &turn).await
}

/// Every client, both scopes: what stands around the entry keeps its bytes.
#[tokio::test]
async fn install_keeps_everything_else_of_every_clients_file() -> Result<()> {
    let world = World::new()?;
    let cli = Cli::new(&world);
    let jsonc = |name: &str| {
        format!("// mine\n{{\n\t\"{name}\": {{\n\t\t\"lab\": 1 /* keep */\n\t}},\n\t\"b\" : [1,  2],\n}}\n")
    };
    let plain = |name: &str| format!("{{\"a\":1.50, \"{name}\":{{\"lab\":{{}}}} , \"é\": \"\\u00e9\"}}");
    let toml = "# mine\nmodel = 'x'   # odd\n\n[mcp_servers.lab]\ncommand=\"lab\"\n";
    let cases = [
        ("claude", "user", plain("mcpServers")),
        ("claude", "project", plain("mcpServers")),
        ("claude-desktop", "user", plain("mcpServers")),
        ("codex", "user", toml.to_owned()),
        ("codex", "project", toml.to_owned()),
        ("cursor", "user", jsonc("mcpServers")),
        ("cursor", "project", jsonc("mcpServers")),
        ("gemini", "user", plain("mcpServers")),
        ("gemini", "project", jsonc("mcpServers")),
        ("opencode", "user", jsonc("mcp")),
        ("opencode", "project", jsonc("mcp")),
        ("vscode", "user", jsonc("servers")),
        ("vscode", "project", jsonc("servers")),
        ("windsurf", "user", plain("mcpServers")),
        ("zed", "user", jsonc("context_servers")),
        ("zed", "project", jsonc("context_servers")),
    ];
    for (client, scope, before) in cases {
        let install = ["mcp", "install", "--client", client, "--scope", scope];
        // Into nothing, and out again.
        let made = cli.json(&install).await?;
        let path = PathBuf::from(made["path"].as_str().context("no path")?);
        ensure!(path.starts_with(world.root()) && made["changed"] == true, "{client} {scope}: {made}");
        let printed = cli.json(&[&install[..], &["--print"]].concat()).await?;
        ensure!(printed["text"] == std::fs::read_to_string(&path)?, "{client}: {printed}");
        // Into what was there, twice, and out again.
        std::fs::write(&path, &before)?;
        cli.ok(&install).await?;
        let after = std::fs::read_to_string(&path)?;
        ensure!(
            after != before && after.contains("obey") && after.contains("lab"),
            "{client} {scope}: {after}"
        );
        ensure!(cli.json(&install).await?["changed"] == false, "{client} {scope}: {after}");
        ensure!(std::fs::read_to_string(&path)? == after);
        cli.ok(&[&install[..], &["--uninstall"]].concat()).await?;
        let gone = std::fs::read_to_string(&path)?;
        ensure!(gone.trim_end() == before.trim_end(), "{client} {scope}: {before:?} {after:?} {gone:?}");
        ensure!(cli.json(&[&install[..], &["--uninstall"]].concat()).await?["changed"] == false);
        // Broken files are named and stay.
        std::fs::write(&path, "{ \"a\": \n")?;
        let failed = cli.run(&install).await?;
        ensure!(failed.code != Some(0) && failed.stderr.contains("line "), "{client}: {failed:?}");
        ensure!(failed.stderr.contains("nothing was changed"), "{client}: {failed:?}");
        ensure!(std::fs::read_to_string(&path)? == "{ \"a\": \n");
    }
    let failed = cli.run(&["mcp", "install", "--client", "windsurf", "--scope", "project"]).await?;
    ensure!(failed.code == Some(2) && failed.stderr.contains("no configuration of projects"), "{failed:?}");
    Ok(())
}

/// What is written for the user names this very program; what is written for a project names it for everybody.
#[tokio::test]
async fn install_names_the_program_for_the_user_and_for_others() -> Result<()> {
    let world = World::new()?;
    let cli = Cli::new(&world);
    let entry = async |flags: &[&str]| -> Result<Value> {
        let install = ["mcp", "install", "--client", "claude", "--print"];
        let printed = cli.json(&[&install[..], flags].concat()).await?;
        let text: Value = serde_json::from_str(printed["text"].as_str().context("no text")?)?;
        Ok(text["mcpServers"]["obey"].clone())
    };
    let own = entry(&[]).await?;
    ensure!(own["command"].as_str().is_some_and(|path| Path::new(path).is_absolute()), "{own}");
    let shared = entry(&["--scope", "project"]).await?;
    ensure!(shared == json!({"type": "stdio", "command": "obey", "args": ["mcp"]}), "{shared}");
    let chosen = entry(&["--socket", "/run/x.sock"]).await?;
    ensure!(chosen["args"] == json!(["mcp", "--socket", "/run/x.sock"]), "{chosen}");
    Ok(())
}
