//! How large a crate may become. The one place where product lines are counted.

use std::collections::BTreeMap;

use super::{Breach, File, Tree};

/// Larger crates hold more than one thought, and every change in one builds all of it.
const PRODUCT_LINES_MAX: usize = 12_000;

/// What marks an item that only tests have.
const FOR_TESTS: [&str; 2] = ["#[cfg(test)]", "#[cfg(any(test,"];

/// Returns the product lines of every crate below `crates/`: lines of `src` with code on them, without tests.
pub fn product_lines(tree: &Tree) -> BTreeMap<&str, usize> {
    let mut lines = BTreeMap::new();
    let sources = tree.below("crates/").filter(|file| file.extension() == "rs" && !file.is_test());
    for file in sources {
        if let Some((name, "src")) = crate_and_folder(&file.path) {
            *lines.entry(name).or_default() += lines_of(file);
        }
    }
    lines
}

/// No crate is larger than the bound.
pub fn crates(tree: &Tree) -> Vec<Breach> {
    let large = product_lines(tree).into_iter().filter(|(_, lines)| *lines > PRODUCT_LINES_MAX);
    large
        .map(|(name, lines)| {
            let remedy = format!(
                "has {lines} product lines (code without tests, comments and blank lines), and a crate has at most \
                 {PRODUCT_LINES_MAX}; move a part that others use through few names into a crate of its own"
            );
            Breach::new("size", format!("crates/{name}"), remedy)
        })
        .collect()
}

fn crate_and_folder(path: &str) -> Option<(&str, &str)> {
    let mut parts = path.strip_prefix("crates/")?.split('/');
    Some((parts.next()?, parts.next()?))
}

fn lines_of(file: &File) -> usize {
    let mut count = 0;
    // Open brackets of an item that only tests have, while inside of one.
    let mut skipped: Option<usize> = None;
    for line in file.code().lines().map(str::trim).filter(|line| !line.is_empty()) {
        let rest = match skipped {
            None => match FOR_TESTS.iter().find_map(|mark| line.strip_prefix(mark)) {
                None => {
                    count += 1;
                    continue;
                }
                Some(rest) => rest.trim_start_matches([')', ']']),
            },
            Some(_) => line,
        };
        skipped = after(rest, skipped.unwrap_or(0));
    }
    count
}

/// Returns the open brackets of an item after more of its text; `None` at its end.
fn after(text: &str, open: usize) -> Option<usize> {
    let mut open = open;
    for c in text.chars() {
        match c {
            '{' | '(' | '[' => open += 1,
            ')' | ']' => open = open.saturating_sub(1),
            '}' => {
                open = open.saturating_sub(1);
                if open == 0 {
                    return None;
                }
            }
            ';' | ',' if open == 0 => return None,
            _ => {}
        }
    }
    Some(open)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_blank_lines_and_tests_are_not_product() {
        let tree = Tree::of(&[
            ("crates/a/src/lib.rs", "//! A.\n\n#[cfg(test)]\nmod tests;\nuse x;\nfn f() {\n    // why\n}\n"),
            (
                "crates/a/src/b.rs",
                "impl B {\n    #[cfg(test)]\n    fn new(a: [u8; 2]) -> Self {\n        if x {\n        }\n    }\n\n    fn f() {}\n}\n\
                 #[cfg(test)]\nmod tests {\n    fn g() {}\n}\n",
            ),
            ("crates/a/src/tests.rs", "fn f() {}"),
            ("crates/a/tests/it.rs", "fn f() {}"),
            ("crates/b/src/lib.rs", "fn f() {}"),
        ]);
        assert_eq!(product_lines(&tree), BTreeMap::from([("a", 6), ("b", 1)]));
    }

    #[test]
    fn a_crate_above_the_bound_is_found_with_its_size() {
        let long = "fn f() {}\n".repeat(PRODUCT_LINES_MAX);
        let fits = [("crates/a/src/lib.rs", long.as_str())];
        assert_eq!(crates(&Tree::of(&fits)), []);
        let found = crates(&Tree::of(&[fits[0], ("crates/a/src/b.rs", "fn g() {}")]));
        assert_eq!(found[0].place, "crates/a");
        assert!(found[0].remedy.contains("12001"), "{}", found[0].remedy);
    }
}
