//! Secrets stay where they are: an endpoint or a server of tools that fails, and names them in its words, does not bring
//! them into the journal, the session's state or the daemon's log.

use std::io::{Read as _, Write as _};

use anyhow::Result;
use e2e::clients::mentions;
use serde_json::json;
use wire::obey::local::v1 as pb;

use super::bad_input::always;
use super::{refusal, session};
use crate::stage::{Agent, Stage, scenarios_of, stage};

scenarios_of!(openai, Openai, a_key_that_the_endpoint_repeats_is_not_told);
scenarios_of!(openai_chat, OpenaiChat, a_key_that_the_endpoint_repeats_is_not_told);

const KEY: &str = "sk-a-very-secret-key";
const MCP_KEY: &str = "mcp secret/of?mine";

/// Nothing of a session names the secret: what happened, what is told of it, what the daemon wrote.
async fn assert_untold(stage: &Stage, id: &str, secret: &str) -> Result<()> {
    for event in stage.journal(id).await? {
        assert!(!event.json.contains(secret), "{event:?}");
    }
    let told = format!("{:?}", stage.info(id).await?);
    assert!(!told.contains(secret), "{told}");
    let log = stage.daemon.log();
    assert!(!log.contains(secret), "{log}");
    Ok(())
}

/// An endpoint with one model, whose answers to the rest are these, one after the other, the last for ever.
fn endpoint(answers: Vec<(&'static str, String)>) -> Result<String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}/v1", listener.local_addr()?);
    std::thread::spawn(move || {
        let mut asked = 0;
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 16 * 1024];
            let length = stream.read(&mut head).unwrap_or(0);
            let (head, body) = if head[..length].starts_with(b"GET") {
                ("200 OK", r#"{"data":[{"id":"mine"}]}"#.to_owned())
            } else {
                asked += 1;
                answers[(asked - 1).min(answers.len() - 1)].clone()
            };
            // The other side is told before it has said all.
            let length = body.len();
            let _ = write!(
                stream,
                "HTTP/1.1 {head}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
            );
            let _ = stream.flush();
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }
    });
    Ok(url)
}

fn with_key(stage: &Stage, url: &str) -> pb::CreateSessionRequest {
    let config = [("api_key_env", "MY_KEY"), ("base_url", url), ("max_retries", "1")];
    let mut request = pb::CreateSessionRequest { model: String::new(), ..session(stage, &config) };
    request.environment.insert("MY_KEY".into(), KEY.into());
    request
}

async fn a_key_that_the_endpoint_repeats_is_not_told(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let said = format!("Invalid key {KEY}");
    let padded = format!("{}{said}", "x".repeat(1_980));
    let url = endpoint(vec![
        ("503 Service Unavailable", json!({"error": {"message": said}}).to_string()),
        ("200 OK", format!("data: {}\n\n", json!({"type": "error", "error": {"message": padded}}))),
        ("401 Unauthorized", json!({"error": {"message": padded}}).to_string()),
    ])?;
    let id = stage.create_as(with_key(&stage, &url)).await?.id;
    for (turn, what) in [("turn_1", "xxx"), ("turn_2", "MY_KEY")] {
        drop(stage.send(&id, "hello").await?);
        let ended = stage.wait_for(&id, "turn_ended", |event| event["turn"] == turn).await?;
        let error = ended["error"].as_str().unwrap_or_default();
        assert!(ended["reason"] == "failed" && error.contains(what), "{ended}");
    }
    let told = |event: &serde_json::Value| {
        event["message"].as_str().is_some_and(|text| text.contains("Invalid key *** (HTTP 503)"))
    };
    stage.wait_for(&id, "notice", told).await?;
    // No part of it either, where a long text is cut.
    assert_untold(&stage, &id, "sk-a-very").await?;
    // Nor where the session is refused.
    let url = always("403 Forbidden", r#"{"error":{"message":"no sk-a-very-secret-key"}}"#)?;
    let status = refusal(&stage, with_key(&stage, &url)).await?;
    assert!(mentions(&status, "no ***") && !mentions(&status, KEY), "{status:?}");
    assert!(!stage.daemon.log().contains(KEY));
    stage.close().await
}

#[tokio::test]
async fn an_address_with_a_password_is_refused_without_showing_it() -> Result<()> {
    let stage = stage!(Agent::Openai);
    let url = "http://me:hunter2two@127.0.0.1:1/v1";
    let status = refusal(&stage, session(&stage, &[("base_url", url)])).await?;
    assert!(mentions(&status, "OBEY-1001") && mentions(&status, "provider_config.base_url"), "{status:?}");
    assert!(mentions(&status, "api_key_env") && !mentions(&status, "hunter2two"), "{status:?}");
    let mut request = session(&stage, &[]);
    request.environment.insert("OPENAI_BASE_URL".into(), url.into());
    let status = refusal(&stage, request).await?;
    assert!(mentions(&status, "OBEY-2030") && mentions(&status, "OPENAI_BASE_URL"), "{status:?}");
    assert!(!mentions(&status, "hunter2two"), "{status:?}");
    assert!(!stage.daemon.log().contains("hunter2two"));
    stage.close().await
}

#[tokio::test]
async fn a_servers_key_is_not_told_when_the_server_fails() -> Result<()> {
    let stage = stage!(Agent::Openai);
    let echo = "import os, sys; sys.exit('no entry with ' + os.environ['TOKEN'] + ' nor ' + sys.argv[1])";
    let servers = json!({
        "query": {"url": "http://127.0.0.1:1/mcp?key=${MCP_KEY}"},
        "path": {"url": "http://127.0.0.1:1/${MCP_KEY}/mcp"},
        "broken": {"url": "http://127.0.0.1:${MCP_KEY}/mcp"},
        "program": {"command": "python3", "args": ["-c", echo, "${MCP_KEY}"], "env": {"TOKEN": "${MCP_KEY}"}},
    });
    let mut request = session(&stage, &[("mcp_servers", &servers.to_string())]);
    request.environment.insert("MCP_KEY".into(), MCP_KEY.into());
    let id = stage.create_as(request).await?.id;
    let listed = stage.wait_for(&id, "servers_changed", |_| true).await?;
    for server in listed["servers"].as_array().into_iter().flatten() {
        assert_eq!(server["status"], "failed", "{listed}");
    }
    assert!(listed.to_string().contains("no entry with *** nor ***"), "{listed}");
    // As it is, and as addresses write it.
    for secret in ["secret/of", "secret%2Fof", "mcp%20secret", "mcp secret", "of?mine", "of%3Fmine"] {
        assert_untold(&stage, &id, secret).await?;
    }
    stage.close().await
}
