//! Repositories inside registered projects whose configuration or hooks make git run programs. An agent can make one, and the
//! user's own git runs what it says as soon as it is started there. Reads files only; starts no git. The project's own
//! repository is the user's, and protected from sandboxed agents; only what leads it elsewhere is looked at: another repository,
//! and links, through which git would write.

use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::Finding;
use crate::limits;
use client::connection::Client;
use client::resolve;

const CHECK: &str = "repositories";

/// Settings whose value is a program, or a file with more settings. Of those that may also be a boolean, only other values
/// count.
const RUNS: &[&str] = &[
    "core.askpass",
    "core.editor",
    "core.fsmonitor",
    "core.gitproxy",
    "core.hookspath",
    "core.pager",
    "core.sshcommand",
    "core.alternaterefscommand",
    "diff.external",
    "sequence.editor",
    "gpg.program",
    "include.path",
    "interactive.difffilter",
];

/// The same in sections that have a name: the first and the last part.
const RUNS_NAMED: &[(&str, &str)] = &[
    ("filter", "clean"),
    ("filter", "smudge"),
    ("filter", "process"),
    ("diff", "command"),
    ("diff", "textconv"),
    ("merge", "driver"),
    ("gpg", "program"),
    ("includeif", "path"),
    ("credential", "helper"),
    ("remote", "uploadpack"),
    ("remote", "receivepack"),
    ("submodule", "update"),
    ("difftool", "cmd"),
    ("mergetool", "cmd"),
];

/// Looks through the registered projects.
pub(super) async fn examine(client: &Client) -> Option<Finding> {
    let campaigns = resolve::campaigns(client).await.ok()?;
    let roots: Vec<PathBuf> = campaigns.into_iter().map(|campaign| campaign.path.into()).collect();
    if roots.is_empty() {
        return None;
    }
    let found = tokio::task::spawn_blocking(move || -> Vec<String> {
        roots.iter().flat_map(|root| in_project(root)).collect()
    });
    Some(report(&found.await.ok()?))
}

fn report(found: &[String]) -> Finding {
    if found.is_empty() {
        return Finding::ok(
            CHECK,
            "no repository inside a project makes git run programs or write elsewhere",
        );
    }
    let shown = found.iter().take(limits::REPOSITORIES_SHOWN_MAX).cloned().collect::<Vec<_>>().join("; ");
    Finding::warning(
        CHECK,
        format!("git would run programs, or write elsewhere, in {shown}"),
        "look at these files before you use git there; remove those that you did not write",
    )
}

/// Returns the repositories of a project that make git run programs, each with the reason.
fn in_project(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let own = root.join(".git");
    if redirects(&own) {
        found.push(format!("{} (commondir leads elsewhere)", root.display()));
    }
    found.extend(links_out(&own).iter().map(|link| format!("{} (it is a link)", link.display())));
    let (mut folders, mut seen) = (VecDeque::from([root.to_owned()]), 0);
    while let Some(folder) = folders.pop_front() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            seen += 1;
            if seen > limits::REPOSITORIES_WALK_MAX {
                return found;
            }
            let path = entry.path();
            let Ok(kind) = entry.file_type() else { continue };
            if path == own {
                continue;
            }
            let is_git = entry.file_name() == ".git";
            if is_git || (kind.is_dir() && is_bare(&path)) {
                let repository = match kind.is_file() {
                    true => git_files::git_folder(&folder).and_then(|named| named.canonicalize().ok()),
                    false => Some(path.clone()),
                };
                // Submodules and working trees of the project have their settings in its own repository.
                let repository = repository.filter(|repository| !repository.starts_with(&own));
                if let Some(reason) = repository.and_then(|repository| reason(&repository)) {
                    let shown = if is_git { &folder } else { &path };
                    found.push(format!("{} ({reason})", shown.display()));
                }
            } else if kind.is_dir() {
                folders.push_back(path);
            }
        }
    }
    found
}

/// Returns the links in a repository that lead out of it. Git makes none there, and writes reflogs, indexes and objects through them.
fn links_out(git: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders, mut seen) = (Vec::new(), VecDeque::from([git.to_owned()]), 0);
    while let Some(folder) = folders.pop_front() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            seen += 1;
            let Ok(kind) = entry.file_type() else { continue };
            let path = entry.path();
            if seen > limits::REPOSITORIES_WALK_MAX {
                return found;
            }
            if kind.is_dir() {
                folders.push_back(path);
            } else if kind.is_symlink() && !path.canonicalize().is_ok_and(|target| target.starts_with(git)) {
                found.push(path);
            }
        }
    }
    found
}

/// Whether a folder is a repository without a working tree.
fn is_bare(folder: &Path) -> bool {
    folder.join("HEAD").is_file() && folder.join("objects").is_dir() && folder.join("refs").is_dir()
}

/// Whether a repository takes its settings from elsewhere. A working tree's own folder always does; it lies in `worktrees`.
fn redirects(git: &Path) -> bool {
    git_files::common_folder(git).is_some_and(|named| named != git)
}

/// Says by what git would run a program in a repository.
fn reason(git: &Path) -> Option<String> {
    if redirects(git) {
        return Some("commondir leads elsewhere".to_owned());
    }
    for file in ["config", "config.worktree"] {
        if let Some(setting) = small_text(&git.join(file)).and_then(|text| setting_that_runs(&text)) {
            return Some(format!("{file}: {setting}"));
        }
    }
    let mut hooks = fs::read_dir(git.join("hooks")).into_iter().flatten().flatten();
    let is_hook = |entry: &fs::DirEntry| {
        let is_sample = entry.path().extension().is_some_and(|extension| extension == "sample");
        !is_sample && entry.metadata().is_ok_and(|meta| meta.permissions().mode() & 0o111 != 0)
    };
    let hook = hooks.find(is_hook)?;
    Some(format!("hooks/{}", hook.file_name().to_string_lossy()))
}

