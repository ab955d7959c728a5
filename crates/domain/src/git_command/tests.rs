//! Command lines that are allowed and refused.

use super::*;

fn check(line: &str) -> Result<GitCommand, String> {
    parse(&line.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect::<Vec<_>>())
}

/// Command lines, and the argument that the refusal names.
const REFUSED: &[(&str, &str)] = &[
    ("grep -Otouch x", "-O"),
    ("grep --open-files-in-pager=touch x", "--open-files-in-pager"),
    ("grep --open x", "--open"),
    ("clone --upload-pack touch x y", "--upload-pack"),
    ("clone -u touch x y", "-u"),
    ("clone --config core.fsmonitor=x a b", "--config"),
    ("clone -c core.fsmonitor=x a b", "-c"),
    ("clone --template=/tmp/t a b", "--template"),
    ("clone --recurse-submodules a b", "--recurse-submodules"),
    ("clone https://host/x /etc/x", "folder"),
    ("clone https://host/x a/../../x", "folder"),
    ("clone ext::sh x", "helpers"),
    ("fetch --upload-pack=touch origin", "--upload-pack"),
    ("fetch -f origin", "-f"),
    ("fetch origin +main:main", "+main:main"),
    ("fetch ext::sh", "helpers"),
    ("ls-remote --upload-pack=x origin", "--upload-pack"),
    ("push --receive-pack=x origin", "--receive-pack"),
    ("push --exec=x origin", "--exec"),
    ("push --force", "--force"),
    ("push --forc", "--forc"),
    ("push origin -f", "-f"),
    ("push --force-with-lease=main", "--force-with-lease"),
    ("push origin +main", "+main"),
    ("push origin :main", ":main"),
    ("push --delete origin x", "--delete"),
    ("push --mirror", "--mirror"),
    ("log --output=FILE", "--output"),
    ("log --outp=FILE", "--outp"),
    ("diff --output FILE", "--output"),
    ("diff --ext-diff", "--ext-diff"),
    ("diff --no-index a b", "--no-index"),
    ("log --textconv -p", "--textconv"),
    ("show --show-signature", "--show-signature"),
    ("format-patch HEAD~1", "format-patch"),
    ("branch -D x", "-D"),
    ("branch -dD x", "-D"),
    ("branch -M x y", "-M"),
    ("branch -f x y", "-f"),
    ("branch --edit-description", "--edit-description"),
    ("update-ref -d HEAD", "update-ref"),
    ("symbolic-ref HEAD x", "symbolic-ref"),
    ("tag -d v1", "-d"),
    ("tag -f v1", "-f"),
    ("tag -s v1", "-s"),
    ("config --global user.name x", "--global"),
    ("config user.name x", "read only"),
    ("config set user.name x", "read only"),
    ("config --list set", "set"),
    ("config --get set", "set"),
    ("config -e", "-e"),
    ("config --file=/etc/x --list", "--file"),
    ("reset --hard", "--hard"),
    ("reset --har", "--har"),
    ("clean -fd", "-f"),
    ("clean -d", "--dry-run"),
    ("checkout -f main", "-f"),
    ("checkout -- .", "overwrite"),
    ("checkout -B main", "-B"),
    ("checkout --force main", "--force"),
    ("restore .", "--staged"),
    ("restore -SW .", "-W"),
    ("switch -f main", "-f"),
    ("switch --discard-changes main", "--discard-changes"),
    ("switch -C main", "-C"),
    ("rm -f x", "-f"),
    ("mv -f x y", "-f"),
    ("stash drop", "drop"),
    ("stash clear", "clear"),
    ("reflog expire --all", "expire"),
    ("reflog delete x", "delete"),
    ("rebase -x touch main", "-x"),
    ("rebase --exec=touch main", "--exec"),
    ("rebase -i main", "-i"),
    ("rebase -s evil main", "-s"),
    ("merge -s evil x", "-s"),
    ("pull -s evil", "-s"),
    ("commit -S -m x", "-S"),
    ("commit --template=x", "--template"),
    ("commit -F /etc/passwd", "-F"),
    ("commit -e -m x", "-e"),
    ("commit --trailer=x -m y", "--trailer"),
    ("add -p", "-p"),
    ("add -i", "-i"),
    ("bisect run touch x", "bisect"),
    ("filter-branch --tree-filter x", "filter-branch"),
    ("submodule foreach touch", "submodule"),
    ("submodule update", "submodule"),
    ("difftool -x touch", "difftool"),
    ("mergetool", "mergetool"),
    ("archive --remote=x HEAD", "archive"),
    ("apply x", "apply"),
    ("am x", "am"),
    ("gc", "gc"),
    ("daemon", "daemon"),
    ("upload-pack .", "upload-pack"),
    ("credential fill", "credential"),
    ("hook run pre-commit", "hook"),
    ("help status", "help"),
    ("status --help", "--help"),
    ("--help status", "--help"),
    ("worktree add x", "add"),
    ("worktree remove --force x", "remove"),
    ("remote set-url origin x", "set-url"),
    ("remote add -f x y", "-f"),
    ("remote add x ext::sh", "helpers"),
    ("cat-file --filters HEAD:x", "--filters"),
    ("cat-file --textconv HEAD:x", "--textconv"),
    ("blame --contents=/etc/passwd x", "--contents"),
    ("ls-files --recurse-submodules", "--recurse-submodules"),
    ("pwn", "pwn"),
    ("-c alias.x=!sh x", "-c"),
    ("-calias.x=!sh x", "-calias"),
    ("--config-env=alias.x=X x", "--config-env"),
    ("--exec-path=/tmp status", "--exec-path"),
    ("--git-dir=/tmp/x status", "--git-dir"),
    ("--work-tree=/ status", "--work-tree"),
    ("--namespace=x status", "--namespace"),
    ("--attr-source=x status", "--attr-source"),
    ("--paginate log", "--paginate"),
    ("-p log", "-p"),
    ("-C a -C b status", "-C"),
    ("-C", "-C"),
];

