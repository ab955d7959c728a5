//! Converts this surface's messages to our types. Pure; errors name the invalid field.

use base64::Engine as _;
use domain::event::{Attachment, ClientTool};
use domain::limits::TOOL_WAIT_MAX;
use domain::{Error, ErrorCode, ProviderKind};
use runtime::environments::is_uuid;
use serde_json::{Value, json};
use wire::roz::v1 as pb;
use wire::roz::v1::content_block::Block;
use wire::roz::v1::content_part::Part;

use crate::limits;
use surface::structs;

/// Name prefixes of tools that only read. Used only if the schema has no category.
const LOOKING: [&str; 7] = ["read", "get", "list", "search", "glob", "grep", "find"];

/// The published tiers and their models.
const TIERS: [(&str, &str); 3] =
    [("fast", "claude-haiku-4-5-20251001"), ("standard", "claude-sonnet-4-6"), ("max", "claude-opus-4-6")];

/// A parsed model name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ModelName {
    /// The provider, if the name contains it.
    pub(super) provider: Option<ProviderKind>,
    /// Empty: the provider's default model.
    pub(super) name: String,
    /// The name was a tier; only Claude has models for tiers.
    tier: bool,
}

impl ModelName {
    /// Returns the model name for a provider.
    pub(super) fn of(&self, provider: ProviderKind) -> String {
        if self.tier && provider != ProviderKind::ClaudeCode { String::new() } else { self.name.clone() }
    }
}

/// Parses a model: a tier, `provider/model`, or a plain name.
pub(super) fn model(text: &str) -> ModelName {
    if let Some((_, name)) = TIERS.iter().find(|(tier, _)| *tier == text) {
        return ModelName { provider: None, name: (*name).to_owned(), tier: true };
    }
    if let Some((provider, name)) = text.split_once('/')
        && let Some(kind) = ProviderKind::parse(provider)
    {
        return ModelName { provider: Some(kind), ..model(name) };
    }
    let codex = ["gpt-", "codex-"].iter().any(|family| text.starts_with(family));
    let provider = if codex { Some(ProviderKind::Codex) } else { None };
    ModelName { provider, name: text.to_owned(), tier: false }
}

/// Checks that a field is a UUID.
pub(super) fn uuid(field: &str, text: &str) -> Result<(), Error> {
    if is_uuid(text) {
        return Ok(());
    }
    let shown: String = text.chars().filter(|letter| !letter.is_control()).take(64).collect();
    Err(Error::invalid(field, format_args!("{shown:?} is no UUID")))
}

/// Parses tools; the first invalid one is the error.
pub(super) fn tools(tools: &[pb::ToolSchema]) -> Result<Vec<ClientTool>, Error> {
    let bytes: usize = tools.iter().map(prost::Message::encoded_len).sum();
    if bytes > limits::TOOLS_MAX_BYTES {
        return Err(too_large("tools", bytes, limits::TOOLS_MAX_BYTES));
    }
    tools.iter().enumerate().map(|(at, schema)| tool(&format!("tools[{at}]"), schema)).collect()
}

fn too_large(field: &str, bytes: usize, most: usize) -> Error {
    Error::new(ErrorCode::LimitReached, format!("{field}: {bytes} bytes; the limit is {most}"))
}

/// Checks the size of a message's text.
pub(super) fn content(text: &str) -> Result<(), Error> {
    let most = domain::limits::PROMPT_MAX_BYTES;
    if text.len() > most { Err(too_large("content", text.len(), most)) } else { Ok(()) }
}

