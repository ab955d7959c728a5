//! The table of provider capabilities. The results that the scenarios of `e2e` leave in a folder become
//! `e2e/capabilities.txt`, and the table in docs/providers.md is generated from that file. A test keeps the
//! two in sync, and every run of a scenario compares its result with the file.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

/// The agents of the scenarios in the table's order, with their display names.
const AGENTS: [(&str, &str); 12] = [
    ("Scripted", "scripted"),
    ("Claude", "claude-code"),
    ("Codex", "codex"),
    ("Openai", "openai-api (responses)"),
    ("OpenaiChat", "openai-api (chat)"),
    ("Acp", "acp: codex-acp (Zed)"),
    ("Opencode", "acp: opencode"),
    ("Goose", "acp: goose"),
    ("Gemini", "acp: gemini"),
    ("ClaudeAcp", "acp: claude-agent-acp"),
    ("CodexAcp", "acp: codex-acp"),
    ("Openclaw", "openclaw"),
];

const RECORD: &str = "e2e/capabilities.txt";
const PAGE: &str = "docs/providers.md";
const BEGIN: &str = "<!-- capabilities -->\n";
const END: &str = "<!-- end of capabilities -->\n";
const HEAD: &str =
    "# What became of each scenario with each agent; made by `cargo xtask capabilities`, not by hand.\n";

/// Results by scenario and agent.
type Outcomes = BTreeMap<(String, String), String>;

/// Merges the results of a folder into the record, and regenerates the table. Agents and scenarios that are
/// not in the folder keep their recorded results.
pub fn update(root: &Path, folder: &Path) -> Result<String> {
    let mut outcomes = read_record(root).unwrap_or_default();
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some((agent, scenario)) = name.split_once('.') {
            let word = std::fs::read_to_string(&path)?;
            outcomes.insert((scenario.to_owned(), agent.to_owned()), word.trim().to_owned());
        }
    }
    let line =
        |((scenario, agent), word): (&(String, String), &String)| format!("{agent} {scenario} {word}\n");
    let record: String = outcomes.iter().map(line).collect();
    std::fs::write(root.join(RECORD), format!("{HEAD}{record}"))?;
    let table = table(root, &outcomes)?;
    let page = std::fs::read_to_string(root.join(PAGE))?;
    let (before, _, after) = parts(&page)?;
    std::fs::write(root.join(PAGE), format!("{before}{BEGIN}\n{table}\n{END}{after}"))?;
    Ok(table)
}

/// Checks that the page matches the record.
pub fn check(root: &Path) -> Result<()> {
    let page = std::fs::read_to_string(root.join(PAGE))?;
    let (_, shown, _) = parts(&page)?;
    let made = table(root, &read_record(root)?)?;
    ensure!(
        shown.trim() == made.trim(),
        "the table of {PAGE} is not what {RECORD} makes: run cargo xtask capabilities"
    );
    Ok(())
}

fn parts(page: &str) -> Result<(&str, &str, &str)> {
    let (before, rest) =
        page.split_once(BEGIN).with_context(|| format!("{PAGE} has no place for the table"))?;
    let (shown, after) = rest.split_once(END).with_context(|| format!("{PAGE}: the table does not end"))?;
    Ok((before, shown, after))
}

fn read_record(root: &Path) -> Result<Outcomes> {
    let text = std::fs::read_to_string(root.join(RECORD)).with_context(|| RECORD.to_owned())?;
    let entry = |line: &str| {
        let mut words = line.split_whitespace().map(str::to_owned);
        let (agent, scenario, word) = (words.next()?, words.next()?, words.next()?);
        Some(((scenario, agent), word))
    };
    Ok(text.lines().filter(|line| !line.starts_with('#')).filter_map(entry).collect())
}

/// Parses the scenarios, in order, from the source of the suite: name and description.
fn scenarios(root: &Path) -> Result<Vec<(String, String)>> {
    let source = std::fs::read_to_string(root.join("crates/provider-common/src/suite.rs"))?;
    let entry = |call: &str| {
        let mut texts = call.trim_start().strip_prefix('"')?.split('"');
        Some((texts.next()?.to_owned(), texts.nth(1)?.to_owned()))
    };
    Ok(source.split("scenario(").skip(1).filter_map(entry).collect())
}

fn table(root: &Path, outcomes: &Outcomes) -> Result<String> {
    let scenarios = scenarios(root)?;
    ensure!(!scenarios.is_empty(), "the suite has no scenario");
    Ok(render(&scenarios, outcomes))
}

fn render(scenarios: &[(String, String)], outcomes: &Outcomes) -> String {
    let names: Vec<&str> = AGENTS.iter().map(|(_, name)| *name).collect();
    let mut text = format!("| scenario | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(AGENTS.len()));
    for (name, about) in scenarios {
        let cell = |agent: &str| match outcomes.get(&(name.clone(), agent.to_owned())).map(String::as_str) {
            Some("passed") => "yes",
            Some("unsupported") => "–",
            Some(_) => "NO",
            None => "",
        };
        let cells: Vec<&str> = AGENTS.iter().map(|(agent, _)| cell(agent)).collect();
        text.push_str(&format!("| {about} | {} |\n", cells.join(" | ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_shows_what_the_scenarios_left() {
        check(&crate::tidy::workspace_root()).unwrap();
    }

    #[test]
    fn outcomes_become_rows() {
        let entry = |scenario: &str, agent: &str, word: &str| {
            ((scenario.to_owned(), agent.to_owned()), word.to_owned())
        };
        let outcomes = BTreeMap::from([
            entry("text", "Scripted", "passed"),
            entry("text", "Acp", "unsupported"),
            entry("text", "Codex", "failed"),
        ]);
        let table = render(&[("text".to_owned(), "text is streamed".to_owned())], &outcomes);
        assert!(
            table.ends_with("| text is streamed | yes |  | NO |  |  | – |  |  |  |  |  |  |\n"),
            "{table}"
        );
    }

    #[test]
    fn scenarios_are_read_from_the_suite() {
        let found = scenarios(&crate::tidy::workspace_root()).unwrap();
        assert_eq!(found.len(), 16);
        assert_eq!(found[0], ("text".to_owned(), "text is streamed".to_owned()));
    }
}
