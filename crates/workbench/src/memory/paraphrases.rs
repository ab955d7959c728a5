//! Measures how often a paraphrase finds its memory: labelled sets from build errors, reviews and operations
//! (`corpus/paraphrases`), each with a query that shares few words with its memory. The sets are measured, never tuned on;
//! `tuning.txt` is for that. First and among ten, of 22 (the fifth and sixth of 24, the seventh of 20):
//!
//! | set | without a model | with the small model |
//! |---|---|---|
//! | build errors | 12, 21 | 14, 22 |
//! | reviews | 7, 19 | 15, 21 |
//! | operations | 14, 21 | 19, 22 |
//! | mixed | 13, 21 | 17, 21 |
//! | fifth | 18, 24 | 22, 24 |
//! | sixth | 14, 23 | 18, 23 |
//! | seventh | 13, 18 | not measured |
//!
//! The fifth, sixth and seventh were written before the ranking was read. Of 20, the first two of them together: 13.3 and 19.6
//! without a model (goal 12 and 16), 16.7 and 19.6 with it (goal 17 and 19).

use super::tests::{NOW, bank_of, place};
use super::*;
use crate::place::Scope;

/// A set: its name, and one memory per line with its query: title, description, content, query.
const SETS: &[(&str, &str)] = &[
    ("build errors", include_str!("../../corpus/paraphrases/build.txt")),
    ("reviews", include_str!("../../corpus/paraphrases/review.txt")),
    ("operations", include_str!("../../corpus/paraphrases/operations.txt")),
    ("mixed", include_str!("../../corpus/paraphrases/mixed.txt")),
    ("fifth", include_str!("../../corpus/paraphrases/fifth.txt")),
    ("sixth", include_str!("../../corpus/paraphrases/sixth.txt")),
    ("seventh", include_str!("../../corpus/paraphrases/seventh.txt")),
];

/// Stores a set and returns how many queries have their memory first, and among ten.
async fn measure(set: &str, embedder: &Embedder) -> (usize, usize) {
    let bank = bank_of(embedder.clone()).await;
    let rows: Vec<Vec<&str>> = set.lines().map(|line| line.split('|').map(str::trim).collect()).collect();
    for row in &rows {
        let new = NewMemory {
            title: row[0].into(),
            description: row[1].into(),
            content: row[2].into(),
            outcome: MemoryOutcome::Success,
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
            outcome: None,
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

/// Measures sets, and fails if one has fewer than these percent first or among ten.
async fn require(embedder: &Embedder, sets: &[(&str, &str)], first_min: usize, among_ten_min: usize) {
    let mut missed = Vec::new();
    for (name, set) in sets {
        let (first, among_ten) = measure(set, embedder).await;
        let all = set.lines().count();
        let result = format!("{name}: {first} first, {among_ten} among ten of {all}");
        println!("{result}");
        if first * 100 < first_min * all || among_ten * 100 < among_ten_min * all {
            missed.push(result);
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}

#[tokio::test]
async fn paraphrases_find_their_memory_without_a_model() {
    require(&Embedder::Words, SETS, 27, 80).await;
}

#[tokio::test]
async fn real_model_paraphrases_find_their_memory_first() {
    let Some(folder) = crate::embed::tests::folder() else { return };
    require(&Embedder::from_folder(&folder).unwrap(), &SETS[..6], 59, 90).await;
}
