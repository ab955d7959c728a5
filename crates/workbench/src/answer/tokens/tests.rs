//! Compares the estimate with a real tokenizer, on our own sources and on prose.

use std::path::Path;

use super::*;

/// The maximum relative error: 20 %.
const OFF_MAX: f64 = 0.2;

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

fn collect(dir: &Path, ending: &str, texts: &mut Vec<(String, String)>) {
    let mut entries: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            collect(&path, ending, texts);
        } else if path.to_str().unwrap().ends_with(ending) {
            texts.push((path.display().to_string(), std::fs::read_to_string(&path).unwrap()));
        }
    }
}

fn comments(sources: &[(String, String)]) -> String {
    let lines = sources.iter().flat_map(|(_, text)| text.lines());
    let prose: Vec<&str> = lines.filter_map(|line| line.trim().strip_prefix("///")).map(str::trim).collect();
    prose.join(" ")
}

fn samples() -> Vec<(String, String)> {
    let mut sources = Vec::new();
    collect(&workspace().join("crates"), ".rs", &mut sources);
    let mut samples = vec![("prose: our comments".to_owned(), comments(&sources))];
    sources.retain(|(_, text)| text.len() > 3000);
    sources.truncate(60);
    samples.push(("Rust: all".into(), sources.iter().map(|(_, text)| text.as_str()).collect()));
    samples.extend(sources.into_iter().map(|(name, text)| (format!("Rust: {name}"), text)));
    let mut protos = Vec::new();
    collect(&workspace().join("proto"), ".proto", &mut protos);
    samples.push(("protobuf".into(), protos.into_iter().map(|(_, text)| text).collect()));
    for (name, text) in [
        ("prose: English", include_str!("../../../corpus/texts/prose.txt")),
        ("prose: German", include_str!("../../../corpus/texts/prose_de.txt")),
        ("Python", include_str!("../../../corpus/texts/code.py.txt")),
        ("TypeScript", include_str!("../../../corpus/texts/code.ts.txt")),
        ("build log", include_str!("../../../corpus/texts/build.log.txt")),
    ] {
        samples.push((name.into(), text.into()));
    }
    samples
}

#[test]
fn the_estimate_is_within_a_fifth_of_a_real_tokenizer() {
    let mut wrong = Vec::new();
    for (tokenizer, real) in
        [("o200k", tiktoken_rs::o200k_base().unwrap()), ("cl100k", tiktoken_rs::cl100k_base().unwrap())]
    {
        for (name, text) in samples() {
            let (estimated, counted) = (estimate(&text) as f64, real.encode_ordinary(&text).len() as f64);
            let off = estimated / counted - 1.0;
            if !name.starts_with("Rust: /") {
                println!(
                    "{tokenizer} {name}: {counted} tokens, estimated {estimated} ({:+.1} %)",
                    off * 100.0
                );
            }
            if off.abs() > OFF_MAX {
                wrong.push(format!("{tokenizer} {name}: {counted} tokens, estimated {estimated}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn pieces_change_nothing_and_nothing_costs_nothing() {
    let text = "fn main() { println!(\"Grüße {}\", 12345); }\n\n    // ok\n";
    let mut tokens = Tokens::default();
    for letter in text.chars() {
        tokens.push(letter.encode_utf8(&mut [0; 4]));
    }
    let mut whole = Tokens::default();
    whole.push(text);
    assert_eq!(tokens.total(), whole.total());
    assert_eq!(estimate(""), 0);
    assert!(estimate("hello") >= 1);
}

#[cfg(feature = "exact-tokens")]
#[test]
fn with_exact_tokens_every_text_is_counted_not_estimated() {
    let real = tiktoken_rs::o200k_base().unwrap();
    for (name, text) in samples() {
        assert_eq!(estimate(&text), real.encode_ordinary(&text).len() as u64, "{name}");
    }
}
