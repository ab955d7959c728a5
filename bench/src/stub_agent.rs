//! An agent of the Agent Client Protocol without a model: answers a prompt with as many stamped chunks as it asks for. The
//! same program runs behind the daemon and behind its rivals. Blocking, one thread, one write per chunk.

use std::io::BufRead;
use std::time::Duration;

use anyhow::Result;
use e2e::model_server::stamp;
use serde_json::{Value, json};

use crate::emitter::{Script, write_all};

/// What follows the stamp of a chunk; together about forty bytes, a usual delta.
const FILLER: &str = "and so it goes";

/// Runs the agent until its input ends.
pub(crate) fn run() -> Result<()> {
    let mut sessions = 0;
    for line in std::io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line?)?;
        let Some(id) = message.get("id").filter(|_| message.get("method").is_some()) else { continue };
        let params = &message["params"];
        let result = match message["method"].as_str() {
            Some("initialize") => json!({"protocolVersion": 1, "authMethods": [],
                "agentCapabilities": {"loadSession": true, "promptCapabilities": {}},
                "agentInfo": {"name": "stub", "version": "0"}}),
            Some("session/new") => {
                sessions += 1;
                json!({"sessionId": format!("stub-{}-{sessions}", std::process::id())})
            }
            Some("session/prompt") => {
                play(params);
                json!({"stopReason": "end_turn"})
            }
            _ => json!({}),
        };
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
        write_all(format!("{answer}\n").as_bytes());
    }
    Ok(())
}

/// Emits the chunks that the first text of a prompt asks for.
fn play(params: &Value) {
    let texts = params["prompt"].as_array().into_iter().flatten().filter_map(|block| block["text"].as_str());
    let Some(script) = texts.filter_map(Script::read).next() else { return };
    let session = params["sessionId"].as_str().unwrap_or_default();
    let mut due = stamp::now_ns();
    for number in 0..script.chunks {
        if !script.gap.is_zero() {
            due += u64::try_from(script.gap.as_nanos()).unwrap_or(0);
            std::thread::sleep(Duration::from_nanos(due.saturating_sub(stamp::now_ns())));
        }
        let text = stamp::of(number);
        let line = format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{{\"sessionId\":\"{session}\",\"update\":\
             {{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{{\"type\":\"text\",\"text\":\"{text}{FILLER}\"}}}}}}}}\n"
        );
        write_all(line.as_bytes());
    }
}
