//! Computes which configuration must override a repository's own so that it cannot choose which programs run.
//! Works on the list of all settings with their scopes: a value of the repository is replaced by the user's
//! value, or by a harmless one. Pure.

use std::collections::BTreeMap;

/// One entry of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    /// Whether it comes from the repository, directly or through a file it includes.
    pub(super) of_repository: bool,
    pub(super) key: String,
    pub(super) value: String,
}

/// Keys that run programs, as section and variable, with the value that replaces the repository's. The
/// subsection between the two may be anything. Hooks, file monitor and pager are pinned for every command and
/// not listed here.
const PROGRAMS: &[(&str, &str, &str)] = &[
    ("filter", "clean", ""),
    ("filter", "smudge", ""),
    ("filter", "process", ""),
    ("diff", "command", ""),
    ("diff", "external", ""),
    // Shows the file as it is.
    ("diff", "textconv", "cat"),
    // Leaves a conflict instead of choosing one side.
    ("merge", "driver", "false"),
    ("mergetool", "cmd", "false"),
    ("mergetool", "path", "false"),
    ("difftool", "cmd", "false"),
    ("difftool", "path", "false"),
    ("pager", "*", "false"),
    ("core", "editor", ":"),
    ("sequence", "editor", ":"),
    ("core", "sshcommand", "ssh"),
    ("core", "askpass", ""),
    ("core", "gitproxy", ""),
    ("core", "attributesfile", "/dev/null"),
    ("core", "excludesfile", "/dev/null"),
    ("gpg", "program", "false"),
    ("gpg", "defaultkeycommand", "false"),
    ("commit", "gpgsign", "false"),
    ("tag", "gpgsign", "false"),
    ("tag", "forcesignannotated", "false"),
    ("push", "gpgsign", "false"),
    ("log", "showsignature", "false"),
    ("merge", "verifysignatures", "false"),
    ("gc", "recentobjectshook", ""),
    ("uploadpack", "packobjectshook", ""),
    ("branch", "mergeoptions", ""),
    ("pull", "twohead", "ort"),
    ("pull", "octopus", "octopus"),
    ("trailer", "command", "true"),
    ("trailer", "cmd", "true"),
    ("man", "cmd", "false"),
    ("browser", "cmd", "false"),
    ("guitool", "cmd", "false"),
    ("imap", "tunnel", "false"),
    ("ssh", "variant", "auto"),
    // These run no program, but could disclose a password of the user.
    ("http", "sslverify", "true"),
    ("http", "proxy", ""),
    ("http", "curloptresolve", ""),
    ("remote", "proxy", ""),
    // Git LFS runs additional programs.
    ("lfs", "standalonetransferagent", ""),
    ("lfs", "path", ""),
    ("lfs", "args", ""),
    ("lfs", "clean", ""),
    ("lfs", "smudge", ""),
];

/// Returns the configuration that overrides the repository's. With `changes` the command may write; it must
/// then fail where a disabled filter is needed, instead of storing unfiltered content.
pub(super) fn overrides(settings: &[Setting], changes: bool) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut replaced: BTreeMap<&str, String> = BTreeMap::new();
    for setting in settings.iter().filter(|setting| setting.of_repository) {
        let Some((section, between, variable)) = parts(&setting.key) else { continue };
        let own = || {
            let same = |other: &&Setting| !other.of_repository && other.key == setting.key;
            settings.iter().rev().find(same).map(|own| own.value.clone())
        };
        for (of, name, harmless) in PROGRAMS {
            if section == *of && (variable == *name || *name == "*") {
                replaced.insert(&setting.key, own().unwrap_or_else(|| (*harmless).to_owned()));
            }
        }
        if section == "filter" && !between.is_empty() {
            // One key may name a program and another key enable it, so all three are set.
            for name in ["clean", "smudge", "process"] {
                let key = format!("filter.{between}.{name}");
                let known = settings.iter().rev().find(|other| !other.of_repository && other.key == key);
                all.push((key, known.map(|own| own.value.clone()).unwrap_or_default()));
            }
            let known = settings.iter().any(|other| {
                !other.of_repository
                    && parts(&other.key).is_some_and(|(of, name, _)| of == "filter" && name == between)
            });
            if !known {
                all.push((format!("filter.{between}.required"), changes.to_string()));
            }
        }
        if section == "submodule" && !between.is_empty() {
            all.push((format!("submodule.{between}.ignore"), "all".to_owned()));
        }
    }
    all.extend(replaced.into_iter().map(|(key, value)| (key.to_owned(), value)));
    all.sort();
    all.dedup();
    all.extend(credential_helpers(settings));
    all
}

/// Credential helpers accumulate. An empty value clears the list, with the repository's helpers; the user's
/// are then added again.
fn credential_helpers(settings: &[Setting]) -> Vec<(String, String)> {
    if !settings.iter().any(|setting| setting.of_repository && is_helper(&setting.key)) {
        return Vec::new();
    }
    let own = settings.iter().filter(|setting| !setting.of_repository && is_helper(&setting.key));
    let forget = ("credential.helper".to_owned(), String::new());
    std::iter::once(forget).chain(own.map(|own| (own.key.clone(), own.value.clone()))).collect()
}

