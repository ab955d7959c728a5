//! Precision and recall on the labelled documents of `corpus/`, printed and kept from falling.

use std::path::Path;

use serde::Deserialize;

use super::quality;

/// What must not get worse; `corpus/ratchet.toml`.
#[derive(Deserialize)]
struct Ratchet {
    recall_structured_min: f64,
    recall_generic_min: f64,
    recall_hard_min: f64,
    precision_min: f64,
    second_recall_min: f64,
    second_precision_min: f64,
    third_recall_min: f64,
    third_precision_min: f64,
    fourth_recall_min: f64,
    fourth_precision_min: f64,
    fifth_recall_min: f64,
    fifth_precision_min: f64,
    sixth_recall_min: f64,
    sixth_precision_min: f64,
    seventh_recall_min: f64,
    seventh_precision_min: f64,
    eighth_recall_min: f64,
    eighth_precision_min: f64,
    ninth_recall_min: f64,
    ninth_precision_min: f64,
    tenth_recall_min: f64,
    tenth_precision_min: f64,
    false_alarms_per_10_mb_max: f64,
}

fn ratchet() -> Ratchet {
    toml::from_str(include_str!("../../corpus/ratchet.toml")).unwrap()
}

#[test]
fn precision_and_recall_do_not_fall() {
    let documents = quality::read(include_str!("../../corpus/documents.toml"));
    let measured = quality::measure(super::scrubber(), &documents);
    println!("{}", measured.report());
    let (complaints, least) = (measured.complaints.join("\n"), ratchet());
    assert!(measured.recall("structured") >= least.recall_structured_min, "{complaints}");
    assert!(measured.recall("generic") >= least.recall_generic_min, "{complaints}");
    assert!(measured.recall("hard") >= least.recall_hard_min, "{complaints}");
    assert!(measured.precision() >= least.precision_min, "{complaints}");
}

#[test]
fn precision_and_recall_on_the_second_set_do_not_fall() {
    let documents = quality::read(include_str!("../../corpus/second.toml"));
    let measured = quality::measure(super::scrubber(), &documents);
    println!("{}", measured.report());
    let (complaints, least) = (measured.complaints.join("\n"), ratchet());
    assert!(measured.recall("") >= least.second_recall_min, "{complaints}");
    assert!(measured.precision() >= least.second_precision_min, "{complaints}");
}

#[test]
fn precision_and_recall_on_the_third_set_do_not_fall() {
    let documents = quality::read(include_str!("../../corpus/third.toml"));
    let measured = quality::measure(super::scrubber(), &documents);
    println!("{}", measured.report());
    let (complaints, least) = (measured.complaints.join("\n"), ratchet());
    assert!(measured.recall("") >= least.third_recall_min, "{complaints}");
    assert!(measured.precision() >= least.third_precision_min, "{complaints}");
}

#[test]
fn precision_and_recall_on_the_fourth_set_do_not_fall() {
    let documents = quality::read(include_str!("../../corpus/fourth.toml"));
    let measured = quality::measure(super::scrubber(), &documents);
    println!("{}", measured.report());
    let (complaints, least) = (measured.complaints.join("\n"), ratchet());
    assert!(measured.recall("") >= least.fourth_recall_min, "{complaints}");
    assert!(measured.precision() >= least.fourth_precision_min, "{complaints}");
}

#[test]
fn precision_and_recall_on_the_fifth_set_do_not_fall() {
    let documents = quality::read(include_str!("../../corpus/fifth.toml"));
    let measured = quality::measure(super::scrubber(), &documents);
    println!("{}", measured.report());
    let (complaints, least) = (measured.complaints.join("\n"), ratchet());
    assert!(measured.recall("") >= least.fifth_recall_min, "{complaints}");
    assert!(measured.precision() >= least.fifth_precision_min, "{complaints}");
}

#[test]
fn precision_and_recall_on_the_sixth_set_do_not_fall() {
    let documents = quality::read(include_str!("../../corpus/sixth.toml"));
    let measured = quality::measure(super::scrubber(), &documents);
    println!("{}", measured.report());
    let (complaints, least) = (measured.complaints.join("\n"), ratchet());
    assert!(measured.recall("") >= least.sixth_recall_min, "{complaints}");
    assert!(measured.precision() >= least.sixth_precision_min, "{complaints}");
}

#[test]
fn precision_and_recall_on_the_seventh_set_do_not_fall() {
    let documents = quality::read(include_str!("../../corpus/seventh.toml"));
    let measured = quality::measure(super::scrubber(), &documents);
    println!("{}", measured.report());
    let (complaints, least) = (measured.complaints.join("\n"), ratchet());
    assert!(measured.recall("") >= least.seventh_recall_min, "{complaints}");
    assert!(measured.precision() >= least.seventh_precision_min, "{complaints}");
}

#[test]
fn precision_and_recall_on_the_eighth_set_do_not_fall() {
    let documents = quality::read(include_str!("../../corpus/eighth.toml"));
    let measured = quality::measure(super::scrubber(), &documents);
    println!("{}", measured.report());
    let (complaints, least) = (measured.complaints.join("\n"), ratchet());
    assert!(measured.recall("") >= least.eighth_recall_min, "{complaints}");
    assert!(measured.precision() >= least.eighth_precision_min, "{complaints}");
}

#[test]
fn precision_and_recall_on_the_ninth_set_do_not_fall() {
    let documents = quality::read(include_str!("../../corpus/ninth.toml"));
    let measured = quality::measure(super::scrubber(), &documents);
    println!("{}", measured.report());
    let (complaints, least) = (measured.complaints.join("\n"), ratchet());
    assert!(measured.recall("") >= least.ninth_recall_min, "{complaints}");
    assert!(measured.precision() >= least.ninth_precision_min, "{complaints}");
}

#[test]
fn precision_and_recall_on_the_tenth_set_do_not_fall() {
    let documents = quality::read(include_str!("../../corpus/tenth.toml"));
    let measured = quality::measure(super::scrubber(), &documents);
    println!("{}", measured.report());
    let (complaints, least) = (measured.complaints.join("\n"), ratchet());
    assert!(measured.recall("") >= least.tenth_recall_min, "{complaints}");
    assert!(measured.precision() >= least.tenth_precision_min, "{complaints}");
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
        let inside = file.strip_prefix(root).unwrap();
        if inside.components().any(|part| part.as_os_str() == "scrub") {
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
