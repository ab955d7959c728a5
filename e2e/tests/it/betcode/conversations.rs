//! What a conversation is: a start, turns, and how it ends.

use anyhow::{Context, Result};
use serde_json::json;
use wire::betcode::v1 as pb;
use wire::betcode::v1::agent_event::Event as Body;
use wire::betcode::v1::agent_request::Request as Said;

use super::talk::asked_model;
use super::talk::{
    Talk, again, assert_increasing, new_start, numbered, prompts, results, stop_reason, stored, text,
};
use crate::stage::{Agent, process_scenarios, script, stage};

process_scenarios!(
    a_conversation_is_answered_at_once_and_takes_turns,
    a_client_that_says_no_more_hears_the_turn_to_its_end,
    a_cancelled_turn_says_so_and_the_session_goes_on,
    a_turn_goes_on_without_its_client,
    a_plan_is_made_before_anything_is_done,
    files_reach_the_agent,
);
crate::stage::scenarios_of!(
    openai,
    Openai,
    a_conversation_is_answered_at_once_and_takes_turns,
    a_client_that_says_no_more_hears_the_turn_to_its_end,
    a_cancelled_turn_says_so_and_the_session_goes_on,
    a_turn_goes_on_without_its_client,
    a_plan_is_made_before_anything_is_done,
    files_reach_the_agent
);

async fn a_conversation_is_answered_at_once_and_takes_turns(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut talk = Talk::new(&stage).await?;
    assert!(talk.session().starts_with("sess_"), "{:?}", talk.info);
    assert!(!talk.info.is_resumed && talk.info.message_count == 0, "{:?}", talk.info);
    assert_eq!(talk.info.working_directory, stage.world.project().canonicalize()?.display().to_string());
    assert_eq!(stage.info(talk.session()).await?.pid, 0, "the agent starts with the first message");

    let steps = json!([
        {"text": "looking", "chunks": 3},
        {"tool": "Bash", "input": {"command": "echo hi"}, "result": "hi"},
        {"text": "done", "chunks": 2},
    ]);
    let mut request = script(agent, "first", &steps);
    if agent.is_real() {
        // The real ones ask before they run something.
        request = script(agent, "first", &json!([{"text": "looking", "chunks": 3}, {"text": "done"}]));
    }
    talk.prompt(&request).await?;
    let first = talk.turn().await?;
    assert_eq!(prompts(&first), [request.clone()]);
    assert!(text(&first).starts_with("looking"), "{first:#?}");
    assert_eq!(stop_reason(&first), "end_turn");
    if agent == Agent::Scripted {
        assert_eq!(results(&first)[0].output, "hi");
        let call = first.iter().find_map(|event| match &event.event {
            Some(Body::ToolCallStart(call)) => Some(call),
            _ => None,
        });
        let call = call.context("no call was started")?;
        assert_eq!((call.tool_name.as_str(), call.description.as_str()), ("Bash", "Bash: echo hi"));
        assert!(call.input.as_ref().is_some_and(|input| input.fields.contains_key("command")));
    } else {
        let usage = first
            .iter()
            .any(|event| matches!(&event.event, Some(Body::Usage(usage)) if usage.output_tokens > 0));
        assert!(usage, "{first:#?}");
    }
    talk.prompt(&script(agent, "second", &json!([{"text": "again"}]))).await?;
    assert_eq!(text(&talk.turn().await?), "again");
    assert_increasing(&talk.heard);
    assert!(talk.heard.iter().all(|event| event.timestamp.is_some()));
    // What was heard live is what is stored.
    let kept = stored(&stage.clients, talk.session(), 0).await?;
    let heard = numbered(&talk.heard);
    assert_eq!(kept[..heard.len()], heard[..]);
    stage.close().await
}

