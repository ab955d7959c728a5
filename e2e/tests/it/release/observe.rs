//! `/metrics`, `obey schema` and `obey doctor --bundle`, on one daemon with one session that has done something.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use e2e::cli::Cli;
use e2e::clients::wait_event;
use e2e::daemon::Daemon;
use e2e::http;
use e2e::tools;
use e2e::world::World;
use wire::obey::v1::{PromptRequest, ReadEventsRequest};

/// What looks like a token of GitHub to every scanner.
const SECRET: &str = "ghp_0123456789abcdefghijABCDEFGHIJ456789";

/// Says a secret, asks twice, and waits for the second answer.
const PROMPT: &str = r#"SCRIPT: [{"text":"the token is ghp_0123456789abcdefghijABCDEFGHIJ456789\n"},
    {"tool":"Bash","input":{"command":"ls"},"ask":true,"result":"README.md"},
    {"tool":"Bash","input":{"command":"pwd"},"ask":true,"result":"/"}]"#;

#[tokio::test]
async fn metrics_schemas_and_bundle_say_what_happened_and_no_secret() -> Result<()> {
    let Some((python, _)) = tools::python()? else { return Ok(()) };
    let Some(validators) = tools::mcp_clients()? else { return Ok(()) };
    let world = World::new()?;
    let config = world.path("config/obey");
    fs::create_dir_all(&config)?;
    fs::write(
        config.join("config.toml"),
        "log_level = \"info\"\n[openclaw]\ntoken = \"open-sesame-of-a-gateway\"\n[limits]\n",
    )?;
    let data = world.path("data/obey");
    fs::DirBuilder::new().mode(0o700).create(&data)?;
    fs::write(data.join("daemon.log"), format!("told {SECRET} by mistake\n"))?;
    let daemon = Daemon::start(&world).await?;
    let cli = Cli::new(&world);
    let id = act(&daemon, &cli).await?;

    let folder = world.path("tmp/printed");
    fs::create_dir(&folder)?;
    let answer = http::send(daemon.listen()[0], "GET", "/metrics", None).await?;
    ensure!(answer.status == 200, "{answer:?}");
    fs::write(folder.join("metrics.txt"), &answer.body)?;
    let script = |name: &str| tools::repository().join("e2e/tests/python").join(name);
    let args = [script("observe.py"), folder.join("metrics.txt")];
    super::run(&world, &python, &args, &folder).await?;

    let page = http::send(daemon.listen()[0], "GET", "/docs/guide/terminal", None).await?;
    ensure!(page.status == 200 && page.body.contains("href=\"/docs/guide\""), "{page:?}");
    let missing = http::send(daemon.listen()[0], "GET", "/docs/nothing", None).await?;
    ensure!(missing.status == 404, "{missing:?}");

    print_everything(&cli, &folder, &id).await?;
    fs::copy(config.join("config.toml"), folder.join("config.toml"))?;
    let args = [script("schemas.py"), folder.clone()];
    super::run(&world, validators.join("python/bin/python"), &args, &folder).await?;

    bundle_has_no_secret(&world, &cli).await
}

/// One turn with a permission that is allowed and one that waits, and a prompt that waits.
async fn act(daemon: &Daemon, cli: &Cli) -> Result<String> {
    cli.ok(&["campaign", "add", ".", "--name", "shop"]).await?;
    let made =
        ["session", "create", "--campaign", "shop", "--provider", "scripted", "--max-tokens", "1000000"];
    let id = cli.ok(&made).await?.session_id()?;
    let mut clients = daemon.clients().await?;
    let prompt =
        PromptRequest { session_id: id.clone(), text: PROMPT.to_owned(), ..PromptRequest::default() };
    clients.turns.prompt(prompt).await?;
    let request = ReadEventsRequest { session_id: id.clone(), follow: true, ..ReadEventsRequest::default() };
    let mut events = clients.events.read_events(request).await?.into_inner();
    wait_event(&mut events, "the first request", |event| event.r#type == "request_opened").await?;
    cli.ok(&["session", "approve", &id]).await?;
    wait_event(&mut events, "the second request", |event| event.r#type == "request_opened").await?;
    cli.ok(&["queue", "add", &id, "Then do it again"]).await?;
    Ok(id)
}

/// Writes every schema, and beside it what the command prints that it describes.
async fn print_everything(cli: &Cli, folder: &Path, id: &str) -> Result<()> {
    let names = cli.json(&["schema"]).await?;
    let names = names["schemas"].as_array().context("no schemas")?.clone();
    for schema in names {
        let name = schema["name"].as_str().context("a schema without a name")?;
        fs::write(folder.join(format!("{name}.schema.json")), cli.ok(&["schema", name]).await?.stdout)?;
        let command: &[&str] = match name {
            "config" => continue,
            "campaign-list" => &["campaigns"],
            "doctor" => &["doctor"],
            "error" => &["session", "info", "sess_none"],
            "event" => &["session", "log", id],
            "ping" => &["ping"],
            "ps" => &["ps"],
            "request-list" => &["session", "requests", "--all"],
            "session-info" => &["session", "info", id],
            "session-list" => &["session", "list"],
            "version" => &["version"],
            other => anyhow::bail!("say in this test which command prints {other}"),
        };
        let args: Vec<&str> = command.iter().copied().chain(["--json"]).collect();
        let output = cli.run(&args).await?;
        let printed = if name == "error" { output.stderr } else { output.stdout };
        let kind = if ["event", "ps"].contains(&name) { "jsonl" } else { "json" };
        fs::write(folder.join(format!("{name}.{kind}")), printed)?;
    }
    let refused = cli.run(&["schema", "sesion-list"]).await?;
    ensure!(refused.code == Some(2) && refused.stderr.contains("session-list"), "{refused:?}");
    Ok(())
}

async fn bundle_has_no_secret(world: &World, cli: &Cli) -> Result<()> {
    let file = world.path("tmp/bundle.tar");
    let said = cli.run(&["doctor", "--bundle", &file.to_string_lossy()]).await?;
    let bundle = fs::read(&file).with_context(|| format!("{said:?}"))?;
    let text = String::from_utf8_lossy(&bundle);
    for part in ["findings.json", "version.json", "config.toml", "daemon.log", "metrics.txt"] {
        ensure!(text.contains(&format!("obey-doctor/{part}")), "no {part}");
    }
    ensure!(text.contains("obey_sessions{state=\"needs_you\"} 1"), "the daemon's metrics are missing");
    ensure!(text.contains("told ") && text.contains("by mistake"), "the log is missing");
    let home = world.path("home").display().to_string();
    for secret in [SECRET, "open-sesame-of-a-gateway", home.as_str()] {
        ensure!(!text.contains(secret), "{secret} is in the bundle");
    }
    let listed = super::run(world, "tar", &["-tf", &file.to_string_lossy()], world.root()).await?;
    ensure!(listed.lines().count() == 5, "{listed}");
    Ok(())
}
