//! Patterns for calls: `Read`, `mcp__github__*`, `Bash(git log *)`, `Edit(src/**/*.ts)`. Interpreted narrowly
//! for approvals and widely for denials: what cannot be decided with certainty is never allowed.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{glob, shell};
use crate::error::Error;
use crate::limits;

/// A call as patterns see it.
#[derive(Clone, Copy, Debug)]
pub struct PatternCall<'a> {
    pub tool: &'a str,
    pub input: &'a Value,
    pub working_dir: &'a Path,
    /// The paths of [`paths_of`] with links resolved, in the same order; `None` if they were not resolved.
    pub real_paths: Option<&'a [PathBuf]>,
}

/// Tools that are the same thing under several names; a denial of the first covers all of them.
const FAMILIES: &[&[&str]] = &[
    &["Bash", "shell", "local_shell", "exec_command", "execute", "unified_exec", "safe_bash"],
    &["Edit", "Write", "MultiEdit", "NotebookEdit", "apply_patch", "edit", "write", "safe_write"],
    &["Read", "Glob", "Grep", "LS", "NotebookRead", "read", "search", "safe_read"],
];

/// Names that other agents use for the tools that patterns are written for; an approval of the first holds
/// for these too. Only the same thing under another name: an approval to edit is no approval to write with
/// another tool.
const NAMES: &[(&str, &[&str])] = &[
    ("Bash", &["shell", "local_shell", "exec_command", "execute", "unified_exec", "safe_bash"]),
    ("Edit", &["apply_patch", "edit"]),
    ("Read", &["read", "safe_read"]),
];

/// Tools that search the working folder if their input names none.
const LOOKING: &[&str] = &["Glob", "Grep", "LS"];

/// Keys under which calls name the file they are about.
const PATH_KEYS: &[&str] = &["file_path", "path", "notebook_path"];

/// Key under which a patch names the files it changes. The list may be incomplete: a long one is cut, and a
/// moved file is listed by its old path only.
const CHANGES_KEY: &str = "changes";

/// A parsed pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallPattern {
    /// May end in `*`.
    tool: String,
    within: Option<String>,
}

impl CallPattern {
    /// Parses a pattern; `field` names it in an error.
    pub fn parse(field: &str, text: &str) -> Result<Self, Error> {
        let wrong = |what: &str| Error::invalid(field, format_args!("{text:?} {what}"));
        let text = text.trim();
        if text.len() > limits::PATTERN_MAX_BYTES {
            return Err(Error::invalid(
                field,
                format_args!("is longer than {} bytes", limits::PATTERN_MAX_BYTES),
            ));
        }
        let (tool, within) = match text.split_once('(') {
            None => (text, None),
            Some((tool, rest)) => {
                let within = rest.strip_suffix(')').ok_or_else(|| wrong("lacks its closing parenthesis"))?;
                (tool.trim_end(), Some(within.to_owned()))
            }
        };
        if tool.is_empty() || tool.chars().any(|letter| letter.is_whitespace() || letter.is_control()) {
            return Err(wrong("does not begin with a tool's name"));
        }
        let before = tool.strip_suffix('*').unwrap_or(tool);
        if before.contains(['*', ')', ',']) {
            return Err(wrong("is no pattern; write a tool, or one like Bash(git *) or mcp__github__*"));
        }
        Ok(Self { tool: tool.to_owned(), within })
    }

    /// Returns whether the pattern covers a tool as a whole.
    pub fn is_general(&self) -> bool {
        self.within.is_none()
    }

    /// Returns the tool's name, which may end in `*`.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// Returns whether the pattern certainly covers a call: the interpretation for approvals.
    pub fn surely_covers(&self, call: &PatternCall<'_>) -> bool {
        let is_called =
            |(known, others): &(&str, &[&str])| *known == self.tool && others.contains(&call.tool);
        if !glob::matches(&self.tool, call.tool) && !NAMES.iter().any(is_called) {
            return false;
        }
        // An approval to read or edit files covers no command, whatever the call that has one is named.
        let is_for_files = FAMILIES[1..].iter().any(|family| family.contains(&self.tool.as_str()));
        if is_for_files && command_of(call.input).is_some() {
            return false;
        }
        let Some(within) = &self.within else { return true };
        match command_of(call.input) {
            Some(command) => covers_command(within, &command),
            None => covers_paths(within, call),
        }
    }

    /// Returns whether the pattern is about the tool of a call, or about another name for it.
    pub(super) fn names_tool(&self, call: &PatternCall<'_>) -> bool {
        let runs_commands = || command_of(call.input).is_some();
        let same_family = FAMILIES.iter().any(|family| {
            family[0] == self.tool
                && (family.contains(&call.tool) || (family[0] == "Bash" && runs_commands()))
        });
        same_family || glob::matches(&self.tool, call.tool)
    }

    /// Returns whether the pattern may cover a call: the interpretation for denials and questions.
    pub fn may_cover(&self, call: &PatternCall<'_>) -> bool {
        if !self.names_tool(call) {
            return false;
        }
        let Some(within) = &self.within else { return true };
        match command_of(call.input) {
            Some(_) => {
                let within = without_colon(within);
                suspects_of(call.input).iter().any(|suspect| glob::matches(&within, suspect))
            }
            None => may_cover_paths(within, call),
        }
    }
}

