//! Reads a Responses request: why the agent sent it, and what in it a person wrote. What Codex adds by itself
//! (surroundings, instructions, notices) is told apart here, and only here.

use serde_json::{Map, Value, json};

use crate::model_server::record::Purpose;
use crate::model_server::script::{Choice, Entry, Reply};

/// Beginnings of texts that Codex writes in the user's name, beside those in angle brackets; observed with 0.166.
const NOT_PROMPTS: &[&str] = &["# AGENTS.md instructions", "Another language model started to solve"];
/// What the last message of a request for a summary begins with: Codex's, and the daemon's own.
const COMPACTION: [&str; 2] =
    ["You are performing a CONTEXT CHECKPOINT COMPACTION", "Summarise the conversation so far"];

/// What every summary says.
pub(in crate::model_server) const SUMMARY: &str = "A scripted conversation took place.";

/// What Codex says in the user's name when a turn was interrupted.
const ABORTED: &str = "<turn_aborted>";

/// Why the request was sent.
pub(super) fn purpose(body: &Value) -> Purpose {
    let last = items(body).iter().rfind(|item| is_message(item, "user")).map(texts).unwrap_or_default();
    if body["text"]["format"]["type"] == "json_schema" {
        Purpose::Other
    } else if last.iter().any(|text| asks_for_summary(text)) {
        Purpose::Compaction
    } else {
        Purpose::Turn
    }
}

/// Whether a message asks for a summary of the conversation.
pub(in crate::model_server) fn asks_for_summary(text: &str) -> bool {
    COMPACTION.iter().any(|start| text.trim_start().starts_with(start))
}

/// The reply to a request that is not part of a conversation.
pub(super) fn side_reply(purpose: Purpose, body: &Value) -> Reply {
    let schema = &body["text"]["format"]["schema"];
    if schema.is_object() {
        return Reply::text(instance(schema, "value").to_string());
    }
    Reply::text(match purpose {
        Purpose::Compaction => SUMMARY,
        _ => "ok",
    })
}

/// Names one step of one conversation. A retry sends the same conversation again and so has the same name.
pub(super) fn step_name(body: &Value, choice: &Choice) -> String {
    let thread = body["prompt_cache_key"].as_str().unwrap_or_default();
    format!("{thread} {} {} {}", items(body).len(), choice.step, choice.key)
}

/// The conversation as scripts see it. One reply of the model is several items here: they count once.
pub(super) fn entries(body: &Value) -> Vec<Entry> {
    if let Some(text) = body["input"].as_str() {
        return prompt(text).map(Entry::Prompt).into_iter().collect();
    }
    let mut entries = Vec::new();
    let (mut in_reply, mut last_reply) = (false, String::new());
    let mut at_work = false;
    for item in items(body) {
        if is_message(item, "user") {
            in_reply = false;
            let said: Vec<String> = texts(item).into_iter().filter_map(prompt).collect();
            // Right behind a tool's result the turn goes on: what has no script only adds to it.
            let adds = at_work && said.iter().all(|text| !text.contains("SCRIPT:"));
            at_work &= adds && !texts(item).iter().any(|text| text.trim_start().starts_with(ABORTED));
            if !adds {
                entries.extend(said.into_iter().map(Entry::Prompt));
            }
        } else if kind(item) == "agent_message" {
            // How a sub-agent is told its task; the messages back to its parent have no script.
            in_reply = false;
            let scripts = texts(item).into_iter().filter(|text| text.contains("SCRIPT:"));
            entries.extend(scripts.filter_map(prompt).map(Entry::Prompt));
        } else if is_output(item) {
            in_reply = false;
            at_work = true;
        } else if is_of_model(item) {
            at_work = false;
            let reply = item["call_id"].as_str().map(reply_of).unwrap_or_default();
            // Calls made side by side may come with their outputs in between.
            let same = !reply.is_empty() && reply == last_reply;
            if !in_reply && !same {
                entries.push(Entry::Assistant);
            }
            in_reply = true;
            if !reply.is_empty() {
                reply.clone_into(&mut last_reply);
            }
        }
    }
    entries
}

/// The part of a call's id that all calls of one reply share; see `tools::as_offered`.
fn reply_of(call_id: &str) -> &str {
    call_id.rsplit_once('_').map_or(call_id, |(reply, _)| reply)
}

