//! Memories as a session uses them: found in other words, rated, decayed, kept across restarts.

use super::*;
use crate::place::Scope;

pub(super) struct Bank {
    dir: tempfile::TempDir,
    pub(super) memories: Memories,
}

pub(super) const NOW: Timestamp = Timestamp(1_800_000_000_000_000);
const MONTH: i64 = 30 * 24 * 3600 * 1_000_000;

async fn open(dir: tempfile::TempDir) -> Bank {
    open_with(dir, Embedder::Words).await
}

async fn open_with(dir: tempfile::TempDir, embedder: Embedder) -> Bank {
    let store = Store::open(&dir.path().join("daemon.db")).unwrap();
    tables::prepare(&store).await.unwrap();
    Bank { dir, memories: Memories::new(store, embedder, None) }
}

async fn bank() -> Bank {
    bank_of(Embedder::Words).await
}

pub(super) async fn bank_of(embedder: Embedder) -> Bank {
    open_with(tempfile::tempdir().unwrap(), embedder).await
}

pub(super) fn place(project: &str) -> WorkPlace {
    WorkPlace { tenant: String::new(), team: String::new(), project: project.into() }
}

const LESSONS: &[(&str, &str, &str, &str)] = &[
    (
        "Postgres connections run out",
        "Under load the pool is empty",
        "Raise max_connections and use pgbouncer",
        "failure",
    ),
    (
        "Login tokens expire too early",
        "Users are signed out",
        "Refresh the JWT five minutes before its end",
        "success",
    ),
    ("Flaky browser tests", "They fail now and then", "Wait for the element instead of sleeping", "success"),
    (
        "parseHttpRequest is slow",
        "Large bodies are copied",
        "Borrow the body instead of cloning it",
        "success",
    ),
    ("Docker image is too large", "CI takes long to push", "Use a multi-stage build", "success"),
];

impl Bank {
    async fn keep(&self, at: &str, lesson: &(&str, &str, &str, &str)) -> String {
        let (title, description, content, outcome) = *lesson;
        let new = NewMemory {
            title: title.into(),
            description: description.into(),
            content: content.into(),
            outcome: MemoryOutcome::parse(outcome).unwrap(),
            tags: vec!["lesson".into()],
            session: "sess_a".into(),
            distilled: false,
        };
        self.memories.keep(&place(at), new, NOW).await.unwrap()
    }

    async fn titles(&self, query: &str) -> Vec<String> {
        self.find(query, |_| {}).await.into_iter().map(|found| found.title).collect()
    }

    async fn find(&self, query: &str, change: impl FnOnce(&mut MemorySearch)) -> Vec<FoundMemory> {
        let mut search = MemorySearch {
            query: query.into(),
            place: place("/p"),
            scope: Scope::Project,
            outcome: None,
            limit: 10,
            min_confidence: 0.7,
            now: NOW,
        };
        change(&mut search);
        self.memories.search(search).await.unwrap().0
    }
}

async fn full() -> Bank {
    let bank = bank().await;
    for lesson in LESSONS {
        bank.keep("/p", lesson).await;
    }
    bank
}

#[tokio::test]
async fn memories_are_found_in_other_words() {
    let bank = full().await;
    for (query, title) in [
        ("database pool exhausted", "Postgres connections run out"),
        ("authentication session ends", "Login tokens expire too early"),
        ("intermittent test failures", "Flaky browser tests"),
        ("parse http request performance", "parseHttpRequest is slow"),
        ("container size", "Docker image is too large"),
        ("pgbouncer", "Postgres connections run out"),
        ("JWT", "Login tokens expire too early"),
        ("conections run out", "Postgres connections run out"),
    ] {
        let found = bank.titles(query).await;
        assert_eq!(found.first().map(String::as_str), Some(title), "{query}: {found:?}");
    }
    assert_eq!(bank.titles("zebra giraffe").await, Vec::<String>::new());
    assert_eq!(bank.titles("the of and").await, Vec::<String>::new());
}

#[tokio::test]
async fn a_search_gives_the_same_answer_every_time_and_after_a_restart() {
    let bank = full().await;
    let before = bank.find("slow tests and database", |_| {}).await;
    assert!(!before.is_empty());
    assert_eq!(bank.find("slow tests and database", |_| {}).await, before);
    let Bank { dir, memories } = bank;
    memories.store.close();
    drop(memories);
    let again = open(dir).await;
    assert_eq!(again.find("slow tests and database", |_| {}).await, before);
}

#[tokio::test]
async fn scopes_and_outcomes_filter() {
    let bank = full().await;
    bank.keep("/q", &("Postgres vacuum", "Tables grow", "Run vacuum", "success")).await;
    assert_eq!(bank.titles("postgres").await, ["Postgres connections run out"]);
    let both = bank.find("postgres", |search| search.scope = Scope::Team).await;
    assert_eq!(both.len(), 2);
    let failures = bank.find("postgres", |search| {
        search.scope = Scope::Org;
        search.outcome = Some(MemoryOutcome::Failure);
    });
    assert_eq!(failures.await.len(), 1);
    let strangers = bank.find("postgres", |search| {
        search.scope = Scope::Org;
        search.place.tenant = "other".into();
    });
    assert!(strangers.await.is_empty());
}

