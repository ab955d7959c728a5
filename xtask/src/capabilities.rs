//! The table of what every provider can do, made of the outcomes that the scenarios of `e2e` left. Pure but for reading
//! the folder.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result};

/// Agents of the scenarios, in the table's order, with how people call them.
const AGENTS: [(&str, &str); 6] = [
    ("Scripted", "scripted"),
    ("Claude", "claude-code"),
    ("Codex", "codex"),
    ("Openai", "openai-api (responses)"),
    ("OpenaiChat", "openai-api (chat)"),
    ("Acp", "acp (codex-acp)"),
];

/// Makes the table of a folder of outcomes: one file per agent and scenario, `Agent.scenario`.
pub fn table(folder: &Path) -> Result<String> {
    let mut outcomes: BTreeMap<(String, String), String> = BTreeMap::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some((agent, scenario)) = name.split_once('.') {
            let word = std::fs::read_to_string(&path)?;
            outcomes.insert((scenario.to_owned(), agent.to_owned()), word.trim().to_owned());
        }
    }
    Ok(render(&outcomes))
}

fn render(outcomes: &BTreeMap<(String, String), String>) -> String {
    let names: Vec<&str> = AGENTS.iter().map(|(_, name)| *name).collect();
    let mut text = format!("| scenario | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(AGENTS.len()));
    let scenarios: BTreeSet<&String> = outcomes.keys().map(|(scenario, _)| scenario).collect();
    for scenario in scenarios {
        let cell = |agent: &str| match outcomes.get(&(scenario.clone(), agent.to_owned())).map(String::as_str)
        {
            Some("passed") => "yes",
            Some("unsupported") => "–",
            Some(_) => "NO",
            None => "",
        };
        let cells: Vec<&str> = AGENTS.iter().map(|(agent, _)| cell(agent)).collect();
        text.push_str(&format!("| {} | {} |\n", scenario.replace('_', " "), cells.join(" | ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_become_rows() {
        let entry = |scenario: &str, agent: &str, word: &str| {
            ((scenario.to_owned(), agent.to_owned()), word.to_owned())
        };
        let outcomes = BTreeMap::from([
            entry("a_turn", "Scripted", "passed"),
            entry("a_turn", "Acp", "unsupported"),
            entry("a_turn", "Codex", "failed"),
        ]);
        let table = render(&outcomes);
        assert!(table.ends_with("| a turn | yes |  | NO |  |  | – |\n"), "{table}");
    }
}
