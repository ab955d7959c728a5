//! Which commands are read-only. A supervised session runs those without asking, as agents that are programs
//! do. Knows a short list and interprets it narrowly: whatever is not certainly harmless is asked about. All
//! of them run in the sandbox.

/// Programs that only print things, whatever their arguments.
const LOOKING: [&str; 20] = [
    "basename", "cat", "cmp", "cut", "df", "diff", "dirname", "du", "echo", "false", "grep", "head", "ls",
    "pwd", "realpath", "stat", "tail", "true", "wc", "which",
];

/// Git subcommands that change nothing.
const GIT: [&str; 6] = ["diff", "log", "ls-files", "rev-parse", "show", "status"];

/// Returns whether a command line is a single read-only program.
pub(super) fn only_looks(command: &str) -> bool {
    // No characters that are special to a shell.
    let plain = |letter: char| {
        letter.is_alphanumeric()
            || matches!(letter, ' ' | '.' | '/' | '_' | '-' | '=' | ':' | ',' | '@' | '%' | '+')
    };
    if !command.chars().all(plain) {
        return false;
    }
    let mut words = command.split(' ').filter(|word| !word.is_empty());
    match words.next() {
        Some("git") => {
            words.next().is_some_and(|verb| GIT.contains(&verb))
                && words.all(|word| {
                    !word.starts_with("--output") && !word.starts_with("-O") && word != "--ext-diff"
                })
        }
        Some(program) => LOOKING.contains(&program),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_surely_harmless_passes() {
        for command in
            ["echo hello from the tool", "ls -la src", "cat a.txt", "git status", "git log --oneline -5"]
        {
            assert!(only_looks(command), "{command}");
        }
        for command in [
            "",
            "touch x",
            "echo a > b",
            "echo $(rm x)",
            "ls; rm x",
            "ls\nrm x",
            "cat a | sh",
            "git push",
            "git -c core.pager=x log",
            "git diff --output=x",
            "/tmp/ls",
            "X=1 ls",
            "find . -delete",
            "sort -o a b",
            "echo `rm x`",
            "ls 'a'",
        ] {
            assert!(!only_looks(command), "{command}");
        }
    }
}
