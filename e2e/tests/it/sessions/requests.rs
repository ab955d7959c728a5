//! Requests: what an agent asks of people, answered from wherever they are, once.

use anyhow::{Context, Result};
use e2e::clients::{collect, refused};
use serde_json::{Value, json};
use tonic::Code;
use wire::obey::local::v1::{ActivityType, SessionStatus};
use wire::obey::v1::{
    AnswerPermissionRequest, AnswerQuestionRequest, AnswerResponse, Decision, Request, RequestKind,
};

use crate::stage::{Agent, Stage, contents, of_type, scenarios, script, stage};
use crate::suite::{judge, unsupported};

scenarios!(
    an_approval_from_another_client_lets_the_turn_go_on,
    a_denial_with_a_message_reaches_the_agent,
    deny_and_stop_ends_the_turn,
    a_question_is_answered,
    only_the_first_answer_counts,
    an_approval_for_the_session_is_remembered,
    an_interrupt_withdraws_what_was_asked,
    an_autonomous_session_does_not_wait,
);

/// A turn that asks once and then says something.
fn asking(agent: Agent, key: &str, then: &str) -> String {
    script(agent, key, &json!([agent.asking("touch made"), {"text": then}]))
}

async fn decide(
    stage: &Stage,
    request: &Request,
    decision: Decision,
    message: &str,
) -> Result<AnswerResponse> {
    let answer = AnswerPermissionRequest {
        session_id: request.session_id.clone(),
        request_id: request.id.clone(),
        decision: decision.into(),
        message: message.into(),
        ..Default::default()
    };
    // A connection of its own: the one who answers is not the one who sent the prompt.
    let mut other = stage.daemon.clients().await?;
    Ok(other.requests.answer_permission(answer).await?.into_inner())
}

async fn an_approval_from_another_client_lets_the_turn_go_on(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = stage.create().await?;
    let turn = stage.send(&id, &asking(agent, "approve", "made it")).await?;
    let request = stage.wait_for_request(&id).await?;
    assert_eq!((request.kind(), request.tool_name.as_str()), (RequestKind::Permission, agent.shell()));
    assert_eq!(request.session_id, id);
    let input: Value = serde_json::from_str(&request.input_json)?;
    assert_eq!(input["command"], "touch made");
    assert_eq!(stage.info(&id).await?.status(), SessionStatus::Working);
    let answer = decide(&stage, &request, Decision::AllowOnce, "").await?;
    assert!(answer.settled_by_this_answer, "{answer:?}");
    let events = collect(turn).await?;
    let results = of_type(&events, ActivityType::ToolResult);
    assert!(results.len() == 1 && results[0].tool_success, "{events:#?}");
    assert_eq!(contents(&events, ActivityType::Completion), "made it");
    assert_eq!(stage.world.project().join("made").exists(), agent.is_real());
    assert!(stage.requests(&id, false).await?.is_empty());
    assert_eq!(stage.requests(&id, true).await?.len(), 1);
    judge(&stage, &id, "tool_allowed").await?;
    stage.close().await
}

async fn a_denial_with_a_message_reaches_the_agent(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = stage.create().await?;
    let turn = stage.send(&id, &asking(agent, "deny", "as you wish")).await?;
    let request = stage.wait_for_request(&id).await?;
    decide(&stage, &request, Decision::Deny, "not on a Sunday").await?;
    let events = collect(turn).await?;
    let results = of_type(&events, ActivityType::ToolResult);
    assert!(results.len() == 1 && !results[0].tool_success, "{events:#?}");
    assert!(results[0].content.contains("not on a Sunday"), "{:?}", results[0]);
    if agent.goes_on_when_denied() {
        assert_eq!(contents(&events, ActivityType::Completion), "as you wish");
    } else {
        let requests = stage.world.model().requests();
        assert!(requests.iter().any(|request| request.body.to_string().contains("not on a Sunday")));
    }
    assert!(!stage.world.project().join("made").exists());
    judge(&stage, &id, "tool_denied").await?;
    stage.close().await
}

async fn deny_and_stop_ends_the_turn(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = stage.create().await?;
    let turn = stage.send(&id, &asking(agent, "deny", "must not be said")).await?;
    let request = stage.wait_for_request(&id).await?;
    decide(&stage, &request, Decision::DenyAndStop, "enough").await?;
    let events = collect(turn).await?;
    assert!(!contents(&events, ActivityType::Completion).contains("must not be said"), "{events:#?}");
    stage.wait_for(&id, "turn_ended", |_| true).await?;
    let next = stage.turn(&id, &script(agent, "next", &json!([{"text": "still here"}]))).await?;
    assert_eq!(contents(&next, ActivityType::Completion), "still here");
    stage.close().await
}

