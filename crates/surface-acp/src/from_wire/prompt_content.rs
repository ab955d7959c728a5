//! The blocks of a prompt in our types: what the protocol's content blocks become, and which an agent cannot take. Pure;
//! must not know sessions.

use domain::event::Attachment;
use serde_json::Value;

use super::super::rpc::RpcError;
use super::check_members;

/// The content of a prompt in our types.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PromptContent {
    pub(crate) text: String,
    pub(crate) attachments: Vec<Attachment>,
}

/// Parses the blocks of a prompt. `takes_files`: the agent accepts more than text.
pub(crate) fn content(blocks: &[Value], takes_files: bool) -> Result<PromptContent, RpcError> {
    let mut said = PromptContent::default();
    let mut context = String::new();
    for (at, block) in blocks.iter().enumerate() {
        check_block(&format!("prompt[{at}]"), block)?;
        let text = |field: &str| block[field].as_str().unwrap_or_default();
        match text("type") {
            "text" => add(&mut said.text, text("text")),
            "image" if takes_files => {
                let (media_type, data) = (text("mimeType"), text("data"));
                attach(&mut said, file_name(text("uri"), media_type), media_type, data)?;
            }
            "image" => return Err(RpcError::params("prompt: this agent takes no images")),
            "resource_link" => add(&mut said.text, &link(text("title"), text("name"), text("uri"))),
            "resource" => {
                let resource = &block["resource"];
                let uri = resource["uri"].as_str().unwrap_or_default();
                match (resource["text"].as_str(), resource["blob"].as_str()) {
                    (Some(body), _) => {
                        add(&mut said.text, &link("", "", uri));
                        context.push_str(&format!("\n<context ref=\"{uri}\">\n{body}\n</context>"));
                    }
                    (None, Some(blob)) if takes_files => {
                        let media_type = resource["mimeType"].as_str().unwrap_or("application/octet-stream");
                        attach(&mut said, file_name(uri, media_type), media_type, blob)?;
                    }
                    _ => return Err(RpcError::params("prompt: a resource needs a text this agent can read")),
                }
            }
            "audio" => return Err(RpcError::params("prompt: audio is not supported")),
            other => {
                let shown: String = other.chars().filter(|letter| !letter.is_control()).take(32).collect();
                return Err(RpcError::params(format!("prompt: blocks of type {shown:?} are not supported")));
            }
        }
    }
    said.text.push_str(&context);
    if said.text.trim().is_empty() && said.attachments.is_empty() {
        return Err(RpcError::params("prompt: is empty"));
    }
    Ok(said)
}

/// Refuses what a block has and nothing would use. The blocks of other types are refused as such.
fn check_block(what: &str, block: &Value) -> Result<(), RpcError> {
    let known: &[&str] = match block["type"].as_str() {
        Some("text") if !block["text"].is_string() => {
            return Err(RpcError::params(format!("{what}: a block of type text needs a text")));
        }
        Some("text") => &["type", "annotations", "text"],
        Some("image") => &["type", "annotations", "data", "mimeType", "uri"],
        Some("resource_link") => {
            &["type", "annotations", "description", "icons", "mimeType", "name", "size", "title", "uri"]
        }
        Some("resource") => {
            let held = &["mimeType", "text", "blob", "uri"];
            check_members(&format!("{what}.resource"), &block["resource"], held)?;
            &["type", "annotations", "resource"]
        }
        _ => return Ok(()),
    };
    check_members(what, block, known)
}

/// Appends without a separator: editors split a message into blocks wherever something is mentioned.
fn add(text: &mut String, piece: &str) {
    text.push_str(piece);
}

/// Formats a link as Markdown, with the best available label.
fn link(title: &str, name: &str, uri: &str) -> String {
    let own = uri.rsplit('/').next().unwrap_or(uri);
    let shown = [title, name, own].into_iter().find(|text| !text.is_empty()).unwrap_or("link");
    let path = uri.strip_prefix("file://").unwrap_or(uri);
    format!("[@{shown}]({path})")
}

fn file_name(uri: &str, media_type: &str) -> String {
    let own = uri.rsplit('/').next().filter(|name| !name.is_empty());
    own.map_or_else(|| format!("file.{}", media_type.rsplit('/').next().unwrap_or("bin")), str::to_owned)
}

/// Adds a file to a prompt, within the limits of number and size.
fn attach(said: &mut PromptContent, name: String, media_type: &str, content: &str) -> Result<(), RpcError> {
    use base64::Engine as _;
    if media_type.is_empty() || base64::engine::general_purpose::STANDARD.decode(content).is_err() {
        return Err(RpcError::params(format!("prompt: {name} needs a mimeType and base64 data")));
    }
    let held: usize = said.attachments.iter().map(|attachment| attachment.content.len()).sum();
    let most = surface::limits::ATTACHMENTS_MAX_BYTES / 3 * 4;
    if held + content.len() > most || said.attachments.len() >= surface::limits::ATTACHMENTS_MAX {
        let (bytes, files) = (surface::limits::ATTACHMENTS_MAX_BYTES, surface::limits::ATTACHMENTS_MAX);
        return Err(RpcError::params(format!("prompt: at most {files} files and {bytes} bytes of them")));
    }
    said.attachments.push(Attachment {
        name,
        media_type: media_type.to_owned(),
        content: content.to_owned(),
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn blocks_become_one_message() {
        let blocks = [
            json!({"type": "text", "text": "Look at "}),
            json!({"type": "resource_link", "name": "a.rs", "uri": "file:///w/a.rs"}),
            json!({"type": "text", "text": " and "}),
            json!({"type": "resource", "resource": {"uri": "file:///w/b.rs", "text": "fn b() {}"}}),
            json!({"type": "image", "mimeType": "image/png", "data": "AAAA"}),
        ];
        let said = content(&blocks, true).unwrap();
        assert_eq!(
            said.text,
            "Look at [@a.rs](/w/a.rs) and [@b.rs](/w/b.rs)\n<context ref=\"file:///w/b.rs\">\nfn b() {}\n</context>"
        );
        assert_eq!((said.attachments[0].name.as_str(), said.attachments.len()), ("file.png", 1));
    }

    #[test]
    fn what_an_agent_cannot_take_is_refused_by_name() {
        let refused = |block: Value| content(&[block], false).unwrap_err().message;
        assert!(
            refused(json!({"type": "image", "mimeType": "image/png", "data": "AAAA"})).contains("no images")
        );
        assert!(refused(json!({"type": "audio"})).contains("audio"));
        assert!(refused(json!({"type": "video"})).contains("\"video\""));
        assert!(refused(json!({"type": "text", "text": " "})).contains("is empty"));
        assert!(refused(json!({"type": "text", "txt": "x"})).contains("needs a text"));
        let misspelt = refused(json!({"type": "text", "text": "x", "annotation": {}}));
        assert!(misspelt.starts_with("prompt[0]: unknown field \"annotation\""), "{misspelt}");
        let inner = refused(json!({"type": "resource", "resource": {"uri": "u", "text": "x", "mime": "y"}}));
        assert!(inner.starts_with("prompt[0].resource: unknown field \"mime\""), "{inner}");
        assert!(content(&[], true).is_err());
        let bad = json!({"type": "image", "mimeType": "image/png", "data": "?"});
        assert!(content(&[bad], true).unwrap_err().message.contains("base64"));
    }
}
