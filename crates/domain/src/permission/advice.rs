//! What a person should know before answering a permission: whether the command destroys something that does not come back,
//! and why nothing answered the request already. It advises people who answer; it allows and denies nothing.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::pattern;

/// What is said beside a permission that waits for a person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionAdvice {
    /// What does not come back, such as "removes files"; empty: nothing that is known of. Clients ask twice before they allow it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub destructive: String,
    /// Which rule asks, or which one came closest and does not cover it, and the mode that asks then.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub not_covered: String,
}

impl PermissionAdvice {
    /// Returns whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        self.destructive.is_empty() && self.not_covered.is_empty()
    }
}

/// A command that destroys: the program and its first words, and of the options and arguments behind them one that makes it so.
struct Destructive {
    words: &'static [&'static str],
    /// Any of these is enough; none: the words alone are.
    with: &'static [&'static str],
    what: &'static str,
}

const fn row(
    words: &'static [&'static str],
    with: &'static [&'static str],
    what: &'static str,
) -> Destructive {
    Destructive { words, with, what }
}

const REMOVES: &str = "removes files";
const UNCOMMITTED: &str = "throws away changes that are not committed";
const HISTORY: &str = "throws away commits";
const DEVICE: &str = "overwrites a disk or a file";
const SERVICE: &str = "removes what runs or is stored elsewhere";
const PUBLISHES: &str = "publishes something that cannot be taken back";
const MACHINE: &str = "ends programs or the machine";

/// Commands that destroy. A single letter after `-` is also found among others, as in `-rf`; a word that ends in `=` or `:`
/// stands for everything that begins with it.
const COMMANDS: &[Destructive] = &[
    row(&["rm"], &["-r", "-R", "-f", "--recursive", "--force", "*"], REMOVES),
    row(&["find"], &["-delete"], REMOVES),
    row(&["rsync"], &["--delete"], REMOVES),
    row(&["shred"], &[], REMOVES),
    row(&["truncate"], &[], DEVICE),
    row(&["dd"], &["of="], DEVICE),
    row(&["wipefs"], &[], DEVICE),
    row(&["fdisk"], &[], DEVICE),
    row(&["parted"], &[], DEVICE),
    row(&["sgdisk"], &[], DEVICE),
    row(&["chmod"], &["-R", "--recursive"], "changes the rights of a whole folder"),
    row(&["chown"], &["-R", "--recursive"], "changes the owner of a whole folder"),
    row(
        &["git", "push"],
        &["-f", "--force", "--force-with-lease", "--force-with-lease=", "--mirror", "--delete", "-d", "+"],
        "overwrites or removes branches elsewhere",
    ),
    row(&["git", "reset"], &["--hard"], UNCOMMITTED),
    row(&["git", "clean"], &["-f", "--force"], REMOVES),
    row(&["git", "checkout"], &["--", ".", "-f", "--force"], UNCOMMITTED),
    row(&["git", "switch"], &["-f", "--force", "--discard-changes"], UNCOMMITTED),
    row(&["git", "restore"], &[], UNCOMMITTED),
    row(&["git", "stash"], &["drop", "clear"], UNCOMMITTED),
    row(&["git", "branch"], &["-D"], HISTORY),
    row(&["git", "worktree", "remove"], &["-f", "--force"], UNCOMMITTED),
    row(&["git", "filter-branch"], &[], HISTORY),
    row(&["git", "filter-repo"], &[], HISTORY),
    row(&["git", "reflog"], &["expire", "delete"], HISTORY),
    row(&["git", "gc"], &["--prune="], HISTORY),
    row(&["git", "update-ref"], &["-d"], HISTORY),
    row(&["docker"], &["prune"], SERVICE),
    row(&["podman"], &["prune"], SERVICE),
    row(&["docker", "volume", "rm"], &[], SERVICE),
    row(&["podman", "volume", "rm"], &[], SERVICE),
    row(&["docker", "rm"], &["-f", "-v", "--force", "--volumes"], SERVICE),
    row(&["podman", "rm"], &["-f", "-v", "--force", "--volumes"], SERVICE),
    row(&["docker", "compose"], &["-v", "--volumes"], SERVICE),
    row(&["kubectl", "delete"], &[], SERVICE),
    row(&["helm", "uninstall"], &[], SERVICE),
    row(&["terraform", "destroy"], &[], SERVICE),
    row(&["terraform", "apply"], &["-destroy"], SERVICE),
    row(&["tofu", "destroy"], &[], SERVICE),
    row(&["aws", "s3", "rb"], &[], SERVICE),
    row(&["aws", "s3", "rm"], &[], SERVICE),
    row(&["gh", "repo", "delete"], &[], SERVICE),
    row(&["gh", "release", "delete"], &[], SERVICE),
    row(&["dropdb"], &[], SERVICE),
    row(&["crontab"], &["-r"], REMOVES),
    row(&["npm", "publish"], &[], PUBLISHES),
    row(&["npm", "unpublish"], &[], PUBLISHES),
    row(&["pnpm", "publish"], &[], PUBLISHES),
    row(&["yarn", "publish"], &[], PUBLISHES),
    row(&["cargo", "publish"], &[], PUBLISHES),
    row(&["cargo", "yank"], &[], PUBLISHES),
    row(&["twine", "upload"], &[], PUBLISHES),
    row(&["gem", "push"], &[], PUBLISHES),
    row(&["shutdown"], &[], MACHINE),
    row(&["reboot"], &[], MACHINE),
    row(&["poweroff"], &[], MACHINE),
    row(&["halt"], &[], MACHINE),
    row(&["pkill"], &[], MACHINE),
    row(&["killall"], &[], MACHINE),
];

