//! Converts this surface's messages to our types. Pure; errors name the invalid field.

use std::collections::HashSet;

use base64::Engine as _;
use domain::event::{Attachment, ClientTool};
use domain::limits::TOOL_WAIT_MAX;
use domain::{Error, ErrorCode, ProviderKind};
use runtime::environments::is_uuid;
use serde_json::{Value, json};
use wire::roz::v1 as pb;
use wire::roz::v1::content_block::Block;

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
    let mut names = HashSet::new();
    if let Some((at, twice)) =
        tools.iter().enumerate().find(|(_, schema)| !names.insert(schema.name.as_str()))
    {
        return Err(Error::invalid(
            &format!("tools[{at}].name"),
            format_args!("{:?} is there twice", twice.name),
        ));
    }
    tools.iter().enumerate().map(|(at, schema)| tool(&format!("tools[{at}]"), schema)).collect()
}

pub(super) fn too_large(field: &str, bytes: usize, most: usize) -> Error {
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

/// Returns a text as an attachment.
pub(super) fn text_file(name: &str, text: &str) -> Attachment {
    text_of_type(name, "text/plain", text)
}

/// Returns a text as an attachment that agents take as a system message where they can.
pub(super) fn system_text(name: &str, text: &str) -> Attachment {
    text_of_type(name, Attachment::SYSTEM_MEDIA_TYPE, text)
}

fn text_of_type(name: &str, media_type: &str, text: &str) -> Attachment {
    Attachment {
        name: name.to_owned(),
        media_type: media_type.to_owned(),
        content: base64::engine::general_purpose::STANDARD.encode(text),
    }
}

/// Returns an attachment; the media type must be valid.
pub(super) fn file(field: &str, name: &str, media_type: &str, data: &[u8]) -> Result<Attachment, Error> {
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
    // A program that failed is no success, whatever its client says.
    (result.success && result.exit_code.unwrap_or(0) == 0, text)
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
        let twice = tools(&[schema("a", Default::default()), schema("a", Default::default())]).unwrap_err();
        assert_eq!(twice.message, "tools[1].name: \"a\" is there twice");
        let value = prost_types::Value { kind: Some(prost_types::value::Kind::NumberValue(f64::NAN)) };
        let parameters = Struct { fields: [("x".to_owned(), value)].into() };
        let garbage =
            pb::ToolSchema { parameters_schema: Some(parameters), ..schema("a", Default::default()) };
        assert!(tools(&[garbage]).unwrap_err().message.contains("parameters_schema.x"));
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
    fn a_result_with_an_exit_code_is_what_the_code_says() {
        let of = |success, exit_code| {
            result(&pb::ToolResult { success, exit_code, result: "x".to_owned(), ..Default::default() })
        };
        assert_eq!(of(true, Some(1)), (false, "x\nexit code 1".to_owned()));
        assert_eq!((of(true, Some(0)).0, of(true, None).0, of(false, Some(0)).0), (true, true, false));
    }

    #[test]
    fn both_spellings_of_the_mode_are_known() {
        for name in ["ooda_re_act", "ooda_react", "ooda"] {
            assert!(is_ooda(Some(name)));
        }
        assert!(!is_ooda(Some("react")) && !is_ooda(None) && !is_ooda(Some("other")));
    }
}
