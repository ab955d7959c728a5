//! The conversation that a session was created with, and system messages before a prompt.

use domain::event::Attachment;

use super::*;

const ITEM: &str = "where is the door?";

fn beginning() -> CodexCodec {
    let item = json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": ITEM}]});
    with(CodexState { history: vec![item], checked: true, ..CodexState::default() })
}

fn begun() -> Value {
    json!({"id": "obey-start-1", "result": {"thread": {"id": "t1"}, "model": "gpt-5.5"}})
}

#[test]
fn a_new_conversation_is_ready_when_it_has_its_past() {
    let mut codec = beginning();
    let (events, replies) = hear_all(&mut codec, begun());
    assert_eq!(events, []);
    assert_eq!(replies[0]["method"], "thread/inject_items");
    assert_eq!(replies[0]["params"]["threadId"], "t1");
    assert_eq!(replies[0]["params"]["items"][0]["content"][0]["text"], ITEM);
    // A daemon that comes back in between waits for the same answer.
    let saved = codec.save();
    assert!(saved.contains(ITEM));
    let mut codec = with(serde_json::from_str(&saved).unwrap());
    let events = hear(&mut codec, json!({"id": replies[0]["id"], "result": {}}));
    assert!(matches!(&events[..], [AgentEvent::Ready { .. }]), "{events:?}");
    assert!(!codec.save().contains(ITEM), "it is in the agent now");
}

#[test]
fn a_past_that_is_not_taken_breaks_the_session() {
    let mut codec = beginning();
    hear(&mut codec, begun());
    let events = hear(&mut codec, json!({"id": "obey-history-1", "error": {"code": 1, "message": "no"}}));
    let [AgentEvent::Broken { message, .. }] = &events[..] else { panic!("{events:?}") };
    assert!(message.contains("the earlier conversation: no"), "{message}");
}

#[test]
fn system_context_goes_before_its_prompt() {
    let mut codec = running();
    let file = |name: &str, media_type: &str| Attachment {
        name: name.into(),
        media_type: media_type.into(),
        content: "aGVsbG8=".into(),
    };
    let attachments = vec![file("system", Attachment::SYSTEM_MEDIA_TYPE), file("note", "text/plain")];
    let wire = tell(&mut codec, AgentInput::Prompt { text: "go".into(), attachments });
    let lines: Vec<Value> = wire.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [context, turn] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!((&context["method"], &turn["method"]), (&json!("thread/inject_items"), &json!("turn/start")));
    let item = &context["params"]["items"][0];
    assert_eq!((&item["role"], &item["content"][0]["text"]), (&json!("developer"), &json!("hello")));
    assert_eq!(turn["params"]["input"].as_array().map(Vec::len), Some(2));
    assert!(!turn.to_string().contains("system"), "{turn}");
    assert_eq!(hear(&mut codec, json!({"id": context["id"], "result": {}})), []);
}
