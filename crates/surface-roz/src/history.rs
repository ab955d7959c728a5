//! The earlier conversation and the project context of a start: as turns and as a system prompt for agents that take them, else
//! as attachments of the first message. Pure; errors name the invalid field.

use std::collections::BTreeMap;

use agent_port::Capabilities;
use agent_port::conversations::EntryKind;
use domain::Error;
use domain::event::Attachment;
use domain::limits::{CONFIG_VALUE_MAX_BYTES, EVENT_TEXT_MAX_BYTES};
use serde_json::{Value, json};
use wire::roz::v1 as pb;
use wire::roz::v1::content_part::Part;

use crate::from_wire;
use surface::structs;

/// The setting of providers that takes text for the system prompt.
const SYSTEM_PROMPT_KEY: &str = "append_system_prompt";

/// What an agent gets of a start besides its tools.
#[derive(Debug, Default, PartialEq)]
pub(super) struct SessionPast {
    /// Turns for the beginning of the journal.
    pub(super) turns: Vec<EntryKind>,
    /// Attachments of the first message.
    pub(super) files: Vec<Attachment>,
}

/// Divides a start's history and project context as the agent can take them. What it takes as its system prompt is added to
/// the settings.
pub(super) fn divide(
    can: Capabilities,
    project_context: &[String],
    history: &[pb::ConversationMessage],
    settings: &mut BTreeMap<String, String>,
) -> Result<SessionPast, Error> {
    let is_system = |message: &&pb::ConversationMessage| can.history && Role::of(message) == Role::System;
    let said = history.iter().filter(is_system).flat_map(|message| &message.parts).filter_map(|part| {
        match &part.part {
            Some(Part::Text(text)) => Some(text.text.clone()),
            _ => None,
        }
    });
    let context: Vec<String> = project_context.iter().cloned().chain(said).collect();
    let mut context = context.join("\n\n");
    if can.system_prompt && extend_system_prompt(settings, &context) {
        context.clear();
    }
    if can.history {
        return Ok(SessionPast { turns: turns(history)?, files: told(&context, &[])? });
    }
    Ok(SessionPast { turns: Vec::new(), files: told(&context, history)? })
}

/// Adds to the system prompt of the settings; false: it would become longer than a setting may be.
fn extend_system_prompt(settings: &mut BTreeMap<String, String>, context: &str) -> bool {
    if context.is_empty() {
        return true;
    }
    let own = settings.get(SYSTEM_PROMPT_KEY).filter(|own| !own.trim().is_empty());
    let whole = own.map_or_else(|| context.to_owned(), |own| format!("{own}\n\n{context}"));
    if whole.len() > CONFIG_VALUE_MAX_BYTES {
        return false;
    }
    settings.insert(SYSTEM_PROMPT_KEY.to_owned(), whole);
    true
}

/// Whose message it is, as far as that makes a difference.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    System,
    Assistant,
    /// The user, and what a client calls otherwise.
    Other,
}

impl Role {
    fn of(message: &pb::ConversationMessage) -> Self {
        match message.role.as_str() {
            "system" => Self::System,
            "assistant" => Self::Assistant,
            _ => Self::Other,
        }
    }
}

fn check_role(field: &str, message: &pb::ConversationMessage) -> Result<(), Error> {
    if message.role.is_empty() {
        Err(Error::invalid(&format!("{field}.role"), "is required"))
    } else {
        Ok(())
    }
}

/// Converts a conversation to the entries of turns. A message of the assistant is part of the turn before it; of every other
/// one, results end calls, and the rest is a prompt.
fn turns(history: &[pb::ConversationMessage]) -> Result<Vec<EntryKind>, Error> {
    let mut entries = Vec::new();
    for (at, message) in history.iter().enumerate() {
        let field = format!("history[{at}]");
        check_role(&field, message)?;
        let is_assistant = Role::of(message) == Role::Assistant;
        if is_assistant && matches!(entries.last(), Some(EntryKind::Text(_))) {
            // Otherwise two messages would be one word.
            entries.push(EntryKind::Text("\n\n".to_owned()));
        }
        let mut prompt = (String::new(), Vec::new());
        for (part_at, part) in message.parts.iter().enumerate() {
            let field = format!("{field}.parts[{part_at}]");
            match entry(&field, part)? {
                HistoryPart::Entry(EntryKind::Text(text)) if !is_assistant => join(&mut prompt.0, &text),
                HistoryPart::Entry(entry) => entries.push(entry),
                HistoryPart::Image(image) if is_assistant => {
                    entries.push(EntryKind::Text(format!("(image {})", image.media_type)));
                }
                HistoryPart::Image(image) => prompt.1.push(image),
            }
        }
        let (text, attachments) = prompt;
        let is_empty = text.is_empty() && attachments.is_empty();
        if !is_empty && Role::of(message) != Role::System {
            from_wire::check_size(&attachments)?;
            entries.push(EntryKind::Prompt { text, attachments });
        }
    }
    Ok(entries)
}

