//! The index over a store without agents: events are put there as actors do, and are found.

use std::time::Duration;

use domain::turn::{EndReason, TurnOrigin};
use domain::{CallId, EventKind, SessionId, State, Timestamp, TurnId, Usage};
use serde_json::json;
use storage::history::{PassageKind, UsageQuery};
use storage::sessions::{SessionWrite, StoredEvent};
use storage::{Durability, Store, sessions};

use super::{History, SearchRequest, SearchResult};

/// Returns the spec of a session with this id.
fn spec(id: &str) -> domain::SessionSpec {
    domain::SessionSpec {
        campaign_id: Some(domain::CampaignId::new("camp_1")),
        model: "m".to_owned(),
        name: "n".to_owned(),
        created_at: Timestamp(1),
        ..domain::SessionSpec::new(SessionId::new(id), domain::ProviderKind::Scripted, "/w".into())
    }
}

struct World {
    home: tempfile::TempDir,
    store: Store,
    history: History,
}

impl World {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(&home.path().join("obey.db")).unwrap();
        let history = History::start(&store).unwrap();
        Self { home, store, history }
    }

    async fn session(&self, id: &str) -> i64 {
        let spec = spec(id);
        let insert = move |connection: &_| sessions::insert(connection, &spec, &State::new(&spec));
        self.store.write(Durability::Soon, insert).await.unwrap()
    }

    /// Appends events, one a second, and says so.
    async fn append(&self, key: i64, first: u64, events: Vec<EventKind>) {
        let last_seq = first + events.len() as u64 - 1;
        let stored = (first..).zip(&events).map(|(seq, kind)| StoredEvent {
            seq,
            at: Timestamp(1_000_000 * seq as i64),
            body: sessions::json(kind),
        });
        let write = SessionWrite { key, events: stored.collect(), last_seq, ..SessionWrite::default() };
        self.store
            .write(Durability::Soon, move |connection| sessions::write(connection, &write))
            .await
            .unwrap();
        self.history.note(key);
    }

    async fn search(&self, text: &str) -> SearchResult {
        let request = SearchRequest { text: text.to_owned(), ..SearchRequest::default() };
        self.history.search(request).await.unwrap()
    }

    /// Returns session, number and kind of every hit.
    async fn hits(&self, text: &str) -> Vec<(String, u64, PassageKind)> {
        let found = self.search(text).await;
        assert!(found.is_complete);
        found.hits.into_iter().map(|(session, hit)| (session.id, hit.seq, hit.kind)).collect()
    }
}

fn prompt(text: &str) -> EventKind {
    EventKind::TurnStarted {
        turn: TurnId(1),
        origin: TurnOrigin::Client,
        prompt: text.to_owned(),
        attachments: Vec::new(),
        by: String::new(),
    }
}

fn text(text: &str) -> EventKind {
    EventKind::TextDelta { text: text.to_owned(), parent: None }
}

fn ended(text: &str) -> EventKind {
    EventKind::TurnEnded {
        turn: TurnId(1),
        reason: EndReason::Completed,
        text: text.to_owned(),
        error: String::new(),
    }
}

fn call(command: &str) -> EventKind {
    EventKind::ToolStarted {
        call: CallId::new("c1"),
        tool: "Bash".to_owned(),
        input: json!({"command": command}),
        title: String::new(),
        parent: None,
    }
}

fn output(text: &str) -> EventKind {
    EventKind::ToolFinished {
        call: CallId::new("c1"),
        tool: "Bash".to_owned(),
        ok: true,
        output: text.to_owned(),
    }
}

#[tokio::test]
async fn prompts_answers_commands_and_outputs_are_found_at_their_event() {
    let world = World::new();
    let key = world.session("sess_a").await;
    let events = vec![
        prompt("Fix the failing cart test"),
        text("The total was com"),
        text("puted before the discount"),
        call("cargo test -p cart"),
        output("test result: FAILED"),
        text("Done."),
        ended("Done."),
    ];
    world.append(key, 1, events).await;
    let id = "sess_a".to_owned();
    assert_eq!(world.hits("failing").await, [(id.clone(), 1, PassageKind::Prompt)]);
    assert_eq!(world.hits("computed").await, [(id.clone(), 2, PassageKind::Answer)], "pieces are one text");
    assert_eq!(world.hits("\"-p cart\"").await, [(id.clone(), 4, PassageKind::Command)]);
    assert_eq!(world.hits("result").await, [(id.clone(), 5, PassageKind::Output)]);
    assert_eq!(
        world.hits("done").await,
        [(id.clone(), 6, PassageKind::Answer)],
        "what is repeated is found once"
    );
    let newest_first: Vec<u64> = world.hits("cart").await.into_iter().map(|(_, seq, _)| seq).collect();
    assert_eq!(newest_first, [4, 1]);
    assert_eq!(world.hits("disc*").await.len(), 1);
    assert!(world.hits("absent").await.is_empty());
    let snippet = &world.search("computed").await.hits[0].1.snippet;
    assert_eq!(snippet, "The total was \u{1}computed\u{2} before the discount");
}

