//! Rules for every file: a header that says what it owns, a readable length, a distinct name.

use super::{Allowed, Breach, Tree};

/// Longer source files must be split, or be listed with a reason.
const LINES_MAX: usize = 500;

/// Longer files of any kind are not accepted.
const LINES_HARD_MAX: usize = 800;

/// Source files between the two lengths, each with the reason why a split would not help its reader.
pub const LONG_FILES: &[Allowed] = &[];

/// Every Rust file opens with `//!`: what it owns, who uses it, what it must not do.
pub fn headers(tree: &Tree) -> Vec<Breach> {
    let missing = tree.rust().filter(|file| !file.text.starts_with("//!"));
    missing
        .map(|file| Breach::new("header", &file.path, "does not start with `//!`; say what the file owns"))
        .collect()
}

/// Source files stay below 500 lines, all files below 800.
pub fn lengths(tree: &Tree, allowed: &[Allowed]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let counted = |name: &str| matches!(name, "rs" | "py" | "js" | "ts" | "sh" | "css" | "html");
    let mut long = Vec::new();
    for file in tree.files.iter().filter(|file| counted(file.extension())) {
        let lines = file.text.lines().count();
        if lines > LINES_HARD_MAX {
            let remedy = format!("has {lines} lines; split it, nothing may pass {LINES_HARD_MAX}");
            breaches.push(Breach::new("length", &file.path, remedy));
        } else if lines > LINES_MAX && !file.is_test() {
            long.push(file.path.as_str());
            if !allowed.iter().any(|(path, _)| *path == file.path) {
                let remedy = format!("has {lines} lines; split it, or list it with a reason in LONG_FILES");
                breaches.push(Breach::new("length", &file.path, remedy));
            }
        }
    }
    for (path, _) in allowed.iter().filter(|(path, _)| !long.contains(path)) {
        breaches.push(Breach::new("length", *path, "is not long any more; take it off LONG_FILES"));
    }
    breaches
}

/// No `mod.rs`: `journal.rs` is next to `journal/`, so that every open file has a distinct name.
pub fn no_mod_files(tree: &Tree) -> Vec<Breach> {
    let found = tree.rust().filter(|file| file.name() == "mod.rs");
    found.map(|file| Breach::new("mod", &file.path, "name it after its folder, next to the folder")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_header_is_found() {
        let tree = Tree::of(&[("a.rs", "//! Owns a.\nuse b;"), ("b.rs", "use a;\n//! Late.")]);
        let found = headers(&tree);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].place, "b.rs");
    }

    #[test]
    fn a_long_file_is_found_unless_it_has_a_reason() {
        let (long, longest) = ("x\n".repeat(501), "x\n".repeat(801));
        let tree =
            Tree::of(&[("a.rs", &long), ("a/tests.rs", &long), ("b.rs", &longest), ("c.md", &longest)]);
        let places =
            |allowed| lengths(&tree, allowed).into_iter().map(|found| found.place).collect::<Vec<_>>();
        assert_eq!(places(&[]), ["a.rs", "b.rs"]);
        assert_eq!(places(&[("a.rs", "one table")]), ["b.rs"]);
        assert_eq!(
            places(&[("a.rs", "one table"), ("b.rs", "x"), ("gone.rs", "x")]),
            ["b.rs", "b.rs", "gone.rs"]
        );
    }

    #[test]
    fn a_mod_file_is_found() {
        let tree = Tree::of(&[("a/mod.rs", ""), ("a/model.rs", "")]);
        assert_eq!(no_mod_files(&tree).len(), 1);
    }
}
