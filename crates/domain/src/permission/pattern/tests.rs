//! What patterns cover, interpreted narrowly and widely.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{CallPattern, PatternCall};

fn call<'a>(tool: &'a str, input: &'a Value, real: Option<&'a [PathBuf]>) -> PatternCall<'a> {
    PatternCall { tool, input, working_dir: Path::new("/repo"), real_paths: real }
}

fn surely(pattern: &str, tool: &str, input: &Value) -> bool {
    let real = super::paths_of(tool, input, Path::new("/repo"));
    CallPattern::parse("p", pattern).unwrap().surely_covers(&call(tool, input, Some(&real)))
}

fn perhaps(pattern: &str, tool: &str, input: &Value) -> bool {
    CallPattern::parse("p", pattern).unwrap().may_cover(&call(tool, input, None))
}

fn run(command: &str) -> Value {
    json!({"command": command})
}

#[test]
fn a_command_pattern_never_lets_a_second_command_through() {
    let more = [
        "git log; rm -rf .",
        "git log;rm -rf .",
        "git log && rm -rf .",
        "git log || rm -rf .",
        "git log | sh",
        "git log & rm -rf .",
        "git log $(rm -rf .)",
        "git log `rm -rf .`",
        "git log \"$(rm -rf .)\"",
        "git log > .git/hooks/pre-commit",
        "git log <(rm -rf .)",
        "git log\nrm -rf .",
        "git log\r\nrm -rf .",
        "git log ';' rm",
        "git ${x:-log}",
    ];
    for pattern in ["Bash(git *)", "Bash(git log*)", "Bash(git log:*)", "Bash(git:*)", "Bash(*)"] {
        for command in more {
            assert!(!surely(pattern, "Bash", &run(command)), "{pattern} allows {command:?}");
        }
    }
    assert!(surely("Bash(git *)", "Bash", &run("git log --oneline -5")));
    assert!(surely("Bash(git log:*)", "Bash", &run("git log")));
    assert!(surely("Bash(git log:*)", "Bash", &run("git log -5")));
    assert!(!surely("Bash(git log:*)", "Bash", &run("git logs")));
    assert!(!surely("Bash(git *)", "Bash", &run("rm x")));
    assert!(!surely("Bash(git *)", "Bash", &run("X=1 git log")));
}

#[test]
fn a_pattern_without_stars_allows_exactly_what_it_says() {
    assert!(surely("Bash(cd a && make)", "Bash", &run("cd a && make")));
    assert!(!surely("Bash(cd a && make)", "Bash", &run("cd a && make x")));
}

#[test]
fn a_list_of_arguments_is_only_covered_as_a_whole() {
    let input = json!({"command": ["bash", "-lc", "git log; rm -rf ."]});
    for pattern in ["shell(git *)", "shell(bash *)"] {
        assert!(!surely(pattern, "shell", &input), "{pattern}");
    }
    assert!(perhaps("Bash(rm *)", "shell", &input));
}

#[test]
fn an_allowance_is_for_the_tool_it_names() {
    assert!(surely("Read", "Read", &json!({})));
    assert!(!surely("Read", "ReadMcp", &json!({})));
    assert!(surely("mcp__github__*", "mcp__github__get", &json!({})));
    assert!(!surely("mcp__github__*", "mcp__gitlab__get", &json!({})));
    assert!(surely("*", "Anything", &json!({})));
    assert!(!surely("Bash", "mcp__x__run", &run("ls")));
    assert!(!surely("Edit(src/**)", "Write", &json!({"file_path": "src/a"})));
}

#[test]
fn an_allowance_holds_for_what_other_agents_call_the_same() {
    assert!(surely("Bash(git *)", "shell", &run("git log")));
    assert!(!surely("Bash(git *)", "shell", &run("git log; rm -rf .")));
    assert!(surely("Bash", "exec_command", &json!({"cmd": "ls"})));
    assert!(!surely("Bash", "shell_unsandboxed", &run("ls")));
    assert!(!surely("Bash", "write_stdin", &run("ls")));
    assert!(!surely("shell(git *)", "Bash", &run("git log")), "the other way round nobody wrote it");
    let patch = json!({"changes": [{"path": "/repo/src/a", "kind": "update"}]});
    assert!(surely("Edit", "apply_patch", &patch));
    assert!(!surely("Edit(src/**)", "apply_patch", &patch), "a file may be moved out of there");
    assert!(perhaps("Edit(src/**)", "apply_patch", &patch));
    assert!(!perhaps("Edit(secrets/**)", "apply_patch", &patch));
    let by_name = json!({"changes": {"/repo/src/a": {"update": {}}, "secrets/key": {"add": {}}}});
    assert!(!surely("Edit(**)", "apply_patch", &by_name));
    assert!(perhaps("Edit(secrets/**)", "apply_patch", &by_name));
}

