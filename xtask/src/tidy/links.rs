//! Links between documents lead somewhere: to a file that exists, and to a heading that is there. Every page of the site is in
//! its table of contents.

use std::path::Path;

use super::{Breach, File, Tree};

const RULE: &str = "links";
const CONTENTS: &str = "docs/SUMMARY.md";
/// Pages that an index of their own lists.
const LISTED_ELSEWHERE: &[&str] = &["docs/errors/", "docs/decisions/", "docs/tools/"];

/// Checks every relative link of every document.
pub fn lead_somewhere(tree: &Tree, root: &Path) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for file in tree.files.iter().filter(|file| file.extension() == "md") {
        for (line, target) in links(&file.text) {
            if let Some(remedy) = broken(tree, root, file, &target) {
                breaches.push(Breach::new(RULE, file.at(line), remedy));
            }
        }
    }
    breaches
}

/// Checks that the table of contents has every page.
pub fn contents(tree: &Tree) -> Vec<Breach> {
    let Some(summary) = tree.get(CONTENTS) else { return Vec::new() };
    let listed: Vec<String> =
        links(&summary.text).into_iter().filter_map(|(_, target)| resolved("docs/", &target)).collect();
    let pages = tree.below("docs/").filter(|file| file.extension() == "md" && file.path != CONTENTS);
    pages
        .filter(|page| {
            let is_elsewhere = LISTED_ELSEWHERE.iter().any(|folder| page.path.starts_with(folder));
            !listed.contains(&page.path) && (!is_elsewhere || page.path == "docs/errors/README.md")
        })
        .map(|page| Breach::new(RULE, CONTENTS, format!("does not list {}", page.path)))
        .collect()
}

/// Says what is wrong with a link; nothing if it leads somewhere.
fn broken(tree: &Tree, root: &Path, file: &File, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, heading) =
        target.split_once('#').map_or((target, None), |(path, heading)| (path, Some(heading)));
    let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let path = if path.is_empty() { Some(file.path.clone()) } else { resolved(&format!("{folder}/"), path) };
    let Some(path) = path else { return Some(format!("{target} leads out of the repository")) };
    let Some(page) = tree.get(&path) else {
        // Pictures and folders are no text files.
        return (!root.join(&path).exists()).then(|| format!("{target} does not exist"));
    };
    let heading = heading.filter(|_| page.extension() == "md")?;
    (!headings(&page.text).iter().any(|known| known == heading))
        .then(|| format!("{target}: {path} has no heading #{heading}"))
}

/// Returns a path from the root; nothing if it leaves the repository.
fn resolved(folder: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Returns the links of a document with their lines; code is no text.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (line, content) in prose(text) {
        let content = without_code(content);
        let mut rest = content.as_str();
        while let Some((_, after)) = rest.split_once("](") {
            let Some((target, after)) = after.split_once(')') else { break };
            let target = target.split_whitespace().next().unwrap_or_default();
            found.push((line, target.to_owned()));
            rest = after;
        }
    }
    found
}

/// Returns the headings as links name them: lower case, without marks, spaces as hyphens.
fn headings(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (_, line) in prose(text) {
        let Some(title) = line.strip_prefix('#') else { continue };
        let title = title.trim_start_matches('#').trim();
        let kept =
            title.chars().filter(|letter| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter));
        let anchor: String = kept
            .collect::<String>()
            .to_lowercase()
            .chars()
            .map(|letter| if letter == ' ' { '-' } else { letter })
            .collect();
        let same = found.iter().filter(|known| **known == anchor).count();
        found.push(if same > 0 { format!("{anchor}-{same}") } else { anchor });
    }
    found
}

/// Returns the lines outside of code blocks, counted from 0.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut is_code = false;
    let mut lines = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            lines.push((number, line));
        }
    }
    lines
}

/// Returns a line without what stands in backticks, unless that is the text of a link.
fn without_code(line: &str) -> String {
    line.split('`')
        .enumerate()
        .filter(|(index, _)| index % 2 == 0)
        .map(|(_, part)| part)
        .collect::<Vec<_>>()
        .join("`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_a_missing_file_or_heading_is_found() {
        let tree = Tree::of(&[
            (
                "README.md",
                "[a](docs/a.md#two-words) [b](docs/b.md) [c](#here) `[d](no.md)`\n```\n[e](no.md)\n```",
            ),
            ("docs/a.md", "# Two `words`\n[up](../README.md) [out](../../x.md) [web](https://x.invalid)"),
        ]);
        let found = lead_somewhere(&tree, Path::new("/nowhere"));
        let places: Vec<&str> = found.iter().map(|breach| breach.place.as_str()).collect();
        assert_eq!(places, ["README.md:1", "README.md:1", "docs/a.md:2"], "{found:?}");
    }

    #[test]
    fn a_page_that_the_contents_lack_is_found() {
        let tree = Tree::of(&[
            ("docs/SUMMARY.md", "- [A](a.md)"),
            ("docs/a.md", ""),
            ("docs/b.md", ""),
            ("docs/decisions/0001-x.md", ""),
        ]);
        let found = contents(&tree);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].remedy.contains("docs/b.md"), "{found:?}");
    }
}
