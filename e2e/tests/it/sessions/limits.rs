//! Limits people set: token budgets and timeouts.

use anyhow::{Context, Result};
use e2e::clients::{collect_all, mentions, refused};
use serde_json::json;
use tonic::{Code, Response};
use wire::obey::local::v1::SessionStatus;

use crate::stage::{Agent, scenarios, script, stage};
use crate::suite::judge;

scenarios!(a_used_up_budget_refuses_the_next_prompt, a_timeout_fails_the_session);

async fn a_used_up_budget_refuses_the_next_prompt(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut request = stage.new_session();
    request.max_tokens = 1000;
    let session = stage.create_as(request).await?;
    assert_eq!(session.max_tokens, 1000);
    let id = session.id;
    let spend = |key: &str, input: u64| {
        script(
            agent,
            key,
            &json!([[{"text": "ok"}, {"usage": {"input_tokens": input, "output_tokens": 10}}]]),
        )
    };
    stage.turn(&id, &spend("one", 500)).await?;
    // The turn that crosses the line may end either way; what it used is counted.
    collect_all(stage.send(&id, &spend("two", 600)).await?).await?;
    let info = stage.info(&id).await?;
    // The interrupt may come before the last word of the reply is counted.
    if agent.counts_tokens() {
        assert_eq!(info.tokens_input, 1100, "{info:?}");
        assert!((11..=20).contains(&info.tokens_output), "{info:?}");
    }
    let third = stage.send(&id, &spend("three", 1)).await;
    let status = refused(third.map(Response::new), Code::ResourceExhausted, "OBEY-2013")?;
    assert!(mentions(&status, "1000"), "the budget is named: {status:?}");
    assert!(stage.world.model().requests_for("three").is_empty(), "a refused prompt costs nothing");
    stage.close().await
}

async fn a_timeout_fails_the_session(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut request = stage.new_session();
    // Long enough for a real agent to start on a busy machine; the session then only waits for it.
    let seconds = if agent.is_real() && agent.program().is_some() { 20 } else { 2 };
    request.timeout = Some(prost_types::Duration { seconds, nanos: 0 });
    let id = stage.create_as(request).await?.id;
    let turn = stage.send(&id, &script(agent, "stuck", &json!([[{"text": "half"}, {"hang": true}]]))).await?;
    let (events, end) = collect_all(turn).await?;
    let end = end.with_context(|| format!("the stream ended as if all was well: {events:#?}"))?;
    assert_eq!(end.code(), Code::DeadlineExceeded, "{end:?}");
    assert!(mentions(&end, "OBEY-2014"), "{end:?}");
    let failed = stage.wait_for_status(&id, "FAILED").await?;
    assert_eq!(failed["code"], "OBEY-2014", "{failed}");
    assert_eq!(stage.info(&id).await?.status(), SessionStatus::Failed);
    let late = stage.send(&id, "hello").await;
    refused(late.map(Response::new), Code::DeadlineExceeded, "OBEY-2014")?;
    judge(&stage, &id, "hang").await?;
    stage.close().await
}
