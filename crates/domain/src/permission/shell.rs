//! What a command line might run, without running it. An approval must be certain; a denial only needs a
//! suspicion. Knows just enough of shells for that, and never claims to understand one.

/// Characters by which a shell chains another command, substitutes a value or writes a file. A command with
/// one of them may do more than its first words say, quoted or not.
const TELLING: &[char] =
    &[';', '&', '|', '<', '>', '`', '$', '(', ')', '{', '}', '\\', '\n', '\r', '\0', '!', '#'];

/// Where one command may end and another begin.
const SEPARATORS: &[char] = &[';', '&', '|', '<', '>', '`', '$', '(', ')', '{', '}', '\n', '\r'];

/// Words before a command that still run it.
const PREFIXES: &[&str] = &[
    "sudo", "doas", "env", "command", "builtin", "exec", "eval", "nohup", "nice", "time", "timeout", "xargs",
    "then", "do", "else", "if", "while", "until", "!", "bash", "sh", "zsh", "-c", "-lc", "-ic",
];

/// Returns whether a command line is one plain command, which runs only what its text says.
pub(super) fn is_plain(command: &str) -> bool {
    !command.contains(TELLING) && !command.trim().is_empty()
}

/// Programs whose first argument says what they do.
const WITH_SUBCOMMANDS: &[&str] = &[
    "git",
    "npm",
    "pnpm",
    "yarn",
    "cargo",
    "go",
    "docker",
    "podman",
    "kubectl",
    "make",
    "just",
    "pip",
    "uv",
    "poetry",
    "gh",
    "glab",
    "mvn",
    "gradle",
    "dotnet",
    "bundle",
    "rake",
    "terraform",
    "systemctl",
    "apt",
    "brew",
];

/// Programs for which no prefix says what they do: they run other programs, delete, or send data away.
const NEVER_BY_PREFIX: &[&str] = &[
    "rm",
    "rmdir",
    "mv",
    "cp",
    "dd",
    "ln",
    "chmod",
    "chown",
    "kill",
    "pkill",
    "killall",
    "curl",
    "wget",
    "ssh",
    "scp",
    "sftp",
    "rsync",
    "nc",
    "ncat",
    "socat",
    "find",
    "tee",
    "sed",
    "awk",
    "gawk",
    "perl",
    "ruby",
    "node",
    "deno",
    "bun",
    "npx",
    "bunx",
    "uvx",
    "php",
    "lua",
    "fish",
    "dash",
    "ksh",
    "su",
    "setsid",
    "watch",
    "strace",
    "gdb",
    "tar",
    "zip",
    "parallel",
    "source",
    ".",
    "export",
    "alias",
    "trap",
    "crontab",
    "at",
    "systemd-run",
    "mount",
    "chroot",
    "unshare",
    "nsenter",
    "install",
    "truncate",
    "shred",
    "osascript",
    "open",
    "vim",
    "vi",
    "nano",
    "emacs",
    "ed",
    "ex",
];

/// Second words that run whatever comes after them.
const RUNNING_WORDS: &[&str] = &["run", "exec", "x", "dlx", "shell", "config", "alias", "compose"];

/// Returns whether words can be a command prefix: plain, unquoted, and not starting with a variable
/// assignment.
pub(super) fn is_prefix_text(text: &str) -> bool {
    let plain = |word: &str| !word.contains(['"', '\'', '*', '?', '[', '~']);
    let mut words = words(text);
    let first = words.next();
    first.is_some_and(|word| !word.contains('=') && plain(word)) && words.all(plain) && is_plain(text)
}

/// Returns whether a command line begins with these words, each as a whole.
pub(super) fn begins_with(line: &str, prefix: &str) -> bool {
    let mut line = words(line);
    let mut prefix = words(prefix).peekable();
    prefix.peek().is_some() && prefix.all(|word| line.next() == Some(word))
}

/// Splits a line into words as a shell does: other white space belongs to a word.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split([' ', '\t']).filter(|word| !word.is_empty())
}

/// Returns the prefix of a plain command that people would call the command: `npm test`, `git log`, `touch`.
/// `None` if a prefix does not say what is done.
pub(super) fn usual_prefix(line: &str) -> Option<String> {
    if !is_plain(line) {
        return None;
    }
    let found: Vec<&str> = words(line).collect();
    let program = *found.first()?;
    let name = self::program(program);
    let interpreter = ["python", "pypy", "bash", "zsh"].iter().any(|known| name.starts_with(known));
    if NEVER_BY_PREFIX.contains(&name) || is_prefix(program) || interpreter || !is_prefix_text(program) {
        return None;
    }
    if !WITH_SUBCOMMANDS.contains(&name) {
        return Some(program.to_owned());
    }
    let is_word = |word: &&&str| {
        word.starts_with(|first: char| first.is_ascii_lowercase())
            && word.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_:".contains(letter))
    };
    let second = found.get(1).filter(is_word)?;
    if !RUNNING_WORDS.contains(second) {
        return Some(format!("{program} {second}"));
    }
    // Scripts of a project have names; other runners may run anything.
    let third = found.get(2).filter(is_word)?;
    let by_name = *second == "run" && ["npm", "pnpm", "yarn"].contains(&name);
    by_name.then(|| format!("{program} {second} {third}"))
}

/// Returns every command that a command line might run, each in its plain form.
pub(super) fn suspects(command: &str) -> Vec<String> {
    let mut suspects = vec![command.trim().to_owned()];
    // Quoted text may be a command line itself, as in `bash -c "…"`; partly quoted words are unquoted.
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

/// Returns the words with the program's folder removed.
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
    fn a_beginning_is_offered_only_where_it_says_what_is_done() {
        for (line, prefix) in [
            ("npm test -- --foo 1", Some("npm test")),
            ("npm run build -- -x", Some("npm run build")),
            ("git log --oneline", Some("git log")),
            ("touch a1", Some("touch")),
            ("./check.sh all", Some("./check.sh")),
            ("git -c core.pager=x log", None),
            ("git", None),
            ("docker run x", None),
            ("cargo run evil", None),
            ("rm -rf x", None),
            ("/bin/rm -rf x", None),
            ("python3 -c x", None),
            ("bash x.sh", None),
            ("sudo ls", None),
            ("FOO=1 ls", None),
            ("ls; rm x", None),
            ("ls > x", None),
            ("echo $(rm x)", None),
            ("'ls' x", None),
        ] {
            assert_eq!(usual_prefix(line).as_deref(), prefix, "{line}");
        }
    }

    #[test]
    fn a_line_begins_with_whole_words() {
        assert!(begins_with("npm  test\t-- x", "npm test"));
        assert!(!begins_with("npm tests", "npm test"));
        assert!(!begins_with("npm test\u{a0}x", "npm test"));
        assert!(!begins_with("npm", "npm test"));
        assert!(!begins_with("npm", ""));
        for wrong in ["", " ", "A=1 x", "ls;", "ls > x", "'ls'", "ls $(x)", "l*"] {
            assert!(!is_prefix_text(wrong), "{wrong}");
        }
        assert!(is_prefix_text("npm test"));
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
