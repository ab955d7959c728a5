//! Parses what agents wrote with the protocol's own types. Those require fields that agents omit or write in
//! their own way, and silently skip list entries for it. What they require is filled in before, so that a
//! deviation costs that field and not the line. Does not interpret anything. Pure.

use std::sync::LazyLock;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// What the types require, by the name of the method or the update. Missing texts, lists and numbers are
/// filled in; null stands for an optional text; of words separated by bars one must be present, otherwise the
/// first is used; a number is the maximum. Objects are processed if they are present.
static DEMANDS: LazyLock<Value> = LazyLock::new(|| {
    const SMALL: u32 = u32::MAX;
    const LARGE: u64 = u64::MAX;
    let part = json!({"text": "", "name": ""});
    // Only texts are used of these, whatever their type.
    let said = json!({"type": "text|image|audio|resource_link|resource", "text": "", "name": ""});
    let call =
        json!({"toolCallId": "", "title": "", "content": [{"path": "", "newText": "", "content": said}]});
    let option = json!({"id": "", "name": "", "type": "select|boolean", "currentValue": "",
        "options": [{"value": "", "name": ""}]});
    let terminal = json!({"sessionId": "", "terminalId": ""});
    json!({
        "initialize": {"protocolVersion": u16::MAX, "agentInfo": {"name": "", "version": ""}, "agentCapabilities": {
            "loadSession": false, "sessionCapabilities": {"resume": {}}, "promptCapabilities": {"image": false},
            "mcpCapabilities": {"http": false, "sse": false}}},
        "session/new": {"sessionId": "", "configOptions": [option],
            "modes": {"currentModeId": "", "availableModes": [{"id": "", "name": ""}]}},
        "session/prompt": {"stopReason": "end_turn|max_tokens|max_turn_requests|refusal|cancelled",
            "usage": {"totalTokens": LARGE, "inputTokens": LARGE, "outputTokens": LARGE, "cachedReadTokens": LARGE,
                "cachedWriteTokens": LARGE}},
        "agent_message_chunk": {"content": part},
        "agent_thought_chunk": {"content": said},
        "tool_call": call,
        "tool_call_update": call,
        "plan": {"entries": [{"content": "", "priority": "medium|high|low",
            "status": "pending|in_progress|completed"}]},
        "available_commands_update": {"availableCommands": [{"name": "", "description": ""}]},
        "current_mode_update": {"currentModeId": ""},
        "config_option_update": {"configOptions": [option]},
        "usage_update": {"used": LARGE, "size": LARGE, "cost": {"currency": ""}},
        "notice": {"severity": "", "title": ""},
        "session/request_permission": {"sessionId": "", "toolCall": call,
            "options": [{"optionId": "", "name": "", "kind": ""}]},
        "fs/read_text_file": {"sessionId": "", "path": "", "line": SMALL, "limit": SMALL},
        "fs/write_text_file": {"sessionId": "", "path": "", "content": ""},
        "terminal/create": {"sessionId": "", "command": "", "args": [""], "env": [{"name": "", "value": ""}],
            "cwd": null, "outputByteLimit": LARGE},
        "terminal/output": terminal,
        "terminal/wait_for_exit": terminal,
        "terminal/kill": terminal,
        "terminal/release": terminal,
    })
});

/// Parses a value with a type, as far as possible.
pub(super) fn read<T: DeserializeOwned>(value: &mut Value, name: &str) -> Option<T> {
    if !value.is_object() {
        *value = json!({});
    }
    if let Some(Value::Array(settings)) = value.get_mut("configOptions") {
        settings.iter_mut().for_each(ungroup);
    }
    mend(value, &DEMANDS[name]);
    T::deserialize(&*value).ok()
}

/// Takes the options of a setting out of their groups. The types have lists with groups and lists without;
/// agents mix them.
fn ungroup(setting: &mut Value) {
    let Some(Value::Array(options)) = setting.get_mut("options") else { return };
    let each = |mut option: Value| match option.get_mut("options") {
        Some(Value::Array(group)) if !group.is_empty() => std::mem::take(group),
        _ => vec![option],
    };
    *options = std::mem::take(options).into_iter().flat_map(each).collect();
}

/// Changes a value so that it meets a demand; see [`DEMANDS`].
fn mend(value: &mut Value, demand: &Value) {
    match (demand, &mut *value) {
        (Value::Object(fields), Value::Object(map)) => {
            for (key, demand) in fields {
                if let Some(value) = map.get_mut(key) {
                    mend(value, demand);
                } else if !demand.is_object() && !demand.is_boolean() {
                    mend(map.entry(key).or_insert(Value::Null), demand);
                }
            }
        }
        // A flag without details, and a flag with details.
        (Value::Object(_), Value::Bool(true)) => *value = json!({}),
        (Value::Bool(_), Value::Object(_)) => *value = true.into(),
        (Value::Array(entry), Value::Array(all)) => {
            // Some lists would be lost because of one entry of another type.
            all.retain(|value| if entry[0].is_object() { value.is_object() } else { is_text(value) });
            all.iter_mut().for_each(|value| mend(value, &entry[0]));
        }
        (Value::Array(_), _) => *value = json!([]),
        (Value::String(words), Value::String(word))
            if words.is_empty() || words.split('|').any(|one| one == word) => {}
        // Numeric ids.
        (Value::String(words), Value::Number(number)) if words.is_empty() => {
            *value = number.to_string().into()
        }
        (Value::String(words), _) => *value = words.split('|').next().into(),
        (Value::Number(most), _) => {
            let count = value.as_u64().or_else(|| value.as_f64().map(|count| count as u64));
            *value = count.min(most.as_u64()).unwrap_or(0).into();
        }
        (Value::Null, Value::String(_)) => {}
        (Value::Null, _) => *value = Value::Null,
        _ => {}
    }
}

fn is_text(value: &Value) -> bool {
    value.is_string() || value.is_number()
}