#[tokio::test]
async fn every_word_of_a_long_answer_is_found() {
    let world = World::new();
    let key = world.session("sess_a").await;
    // Pieces of every length: in the middle of words, and long ones.
    let words: Vec<String> = (0..9_000).map(|at| format!("w{at}")).collect();
    let whole = words.join(" ");
    let (mut events, mut rest) = (vec![prompt("count")], whole.as_str());
    for length in [1, 7, 40, 3_000, 13, 40_000].into_iter().cycle() {
        // What comes at once ends with a word.
        let length = if length < 40_000 { length } else { rest.find(" w8000").unwrap_or(length) };
        let (piece, more) = rest.split_at(length.min(rest.len()));
        events.push(text(piece));
        rest = more;
        if rest.is_empty() {
            break;
        }
    }
    events.push(ended(""));
    world.append(key, 1, events).await;
    for word in words.iter().step_by(97).chain(words.last()) {
        assert_eq!(world.hits(word).await.len(), 1, "{word}");
    }
    // Every word, by the number of those that are missing in all passages.
    let connection = storage::history::open_reader(&storage::history::path_of(world.store.path())).unwrap();
    let mut statement = connection.prepare("SELECT body FROM passage_texts ORDER BY rowid").unwrap();
    let bodies: Vec<String> =
        statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
    let found: Vec<&str> = bodies.iter().flat_map(|body| body.split_whitespace()).skip(1).collect();
    assert_eq!(found.len(), words.len());
    assert!(found.iter().zip(&words).all(|(found, word)| found == word));
}

/// An agent that sends `goes` and then `21` has written `goes21`.
#[tokio::test]
async fn pieces_are_joined_as_they_came_and_a_word_is_found_whole_or_by_its_beginning() {
    let world = World::new();
    let key = world.session("sess_a").await;
    world.append(key, 1, vec![prompt("x"), text("it goes"), text("00000021 on"), ended("")]).await;
    assert_eq!(world.hits("00000021").await, [], "it is no word of the text");
    assert_eq!(world.hits("goes00000021").await.len(), 1);
    assert_eq!(world.hits("goes*").await.len(), 1);
}

#[tokio::test]
async fn what_cannot_be_searched_for_is_refused_by_field() {
    let world = World::new();
    for (request, field) in [
        (SearchRequest { text: "  \"\" * ".to_owned(), ..SearchRequest::default() }, "text"),
        (SearchRequest { text: "x".repeat(5_000), ..SearchRequest::default() }, "text"),
        (SearchRequest { text: "x".to_owned(), limit: 501, ..SearchRequest::default() }, "limit"),
        (
            SearchRequest {
                text: "x".to_owned(),
                session_id: Some("sess_no".to_owned()),
                ..SearchRequest::default()
            },
            "session_id",
        ),
    ] {
        let error = world.history.search(request).await.unwrap_err();
        assert!(error.message.contains(field), "{error}");
    }
}

#[tokio::test]
async fn the_next_daemon_goes_on_where_the_index_ends_and_finds_nothing_twice() {
    let world = World::new();
    let key = world.session("sess_a").await;
    world.append(key, 1, vec![prompt("one"), text("half a sen")]).await;
    assert_eq!(world.hits("one").await.len(), 1);
    let World { home, store, history } = world;
    drop(history);
    // Events that nobody told the index about, as when a daemon is killed.
    let quiet = World { history: History::start(&store).unwrap(), home, store };
    let events = vec![text("tence about kiwis"), ended("")];
    let last_seq = 4;
    let stored = (3..).zip(&events).map(|(seq, kind)| StoredEvent {
        seq,
        at: Timestamp(1_000_000 * seq as i64),
        body: sessions::json(kind),
    });
    let write = SessionWrite { key, events: stored.collect(), last_seq, ..SessionWrite::default() };
    quiet.store.write(Durability::Soon, move |connection| sessions::write(connection, &write)).await.unwrap();
    assert_eq!(quiet.hits("sentence kiwis").await, [("sess_a".to_owned(), 2, PassageKind::Answer)]);
    assert_eq!(quiet.hits("one").await.len(), 1);
}