/// Converts a client's tool. Pure tools, and those whose name says that they only look, do not ask for
/// permission.
fn tool(field: &str, schema: &pb::ToolSchema) -> Result<ClientTool, Error> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    let most = limits::TOOL_NAME_MAX_CHARS;
    if schema.name.is_empty() || schema.name.len() > most || !schema.name.chars().all(plain) {
        return Err(Error::invalid(
            &format!("{field}.name"),
            format_args!("must have 1 to {most} letters, digits, _ and -"),
        ));
    }
    let input_schema = match &schema.parameters_schema {
        None => json!({"type": "object"}),
        Some(value) => parameters(structs::to_json(&format!("{field}.parameters_schema"), value)?),
    };
    let category = schema.category();
    let pure = category == pb::ToolCategoryHint::ToolCategoryPure;
    let looks = category == pb::ToolCategoryHint::ToolCategoryUnspecified
        && LOOKING.iter().any(|word| schema.name.starts_with(word));
    let wait = u64::from(schema.timeout_ms).min(TOOL_WAIT_MAX.as_millis() as u64);
    Ok(ClientTool {
        name: schema.name.clone(),
        description: schema.description.clone(),
        input_schema,
        exclusive: !pure,
        timeout_ms: (wait > 0).then_some(wait),
        asks: !pure && !looks,
    })
}

/// Agents accept only object schemas, and their own error messages are less clear.
fn parameters(mut schema: Value) -> Value {
    if let Value::Object(map) = &mut schema
        && map.get("type").is_none_or(|kind| kind != "object")
    {
        map.insert("type".to_owned(), json!("object"));
    }
    schema
}

/// Validates a message id; `None` if the client sent none.
pub(super) fn message_id(id: Option<String>) -> Result<Option<String>, Error> {
    let Some(id) = id.filter(|id| !id.is_empty()) else { return Ok(None) };
    if id.chars().count() > limits::MESSAGE_ID_MAX_CHARS || id.chars().any(char::is_control) {
        let most = limits::MESSAGE_ID_MAX_CHARS;
        return Err(Error::invalid(
            "message_id",
            format_args!("must have at most {most} letters and no control characters"),
        ));
    }
    Ok(Some(id))
}

/// Whether a mode is the observe-orient-decide-act loop, in any of its spellings.
pub(super) fn is_ooda(mode: Option<&str>) -> bool {
    matches!(mode, Some("ooda_re_act" | "ooda_react" | "ooda"))
}

/// Converts the context of a message to attachments, one per block.
pub(super) fn context(blocks: Vec<pb::ContentBlock>) -> Result<Vec<Attachment>, Error> {
    let mut files = Vec::new();
    for (at, block) in blocks.into_iter().enumerate() {
        let field = format!("context[{at}]");
        let label = block.label.filter(|label| !label.is_empty()).unwrap_or_else(|| "Context".to_owned());
        match block.block {
            Some(Block::Text(text)) => files.push(text_file(&label, &text)),
            Some(Block::Binary(binary)) => files.push(file(&field, &label, &binary.mime_type, &binary.data)?),
            None => return Err(Error::invalid(&field, "is empty")),
        }
    }
    Ok(files)
}

/// Converts the project context and the previous conversation to attachments for the first message.
pub(super) fn past(
    project_context: &[String],
    history: &[pb::ConversationMessage],
) -> Result<Vec<Attachment>, Error> {
    let mut files = Vec::new();
    if !project_context.is_empty() {
        files.push(text_file("project_context", &project_context.join("\n\n")));
    }
    let mut told = String::new();
    let mut images = Vec::new();
    for (at, message) in history.iter().enumerate() {
        let field = format!("history[{at}]");
        if message.role.is_empty() {
            return Err(Error::invalid(&format!("{field}.role"), "is required"));
        }
        for (part_at, part) in message.parts.iter().enumerate() {
            let field = format!("{field}.parts[{part_at}]");
            let text = told_part(&field, part, &mut images)?;
            told.push_str(&format!("{}: {text}\n\n", message.role));
        }
    }
    if !told.is_empty() {
        files.push(text_file("conversation_so_far", told.trim_end()));
    }
    files.extend(images);
    check_size(&files)?;
    Ok(files)
}

