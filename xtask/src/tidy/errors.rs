//! Every error code has a page that says what to do, and every page a code.

use super::{Breach, Tree};

const REGISTRY: &str = "crates/domain/src/error.rs";
const PAGES: &str = "docs/errors/";

/// Returns the numbers and titles in the registry's source.
pub fn registry(source: &str) -> Vec<(u16, String)> {
    let entry = |line: &str| {
        let (name, rest) = line.trim().split_once(" = ")?;
        let (number, rest) = rest.split_once(", ")?;
        let title = rest.strip_suffix("\";")?.rsplit_once('"')?.1;
        let named = name.chars().all(char::is_alphanumeric);
        named.then_some((number.parse().ok()?, title.to_owned()))
    };
    source.lines().filter_map(entry).collect()
}

/// Compares codes with pages, titles with headings, and the index with both.
pub fn pages(tree: &Tree) -> Vec<Breach> {
    let codes = tree.get(REGISTRY).map(|file| registry(&file.text)).unwrap_or_default();
    let index = tree.get("docs/errors/README.md").map_or("", |file| file.text.as_str());
    let mut breaches = Vec::new();
    if codes.is_empty() {
        breaches.push(Breach::new("errors", REGISTRY, "holds no registry that can be read"));
    }
    for (number, title) in &codes {
        let code = format!("OBEY-{number:04}");
        let path = format!("{PAGES}{code}.md");
        match tree.get(&path) {
            None => breaches.push(Breach::new("errors", path, "is missing; say cause, sight and remedy")),
            Some(page) if page.text.lines().next() != Some(&format!("# {code}: {title}")) => {
                breaches.push(Breach::new("errors", path, format!("must begin with `# {code}: {title}`")));
            }
            Some(_) => {}
        }
        if !index.contains(&format!("]({code}.md)")) {
            breaches.push(Breach::new("errors", "docs/errors/README.md", format!("does not list {code}")));
        }
    }
    for page in tree.below(PAGES).filter(|page| page.name() != "README.md") {
        let number = page.name().strip_prefix("OBEY-").and_then(|name| name.strip_suffix(".md"));
        let known = number.and_then(|number| number.parse().ok());
        if !codes.iter().any(|(number, _)| Some(*number) == known) {
            breaches.push(Breach::new("errors", &page.path, "speaks of no code in the registry"));
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str =
        "registry! {\n    /// Doc.\n    SessionNotFound = 2010, NotFound, false, \"Session not found\";\n}";

    #[test]
    fn the_registry_is_read() {
        assert_eq!(registry(SOURCE), [(2010, "Session not found".to_owned())]);
        let tree = Tree::read(&crate::tidy::workspace_root()).unwrap();
        assert!(registry(&tree.get(REGISTRY).unwrap().text).len() > 25);
    }

    #[test]
    fn a_code_without_a_page_and_a_page_without_a_code_are_found() {
        let tree = Tree::of(&[
            (REGISTRY, SOURCE),
            ("docs/errors/OBEY-9999.md", "# OBEY-9999: Gone"),
            ("docs/errors/README.md", "[OBEY-2010](OBEY-2010.md)"),
        ]);
        let found: Vec<String> = pages(&tree).into_iter().map(|breach| breach.place).collect();
        assert_eq!(found, ["docs/errors/OBEY-2010.md", "docs/errors/OBEY-9999.md"]);
    }

    #[test]
    fn a_page_keeps_the_title_of_its_code() {
        let page = |heading| {
            pages(&Tree::of(&[
                (REGISTRY, SOURCE),
                ("docs/errors/OBEY-2010.md", heading),
                ("docs/errors/README.md", "[OBEY-2010](OBEY-2010.md)"),
            ]))
        };
        assert_eq!(page("# OBEY-2010: Session not found\n"), []);
        assert_eq!(page("# OBEY-2010: No session\n").len(), 1);
    }

    #[test]
    fn the_index_lists_every_code() {
        let tree = Tree::of(&[
            (REGISTRY, SOURCE),
            ("docs/errors/OBEY-2010.md", "# OBEY-2010: Session not found"),
            ("docs/errors/README.md", ""),
        ]);
        assert_eq!(pages(&tree).len(), 1);
    }
}
