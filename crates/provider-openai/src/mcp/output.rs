//! The result of a call as text for a model. Pure.

use agent_port::toolbox::ToolOutput;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

/// Returns a result as text; other content is named.
pub(super) fn done(result: CallToolResult) -> ToolOutput {
    let ok = !result.is_error.unwrap_or(false);
    let mut parts: Vec<String> = result.content.iter().map(text).collect();
    if parts.iter().all(String::is_empty)
        && let Some(structured) = &result.structured_content
    {
        parts = vec![structured.to_string()];
    }
    ToolOutput { ok, output: parts.join("\n"), exit_code: None }
}

fn text(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => media("image", &image.mime_type, &image.data),
        ContentBlock::Audio(audio) => media("sound", &audio.mime_type, &audio.data),
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::TextResourceContents { text, .. } => text.clone(),
            ResourceContents::BlobResourceContents { uri, blob, .. } => media("file", uri, blob),
            _ => "[something this version does not know]".to_owned(),
        },
        ContentBlock::ResourceLink(link) => format!("[{}: {}]", link.name, link.uri),
        _ => "[something this version does not know]".to_owned(),
    }
}

fn media(what: &str, kind: &str, data: &str) -> String {
    format!("[{what} {kind}, {} bytes, not shown]", data.len() / 4 * 3)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(result: serde_json::Value) -> (bool, String) {
        let done = done(serde_json::from_value(result).unwrap());
        (done.ok, done.output)
    }

    #[test]
    fn every_kind_of_content_becomes_text() {
        let (ok, output) = shown(json!({"content": [
            {"type": "text", "text": "one"},
            {"type": "image", "data": "aGVsbG8h", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}},
            {"type": "resource_link", "uri": "file:///b", "name": "b"},
        ]}));
        assert!(ok);
        assert_eq!(output, "one\n[image image/png, 6 bytes, not shown]\ninside\n[b: file:///b]");
        assert_eq!(
            shown(json!({"content": [{"type": "text", "text": "no"}], "isError": true})),
            (false, "no".to_owned())
        );
        assert_eq!(shown(json!({"content": [], "structuredContent": {"n": 1}})).1, r#"{"n":1}"#);
    }
}