/// Returns one part of the previous conversation as text; images are collected separately.
fn told_part(field: &str, part: &pb::ContentPart, images: &mut Vec<Attachment>) -> Result<String, Error> {
    Ok(match &part.part {
        Some(Part::Text(text)) => text.text.clone(),
        Some(Part::Thinking(thinking)) => format!("(thought) {}", thinking.thinking),
        Some(Part::ToolUse(call)) => {
            let input = call.input.as_ref().map(|input| structs::to_json(&format!("{field}.input"), input));
            let input = input.transpose()?.unwrap_or_else(|| json!({}));
            format!("(called {} as {} with {input})", call.name, call.id)
        }
        Some(Part::ToolResult(result)) => {
            let how = if result.is_error { "failed" } else { "returned" };
            format!("({} of {} {how}) {}", result.name, result.tool_use_id, result.content)
        }
        Some(Part::Image(image)) => {
            let name = format!("image-{}", images.len() + 1);
            images.push(file(field, &name, &image.media_type, &image.data)?);
            format!("(image {name})")
        }
        None => return Err(Error::invalid(field, "is empty")),
    })
}

/// Returns a text as an attachment.
pub(super) fn text_file(name: &str, text: &str) -> Attachment {
    Attachment {
        name: name.to_owned(),
        media_type: "text/plain".to_owned(),
        content: base64::engine::general_purpose::STANDARD.encode(text),
    }
}

/// Returns an attachment; the media type must be valid.
fn file(field: &str, name: &str, media_type: &str, data: &[u8]) -> Result<Attachment, Error> {
    let known = media_type.split_once('/').is_some_and(|(kind, more)| !kind.is_empty() && !more.is_empty());
    if !known {
        return Err(Error::invalid(field, format_args!("{media_type:?} is no media type such as image/png")));
    }
    Ok(Attachment {
        name: name.to_owned(),
        media_type: media_type.to_owned(),
        content: base64::engine::general_purpose::STANDARD.encode(data),
    })
}

/// Checks the total size of a message's attachments.
pub(super) fn check_size(files: &[Attachment]) -> Result<(), Error> {
    let bytes: usize = files.iter().map(|file| file.content.len() / 4 * 3).sum();
    let (most, count) = (surface::limits::ATTACHMENTS_MAX_BYTES, surface::limits::ATTACHMENTS_MAX);
    if bytes > most {
        return Err(Error::new(
            ErrorCode::LimitReached,
            format!("context: about {bytes} bytes; the limit is {most}"),
        ));
    }
    if files.len() > count {
        let found = files.len();
        return Err(Error::new(
            ErrorCode::LimitReached,
            format!("context: {found} blocks; the limit is {count}"),
        ));
    }
    Ok(())
}

/// Returns whether a tool succeeded, and its result as text for the agent.
pub(super) fn result(result: &pb::ToolResult) -> (bool, String) {
    if result.result.len() > limits::TOOL_RESULT_MAX_BYTES {
        let (bytes, most) = (result.result.len(), limits::TOOL_RESULT_MAX_BYTES);
        return (false, format!("the tool's result has {bytes} bytes; the limit is {most}"));
    }
    let mut text = result.result.clone();
    let mut add = |note: String| {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&note);
    };
    if let Some(code) = result.exit_code.filter(|code| *code != 0) {
        add(format!("exit code {code}"));
    }
    if result.truncated {
        add("(truncated)".to_owned());
    }
    (result.success, text)
}

#[cfg(test)]
mod tests {
    use prost_types::Struct;

    use super::*;

    fn schema(name: &str, category: pb::ToolCategoryHint) -> pb::ToolSchema {
        pb::ToolSchema { name: name.to_owned(), category: category.into(), ..Default::default() }
    }

