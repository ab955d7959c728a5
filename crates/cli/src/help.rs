//! The parser as people meet it: commands in groups, completion that knows sessions, campaigns, agents and models.

use clap::builder::StyledStr;
use clap::{Arg, Command, CommandFactory as _};
use clap_complete::engine::ArgValueCandidates;

use crate::completion;
use cli_args::Cli;

/// The groups of the help, by the questions people have. A test holds that every command is in one.
const GROUPS: &[(&str, &[&str])] = &[
    ("Work with agents", &["run", "ui", "web", "attach", "send", "queue", "stop", "wait"]),
    ("Answer their requests", &["requests", "approve", "deny", "answer"]),
    ("See what they do", &["ps", "logs", "diff", "search", "usage", "export", "status"]),
    ("Plans and workers", &["plan", "worker"]),
    ("Sessions and trees", &["session", "rename", "fork", "rm", "import", "merge", "worktree"]),
    ("GitLab and GitHub", &["gitlab", "github"]),
    (
        "Campaigns and permissions",
        &["campaign", "campaigns", "budget", "grants", "policy", "audit", "access"],
    ),
    ("Agents and editors", &["agents", "acp", "mcp", "agent", "skill", "environment"]),
    ("Tools of the workbench", &["exec", "memory", "checkpoint", "remediation"]),
    ("The daemon", &["serve", "upgrade", "service", "ping", "version", "gc", "device", "key"]),
    ("Other machines", &["machine", "connect", "relay"]),
    ("Help", &["doctor", "conformance", "explain", "config", "schema", "demo", "man", "completions"]),
];

/// Returns the parser.
pub(crate) fn command() -> Command {
    let command = with_candidates(Cli::command());
    let groups = groups(&command);
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}\n\nOptions:\n{{options}}{{after-help}}"
    ))
}

/// Lists the commands by group.
fn groups(command: &Command) -> StyledStr {
    let visible: Vec<&Command> = command.get_subcommands().filter(|sub| !sub.is_hide_set()).collect();
    let width = visible.iter().map(|sub| sub.get_name().len()).max().unwrap_or(0);
    let line = |sub: &Command| {
        let about = sub.get_about().map(StyledStr::to_string).unwrap_or_default();
        format!("\n  {:width$}  {about}", sub.get_name())
    };
    let mut text = String::new();
    for (title, names) in GROUPS {
        let found: Vec<&&Command> =
            names.iter().filter_map(|name| visible.iter().find(|sub| sub.get_name() == *name)).collect();
        if !found.is_empty() {
            text.push_str(&format!("{title}:"));
            found.iter().for_each(|sub| text.push_str(&line(sub)));
            text.push_str("\n\n");
        }
    }
    let is_grouped = |sub: &Command| GROUPS.iter().any(|(_, names)| names.contains(&sub.get_name()));
    let rest: Vec<&&Command> = visible.iter().filter(|sub| !is_grouped(sub)).collect();
    if !rest.is_empty() {
        text.push_str("More:");
        rest.iter().for_each(|sub| text.push_str(&line(sub)));
    }
    text.trim_end().to_owned().into()
}

/// Adds candidates to every argument whose kind its value's name says.
fn with_candidates(command: Command) -> Command {
    command.mut_args(candidates_of).mut_subcommands(with_candidates)
}

fn candidates_of(arg: Arg) -> Arg {
    let name = arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    match name.as_deref() {
        Some("SESSION" | "SESSION_ID") => arg.add(ArgValueCandidates::new(completion::sessions)),
        Some("ID|NAME") => arg.add(ArgValueCandidates::new(completion::campaigns)),
        Some("AGENT") => arg.add(ArgValueCandidates::new(completion::agents)),
        Some("MODEL") => arg.add(ArgValueCandidates::new(completion::models)),
        Some("CODE") => arg.add(ArgValueCandidates::new(completion::error_codes)),
        _ => arg,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_lists_every_command_once_and_in_groups() {
        let text = command().render_long_help().to_string();
        for sub in Cli::command().get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let lines =
                text.lines().filter(|line| line.starts_with(&format!("  {} ", sub.get_name()))).count();
            assert_eq!(lines, 1, "{} in\n{text}", sub.get_name());
        }
        assert!(text.contains("Work with agents:"), "{text}");
        assert!(!text.contains("\nMore:"), "every command belongs to a group:\n{text}");
    }

    #[test]
    fn the_parser_is_consistent() {
        command().debug_assert();
    }
}
