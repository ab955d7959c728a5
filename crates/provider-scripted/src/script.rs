//! The language of scripts: `SCRIPT: [step, …]` at the end of a prompt, each step an object with one verb.
//!
//! | step | effect |
//! |---|---|
//! | `{"text":"…","chunks":N,"gap_ms":M}` | sends the text in N pieces, M ms apart |
//! | `{"thinking":"…","chunks":N,"gap_ms":M}` | the same as thinking |
//! | `{"tool":"Bash","input":{…},"ask":true,"result":"…","ok":true}` | calls a tool, after asking if `ask` |
//! | `{"tool":"mcp__obey__NAME","input":{…}}` | calls a client's tool and sends its result as text |
//! | `{"question":{"text":"…","options":["A","B"]}}` | asks, and sends the answer as text |
//! | `{"todo":["a",{"text":"b","description":"…","active_form":"…","status":"in_progress","priority":"high"}]}` | sends a to-do list |
//! | `{"usage":{"input_tokens":10,"output_tokens":5,"cost_micro_usd":100}}` | reports this usage |
//! | `{"wait_file":"/path"}`, `{"hang":true}` | waits until the file exists; forever |
//! | `{"ignore_term":true}` | SIGTERM no longer ends it |
//! | `{"crash":3}`, `{"crash_signal":9}` | exits with that code; by that signal |
//! | `{"garbage":"…"}` | writes that line (or list of bytes) unchanged |
//! | `{"stderr":"…"}` | writes to standard error |
//! | `{"flood":{"lines":N,"text":"…"}}` | sends the text N times as fast as possible |
//! | `{"long_line":BYTES}` | sends one text of that many bytes |
//! | `{"spawn_child":true}` | leaves a child in its own process session and sends its pid |
//! | `{"plan_mode":true}`, `{"compact":true}` | reports these |
//! | `{"error":"…"}` | fails the turn |

use std::path::PathBuf;
use std::time::Duration;

use domain::Usage;
use domain::event::{Todo, TodoPriority, TodoStatus};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::limits;
use provider_common::suggestion::near;

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ScriptStep {
    Text(TextPieces),
    Thinking(TextPieces),
    Tool { tool: String, input: Value, ask: bool, result: String, ok: bool },
    Question { text: String, options: Vec<String> },
    Todo(Vec<Todo>),
    Usage(Usage),
    WaitFile(PathBuf),
    Hang,
    IgnoreTerm,
    Crash(i32),
    CrashSignal(i32),
    Garbage(Vec<u8>),
    Stderr(String),
    Flood { lines: u64, text: String },
    LongLine(u64),
    SpawnChild,
    PlanMode(bool),
    Compact,
    Error(String),
}

/// A text and how it is streamed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TextPieces {
    pub(super) text: String,
    pub(super) chunks: usize,
    pub(super) gap: Duration,
}

impl TextPieces {
    /// Returns the pieces, of about the same length; never more than there are characters.
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        let length = self.text.chars().count();
        let chunks = self.chunks.clamp(1, length.max(1));
        let cut = move |at: usize| {
            let letter = length * at / chunks;
            self.text.char_indices().nth(letter).map_or(self.text.len(), |(byte, _)| byte)
        };
        (0..chunks).map(move |at| &self.text[cut(at)..cut(at + 1)])
    }
}

/// Every verb with the additional keys it accepts.
const VERBS: [(&str, &[&str]); 19] = [
    ("text", &["chunks", "gap_ms"]),
    ("thinking", &["chunks", "gap_ms"]),
    ("tool", &["input", "ask", "result", "ok"]),
    ("question", &[]),
    ("todo", &[]),
    ("usage", &[]),
    ("wait_file", &[]),
    ("hang", &[]),
    ("ignore_term", &[]),
    ("crash", &[]),
    ("crash_signal", &[]),
    ("garbage", &[]),
    ("stderr", &[]),
    ("flood", &[]),
    ("long_line", &[]),
    ("spawn_child", &[]),
    ("plan_mode", &[]),
    ("compact", &[]),
    ("error", &[]),
];

