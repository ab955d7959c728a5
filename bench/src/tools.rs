//! A minimal tool server: as many tools as the daemon gives its agents, each about as long, none of which is
//! ever called. An agent that is driven directly gets it, so that both sides start under the same conditions.
//! Knows only MCP's lines over standard streams.

use std::io::{BufRead, Write};

use anyhow::Result;
use serde_json::{Value, json};

/// As many tools as the workbench gives an agent, with descriptions and schemas of its average length: 14 KB.
const TOOLS: usize = 25;
const PROPERTIES: usize = 4;
const DESCRIPTION_CHARS: usize = 52;

/// Returns how the server is started: this program with this argument.
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
            // A response to a request we never sent.
            None => continue,
        };
        let mut out = std::io::stdout().lock();
        out.write_all(format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "result": result})).as_bytes())?;
        out.flush()?;
    }
    Ok(())
}

fn tool(number: usize) -> Value {
    let description = "x".repeat(DESCRIPTION_CHARS);
    let text = json!({"type": "string", "description": description});
    let properties: serde_json::Map<String, Value> =
        (0..PROPERTIES).map(|at| (format!("a{at}"), text.clone())).collect();
    json!({
        "name": format!("tool_{number}"),
        "description": description,
        "inputSchema": {"type": "object", "properties": properties, "required": ["a0"]},
    })
}