/// A part of a message as it stands in a turn.
enum HistoryPart {
    Entry(EntryKind),
    Image(Attachment),
}

fn entry(field: &str, part: &pb::ContentPart) -> Result<HistoryPart, Error> {
    let entry = match &part.part {
        Some(Part::Text(text)) => EntryKind::Text(fitting(field, &text.text)?),
        Some(Part::Thinking(thinking)) => EntryKind::Thinking(fitting(field, &thinking.thinking)?),
        Some(Part::ToolUse(call)) => EntryKind::CallStarted {
            call: required(&format!("{field}.id"), &call.id)?,
            tool: required(&format!("{field}.name"), &call.name)?,
            input: input(field, call)?,
            title: call.name.clone(),
        },
        Some(Part::ToolResult(result)) => EntryKind::CallFinished {
            call: required(&format!("{field}.tool_use_id"), &result.tool_use_id)?,
            ok: !result.is_error,
            output: fitting(field, &result.content)?,
        },
        Some(Part::Image(image)) => {
            return from_wire::file(field, "image", &image.media_type, &image.data).map(HistoryPart::Image);
        }
        None => return Err(Error::invalid(field, "is empty")),
    };
    Ok(HistoryPart::Entry(entry))
}

fn input(field: &str, call: &pb::ToolUseContent) -> Result<Value, Error> {
    let input = call.input.as_ref().map(|input| structs::to_json(&format!("{field}.input"), input));
    Ok(input.transpose()?.unwrap_or_else(|| json!({})))
}

fn required(field: &str, text: &str) -> Result<String, Error> {
    if text.is_empty() { Err(Error::invalid(field, "is required")) } else { Ok(text.to_owned()) }
}

/// Refuses what an event of the journal cannot hold; to cut it would change the conversation.
fn fitting(field: &str, text: &str) -> Result<String, Error> {
    if text.len() > EVENT_TEXT_MAX_BYTES {
        return Err(from_wire::too_large(field, text.len(), EVENT_TEXT_MAX_BYTES));
    }
    Ok(text.to_owned())
}

fn join(prompt: &mut String, text: &str) {
    if !prompt.is_empty() {
        prompt.push_str("\n\n");
    }
    prompt.push_str(text);
}

/// Converts the project context and the previous conversation to attachments of the first message, for agents that take
/// neither otherwise.
pub(super) fn told(
    project_context: &str,
    history: &[pb::ConversationMessage],
) -> Result<Vec<Attachment>, Error> {
    let mut files = Vec::new();
    if !project_context.is_empty() {
        files.push(from_wire::text_file("project_context", project_context));
    }
    let mut told = String::new();
    let mut images = Vec::new();
    for (at, message) in history.iter().enumerate() {
        let field = format!("history[{at}]");
        check_role(&field, message)?;
        for (part_at, part) in message.parts.iter().enumerate() {
            let field = format!("{field}.parts[{part_at}]");
            let text = told_part(&field, part, &mut images)?;
            told.push_str(&format!("{}: {text}\n\n", message.role));
        }
    }
    if !told.is_empty() {
        files.push(from_wire::text_file("conversation_so_far", told.trim_end()));
    }
    files.extend(images);
    from_wire::check_size(&files)?;
    Ok(files)
}