/// Returns whether a path pattern, relative to the working folder, certainly covers every path of a call. A
/// path that was not resolved is never certain: a link may lead anywhere.
pub(super) fn covers_paths(pattern: &str, call: &PatternCall<'_>) -> bool {
    let wanted = glob::plain(call.working_dir, Path::new(pattern));
    all_paths(call, |path| glob::path_matches(&wanted, path))
}

/// Returns whether a condition certainly holds for every path of a call, as written and with links resolved.
pub(super) fn all_paths(call: &PatternCall<'_>, is_so: impl Fn(&Path) -> bool) -> bool {
    let named = paths_of(call.tool, call.input, call.working_dir);
    let Some(real) = call.real_paths else { return false };
    call.input.get(CHANGES_KEY).is_none()
        && !named.is_empty()
        && named.len() == real.len()
        && named.iter().chain(real).all(|path| is_so(path))
}

/// Returns whether a condition holds for any path of a call, as written or with links resolved.
pub(super) fn any_path(call: &PatternCall<'_>, is_so: impl Fn(&Path) -> bool) -> bool {
    let named = paths_of(call.tool, call.input, call.working_dir);
    named.iter().chain(call.real_paths.unwrap_or_default()).any(|path| is_so(path))
}

/// Returns whether a call of a tool that reads or changes files is about exactly one file, named in its
/// input.
pub(super) fn is_about_one_file(tool: &str, input: &Value) -> bool {
    let known = FAMILIES[1..].iter().any(|family| family.contains(&tool));
    let named = PATH_KEYS.iter().filter(|key| input.get(**key).is_some_and(Value::is_string));
    known && !LOOKING.contains(&tool) && input.get(CHANGES_KEY).is_none() && named.count() == 1
}

/// Returns whether a call only reads. One that has a command does more, whatever its tool is named.
pub fn is_reading(tool: &str, input: &Value) -> bool {
    FAMILIES[2].contains(&tool) && command_of(input).is_none()
}

/// Returns whether a path pattern may cover a call.
pub(super) fn may_cover_paths(pattern: &str, call: &PatternCall<'_>) -> bool {
    let wanted = glob::plain(call.working_dir, Path::new(pattern));
    any_path(call, |path| glob::path_matches(&wanted, path))
}

/// Returns whether a pattern certainly covers a command. Without stars it allows exactly its text. With stars
/// it allows one plain command and nothing that a shell would extend: `git *` must not allow `git log; rm -rf
/// .`.
fn covers_command(within: &str, command: &str) -> bool {
    if within == command {
        return true;
    }
    if !shell::is_plain(command) {
        return false;
    }
    let command = command.trim();
    match within.strip_suffix(":*") {
        Some(prefix) => glob::matches(prefix, command) || glob::matches(&format!("{prefix} *"), command),
        None => glob::matches(within, command),
    }
}

/// Converts `git log:*`, which is how some agents write `git log` with anything after it.
fn without_colon(within: &str) -> String {
    within.strip_suffix(":*").map_or_else(|| within.to_owned(), |prefix| format!("{prefix}*"))
}

/// Returns the command a call would run; a list of arguments is returned as its JSON.
pub(super) fn command_of(input: &Value) -> Option<Cow<'_, str>> {
    let command = input.get("command").or_else(|| input.get("cmd"))?;
    Some(command.as_str().map_or_else(|| Cow::Owned(command.to_string()), Cow::Borrowed))
}

/// Returns every command that a call might run.
pub(super) fn suspects_of(input: &Value) -> Vec<String> {
    command_lines(input).iter().flat_map(|line| shell::suspects(line)).collect()
}

/// Returns every text of a call that may be a command line: for a list of arguments the whole and each single
/// one.
fn command_lines(input: &Value) -> Vec<String> {
    match input.get("command").or_else(|| input.get("cmd")) {
        Some(Value::Array(arguments)) => {
            let words: Vec<&str> = arguments.iter().filter_map(Value::as_str).collect();
            std::iter::once(words.join(" ")).chain(words.iter().map(|word| (*word).to_owned())).collect()
        }
        Some(Value::String(line)) => vec![line.clone()],
        Some(other) => vec![other.to_string()],
        None => Vec::new(),
    }
}

/// Returns the paths a call is about, absolute and as written.
pub fn paths_of(tool: &str, input: &Value, working_dir: &Path) -> Vec<PathBuf> {
    let changed: Vec<&str> = match input.get(CHANGES_KEY) {
        Some(Value::Array(changes)) => {
            changes.iter().filter_map(|change| change.get("path")?.as_str()).collect()
        }
        // Some agents use the paths as keys.
        Some(Value::Object(changes)) => changes.keys().map(String::as_str).collect(),
        _ => Vec::new(),
    };
    let named = PATH_KEYS.iter().filter_map(|key| input.get(key)?.as_str()).chain(changed);
    let paths: Vec<PathBuf> = named.map(|path| glob::plain(working_dir, Path::new(path))).collect();
    if paths.is_empty() && LOOKING.contains(&tool) { vec![working_dir.to_owned()] } else { paths }
}

#[cfg(test)]
mod tests;
