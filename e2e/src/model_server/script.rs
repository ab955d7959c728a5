//! The script language: which reply a prompt asks for. A prompt carries `SCRIPT: [step, …]`; the step that is played
//! is the number of assistant messages since that prompt. Serves every model API alike; knows no HTTP, no API's
//! message format, no clock, and keeps nothing between two requests.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value, json};

const MARKER: &str = "SCRIPT:";
/// Deltas of a block whose script does not say how many.
const DEFAULT_CHUNKS: usize = 4;

/// One entry of a conversation as the script sees it: what an API module makes of its own messages. Tool results,
/// reminders and everything else that neither asks nor answers have no entry.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Entry {
    /// What a person wrote.
    Prompt(String),
    /// A reply of the model.
    Assistant,
}

/// What to answer to one request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Choice {
    /// The prompt's text before its script, trimmed; tests name their prompts by it.
    pub(crate) key: String,
    /// Which step of the script this is, from 0.
    pub(crate) step: usize,
    /// The reply, or why the script could not be read.
    pub(crate) reply: Result<Reply, String>,
}

/// One reply of the model.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Reply {
    /// Played in order.
    pub(crate) blocks: Vec<Block>,
    /// Replaces the stop reason that follows from the blocks.
    pub(crate) stop_reason: Option<String>,
    /// Replaces the usage that follows from the blocks.
    pub(crate) usage: Option<Usage>,
}

/// One part of a reply, or something that happens while it is sent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Block {
    /// Visible text.
    Text { text: String, pace: Pace },
    /// Visible text of pieces that say when each was sent; for measuring.
    Stamped { count: u64, gap_ms: u64 },
    /// Reasoning.
    Thinking { text: String, pace: Pace },
    /// A tool call. `id` is normally absent: the server makes unique ones.
    Tool { name: String, input: Value, id: Option<String> },
    /// Nothing more comes until the client goes away.
    Hang,
    /// The stream pauses until the test releases this name.
    Wait(String),
    /// The stream pauses until this file exists; the same word works in the scripted agent.
    WaitFile(PathBuf),
    /// The connection is cut. With `times`, only for the first that many attempts at this step.
    Drop { times: Option<u64> },
    /// An HTTP error instead of a reply.
    Status {
        code: u16,
        kind: Option<String>,
        message: String,
        retry_after: Option<String>,
        /// The limit of the user's plan is used up for so many seconds.
        plan_resets_in_secs: Option<u64>,
        times: Option<u64>,
    },
    /// An error inside the stream, after which it ends.
    StreamError { kind: String, message: String },
}

/// How a text is cut into deltas.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pace {
    /// How many deltas; never more than there are characters.
    pub(crate) chunks: usize,
    /// Pause after each delta.
    pub(crate) gap_ms: u64,
}

/// Token counts a reply reports; absent fields keep their computed value.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Usage {
    pub(crate) input_tokens: Option<u64>,
    pub(crate) output_tokens: Option<u64>,
    pub(crate) cache_creation_input_tokens: Option<u64>,
    pub(crate) cache_read_input_tokens: Option<u64>,
}

impl Reply {
    /// A reply of one text.
    pub(crate) fn text(text: impl Into<String>) -> Reply {
        let block = Block::Text { text: text.into(), pace: Pace { chunks: DEFAULT_CHUNKS, gap_ms: 0 } };
        Reply { blocks: vec![block], ..Reply::default() }
    }

    /// Whether the agent is expected to run a tool next.
    pub(crate) fn calls_tools(&self) -> bool {
        self.blocks.iter().any(|block| matches!(block, Block::Tool { .. }))
    }

    /// A stable count of output tokens: about four bytes each, so that tests can predict it.
    pub(crate) fn output_tokens(&self) -> u64 {
        let bytes: usize = self
            .blocks
            .iter()
            .map(|block| match block {
                Block::Text { text, .. } | Block::Thinking { text, .. } => text.len(),
                Block::Tool { name, input, .. } => name.len() + input.to_string().len(),
                _ => 0,
            })
            .sum();
        bytes as u64 / 4 + 1
    }
}

/// Chooses the reply to a conversation, from its content alone.
pub(crate) fn choose(conversation: &[Entry]) -> Choice {
    let mut step = 0;
    for entry in conversation.iter().rev() {
        match entry {
            Entry::Assistant => step += 1,
            Entry::Prompt(text) => return for_prompt(text, step),
        }
    }
    Choice { key: String::new(), step, reply: Ok(Reply::text("(no prompt)")) }
}

fn for_prompt(text: &str, step: usize) -> Choice {
    let Some((key, script)) = last_script(text) else {
        let key = text.trim().to_owned();
        let reply = Ok(Reply::text(format!("You said: {key}")));
        return Choice { key, step, reply };
    };
    let reply = script.and_then(|steps| match steps.get(step) {
        Some(step) => reply(step),
        None => Ok(Reply::text("(script finished)")),
    });
    Choice { key, step, reply }
}

/// Finds the last script of a prompt. Agents join queued prompts into one text, so several scripts may stand one after
/// the other; a marker *inside* a script belongs to a sub-agent's prompt and is skipped with it.
fn last_script(text: &str) -> Option<(String, Result<Vec<Value>, String>)> {
    let mut found = None;
    let mut from = 0;
    while let Some(at) = text[from..].find(MARKER) {
        let key = text[from..from + at].trim().to_owned();
        let body = &text[from + at + MARKER.len()..];
        let mut values = serde_json::Deserializer::from_str(body).into_iter::<Vec<Value>>();
        match values.next() {
            Some(Ok(steps)) => {
                from += at + MARKER.len() + values.byte_offset();
                found = Some((key, Ok(steps)));
            }
            Some(Err(error)) => return Some((key, Err(format!("not a JSON list of steps: {error}")))),
            None => return Some((key, Err("nothing follows the marker".to_owned()))),
        }
    }
    found
}

