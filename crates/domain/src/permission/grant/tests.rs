//! What a grant covers, and what it must not.

use proptest::prelude::*;
use serde_json::json;

use super::*;

const NOW: Timestamp = Timestamp(1_000_000);

fn asked<'a>(tool: &'a str, input: &'a Value, real: &'a [PathBuf]) -> Asked<'a> {
    let folder = Path::new("/repo");
    let call = PatternCall { tool, input, working_dir: folder, real_paths: Some(real) };
    Asked { call, parent: None, root: folder, now: NOW }
}

fn covers(grant: &Grant, tool: &str, input: &Value) -> bool {
    let real = pattern::paths_of(tool, input, Path::new("/repo"));
    grant.covers(&asked(tool, input, &real))
}

fn runs(grant: &Grant, command: &str) -> bool {
    covers(grant, "Bash", &json!({"command": command}))
}

fn deny(grant: Grant) -> Grant {
    Grant { action: GrantAction::Deny, ..grant }
}

#[test]
fn a_grant_for_a_command_covers_that_command_only() {
    let grant = Grant::new("Bash", Coverage::Command("git log".to_owned()));
    assert!(covers(&grant, "Bash", &json!({"command": "git log", "description": "x"})));
    assert!(!runs(&grant, "git log; rm -rf ."));
    assert!(!runs(&grant, "git log -p"));
    assert!(!covers(&grant, "Bash", &json!({})));
    assert!(!covers(&grant, "Shell", &json!({"command": "git log"})));
    assert_eq!(grant.label(), "Bash(git log)");
}

#[test]
fn a_grant_by_prefix_covers_one_plain_command_with_these_words() {
    let grant = Grant::new("Bash", Coverage::Prefix("npm test".to_owned()));
    for covered in ["npm test", "npm test -- --foo 1", "npm  test 'a b'"] {
        assert!(runs(&grant, covered), "{covered}");
    }
    for other in [
        "npm tests",
        "npm testx",
        "npm run test",
        "npm",
        "npm test; rm -rf .",
        "npm test && rm x",
        "npm test | sh",
        "npm test > ~/.bashrc",
        "npm test < x",
        "npm test $(rm x)",
        "npm test `rm x`",
        "npm test\nrm x",
        "npm test & rm x",
        "npm test ${X}",
        "FOO=1 npm test",
        "sudo npm test",
        "npm \"test\"; rm x",
        "npm test\u{a0}x",
        "",
    ] {
        assert!(!runs(&grant, other), "{other:?}");
    }
    // A list of arguments is not a command line: its words may contain anything.
    assert!(!covers(&grant, "Bash", &json!({"command": ["npm", "test"]})));
}

#[test]
fn a_grant_for_a_file_covers_no_other_file() {
    let grant = Grant::new("Write", Coverage::File("/repo/w1.txt".into()));
    assert!(covers(&grant, "Write", &json!({"file_path": "w1.txt"})));
    assert!(covers(&grant, "Write", &json!({"file_path": "/repo/a/../w1.txt"})));
    assert!(!covers(&grant, "Write", &json!({"file_path": "w2.txt"})));
    assert!(!covers(&grant, "Edit", &json!({"file_path": "w1.txt"})));
    assert!(!covers(&grant, "Write", &json!({})));
    // Two files in one call.
    assert!(!covers(&grant, "Write", &json!({"file_path": "w1.txt", "path": "w2.txt"})));
    // A link that leads elsewhere.
    let input = json!({"file_path": "w1.txt"});
    assert!(!grant.covers(&asked("Write", &input, &["/etc/passwd".into()])));
    assert!(!grant.covers(&asked("Write", &input, &[])));
}

