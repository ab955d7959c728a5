//! A real OpenClaw gateway behind a session: started by the daemon, prompted, asked for permission, interrupted, lost and
//! found. Slow and large, so only `make test-all` runs it; what does not need the real program is always run.

mod losses;
mod servers;

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::acp::Editor;
use e2e::clients::{collect, mentions};
use e2e::daemon::Daemon;
use e2e::world::World;
use e2e::{deadline, tools};
use rustix::process::Signal;
use serde_json::{Value, json};
use wire::obey::local::v1 as pb;
use wire::obey::v1 as own;

use crate::stage::{Agent, Stage, contents, of_type};

/// The gateway's token; no log may have it.
const TOKEN: &str = "test-token-of-the-gateway";

fn session(stage: &Stage) -> pb::CreateSessionRequest {
    pb::CreateSessionRequest {
        provider: pb::SessionProvider::Openclaw.into(),
        model: String::new(),
        ..stage.new_session()
    }
}

#[tokio::test]
async fn without_openclaw_the_creation_says_what_to_install_or_set() -> Result<()> {
    let stage = Stage::open(Agent::Scripted).await?.context("the scripted agent is part of the daemon")?;
    let mut create = stage.clients.local.clone();
    let status = create.create_session(session(&stage)).await.err().context("created")?;
    assert!(mentions(&status, "OBEY-2004") && mentions(&status, "npm install -g openclaw"), "{status:?}");
    let mut named = session(&stage);
    named.provider_config.insert("gateway_url".into(), "ws://127.0.0.1:9".into());
    let status = create.create_session(named.clone()).await.err().context("created")?;
    assert!(mentions(&status, "OBEY-2030") && mentions(&status, "OPENCLAW_GATEWAY_TOKEN"), "{status:?}");
    named.environment.insert("OPENCLAW_GATEWAY_TOKEN".into(), "a-secret-token".into());
    let status = create.create_session(named.clone()).await.err().context("created")?;
    assert!(mentions(&status, "OBEY-2030") && mentions(&status, "ws://127.0.0.1:9"), "{status:?}");
    named.provider_config.insert("gateway_url".into(), "http://x".into());
    let status = create.create_session(named).await.err().context("created")?;
    assert!(mentions(&status, "OBEY-1001") && mentions(&status, "provider_config.gateway_url"), "{status:?}");
    assert_not_told(&stage, "a-secret-token").await?;
    stage.close().await
}

#[tokio::test]
async fn a_token_of_the_configuration_is_used_and_told_to_nobody() -> Result<()> {
    let heard = TcpListener::bind("127.0.0.1:0")?;
    let port = heard.local_addr()?.port();
    let stage = Stage::open_with(Agent::Scripted, |world| {
        let folder = world.path("config/obey");
        std::fs::create_dir_all(&folder)?;
        let config =
            format!("[openclaw]\nurl = \"ws://127.0.0.1:{port}\"\ntoken = \"a-secret-of-the-config\"\n");
        std::fs::write(folder.join("config.toml"), config)?;
        world.set_env("OBEY_LOG", "trace");
        Ok(std::fs::set_permissions(folder.join("config.toml"), std::fs::Permissions::from_mode(0o600))?)
    });
    let stage = stage.await?.context("the scripted agent is part of the daemon")?;
    // Whoever listens there is no gateway: it hangs up.
    std::thread::spawn(move || heard.incoming().for_each(drop));
    let status =
        stage.clients.local.clone().create_session(session(&stage)).await.err().context("created")?;
    assert!(mentions(&status, "OBEY-2030") && mentions(&status, &port.to_string()), "{status:?}");
    assert_not_told(&stage, "a-secret-of-the-config").await?;
    stage.close().await
}