async fn a_client_that_says_no_more_hears_the_turn_to_its_end(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut talk = Talk::new(&stage).await?;
    talk.prompt(&script(agent, "go", &json!([{"text": "one two three", "chunks": 5, "gap_ms": 20}]))).await?;
    talk.hush();
    talk.rest().await?;
    assert_eq!(text(&talk.heard), "one two three");
    assert_eq!(stop_reason(&talk.heard), "end_turn");
    // Without a turn the stream ends behind the history.
    let mut second = Talk::start(&stage.clients, again(talk.session(), 0)).await?;
    second.hush();
    second.rest().await?;
    assert!(second.info.is_resumed && second.info.message_count == 2, "{:?}", second.info);
    assert_eq!(text(&second.heard), "one two three");
    stage.close().await
}

async fn a_cancelled_turn_says_so_and_the_session_goes_on(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut talk = Talk::new(&stage).await?;
    talk.prompt(&script(agent, "hang", &json!([[{"text": "thinking hard"}, {"hang": true}]]))).await?;
    talk.until("some text", |body| matches!(body, Body::TextDelta(_))).await?;
    talk.say(Said::Cancel(pb::CancelRequest { reason: "enough".into() })).await?;
    assert_eq!(stop_reason(&talk.turn().await?), "cancelled");
    talk.prompt(&script(agent, "next", &json!([{"text": "still here"}]))).await?;
    assert_eq!(text(&talk.turn().await?), "still here");
    stage.close().await
}

async fn a_turn_goes_on_without_its_client(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let gate = stage.world.path("gate");
    let mut talk = Talk::new(&stage).await?;
    let steps = json!([[{"text": "before "}, {"wait_file": gate}, {"text": "after"}]]);
    talk.prompt(&script(agent, "wait", &steps)).await?;
    talk.until("some text", |body| matches!(body, Body::TextDelta(_))).await?;
    let (session, last) = (talk.session().to_owned(), talk.last());
    let seen = numbered(&talk.heard);
    drop(talk);
    stage.world.touch("gate")?;
    stage.wait_for(&session, "turn_ended", |_| true).await?;
    let mut back = Talk::start(&stage.clients, again(&session, last)).await?;
    assert!(back.info.is_resumed);
    assert_eq!(stop_reason(&back.turn().await?), "end_turn");
    let all = [seen, numbered(&back.heard)].concat();
    assert_increasing(&all);
    assert_eq!(text(&all), "before after");
    assert_eq!(all, stored(&stage.clients, &session, 0).await?[..all.len()]);
    stage.close().await
}

async fn a_plan_is_made_before_anything_is_done(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let start = pb::StartConversation { plan_mode: true, ..new_start(&stage) };
    let mut talk = Talk::start(&stage.clients, start).await?;
    talk.prompt(&script(agent, "plan", &json!([{"text": "first this, then that"}]))).await?;
    assert_eq!(text(&talk.turn().await?), "first this, then that");
    if agent == Agent::Claude {
        assert!(asked_model(&stage, "plan").contains("Plan mode"), "the agent was not told to plan");
    }
    let created = stage.journal(talk.session()).await?.remove(0);
    assert_eq!(crate::stage::fields(&created)["mode"], "plan");
    stage.close().await
}

async fn files_reach_the_agent(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut talk = Talk::new(&stage).await?;
    let file = pb::Attachment {
        filename: "notes.txt".into(),
        mime_type: "text/plain".into(),
        data: b"the secret word is xylophone".to_vec(),
    };
    let content = script(agent, "read this", &json!([{"text": "I read it"}]));
    talk.say(Said::Message(pb::UserMessage { content, attachments: vec![file], ..Default::default() }))
        .await?;
    assert_eq!(text(&talk.turn().await?), "I read it");
    if agent.is_real() {
        assert!(asked_model(&stage, "read this").contains("xylophone"));
    }
    let turn = stage.wait_for(talk.session(), "turn_started", |_| true).await?;
    assert_eq!(turn["attachments"][0]["name"], "notes.txt");
    stage.close().await
}
