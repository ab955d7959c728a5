//! Measures how often a paraphrase finds its memory: labelled sets from build errors, reviews and operations
//! (`corpus/paraphrases`), each with a query that shares few words with its memory. The sets are measured, never tuned on;
//! `tuning.txt` is for that.

use super::tests::{NOW, bank, place};
use super::*;
use crate::place::Scope;

/// A set: its name, and one memory per line with its query: title, description, content, query.
const SETS: &[(&str, &str)] = &[
    ("build errors", include_str!("../../corpus/paraphrases/build.txt")),
    ("reviews", include_str!("../../corpus/paraphrases/review.txt")),
    ("operations", include_str!("../../corpus/paraphrases/operations.txt")),
    ("mixed", include_str!("../../corpus/paraphrases/mixed.txt")),
    ("fifth", include_str!("../../corpus/paraphrases/fifth.txt")),
];

/// Of each set of 22, at least this many are first and among ten.
const FIRST_MIN: usize = 6;
const AMONG_TEN_MIN: usize = 18;

/// Stores a set and returns how many queries have their memory first, and among ten.
async fn measure(set: &str) -> (usize, usize) {
    let bank = bank().await;
    let rows: Vec<Vec<&str>> = set.lines().map(|line| line.split('|').map(str::trim).collect()).collect();
    for row in &rows {
        let new = NewMemory {
            title: row[0].into(),
            description: row[1].into(),
            content: row[2].into(),
            outcome: "success".into(),
            ..NewMemory::default()
        };
        bank.memories.keep(&place("/p"), new, NOW).await.unwrap();
    }
    let (mut first, mut among_ten) = (0, 0);
    for row in &rows {
        let search = MemorySearch {
            query: row[3].into(),
            place: place("/p"),
            scope: Scope::Project,
            outcome: String::new(),
            limit: 10,
            min_confidence: 0.7,
            now: NOW,
        };
        let (found, _) = bank.memories.search(search).await.unwrap();
        let at = found.iter().position(|memory| memory.title == row[0]);
        first += usize::from(at == Some(0));
        among_ten += usize::from(at.is_some());
    }
    (first, among_ten)
}

#[tokio::test]
async fn paraphrases_find_their_memory_without_a_model() {
    let mut results = Vec::new();
    for (name, set) in SETS {
        let (first, among_ten) = measure(set).await;
        println!("{name}: {first} first, {among_ten} among ten of {}", set.lines().count());
        results.push((name, first, among_ten));
    }
    for (name, first, among_ten) in results {
        assert!(
            first >= FIRST_MIN && among_ten >= AMONG_TEN_MIN,
            "{name}: {first} first, {among_ten} among ten"
        );
    }
}