    #[test]
    fn tiers_stand_for_models_of_claude_only() {
        let fast = model("fast");
        assert_eq!(fast.of(ProviderKind::ClaudeCode), "claude-haiku-4-5-20251001");
        assert_eq!(fast.of(ProviderKind::Codex), "");
        assert_eq!(model("standard").name, "claude-sonnet-4-6");
        assert_eq!(model("max").name, "claude-opus-4-6");
        assert_eq!(model("claude-x").of(ProviderKind::Codex), "claude-x");
        assert_eq!(model("gpt-5.5").provider, Some(ProviderKind::Codex));
        assert_eq!(model("codex/gpt-5.5").of(ProviderKind::Codex), "gpt-5.5");
        assert_eq!(model("scripted/").provider, Some(ProviderKind::Scripted));
        assert_eq!(model("openrouter/x").name, "openrouter/x");
    }

    #[test]
    fn what_a_tool_is_decides_how_it_runs() {
        let read = |name: &str, category| tool("tools[0]", &schema(name, category)).unwrap();
        let pure = read("add", pb::ToolCategoryHint::ToolCategoryPure);
        assert_eq!((pure.exclusive, pure.asks), (false, false));
        let physical = read("read_arm", pb::ToolCategoryHint::ToolCategoryPhysical);
        assert_eq!((physical.exclusive, physical.asks), (true, true));
        let looking = read("get_pose", pb::ToolCategoryHint::ToolCategoryUnspecified);
        assert_eq!((looking.exclusive, looking.asks), (true, false));
        let acting = read("move", pb::ToolCategoryHint::ToolCategoryUnspecified);
        assert_eq!((acting.exclusive, acting.asks), (true, true));
        assert_eq!(acting.input_schema, json!({"type": "object"}));
    }

    #[test]
    fn wrong_tools_are_refused_by_name() {
        for name in ["", "a b", "a.b", &"x".repeat(101)] {
            let wrong = tools(&[schema("fine", Default::default()), schema(name, Default::default())]);
            assert!(wrong.unwrap_err().message.starts_with("tools[1].name: "), "{name}");
        }
        let value = prost_types::Value { kind: Some(prost_types::value::Kind::NumberValue(f64::NAN)) };
        let parameters = Struct { fields: [("x".to_owned(), value)].into() };
        let garbage =
            pb::ToolSchema { parameters_schema: Some(parameters), ..schema("a", Default::default()) };
        assert!(tools(&[garbage]).unwrap_err().message.contains("parameters_schema.x"));
    }

    #[test]
    fn the_past_is_told_part_by_part() {
        let part = |part| pb::ContentPart { part: Some(part) };
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
        let files = past(&["be kind".to_owned()], &history).unwrap();
        let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["project_context", "conversation_so_far", "image-1"]);
        let told = base64::engine::general_purpose::STANDARD.decode(&files[1].content).unwrap();
        let told = String::from_utf8(told).unwrap();
        assert!(told.contains("assistant: hello") && told.contains("(look of t1 failed) nothing"), "{told}");
        assert!(past(&[], &[]).unwrap().is_empty());
        let empty =
            pb::ConversationMessage { role: "user".to_owned(), parts: vec![pb::ContentPart::default()] };
        assert!(past(&[], &[empty]).is_err());
    }

    #[test]
    fn large_context_is_refused_with_its_limit() {
        let block = pb::ContentBlock {
            block: Some(Block::Text("x".repeat(surface::limits::ATTACHMENTS_MAX_BYTES + 10))),
            label: None,
        };
        let error = check_size(&context(vec![block]).unwrap()).unwrap_err();
        assert_eq!(error.code, ErrorCode::LimitReached);
        assert!(error.message.contains(&surface::limits::ATTACHMENTS_MAX_BYTES.to_string()), "{error}");
    }

    #[test]
    fn both_spellings_of_the_mode_are_known() {
        for name in ["ooda_re_act", "ooda_react", "ooda"] {
            assert!(is_ooda(Some(name)));
        }
        assert!(!is_ooda(Some("react")) && !is_ooda(None) && !is_ooda(Some("other")));
    }
}