/// Reads one step: a block, or a list of blocks.
fn reply(step: &Value) -> Result<Reply, String> {
    let mut reply = Reply::default();
    match step {
        Value::Array(blocks) => blocks.iter().try_for_each(|block| add_block(&mut reply, block))?,
        block => add_block(&mut reply, block)?,
    }
    Ok(reply)
}

fn add_block(reply: &mut Reply, value: &Value) -> Result<(), String> {
    let Value::Object(map) = value else { return Err(format!("a block must be an object, not {value}")) };
    if let Some(reason) = map.get("stop_reason") {
        reply.stop_reason = Some(reason.as_str().ok_or("stop_reason must be a text")?.to_owned());
    }
    if let Some(usage) = map.get("usage") {
        reply.usage = Some(serde_json::from_value(usage.clone()).map_err(|error| format!("usage: {error}"))?);
    }
    let kinds: Vec<&String> = map.keys().filter(|key| KINDS.contains(&key.as_str())).collect();
    match kinds.as_slice() {
        [kind] => reply.blocks.push(block(kind, &map[kind.as_str()], map)?),
        [] if map.contains_key("stop_reason") || map.contains_key("usage") => {}
        [] => return Err(format!("no known kind of block in {value}")),
        _ => return Err(format!("more than one kind in {value}; write them as a list of blocks")),
    }
    Ok(())
}

/// The words that say what a block is; every other key only describes it.
const KINDS: &[&str] = &[
    "text",
    "stamped",
    "thinking",
    "tool",
    "question",
    "todo",
    "hang",
    "wait",
    "wait_file",
    "drop",
    "status",
    "sse_error",
];

fn block(kind: &str, value: &Value, map: &Map<String, Value>) -> Result<Block, String> {
    let text = || value.as_str().map(str::to_owned).ok_or_else(|| format!("{kind} must be a text"));
    let number = |key: &str| map.get(key).and_then(Value::as_u64);
    let message = || map.get("message").and_then(Value::as_str).unwrap_or("scripted error").to_owned();
    let pace = Pace {
        chunks: number("chunks").map_or(DEFAULT_CHUNKS, |n| n.max(1) as usize),
        gap_ms: number("gap_ms").unwrap_or(0),
    };
    Ok(match kind {
        "text" => Block::Text { text: text()?, pace },
        "stamped" => {
            let count = value.as_u64().ok_or("stamped must be a number")?;
            Block::Stamped { count, gap_ms: pace.gap_ms }
        }
        "thinking" => Block::Thinking { text: text()?, pace },
        "tool" => {
            let input = map.get("input").cloned().unwrap_or_else(|| json!({}));
            Block::Tool { name: text()?, input, id: map.get("id").and_then(Value::as_str).map(str::to_owned) }
        }
        "question" => {
            let input = question(value).ok_or("question must be an object with a text")?;
            Block::Tool { name: "AskUserQuestion".into(), input, id: None }
        }
        "todo" => Block::Tool { name: "TodoWrite".into(), input: todo(value)?, id: None },
        "hang" => Block::Hang,
        "wait" => Block::Wait(text()?),
        "wait_file" => Block::WaitFile(text()?.into()),
        "drop" => Block::Drop { times: number("times") },
        "status" => Block::Status {
            code: value.as_u64().and_then(|n| u16::try_from(n).ok()).ok_or("status must be a number")?,
            kind: map.get("kind").and_then(Value::as_str).map(str::to_owned),
            message: message(),
            retry_after: map
                .get("retry_after")
                .map(|wait| wait.as_str().map_or_else(|| wait.to_string(), str::to_owned)),
            plan_resets_in_secs: number("plan_resets_in_secs"),
            times: number("times"),
        },
        _ => Block::StreamError { kind: text()?, message: message() },
    })
}

/// The tool input by which an agent asks its user; options are given as plain labels.
fn question(asked: &Value) -> Option<Value> {
    let labels = asked["options"].as_array().cloned().unwrap_or_default();
    let options: Vec<Value> =
        labels.iter().map(|label| json!({"label": label, "description": label})).collect();
    Some(json!({"questions": [{
        "question": asked["text"].as_str()?,
        "header": asked["header"].as_str().unwrap_or("Question"),
        "options": options,
        "multiSelect": asked["multi_select"].as_bool().unwrap_or(false),
    }]}))
}

/// The tool input by which an agent publishes its plan; items are given as plain texts, all of them pending.
fn todo(value: &Value) -> Result<Value, String> {
    let items = value.as_array().ok_or("todo must be a list of texts")?;
    let items: Vec<Value> =
        items.iter().map(|item| json!({"content": item, "status": "pending", "activeForm": item})).collect();
    Ok(json!({ "todos": items }))
}

/// Cuts a text into `chunks` parts of nearly equal length, never inside a character.
pub(crate) fn cut(text: &str, chunks: usize) -> Vec<&str> {
    let mut parts = Vec::with_capacity(chunks);
    let mut rest = text;
    for left in (1..=chunks.max(1)).rev() {
        if rest.is_empty() {
            break;
        }
        let (part, tail) = rest.split_at(rest.ceil_char_boundary(rest.len().div_ceil(left)));
        parts.push(part);
        rest = tail;
    }
    parts
}

#[cfg(test)]
mod tests;
