//! Policy files: their TOML, and the rules made from it.

use domain::Error;
use regex_automata::meta::Regex;
use regex_automata::util::syntax;
use serde::Deserialize;

use super::glob::Glob;
use super::{Policy, PolicyCategory, PolicySource, Severity, View, wrong};
use crate::limits;

/// A parsed policy file.
pub(super) struct PolicyFile {
    pub(super) disable: Vec<String>,
    pub(super) policies: Vec<Policy>,
}

/// A policy is violated if any of these matches.
#[derive(Clone, Debug)]
pub(super) struct PolicyRule {
    commands: Vec<CommandRule>,
    patterns: Vec<Regex>,
    reads: Vec<Glob>,
    writes: Vec<Glob>,
    content: Vec<Regex>,
}

/// A program with arguments that must all be present.
#[derive(Clone, Debug)]
struct CommandRule {
    programs: Vec<String>,
    with: Vec<Regex>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Text {
    disable: Vec<String>,
    policies: Vec<PolicyText>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyText {
    id: String,
    title: String,
    category: String,
    severity: Severity,
    requirement: String,
    #[serde(default)]
    suggestion: String,
    #[serde(default)]
    commands: Vec<CommandText>,
    #[serde(default)]
    command_patterns: Vec<String>,
    #[serde(default)]
    read_paths: Vec<String>,
    #[serde(default)]
    write_paths: Vec<String>,
    #[serde(default)]
    content_patterns: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CommandText {
    programs: Vec<String>,
    #[serde(default)]
    with: Vec<String>,
}

/// Parses a policy file; errors contain its name.
pub(super) fn read(name: &str, text: &str, source: PolicySource) -> Result<PolicyFile, Error> {
    if text.len() > limits::POLICY_FILE_MAX {
        return Err(wrong(name, format!("is larger than {} bytes", limits::POLICY_FILE_MAX)));
    }
    let file: Text = toml::from_str(text).map_err(|error| wrong(name, error.message().to_owned()))?;
    let policies = file.policies.into_iter().map(|policy| make(name, policy, source));
    Ok(PolicyFile { disable: file.disable, policies: policies.collect::<Result<_, _>>()? })
}

/// Validates one policy and compiles its patterns.
fn make(name: &str, text: PolicyText, source: PolicySource) -> Result<Policy, Error> {
    let at = |what: String| wrong(name, format!("{}: {what}", text.id));
    if text.id.is_empty()
        || !text.id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    {
        return Err(wrong(name, format!("id {:?}: must be letters, digits, `-` and `_`", text.id)));
    }
    let category = PolicyCategory::parse(&text.category)
        .ok_or_else(|| at(format!("category {:?} is none of security, coding, repo", text.category)))?;
    let regexes = |list: &[String]| -> Result<Vec<Regex>, Error> {
        list.iter().map(|pattern| regex(pattern).map_err(&at)).collect()
    };
    let globs = |list: &[String]| list.iter().map(|glob| Glob::new(glob)).collect::<Vec<_>>();
    let mut commands = Vec::new();
    for command in &text.commands {
        commands.push(CommandRule { programs: command.programs.clone(), with: regexes(&command.with)? });
    }
    let rule = PolicyRule {
        commands,
        patterns: regexes(&text.command_patterns)?,
        reads: globs(&text.read_paths),
        writes: globs(&text.write_paths),
        content: regexes(&text.content_patterns)?,
    };
    Ok(Policy {
        id: text.id,
        title: text.title,
        category,
        severity: text.severity,
        requirement: text.requirement,
        suggestion: text.suggestion,
        source,
        rule,
    })
}

fn regex(pattern: &str) -> Result<Regex, String> {
    Regex::builder()
        .configure(Regex::config().nfa_size_limit(Some(limits::RULE_AUTOMATON_MAX)).utf8_empty(false))
        .syntax(syntax::Config::new().utf8(false).unicode(false))
        .build(pattern)
        .map_err(|error| format!("{pattern:?} is no expression: {error}"))
}

impl PolicyRule {
    /// Returns why an action violates this rule, or `None`.
    pub(super) fn reason(&self, view: &View<'_>) -> Option<String> {
        for rule in &self.commands {
            if let Some(command) = view.commands.iter().find(|command| rule.fits(&command.words)) {
                return Some(format!("`{}` is such a command", shown(&command.words.join(" "))));
            }
        }
        if self.patterns.iter().any(|pattern| pattern.is_match(view.text)) {
            return Some(format!("`{}` is such a command", shown(view.text)));
        }
        if let Some(path) = view.writes.iter().find(|path| any(&self.writes, path)) {
            return Some(format!("it writes {}", shown(path)));
        }
        if let Some(path) = view.reads.iter().find(|path| any(&self.reads, path)) {
            return Some(format!("it reads {}", shown(path)));
        }
        let content =
            !view.content.is_empty() && self.content.iter().any(|pattern| pattern.is_match(view.content));
        content.then(|| "its content holds what must not be written".to_owned())
    }
}

impl CommandRule {
    /// Whether a command runs one of the programs with all of the required arguments.
    fn fits(&self, words: &[String]) -> bool {
        let Some((program, arguments)) = words.split_first() else { return false };
        let program = program.rsplit('/').next().unwrap_or(program);
        let is_with = |pattern: &Regex| arguments.iter().any(|argument| pattern.is_match(argument.as_str()));
        self.programs.iter().any(|name| name == program) && self.with.iter().all(is_with)
    }
}

fn any(globs: &[Glob], path: &str) -> bool {
    globs.iter().any(|glob| glob.fits(path))
}

/// Shortens a command or path for a message.
fn shown(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= limits::SUMMARY_COMMAND_CHARS {
        return line;
    }
    line.chars().take(limits::SUMMARY_COMMAND_CHARS - 1).chain(['…']).collect()
}