#[test]
fn a_grant_for_a_folder_ends_at_its_walls_and_at_what_steers_programs() {
    let grant = Grant::new("Write", Coverage::Folder("/repo/src".into()));
    assert!(covers(&grant, "Write", &json!({"file_path": "src/a/b.rs"})));
    for outside in
        ["srcs/a", "../x", "src/../y", "/etc/passwd", "src/.git/hooks/pre-commit", "src/x/.GIT/config"]
    {
        assert!(!covers(&grant, "Write", &json!({"file_path": outside})), "{outside}");
    }
    let patch = json!({"changes": [{"path": "src/a", "kind": "update"}]});
    let grant = Grant::new("apply_patch", Coverage::Folder("/repo/src".into()));
    assert!(!covers(&grant, "apply_patch", &patch), "a patch may change files it does not name");
}

#[test]
fn what_wants_more_than_its_words_say_is_not_covered() {
    let grant = Grant::new("Bash", Coverage::Command("make".to_owned()));
    assert!(covers(&grant, "Bash", &json!({"command": "make", "cwd": "/repo/sub"})));
    for more in [
        json!({"command": "make", "cwd": "/elsewhere"}),
        json!({"command": "make", "cwd": "../other"}),
        json!({"command": "make", "dangerouslyDisableSandbox": true}),
        json!({"command": "make", "permissions": {"network": true}}),
    ] {
        assert!(!covers(&grant, "Bash", &more), "{more}");
    }
    let patch = Grant::new("apply_patch", Coverage::Tool);
    assert!(!covers(&patch, "apply_patch", &json!({"changes": [], "grant_root": "/"})));
}

#[test]
fn an_expired_or_used_up_grant_covers_nothing() {
    let grant = Grant::new("Bash", Coverage::Tool);
    assert!(runs(&Grant { expires_at: Some(Timestamp(NOW.0 + 1)), ..grant.clone() }, "ls"));
    assert!(!runs(&Grant { expires_at: Some(NOW), ..grant.clone() }, "ls"));
    assert!(runs(&Grant { uses_left: Some(1), ..grant.clone() }, "ls"));
    assert!(!runs(&Grant { uses_left: Some(0), ..grant }, "ls"));
}

#[test]
fn a_grant_is_not_used_for_another_principal() {
    let input = json!({"command": "ls"});
    let (task, other) = (CallId::new("task"), CallId::new("other"));
    let by = |principal: &Principal, parent: Option<&CallId>| {
        let grant = Grant { principal: principal.clone(), ..Grant::new("Bash", Coverage::Tool) };
        grant.covers(&Asked { parent, ..asked("Bash", &input, &[]) })
    };
    let ours = Principal::SubAgent(task.clone());
    assert_eq!([by(&Principal::Agent, None), by(&Principal::Agent, Some(&task))], [true, false]);
    assert_eq!([by(&ours, None), by(&ours, Some(&task)), by(&ours, Some(&other))], [false, true, false]);
    assert_eq!([by(&Principal::Everyone, None), by(&Principal::Everyone, Some(&task))], [true, true]);
    // What is forbidden to an agent is forbidden to its sub-agents.
    let denial = deny(Grant::new("Bash", Coverage::Tool));
    assert!(denial.covers(&Asked { parent: Some(&task), ..asked("Bash", &input, &[]) }));
}

#[test]
fn a_grant_holds_in_its_place_only() {
    let input = json!({"command": "ls"});
    let at = |scope: Scope, folder: &str, root: &str| {
        let call =
            PatternCall { tool: "Bash", input: &input, working_dir: Path::new(folder), real_paths: None };
        let asked = Asked { call, parent: None, root: Path::new(root), now: NOW };
        Grant { scope, ..Grant::new("Bash", Coverage::Tool) }.covers(&asked)
    };
    assert!(at(Scope::Always, "/x", "/x"));
    assert!(at(Scope::Project("/repo".into()), "/repo/sub", "/repo"));
    assert!(at(Scope::Project("/repo".into()), "/trees/a", "/repo"), "a worktree of the project");
    assert!(!at(Scope::Project("/repo".into()), "/repos", "/repos"));
    assert!(at(Scope::Worktree("/trees/a".into()), "/trees/a/sub", "/repo"));
    assert!(!at(Scope::Worktree("/trees/a".into()), "/repo", "/repo"));
}