/// Returns the first setting of a configuration that makes git run something.
fn setting_that_runs(text: &str) -> Option<String> {
    let mut section = (String::new(), String::new());
    for line in text.lines().map(str::trim) {
        let mut rest = line;
        if let Some(header) = line.strip_prefix('[') {
            let (header, after) = header.split_once(']')?;
            let (name, sub) = header.split_once(char::is_whitespace).unwrap_or((header, ""));
            // The older form has a dot instead of quotes.
            let (name, sub) = name.split_once('.').unwrap_or((name, sub));
            section = (name.trim().to_ascii_lowercase(), sub.trim().trim_matches('"').to_owned());
            rest = after.trim();
        }
        let Some((key, value)) = rest.split_once('=') else { continue };
        let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
        if key.starts_with(['#', ';']) || is_harmless(value) {
            continue;
        }
        let full = format!("{}.{key}", section.0);
        let is_alias = section.0 == "alias" && value.trim_start_matches('"').starts_with('!');
        let is_named = RUNS_NAMED.iter().any(|(name, last)| section.0 == *name && key == *last);
        if is_alias || is_named || RUNS.contains(&full.as_str()) {
            let sub = if section.1.is_empty() { String::new() } else { format!(".{}", section.1) };
            return Some(format!("{}{sub}.{key}", section.0));
        }
    }
    None
}

/// Whether a value names no program that the repository brings along: a boolean, nothing, or one of git's own helpers.
fn is_harmless(value: &str) -> bool {
    let value = value.trim_matches('"');
    let words =
        ["true", "false", "yes", "no", "on", "off", "0", "1", "", "checkout", "rebase", "merge", "none"];
    let known = ["git-lfs clean -- %f", "git-lfs smudge -- %f", "git-lfs filter-process"];
    words.contains(&value.to_ascii_lowercase().as_str()) || known.contains(&value)
}

/// Reads a file that git itself has made there, and no link.
fn small_text(path: &Path) -> Option<String> {
    if !path.symlink_metadata().ok()?.is_file() {
        return None;
    }
    let bytes = git_files::read(path, limits::REPOSITORY_CONFIG_MAX_BYTES)?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn settings_that_run_programs_are_known() {
        for text in [
            "[core]\n\tfsmonitor = ./evil",
            "[core] sshCommand = x",
            "[Alias]\n st = !evil",
            "[filter \"x\"]\n\tclean = evil %f",
            "[filter.x]\nsmudge=evil",
            "[include]\n\tpath = ../x",
            "[includeIf \"gitdir:/\"]\n\tpath = x",
            "[diff \"a b\"]\ntextconv = evil",
            "[credential]\n\thelper = !evil",
        ] {
            assert!(setting_that_runs(text).is_some(), "{text}");
        }
        for text in [
            "[core]\n\tbare = false\n\tfsmonitor = true\n\t# pager = x",
            "[alias]\n\tst = status -sb",
            "[filter \"lfs\"]\n\tclean = git-lfs clean -- %f\n\trequired = true",
            "[remote \"origin\"]\n\turl = https://example.com/x.git\n[branch \"main\"]\n\tmerge = refs/heads/main",
        ] {
            assert_eq!(setting_that_runs(text), None, "{text}");
        }
    }

    #[test]
    fn repositories_that_an_agent_may_have_made_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        write(&root, ".git/config", "[core]\n\tpager = less\n");
        write(&root, ".git/hooks/pre-commit", "the user's own");
        write(&root, "vendor/plain/.git/config", "[core]\n\tbare = false\n");
        assert_eq!(in_project(&root), [] as [String; 0]);
        write(&root, "deep/er/.git/config", "[core]\n\tfsmonitor = ./evil\n");
        write(&root, "bare/HEAD", "ref: refs/heads/main\n");
        write(&root, "bare/objects/x", "");
        write(&root, "bare/refs/x", "");
        write(&root, "bare/hooks/post-update", "evil");
        fs::set_permissions(root.join("bare/hooks/post-update"), fs::Permissions::from_mode(0o755)).unwrap();
        write(&root, "linked/.git", "gitdir: ../elsewhere\n");
        write(&root, "elsewhere/config", "[core]\n\teditor = evil\n");
        write(&root, ".git/commondir", "../elsewhere\n");
        let found = in_project(&root).join("\n");
        for expected in [
            "(commondir leads elsewhere)",
            "deep/er (config: core.fsmonitor)",
            "bare (hooks/post-update)",
            "linked (config: core.editor)",
        ] {
            assert!(found.contains(expected), "{expected}: {found}");
        }
        assert_eq!(found.lines().count(), 4, "{found}");
        let outside = tempfile::NamedTempFile::new().unwrap();
        fs::create_dir_all(root.join(".git/logs/refs")).unwrap();
        std::os::unix::fs::symlink(outside.path(), root.join(".git/logs/refs/main")).unwrap();
        std::os::unix::fs::symlink("/nowhere/yet", root.join(".git/index")).unwrap();
        std::os::unix::fs::symlink("config", root.join(".git/inside")).unwrap();
        let links: Vec<String> =
            in_project(&root).into_iter().filter(|one| one.ends_with("(it is a link)")).collect();
        assert_eq!(links.len(), 2, "{links:?}");
        fs::remove_dir_all(root.join(".git/logs")).unwrap();
        fs::remove_file(root.join(".git/index")).unwrap();
        // What stands there while an agent runs.
        write(&root, ".git/commondir", ".\n");
        assert_eq!(in_project(&root).len(), 3);
    }
}
