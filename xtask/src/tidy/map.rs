//! The map is true: every file and function that ARCHITECTURE.md and the checklists of CONTRIBUTING.md name exists, and
//! every crate is on the map.

use std::collections::BTreeSet;

use super::rust::has_word;
use super::{Breach, File, Tree};

const MAP: &str = "ARCHITECTURE.md";
const CHECKLISTS: &str = "CONTRIBUTING.md";
const RULE: &str = "map";

/// Checks what the two pages name.
pub fn names(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    if let Some(map) = tree.get(MAP) {
        breaches.extend(crates(tree, map));
        breaches.extend(main_files(tree, map));
        breaches.extend(walks(tree, map));
        breaches.extend(answers(tree, map));
    }
    if let Some(page) = tree.get(CHECKLISTS) {
        breaches.extend(mentioned(tree, page));
    }
    breaches
}

/// Every crate of the product has a row.
fn crates(tree: &Tree, map: &File) -> Vec<Breach> {
    let folders = tree.below("crates/").filter_map(|file| file.path.split('/').nth(1));
    let folders: BTreeSet<&str> = folders.collect();
    let missing = folders.into_iter().filter(|name| !map.text.contains(&format!("`{name}`")));
    missing.map(|name| Breach::new(RULE, MAP, format!("does not show the crate {name}"))).collect()
}

/// The rows of a crate name files of it.
fn main_files(tree: &Tree, map: &File) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (number, line) in map.text.lines().enumerate() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, crates, _, files, _] = cells.as_slice() else { continue };
        let crates: Vec<&str> = quoted(crates).collect();
        let homes: Vec<String> = crates.iter().flat_map(|name| homes(tree, name)).collect();
        if homes.is_empty() {
            continue;
        }
        for name in quoted(files).filter(|name| is_path(name)) {
            if !homes.iter().any(|home| exists(tree, &format!("{home}{name}"))) {
                breaches.push(Breach::new(RULE, map.at(number), format!("{name} is no file of {crates:?}")));
            }
        }
    }
    breaches
}

/// The folders where the files of a crate on the map are looked up.
fn homes(tree: &Tree, name: &str) -> Vec<String> {
    let places = [format!("crates/{name}/src/"), format!("crates/{name}/"), format!("{name}/")];
    places.into_iter().filter(|home| exists(tree, home)).collect()
}

/// A walk is a table that begins with `#` and `where`; its second column names files and their functions.
fn walks(tree: &Tree, map: &File) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let mut in_walk = false;
    for (number, line) in map.text.lines().enumerate() {
        in_walk = line.starts_with("| # | where |") || in_walk && line.starts_with('|');
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, _, place, ..] = cells.as_slice() else { continue };
        if !in_walk {
            continue;
        }
        let mut seen: Vec<&File> = Vec::new();
        for name in quoted(place) {
            if is_path(name) {
                match find(tree, name, &seen) {
                    Some(file) => seen.push(file),
                    None => {
                        breaches.push(Breach::new(RULE, map.at(number), format!("{name} does not exist")))
                    }
                }
            } else if !seen.is_empty() && !seen.iter().any(|file| defines(file, name)) {
                let files: Vec<&str> = seen.iter().map(|file| file.path.as_str()).collect();
                breaches.push(Breach::new(RULE, map.at(number), format!("{name} is not in {files:?}")));
            }
        }
    }
    breaches
}

/// Every path in the answers to questions exists; a name without a folder is one of any crate.
fn answers(tree: &Tree, map: &File) -> Vec<Breach> {
    let lines = map.text.lines().enumerate().skip_while(|(_, line)| !line.starts_with("| question |"));
    let mut breaches = Vec::new();
    for (number, line) in lines.take_while(|(_, line)| line.starts_with('|')) {
        for name in quoted(line).filter(|name| is_path(name) && name.contains('/')) {
            let mut places = [name.to_owned(), format!("crates/{name}")].into_iter();
            // A short path continues the one before it.
            let is_short = !places.any(|place| exists(tree, &place));
            let is_known = |file: &File| file.path.ends_with(&format!("/{name}"));
            if is_short && !tree.rust().any(is_known) {
                breaches.push(Breach::new(RULE, map.at(number), format!("{name} does not exist")));
            }
        }
    }
    breaches
}

