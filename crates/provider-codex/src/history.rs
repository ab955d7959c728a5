//! The conversation that a session was created with, and system messages, as items of the Responses API, which Codex takes
//! into a conversation (`thread/inject_items`). Pure.

use domain::Error;
use domain::any_event;
use domain::event::{Attachment, EventKind};
use serde_json::{Value, json};

use provider_common::attachment::{self, AttachmentPart};

/// Returns the items of turns. Thinking is left out: the endpoint takes only what it has signed itself.
pub(super) fn items<'a>(events: impl Iterator<Item = &'a EventKind>) -> Vec<Value> {
    let mut items: Vec<Value> = Vec::new();
    let mut said = String::new();
    for event in events {
        if let EventKind::TextDelta { text, parent: None } = event {
            said.push_str(text);
            continue;
        }
        let item = match event {
            EventKind::TurnStarted { prompt, attachments, .. }
                if !prompt.is_empty() || !attachments.is_empty() =>
            {
                Some(user(prompt, attachments))
            }
            EventKind::ToolStarted { call, tool, input, parent: None, .. } => Some(json!({
                "type": "function_call", "call_id": call.as_str(), "name": tool, "arguments": input.to_string(),
            })),
            EventKind::ToolFinished { call, output, .. } => {
                Some(json!({"type": "function_call_output", "call_id": call.as_str(), "output": output}))
            }
            EventKind::TurnEnded { .. } => None,
            any_event!(
                life TurnStarted InterruptRequested MessageAdded TextDelta ThinkingDelta ToolStarted
                ToolProgress request settings plan usage worker report
            ) => continue,
        };
        end_reply(&mut said, &mut items);
        items.extend(item);
    }
    end_reply(&mut said, &mut items);
    items
}

/// Returns system messages; the error names one that is not text.
pub(super) fn system_items(files: &[&Attachment]) -> Result<Vec<Value>, Error> {
    let item = |file: &&Attachment| {
        let text = attachment::text(file)?;
        Ok(json!({"type": "message", "role": "developer", "content": [{"type": "input_text", "text": text}]}))
    };
    files.iter().map(item).collect()
}

fn user(prompt: &str, attachments: &[Attachment]) -> Value {
    let part = |file: &Attachment| match attachment::part(file) {
        Ok(AttachmentPart::Picture(url)) => json!({"type": "input_image", "image_url": url}),
        Ok(AttachmentPart::Text(text)) => json!({"type": "input_text", "text": text}),
        // A later part of the conversation may speak of it.
        Err(_) => json!({"type": "input_text", "text": format!("(the file {} cannot be shown)", file.name)}),
    };
    let mut parts: Vec<Value> = attachments.iter().map(part).collect();
    if !prompt.is_empty() {
        parts.push(json!({"type": "input_text", "text": prompt}));
    }
    json!({"type": "message", "role": "user", "content": parts})
}

fn end_reply(said: &mut String, items: &mut Vec<Value>) {
    let text = std::mem::take(said);
    if !text.is_empty() {
        let content = [json!({"type": "output_text", "text": text})];
        items.push(json!({"type": "message", "role": "assistant", "content": content}));
    }
}

#[cfg(test)]
mod tests {
    use domain::turn::{EndReason, TurnOrigin};
    use domain::{CallId, TurnId};

    use super::*;

    #[test]
    fn turns_become_messages_calls_and_results() {
        let call = CallId::new("c1");
        let began = EventKind::TurnStarted {
            turn: TurnId(1),
            origin: TurnOrigin::Client,
            prompt: "look".to_owned(),
            attachments: vec![Attachment {
                name: "dot".to_owned(),
                media_type: "image/png".to_owned(),
                content: "aGVsbG8=".to_owned(),
            }],
            by: String::new(),
        };
        let text = |text: &str| EventKind::TextDelta { text: text.to_owned(), parent: None };
        let events = [
            began,
            text("I "),
            text("look"),
            EventKind::ToolStarted {
                call: call.clone(),
                tool: "camera".to_owned(),
                input: json!({"where": "left"}),
                title: String::new(),
                parent: None,
            },
            EventKind::ToolFinished {
                call,
                tool: "camera".to_owned(),
                ok: true,
                output: "a door".to_owned(),
            },
            text("a door"),
            EventKind::TurnEnded {
                turn: TurnId(1),
                reason: EndReason::Completed,
                text: String::new(),
                error: String::new(),
            },
        ];
        let assistant = |text: &str| json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]});
        let expected = [
            json!({"type": "message", "role": "user", "content": [
                {"type": "input_image", "image_url": "data:image/png;base64,aGVsbG8="},
                {"type": "input_text", "text": "look"},
            ]}),
            assistant("I look"),
            json!({"type": "function_call", "call_id": "c1", "name": "camera", "arguments": "{\"where\":\"left\"}"}),
            json!({"type": "function_call_output", "call_id": "c1", "output": "a door"}),
            assistant("a door"),
        ];
        assert_eq!(items(events.iter()), expected);
    }
}