fn items(body: &Value) -> &[Value] {
    body["input"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn kind(item: &Value) -> &str {
    item["type"].as_str().unwrap_or("message")
}

fn is_message(item: &Value, role: &str) -> bool {
    kind(item) == "message" && item["role"] == role
}

fn is_output(item: &Value) -> bool {
    kind(item).ends_with("_output")
}

fn is_of_model(item: &Value) -> bool {
    is_message(item, "assistant") || kind(item) == "reasoning" || kind(item).ends_with("_call")
}

fn texts(message: &Value) -> Vec<&str> {
    match &message["content"] {
        Value::String(text) => vec![text],
        Value::Array(parts) => {
            let texts = parts.iter().flat_map(|part| [&part["text"], &part["encrypted_content"]]);
            texts.filter_map(Value::as_str).collect()
        }
        _ => Vec::new(),
    }
}

/// What a person wrote in this text, if anything.
fn prompt(text: &str) -> Option<String> {
    let text = text.trim();
    let tagged = text.starts_with('<') && !text.contains("SCRIPT:");
    let added = text.is_empty() || tagged || NOT_PROMPTS.iter().any(|word| text.starts_with(word));
    (!added).then(|| text.to_owned())
}

/// The smallest value that a JSON schema allows, as far as agents' side requests need it.
fn instance(schema: &Value, name: &str) -> Value {
    if let Some(first) = schema["enum"].as_array().and_then(|values| values.first()) {
        return first.clone();
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().find(|kind| *kind != "null").cloned().unwrap_or_default(),
        kind => kind.clone(),
    };
    match kind.as_str() {
        Some("array") => json!([]),
        Some("number" | "integer") => json!(1),
        Some("boolean") => json!(false),
        Some("string") => json!(format!("scripted {name}")),
        _ => {
            let fields = schema["properties"].as_object().cloned().unwrap_or_default();
            let filled = fields.iter().map(|(name, field)| (name.clone(), instance(field, name)));
            Value::Object(filled.collect::<Map<String, Value>>())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_reply_of_many_items_is_one_step() {
        let body = json!({"input": [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "SCRIPT: []"}]},
            {"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": "<environment_context>\n</environment_context>"},
                {"type": "input_text", "text": "# AGENTS.md instructions for /x"},
            ]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "one SCRIPT: []"}]},
            {"type": "reasoning", "summary": []},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
            {"type": "function_call", "call_id": "call_1_0"},
            {"type": "function_call_output", "call_id": "call_1_0", "output": "x"},
            {"type": "custom_tool_call", "call_id": "call_1_1"},
            {"type": "custom_tool_call_output", "call_id": "call_1_1", "output": "x"},
            {"type": "function_call", "call_id": "call_2_0"},
            {"type": "function_call_output", "call_id": "call_2_0", "output": "x"},
        ]});
        let expected = [Entry::Prompt("one SCRIPT: []".into()), Entry::Assistant, Entry::Assistant];
        assert_eq!(entries(&body), expected);
        assert_eq!(purpose(&body), Purpose::Turn);
        assert_eq!(entries(&json!({"input": "plain"})), [Entry::Prompt("plain".into())]);
    }

    #[test]
    fn what_is_said_during_a_turn_adds_to_it_unless_it_has_a_script() {
        let user = |text: &str| json!({"type": "message", "role": "user", "content": text});
        let (call, output) = (json!({"type": "function_call"}), json!({"type": "function_call_output"}));
        let said = |items: Vec<Value>| entries(&json!({ "input": items }));
        let first = || Entry::Prompt("one SCRIPT: []".into());
        let begun = vec![user("one SCRIPT: []"), call, output];
        let with = |more: &[Value]| [begun.clone(), more.to_vec()].concat();
        assert_eq!(said(with(&[user("also this")])), [first(), Entry::Assistant]);
        let second = Entry::Prompt("two SCRIPT: []".into());
        assert_eq!(said(with(&[user("two SCRIPT: []")])), [first(), Entry::Assistant, second]);
        // After an interrupt it is a turn of its own.
        let aborted = user("<turn_aborted>\n</turn_aborted>");
        assert_eq!(
            said(with(&[aborted, user("hello")])),
            [first(), Entry::Assistant, Entry::Prompt("hello".into())]
        );
    }

    #[test]
    fn a_form_is_filled_with_the_least_it_takes() {
        let schema = json!({"type": "object", "properties": {
            "title": {"type": ["string", "null"]}, "risk": {"enum": ["low", "high"]}, "n": {"type": "integer"}}});
        let body = json!({"input": [], "text": {"format": {"type": "json_schema", "schema": schema}}});
        assert_eq!(purpose(&body), Purpose::Other);
        let reply = side_reply(Purpose::Other, &body);
        assert_eq!(reply, Reply::text(r#"{"title":"scripted title","risk":"low","n":1}"#));
    }
}