#[test]
fn a_refusal_is_read_widely() {
    let rm = deny(Grant::new("Bash", Coverage::Prefix("rm".to_owned())));
    for line in ["rm x", "ls; rm x", "/bin/rm x", "bash -c \"rm x\"", "sudo rm x"] {
        assert!(runs(&rm, line), "{line}");
        assert!(covers(&rm, "shell", &json!({"command": ["bash", "-lc", line]})), "{line}");
    }
    let secret = deny(Grant::new("Edit", Coverage::File("/repo/.env".into())));
    assert!(covers(&secret, "Write", &json!({"file_path": ".env"})));
    let link = json!({"file_path": "harmless"});
    assert!(secret.covers(&asked("Write", &link, &["/repo/.env".into()])));
    let patch = json!({"changes": [{"path": "a"}, {"path": ".env"}]});
    assert!(covers(&secret, "apply_patch", &patch));
}

#[test]
fn a_grant_by_pattern_covers_what_the_pattern_does() {
    let grant = Grant::by_pattern("tool_name", "Bash(git *)", false).unwrap();
    assert!(runs(&grant, "git log"));
    assert!(!runs(&grant, "git log; rm -rf ."));
    let denial = Grant::by_pattern("tool_name", "Bash(rm *)", true).unwrap();
    assert!(runs(&denial, "git log; rm -rf ."));
    let whole = Grant::by_pattern("tool_name", "Bash", false).unwrap();
    assert!(runs(&whole, "anything; at all"));
    assert!(Grant::by_pattern("tool_name", "Bash(git", false).is_err());
}

#[test]
fn a_grant_says_what_it_covers() {
    let what = |covers| Grant::new("Write", covers).what(Path::new("/repo"));
    assert_eq!(what(Coverage::Tool), "every call of Write");
    assert_eq!(what(Coverage::File("/repo/src/a".into())), "Write of the file `src/a`");
    assert_eq!(what(Coverage::Folder("/repo".into())), "Write of files in `.`");
    let long = Grant::new("Bash", Coverage::Command("x\n".repeat(500))).what(Path::new("/"));
    assert!(!long.contains('\n') && long.chars().count() < 200, "{long}");
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let wrong = |covers| Grant::new("Bash", covers).check().unwrap_err().message;
    assert!(wrong(Coverage::Prefix("a; b".to_owned())).starts_with("prefix: "));
    assert!(wrong(Coverage::Command(" ".to_owned())).starts_with("command: "));
    assert!(wrong(Coverage::File("a".into())).starts_with("file: "));
    assert!(wrong(Coverage::Folder("/a/../b".into())).starts_with("file: "));
    assert!(Grant::new("Bash(x)", Coverage::Tool).check().is_err());
    assert!(deny(Grant { uses_left: Some(1), ..Grant::new("Bash", Coverage::Tool) }).check().is_err());
}

fn words() -> impl Strategy<Value = String> {
    let word = proptest::sample::select(vec![
        "npm", "test", "git", "rm", "-rf", ".", ";", "&&", "|", "$(x)", "`x`", ">", "x", "'a b'", "\n", "--",
        "A=1", "\\", "{a,b}", "\t", "#", "sudo", "\"", "<(x)", "!",
    ]);
    proptest::collection::vec(word, 0..7).prop_map(|words| words.join(" "))
}