#[tokio::test]
async fn a_gateway_that_says_nothing_or_something_else_is_given_up() -> Result<()> {
    use std::io::{Read, Write};
    let stage = Stage::open(Agent::Scripted).await?.context("the scripted agent is part of the daemon")?;
    for words in ["", "HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\ngarbage"] {
        let heard = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("ws://{}", heard.local_addr()?);
        std::thread::spawn(move || {
            let mut kept = Vec::new();
            for connection in heard.incoming() {
                let Ok(mut connection) = connection else { return };
                let mut request = [0; 1024];
                // Whoever asks is answered, or left waiting with the connection open.
                let _ = connection.read(&mut request).and_then(|_| connection.write_all(words.as_bytes()));
                if words.is_empty() {
                    kept.push(connection);
                }
            }
        });
        let mut request = session(&stage);
        request.provider_config.insert("gateway_url".into(), url.clone());
        request.environment.insert("OPENCLAW_GATEWAY_TOKEN".into(), "a-secret-token".into());
        let status = stage.clients.local.clone().create_session(request).await.err().context("created")?;
        assert!(mentions(&status, "OBEY-2030") && mentions(&status, &url), "{status:?}");
    }
    assert_not_told(&stage, "a-secret-token").await?;
    stage.close().await
}

/// No log, no journal and nothing the daemon says of its sessions has the secret.
async fn assert_not_told(stage: &Stage, secret: &str) -> Result<()> {
    assert!(!stage.daemon.log().contains(secret), "the daemon logged it:\n{}", stage.daemon.log());
    let all = pb::ListSessionsRequest { include_terminated: true, ..Default::default() };
    for known in stage.clients.local.clone().list_sessions(all).await?.into_inner().sessions {
        let journal = stage.journal(&known.id).await?;
        assert!(!format!("{known:?}{journal:?}").contains(secret), "{known:?} {journal:#?}");
    }
    for file in logs(stage.world.root())? {
        let text = String::from_utf8_lossy(&std::fs::read(&file)?).into_owned();
        assert!(!text.contains(secret), "{} has it", file.display());
    }
    Ok(())
}

/// Every log below a folder.
fn logs(folder: &std::path::Path) -> Result<Vec<std::path::PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        match path.extension() {
            _ if path.is_dir() => found.extend(logs(&path)?),
            Some(kind) if kind == "log" || kind == "spool" => found.push(path),
            _ => {}
        }
    }
    Ok(found)
}

/// Puts OpenClaw into a world: its program, its configuration, and where its gateway will be.
fn install(world: &World, node: &std::path::Path, script: &std::path::Path) -> Result<u16> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let folder = world.path("programs");
    std::fs::create_dir(&folder)?;
    let program = folder.join("openclaw");
    let line = format!("#!/bin/sh\nexec {} {} \"$@\"\n", node.display(), script.display());
    std::fs::write(&program, line)?;
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
    world.prepend_path(&folder)?;
    let model = json!({
        "id": "scripted", "name": "Scripted", "reasoning": false, "input": ["text"], "contextWindow": 120_000,
        "maxTokens": 8192, "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
    });
    let provider = json!({
        "baseUrl": world.model().openai_base_url(), "apiKey": "dummy", "api": "openai-completions", "models": [model],
    });
    let config = json!({
        "gateway": {"mode": "local", "port": port, "bind": "loopback", "auth": {"mode": "token", "token": TOKEN}},
        "agents": {"defaults": {"workspace": world.project(), "model": {"primary": "test/scripted"}, "skipBootstrap": true}},
        "plugins": {"enabled": false}, "discovery": {"mdns": {"mode": "off"}}, "update": {"checkOnStart": false},
        "tools": {"exec": {"host": "gateway", "security": "allowlist", "ask": "always"}},
        "models": {"mode": "replace", "providers": {"test": provider}},
        "mcp": {"servers": {"theirs": {"command": "true", "args": ["of the user"], "enabled": false}}},
    });
    let state = world.path("openclaw");
    std::fs::create_dir(&state)?;
    std::fs::write(state.join("openclaw.json"), config.to_string())?;
    world.set_env("OPENCLAW_STATE_DIR", state.join("state"));
    world.set_env("OPENCLAW_CONFIG_PATH", state.join("openclaw.json"));
    world.set_env("OPENCLAW_GATEWAY_TOKEN", TOKEN);
    world.set_env("OBEY_OPENCLAW_URL", format!("ws://127.0.0.1:{port}"));
    world.set_env("NODE_COMPILE_CACHE", std::env::temp_dir().join("obey-test-openclaw-cache"));
    for name in ["NO_RESPAWN", "SKIP_CHANNELS", "DISABLE_BONJOUR", "SKIP_CRON", "SKIP_CANVAS_HOST"] {
        world.set_env(&format!("OPENCLAW_{name}"), "1");
    }
    Ok(port)
}

