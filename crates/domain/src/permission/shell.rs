//! What a command line might run, without running it. An allowance must be sure of it; a refusal only has to suspect.
//! Knows just enough of shells for that: it never claims to understand one.

/// Letters by which a shell goes on to another command, fills in a value or writes a file. A command with one of them
/// may do more than its first words say, quoted or not.
const TELLING: &[char] =
    &[';', '&', '|', '<', '>', '`', '$', '(', ')', '{', '}', '\\', '\n', '\r', '\0', '!', '#'];

/// Where one command may end and another begin.
const SEPARATORS: &[char] = &[';', '&', '|', '<', '>', '`', '$', '(', ')', '{', '}', '\n', '\r'];

/// Words before a command that run it all the same.
const PREFIXES: &[&str] = &[
    "sudo", "doas", "env", "command", "builtin", "exec", "eval", "nohup", "nice", "time", "timeout", "xargs",
    "then", "do", "else", "if", "while", "until", "!", "bash", "sh", "zsh", "-c", "-lc", "-ic",
];

/// Returns whether a command line is one plain command: what its pattern says is all it can run.
pub(super) fn is_plain(command: &str) -> bool {
    !command.contains(TELLING) && !command.trim().is_empty()
}

/// Returns every command that a command line might run, each as it would be written by itself.
pub(super) fn suspects(command: &str) -> Vec<String> {
    let mut suspects = vec![command.trim().to_owned()];
    // What stands in quotes may be a command line itself, as in `bash -c "…"`; what is quoted in part is unquoted.
    let unquoted: String = command.chars().filter(|letter| !matches!(letter, '"' | '\'' | '\\')).collect();
    for part in unquoted.split(SEPARATORS) {
        let mut words: Vec<&str> = part.split_whitespace().collect();
        while !words.is_empty() {
            suspects.push(bare(&words));
            if !is_prefix(words[0]) {
                break;
            }
            words.remove(0);
        }
    }
    suspects
}

fn is_prefix(word: &str) -> bool {
    PREFIXES.contains(&program(word)) || word.contains('=') || word.starts_with('-') || is_number(word)
}

fn is_number(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_digit())
}

fn program(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Returns the words with the program's folder taken off.
fn bare(words: &[&str]) -> String {
    let mut bare = program(words[0]).to_owned();
    for word in &words[1..] {
        bare.push(' ');
        bare.push_str(word);
    }
    bare
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_command_has_nothing_that_could_run_more() {
        for plain in ["git log", "npm test -- --watch=false", "ls -la 'a b'", "echo \"x y\" ~/z *.rs"] {
            assert!(is_plain(plain), "{plain}");
        }
        for telling in [
            "git log; rm -rf .",
            "git log && rm x",
            "git log || rm x",
            "git log | sh",
            "git log & rm x",
            "git log $(rm x)",
            "git log `rm x`",
            "git log > ~/.bashrc",
            "git log < /dev/tcp/x/1",
            "git log\nrm x",
            "git log\rrm x",
            "git log ${IFS}x",
            "git log \\; rm",
            "git log {a,b}",
            "",
            "  ",
        ] {
            assert!(!is_plain(telling), "{telling:?}");
        }
    }

    #[test]
    fn every_command_within_a_line_is_suspected() {
        for (line, hidden) in [
            ("git log; rm -rf .", "rm -rf ."),
            ("/bin/rm -rf .", "rm -rf ."),
            ("FOO=1 sudo rm x", "rm x"),
            ("bash -c \"git log && rm x\"", "rm x"),
            ("echo $(rm x)", "rm x"),
            ("find . | xargs rm -f", "rm -f"),
            ("r'm' x", "rm x"),
            ("r\\m x", "rm x"),
            ("timeout 5 rm x", "rm x"),
            ("if true; then rm x; fi", "rm x"),
        ] {
            assert!(suspects(line).iter().any(|suspect| suspect == hidden), "{line}: {:?}", suspects(line));
        }
    }
}