fn grants() -> impl Strategy<Value = Grant> {
    let covers = proptest::sample::select(vec![
        Coverage::Tool,
        Coverage::Command("npm test".to_owned()),
        Coverage::Prefix("npm test".to_owned()),
        Coverage::Prefix("git".to_owned()),
        Coverage::Prefix("rm".to_owned()),
    ]);
    let action = proptest::sample::select(vec![GrantAction::Allow, GrantAction::Ask, GrantAction::Deny]);
    let uses = proptest::option::of(0u32..3);
    let end = proptest::option::of(0i64..2_000_000);
    (covers, action, uses, end).prop_map(|(covers, action, uses_left, end)| Grant {
        action,
        uses_left,
        expires_at: end.map(Timestamp),
        ..Grant::new("Bash", covers)
    })
}

proptest! {
    #[test]
    fn a_prefix_never_covers_what_a_shell_makes_more_of(line in words()) {
        let grant = Grant::new("Bash", Coverage::Prefix("npm test".to_owned()));
        if runs(&grant, &line) {
            prop_assert!(line.split_whitespace().take(2).eq(["npm", "test"]), "{line}");
            prop_assert!(!line.contains([';', '&', '|', '$', '`', '>', '<', '\n', '(', '{', '\\']), "{line}");
        }
    }

    #[test]
    fn a_refusal_wins_over_every_allowance(line in words(), all in proptest::collection::vec(grants(), 0..6)) {
        let input = json!({"command": line});
        let asked = asked("Bash", &input, &[]);
        let lives = |grant: &&Grant| {
            grant.expires_at.is_none_or(|end| end > NOW) && grant.uses_left != Some(0)
        };
        let found = strictest(&all, &asked);
        prop_assert!(found.is_none_or(|grant| lives(&grant)));
        if all.iter().any(|grant| grant.action == GrantAction::Deny && grant.covers(&asked)) {
            prop_assert_eq!(found.unwrap().action, GrantAction::Deny);
        }
        if found.is_some_and(|grant| grant.action == GrantAction::Allow) {
            prop_assert!(all.iter().all(|grant| grant.action == GrantAction::Allow || !grant.covers(&asked)));
        }
    }

    #[test]
    fn a_grant_for_a_file_covers_that_path_alone(path in "[a-c./]{0,12}", real in "/repo/[a-c]{1,2}") {
        let grant = Grant::new("Write", Coverage::File("/repo/a".into()));
        let input = json!({"file_path": path});
        let real = [PathBuf::from(real)];
        if grant.covers(&asked("Write", &input, &real)) {
            prop_assert_eq!(&real[0], Path::new("/repo/a"));
            prop_assert_eq!(glob::plain(Path::new("/repo"), Path::new(&path)), Path::new("/repo/a"));
        }
    }

    #[test]
    fn what_is_stored_is_read_back(grant in grants(), folder in "/[a-z]{1,4}") {
        for covers in [grant.covers.clone(), Coverage::File(folder.clone().into()), Coverage::Folder(folder.clone().into())] {
            let grant = Grant { covers, scope: Scope::Project(folder.clone().into()), ..grant.clone() };
            let text = serde_json::to_string(&grant).unwrap();
            prop_assert_eq!(serde_json::from_str::<Grant>(&text).unwrap(), grant);
        }
    }
}

#[test]
fn what_older_versions_wrote_means_what_it_did() {
    let read = |text: &str| serde_json::from_str::<Grant>(text).unwrap();
    assert_eq!(read(r#"{"tool":"Edit"}"#), Grant::new("Edit", Coverage::Tool));
    assert_eq!(
        read(r#"{"tool":"Bash","command":"ls"}"#),
        Grant::new("Bash", Coverage::Command("ls".to_owned()))
    );
    assert_eq!(
        read(r#"{"tool":"Bash(rm *)","is_pattern":true,"denied":true}"#),
        Grant::by_pattern("tool", "Bash(rm *)", true).unwrap()
    );
    // An older version that reads this must not take a file for the whole tool.
    let file = serde_json::to_value(Grant::new("Write", Coverage::File("/a".into()))).unwrap();
    assert_eq!((&file["tool"], &file["is_pattern"]), (&json!("Write(/a)"), &json!(true)));
}
