//! Settings of a repository that make git run no program and lead it to no other file. Everything else that a configuration gains
//! while an agent runs counts as if the agent had written it. Pure.

use std::collections::BTreeSet;
use std::ffi::OsStr;

/// Sections, and which of their keys are harmless; none: all but those of [`NOT_HARMLESS`].
const HARMLESS: &[(&str, Option<&[&str]>)] = &[
    (
        "core",
        Some(&[
            "abbrev",
            "autocrlf",
            "bare",
            "bigfilethreshold",
            "checkstat",
            "commentchar",
            "compression",
            "deltabasecachelimit",
            "eol",
            "filemode",
            "fscache",
            "ignorecase",
            "logallrefupdates",
            "longpaths",
            "precomposeunicode",
            "quotepath",
            "repositoryformatversion",
            "safecrlf",
            "sharedrepository",
            "sparsecheckout",
            "sparsecheckoutcone",
            "splitindex",
            "symlinks",
            "trustctime",
            "untrackedcache",
            "whitespace",
        ]),
    ),
    ("branch", None),
    (
        "remote",
        Some(&[
            "fetch",
            "gh-resolved",
            "mirror",
            "partialclonefilter",
            "promisor",
            "prune",
            "prunetags",
            "push",
            "pushdefault",
            "pushurl",
            "skipdefaultupdate",
            "skipfetchall",
            "tagopt",
            "url",
        ]),
    ),
    ("submodule", Some(&["active", "branch", "fetchrecursesubmodules", "ignore", "recurse", "url"])),
    ("user", Some(&["email", "name", "signingkey", "useconfigonly"])),
    ("author", None),
    ("committer", None),
    (
        "extensions",
        Some(&["objectformat", "partialclone", "preciousobjects", "refstorage", "worktreeconfig"]),
    ),
    ("init", Some(&["defaultbranch"])),
    ("lfs", Some(&["access", "locksverify", "repositoryformatversion"])),
    ("advice", None),
    ("apply", None),
    ("checkout", None),
    ("color", None),
    ("column", None),
    ("feature", None),
    ("fetch", None),
    (
        "gc",
        Some(&["auto", "autodetach", "autopacklimit", "pruneexpire", "reflogexpire", "worktreepruneexpire"]),
    ),
    ("index", None),
    ("log", None),
    ("maintenance", Some(&["auto", "strategy"])),
    ("pack", Some(&["compression", "depth", "threads", "window", "writebitmaps"])),
    ("pull", None),
    ("push", None),
    ("rebase", None),
    ("rerere", None),
    ("stash", None),
    ("status", None),
    ("tag", Some(&["sort"])),
];

/// Keys that run something, in sections that are harmless otherwise.
const NOT_HARMLESS: &[&str] = &["mergeoptions"];

/// Whether a protected name is a configuration of git.
pub(super) fn is_configuration(name: &OsStr) -> bool {
    name == "config" || name == "config.worktree"
}

/// Returns the settings that are new and not known to be harmless; none if there are no such. A configuration that cannot be
/// read counts as one with such settings.
pub(super) fn added(old: &[u8], new: Option<&[u8]>) -> Option<String> {
    let Some(new) = new else { return Some("it cannot be read".to_owned()) };
    let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(new));
    let known: BTreeSet<Setting> = settings(&old).into_iter().collect();
    let added: Vec<Setting> = settings(&new)
        .into_iter()
        .filter(|setting| !setting.is_harmless() && !known.contains(setting))
        .collect();
    if added.is_empty() {
        return None;
    }
    let mut keys: Vec<String> = added.iter().map(Setting::shown).collect();
    keys.dedup();
    keys.truncate(5);
    Some(keys.join(", "))
}

/// One line of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Setting {
    section: String,
    key: String,
    value: String,
}

impl Setting {
    fn is_harmless(&self) -> bool {
        let Some((_, keys)) = HARMLESS.iter().find(|(section, _)| *section == self.section) else {
            return false;
        };
        let is_key = match keys {
            Some(keys) => keys.contains(&self.key.as_str()),
            None => !NOT_HARMLESS.contains(&self.key.as_str()),
        };
        // `ext::` and its like in place of an address name a program.
        is_key && !self.value.contains("::") && !self.value.starts_with('!')
    }

