//! Names: a public type is the only one of its name in its crate, and words that `docs/naming.md` replaces do not come
//! back. Looks at declarations, not at uses.

use std::collections::BTreeMap;

use super::{Breach, File, Tree};

/// Words of former names, with what `docs/naming.md` says instead.
pub const BANNED: &[(&str, &str)] = &[
    ("awaken", "respawn"),
    ("deed", "permitted action"),
    ("deeds", "permitted actions"),
    ("desk", "handler"),
    ("enliven", "spawn"),
    ("errand", "client request"),
    ("errands", "client requests"),
    ("habits", "defaults"),
    ("hear", "handle, receive or wait"),
    ("heed", "apply"),
    ("maker", "embedder"),
    ("said", "text, message or output"),
    ("talk", "stream or conversation"),
    ("unheard", "unacknowledged"),
    ("untold", "pending"),
    ("upkeep", "timeouts"),
    ("workshop", "toolbox"),
];

/// What declares an item that has a name.
const ITEMS: &[&str] = &["struct", "enum", "trait", "union", "type", "fn", "mod"];

/// What declares a type.
const TYPES: &[&str] = &["struct", "enum", "trait", "union"];

/// An item's declaration.
struct Declared<'a> {
    line: usize,
    public: bool,
    item: &'a str,
    name: &'a str,
}

/// Returns the declarations of a file, found by their first words.
fn declared(file: &File) -> impl Iterator<Item = Declared<'_>> {
    file.code().lines().enumerate().filter_map(|(line, text)| {
        let mut words = text
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .filter(|word| !word.is_empty())
            .take(8)
            .peekable();
        let public = words.peek() == Some(&"pub");
        let item = words.find(|word| ITEMS.contains(word))?;
        let starts = text.trim_start();
        // A use of a keyword inside an expression begins with something else.
        let declares =
            ["pub", "async", "const", "unsafe", "fn", "struct", "enum", "trait", "union", "type", "mod"];
        let declares = declares.iter().any(|word| starts.starts_with(word));
        let name = words.next()?;
        declares.then_some(Declared { line, public, item, name })
    })
}

/// Returns the words of a name: `SaidText` and `said_text` both have `said` and `text`.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for letter in name.chars() {
        if letter == '_' || letter.is_uppercase() {
            words.push(String::new());
        }
        if letter != '_'
            && let Some(word) = words.last_mut()
        {
            word.extend(letter.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns the name of the crate a file is in.
fn crate_of(path: &str) -> Option<&str> {
    path.strip_prefix("crates/")?.split_once("/src/").map(|(name, _)| name)
}

/// One public type per name and crate.
pub fn types_once(tree: &Tree) -> Vec<Breach> {
    let mut first: BTreeMap<(&str, &str), String> = BTreeMap::new();
    let mut breaches = Vec::new();
    for file in tree.rust().filter(|file| !file.is_test()) {
        let Some(owner) = crate_of(&file.path) else { continue };
        for found in declared(file).filter(|found| {
            found.public && TYPES.contains(&found.item) && found.name.starts_with(char::is_uppercase)
        }) {
            let at = file.at(found.line);
            if let Some(other) = first.get(&(owner, found.name)) {
                let remedy = format!("{} is also a type at {other}; name each by what it is of", found.name);
                breaches.push(Breach::new("names", at, remedy));
            } else {
                first.insert((owner, found.name), at);
            }
        }
    }
    breaches
}

/// Former names stay away.
pub fn banned_words(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for file in tree.rust().filter(|file| crate_of(&file.path).is_some() && !file.is_test()) {
        for found in declared(file) {
            let words = words_of(found.name);
            for (word, instead) in BANNED.iter().filter(|(word, _)| words.iter().any(|own| own == word)) {
                let remedy = format!("{}: not `{word}` but {instead}; see docs/naming.md", found.name);
                breaches.push(Breach::new("names", file.at(found.line), remedy));
            }
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(breaches: Vec<Breach>) -> Vec<String> {
        breaches.into_iter().map(|breach| breach.place).collect()
    }

    #[test]
    fn a_public_type_that_stands_twice_in_a_crate_is_found() {
        let tree = Tree::of(&[
            ("crates/a/src/one.rs", "pub struct Call;\npub(super) enum Row {}\nstruct Open;\n"),
            ("crates/a/src/two.rs", "pub(crate) trait Call {}\nstruct Row;\nstruct Open;\n"),
            ("crates/a/src/tests.rs", "pub struct Call;\n"),
            ("crates/b/src/lib.rs", "pub struct Call;\n"),
        ]);
        assert_eq!(places(types_once(&tree)), ["crates/a/src/two.rs:1"]);
    }

    #[test]
    fn a_former_word_in_a_declared_name_is_found() {
        let text = "fn heed() {}\npub struct DeskArgs;\nlet said = talk();\nasync fn take_errands() {}\nfn heeded() {}\n";
        let tree = Tree::of(&[("crates/a/src/lib.rs", text), ("crates/a/src/tests.rs", text)]);
        let lines = ["crates/a/src/lib.rs:1", "crates/a/src/lib.rs:2", "crates/a/src/lib.rs:4"];
        assert_eq!(places(banned_words(&tree)), lines);
    }

    #[test]
    fn names_fall_into_words() {
        assert_eq!(words_of("DeskArgs"), ["desk", "args"]);
        assert_eq!(words_of("take_errands"), ["take", "errands"]);
    }
}
