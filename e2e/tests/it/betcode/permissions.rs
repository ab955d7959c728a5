//! Permissions and questions within a conversation.

use std::collections::HashMap;

use anyhow::{Context, Result, bail};
use serde_json::json;
use wire::betcode::v1 as pb;
use wire::betcode::v1::PermissionDecision as Decision;
use wire::betcode::v1::agent_event::Event as Body;
use wire::betcode::v1::agent_request::Request as Said;

use super::talk::{Talk, again, asked_model, new_start, results, stop_reason, text};
use crate::stage::{Agent, process_scenarios, script, stage};

process_scenarios!(
    a_permission_is_allowed_once,
    a_permission_for_the_session_is_remembered,
    a_denial_tells_the_agent_why,
    a_denial_can_end_the_turn,
    a_call_can_be_changed_before_it_is_allowed,
    a_question_is_answered_by_its_text,
    allowed_tools_are_not_asked_about_and_nothing_hides_behind_them,
    a_waiting_permission_is_offered_again_to_whoever_comes_back,
);
// Not what must outlive the daemon: this agent is a part of it.
crate::stage::scenarios_of!(
    openai,
    Openai,
    a_permission_is_allowed_once,
    a_permission_for_the_session_is_remembered,
    a_denial_tells_the_agent_why,
    a_denial_can_end_the_turn,
    a_call_can_be_changed_before_it_is_allowed,
    a_question_is_answered_by_its_text,
    allowed_tools_are_not_asked_about_and_nothing_hides_behind_them
);

/// The command a permission is about.
fn command(request: &pb::PermissionRequest) -> String {
    let field = request.input.as_ref().and_then(|input| input.fields.get("command"));
    match field.and_then(|field| field.kind.as_ref()) {
        Some(prost_types::value::Kind::StringValue(text)) => text.clone(),
        other => format!("{other:?}"),
    }
}

async fn a_permission_is_allowed_once(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut talk = Talk::new(&stage).await?;
    talk.prompt(&script(agent, "ask", &json!([agent.asking("touch made"), {"text": "made it"}]))).await?;
    let request = talk.permission().await?;
    assert_eq!((request.tool_name.as_str(), command(&request).as_str()), (agent.shell(), "touch made"));
    assert!(!request.description.is_empty(), "{request:?}");
    talk.decide(&request.request_id, Decision::AllowOnce).await?;
    let turn = talk.turn().await?;
    assert!(results(&turn).iter().all(|result| !result.is_error), "{turn:#?}");
    assert_eq!(text(&turn), "made it");
    // Said again it changes nothing, and is no mistake; another answer comes too late.
    talk.decide(&request.request_id, Decision::AllowOnce).await?;
    talk.decide(&request.request_id, Decision::Deny).await?;
    let late = talk.error().await?;
    assert_eq!((late.code.as_str(), late.is_fatal), ("OBEY-2011", false), "{late:?}");
    assert!(late.message.contains("allowed once"), "{late:?}");
    let settled = stage.wait_for(talk.session(), "request_settled", |_| true).await?;
    assert!(settled["by"].as_str().is_some_and(|by| by.starts_with("client-")), "{settled}");
    stage.close().await
}

async fn a_permission_for_the_session_is_remembered(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut talk = Talk::new(&stage).await?;
    let steps = json!([agent.asking("touch made"), agent.asking("touch made"), {"text": "twice"}]);
    talk.prompt(&script(agent, "ask", &steps)).await?;
    let request = talk.permission().await?;
    talk.decide(&request.request_id, Decision::AllowSession).await?;
    let turn = talk.turn().await?;
    assert_eq!(text(&turn), "twice");
    let asked = turn.iter().any(|event| matches!(event.event, Some(Body::PermissionRequest(_))));
    assert!(!asked, "a grant answers without bothering anybody: {turn:#?}");
    let mut agents = super::talk::agents(&stage.clients);
    let list = pb::ListSessionGrantsRequest { session_id: talk.session().into() };
    let grants = agents.list_session_grants(list.clone()).await?.into_inner().grants;
    let granted: Vec<(&str, bool)> =
        grants.iter().map(|grant| (grant.tool_name.as_str(), grant.granted)).collect();
    assert_eq!(granted, [(format!("{}(touch made)", agent.shell()).as_str(), true)]);
    let clear = pb::ClearSessionGrantsRequest { session_id: talk.session().into(), ..Default::default() };
    agents.clear_session_grants(clear).await?;
    assert!(agents.list_session_grants(list).await?.into_inner().grants.is_empty());
    talk.prompt(&script(agent, "more", &json!([agent.asking("touch made"), {"text": "thrice"}]))).await?;
    let request = talk.permission().await?;
    talk.decide(&request.request_id, Decision::AllowOnce).await?;
    assert_eq!(text(&talk.turn().await?), "thrice");
    stage.close().await
}