#[test]
fn what_people_ask_for_passes() {
    for line in [
        "",
        "--version",
        "--no-pager status",
        "status --short --branch -uno",
        "status -sb",
        "log --oneline -5",
        "log -n 5 --format=%h --since yesterday -- src",
        "log -p -U10 --stat=80 --all --graph",
        "diff --cached --stat HEAD~1 -- a b",
        "diff --name-only main...HEAD",
        "show HEAD:src/main.rs",
        "blame -L 1,5 src/main.rs",
        "grep -n -i -e pattern -- src",
        "add -A",
        "add .",
        "commit -m message",
        "commit -am message --no-verify",
        "commit --amend --no-edit",
        "checkout main",
        "checkout -b feature origin/main",
        "switch -c feature",
        "restore --staged file",
        "reset --soft HEAD~1",
        "branch -a -vv",
        "branch -d merged",
        "branch --merged main",
        "tag -l v1*",
        "tag -a v1 -m release",
        "stash",
        "stash push -m work",
        "stash pop",
        "stash list",
        "fetch --all --prune",
        "pull --rebase origin main",
        "push -u origin feature",
        "push origin main:main",
        "ls-remote --heads origin",
        "clone --depth 1 https://host/x.git sub/x",
        "remote -v",
        "remote get-url origin",
        "rebase --onto main old new",
        "merge --no-ff feature",
        "cherry-pick -x abc",
        "clean -ndx",
        "config --get user.name",
        "config --list --show-origin",
        "worktree list --porcelain",
        "rev-parse --abbrev-ref HEAD",
        "-C sub log --format=%h",
    ] {
        assert!(check(line).is_ok(), "{line}: {:?}", check(line));
    }
}

#[test]
fn what_runs_programs_writes_anywhere_or_loses_work_is_refused_by_name() {
    for (line, named) in REFUSED {
        let error = check(line).expect_err(line);
        assert!(error.contains(named), "{line}: {error}");
    }
}

#[test]
fn an_option_cannot_hide_behind_the_value_of_another() {
    // Git would take the two dashes for the message and continue parsing.
    for line in
        ["commit -m -- --amend -S", "log --since -- --output=x", "log -n -- --output=x", "branch --merged -D"]
    {
        assert!(check(line).unwrap_err().contains("begins with a dash"), "{line}");
    }
    assert!(check("commit -m-x").is_ok());
    assert!(check("log -- --output=x").is_ok(), "a file may be called so");
}

#[test]
fn programs_for_comparing_are_switched_off_and_checkout_takes_branches_only() {
    let args = |line| check(line).unwrap().args.join(" ");
    assert_eq!(args("diff a"), "diff --no-ext-diff --no-textconv --ignore-submodules=dirty a");
    assert_eq!(args("stash show x"), "stash show --no-ext-diff --no-textconv x");
    assert_eq!(args("stash pop"), "stash pop");
    assert_eq!(args("checkout -b x main"), "checkout -b x main --");
    let command = check("-C sub status").unwrap();
    assert_eq!((command.folder.as_deref(), command.changes), (Some("sub"), false));
}

#[test]
fn no_argument_reaches_git_that_was_not_looked_at() {
    // Every unlisted option of every subcommand, at every position of a line.
    let evil = [
        "--output=x",
        "-O",
        "--exec=x",
        "--upload-pack=x",
        "--force",
        "--hard",
        "--global",
        "--open-files-in-pager",
    ];
    for subcommand in table::SUBCOMMANDS {
        for evil in evil {
            for line in [format!("{} {evil}", subcommand.name), format!("{} a {evil} b", subcommand.name)] {
                assert!(check(&line).is_err(), "{line}");
            }
        }
    }
}

#[test]
fn an_option_has_one_meaning() {
    for subcommand in table::SUBCOMMANDS {
        let words = |lists: &[&'static str]| -> Vec<&'static str> {
            lists.iter().flat_map(|list| list.split(' ')).filter(|word| !word.is_empty()).collect()
        };
        let (flags, values, optional) =
            (words(subcommand.flags), words(subcommand.values), words(subcommand.optional));
        for flag in flags.iter().chain(&optional) {
            assert!(!values.contains(flag), "{} {flag}", subcommand.name);
            assert!(flag.starts_with("--"), "{} {flag}", subcommand.name);
        }
        for letter in subcommand.short.chars() {
            let others = [subcommand.short_values, subcommand.short_optional];
            assert!(!others.iter().any(|list| list.contains(letter)), "{} -{letter}", subcommand.name);
        }
    }
}