/// Returns one part of the previous conversation as text; images are collected separately.
fn told_part(field: &str, part: &pb::ContentPart, images: &mut Vec<Attachment>) -> Result<String, Error> {
    Ok(match &part.part {
        Some(Part::Text(text)) => text.text.clone(),
        Some(Part::Thinking(thinking)) => format!("(thought) {}", thinking.thinking),
        Some(Part::ToolUse(call)) => {
            let input = input(field, call)?;
            format!("(called {} as {} with {input})", call.name, call.id)
        }
        Some(Part::ToolResult(result)) => {
            let how = if result.is_error { "failed" } else { "returned" };
            format!("({} of {} {how}) {}", result.name, result.tool_use_id, result.content)
        }
        Some(Part::Image(image)) => {
            let name = format!("image-{}", images.len() + 1);
            images.push(from_wire::file(field, &name, &image.media_type, &image.data)?);
            format!("(image {name})")
        }
        None => return Err(Error::invalid(field, "is empty")),
    })
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;

    use super::*;

    fn part(part: Part) -> pb::ContentPart {
        pb::ContentPart { part: Some(part) }
    }

    fn text(text: &str) -> pb::ContentPart {
        part(Part::Text(pb::TextContent { text: text.to_owned() }))
    }

    fn message(role: &str, parts: Vec<pb::ContentPart>) -> pb::ConversationMessage {
        pb::ConversationMessage { role: role.to_owned(), parts }
    }

    fn call(id: &str) -> pb::ContentPart {
        part(Part::ToolUse(pb::ToolUseContent { id: id.to_owned(), name: "look".to_owned(), input: None }))
    }

    fn result(id: &str, is_error: bool) -> pb::ContentPart {
        part(Part::ToolResult(pb::ToolResultContent {
            tool_use_id: id.to_owned(),
            name: "look".to_owned(),
            content: "nothing".to_owned(),
            is_error,
        }))
    }

    const TURNS: Capabilities = Capabilities {
        process: false,
        resume: false,
        steer: false,
        questions: false,
        attachments: false,
        compaction: false,
        system_prompt: true,
        history: true,
        system_messages: true,
    };

    #[test]
    fn a_conversation_becomes_turns_with_calls_and_results() {
        let image =
            part(Part::Image(pb::ImageContent { media_type: "image/png".to_owned(), data: vec![1, 2, 3] }));
        let history = [
            message("system", vec![text("be kind")]),
            message("user", vec![text("what is"), text("there?"), image]),
            message("assistant", vec![text("I look"), call("t1")]),
            message("user", vec![result("t1", true)]),
            message("assistant", vec![text("nothing")]),
            message("assistant", vec![text("really")]),
        ];
        let mut settings = BTreeMap::from([(SYSTEM_PROMPT_KEY.to_owned(), "own".to_owned())]);
        let past = divide(TURNS, &["use tabs".to_owned()], &history, &mut settings).unwrap();
        assert_eq!(settings[SYSTEM_PROMPT_KEY], "own\n\nuse tabs\n\nbe kind");
        assert!(past.files.is_empty());
        let image = from_wire::file("", "image", "image/png", &[1, 2, 3]).unwrap();
        let said = |text: &str| EntryKind::Text(text.to_owned());
        let expected = [
            EntryKind::Prompt { text: "what is\n\nthere?".to_owned(), attachments: vec![image] },
            said("I look"),
            EntryKind::CallStarted {
                call: "t1".to_owned(),
                tool: "look".to_owned(),
                input: json!({}),
                title: "look".to_owned(),
            },
            EntryKind::CallFinished { call: "t1".to_owned(), ok: false, output: "nothing".to_owned() },
            said("nothing"),
            said("\n\n"),
            said("really"),
        ];
        assert_eq!(past.turns, expected);
    }

    #[test]
    fn what_no_setting_can_hold_comes_with_the_first_message() {
        let mut settings = BTreeMap::new();
        let long = "x".repeat(CONFIG_VALUE_MAX_BYTES + 1);
        let past = divide(TURNS, &[long], &[], &mut settings).unwrap();
        assert!(settings.is_empty() && past.turns.is_empty());
        assert_eq!(past.files[0].name, "project_context");
    }

    #[test]
    fn an_error_names_the_invalid_part_of_the_history() {
        let refused = |part: pb::ContentPart| {
            let history = [message("user", vec![text("a")]), message("assistant", vec![part])];
            divide(TURNS, &[], &history, &mut BTreeMap::new()).unwrap_err().message
        };
        assert!(refused(pb::ContentPart::default()).starts_with("history[1].parts[0]: "));
        assert!(refused(call("")).starts_with("history[1].parts[0].id: "));
        assert!(refused(result("", false)).starts_with("history[1].parts[0].tool_use_id: "));
        assert!(refused(text(&"x".repeat(EVENT_TEXT_MAX_BYTES + 1))).starts_with("history[1].parts[0]: "));
        let nobody = [message("", vec![text("a")])];
        let error = divide(TURNS, &[], &nobody, &mut BTreeMap::new()).unwrap_err();
        assert!(error.message.starts_with("history[0].role: "));
    }

    #[test]
    fn an_agent_without_turns_is_told_the_past_part_by_part() {
        let history = [pb::ConversationMessage {
            role: "assistant".to_owned(),
            parts: vec![
                part(Part::Text(pb::TextContent { text: "hello".to_owned() })),
                part(Part::ToolUse(pb::ToolUseContent {
                    id: "t1".to_owned(),
                    name: "look".to_owned(),
                    input: None,
                })),
                part(Part::ToolResult(pb::ToolResultContent {
                    tool_use_id: "t1".to_owned(),
                    name: "look".to_owned(),
                    content: "nothing".to_owned(),
                    is_error: true,
                })),
                part(Part::Image(pb::ImageContent {
                    media_type: "image/png".to_owned(),
                    data: vec![1, 2, 3],
                })),
            ],
        }];
        let files = super::told("be kind", &history).unwrap();
        let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["project_context", "conversation_so_far", "image-1"]);
        let told = base64::engine::general_purpose::STANDARD.decode(&files[1].content).unwrap();
        let told = String::from_utf8(told).unwrap();
        assert!(told.contains("assistant: hello") && told.contains("(look of t1 failed) nothing"), "{told}");
        assert!(super::told("", &[]).unwrap().is_empty());
        let empty =
            pb::ConversationMessage { role: "user".to_owned(), parts: vec![pb::ContentPart::default()] };
        assert!(super::told("", &[empty]).is_err());
    }
}