/// Parses the script of a prompt; `None` if the prompt has none.
pub(super) fn read(prompt: &str) -> Option<Result<Vec<ScriptStep>, String>> {
    let (_, script) = prompt.split_once("SCRIPT:")?;
    let steps: Vec<Value> = match serde_json::from_str(script.trim()) {
        Ok(steps) => steps,
        Err(error) => return Some(Err(format!("the script is not a JSON list: {error}"))),
    };
    // A list stands for blocks of one reply; this agent plays them one after the other.
    let blocks = steps.iter().enumerate().flat_map(|(at, value)| match value {
        Value::Array(blocks) => blocks.iter().map(|block| (at, block)).collect(),
        block => vec![(at, block)],
    });
    Some(blocks.map(|(at, block)| step(block).map_err(|error| format!("step {}: {error}", at + 1))).collect())
}

/// Parses one step: exactly one verb, and only the keys that belong to it.
fn step(value: &Value) -> Result<ScriptStep, String> {
    let object = value.as_object().ok_or("is not an object")?;
    let named = object.keys().find_map(|key| VERBS.iter().find(|(verb, _)| verb == key));
    let Some((verb, beside)) = named else {
        let verbs = VERBS.iter().map(|(verb, _)| *verb);
        let meant = object.keys().find_map(|key| near(key, verbs.clone()).first().copied());
        return Err(match meant {
            Some(verb) => format!("has no verb; did you mean {verb}?"),
            None => format!("has no verb; use one of {}", verbs.collect::<Vec<_>>().join(", ")),
        });
    };
    if let Some(key) = object.keys().find(|key| key != verb && !beside.contains(&key.as_str())) {
        return Err(format!("{verb} does not take {key}"));
    }
    verb_step(verb, &object[*verb], object)
}

