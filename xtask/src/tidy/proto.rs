//! Published names and numbers never change. `xtask/contracts/` lists what each published interface defined,
//! one line per field, value and call; our protobuf must still contain every line, whatever it adds.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Breach, Tree};

/// Protobuf files with a published contract.
const CONTRACTS: &[(&str, &str)] =
    &[("proto/obey/local/v1/daemon.proto", "xtask/contracts/obey-local-v1.txt")];

/// Interfaces as they were published, from which tests compile clients, and our files that must contain all
/// of them.
const PUBLISHED: &[(&str, &[&str])] = &[(
    "e2e/tests/published/betcode_v1.proto",
    &[
        "proto/betcode/v1/agent.proto",
        "proto/betcode/v1/worktree.proto",
        "proto/betcode/v1/machine.proto",
        "proto/betcode/v1/tunnel.proto",
    ],
)];

/// Returns the published specification of `obey.local.v1`, if a checkout has the specifications next to it.
pub fn published(root: &Path) -> Option<String> {
    let folder = root.ancestors().map(|folder| folder.join("shared/seeds")).find(|folder| folder.is_dir())?;
    let mut files = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let first =
        files.find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("000")))?;
    std::fs::read_to_string(first).ok()
}

/// Compares our protobuf with the contracts, and with the specification itself if it is available.
pub fn contracts(tree: &Tree, published: Option<&str>) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (proto, contract) in CONTRACTS {
        let Some(ours) = tree.get(proto) else {
            breaches.push(Breach::new("proto", *proto, "is missing"));
            continue;
        };
        let ours = facts(&ours.text);
        let fixed = tree.get(contract).map_or("", |file| file.text.as_str());
        if fixed.is_empty() {
            breaches.push(Breach::new("proto", *contract, "is missing"));
        }
        let fixed =
            fixed.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned);
        let printed = published.map(|text| facts(&protobuf_blocks(text))).unwrap_or_default();
        let wanted: BTreeSet<String> = fixed.chain(printed).collect();
        for fact in wanted.difference(&ours) {
            breaches.push(Breach::new("proto", *proto, format!("no longer says `{fact}`")));
        }
    }
    breaches
}

/// Compares our protobuf with the published interfaces.
pub fn published_files(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (published, ours) in PUBLISHED {
        let Some(file) = tree.get(published) else { continue };
        let said: BTreeSet<String> =
            ours.iter().filter_map(|path| tree.get(path)).flat_map(|file| facts(&file.text)).collect();
        for fact in facts(&file.text).difference(&said) {
            breaches.push(Breach::new("proto", ours.join(", "), format!("lacks the published `{fact}`")));
        }
    }
    breaches
}

/// Returns the content of protobuf code blocks in a Markdown text.
pub fn protobuf_blocks(text: &str) -> String {
    let mut inside = false;
    let mut blocks = String::new();
    for line in text.lines() {
        match line.trim() {
            "```protobuf" => inside = true,
            "```" => inside = false,
            _ if inside => {
                blocks.push_str(line);
                blocks.push('\n');
            }
            _ => {}
        }
    }
    blocks
}

/// Parses protobuf line by line: `Message.field = 1 type`, `Enum.VALUE = 1`, `Service.Call(In) returns
/// (Out)`.
pub fn facts(source: &str) -> BTreeSet<String> {
    let mut facts = BTreeSet::new();
    let mut scopes: Vec<(String, String)> = Vec::new();
    for line in source.lines() {
        let line = line.split("//").next().unwrap_or_default().trim();
        let words: Vec<&str> = line.split_whitespace().collect();
        let scope = scopes.last().map(|(_, name)| name.clone()).unwrap_or_default();
        match words.first().copied() {
            None => continue,
            Some(kind @ ("message" | "enum" | "service" | "oneof")) if line.contains('{') => {
                let name = words.get(1).map_or("", |name| name.trim_end_matches('{'));
                // Fields of a oneof belong to the message around it.
                let full = match (kind, scope.as_str()) {
                    ("oneof", scope) => scope.to_owned(),
                    (_, "") => name.to_owned(),
                    (_, scope) => format!("{scope}.{name}"),
                };
                scopes.push((kind.to_owned(), full));
            }
            Some("rpc") => {
                facts.extend(call(line).map(|call| format!("{scope}.{call}")));
            }
            Some("option" | "reserved" | "syntax" | "package" | "import" | "extensions") => continue,
            Some(_) => facts.extend(field(line).map(|(name, rest)| format!("{scope}.{name} = {rest}"))),
        }
        if line.ends_with('}') {
            scopes.pop();
        }
    }
    facts
}

