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
