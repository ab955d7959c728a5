//! Keys of clients: create, prompt, answer and cancel take effect once, whoever dies in between.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tonic::{Code, Request};
use wire::obey::local::v1 as local;
use wire::obey::v1 as own;

use super::{gated, kill_and_restart, open_gate, prompts, session, wait_for_turns};
use crate::stage::{Agent, CAMPAIGN, script, stage};
use e2e::clients::refused;

fn keyed<T>(message: T, key: &str) -> Result<Request<T>> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("x-obey-client-key", key.parse()?);
    Ok(request)
}

#[tokio::test]
async fn a_session_is_created_once_for_a_key_across_a_kill() -> Result<()> {
    let mut stage = stage!(Agent::Scripted);
    let request = local::CreateSessionRequest { agent_name: "worker".into(), ..stage.new_session() };
    let first = stage.clients.local.create_session(keyed(request.clone(), "k-1")?).await?.into_inner();
    kill_and_restart(&mut stage).await?;
    let again = stage.clients.local.create_session(keyed(request.clone(), "k-1")?).await?.into_inner();
    assert_eq!(first.session.map(|session| session.id), again.session.map(|session| session.id));
    let other = local::CreateSessionRequest { agent_name: "another".into(), ..request };
    let status = refused(
        stage.clients.local.create_session(keyed(other, "k-1")?).await,
        Code::InvalidArgument,
        "OBEY-1001",
    )?;
    ensure!(status.message().contains("client_key"), "{status:?}");
    let list = local::ListSessionsRequest { campaign_id: CAMPAIGN.into(), ..Default::default() };
    assert_eq!(stage.clients.local.list_sessions(list).await?.into_inner().sessions.len(), 1);
    stage.close().await
}

#[tokio::test]
async fn two_creations_with_one_key_at_once_make_one_session() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let (mut one, mut two) = (stage.clients.local.clone(), stage.clients.local.clone());
    let request = stage.new_session();
    let (first, second) = tokio::join!(
        one.create_session(keyed(request.clone(), "same")?),
        two.create_session(keyed(request.clone(), "same")?)
    );
    let id =
        |response: tonic::Response<local::CreateSessionResponse>| response.into_inner().session.map(|s| s.id);
    assert_eq!(id(first?), id(second?));
    stage.close().await
}

#[tokio::test]
async fn a_prompt_is_sent_once_for_a_key_across_a_kill() -> Result<()> {
    let mut stage = stage!(Agent::Scripted);
    let id = session(&stage).await?;
    let gate = stage.world.project().join("gate");
    let prompt = own::PromptRequest {
        session_id: id.clone(),
        text: gated("once", &gate),
        client_key: "p-1".into(),
        ..Default::default()
    };
    let first = stage.clients.turns.prompt(prompt.clone()).await?.into_inner();
    kill_and_restart(&mut stage).await?;
    let again = stage.clients.turns.prompt(prompt.clone()).await?.into_inner();
    assert_eq!(first, again);
    open_gate(&gate)?;
    wait_for_turns(&stage, &id, 1).await?;
    assert_eq!(stage.clients.turns.prompt(prompt.clone()).await?.into_inner(), first);
    assert_eq!(prompts(&stage, &id).await?.len(), 1);
    let other = own::PromptRequest { text: "other".into(), ..prompt };
    let status = refused(stage.clients.turns.prompt(other).await, Code::InvalidArgument, "OBEY-1001")?;
    ensure!(status.message().contains("client_key"), "{status:?}");
    stage.close().await
}

#[tokio::test]
async fn an_answer_and_a_cancel_are_repeated_with_the_same_result() -> Result<()> {
    let mut stage = stage!(Agent::Scripted);
    let id = stage.create().await?;
    let asks =
        json!([{"tool": "Bash", "input": {"command": "ls"}, "ask": true, "result": "x"}, {"hang": true}]);
    let prompt = own::PromptRequest {
        session_id: id.clone(),
        text: script(Agent::Scripted, "asks", &asks),
        ..Default::default()
    };
    stage.clients.turns.prompt(prompt).await?;
    let request = stage.wait_for_request(&id).await?;
    let answer = own::AnswerPermissionRequest {
        session_id: id.clone(),
        request_id: request.id,
        decision: own::Decision::AllowOnce.into(),
        client_key: "a-1".into(),
        ..Default::default()
    };
    let first = stage.clients.requests.answer_permission(answer.clone()).await?.into_inner();
    ensure!(first.settled_by_this_answer);
    kill_and_restart(&mut stage).await?;
    let again = stage.clients.requests.answer_permission(answer).await?.into_inner();
    ensure!(again.settled_by_this_answer, "{again:?}");
    let cancel = own::CancelTurnRequest { session_id: id.clone(), client_key: "c-1".into() };
    ensure!(stage.clients.turns.cancel_turn(cancel.clone()).await?.into_inner().cancelled);
    wait_for_turns(&stage, &id, 1).await?;
    ensure!(stage.clients.turns.cancel_turn(cancel).await?.into_inner().cancelled, "the same answer again");
    stage.close().await
}