async fn a_denial_tells_the_agent_why(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut talk = Talk::new(&stage).await?;
    talk.prompt(&script(agent, "ask", &json!([agent.asking("touch made"), {"text": "as you wish"}]))).await?;
    let request = talk.permission().await?;
    let response = pb::PermissionResponse {
        request_id: request.request_id,
        decision: Decision::DenyNoInterrupt.into(),
        message: "not on a Sunday".into(),
        ..Default::default()
    };
    talk.say(Said::Permission(response)).await?;
    let turn = talk.turn().await?;
    let results = results(&turn);
    assert!(results[0].is_error && results[0].output.contains("not on a Sunday"), "{results:?}");
    assert_eq!((text(&turn).as_str(), stop_reason(&turn).as_str()), ("as you wish", "end_turn"));
    assert!(!stage.world.project().join("made").exists());
    stage.close().await
}

async fn a_denial_can_end_the_turn(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut talk = Talk::new(&stage).await?;
    talk.prompt(&script(agent, "ask", &json!([agent.asking("touch made"), {"text": "must not be said"}])))
        .await?;
    let request = talk.permission().await?;
    talk.decide(&request.request_id, Decision::DenyWithInterrupt).await?;
    let turn = talk.turn().await?;
    assert_eq!(stop_reason(&turn), "cancelled", "{turn:#?}");
    assert!(!text(&turn).contains("must not be said"));
    stage.close().await
}

async fn a_call_can_be_changed_before_it_is_allowed(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut talk = Talk::new(&stage).await?;
    talk.prompt(&script(agent, "ask", &json!([agent.asking("touch wrong"), {"text": "made it"}]))).await?;
    let request = talk.permission().await?;
    let mut response = pb::PermissionResponse {
        request_id: request.request_id,
        decision: Decision::AllowWithEdit.into(),
        ..Default::default()
    };
    // Without a change there is nothing to allow.
    talk.say(Said::Permission(response.clone())).await?;
    let refused = talk.error().await?;
    assert!(refused.message.starts_with("permission.updated_input: "), "{refused:?}");
    let kind =
        |text: &str| prost_types::Value { kind: Some(prost_types::value::Kind::StringValue(text.into())) };
    let fields = [("command".to_owned(), kind("touch right"))].into();
    response.updated_input = Some(prost_types::Struct { fields });
    talk.say(Said::Permission(response)).await?;
    assert_eq!(text(&talk.turn().await?), "made it");
    if agent == Agent::Claude {
        assert!(stage.world.project().join("right").exists());
    }
    assert!(!stage.world.project().join("wrong").exists());
    stage.close().await
}

async fn a_question_is_answered_by_its_text(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut talk = Talk::new(&stage).await?;
    let question = json!({"question": {"text": "Which colour?", "options": ["red", "blue"]}});
    talk.prompt(&script(agent, "choose", &json!([question, {"text": " thanks"}]))).await?;
    let event = talk.until("a question", |body| matches!(body, Body::UserQuestion(_))).await?;
    let Some(Body::UserQuestion(asked)) = event.event else { bail!("no question") };
    assert_eq!((asked.question.as_str(), asked.multi_select), ("Which colour?", false));
    let labels: Vec<&str> = asked.options.iter().map(|option| option.label.as_str()).collect();
    assert_eq!(labels, ["red", "blue"]);
    let answers = |key: &str| pb::UserQuestionResponse {
        question_id: asked.question_id.clone(),
        answers: HashMap::from([(key.to_owned(), "blue".to_owned())]),
    };
    talk.say(Said::QuestionResponse(answers("Which car?"))).await?;
    assert!(talk.error().await?.message.contains("Which car?"));
    talk.say(Said::QuestionResponse(answers("Which colour?"))).await?;
    let turn = talk.turn().await?;
    let heard = if agent.is_real() { asked_model(&stage, "choose") } else { text(&turn) };
    assert!(heard.contains("blue"), "{heard}");
    talk.say(Said::QuestionResponse(answers("Which colour?"))).await?;
    assert!(talk.error().await?.message.contains("settled already"));
    stage.close().await
}