fn verb_step(verb: &str, value: &Value, object: &Map<String, Value>) -> Result<ScriptStep, String> {
    Ok(match verb {
        "text" => ScriptStep::Text(pieces(verb, value, object)?),
        "thinking" => ScriptStep::Thinking(pieces(verb, value, object)?),
        "tool" => ScriptStep::Tool {
            tool: of(verb, value)?,
            input: object.get("input").cloned().unwrap_or_else(|| Map::new().into()),
            ask: beside(object, "ask", false)?,
            result: beside(object, "result", String::new())?,
            ok: beside(object, "ok", true)?,
        },
        "question" => {
            let asked: ScriptedPermission = of(verb, value)?;
            ScriptStep::Question { text: asked.text, options: asked.options }
        }
        "todo" => ScriptStep::Todo(todos(of(verb, value)?)),
        "usage" => {
            let used: ScriptedUsage = of(verb, value)?;
            ScriptStep::Usage(Usage {
                input_tokens: used.input_tokens,
                output_tokens: used.output_tokens,
                cache_read_tokens: used.cache_read_tokens,
                cache_write_tokens: used.cache_write_tokens,
                cost_micro_usd: used.cost_micro_usd,
                estimated_micro_usd: 0,
            })
        }
        "wait_file" => ScriptStep::WaitFile(of(verb, value)?),
        "hang" => ScriptStep::Hang,
        "ignore_term" => ScriptStep::IgnoreTerm,
        "crash" => ScriptStep::Crash(of(verb, value)?),
        "crash_signal" => ScriptStep::CrashSignal(of(verb, value)?),
        "garbage" => ScriptStep::Garbage(match value {
            Value::String(text) => text.clone().into_bytes(),
            bytes => of(verb, bytes)?,
        }),
        "stderr" => ScriptStep::Stderr(of(verb, value)?),
        "flood" => {
            let flood: Flood = of(verb, value)?;
            ScriptStep::Flood { lines: flood.lines.min(limits::SCRIPTED_FLOOD_MAX_LINES), text: flood.text }
        }
        "long_line" => ScriptStep::LongLine(of::<u64>(verb, value)?.min(limits::SCRIPTED_LINE_MAX_BYTES)),
        "spawn_child" => ScriptStep::SpawnChild,
        "plan_mode" => ScriptStep::PlanMode(of(verb, value)?),
        "compact" => ScriptStep::Compact,
        "error" => ScriptStep::Error(of(verb, value)?),
        other => return Err(format!("{other} is not known")),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedPermission {
    text: String,
    #[serde(default)]
    options: Vec<String>,
}

/// An entry of a to-do list: its text alone, or with what an agent may say of it.
#[derive(Deserialize)]
#[serde(untagged)]
enum ScriptedTodo {
    Text(String),
    Entry(ScriptedTodoEntry),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedTodoEntry {
    text: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    active_form: String,
    status: Option<TodoStatus>,
    priority: Option<TodoPriority>,
}

/// Numbers the entries of a list from 1.
fn todos(list: Vec<ScriptedTodo>) -> Vec<Todo> {
    let todo = |(at, entry): (usize, ScriptedTodo)| {
        let id = (at + 1).to_string();
        match entry {
            ScriptedTodo::Text(text) => Todo::new(id, text, TodoStatus::Pending),
            ScriptedTodo::Entry(entry) => Todo {
                description: entry.description,
                active_form: entry.active_form,
                priority: entry.priority,
                ..Todo::new(id, entry.text, entry.status.unwrap_or(TodoStatus::Pending))
            },
        }
    };
    list.into_iter().enumerate().map(todo).collect()
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ScriptedUsage {
    input_tokens: u64,
    output_tokens: u64,
    cache_read_tokens: u64,
    cache_write_tokens: u64,
    cost_micro_usd: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Flood {
    lines: u64,
    #[serde(default = "flood_text")]
    text: String,
}

fn flood_text() -> String {
    "flood\n".to_owned()
}

fn pieces(verb: &str, value: &Value, object: &Map<String, Value>) -> Result<TextPieces, String> {
    Ok(TextPieces {
        text: of(verb, value)?,
        chunks: beside(object, "chunks", 1)?,
        gap: Duration::from_millis(beside(object, "gap_ms", 0)?),
    })
}

fn of<T: DeserializeOwned>(verb: &str, value: &Value) -> Result<T, String> {
    T::deserialize(value).map_err(|error| format!("{verb}: {error}"))
}

fn beside<T: DeserializeOwned>(object: &Map<String, Value>, key: &str, absent: T) -> Result<T, String> {
    object.get(key).map_or(Ok(absent), |value| of(key, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(json: &str) -> Result<ScriptStep, String> {
        read(&format!("do this SCRIPT: [{json}]")).unwrap().map(|mut steps| steps.remove(0))
    }

    #[test]
    fn a_prompt_without_a_script_has_none() {
        assert_eq!(read("hello"), None);
        assert_eq!(read("SCRIPT: []"), Some(Ok(Vec::new())));
    }

    #[test]
    fn steps_are_read() {
        let pieces = TextPieces { text: "héllo".into(), chunks: 2, gap: Duration::from_millis(3) };
        assert_eq!(pieces.iter().collect::<Vec<_>>(), ["hé", "llo"]);
        assert_eq!(one(r#"{"text":"héllo","chunks":2,"gap_ms":3}"#), Ok(ScriptStep::Text(pieces)));
        assert_eq!(one(r#"{"garbage":[255]}"#), Ok(ScriptStep::Garbage(vec![255])));
        assert_eq!(one(r#"{"hang":true}"#), Ok(ScriptStep::Hang));
        assert_eq!(
            one(r#"{"tool":"Bash","input":{"command":"x"},"ask":true}"#),
            Ok(ScriptStep::Tool {
                tool: "Bash".into(),
                input: serde_json::json!({"command": "x"}),
                ask: true,
                result: String::new(),
                ok: true
            })
        );
    }

    #[test]
    fn a_mistake_is_named() {
        assert_eq!(one(r#"{"txt":"x"}"#), Err("step 1: has no verb; did you mean text?".into()));
        assert_eq!(one(r#"{"text":"x","chunk":2}"#), Err("step 1: text does not take chunk".into()));
        assert!(one(r#"{"crash":"x"}"#).unwrap_err().starts_with("step 1: crash: invalid type"));
        assert!(read("SCRIPT: [").unwrap().unwrap_err().starts_with("the script is not a JSON list"));
    }

    #[test]
    fn pieces_never_outnumber_letters() {
        for (text, chunks) in [("", 3), ("a", 3), ("abc", 0), ("abc", 3), ("aé", 9)] {
            let pieces = TextPieces { text: text.into(), chunks, gap: Duration::ZERO };
            assert_eq!(pieces.iter().collect::<String>(), text);
        }
    }
}
