//! How fast the scrubber is on texts like those agents print, beside the floors below which it cannot go: copying the
//! bytes, and looking for the rules' keywords alone. `cargo run --release -p scrub-bench`; with `--beside`: beside other
//! scanners that are installed; with `--live`: what a piece of 200 bytes costs while it comes in; with `--quality` and files of labelled
//! documents: precision and recall on them; with file names: what is found in them, for looking at false alarms.
#![allow(clippy::print_stdout, clippy::expect_used, clippy::unwrap_used, clippy::panic)]

mod beside;
#[allow(dead_code)]
#[path = "../../../crates/scrub/tests/it/made_up.rs"]
mod made_up;
#[path = "../../../crates/scrub/tests/it/quality.rs"]
mod quality;
mod texts;

use std::hint::black_box;
use std::time::Duration;

use aho_corasick::{Anchored, automaton::Automaton, dfa};
use rustix::time::{ClockId, clock_gettime};
use scrub::{Config, KnownSecret, Live, Scrubber};

use beside::Outcome;

const SIZE: usize = 32 << 20;
const ROUNDS: usize = 3;

fn main() {
    let files: Vec<String> = std::env::args().skip(1).collect();
    match files.first().map(String::as_str) {
        None => measure(),
        Some("--beside") => compare(),
        Some("--live") => live(files.get(1).map_or("", String::as_str)),
        Some("--quality") => quality(&files[1..]),
        Some(_) => show(&files),
    }
}

/// Measures the cost of a 200-byte chunk that is shown live, on the texts whose name begins so.
fn live(beginning: &str) {
    let scrubber = Scrubber::new(&Config::new()).expect("our rules");
    for (name, text) in texts::all(4 << 20).into_iter().filter(|(name, _)| name.starts_with(beginning)) {
        let text = String::from_utf8_lossy(&text).into_owned();
        let pieces: Vec<String> =
            text.as_bytes().chunks(200).map(|piece| String::from_utf8_lossy(piece).into_owned()).collect();
        let time = fastest(|| {
            let mut live = Live::new(&scrubber);
            pieces.iter().map(|piece| live.push(piece).text.len()).sum::<usize>()
        });
        println!("{name:<24}{:>9.2} µs a piece", time.as_secs_f64() * 1e6 / pieces.len() as f64);
    }
}

/// Precision and recall on labelled documents, with what was missed and what was no secret.
fn quality(files: &[String]) {
    let scrubber = Scrubber::new(&Config::new()).expect("our rules");
    for file in files {
        let documents = quality::read(&std::fs::read_to_string(file).expect("a file that can be read"));
        let measured = quality::measure(&scrubber, &documents);
        println!("{file}: {}\n{}", measured.report(), measured.complaints.join("\n"));
    }
}

/// Ours, one thread and its rules read first, beside others with as many threads as they take, by the clock.
fn compare() {
    let (name, mut text) = texts::all(SIZE).into_iter().next().expect("a text");
    text.extend_from_slice(beside::tokens().as_bytes());
    let folder = std::env::temp_dir().join(format!("scrub-bench-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder for the text");
    std::fs::write(folder.join(beside::FILE), &text).expect("a file for the text");
    let once = || {
        let began = std::time::Instant::now();
        run(&Scrubber::new(&Config::new()).expect("our rules"), &text);
        began.elapsed()
    };
    let ours = once().min(once());
    println!("{name}, {} MB, by the clock:\n", SIZE >> 20);
    println!("{:<24}{:>9.1} MB/s", "ours, one thread", speed(text.len(), ours));
    let others = beside::scan(&folder).expect("scanners that can be run");
    let _ = std::fs::remove_dir_all(&folder);
    let mut slower = 0;
    for (program, outcome) in &others {
        match outcome {
            Outcome::Took(time) => {
                let ratio = time.as_secs_f64() / ours.as_secs_f64();
                println!("{program:<24}{:>9.1} MB/s{ratio:>9.1} times as long", speed(text.len(), *time));
                slower += usize::from(*time > ours);
            }
            Outcome::Unfinished => {
                println!("{program:<24}  was not done in two minutes");
                slower += 1;
            }
            Outcome::Blind => println!("{program:<24}  did not find what is in the file: does not count"),
        }
    }
    let counted = others.iter().filter(|(_, outcome)| !matches!(outcome, Outcome::Blind)).count();
    println!("\nfaster than {slower} of {counted} scanners on the PATH that read the file");
}

/// Processor time of the fastest of several rounds: on a shared machine the rest is other work.
fn fastest<T>(mut work: impl FnMut() -> T) -> Duration {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let start = now();
        black_box(work());
        times.push(now() - start);
    }
    times.into_iter().min().expect("at least one round")
}

