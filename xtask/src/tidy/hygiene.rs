//! What must not be in the tree: paths of a developer's machine, and registry addresses from the machine that
//! wrote a lock file.

use std::path::Path;

use super::{Breach, File, Tree};

/// Names in example paths that belong to no real user.
const NOBODY: &[&str] = &["anna", "ben", "u", "user", "you", "me", "dev", "runner"];

/// No file names a folder that exists on one machine only.
pub fn developer_paths(tree: &Tree, root: &Path) -> Vec<Breach> {
    let own = own_paths(root);
    let mut breaches = Vec::new();
    for file in &tree.files {
        for (at, line) in file.text.lines().enumerate() {
            let home = ["/home/", "/Users/"].iter().any(|folder| names_somebody(line, folder));
            if home || own.iter().any(|path| line.contains(path)) {
                let remedy = "names a folder of one machine; use a relative path or an example";
                breaches.push(Breach::new("paths", file.at(at), remedy));
            }
        }
    }
    breaches
}

/// The folder of this checkout and its parent, unless that is as short as `/src`.
fn own_paths(root: &Path) -> Vec<String> {
    let folders = [Some(root), root.parent()].into_iter().flatten();
    let long = folders.filter(|folder| folder.components().count() > 2);
    long.map(|folder| format!("{}/", folder.display())).collect()
}

fn names_somebody(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let starts_here =
            !line[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '.' | '}' | ')'));
        let rest = &line[at + folder.len()..];
        let name = &rest[..rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len())];
        starts_here && !name.is_empty() && !NOBODY.contains(&name)
    })
}

/// Lock files contain what was locked, not where it was fetched.
pub fn lock_files(tree: &Tree) -> Vec<Breach> {
    tree.files.iter().flat_map(lock_file).collect()
}

fn lock_file(file: &File) -> Vec<Breach> {
    let address = |line: &str| match file.name() {
        "Cargo.lock" => {
            let source = line.strip_prefix("source = \"");
            source.is_some_and(|source| !source.starts_with(CRATES_IO))
        }
        "package-lock.json" | "npm-shrinkwrap.json" => line.trim_start().starts_with("\"resolved\""),
        "yarn.lock" => line.trim_start().starts_with("resolved "),
        "uv.lock" | "poetry.lock" => line.contains("url = \"http"),
        name if name.starts_with("requirements") && name.ends_with(".txt") => {
            let says = line.split('#').next().unwrap_or_default();
            says.contains("index-url") || says.contains("find-links") || says.contains("://")
        }
        _ => false,
    };
    let found = file.text.lines().enumerate().filter(|(_, line)| address(line));
    found.map(|(at, _)| Breach::new("locks", file.at(at), "holds the address of a registry")).collect()
}

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_a_machine_is_found() {
        let home = ["let x = \"/ho", "me/carol/src\";"].concat();
        let mac = ["see /Us", "ers/carol"].concat();
        let own = ["cd /srv/build/obey/", "target"].concat();
        let tree = Tree::of(&[
            ("a.rs", &home),
            ("b.md", &mac),
            ("c.sh", &own),
            ("d.md", "/home/anna/app, $HOME/app, /home/, example.org/home/carol, ~/x"),
        ]);
        let found = developer_paths(&tree, Path::new("/srv/build/obey"));
        assert_eq!(
            found.iter().map(|breach| breach.place.as_str()).collect::<Vec<_>>(),
            ["a.rs:1", "b.md:1", "c.sh:1"]
        );
    }

    #[test]
    fn a_short_root_forbids_nothing() {
        assert_eq!(own_paths(Path::new("/obey")), Vec::<String>::new());
        assert_eq!(own_paths(Path::new("/src/obey")), ["/src/obey/"]);
    }

    #[test]
    fn an_address_in_a_lock_file_is_found() {
        let tree = Tree::of(&[
            (
                "Cargo.lock",
                "source = \"registry+https://github.com/rust-lang/crates.io-index\"\nsource = \"registry+https://mirror.local/\"",
            ),
            ("web/package-lock.json", "  \"resolved\": \"https://registry/x.tgz\",\n  \"integrity\": \"x\""),
            ("e2e/requirements.txt", "# --no-emit-index-url\ngrpcio==1.0\n--index-url https://mirror.local"),
        ]);
        let found: Vec<String> = lock_files(&tree).into_iter().map(|breach| breach.place).collect();
        assert_eq!(found, ["Cargo.lock:2", "web/package-lock.json:1", "e2e/requirements.txt:3"]);
    }
}
