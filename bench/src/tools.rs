//! The smallest server of tools there can be: as many as the daemon gives its agents, each about as long, none of which
//! anybody calls. An agent that is driven directly gets it, where both sides are to begin on the same terms. Knows MCP's
//! lines over standard streams and nothing else.

use std::io::{BufRead, Write};

use anyhow::Result;
use serde_json::{Value, json};

/// As many as the workbench has, and as long as its descriptions and schemas are in the middle.
const TOOLS: usize = 28;
const DESCRIPTION_CHARS: usize = 180;

/// Returns how the server is started: this program, by this word.
pub(crate) fn command() -> Result<(String, &'static str)> {
    Ok((std::env::current_exe()?.display().to_string(), "tools"))
}

/// Serves until standard input ends.
pub(crate) fn serve() -> Result<()> {
    for line in std::io::stdin().lock().lines() {
        let asked: Value = serde_json::from_str(&line?)?;
        let Some(id) = asked.get("id") else { continue };
        let result = match asked["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": asked["params"]["protocolVersion"],
                "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": "bench", "version": "0"},
            }),
            Some("tools/list") => json!({"tools": (0..TOOLS).map(tool).collect::<Vec<_>>()}),
            Some(_) => json!({}),
            // An answer to nothing we asked.
            None => continue,
        };
        let mut out = std::io::stdout().lock();
        out.write_all(format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "result": result})).as_bytes())?;
        out.flush()?;
    }
    Ok(())
}

fn tool(number: usize) -> Value {
    let text = json!({"type": "string", "description": "A text."});
    json!({
        "name": format!("tool_{number}"),
        "description": "x".repeat(DESCRIPTION_CHARS),
        "inputSchema": {"type": "object", "properties": {"first": text, "second": text}, "required": ["first"]},
    })
}