/// Finds a file of a walk: from `crates/`, or in a folder of an earlier file of the same step.
fn find<'a>(tree: &'a Tree, name: &str, seen: &[&File]) -> Option<&'a File> {
    if let Some(file) = tree.get(&format!("crates/{name}")).or_else(|| tree.get(name)) {
        return Some(file);
    }
    for earlier in seen.iter().rev() {
        let mut folder = earlier.path.as_str();
        while let Some((above, _)) = folder.rsplit_once('/') {
            if above == "crates" {
                break;
            }
            if let Some(file) = tree.get(&format!("{above}/{name}")) {
                return Some(file);
            }
            folder = above;
        }
    }
    None
}

/// Whether a file has a function, method or type of this name.
fn defines(file: &File, name: &str) -> bool {
    let last = name.rsplit("::").next().unwrap_or(name);
    let code = file.code();
    let is_defined = ["fn", "struct", "enum", "trait", "const"]
        .iter()
        .any(|keyword| code.contains(&format!("{keyword} {last}")));
    is_defined && name.split("::").all(|part| has_word(code, part))
}

/// Every path that a page names in passing exists.
fn mentioned(tree: &Tree, page: &File) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let mut in_example = false;
    for (number, line) in page.text.lines().enumerate() {
        if line.starts_with("```") {
            in_example = !in_example;
        }
        if in_example {
            continue;
        }
        for name in quoted(line).filter(|name| is_path(name) && name.trim_end_matches('/').contains('/')) {
            let is_pattern = name.contains('*') || name.contains("NAME") || name.contains("NNNN");
            let places = [name.to_owned(), format!("crates/{name}")];
            if !is_pattern && !places.iter().any(|place| exists(tree, place)) {
                breaches.push(Breach::new(RULE, page.at(number), format!("{name} does not exist")));
            }
        }
    }
    breaches
}

/// The texts between backquotes.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

fn is_path(name: &str) -> bool {
    let is_file = [".rs", ".md", ".toml", ".proto"].iter().any(|end| name.ends_with(end));
    !name.contains([' ', '…', '$', '<']) && (is_file || name.ends_with('/'))
}

/// Whether a file, or a folder with files, is at this path.
fn exists(tree: &Tree, path: &str) -> bool {
    let folder = if path.ends_with('/') { path.to_owned() } else { format!("{path}/") };
    tree.get(path).is_some() || tree.below(&folder).next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(map: &str) -> Vec<String> {
        let tree = Tree::of(&[
            (MAP, map),
            ("crates/a/src/walk.rs", "impl Step { pub fn take(&self) {} }"),
            ("crates/a/src/walk/end.rs", "fn end() {}"),
        ]);
        names(&tree).into_iter().map(|breach| breach.remedy).collect()
    }

    #[test]
    fn a_walk_names_files_and_functions_that_exist() {
        let answer = |text: &str| places(&format!("`a`\n| question | answer |\n| Where? | {text} |"));
        assert_eq!(answer("`a/src/walk.rs` `take`, `walk/end.rs`; limits: `limits.rs`"), [""; 0]);
        assert_eq!(answer("`a/src/gone.rs`"), ["a/src/gone.rs does not exist"]);
        let walk = |place: &str| {
            places(&format!(
                "`a`
| # | where | what |
| 1 | {place} | x |"
            ))
        };
        assert_eq!(walk("`a/src/walk.rs` `Step::take`, `end.rs`"), ["end.rs does not exist"]);
        assert!(walk("`a/src/walk.rs` `Step::take`, `walk/end.rs` `end`").is_empty());
        assert_eq!(walk("`a/src/walk.rs` `leap`"), ["leap is not in [\"crates/a/src/walk.rs\"]"]);
    }

    #[test]
    fn a_row_names_files_of_its_crate() {
        assert!(places("| `a` | what | `walk.rs` · `walk/` |").is_empty());
        assert_eq!(places("| `a` | what | `run.rs` |"), ["run.rs is no file of [\"a\"]"]);
    }

    #[test]
    fn a_crate_that_is_not_on_the_map_is_missed() {
        assert_eq!(places("nothing"), ["does not show the crate a"]);
    }
}
