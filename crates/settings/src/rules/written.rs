//! The format of a rule file: converts TOML tables to grants and back, and reports errors with their line.
//! Pure.

use std::path::{Path, PathBuf};

use domain::permission::pattern::CallPattern;
use domain::permission::rules::FileRule;
use domain::permission::{Coverage, Grant, GrantAction, Principal, Scope, proposal};
use domain::{Error, Timestamp};
use serde::Deserialize;
use toml::Spanned;
use toml_edit::{Table, value};

use super::file;
use crate::limits;

/// The key for the number of uses left.
pub(super) const USES: &str = "uses_left";

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Document {
    rule: Vec<Spanned<Written>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Written {
    /// allow, ask or deny.
    action: String,
    /// A tool's name, which may end in `*`, or a pattern such as `Bash(git *)`.
    tool: String,
    command: Option<String>,
    prefix: Option<String>,
    file: Option<PathBuf>,
    folder: Option<PathBuf>,
    project: Option<PathBuf>,
    worktree: Option<PathBuf>,
    expires_at: Option<String>,
    uses_left: Option<u32>,
    given_by: String,
    given_at: Option<String>,
    reason: String,
}

/// Parses the rules of a file. Rules of a project apply in that project, and their paths are relative to it.
pub(super) fn read(path: &Path, text: &str, project: Option<&Path>) -> Result<Vec<FileRule>, Error> {
    // The parser's excerpt of the file is left out of the error: an agent may read the error.
    let document: Document = toml::from_str(text)
        .map_err(|error| at_line(path, text, error.span().map_or(0, |span| span.start), error.message()))?;
    if document.rule.len() > limits::RULES_MAX {
        return Err(file::unusable(path, &format!("holds more than {} rules", limits::RULES_MAX)));
    }
    let mut rules = Vec::new();
    for written in document.rule {
        let start = written.span().start;
        let rule = rule(path, written.into_inner(), project);
        rules.push(rule.map_err(|error| at_line(path, text, start, &error.message))?);
    }
    Ok(rules)
}

fn at_line(path: &Path, text: &str, at: usize, what: &str) -> Error {
    let line = text.get(..at).unwrap_or(text).matches('\n').count() + 1;
    file::unusable(path, &format!("line {line}: {what}"))
}

/// Converts one TOML table to a rule. In a project's file the scope is always that project.
fn rule(path: &Path, written: Written, project: Option<&Path>) -> Result<FileRule, Error> {
    let action = GrantAction::parse(&written.action)
        .ok_or_else(|| Error::invalid("action", "must be allow, ask or deny"))?;
    if written.tool.is_empty() {
        return Err(Error::invalid("tool", "is required; a tool's name such as Bash or Write, or * for all"));
    }
    let base = project.or(written.project.as_deref()).or(written.worktree.as_deref());
    let absolute = |path: PathBuf| match base {
        Some(base) => proposal::absolute(base, &path),
        None => path,
    };
    let mut said = [
        written.command.map(Coverage::Command),
        written.prefix.map(Coverage::Prefix),
        written.file.map(|file| Coverage::File(absolute(file))),
        written.folder.map(|folder| Coverage::Folder(absolute(folder))),
    ]
    .into_iter()
    .flatten();
    let covers = match (said.next(), said.next()) {
        (Some(_), Some(_)) => {
            return Err(Error::invalid(
                "command",
                "only one of command, prefix, file and folder may be given",
            ));
        }
        (Some(covers), None) => covers,
        (None, _) if CallPattern::parse("tool", &written.tool)?.is_general() => Coverage::Tool,
        (None, _) => Coverage::Pattern,
    };
    let scope = match (project, written.project, written.worktree) {
        (_, Some(_), Some(_)) => {
            return Err(Error::invalid("project", "only one of project and worktree may be given"));
        }
        (Some(folder), _, _) => Scope::Project(folder.to_owned()),
        (None, Some(folder), None) => Scope::Project(folder),
        (None, None, Some(folder)) => Scope::Worktree(folder),
        (None, None, None) => Scope::Always,
    };
    let mut grant = Grant {
        action,
        scope,
        principal: Principal::Everyone,
        expires_at: time("expires_at", written.expires_at.as_deref())?,
        uses_left: written.uses_left,
        given_by: written.given_by,
        given_at: time("given_at", written.given_at.as_deref())?,
        ..Grant::new(written.tool.trim(), covers)
    };
    grant.check()?;
    grant.id = id(path, &grant);
    Ok(FileRule { grant, reason: written.reason, source: path.display().to_string() })
}

fn time(field: &str, text: Option<&str>) -> Result<Option<Timestamp>, Error> {
    let Some(text) = text else { return Ok(None) };
    let time: jiff::Timestamp =
        text.parse().map_err(|_| Error::invalid(field, "must be a time such as 2030-01-31T12:00:00Z"))?;
    Ok(Some(Timestamp(time.as_microsecond())))
}

/// Returns the id of a rule, derived from its content: people write rules without ids, and equal rules are
/// one rule.
pub(super) fn id(path: &Path, grant: &Grant) -> String {
    let told = format!(
        "{}\n{}\n{:?}\n{:?}\n{:?}",
        path.display(),
        grant.tool,
        grant.covers,
        grant.action,
        grant.scope
    );
    // FNV-1a: short, and the same in every version.
    let hash = told.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("rule_{:012x}", hash >> 16)
}

/// Returns a rule as a TOML table.
pub(super) fn table(grant: &Grant, reason: &str) -> Result<Table, Error> {
    let mut table = Table::new();
    let text = |path: &Path| {
        let text = path.to_str().map(str::to_owned);
        text.ok_or_else(|| Error::invalid("file", "is no text; a rule cannot name it"))
    };
    table.insert("action", value(grant.action.name()));
    table.insert("tool", value(&grant.tool));
    match &grant.covers {
        Coverage::Tool | Coverage::Pattern => None,
        Coverage::Command(command) => table.insert("command", value(command)),
        Coverage::Prefix(words) => table.insert("prefix", value(words)),
        Coverage::File(path) => table.insert("file", value(text(path)?)),
        Coverage::Folder(path) => table.insert("folder", value(text(path)?)),
    };
    match &grant.scope {
        Scope::Session | Scope::Always => None,
        Scope::Worktree(path) => table.insert("worktree", value(text(path)?)),
        Scope::Project(path) => table.insert("project", value(text(path)?)),
    };
    let times = [("expires_at", grant.expires_at), ("given_at", grant.given_at)];
    for (name, at) in times.into_iter().filter_map(|(name, at)| Some((name, at?))) {
        let at = jiff::Timestamp::from_microsecond(at.0)
            .map_err(|_| Error::invalid(name, "lies too far away to be written"))?;
        table.insert(name, value(at.to_string()));
    }
    if let Some(uses) = grant.uses_left {
        table.insert(USES, value(i64::from(uses)));
    }
    for (name, text) in [("given_by", grant.given_by.as_str()), ("reason", reason)] {
        if !text.is_empty() {
            table.insert(name, value(text));
        }
    }
    Ok(table)
}
