//! Which commands only look. A supervised session runs those without asking, as agents that are programs do. Knows a
//! short list and reads it narrowly: whatever is not surely harmless is asked about. All of them run in the sandbox.

/// Programs that only show things, whatever they are given.
const LOOKING: [&str; 20] = [
    "basename", "cat", "cmp", "cut", "df", "diff", "dirname", "du", "echo", "false", "grep", "head", "ls",
    "pwd", "realpath", "stat", "tail", "true", "wc", "which",
];

/// What git can be asked without changing anything.
const GIT: [&str; 6] = ["diff", "log", "ls-files", "rev-parse", "show", "status"];

/// Returns whether a command line is one program that only looks.
pub(super) fn only_looks(command: &str) -> bool {
    // Nothing that a shell gives a meaning to.
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