async fn a_question_is_answered(agent: Agent) -> Result<()> {
    if !agent.asks_questions() {
        return unsupported(agent, "question");
    }
    let stage = stage!(agent);
    let id = stage.create().await?;
    let steps =
        json!([{"question": {"text": "Which color?", "options": ["Red", "Blue"]}}, {"text": "blue it is"}]);
    let turn = stage.send(&id, &script(agent, "quiz", &steps)).await?;
    let request = stage.wait_for_request(&id).await?;
    assert_eq!(request.kind(), RequestKind::Question);
    assert_eq!(request.questions.len(), 1, "{request:?}");
    assert_eq!(request.questions[0].text, "Which color?");
    let labels: Vec<&str> = request.questions[0].options.iter().map(|option| option.label.as_str()).collect();
    assert_eq!(labels, ["Red", "Blue"]);
    let answer = AnswerQuestionRequest {
        session_id: id.clone(),
        request_id: request.id,
        answers: [("Which color?".to_owned(), "Blue".to_owned())].into(),
        answered_by: "Ada".into(),
        ..Default::default()
    };
    let answered = stage.clients.requests.clone().answer_question(answer).await?.into_inner();
    assert!(answered.settled_by_this_answer);
    assert_eq!(answered.request.context("no request")?.settled_by, "Ada");
    let events = collect(turn).await?;
    // The scripted agent repeats the answer first.
    assert!(contents(&events, ActivityType::Completion).ends_with("blue it is"), "{events:#?}");
    if agent.is_real() {
        let second = &stage.world.model().requests_for("quiz")[1];
        assert!(second.body.to_string().contains("Blue"), "the model never heard the answer");
    }
    judge(&stage, &id, "question").await?;
    stage.close().await
}

async fn only_the_first_answer_counts(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = stage.create().await?;
    let turn = stage.send(&id, &asking(agent, "once", "done")).await?;
    let request = stage.wait_for_request(&id).await?;
    let first = decide(&stage, &request, Decision::AllowOnce, "").await?;
    let second = decide(&stage, &request, Decision::Deny, "too late").await?;
    assert!(first.settled_by_this_answer);
    assert!(!second.settled_by_this_answer, "{second:?}");
    let settled = second.request.context("no request")?;
    assert!(!settled.settled_by.is_empty() && settled.settled_at.is_some(), "{settled:?}");
    let events = collect(turn).await?;
    assert_eq!(contents(&events, ActivityType::Completion), "done");
    let unknown = AnswerPermissionRequest {
        session_id: id.clone(),
        request_id: "req_999".into(),
        decision: Decision::Deny.into(),
        ..Default::default()
    };
    let result = stage.clients.requests.clone().answer_permission(unknown).await;
    refused(result, Code::NotFound, "OBEY-2015")?;
    stage.close().await
}

async fn an_approval_for_the_session_is_remembered(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = stage.create().await?;
    let command = "touch again";
    let steps = json!([agent.asking(command), agent.asking(command), {"text": "twice"}]);
    let turn = stage.send(&id, &script(agent, "grant", &steps)).await?;
    let request = stage.wait_for_request(&id).await?;
    decide(&stage, &request, Decision::AllowSession, "").await?;
    // Nobody answers a second time: a turn that asked again would never end.
    let events = collect(turn).await?;
    assert_eq!(of_type(&events, ActivityType::ToolResult).len(), 2, "{events:#?}");
    assert_eq!(contents(&events, ActivityType::Completion), "twice");
    stage.close().await
}

async fn an_interrupt_withdraws_what_was_asked(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = stage.create().await?;
    let turn = stage.send(&id, &asking(agent, "withdraw", "must not be said")).await?;
    let request = stage.wait_for_request(&id).await?;
    assert!(stage.cancel(&id).await?);
    let events = collect(turn).await?;
    assert!(!contents(&events, ActivityType::Completion).contains("must not be said"), "{events:#?}");
    assert!(stage.requests(&id, false).await?.is_empty());
    let late = decide(&stage, &request, Decision::AllowOnce, "").await?;
    assert!(!late.settled_by_this_answer, "{late:?}");
    assert_eq!(stage.info(&id).await?.status(), SessionStatus::Running);
    stage.close().await
}

async fn an_autonomous_session_does_not_wait(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut request = stage.new_session();
    request.provider_config.insert("permission_mode".into(), "autonomous".into());
    let id = stage.create_as(request).await?.id;
    let events = stage.turn(&id, &asking(agent, "free", "made it")).await?;
    assert!(of_type(&events, ActivityType::ToolResult).iter().all(|result| result.tool_success));
    assert_eq!(contents(&events, ActivityType::Completion), "made it");
    assert!(stage.requests(&id, false).await?.is_empty());
    assert_eq!(stage.world.project().join("made").exists(), agent.is_real());
    stage.close().await
}
