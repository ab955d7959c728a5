//! Patterns for texts with `*` and `?`, and for paths with `**`. Linear: a hostile pattern costs no more than
//! a plain one.

use std::path::{Component, Path, PathBuf};

/// Returns whether a text matches a pattern in which `*` stands for any characters and `?` for one.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    sequence(&pattern, &text, |letter| *letter == '*', |letter, found| *letter == '?' || letter == found)
}

/// Returns whether a path matches a pattern in which `**` stands for any folders and `*` for characters
/// within a name. Both are absolute and plain. `dir/**` matches `dir` itself too.
pub(super) fn path_matches(pattern: &Path, path: &Path) -> bool {
    let names = |path: &Path| -> Vec<String> {
        path.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect()
    };
    sequence(&names(pattern), &names(path), |name| name == "**", |name, found| matches(name, found))
}

/// Matches a list against a pattern with gaps. Backtracking to the last gap is enough: an earlier one could
/// only match what the last one can match as well.
fn sequence<T>(
    pattern: &[T],
    text: &[T],
    is_gap: impl Fn(&T) -> bool,
    fits: impl Fn(&T, &T) -> bool,
) -> bool {
    let (mut at, mut found) = (0, 0);
    let mut gap: Option<(usize, usize)> = None;
    while found < text.len() {
        match pattern.get(at) {
            Some(part) if is_gap(part) => {
                gap = Some((at, found));
                at += 1;
            }
            Some(part) if fits(part, &text[found]) => {
                at += 1;
                found += 1;
            }
            _ => match &mut gap {
                Some((start, taken)) => {
                    *taken += 1;
                    (at, found) = (*start + 1, *taken);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(is_gap)
}

/// Returns a path below a folder without `.` and `..`, purely by its text: links are not resolved.
pub(super) fn plain(folder: &Path, path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in folder.join(path).components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_letters() {
        for (pattern, text, expected) in [
            ("git *", "git log", true),
            ("git *", "git", false),
            ("*", "", true),
            ("a*b*c", "axxbyybzc", true),
            ("a*b*c", "axxbyybz", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("", "x", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern:?} {text:?}");
        }
    }

    #[test]
    fn a_pattern_full_of_stars_is_quick() {
        assert!(!matches(&"*a".repeat(200), &"a".repeat(5_000).replace('a', "b")));
    }

    #[test]
    fn double_stars_stand_for_folders() {
        for (pattern, path, expected) in [
            ("/r/**", "/r/a/b", true),
            ("/r/**", "/r", true),
            ("/r/**", "/rx", false),
            ("/r/*", "/r/a", true),
            ("/r/*", "/r/a/b", false),
            ("/r/src/**/*.ts", "/r/src/a.ts", true),
            ("/r/src/**/*.ts", "/r/src/x/y/a.ts", true),
            ("/r/src/**/*.ts", "/r/src/x/y/a.rs", false),
            ("/r/a", "/r/a", true),
        ] {
            assert_eq!(path_matches(Path::new(pattern), Path::new(path)), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn relative_paths_are_resolved_without_the_disk() {
        let plain = |path: &str| plain(Path::new("/r/w"), Path::new(path)).display().to_string();
        assert_eq!(plain("a/./b"), "/r/w/a/b");
        assert_eq!(plain("../../../etc/passwd"), "/etc/passwd");
        assert_eq!(plain("/x/../y"), "/y");
    }
}
