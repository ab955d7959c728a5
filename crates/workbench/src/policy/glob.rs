//! Path patterns of policies: `*` within a name, `**` for any folders, `?` for one letter. Compares texts
//! only; the code that opens a path determines which file it is.

/// A path pattern.
#[derive(Clone, Debug)]
pub(super) struct Glob(Vec<String>);

impl Glob {
    pub(super) fn new(pattern: &str) -> Self {
        Self(pattern.split('/').map(str::to_owned).collect())
    }

    /// Whether a path matches. `.` and `..` are resolved as text.
    pub(super) fn fits(&self, path: &str) -> bool {
        let mut names: Vec<&str> = Vec::new();
        for (at, name) in path.split('/').enumerate() {
            match name {
                // The empty name before the first slash marks an absolute path.
                "" if at > 0 => {}
                "." => {}
                ".." if names.last().is_some_and(|last| !last.is_empty() && *last != "..") => {
                    names.pop();
                }
                name => names.push(name),
            }
        }
        let pattern: Vec<&str> = self.0.iter().map(String::as_str).collect();
        fits(&pattern, &names)
    }
}

/// Compares a pattern with names, one by one.
fn fits(pattern: &[&str], names: &[&str]) -> bool {
    match (pattern.split_first(), names.split_first()) {
        (None, None) => true,
        (Some((&"**", rest)), _) => (0..=names.len()).any(|skipped| fits(rest, &names[skipped..])),
        (Some((first, rest)), Some((name, others))) => name_fits(first, name) && fits(rest, others),
        _ => false,
    }
}

/// Compares one name with a pattern without `**`.
fn name_fits(pattern: &str, name: &str) -> bool {
    let (mut pattern_rest, mut name_rest) = (pattern.chars(), name.chars());
    match (pattern_rest.next(), name_rest.next()) {
        (None, None) => true,
        (Some('*'), _) => {
            let rest = pattern_rest.as_str();
            name.char_indices().map(|(at, _)| at).chain([name.len()]).any(|at| name_fits(rest, &name[at..]))
        }
        (Some('?'), Some(_)) => name_fits(pattern_rest.as_str(), name_rest.as_str()),
        (Some(one), Some(other)) if one == other => name_fits(pattern_rest.as_str(), name_rest.as_str()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_whole_paths() {
        for (pattern, path) in [
            ("/etc/**", "/etc/passwd"),
            ("/etc/**", "/etc/ssl/x"),
            ("/etc/**", "//etc/./passwd"),
            ("/etc/**", "/tmp/../etc/passwd"),
            ("**/.ssh/id_*", "/srv/a/.ssh/id_rsa"),
            ("**/Cargo.lock", "a/b/Cargo.lock"),
            ("**/Cargo.lock", "Cargo.lock"),
            ("/dev/sd*", "/dev/sda1"),
            ("?.txt", "a.txt"),
        ] {
            assert!(Glob::new(pattern).fits(path), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("/etc/**", "/etcetera/x"),
            ("/etc/**", "etc/passwd"),
            ("/dev/sd*", "/dev/sd/x"),
            ("?.txt", "ab.txt"),
            ("a", "b"),
        ] {
            assert!(!Glob::new(pattern).fits(path), "{pattern} {path}");
        }
    }
}
