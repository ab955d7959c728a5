//! What is kept between two lines, and what happens to pending requests at a turn's end.

use super::*;

fn says(talk: &mut Talk, text: &str) -> Vec<AgentEvent> {
    let content = json!({"type": "text", "text": text});
    talk.update(json!({"sessionUpdate": "agent_message_chunk", "content": content}))
}

fn ended(events: &[AgentEvent]) -> (EndReason, &str, &str) {
    match events.last() {
        Some(AgentEvent::TurnEnded { reason, text, error }) => (*reason, text, error),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_saved_does_not_grow_with_what_is_said() {
    let mut talk = Talk::at_work();
    says(&mut talk, "x");
    let before = talk.codec.save().len();
    let mut said = "x".to_owned();
    for at in 0..2_000 {
        let piece = format!("piece {at} of a long reply. ");
        said.push_str(&piece);
        says(&mut talk, &piece);
    }
    let after = talk.codec.save().len();
    assert!(after <= before + 16, "{before} bytes became {after}");
    let events = talk.answer("session/prompt", json!({"stopReason": "end_turn"}));
    assert_eq!(ended(&events), (EndReason::Completed, said.as_str(), ""));
}

#[test]
fn what_was_said_is_told_at_the_end_after_a_daemons_death_as_a_whole_or_not() {
    for (said, told) in [("short".to_owned(), "short and sweet"), ("long ".repeat(10_000), "")] {
        let mut talk = Talk::at_work();
        says(&mut talk, &said);
        talk.codec.state = serde_json::from_str::<AcpState>(&talk.codec.save()).unwrap().into();
        says(&mut talk, " and sweet");
        let events = talk.answer("session/prompt", json!({"stopReason": "end_turn"}));
        assert_eq!(ended(&events), (EndReason::Completed, told, ""));
    }
    // The message after a call is a new one, and complete again.
    let mut talk = Talk::at_work();
    says(&mut talk, &"long ".repeat(10_000));
    talk.codec.state = serde_json::from_str::<AcpState>(&talk.codec.save()).unwrap().into();
    talk.update(
        json!({"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "x", "status": "completed"}),
    );
    says(&mut talk, "done");
    let events = talk.answer("session/prompt", json!({"stopReason": "end_turn"}));
    assert_eq!(ended(&events), (EndReason::Completed, "done", ""));
}

#[test]
fn a_prompt_that_fails_is_told_while_a_message_waits() {
    let mut talk = Talk::at_work();
    talk.tell(AgentInput::Steer { text: "and hurry".to_owned() });
    let events = talk.refuse("session/prompt", -32603, "the model is overloaded");
    let told = events.iter().any(|event| {
        matches!(event, AgentEvent::Notice { level: domain::event::Level::Error, message } if message.contains("overloaded"))
    });
    assert!(told, "{events:?}");
    assert_eq!(talk.written.last().unwrap()["params"]["prompt"][0]["text"], "and hurry");
    let events = talk.refuse("session/prompt", -32603, "it still is");
    assert_eq!(ended(&events), (EndReason::Failed, "", "it still is"));
}