/// Parses `string name = 1 [..];` to name and `1 string`, and `VALUE = 1;` to name and `1`.
fn field(line: &str) -> Option<(&str, String)> {
    let (left, right) = line.split_once('=')?;
    let number: String = right.trim().chars().take_while(char::is_ascii_digit).collect();
    let (kind, name) = left.trim().rsplit_once(' ').unwrap_or(("", left.trim()));
    let kind: String = kind.split_whitespace().collect::<Vec<_>>().join(" ");
    (!number.is_empty()).then(|| (name.trim(), format!("{number} {kind}").trim().to_owned()))
}

fn call(line: &str) -> Option<String> {
    let signature = line.strip_prefix("rpc ")?.split(['{', ';']).next()?;
    Some(signature.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROTO: &str = "
        service S { // comment
            rpc Send(SendRequest) returns (stream Event);
        }
        enum Status { STATUS_A = 0; }
        enum Kind {
            KIND_X     = 1; // idle
        }
        message M {
            string id = 1;
            map<string, string> config = 7;
            repeated   Kind kinds = 2 [packed = true];
            google.protobuf.Duration timeout = 10;
            oneof output {
                bytes stdout = 3;
            }
            message Inner { }
            bool last = 4;
        }
        message Empty {}
        message N { int64 n = 9; }
    ";

    #[test]
    fn protobuf_is_read_line_by_line() {
        let facts: Vec<String> = facts(PROTO).into_iter().collect();
        assert_eq!(
            facts,
            [
                "Kind.KIND_X = 1",
                "M.config = 7 map<string, string>",
                "M.id = 1 string",
                "M.kinds = 2 repeated Kind",
                "M.last = 4 bool",
                "M.stdout = 3 bytes",
                "M.timeout = 10 google.protobuf.Duration",
                "S.Send(SendRequest) returns (stream Event)",
            ]
        );
    }

    #[test]
    fn a_changed_name_number_or_type_is_found() {
        let ours = |proto: &str| {
            Tree::of(&[
                ("proto/obey/local/v1/daemon.proto", proto),
                ("xtask/contracts/obey-local-v1.txt", "# fixed\nM.id = 1 string\n"),
            ])
        };
        let found = |proto: &str| contracts(&ours(proto), None).len();
        assert_eq!(found("message M {\n string id = 1;\n string more = 2;\n}"), 0);
        assert_eq!(found("message M {\n string id = 2;\n}"), 1);
        assert_eq!(found("message M {\n bytes id = 1;\n}"), 1);
        assert_eq!(found("message M {\n string ident = 1;\n}"), 1);
    }

    #[test]
    fn what_a_specification_prints_is_held_too() {
        let tree = Tree::of(&[
            ("proto/obey/local/v1/daemon.proto", "message M {\n string id = 1;\n}"),
            ("xtask/contracts/obey-local-v1.txt", "M.id = 1 string"),
        ]);
        let text = "# Spec\n```protobuf\nmessage M {\n    string id = 1;\n    bool on = 2;\n}\n```\n```\nM { x = 9 }\n```";
        let found = contracts(&tree, Some(text));
        assert_eq!(found.len(), 1);
        assert!(found[0].remedy.contains("M.on = 2 bool"));
    }

    #[test]
    fn what_was_published_must_be_among_ours() {
        let tree = Tree::of(&[
            ("e2e/tests/published/betcode_v1.proto", "message M {\n string id = 1;\n bool on = 2;\n}"),
            ("proto/betcode/v1/agent.proto", "message M {\n string id = 1;\n string more = 3;\n}"),
        ]);
        let found = published_files(&tree);
        assert_eq!(found.len(), 1);
        assert!(found[0].remedy.contains("M.on = 2 bool"), "{:?}", found[0].remedy);
    }

    #[test]
    fn a_missing_file_is_found() {
        assert_eq!(contracts(&Tree::default(), None).len(), 1);
    }
}