/// Words of databases that destroy, in any case.
const STATEMENTS: &[&str] = &["drop table", "drop database", "drop schema", "truncate table"];

/// Returns what a call destroys that does not come back. A suspicion is enough, as for a denial: a person looks twice.
pub fn destructive(input: &Value) -> Option<&'static str> {
    let suspects = pattern::suspects_of(input);
    suspects.iter().find_map(|line| of_command(line)).or_else(|| {
        let has_statement = |line: &String| {
            let words = line.split_whitespace().collect::<Vec<_>>().join(" ").to_ascii_lowercase();
            STATEMENTS.iter().any(|statement| words.contains(statement))
        };
        suspects.iter().any(has_statement).then_some("removes data of a database")
    })
}

/// Returns what one plain command destroys.
fn of_command(line: &str) -> Option<&'static str> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let program = words.first()?;
    if program.starts_with("mkfs") {
        return Some(DEVICE);
    }
    COMMANDS.iter().find(|known| known.is_run_by(&words)).map(|known| known.what)
}

impl Destructive {
    fn is_run_by(&self, words: &[&str]) -> bool {
        let Some((program, rest)) = words.split_first() else { return false };
        let Some((wanted, subcommands)) = self.words.split_first() else { return false };
        if program != wanted {
            return false;
        }
        // Options may stand before a subcommand, as in `git -C folder push`.
        let mut rest = rest;
        for subcommand in subcommands {
            let Some(at) = rest.iter().position(|word| word == subcommand) else { return false };
            let is_first = rest[..at].iter().enumerate().all(|(before, word)| {
                word.starts_with('-')
                    || before.checked_sub(1).is_some_and(|option| rest[option].starts_with('-'))
            });
            if !is_first {
                return false;
            }
            rest = &rest[at + 1..];
        }
        self.with.is_empty() || rest.iter().any(|word| self.with.iter().any(|wanted| is_option(wanted, word)))
    }
}

/// Returns whether a word is an option that is looked for, alone or among other letters, or begins with it.
fn is_option(wanted: &str, word: &str) -> bool {
    match wanted {
        "*" => word.contains('*'),
        "+" => word.starts_with('+'),
        _ if wanted.ends_with('=') => word.starts_with(wanted),
        _ if word == wanted => true,
        _ => {
            let letter = wanted.strip_prefix('-').filter(|letter| letter.len() == 1);
            let letters = word.strip_prefix('-').filter(|letters| letters.chars().all(char::is_alphabetic));
            matches!((letter, letters), (Some(letter), Some(letters)) if letters.contains(letter))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_does_not_come_back_is_destructive_however_it_is_run() {
        for (command, what) in [
            ("rm -rf build", REMOVES),
            ("rm -fr build", REMOVES),
            ("sudo /bin/rm --recursive x", REMOVES),
            ("rm *.o", REMOVES),
            ("ls; cd x && rm -r y", REMOVES),
            ("bash -c \"rm -rf x\"", REMOVES),
            ("find . -name x | xargs rm -f", REMOVES),
            ("find . -name '*.o' -delete", REMOVES),
            ("git push --force origin main", "overwrites or removes branches elsewhere"),
            ("git push -f", "overwrites or removes branches elsewhere"),
            ("git push --force-with-lease=main origin", "overwrites or removes branches elsewhere"),
            ("git push origin +main", "overwrites or removes branches elsewhere"),
            ("git -C sub reset --hard HEAD~1", UNCOMMITTED),
            ("git --no-pager reset --hard", UNCOMMITTED),
            ("git checkout -- .", UNCOMMITTED),
            ("git clean -fdx", REMOVES),
            ("git branch -D old", HISTORY),
            ("dd if=/dev/zero of=/dev/sda", DEVICE),
            ("mkfs.ext4 /dev/sdb1", DEVICE),
            ("docker system prune -a", SERVICE),
            ("kubectl delete pod x", SERVICE),
            ("npm publish --tag next", PUBLISHES),
            ("psql -c 'DROP   TABLE users'", "removes data of a database"),
            ("pkill node", MACHINE),
        ] {
            assert_eq!(destructive(&json!({ "command": command })), Some(what), "{command}");
        }
        let arguments = json!({"command": ["bash", "-lc", "git reset --hard"]});
        assert_eq!(destructive(&arguments), Some(UNCOMMITTED));
        assert_eq!(destructive(&json!({"cmd": "rm -r x"})), Some(REMOVES));
    }

    #[test]
    fn what_comes_back_is_not_destructive() {
        for command in [
            "ls -rf",
            "rm one",
            "git push origin main",
            "git push origin force",
            "git reset HEAD~1",
            "git checkout main",
            "git log --force",
            "git commit -m reset --hard",
            "git branch -d merged",
            "npm test",
            "cargo build --force-reset",
            "kubectl get pods",
            "find . -name deleted",
            "echo done",
        ] {
            assert_eq!(destructive(&json!({ "command": command })), None, "{command}");
        }
        assert_eq!(destructive(&json!({"file_path": "rm -rf"})), None);
        assert_eq!(destructive(&json!(null)), None);
    }
}
