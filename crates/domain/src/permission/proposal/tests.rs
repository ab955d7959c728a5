//! What is offered to be remembered with a decision.

use serde_json::{Value, json};

use super::*;
use crate::id::CallId;

fn ask(tool: &str, input: Value) -> PermissionSubject {
    PermissionSubject { call: None, tool: tool.to_owned(), input, title: String::new(), parent: None }
}

fn place() -> Place<'static> {
    Place { working_dir: Path::new("/repo"), root: Path::new("/repo") }
}

fn offered(tool: &str, input: Value) -> Vec<String> {
    let all = proposals(&ask(tool, input), place());
    all.into_iter().map(|proposal| format!("{}: {}", proposal.id, proposal.text)).collect()
}

#[test]
fn a_command_is_offered_as_it_is_and_by_its_beginning() {
    assert_eq!(
        offered("Bash", json!({"command": "npm test -- --foo 1"})),
        [
            "command: the command `npm test -- --foo 1` (Bash), in this session",
            "prefix: commands that begin with `npm test` (Bash), in this session",
            "prefix.project: commands that begin with `npm test` (Bash), in this project",
        ]
    );
    assert_eq!(
        offered("Bash", json!({"command": "ls; rm x"})),
        [
            "command: the command `ls; rm x` (Bash), in this session",
            "command.project: the command `ls; rm x` (Bash), in this project",
        ]
    );
}

#[test]
fn an_edit_is_offered_for_its_file_first_and_never_silently_for_all() {
    assert_eq!(
        offered("Write", json!({"file_path": "src/w1.txt", "content": "x"})),
        [
            "file: Write of the file `src/w1.txt`, in this session",
            "folder: Write of files in `src`, in this session",
            "tool: every call of Write, in this session",
            "folder.project: Write of files in `src`, in this project",
        ]
    );
    let outside = offered("Write", json!({"file_path": "/etc/motd"}));
    assert!(!outside.iter().any(|offer| offer.starts_with("folder")), "{outside:?}");
    let patch = offered("apply_patch", json!({"changes": [{"path": "a"}]}));
    assert_eq!(patch[0], "tool: every call of apply_patch, in this session");
}

#[test]
fn decisions_that_are_never_the_same_are_not_remembered() {
    assert!(offered("ExitPlanMode", json!({"plan": "x"})).is_empty());
    assert!(offered("request_permissions", json!({"permissions": {}})).is_empty());
}

#[test]
fn a_sub_agent_s_grant_says_whose_it_is() {
    let mut ask = ask("Bash", json!({"command": "ls"}));
    ask.parent = Some(CallId::new("task"));
    assert!(proposals(&ask, place())[0].text.contains("by this sub-agent"));
    assert_eq!(grants(&ask, place())[0].1.principal, Principal::SubAgent(CallId::new("task")));
}

#[test]
fn what_is_chosen_must_have_been_offered() {
    let ask = ask("Bash", json!({"command": "ls; rm x"}));
    let choose = |proposal: &str| {
        chosen(&ask, place(), &Choice { proposal: proposal.to_owned(), uses: Some(2), ..Choice::default() })
    };
    let error = choose("prefix").unwrap_err();
    assert!(error.message.contains("command, command.project"), "{error}");
    let grant = choose("").unwrap().unwrap();
    assert_eq!((grant.covers, grant.uses_left), (Coverage::Command("ls; rm x".to_owned()), Some(2)));
}

#[test]
fn a_grant_for_a_list_of_arguments_covers_that_list_only() {
    use crate::permission::grant::Asked;
    use crate::permission::pattern::PatternCall;
    let covers = |tool: &str, given: Value, later: Value| {
        let grant = chosen(&ask(tool, given), place(), &Choice::default()).unwrap().unwrap();
        let call = PatternCall { tool, input: &later, working_dir: Path::new("/repo"), real_paths: None };
        grant.covers(&Asked { call, parent: None, root: Path::new("/repo"), now: crate::Timestamp(0) })
    };
    let list = json!({"command": ["git", "log"]});
    assert!(covers("shell", list.clone(), list.clone()));
    assert!(!covers("shell", list, json!({"command": ["rm", "-rf", "."]})));
    let line = json!({"cmd": "git log"});
    assert!(covers("exec_command", line.clone(), json!({"cmd": "git log", "yield_ms": 5})));
    assert!(!covers("exec_command", line, json!({"cmd": "rm -rf ."})));
}
