//! Compares the count with a real tokenizer, on our own sources, prose, logs and random texts.

use std::path::Path;

use super::*;

/// The maximum relative error of a text that is too long to be counted whole: 5 %.
const OFF_MAX: f64 = 0.05;

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
fn the_vocabulary_is_the_tokenizer_s() {
    let real = tiktoken_rs::o200k_base().unwrap();
    let words = number(0);
    assert!(words > 190_000 && real.decode_bytes(&[words]).is_err(), "{words}");
    for known in 0..words {
        assert_eq!(rank(&real.decode_bytes(&[known]).unwrap()), known);
    }
}

#[test]
fn texts_of_every_kind_are_counted_as_a_real_tokenizer_counts_them() {
    let real = tiktoken_rs::o200k_base().unwrap();
    let mut wrong = Vec::new();
    for (name, text) in samples() {
        let (counted, expected) = (count(&text), real.encode_ordinary(&text).len() as u64);
        // Pieces that are cut for their length may cost a token more.
        if counted.abs_diff(expected) > expected / 1000 {
            wrong.push(format!("{name}: {expected} tokens, counted {counted}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_very_long_text_is_counted_within_a_twentieth() {
    let real = tiktoken_rs::o200k_base().unwrap();
    let whole: String = samples().into_iter().map(|(_, text)| text).collect();
    assert!(whole.len() > limits::TOKENS_COUNTED_MAX_BYTES);
    let (counted, expected) = (estimate(&whole) as f64, real.encode_ordinary(&whole).len() as f64);
    assert!((counted / expected - 1.0).abs() < OFF_MAX, "{expected} tokens, counted {counted}");
}

#[test]
fn nothing_costs_nothing_and_one_long_word_does_not_take_long() {
    assert_eq!(estimate(""), 0);
    assert_eq!(estimate("hello"), 1);
    let word = "ab".repeat(200_000);
    let counted = estimate(&word);
    assert!(counted > 1_000 && counted < 400_000, "{counted}");
}

proptest::proptest! {
    #[test]
    fn any_text_is_counted_as_a_real_tokenizer_counts_it(text in "(\\PC|[ \n\t'/a-zA-Z0-9]){0,60}") {
        let real = tiktoken_rs::o200k_base_singleton();
        proptest::prop_assert_eq!(count(&text), real.encode_ordinary(&text).len() as u64);
    }
}
