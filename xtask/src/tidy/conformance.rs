//! Every clause of a specification names the tests that cover it. A clause without one says `pending`, which
//! is counted and printed, so that a plan is not mistaken for a fact.

use std::collections::BTreeSet;

use super::{Breach, Report, Tree};

const PAGE: &str = "docs/spec/conformance.md";

/// Parses the rows `| id | clause | tests |` of the page and looks up their tests in the tree.
pub fn rows(tree: &Tree) -> Report {
    let mut report = Report::default();
    let Some(page) = tree.get(PAGE) else { return report };
    let tests = tests(tree);
    let mut ids = BTreeSet::new();
    let mut pending = 0;
    for (at, line) in page.text.lines().enumerate() {
        let Some((id, named)) = row(line) else { continue };
        if !ids.insert(id) {
            report.breaches.push(Breach::new("conformance", page.at(at), format!("{id} is used twice")));
        }
        if named == "pending" {
            pending += 1;
            continue;
        }
        let names: Vec<&str> = named.split('`').skip(1).step_by(2).collect();
        if names.is_empty() {
            let remedy = format!("{id} names no test; put it in backquotes or write `pending` without");
            report.breaches.push(Breach::new("conformance", page.at(at), remedy));
        }
        for name in names.into_iter().filter(|name| !tests.contains(*name)) {
            let remedy = format!("{id} names the test {name}, which does not exist");
            report.breaches.push(Breach::new("conformance", page.at(at), remedy));
        }
    }
    report.notes.push(format!("{PAGE}: {pending} of {} clauses have no test yet", ids.len()));
    report
}

/// Returns the id and the last column of a row that describes a clause.
fn row(line: &str) -> Option<(&str, &str)> {
    let cells: Vec<&str> =
        line.trim().strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
    let (id, named) = (*cells.first()?, *cells.last()?);
    let (letters, digits) = id.split_once('-')?;
    let upper = !letters.is_empty() && letters.chars().all(|c| c.is_ascii_uppercase());
    (upper && !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit())).then_some((id, named))
}

/// Returns the names of all functions in Rust and Python files.
fn tests(tree: &Tree) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    for file in &tree.files {
        let word = match file.extension() {
            "rs" => "fn ",
            "py" => "def ",
            _ => continue,
        };
        for line in file.text.lines() {
            if let Some((_, rest)) = line.split_once(word) {
                let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
                names.insert(&rest[..end]);
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(table: &str) -> Report {
        rows(&Tree::of(&[
            (PAGE, table),
            ("a.rs", "#[test]\nfn a_prompt_is_sent() {}\nasync fn second() {}"),
            ("b.py", "def test_ping():\n    pass"),
        ]))
    }

    #[test]
    fn rows_that_name_tests_that_exist_are_fine() {
        let report = check(
            "| id | clause | test |\n|---|---|---|\n| L-01 | x | `a_prompt_is_sent`, `test_ping` |\n| L-02 | y | pending |\n| L-03 | z | `second` |",
        );
        assert_eq!(report.breaches, []);
        assert_eq!(report.notes, ["docs/spec/conformance.md: 1 of 3 clauses have no test yet"]);
    }

    #[test]
    fn a_test_that_does_not_exist_is_found() {
        let report = check("| L-01 | x | `a_prompt` |");
        assert_eq!(report.breaches.len(), 1);
        assert_eq!(report.breaches[0].place, "docs/spec/conformance.md:1");
    }

    #[test]
    fn a_row_without_a_test_and_an_id_used_twice_are_found() {
        assert_eq!(check("| L-01 | x | later |").breaches.len(), 1);
        assert_eq!(check("| L-01 | x | |").breaches.len(), 1);
        assert_eq!(check("| L-01 | x | pending |\n| L-01 | y | pending |").breaches.len(), 1);
    }
}
