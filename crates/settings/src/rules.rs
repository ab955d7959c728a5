//! Rule files: the user's (`rules.toml` beside the configuration) and a project's (`.obey/rules.toml`), which
//! may only narrow. Reads, adds and removes rules and counts uses; what a rule means is up to `domain`. A
//! file that cannot be parsed is an error: ignoring it would drop what it forbids.

mod written;

#[cfg(test)]
mod tests;

use std::path::Path;

use domain::permission::rules::FileRule;
use domain::permission::{Grant, GrantAction, Scope};
use domain::{Error, ErrorCode, Timestamp};
use toml_edit::{ArrayOfTables, DocumentMut, Item};

use super::file::{self, SettingsFileLocation};
use crate::limits;

/// The rule file of a project, relative to its folder.
const PROJECT_FILE: &str = ".obey/rules.toml";

/// The key of the list of rules in a file.
const LIST: &str = "rule";

/// The rules of a project's file: those in force, and those ignored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProjectRules {
    pub heard: Vec<FileRule>,
    /// Rules that allow: a project cannot allow itself anything.
    pub ignored: Vec<FileRule>,
}

/// Returns the text of the user's rules; a missing file has none.
pub(super) fn text_of_user(path: &Path) -> Result<Option<String>, Error> {
    file::read_text(&SettingsFileLocation::Own(path.to_owned()))
}

/// Reads the user's rules from their text.
pub(super) fn read_user(path: &Path, text: &str) -> Result<Vec<FileRule>, Error> {
    written::read(path, text, None)
}

/// Reads the user's rules; a missing file has none.
fn of_user(path: &Path) -> Result<Vec<FileRule>, Error> {
    text_of_user(path)?.map_or_else(|| Ok(Vec::new()), |text| read_user(path, &text))
}

/// Reads the rules of a project. Its file must be a regular file inside the project; links that lead out of
/// it are not followed.
pub(super) fn of_project(folder: &Path) -> Result<ProjectRules, Error> {
    let place = SettingsFileLocation::Project { folder: folder.to_owned(), below: PROJECT_FILE };
    let Some(text) = file::read_text(&place)? else { return Ok(ProjectRules::default()) };
    let rules = written::read(&place.path(), &text, Some(folder))?;
    let (ignored, heard) = rules.into_iter().partition(|rule| rule.grant.action == GrantAction::Allow);
    Ok(ProjectRules { heard, ignored })
}

/// Adds a rule to the user's file, replacing one with the same id. Returns it as it is listed.
pub(super) fn add(path: &Path, grant: &Grant, reason: &str, now: Timestamp) -> Result<FileRule, Error> {
    if grant.scope == Scope::Session {
        return Err(Error::invalid("scope", "a session's grant is kept with the session"));
    }
    grant.check()?;
    let id = written::id(path, grant);
    change(path, now, |list, rules| {
        if rules.len() >= limits::RULES_MAX {
            return Err(Error::new(
                ErrorCode::LimitReached,
                format!(
                    "{} holds {} rules, which is the limit; revoke some",
                    path.display(),
                    limits::RULES_MAX
                ),
            ));
        }
        let same = rules.iter().position(|rule| rule.grant.id == id);
        if let Some(at) = same {
            list.remove(at);
        }
        list.push(written::table(grant, reason)?);
        Ok(())
    })?;
    let rules = of_user(path)?;
    rules
        .into_iter()
        .find(|rule| rule.grant.id == id)
        .ok_or_else(|| file::unusable(path, "did not keep the rule"))
}

/// Removes a rule from the user's file; `None` if there is none with this id.
pub(super) fn remove(path: &Path, id: &str, now: Timestamp) -> Result<Option<FileRule>, Error> {
    let Some(found) = of_user(path)?.into_iter().find(|rule| rule.grant.id == id) else { return Ok(None) };
    change(path, now, |list, rules| {
        for at in (0..rules.len()).rev().filter(|at| rules[*at].grant.id == id) {
            list.remove(at);
        }
        Ok(())
    })?;
    Ok(Some(found))
}

/// Counts one use of a rule. Returns whether one was left.
pub(super) fn take_use(path: &Path, id: &str, now: Timestamp) -> Result<bool, Error> {
    let mut taken = false;
    change(path, now, |list, rules| {
        let Some(at) = rules.iter().position(|rule| rule.grant.id == id) else { return Ok(()) };
        match rules[at].grant.uses_left {
            None => taken = true,
            Some(0) => {}
            Some(1) => {
                taken = true;
                list.remove(at);
            }
            Some(left) => {
                taken = true;
                if let Some(table) = list.get_mut(at) {
                    table.insert(written::USES, toml_edit::value(i64::from(left - 1)));
                }
            }
        }
        Ok(())
    })?;
    Ok(taken)
}

/// Changes the list in the user's file: everything or nothing. What people wrote around it stays; expired
/// rules are removed.
fn change(
    path: &Path,
    now: Timestamp,
    change: impl FnOnce(&mut ArrayOfTables, &[FileRule]) -> Result<(), Error>,
) -> Result<(), Error> {
    let text = file::read_text(&SettingsFileLocation::Own(path.to_owned()))?.unwrap_or_default();
    let mut rules = written::read(path, &text, None)?;
    let mut document: DocumentMut = text.parse().map_err(|_| file::unusable(path, "is no TOML"))?;
    let list = document.entry(LIST).or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
    let Item::ArrayOfTables(list) = list else {
        return Err(file::unusable(
            path,
            "rules are written as [[rule]] tables where they are to be changed",
        ));
    };
    let over = |rule: &FileRule| rule.grant.expires_at.is_some_and(|end| end <= now);
    for at in (0..rules.len()).rev().filter(|at| over(&rules[*at])).collect::<Vec<_>>() {
        list.remove(at);
        rules.remove(at);
    }
    change(list, &rules)?;
    let text = document.to_string();
    // The result must be readable again, or nothing is written.
    written::read(path, &text, None)?;
    file::replace(path, &text).map_err(|error| {
        Error::new(ErrorCode::StorageFailed, format!("{} cannot be written: {error}", path.display()))
    })
}

/// Returns the folders whose rule files apply in a working folder, each once.
pub(super) fn folders<'a>(working_dir: &'a Path, root: &'a Path) -> Vec<&'a Path> {
    if working_dir == root { vec![root] } else { vec![root, working_dir] }
}