#[test]
fn a_refusal_covers_the_whole_family() {
    assert!(perhaps("Bash", "exec_command", &json!({"cmd": "ls"})));
    assert!(perhaps("Bash(rm *)", "mcp__x__run", &run("ls; rm -rf .")));
    assert!(perhaps("Edit(secrets/**)", "Write", &json!({"file_path": "secrets/key"})));
    assert!(perhaps("Read(.env)", "Grep", &json!({"path": "/repo/src/../.env"})));
    assert!(!perhaps("Edit(secrets/**)", "Read", &json!({"file_path": "secrets/key"})));
    assert!(!perhaps("Bash(rm *)", "Bash", &run("git rm-cached x")));
}

#[test]
fn paths_are_below_the_working_folder() {
    let at = |path: &str| json!({"file_path": path});
    assert!(surely("Edit(src/**/*.ts)", "Edit", &at("/repo/src/a/b.ts")));
    assert!(surely("Edit(src/**/*.ts)", "Edit", &at("src/b.ts")));
    assert!(!surely("Edit(src/**/*.ts)", "Edit", &at("src/b.rs")));
    assert!(!surely("Edit(src/**)", "Edit", &at("src/../../etc/passwd")));
    assert!(!surely("Edit(**)", "Edit", &at("/etc/passwd")));
    assert!(surely("Edit(/etc/*)", "Edit", &at("/etc/passwd")));
    assert!(
        surely("Grep(**)", "Grep", &json!({"pattern": "x"})),
        "without a path it looks in the working folder"
    );
    assert!(!surely("Edit(**)", "Edit", &json!({})), "an edit of nothing is not sure");
}

#[test]
fn a_link_that_leads_out_is_not_allowed() {
    let input = json!({"file_path": "src/link"});
    let pattern = CallPattern::parse("p", "Edit(src/**)").unwrap();
    let inside = [PathBuf::from("/repo/src/real")];
    let outside = [PathBuf::from("/home/u/.ssh/authorized_keys")];
    assert!(pattern.surely_covers(&call("Edit", &input, Some(&inside))));
    assert!(!pattern.surely_covers(&call("Edit", &input, Some(&outside))));
    assert!(!pattern.surely_covers(&call("Edit", &input, None)), "nobody looked where it leads");
    let keys = CallPattern::parse("p", "Edit(/home/u/.ssh/**)").unwrap();
    assert!(keys.may_cover(&call("Edit", &input, Some(&outside))));
}

#[test]
fn what_is_no_pattern_is_refused_by_name() {
    for wrong in ["", "(git *)", "Bash(git *", "Ba*sh", "a b", "Read,Edit", "Bash)", &"x".repeat(5_000)] {
        let error = CallPattern::parse("allowed_tools", wrong).unwrap_err();
        assert!(error.message.starts_with("allowed_tools: "), "{error}");
    }
}

#[test]
fn an_approval_to_read_or_edit_files_covers_no_command() {
    let lie = json!({"command": "touch pwned", "file_path": "src/a"});
    for (pattern, tool) in [
        ("Read", "Read"),
        ("Read(**)", "Read"),
        ("Grep(**)", "Grep"),
        ("Edit(src/**)", "Edit"),
        ("Write", "Write"),
    ] {
        assert!(surely(pattern, tool, &json!({"file_path": "src/a"})), "{pattern}");
        assert!(!surely(pattern, tool, &lie), "{pattern} covers a command");
        assert!(!surely(pattern, tool, &json!({"cmd": ["rm", "-rf", "."], "file_path": "src/a"})));
    }
    assert!(super::is_reading("Read", &json!({"file_path": "a"})) && !super::is_reading("Read", &lie));
}
