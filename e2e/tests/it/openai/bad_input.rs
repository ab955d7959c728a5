//! Keys, addresses, models and settings that are wrong: each is named, the daemon is unharmed, nothing is left.

use anyhow::Result;
use e2e::clients::mentions;
use serde_json::json;
use wire::obey::local::v1 as pb;

use super::{refusal, session};
use crate::stage::{Agent, Stage, contents, script, stage};

/// The daemon still serves.
async fn unharmed(stage: Stage) -> Result<()> {
    let id = stage.create().await?;
    let turn = stage.turn(&id, &script(stage.agent, "fine", &json!([{"text": "fine"}]))).await?;
    assert_eq!(contents(&turn, pb::ActivityType::Completion), "fine");
    stage.close().await
}

#[tokio::test]
async fn a_key_of_provider_config_that_is_wrong_is_named() -> Result<()> {
    let stage = stage!(Agent::Openai);
    for (key, value) in [
        ("wire_api", "grpc"),
        ("base_url", "not an address"),
        ("api_key_env", "ABSENT"),
        ("max_retries", "-1"),
        ("mcp_servers", "[]"),
        ("bse_url", "x"),
    ] {
        let status = refusal(&stage, session(&stage, &[(key, value)])).await?;
        let named = format!("provider_config.{key}");
        assert!(mentions(&status, "OBEY-1001") && mentions(&status, &named), "{key}: {status:?}");
    }
    unharmed(stage).await
}

#[tokio::test]
async fn a_model_the_endpoint_does_not_list_is_refused_with_near_names() -> Result<()> {
    let stage = stage!(Agent::Openai);
    let with_model = |model: &str| pb::CreateSessionRequest { model: model.into(), ..session(&stage, &[]) };
    let status = refusal(&stage, with_model("gpt-55")).await?;
    assert!(mentions(&status, "OBEY-2003") && mentions(&status, "did you mean gpt-5.5?"), "{status:?}");
    let status = refusal(&stage, with_model("a b")).await?;
    assert!(mentions(&status, "OBEY-2003"), "{status:?}");
    assert_eq!(stage.create_as(with_model("")).await?.model, "gpt-5.5");
    unharmed(stage).await
}

#[tokio::test]
async fn an_endpoint_that_is_down_is_named() -> Result<()> {
    let stage = stage!(Agent::Openai);
    let gone = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let url = format!("http://{gone}/v1");
    let status = refusal(&stage, session(&stage, &[("base_url", &url)])).await?;
    assert!(mentions(&status, "OBEY-2030") && mentions(&status, &url), "{status:?}");
    assert!(mentions(&status, "cannot be reached"), "{status:?}");
    unharmed(stage).await
}

#[tokio::test]
async fn a_connection_without_tls_says_so() -> Result<()> {
    let stage = stage!(Agent::Openai);
    // The model server speaks plain HTTP.
    let url = stage.world.model().openai_base_url().replace("http://", "https://");
    let status = refusal(&stage, session(&stage, &[("base_url", &url)])).await?;
    assert!(mentions(&status, "OBEY-2030") && mentions(&status, "no TLS connection"), "{status:?}");
    unharmed(stage).await
}

#[tokio::test]
async fn without_a_key_the_variable_is_named() -> Result<()> {
    let opened = Stage::open_with(Agent::Openai, |world| {
        world.remove_env("OPENAI_API_KEY");
        world.remove_env("OPENAI_BASE_URL");
        Ok(())
    });
    let Some(stage) = opened.await? else { return Ok(()) };
    let status = refusal(&stage, session(&stage, &[])).await?;
    assert!(mentions(&status, "OBEY-2030") && mentions(&status, "OPENAI_API_KEY is not set"), "{status:?}");
    // An endpoint of one's own needs none.
    let url = stage.world.model().openai_base_url();
    let id = stage.create_as(session(&stage, &[("base_url", &url)])).await?.id;
    let turn = stage.turn(&id, &script(Agent::Openai, "free", &json!([{"text": "free"}]))).await?;
    assert_eq!(contents(&turn, pb::ActivityType::Completion), "free");
    assert_eq!(stage.world.model().requests_for("free")[0].header("authorization"), None);
    stage.close().await
}

#[tokio::test]
async fn a_wrong_key_fails_the_turn_with_a_remedy_and_is_never_shown() -> Result<()> {
    let stage = stage!(Agent::Openai);
    let mut request = session(&stage, &[("api_key_env", "MY_KEY")]);
    request.environment.insert("MY_KEY".into(), "sk-very-secret".into());
    let id = stage.create_as(request).await?.id;
    let steps = json!([{"status": 401, "message": "Incorrect API key provided."}]);
    drop(stage.send(&id, &script(Agent::Openai, "key", &steps)).await?);
    let ended = stage.wait_for(&id, "turn_ended", |_| true).await?;
    let error = ended["error"].as_str().unwrap_or_default();
    assert!(error.contains("Incorrect API key") && error.contains("MY_KEY"), "{error}");
    let sent = &stage.world.model().requests_for("key")[0];
    assert_eq!(sent.header("authorization"), Some("Bearer sk-very-secret"));
    let journal = stage.journal(&id).await?;
    assert!(journal.iter().all(|event| !event.json.contains("sk-very-secret")));
    assert!(!stage.daemon.log().contains("sk-very-secret"));
    unharmed(stage).await
}

