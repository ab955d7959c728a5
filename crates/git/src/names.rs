//! Valid names of worktrees and branches. Stricter than git where git is lenient: names become folders, and
//! must never be taken for options.

use domain::Error;

use crate::limits;

/// Checks the name of a worktree.
pub fn check_name(name: &str) -> Result<(), Error> {
    let wrong = |what: &str| Err(Error::invalid("name", format_args!("{name:?} {what}")));
    if name.is_empty() || name.len() > limits::WORKTREE_NAME_MAX_BYTES {
        let most = limits::WORKTREE_NAME_MAX_BYTES;
        return Err(Error::invalid("name", format_args!("must have 1 to {most} letters")));
    }
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
    if !name.chars().all(plain) {
        return wrong("may only have letters, digits, dots, dashes and underscores");
    }
    if !name.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_') {
        return wrong("must begin with a letter, a digit or an underscore");
    }
    if name.contains("..") || name.ends_with('.') || name.ends_with(".lock") {
        return wrong("may not have two dots in a row, nor end in a dot or in .lock");
    }
    Ok(())
}

/// Derives a valid name from a branch, whatever letters that has.
pub fn from_branch(branch: &str) -> String {
    let plain = |letter: char| {
        if letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-') { letter } else { '-' }
    };
    let mut name: String = branch.chars().map(plain).take(limits::WORKTREE_NAME_MAX_BYTES - 8).collect();
    while name.contains("..") {
        name = name.replace("..", ".");
    }
    let name = name.trim_start_matches(['-', '.']).trim_end_matches(['-', '.']);
    let name = name.strip_suffix(".lock").unwrap_or(name);
    if name.is_empty() { "tree".to_owned() } else { name.to_owned() }
}

/// Derives a branch name from a prompt.
pub fn slug(prompt: &str) -> String {
    slug_of(prompt).unwrap_or_else(|| "session".to_owned())
}

/// Returns the first words of a prompt, in lower case, as a name; `None` if it has none that can be part of one.
pub fn slug_of(prompt: &str) -> Option<String> {
    let words = prompt.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut slug = String::new();
    for word in words.take(limits::SLUG_WORDS_MAX) {
        if slug.len() + word.len() + 1 > limits::SLUG_MAX_BYTES {
            break;
        }
        if !slug.is_empty() {
            slug.push('-');
        }
        slug.push_str(&word.to_ascii_lowercase());
    }
    (!slug.is_empty()).then_some(slug)
}

/// Returns the names to try for something that must be unique: the name itself, then numbered ones.
pub fn numbered(name: &str) -> impl Iterator<Item = String> + '_ {
    let more = (2..limits::NAME_TRIES_MAX).map(move |number| format!("{name}-{number}"));
    std::iter::once(name.to_owned()).chain(more)
}

/// Checks a branch name against git's own rules for references, and that it cannot be taken for an option.
pub fn check_branch(branch: &str) -> Result<(), Error> {
    let wrong = |what: &str| Err(Error::invalid("branch", format_args!("{branch:?} {what}")));
    if branch.is_empty() || branch.len() > limits::BRANCH_MAX_BYTES {
        let most = limits::BRANCH_MAX_BYTES;
        return Err(Error::invalid("branch", format_args!("must have 1 to {most} bytes")));
    }
    if branch.starts_with('-') || branch == "@" || branch == "HEAD" || branch.starts_with("refs/") {
        return wrong("is no branch's name");
    }
    let forbidden = |letter: char| {
        letter.is_control() || matches!(letter, ' ' | '~' | '^' | ':' | '?' | '*' | '[' | '\\')
    };
    if branch.contains(forbidden) {
        return wrong("has a letter that branches may not have");
    }
    if branch.contains("..") || branch.contains("@{") || branch.ends_with('.') {
        return wrong("may not have two dots in a row, nor @{, nor end in a dot");
    }
    let bad_part = |part: &str| part.is_empty() || part.starts_with('.') || part.ends_with(".lock");
    if branch.split('/').any(bad_part) {
        return wrong("has an empty part, one that begins with a dot, or one that ends in .lock");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_folder_or_pass_for_options() {
        for good in ["feature", "fix-1.2", "_x", "A"] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        let long = "x".repeat(200);
        for bad in [
            "", "../x", "-b", "--force", "a/b", "a b", ".", "..", ".git", "a..b", "x.", "x.lock", "é",
            "a\nb", "a\0", &long,
        ] {
            assert!(check_name(bad).unwrap_err().message.starts_with("name: "), "{bad:?}");
        }
    }

    #[test]
    fn every_branch_gives_a_valid_name() {
        for (branch, name) in [
            ("feat/ü x", "feat---x"),
            ("über", "ber"),
            ("日本", "tree"),
            ("a/.b", "a-.b"),
            ("fix.lock", "fix"),
            ("x...y", "x.y"),
            (&"é/".repeat(90), "tree"),
        ] {
            assert_eq!(from_branch(branch), name);
            assert_eq!(check_name(&from_branch(branch)), Ok(()), "{branch}");
        }
    }

    #[test]
    fn a_prompt_gives_a_short_branch() {
        for (prompt, branch) in [
            ("Fix the login bug!", "fix-the-login-bug"),
            ("Please, could you have a look at the failing tests?", "please-could-you-have-a-look"),
            ("   \n--force", "force"),
            ("日本語", "session"),
            (&"x".repeat(100), "session"),
        ] {
            assert_eq!(slug(prompt), branch);
            assert_eq!(check_branch(&slug(prompt)), Ok(()));
        }
        assert_eq!(numbered("a").take(3).collect::<Vec<_>>(), ["a", "a-2", "a-3"]);
    }

    #[test]
    fn branches_follow_git_s_rules() {
        for good in ["main", "feat/x", "fix-1.2", "a/b/c", "ü"] {
            assert_eq!(check_branch(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "-b",
            "--upload-pack=x",
            "a..b",
            "a b",
            "a~1",
            "a^",
            "a:b",
            "a?",
            "a*",
            "a[",
            "a\\b",
            "@",
            "HEAD",
            "a@{1}",
            ".a",
            "a/.b",
            "a/",
            "/a",
            "a//b",
            "a.",
            "a.lock",
            "a.lock/b",
            "refs/heads/a",
            "a\nb",
            "a\0b",
        ] {
            assert!(check_branch(bad).unwrap_err().message.starts_with("branch: "), "{bad:?}");
        }
    }
}