/// A gateway that the test started, as a person would: it serves every scenario, and none of the daemons owns it.
struct Gateway {
    child: Mutex<Option<Child>>,
    world: World,
    port: u16,
}

/// How long its start may take on a busy machine, and how often it is looked at meanwhile.
const START_MAX: Duration = Duration::from_secs(240);
const START_LOOK: Duration = Duration::from_millis(200);

static GATEWAY: OnceLock<Option<Gateway>> = OnceLock::new();

impl Gateway {
    fn start() -> Result<Option<Gateway>> {
        let Some((node, program)) = tools::openclaw() else { return Ok(None) };
        let world = World::new()?;
        let port = install(&world, &node, &program)?;
        let gateway = Gateway { child: Mutex::default(), world, port };
        gateway.begin()?;
        Ok(Some(gateway))
    }

    /// Starts its process, as a person would by hand.
    fn begin(&self) -> Result<()> {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(self.world.path("gateway.log"));
        let log = file?;
        let mut command = self.world.command(self.world.path("programs/openclaw"));
        command.args(["gateway", "run", "--port", &self.port.to_string()]).stdin(Stdio::null());
        let child = command.stdout(log.try_clone()?).stderr(log).spawn()?;
        *self.child.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
        Ok(())
    }

    /// Ends all of its processes; the error is that somebody else has.
    fn end(&self) -> Result<()> {
        let child = self.child.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut child = child.context("it does not run")?;
        ensure!(child.try_wait()?.is_none(), "somebody ended the gateway:\n{}", self.log());
        for process in self.world.processes() {
            e2e::processes::signal(process.pid, Signal::KILL);
        }
        child.wait()?;
        Ok(())
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.world.path("gateway.log")).unwrap_or_default()
    }

    /// Waits until it takes connections; its first start takes most of a minute.
    async fn wait(&self) -> Result<()> {
        let ready = async {
            loop {
                // The older HTTP has no chunks.
                let request = "GET /readyz HTTP/1.0\r\nhost: 127.0.0.1\r\n\r\n".to_owned();
                let answer = e2e::http::exchange(([127, 0, 0, 1], self.port).into(), request).await;
                if answer.is_ok_and(|answer| answer.body.contains("\"ready\":true")) {
                    return;
                }
                tokio::time::sleep(START_LOOK).await;
            }
        };
        deadline::within_time("the gateway's start", START_MAX, ready).await.with_context(|| self.log())
    }
}

/// A world in which that gateway is the one to join.
pub(crate) fn world() -> Result<Option<World>> {
    let Some(Some(gateway)) = GATEWAY.get() else { return Ok(None) };
    gateway.world.model().forget();
    let world = World::sharing_model(&gateway.world)?;
    world.set_env("OPENCLAW_GATEWAY_TOKEN", TOKEN);
    world.set_env("OBEY_OPENCLAW_URL", format!("ws://127.0.0.1:{}", gateway.port));
    Ok(Some(world))
}

#[tokio::test]
#[ignore = "large and slow: make test-all"]
async fn a_gateway_of_somebody_else_goes_through_the_suite() -> Result<()> {
    let Some(gateway) = GATEWAY.get_or_init(|| Gateway::start().unwrap_or_default()) else { return Ok(()) };
    gateway.wait().await?;
    let only = std::env::var("OBEY_OPENCLAW_ONLY").unwrap_or_default();
    let mut wrong = Vec::new();
    let tools =
        [crate::mcp::agents::ALL, crate::roz::client_tools::AT_A_GATEWAY, servers::ALL, losses::ALL].concat();
    let all = crate::sessions::all().into_iter().chain(tools);
    for (name, play) in all.filter(|(name, _)| name.contains(&only)) {
        // A scenario that fails by an assertion panics; the others are played all the same.
        match tokio::spawn(play(Agent::Openclaw)).await {
            Ok(Ok(())) => println!("PASS {name}"),
            Ok(Err(error)) => wrong.push(format!("{name}: {error:#}")),
            Err(panic) => wrong.push(format!("{name}: {panic}")),
        }
    }
    if only.is_empty() {
        a_turn_over_tls(gateway).await?;
        lost_and_found(gateway).await?;
    }
    let log = gateway.log();
    println!("the gateway's log: {} lines\n{}", log.lines().count(), summary(&log));
    // Whoever started it ends it; nobody else did.
    gateway.end()?;
    assert!(!log.contains(TOKEN), "the gateway logged its token");
    assert!(wrong.is_empty(), "{} scenarios fail:\n{}", wrong.len(), wrong.join("\n\n"));
    Ok(())
}