/// A web server with a certificate that nobody vouches for. Answers nothing; nobody should get that far.
fn self_signed() -> Result<std::net::SocketAddr> {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let certificate = include_bytes!("tls/cert.der").to_vec().into();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(include_bytes!("tls/key.der").to_vec());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key.into())?;
    let config = std::sync::Arc::new(config);
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            if let Ok(mut connection) = rustls::ServerConnection::new(std::sync::Arc::clone(&config)) {
                // The other side ends it.
                let _ = connection.complete_io(&mut stream);
            }
        }
    });
    Ok(address)
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_refused_by_name() -> Result<()> {
    let stage = stage!(Agent::Openai);
    let url = format!("https://{}/v1", self_signed()?);
    let status = refusal(&stage, session(&stage, &[("base_url", &url)])).await?;
    assert!(mentions(&status, "OBEY-2030") && mentions(&status, "no TLS connection"), "{status:?}");
    assert!(mentions(&status, &url) && mentions(&status, "certificate"), "{status:?}");
    unharmed(stage).await
}

/// An endpoint whose every answer is this.
pub(super) fn always(head: &'static str, body: &'static str) -> Result<String> {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}/v1", listener.local_addr()?);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let length = body.len();
            let _ = write!(
                stream,
                "HTTP/1.1 {head}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
            );
        }
    });
    Ok(url)
}

#[tokio::test]
async fn a_wrong_key_is_named_when_the_session_is_created() -> Result<()> {
    let stage = stage!(Agent::Openai);
    let url = always("401 Unauthorized", r#"{"error":{"message":"Incorrect API key provided"}}"#)?;
    let mut request = session(&stage, &[("api_key_env", "MY_KEY"), ("base_url", &url)]);
    request.environment.insert("MY_KEY".into(), "sk-very-secret".into());
    let status = refusal(&stage, request).await?;
    assert!(mentions(&status, "OBEY-2030") && mentions(&status, "Incorrect API key"), "{status:?}");
    assert!(mentions(&status, "check the key in MY_KEY"), "{status:?}");
    assert!(!format!("{status:?}{}", stage.daemon.log()).contains("sk-very-secret"));
    unharmed(stage).await
}

#[tokio::test]
async fn an_endpoint_without_a_list_of_models_is_believed() -> Result<()> {
    let stage = stage!(Agent::Openai);
    for (head, body) in [
        ("404 Not Found", "Cannot GET /v1/models"),
        ("405 Method Not Allowed", r#"{"error":{"message":"no models here","code":"model_not_found"}}"#),
        ("501 Not Implemented", "models: not implemented"),
    ] {
        let url = always(head, body)?;
        let request =
            pb::CreateSessionRequest { model: "mine".into(), ..session(&stage, &[("base_url", &url)]) };
        assert_eq!(stage.create_as(request).await?.model, "mine", "{head}");
    }
    unharmed(stage).await
}

#[tokio::test]
async fn an_endpoint_that_is_something_else_is_found_out() -> Result<()> {
    let stage = stage!(Agent::Openai);
    let url = always("200 OK", "<html>welcome to the shop</html>")?;
    let request = session(&stage, &[("base_url", &url), ("max_retries", "0")]);
    let id = stage.create_as(request).await?.id;
    drop(stage.send(&id, "hello").await?);
    let ended = stage.wait_for(&id, "turn_ended", |_| true).await?;
    assert_eq!(ended["reason"], "failed", "{ended}");
    assert!(!ended["error"].as_str().unwrap_or_default().is_empty(), "{ended}");
    let url = always("500 Internal Server Error", "oops")?;
    let status = refusal(&stage, session(&stage, &[("base_url", &url)])).await?;
    assert!(mentions(&status, "OBEY-2030") && mentions(&status, "500"), "{status:?}");
    unharmed(stage).await
}

#[tokio::test]
async fn reserved_variables_are_refused_by_name() -> Result<()> {
    let stage = stage!(Agent::Openai);
    for name in ["OBEY_DAEMON_SOCKET", "LD_PRELOAD", "NODE_OPTIONS", "PATH", "HOME", "CODEX_HOME", "GIT_DIR"]
    {
        let mut request = session(&stage, &[]);
        request.environment.insert(name.into(), "x".into());
        let status = refusal(&stage, request).await?;
        assert!(mentions(&status, "OBEY-1001") && mentions(&status, name), "{status:?}");
    }
    unharmed(stage).await
}
