//! Scripts call the tool that runs commands `Bash`; agents call it by names of their own. Finds the one that an agent
//! offers its model. Pure.

use serde_json::{Value, json};

use super::script::{Block, Reply};

/// What agents were seen to call it.
const SHELLS: [&str; 5] = ["bash", "shell", "developer__shell", "run_shell_command", "exec"];

/// Rewrites the calls of a reply for the tools of a request: their names, with what each takes.
pub(super) fn as_offered(mut reply: Reply, offered: &[(&str, &Value)]) -> Reply {
    let has = |name: &str| offered.iter().any(|(own, _)| *own == name);
    for block in &mut reply.blocks {
        let Block::Tool { name, input, .. } = block else { continue };
        if has(name) {
            continue;
        }
        if name == "Bash"
            && let Some((own, takes)) = offered.iter().find(|(own, _)| SHELLS.contains(own))
        {
            *name = (*own).to_owned();
            if takes["properties"]["description"].is_object() {
                input["description"] = json!("to try");
            }
            continue;
        }
        // Tools of MCP servers: `mcp__server__tool` in scripts, and with one underscore or the tool's name alone elsewhere.
        if let Some((server, tool)) = name.strip_prefix("mcp__").and_then(|rest| rest.split_once("__")) {
            let known = [
                format!("mcp_{server}_{tool}"),
                format!("{server}_{tool}"),
                format!("{server}__{tool}"),
                tool.to_owned(),
            ];
            if let Some(own) = known.into_iter().find(|own| has(own)) {
                *name = own;
            }
        }
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_called_as_the_agent_calls_it() {
        let call = |name: &str, offered: &[(&str, &Value)]| {
            let block = Block::Tool { name: name.into(), input: json!({"command": "ls"}), id: None };
            let reply = as_offered(Reply { blocks: vec![block], ..Reply::default() }, offered);
            match &reply.blocks[..] {
                [Block::Tool { name, input, .. }] => (name.clone(), input.clone()),
                other => (format!("{other:?}"), Value::Null),
            }
        };
        let described = json!({"properties": {"command": {}, "description": {}}});
        assert_eq!(
            call("Bash", &[("read", &Value::Null), ("bash", &described)]),
            ("bash".to_owned(), json!({"command": "ls", "description": "to try"}))
        );
        assert_eq!(call("Bash", &[("Bash", &described)]), ("Bash".to_owned(), json!({"command": "ls"})));
        assert_eq!(call("mcp__local__note", &[("local__note", &Value::Null)]).0, "local__note");
        assert_eq!(call("other", &[]).0, "other");
    }
}