/// A client that knows only the published messages returns the values of what was chosen.
#[tokio::test]
async fn real_claude_each_of_two_questions_gets_its_own_answer() -> Result<()> {
    let agent = Agent::Claude;
    let stage = stage!(agent);
    let mut talk = Talk::new(&stage).await?;
    let option = |label: &str| json!({"label": label, "description": label});
    let question = |text: &str| json!({"question": text, "header": "Use", "options": [option("Yes"), option("No")], "multiSelect": false});
    let input = json!({"questions": [question("Use tests?"), question("Use docs?")]});
    let steps = json!([{"tool": "AskUserQuestion", "input": input}, {"text": "thanks"}]);
    talk.prompt(&script(agent, "choose", &steps)).await?;
    let event = talk.until("a question", |body| matches!(body, Body::UserQuestion(_))).await?;
    let Some(Body::UserQuestion(asked)) = event.event else { bail!("no question") };
    assert!(asked.multi_select);
    let values: Vec<&str> = asked.options.iter().map(|option| option.value.as_str()).collect();
    let [yes_to_tests, _, _, no_to_docs] = values[..] else { bail!("{asked:?}") };
    let answer = format!("{yes_to_tests}, {no_to_docs}");
    let answers = HashMap::from([(asked.question.clone(), answer)]);
    let question_id = asked.question_id.clone();
    talk.say(Said::QuestionResponse(pb::UserQuestionResponse { question_id, answers })).await?;
    talk.turn().await?;
    let heard = asked_model(&stage, "choose");
    for part in [r#""Use tests?"="Yes""#, r#""Use docs?"="No""#] {
        assert!(heard.replace('\\', "").contains(part), "{heard}");
    }
    stage.close().await
}

async fn allowed_tools_are_not_asked_about_and_nothing_hides_behind_them(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let start = pb::StartConversation { allowed_tools: vec!["Bash(touch *)".into()], ..new_start(&stage) };
    let mut talk = Talk::start(&stage.clients, start).await?;
    let steps =
        json!([agent.asking("touch made"), agent.asking("touch made; touch hidden"), {"text": "both"}]);
    talk.prompt(&script(agent, "ask", &steps)).await?;
    let request = talk.permission().await?;
    assert_eq!(command(&request), "touch made; touch hidden");
    talk.decide(&request.request_id, Decision::Deny).await?;
    assert_eq!(text(&talk.turn().await?), "both");
    assert!(!stage.world.project().join("hidden").exists());
    assert_eq!(stage.world.project().join("made").exists(), agent.is_real());
    let settled = stage.wait_for(talk.session(), "request_settled", |_| true).await?;
    assert_eq!(settled["by"], "grant");
    stage.close().await
}

async fn a_waiting_permission_is_offered_again_to_whoever_comes_back(agent: Agent) -> Result<()> {
    let mut stage = stage!(agent);
    let mut talk = Talk::new(&stage).await?;
    talk.prompt(&script(agent, "ask", &json!([agent.asking("touch made"), {"text": "made it"}]))).await?;
    let request = talk.permission().await?;
    let (session, last) = (talk.session().to_owned(), talk.last());
    drop(talk);
    // A client that knows of it is asked again, out of turn; one that knows nothing finds it in the history.
    let mut back = Talk::start(&stage.clients, again(&session, last)).await?;
    let offered = back.until("the offer", |body| matches!(body, Body::PermissionRequest(_))).await?;
    assert_eq!(offered.sequence, 0);
    drop(back);
    stage.daemon.kill9().await?;
    stage.daemon.restart().await?;
    stage.clients = stage.daemon.clients().await?;
    let mut after = Talk::start(&stage.clients, again(&session, last)).await?;
    let offered = after.until("the offer", |body| matches!(body, Body::PermissionRequest(_))).await?;
    assert_eq!(offered.sequence, 0);
    let Some(Body::PermissionRequest(offered)) = offered.event else { bail!("no permission") };
    assert_eq!(offered, request, "the same request, under the same name");
    after.decide(&request.request_id, Decision::AllowOnce).await?;
    let turn = after.turn().await.context("the turn must go on")?;
    assert_eq!(text(&turn), "made it");
    stage.close().await
}