#[tokio::test]
async fn feedback_moves_confidence_and_outdated_ones_go() {
    let bank = bank().await;
    let id = bank.keep("/p", &LESSONS[0]).await;
    let here = place("/p");
    let judge = async |helpful, comment: &str| {
        bank.memories.judge(&here, &id, helpful, comment, "sess_a", NOW).await.unwrap()
    };
    assert!((judge(true, "").await - 0.9).abs() < 1e-9);
    assert!((judge(true, "").await - 1.0).abs() < 1e-9);
    assert!((judge(true, "").await - 1.0).abs() < 1e-9);
    assert!((judge(false, "").await - 0.85).abs() < 1e-9);
    assert_eq!(bank.titles("postgres").await.len(), 1);
    judge(true, "Outdated").await;
    assert!(bank.titles("postgres").await.is_empty());
    assert_eq!(bank.memories.get(&here, &id, NOW).await.unwrap().title, LESSONS[0].0);
    let error = bank.memories.judge(&here, "mem_x", true, "", "", NOW).await.unwrap_err();
    assert_eq!(error.code, domain::ErrorCode::ItemNotFound);
}

#[tokio::test]
async fn confidence_fades_and_is_confirmed() {
    let bank = bank().await;
    let id = bank.keep("/p", &LESSONS[0]).await;
    let later = Timestamp(NOW.0 + 3 * MONTH);
    assert_eq!(bank.find("postgres", |search| search.now = later).await, []);
    let found = bank.find("postgres", |search| (search.now, search.min_confidence) = (later, 0.5)).await;
    assert!((found[0].confidence - 0.65).abs() < 1e-6, "{}", found[0].confidence);
    bank.memories.judge(&place("/p"), &id, true, "", "", later).await.unwrap();
    assert_eq!(bank.find("postgres", |search| search.now = later).await.len(), 1);
}

#[tokio::test]
async fn vectors_of_another_maker_are_made_again() {
    let bank = full().await;
    let Bank { dir, memories } = bank;
    memories
        .store
        .write(Durability::Synced, |connection| {
            connection.execute("UPDATE bench_memories SET model = 'other', vector = x'0102'", [])
        })
        .await
        .unwrap();
    memories.store.close();
    drop(memories);
    let again = open(dir).await;
    assert_eq!(again.titles("database pool exhausted").await[0], LESSONS[0].0);
}

/// A deterministic pseudo-random sequence.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }
}

const VOCABULARY: &[&str] = &[
    "pool",
    "cache",
    "login",
    "token",
    "parser",
    "retry",
    "index",
    "docker",
    "socket",
    "thread",
    "leak",
    "café",
    "Straße",
    "http2",
    "maxRetryCount",
];

#[tokio::test]
async fn words_weigh_exactly_as_in_the_full_text_index() {
    let bank = bank().await;
    let mut dice = Dice(7);
    let text = |dice: &mut Dice, most: usize| -> String {
        let count = dice.roll(most) + 1;
        // The first words of the list are common, the last ones rare.
        let word = |dice: &mut Dice| VOCABULARY[dice.roll(VOCABULARY.len()).min(dice.roll(VOCABULARY.len()))];
        (0..count).map(|_| word(dice)).collect::<Vec<_>>().join(" ")
    };
    let compare = async |terms: &[&str]| {
        let terms: Vec<String> = terms.iter().map(|term| (*term).to_owned()).collect();
        let index = bank.memories.index().await.unwrap();
        let (ours, theirs) = bank
            .memories
            .store
            .read_now(|connection| {
                let index = index.read().unwrap();
                let ours = index.postings().best(&index, connection, &terms)?;
                Ok((ours, search::by_full_text(connection, &terms)?))
            })
            .unwrap();
        assert!(!theirs.is_empty());
        assert_eq!(ours, theirs, "{terms:?}");
    };
    for number in 0..260 {
        let (title, description, content) = (text(&mut dice, 4), text(&mut dice, 8), text(&mut dice, 30));
        bank.keep("/p", &(&title, &description, &content, "success")).await;
        if number % 50 == 9 {
            // Between two new memories: cached posting lists must not become stale.
            compare(&["pool", "docker"]).await;
        }
    }
    for terms in
        [&["pool"][..], &["leak", "pool", "cach"], &["thread", "socket"], &["http", "2", "retry", "count"]]
    {
        compare(terms).await;
    }
}

#[test]
fn two_threads_find_what_one_would() {
    let mut index = Index::default();
    let mut dice = Dice(11);
    let count = crate::limits::SCAN_ALONE_MAX + 999;
    let numbers = |dice: &mut Dice| -> Vec<f32> { (0..8).map(|_| dice.roll(201) as f32 - 100.0).collect() };
    let mut all = Vec::new();
    for key in 0..i64::try_from(count).unwrap() {
        let vector = Vector::rounded(&numbers(&mut dice));
        index.add(key, &place("/p"), MemoryOutcome::Success, 0.8, NOW, Some(&vector));
        all.push((key, vector));
    }
    let wanted = Vector::rounded(&numbers(&mut dice));
    let here = place("/p");
    let filter =
        index::Filter { place: &here, scope: Scope::Project, outcome: None, min_confidence: 0.0, now: NOW };
    let mut expected: Vec<(i64, f32)> = all
        .iter()
        .map(|(key, vector)| (*key, crate::vectors::similarity(wanted.numbers(), vector.numbers())))
        .filter(|(_, similarity)| *similarity >= 0.3)
        .collect();
    expected.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
    assert!(expected.len() > 1000, "{}", expected.len());
    expected.truncate(crate::limits::CANDIDATES_MAX);
    assert_eq!(index.nearest(&wanted, &index.allowed(filter), 0.3), expected);
}