    fn shown(&self) -> String {
        let safe =
            |text: &str| text.chars().filter(|letter| !letter.is_control()).take(40).collect::<String>();
        format!("{}.{}", safe(&self.section), safe(&self.key))
    }
}

/// Reads a configuration. What is not understood is a setting that is not harmless: git may understand it.
fn settings(text: &str) -> Vec<Setting> {
    let mut all = Vec::new();
    let mut section = String::new();
    let mut rest = text.trim_start_matches('\u{feff}').lines().peekable();
    while let Some(line) = rest.next() {
        let mut line = line.trim().to_owned();
        while line.ends_with('\\') && rest.peek().is_some() {
            line.pop();
            line.push_str(rest.next().unwrap_or_default());
        }
        let mut line = line.as_str();
        if let Some(inner) = line.strip_prefix('[') {
            let Some((name, after)) = header(inner) else {
                all.push(unread(line));
                continue;
            };
            section = name;
            // A setting may follow on the line of its section.
            line = after.trim();
        }
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let (key, value) = line.split_once('=').map_or((line, "true"), |(key, value)| (key, value));
        let key = key.trim().to_ascii_lowercase();
        if key.is_empty() || !key.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-') {
            all.push(unread(line));
            continue;
        }
        let value = value.trim().trim_matches('"').to_owned();
        all.push(Setting { section: section.clone(), key, value });
    }
    all
}

fn unread(line: &str) -> Setting {
    Setting { section: "line".to_owned(), key: line.to_owned(), value: String::new() }
}

/// Reads what follows the bracket of a section: its name without the part in quotes, and what is behind it.
fn header(text: &str) -> Option<(String, &str)> {
    let end = text.find(|letter: char| !(letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.')))?;
    let (name, mut rest) = text.split_at(end);
    rest = rest.trim_start();
    if let Some(quoted) = rest.strip_prefix('"') {
        let mut escaped = false;
        let close = quoted.find(|letter: char| {
            let ends = letter == '"' && !escaped;
            escaped = letter == '\\' && !escaped;
            ends
        })?;
        rest = &quoted[close + 1..];
    }
    // An older form has the second part behind a dot.
    let name = name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    Some((name, rest.strip_prefix(']')?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "[core]\n\tbare = false\n\teditor = mine\n[remote \"origin\"]\n\turl = https://h/x\n";

    #[test]
    fn what_git_writes_for_branches_and_remotes_is_harmless() {
        let new = format!(
            "{OLD}\tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"a\\\"]b\"]\n\tremote = origin\n\tmerge = refs/heads/a\n\
             # editor = x\n[user]\n\tname = A \\\n B\n"
        );
        assert_eq!(added(OLD.as_bytes(), Some(new.as_bytes())), None);
        assert_eq!(added(OLD.as_bytes(), Some(b"")), None, "less is no danger");
    }

    #[test]
    fn what_runs_programs_or_leads_elsewhere_is_named() {
        for (more, key) in [
            ("[core]\n\tfsmonitor = evil\n", "core.fsmonitor"),
            ("[CORE]fsmonitor=evil\n", "core.fsmonitor"),
            ("[core \"x\"]\n[core]\n\teditor = theirs\n", "core.editor"),
            ("[include]\n\tpath = x\n", "include.path"),
            ("[alias]\n\tst = !evil\n", "alias.st"),
            ("[remote \"origin\"]\n\turl = ext::sh -c evil\n", "remote.url"),
            ("[remote \"a\"]\n\tuploadpack = evil\n", "remote.uploadpack"),
            ("[submodule \"a\"]\n\tupdate = !evil\n", "submodule.update"),
            ("[filter \"a\"]\n\tclean = evil\n", "filter.clean"),
            ("[core]\n\tfs\\\nmonitor = evil\n", "core.fsmonitor"),
            ("[core\n", "line.[core"),
        ] {
            let found = added(OLD.as_bytes(), Some(format!("{OLD}{more}").as_bytes()));
            assert_eq!(found.as_deref(), Some(key), "{more}");
        }
        assert!(added(OLD.as_bytes(), None).is_some(), "unread");
    }
}
