//! Precision and recall on the labelled documents of `corpus/documents.toml`, printed and kept from falling.

use std::path::Path;

use serde::Deserialize;

use super::made_up::{self, Dice};

#[derive(Deserialize)]
struct Corpus {
    document: Vec<Document>,
}

#[derive(Deserialize)]
struct Document {
    name: String,
    kind: String,
    text: String,
}

/// What must not get worse; `corpus/ratchet.toml`.
#[derive(Deserialize)]
struct Ratchet {
    recall_structured_min: f64,
    recall_generic_min: f64,
    recall_hard_min: f64,
    precision_min: f64,
    false_alarms_per_10_mb_max: f64,
}

struct Tally {
    secrets: usize,
    found: usize,
    alarms: usize,
    right: usize,
}

impl Tally {
    const NONE: Self = Self { secrets: 0, found: 0, alarms: 0, right: 0 };
}

/// Each document is filled this often, with other characters.
const ROUNDS: usize = 20;

/// A secret counts as redacted if no piece of this length is left of it.
const LEFT_MAX: usize = 6;

fn ratchet() -> Ratchet {
    toml::from_str(include_str!("../../corpus/ratchet.toml")).unwrap()
}

/// Where the secrets of a text stand.
fn places(filled: &str) -> (String, Vec<std::ops::Range<usize>>) {
    let (mut text, mut places) = (String::new(), Vec::new());
    for part in filled.split_inclusive(['«', '»']) {
        text.push_str(part.trim_end_matches(['«', '»']));
        if part.ends_with('«') {
            places.push(text.len()..text.len());
        } else if part.ends_with('»') {
            places.last_mut().unwrap().end = text.len();
        }
    }
    (text, places)
}

fn judge(document: &Document, round: usize, tally: &mut Tally, complaints: &mut Vec<String>) {
    let filled = made_up::expand(&document.text, &mut Dice::new(&format!("{} {round}", document.name)));
    let (text, places) = places(&filled);
    let scrubbed = super::scrubber().scrub(text.as_bytes());
    let out = without_marks(&String::from_utf8(scrubbed.bytes).unwrap());
    tally.secrets += places.len();
    for place in &places {
        let secret = text[place.clone()].as_bytes();
        let left = secret.windows(LEFT_MAX.min(secret.len())).any(|piece| {
            memchr_count(out.as_bytes(), piece) > memchr_count(outside(&text, &places).as_bytes(), piece)
        });
        if left {
            complaints.push(format!("missed in {}: {}", document.name, &text[place.clone()]));
        } else {
            tally.found += 1;
        }
    }
    for finding in scrubbed.findings.list() {
        let at = finding.offset as usize;
        tally.alarms += 1;
        if places.iter().any(|place| place.contains(&at)) {
            tally.right += 1;
        } else {
            let line = text[at..].lines().next().unwrap_or_default();
            complaints.push(format!("false alarm of {} in {}: {line}", finding.rule, document.name));
        }
    }
}

/// Rule names may share letters with the secrets they stand for.
fn without_marks(out: &str) -> String {
    out.split("[REDACTED:")
        .enumerate()
        .map(|(index, part)| match part.split_once(']') {
            Some((_, after)) if index > 0 => after,
            _ => part,
        })
        .collect::<Vec<_>>()
        .join("\0")
}

fn outside(text: &str, places: &[std::ops::Range<usize>]) -> String {
    let mut rest = String::new();
    let mut from = 0;
    for place in places {
        rest.push_str(&text[from..place.start]);
        rest.push('\0');
        from = place.end;
    }
    rest.push_str(&text[from..]);
    rest
}

fn memchr_count(text: &[u8], piece: &[u8]) -> usize {
    text.windows(piece.len()).filter(|window| *window == piece).count()
}

#[test]
fn precision_and_recall_do_not_fall() {
    let documents = toml::from_str::<Corpus>(include_str!("../../corpus/documents.toml")).unwrap().document;
    let [mut structured, mut generic, mut hard, mut none] = [const { Tally::NONE }; 4];
    let mut complaints = Vec::new();
    for document in &documents {
        let tally = match document.kind.as_str() {
            "structured" => &mut structured,
            "generic" => &mut generic,
            "hard" => &mut hard,
            "none" => &mut none,
            other => panic!("no kind {other}"),
        };
        for round in 0..ROUNDS {
            judge(document, round, tally, &mut complaints);
        }
    }
    let recall = |tally: &Tally| tally.found as f64 / tally.secrets as f64;
    let alarms = structured.alarms + generic.alarms + hard.alarms + none.alarms;
    let precision = (structured.right + generic.right + hard.right) as f64 / alarms as f64;
    println!("{} documents × {ROUNDS}: {} alarms", documents.len(), alarms);
    println!("  recall, structured  {:.4} of {}", recall(&structured), structured.secrets);
    println!("  recall, generic     {:.4} of {}", recall(&generic), generic.secrets);
    println!("  recall, hard        {:.4} of {}", recall(&hard), hard.secrets);
    println!("  precision           {precision:.4}; false alarms in texts without secrets: {}", none.alarms);
    complaints.sort();
    complaints.dedup();
    let complaints = complaints.join("\n");
    let least = ratchet();
    assert!(recall(&structured) >= least.recall_structured_min, "{complaints}");
    assert!(recall(&generic) >= least.recall_generic_min, "{complaints}");
    assert!(recall(&hard) >= least.recall_hard_min, "{complaints}");
    assert!(precision >= least.precision_min, "{complaints}");
}

#[test]
fn our_own_sources_and_lock_file_raise_no_false_alarms() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let mut files = vec![root.join("Cargo.lock")];
    collect(&root.join("crates"), &mut files);
    collect(&root.join("proto"), &mut files);
    let (mut bytes, mut alarms) = (0, Vec::new());
    for file in files {
        // Tests of the scrubber are full of what it looks for.
        if file.components().any(|part| part.as_os_str() == "scrub") {
            continue;
        }
        let text = std::fs::read(&file).unwrap();
        bytes += text.len();
        for finding in super::scrubber().scrub(&text).findings.list() {
            let at = finding.offset as usize;
            let near =
                String::from_utf8_lossy(&text[at.saturating_sub(30)..(at + 50).min(text.len())]).into_owned();
            alarms.push(format!("{} in {}: {near:?}", finding.rule, file.display()));
        }
    }
    let rate = alarms.len() as f64 / (bytes as f64 / 1e7);
    println!(
        "{} false alarms in {:.2} MB of our own sources: {rate:.2} per 10 MB",
        alarms.len(),
        bytes as f64 / 1e6
    );
    assert!(rate <= ratchet().false_alarms_per_10_mb_max, "{}", alarms.join("\n"));
}

fn collect(dir: &Path, files: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() && entry.file_name() != "corpus" && entry.file_name() != "rules" {
            collect(&entry.path(), files);
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
}