fn is_helper(key: &str) -> bool {
    key.starts_with("credential.") && key.ends_with(".helper")
}

/// Returns whether the repository has conditional includes. Their conditions may become true while a command
/// runs.
pub(super) fn has_conditional_includes(settings: &[Setting]) -> bool {
    settings.iter().any(|setting| setting.of_repository && setting.key.starts_with("includeif."))
}

/// Returns the key of a program that the repository wants to run for a remote. Git uses the first value of
/// these keys, so they cannot be overridden.
pub(super) fn program_at_remote(settings: &[Setting]) -> Option<&str> {
    let runs = |key: &str| {
        parts(key).is_some_and(|(section, _, variable)| {
            section == "remote" && matches!(variable, "uploadpack" | "receivepack" | "vcs")
        })
    };
    let found = settings.iter().find(|setting| setting.of_repository && runs(&setting.key));
    found.map(|setting| setting.key.as_str())
}

/// Returns the value of a setting made by the repository.
pub(super) fn of_repository<'a>(settings: &'a [Setting], key: &str) -> Option<&'a str> {
    let found = settings.iter().rev().find(|setting| setting.of_repository && setting.key == key);
    found.map(|setting| setting.value.as_str())
}

/// Splits a key into section, subsection and variable. Git prints section and variable in lower case.
fn parts(key: &str) -> Option<(&str, &str, &str)> {
    let (section, rest) = key.split_once('.')?;
    Some(match rest.rsplit_once('.') {
        Some((between, variable)) => (section, between, variable),
        None => (section, "", rest),
    })
}

/// Parses the output of `git config --list --show-scope -z`.
pub(super) fn read(printed: &[u8]) -> Option<Vec<Setting>> {
    let mut parts = printed.split(|byte| *byte == 0);
    let mut settings = Vec::new();
    while let Some(scope) = parts.next() {
        if scope.is_empty() {
            return Some(settings);
        }
        // A key that is not UTF-8 cannot be overridden, so nothing may run.
        let entry = std::str::from_utf8(parts.next()?).ok()?;
        let (key, value) = entry.split_once('\n').unwrap_or((entry, ""));
        let of_repository = !matches!(scope, b"system" | b"global" | b"command");
        settings.push(Setting { of_repository, key: key.to_owned(), value: value.to_owned() });
    }
    Some(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(of_repository: bool, key: &str, value: &str) -> Setting {
        Setting { of_repository, key: key.to_owned(), value: value.to_owned() }
    }

    fn value<'a>(all: &'a [(String, String)], key: &str) -> Option<&'a str> {
        all.iter().rev().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    #[test]
    fn programs_of_the_repository_are_replaced_by_the_users_or_by_nothing() {
        let settings = [
            setting(false, "core.sshcommand", "ssh -i mine"),
            setting(false, "filter.lfs.process", "git-lfs filter-process"),
            setting(false, "filter.lfs.required", "true"),
            setting(true, "core.sshcommand", "evil"),
            setting(true, "filter.lfs.process", "evil"),
            setting(true, "filter.a.b.clean", "evil"),
            setting(true, "diff.x.textconv", "evil"),
            setting(true, "merge.x.driver", "evil"),
            setting(true, "user.name", "me"),
        ];
        let all = overrides(&settings, true);
        assert_eq!(value(&all, "core.sshcommand"), Some("ssh -i mine"));
        assert_eq!(value(&all, "filter.lfs.process"), Some("git-lfs filter-process"));
        assert_eq!(value(&all, "filter.lfs.required"), None, "the user's own filter stays as it is");
        for name in ["clean", "smudge", "process"] {
            assert_eq!(value(&all, &format!("filter.a.b.{name}")), Some(""), "{name}");
        }
        assert_eq!(value(&all, "filter.a.b.required"), Some("true"));
        assert_eq!(value(&overrides(&settings, false), "filter.a.b.required"), Some("false"));
        assert_eq!(
            (value(&all, "diff.x.textconv"), value(&all, "merge.x.driver")),
            (Some("cat"), Some("false"))
        );
        assert_eq!(value(&all, "user.name"), None);
        assert!(all.iter().all(|(_, value)| value != "evil"), "{all:?}");
    }

    #[test]
    fn credential_helpers_of_the_repository_are_forgotten_and_the_users_stay_in_order() {
        let settings = [
            setting(false, "credential.helper", "store"),
            setting(false, "credential.https://host.helper", "cache"),
            setting(true, "credential.helper", "!evil"),
        ];
        let all = overrides(&settings, false);
        let expected = [
            ("credential.helper", ""),
            ("credential.helper", "store"),
            ("credential.https://host.helper", "cache"),
        ];
        assert_eq!(all, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
        assert!(overrides(&settings[..2], false).is_empty());
    }

    #[test]
    fn a_list_is_read_with_its_scopes() {
        let printed = b"global\0user.name\nme\0local\0filter.a\nb.clean\nx\ny\0local\0core.bare\0";
        let all = read(printed).unwrap();
        assert_eq!(all[0], setting(false, "user.name", "me"));
        assert_eq!(all[2], setting(true, "core.bare", ""));
        assert_eq!(read(b"local\0\xff\n\0"), None);
        assert_eq!(read(b"local"), None);
    }
}