/// A front with TLS before a port of this machine, as a world's process. Returns its port.
fn tls_front(world: &World, port: u16) -> Result<u16> {
    use std::io::{BufRead, BufReader};
    let (certificate, key) = (world.path("certificate.pem"), world.path("key.pem"));
    let made = world
        .command("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout".as_ref(), key.as_os_str(), "-out".as_ref(), certificate.as_os_str()])
        .output()?;
    ensure!(made.status.success(), "openssl: {}", String::from_utf8_lossy(&made.stderr));
    let script = tools::repository().join("e2e/tests/python/tls_front.py");
    let mut command = world.command("python3");
    command.arg(script).arg(certificate).arg(key).arg(port.to_string());
    // It ends with its world.
    let mut front = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    BufReader::new(front.stdout.take().context("no output")?).read_line(&mut line)?;
    line.trim().parse().with_context(|| format!("no port: {line:?}"))
}

/// The same gateway behind TLS: `wss://`, with a certificate that the daemon's environment trusts.
async fn a_turn_over_tls(gateway: &Gateway) -> Result<()> {
    let mut port = 0;
    let stage = Stage::open_with(Agent::Openclaw, |world| {
        // It is the gateway's, and ends with it.
        port = tls_front(&gateway.world, gateway.port)?;
        world.set_env("SSL_CERT_FILE", gateway.world.path("certificate.pem"));
        Ok(())
    });
    let stage = stage.await?.context("no gateway")?;
    let mut request = stage.new_session();
    request.provider_config.insert("gateway_url".into(), format!("wss://localhost:{port}"));
    let id = stage.create_as(request).await?.id;
    let turn = stage.turn(&id, &script("tls", &json!([{"text": "nobody listened"}]))).await?;
    assert!(contents(&turn, pb::ActivityType::Completion).contains("nobody listened"), "{turn:#?}");
    stage.close().await
}

/// A gateway of somebody else that goes away and comes back: OBEY-2032 meanwhile, and the same conversation afterwards.
async fn lost_and_found(gateway: &Gateway) -> Result<()> {
    let stage = Stage::open(Agent::Openclaw).await?.context("no gateway")?;
    let id = stage.create().await?;
    stage.turn(&id, &script("before", &json!([{"text": "remember me"}]))).await?;
    gateway.end()?;
    let says = |word: &'static str| {
        move |event: &Value| event["message"].as_str().is_some_and(|text| text.contains(word))
    };
    stage.wait_for(&id, "notice", says("OBEY-2032")).await?;
    let refused = stage.turn(&id, "anybody there?").await;
    assert!(format!("{refused:?}").contains("OBEY-2032"), "{refused:?}");
    gateway.begin()?;
    gateway.wait().await?;
    stage.wait_for(&id, "notice", says("is back")).await?;
    let turn = stage.turn(&id, &script("after", &json!([{"text": "still here"}]))).await?;
    assert!(contents(&turn, pb::ActivityType::Completion).contains("still here"), "{turn:#?}");
    let sent = stage.world.model().requests_for("after");
    assert!(sent.iter().any(|request| request.body.to_string().contains("remember me")), "it forgot");
    assert_not_told(&stage, TOKEN).await?;
    stage.close().await
}

/// What a gateway's log says, each kind of line once with how often.
fn summary(log: &str) -> String {
    let mut kinds = std::collections::BTreeMap::<String, usize>::new();
    for line in log.lines() {
        let plain: String = line.split_whitespace().skip(1).take(8).collect::<Vec<_>>().join(" ");
        let kind: String = plain.chars().filter(|letter| !letter.is_ascii_digit()).take(90).collect();
        *kinds.entry(kind).or_default() += 1;
    }
    kinds.into_iter().map(|(kind, count)| format!("{count:5} {kind}\n")).collect()
}

