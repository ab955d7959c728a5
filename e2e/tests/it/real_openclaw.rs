//! A real OpenClaw gateway behind a session: started by the daemon, prompted, asked for permission, interrupted, lost and
//! found. Slow and large, so only `make test-all` runs it; what does not need the real program is always run.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result};
use e2e::acp::Editor;
use e2e::clients::{collect, mentions};
use e2e::tools;
use e2e::world::World;
use rustix::process::Signal;
use serde_json::{Value, json};
use wire::obey::local::v1 as pb;
use wire::obey::v1 as own;

use crate::stage::{Agent, Stage, contents, of_type};

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
    assert!(!stage.daemon.log().contains("a-secret-token"));
    stage.close().await
}

/// Puts OpenClaw into a world: its program, its configuration, and where its gateway will be.
fn install(world: &World, node: &std::path::Path, script: &std::path::Path) -> Result<()> {
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
        "gateway": {"mode": "local", "port": port, "bind": "loopback", "auth": {"mode": "token", "token": "test-token"}},
        "agents": {"defaults": {"workspace": world.project(), "model": {"primary": "test/scripted"}, "skipBootstrap": true}},
        "plugins": {"enabled": false}, "discovery": {"mdns": {"mode": "off"}}, "update": {"checkOnStart": false},
        "tools": {"exec": {"host": "gateway", "security": "allowlist", "ask": "always"}},
        "models": {"mode": "replace", "providers": {"test": provider}},
    });
    let state = world.path("openclaw");
    std::fs::create_dir(&state)?;
    std::fs::write(state.join("openclaw.json"), config.to_string())?;
    world.set_env("OPENCLAW_STATE_DIR", state.join("state"));
    world.set_env("OPENCLAW_CONFIG_PATH", state.join("openclaw.json"));
    world.set_env("OPENCLAW_GATEWAY_TOKEN", "test-token");
    world.set_env("OBEY_OPENCLAW_URL", format!("ws://127.0.0.1:{port}"));
    world.set_env("NODE_COMPILE_CACHE", std::env::temp_dir().join("obey-test-openclaw-cache"));
    for name in ["NO_RESPAWN", "SKIP_CHANNELS", "DISABLE_BONJOUR", "SKIP_CRON", "SKIP_CANVAS_HOST"] {
        world.set_env(&format!("OPENCLAW_{name}"), "1");
    }
    Ok(())
}

fn script(key: &str, steps: &Value) -> String {
    format!("{key} SCRIPT: {steps}")
}

#[tokio::test]
#[ignore = "large and slow: make test-all"]
async fn a_gateway_is_started_and_does_what_an_agent_does() -> Result<()> {
    let Some((node, program)) = tools::openclaw()? else { return Ok(()) };
    let stage = Stage::open_with(Agent::Scripted, |world| install(world, &node, &program)).await?;
    let stage = stage.context("the scripted agent is part of the daemon")?;
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
        let answer = own::AnswerPermissionRequest {
            session_id: id.clone(),
            request_id: request.id,
            decision: decision.into(),
            ..Default::default()
        };
        stage.clients.requests.clone().answer_permission(answer).await?;
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
    let gateways: Vec<_> =
        stage.world.processes().into_iter().filter(|process| process.command.contains("openclaw")).collect();
    assert!(!gateways.is_empty(), "no gateway runs");
    for gateway in gateways {
        e2e::processes::signal(gateway.pid, Signal::KILL);
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
    assert!(!stage.daemon.log().contains("test-token"));
    stage.close().await
}