#[tokio::test]
async fn a_command_whose_daemon_is_killed_sends_its_prompt_once() -> Result<()> {
    let mut stage = stage!(Agent::Scripted);
    let id = session(&stage).await?;
    for number in 0..4_usize {
        let text = format!("word-{number}");
        let sending = stage.cli().spawn(&["session", "send", &id, "--no-wait", &text]).await?;
        kill_and_restart(&mut stage).await?;
        let sent = sending.finish().await?;
        ensure!(sent.code == Some(0), "{sent:?}");
        wait_for_turns(&stage, &id, number + 1).await?;
    }
    assert_eq!(prompts(&stage, &id).await?, ["word-0", "word-1", "word-2", "word-3"]);
    stage.close().await
}

#[tokio::test]
async fn rest_roz_and_editors_take_a_key_too() -> Result<()> {
    use wire::roz::v1 as roz;
    let stage = stage!(Agent::Scripted);
    // REST: the header is the metadata.
    let body =
        json!({"campaign_id": CAMPAIGN, "provider": "SESSION_PROVIDER_SCRIPTED", "agent_name": "rest"})
            .to_string();
    let mut made = Vec::new();
    for _ in 0..2 {
        let request = format!(
            "POST /obey.local.v1.LocalDaemonService/CreateSession HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             x-obey-client-key: r-1\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        let mut stream = tokio::net::UnixStream::connect(stage.daemon.socket()).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        e2e::deadline::within("an HTTP answer", stream.read_to_string(&mut answer)).await??;
        let (_, answer) = answer.split_once("\r\n\r\n").context("no answer")?;
        let answer: serde_json::Value = serde_json::from_str(answer).with_context(|| answer.to_owned())?;
        made.push(answer["session"]["id"].clone());
    }
    ensure!(made[0].is_string() && made[0] == made[1], "{made:?}");
    // roz: a task is created once.
    let environment = crate::roz::talk::environment(&stage).await?;
    let mut tasks = roz::task_service_client::TaskServiceClient::new(stage.clients.channel.clone());
    let task = |prompt: &str| roz::CreateTaskRequest {
        prompt: prompt.into(),
        environment_id: environment.clone(),
        ..Default::default()
    };
    let work = script(Agent::Scripted, "task", &json!([{"text": "done"}]));
    let first = tasks.create_task(keyed(task(&work), "t-1")?).await?.into_inner();
    let second = tasks.create_task(keyed(task(&work), "t-1")?).await?.into_inner();
    assert_eq!(first.id, second.id);
    let other = tasks.create_task(keyed(task("another"), "t-1")?).await;
    let status = refused(other, Code::InvalidArgument, "OBEY-1001")?;
    ensure!(status.message().contains("client_key"), "{status:?}");
    assert_eq!(tasks.list_tasks(roz::ListTasksRequest::default()).await?.into_inner().data.len(), 1);
    // ACP: a session and a prompt, once for `_meta.clientKey`.
    let mut editor = crate::acp::editor(&stage, &[]).await?;
    let new = json!({"cwd": stage.world.project(), "mcpServers": [], "_meta": {"clientKey": "n-1"}});
    let opened = editor.result("session/new", new.clone()).await?["sessionId"].clone();
    ensure!(editor.result("session/new", new).await?["sessionId"] == opened);
    let id = opened.as_str().context("no session")?.to_owned();
    let text = script(Agent::Scripted, "acp", &json!([{"text": "once"}]));
    let prompt = json!({
        "sessionId": opened, "prompt": [{"type": "text", "text": text}], "_meta": {"clientKey": "q-1"},
    });
    ensure!(editor.result("session/prompt", prompt.clone()).await?["stopReason"] == "end_turn");
    ensure!(editor.result("session/prompt", prompt).await?["stopReason"] == "end_turn");
    assert_eq!(prompts(&stage, &id).await?.len(), 1);
    editor.close().await?;
    stage.close().await
}

#[tokio::test]
async fn a_file_reaches_the_model_as_it_was_attached() -> Result<()> {
    use base64::Engine as _;
    let mut stage = stage!(Agent::Claude);
    let id = stage.create().await?;
    let picture = stage.world.path("dot.png");
    // The smallest picture there is.
    let bytes = base64::engine::general_purpose::STANDARD.decode(DOT)?;
    std::fs::write(&picture, &bytes)?;
    let attachment =
        own::PromptAttachment { name: "dot.png".into(), media_type: "image/png".into(), content: bytes };
    let prompt = own::PromptRequest {
        session_id: id.clone(),
        text: script(Agent::Claude, "picture", &json!([{"text": "seen"}])),
        attachments: vec![attachment.clone()],
        client_key: "f-1".into(),
        ..Default::default()
    };
    let first = stage.clients.turns.prompt(prompt.clone()).await?.into_inner();
    assert_eq!(
        stage.clients.turns.prompt(prompt.clone()).await?.into_inner(),
        first,
        "the file is part of the key"
    );
    wait_for_turns(&stage, &id, 1).await?;
    let asked = crate::betcode::talk::asked_model(&stage, "picture");
    ensure!(asked.contains(DOT), "the model got no picture: {asked}");
    let none = own::PromptAttachment { media_type: String::new(), ..attachment };
    let wrong = own::PromptRequest { attachments: vec![none], client_key: String::new(), ..prompt };
    let status = refused(stage.clients.turns.prompt(wrong).await, Code::InvalidArgument, "OBEY-1001")?;
    ensure!(status.message().contains("attachments.media_type"), "{status:?}");
    stage.close().await
}

/// A PNG of one pixel.
const DOT: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