fn script(key: &str, steps: &Value) -> String {
    format!("{key} SCRIPT: {steps}")
}

#[tokio::test]
#[ignore = "large and slow: make test-all"]
async fn a_gateway_is_started_and_does_what_an_agent_does() -> Result<()> {
    let Some((node, program)) = tools::openclaw() else { return Ok(()) };
    let stage = Stage::open_with(Agent::Scripted, |world| install(world, &node, &program).map(drop)).await?;
    let mut stage = stage.context("the scripted agent is part of the daemon")?;
    let id = stage.create_as(session(&stage)).await?.id;
    let turn = stage.turn(&id, &script("one", &json!([{"text": "hello from the gateway"}]))).await?;
    assert!(contents(&turn, pb::ActivityType::Completion).contains("hello from the gateway"), "{turn:#?}");

    for (key, decision, made) in
        [("allow", own::Decision::AllowOnce, true), ("deny", own::Decision::Deny, false)]
    {
        let command = format!("touch {key}.txt");
        let steps = json!([{"tool": "exec", "input": {"command": command}}, {"text": "done"}]);
        let turn = stage.send(&id, &script(key, &steps)).await?;
        stage.wait_for(&id, "request_opened", |event| event.to_string().contains(&command)).await?;
        let request = stage.requests(&id, false).await?.pop().context("nothing waits")?;
        assert_eq!(request.tool_name, "Bash");
        stage.decide(&id, &request.id, decision).await?;
        let events = collect(turn).await?;
        let results = of_type(&events, pb::ActivityType::ToolResult);
        assert_eq!(results.first().map(|result| result.tool_success), Some(made), "{events:#?}");
        assert_eq!(stage.world.project().join(format!("{key}.txt")).exists(), made);
    }

    let turn = stage.send(&id, &script("stuck", &json!([[{"text": "half a "}, {"hang": true}]]))).await?;
    stage.world.model().wait_for_request(|request| request.key.contains("stuck")).await?;
    assert!(stage.cancel(&id).await?);
    collect(turn).await?;

    // An editor's session goes to the same gateway.
    let mut editor = Editor::start(&stage.world, &["--provider", "openclaw"]).await?;
    editor.initialize().await?;
    let edited = editor.open(&stage.world.project()).await?;
    let text = script("edited", &json!([{"text": "words for an editor"}]));
    assert_eq!(editor.turn(&edited, &text).await?, "end_turn");
    assert!(editor.said(&edited).contains("words for an editor"), "{:#?}", editor.seen);
    editor.close().await?;

    // The gateway dies: it is said, and it is started again.
    let gateway = gateways(&stage.world);
    assert!(!gateway.is_empty(), "no gateway runs");
    for process in gateway {
        e2e::processes::signal(process, Signal::KILL);
    }
    stage
        .wait_for(&id, "notice", |event| {
            event["message"].as_str().is_some_and(|text| text.contains("OBEY-2032"))
        })
        .await?;
    stage
        .wait_for(&id, "notice", |event| {
            event["message"].as_str().is_some_and(|text| text.contains("is back"))
        })
        .await?;
    let turn = stage.turn(&id, &script("again", &json!([{"text": "still here"}]))).await?;
    assert!(contents(&turn, pb::ActivityType::Completion).contains("still here"), "{turn:#?}");

    // The daemon dies and the gateway does not: the next daemon joins it, and ends it as its own.
    let gateway = gateways(&stage.world);
    stage.daemon.kill9().await?;
    stage.daemon = Daemon::start(&stage.world).await?;
    stage.clients = stage.daemon.clients().await?;
    let turn = stage.turn(&id, &script("joined", &json!([{"text": "and here"}]))).await?;
    assert!(contents(&turn, pb::ActivityType::Completion).contains("and here"), "{turn:#?}");
    assert_eq!(gateways(&stage.world), gateway, "another gateway was started");
    assert_not_told(&stage, TOKEN).await?;
    stage.close().await
}

/// The processes of the world's gateways.
fn gateways(world: &World) -> Vec<i32> {
    let all = world.processes().into_iter();
    all.filter(|process| process.command.contains("openclaw")).map(|process| process.pid).collect()
}