#[tokio::test]
async fn a_damaged_index_is_made_anew() {
    let world = World::new();
    let key = world.session("sess_a").await;
    world.append(key, 1, vec![prompt("papaya"), ended("")]).await;
    assert_eq!(world.hits("papaya").await.len(), 1);
    let World { home, store, history } = world;
    drop(history);
    std::fs::write(home.path().join("history.db"), "no database").unwrap();
    for suffix in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(home.path().join(format!("history.db{suffix}")));
    }
    let anew = World { history: History::start(&store).unwrap(), home, store };
    assert_eq!(anew.hits("papaya").await.len(), 1);
}

#[tokio::test]
async fn what_was_removed_from_the_journal_is_not_found() {
    let world = World::new();
    let (kept, emptied, removed) =
        (world.session("sess_a").await, world.session("sess_b").await, world.session("sess_c").await);
    for key in [kept, emptied, removed] {
        world.append(key, 1, vec![prompt("mango"), ended("")]).await;
    }
    assert_eq!(world.hits("mango").await.len(), 3);
    let remove = move |connection: &rusqlite::Connection| {
        connection.execute("DELETE FROM journal WHERE id BETWEEN ?1 << 32 AND (?1 + 1) << 32", [emptied])?;
        sessions::remove(connection, &SessionId::new("sess_c"))
    };
    assert!(world.store.write(Durability::Soon, remove).await.unwrap());
    world.history.forget_removed().await.unwrap();
    assert_eq!(world.hits("mango").await, [("sess_a".to_owned(), 1, PassageKind::Prompt)]);
}

#[tokio::test]
async fn usage_is_summed_up_by_time_and_a_missing_cost_is_not_0() {
    let world = World::new();
    let key = world.session("sess_a").await;
    let used = |input_tokens, cost_micro_usd| EventKind::UsageReported {
        usage: Usage { input_tokens, output_tokens: 1, cost_micro_usd, ..Usage::default() },
        context_tokens: None,
        context_window: None,
        parent: None,
    };
    let model = EventKind::ModelChanged { model: "opus".to_owned() };
    world.append(key, 1, vec![used(10, 0), model, used(20, 500)]).await;
    let all = world.history.usage(UsageQuery::default(), None).await.unwrap();
    assert!(all.is_complete);
    let shown: Vec<_> = all
        .sums
        .iter()
        .map(|(_, sum)| (sum.model.as_str(), sum.input_tokens, sum.cost_micro_usd, sum.reports_without_cost))
        .collect();
    assert_eq!(shown, [("", 10, None, 1), ("opus", 20, Some(500), 0)]);
    let step = UsageQuery { step_us: Some(2_000_000), ..UsageQuery::default() };
    let buckets = world.history.usage(step, Some("sess_a")).await.unwrap();
    let at: Vec<i64> = buckets.sums.iter().map(|(_, sum)| sum.at.0).collect();
    assert_eq!(at, [0, 2_000_000], "events of the seconds 1 and 3");
    let late = UsageQuery { from: Some(Timestamp(2_000_000)), ..UsageQuery::default() };
    assert_eq!(world.history.usage(late, None).await.unwrap().sums.len(), 1);
}

#[tokio::test]
async fn events_are_indexed_without_being_asked_for() {
    let world = World::new();
    let key = world.session("sess_a").await;
    world.append(key, 1, vec![prompt("lychee"), ended("")]).await;
    let path = storage::history::path_of(world.store.path());
    let indexed = || {
        let connection = storage::history::open_reader(&path).ok()?;
        connection.query_row("SELECT count(*) FROM passages", [], |row| row.get::<_, i64>(0)).ok()
    };
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    while indexed() != Some(1) {
        assert!(tokio::time::Instant::now() < deadline, "the index was not written");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