fn speed(bytes: usize, time: Duration) -> f64 {
    bytes as f64 / 1e6 / time.as_secs_f64()
}

fn measure() {
    let load = fastest(|| Scrubber::new(&Config::new()).expect("our rules"));
    let scrubber = Scrubber::new(&Config::new()).expect("our rules");
    let known = KnownSecret::from_env(texts::environment());
    let knowing = scrubber.with_known(&known).expect("known secrets");
    println!(
        "{} rules, loaded in {:.1} ms, keyword automaton {} KB ({} KB with {} known secrets)\n",
        scrubber.rules(),
        load.as_secs_f64() * 1e3,
        scrubber.gate_bytes() >> 10,
        knowing.gate_bytes() >> 10,
        known.len(),
    );
    let floor = keywords();
    println!("MB per second of processor time, {} MB each, fastest of {ROUNDS}:\n", SIZE >> 20);
    println!(
        "{:<34}{:>9}{:>10}{:>10}{:>8}{:>12}{:>10}",
        "text", "copy", "keywords", "scrub", "ratio", "with known", "findings"
    );
    for (name, text) in texts::all(SIZE) {
        let copy = fastest(|| text.clone());
        let gate = fastest(|| walk(&floor, &text));
        let mut found = 0;
        let plain = fastest(|| found = run(&scrubber, &text));
        let full = fastest(|| run(&knowing, &text));
        println!(
            "{name:<34}{:>9.0}{:>10.0}{:>10.0}{:>8.2}{:>12.0}{found:>10}",
            speed(text.len(), copy),
            speed(text.len(), gate),
            speed(text.len(), plain),
            gate.as_secs_f64() / plain.as_secs_f64(),
            speed(text.len(), full),
        );
    }
    println!("\nTwice the text, on texts made to be slow (time, ratio; 2.00 is linear):\n");
    for (name, small, large) in texts::hostile() {
        let (one, two) = (fastest(|| run(&scrubber, &small)), fastest(|| run(&scrubber, &large)));
        let ratio = two.as_secs_f64() / one.as_secs_f64();
        println!(
            "{name:<34}{:>9.1} ms{:>9.1} ms{ratio:>8.2}{:>8.1} MB/s",
            one.as_secs_f64() * 1e3,
            two.as_secs_f64() * 1e3,
            speed(large.len(), two)
        );
    }
}

/// Scrubs in chunks of the size a pipe delivers.
fn run(scrubber: &Scrubber, text: &[u8]) -> u64 {
    let mut stream = scrubber.stream();
    let mut out = Vec::with_capacity(128 << 10);
    for chunk in text.chunks(64 << 10) {
        out.clear();
        stream.push_into(chunk, &mut out);
        black_box(&out);
    }
    stream.finish().1.total()
}

/// An automaton of the same kind with only the rules' keywords.
fn keywords() -> dfa::DFA {
    let rules: toml::Table =
        toml::from_str(include_str!("../../../crates/scrub/rules/obey.toml")).expect("our rules");
    let words = rules["rules"]
        .as_array()
        .expect("rules")
        .iter()
        .flat_map(|rule| rule["keywords"].as_array().expect("keywords"));
    let mut words: Vec<String> =
        words.filter_map(|word| word.as_str().map(str::to_ascii_lowercase)).collect();
    words.sort();
    words.dedup();
    dfa::Builder::new().ascii_case_insensitive(true).build(&words).expect("keywords")
}

fn walk(dfa: &dfa::DFA, text: &[u8]) -> usize {
    let mut state = dfa.start_state(Anchored::No).expect("a start");
    let mut hits = 0;
    for &byte in text {
        state = dfa.next_state(Anchored::No, state, byte);
        if dfa.is_special(state) && dfa.is_match(state) {
            hits += 1;
        }
    }
    hits
}

fn show(files: &[String]) {
    let scrubber = Scrubber::new(&Config::new()).expect("our rules");
    let mut bytes = 0;
    let mut total = 0;
    for file in files {
        let Ok(text) = std::fs::read(file) else { continue };
        bytes += text.len();
        for finding in scrubber.scrub(&text).findings.list() {
            total += 1;
            let at = finding.offset as usize;
            let from = at.saturating_sub(40);
            let near = String::from_utf8_lossy(&text[from..(at + 60).min(text.len())]).replace('\n', "⏎");
            println!("{file}: {} …{near}…", finding.rule);
        }
    }
    println!("{total} findings in {} files, {:.1} MB", files.len(), bytes as f64 / 1e6);
}
