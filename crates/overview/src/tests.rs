//! The index over a store, without agents: rows are put there, and facts are changed as actors do.

use std::sync::Arc;
use std::time::Duration;

use domain::overview::{SessionFacts, SessionState};
use domain::turn::EndReason;
use domain::{Event, EventKind, ProviderKind, SessionId, SessionSpec, State, Status, Timestamp, TurnId};
use storage::sessions::{SessionWrite, StateColumns, StoredEvent, json};
use storage::{Durability, Store, sessions};

use super::{Overview, OverviewFilter, watch};
use host::clock;

const DEADLINE: Duration = Duration::from_secs(30);

struct World {
    _home: tempfile::TempDir,
    store: Store,
    overview: Overview,
}

impl World {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(&home.path().join("obey.db")).unwrap();
        let overview = Overview::new(store.clone());
        Self { _home: home, store, overview }
    }

    /// Stores a session with the events of one finished turn.
    async fn store(&self, id: &str, events: Vec<EventKind>) -> (SessionSpec, State) {
        let spec = SessionSpec::new(SessionId::new(id), ProviderKind::Scripted, "/w".into());
        let mut state = State::new(&spec);
        let events: Vec<Event> = (1..)
            .zip(events)
            .map(|(seq, kind)| Event {
                session: spec.id.clone(),
                seq,
                at: Timestamp(seq as i64 * 1_000),
                kind,
            })
            .collect();
        for event in &events {
            state.evolve(event.at, &event.kind);
        }
        let (row_spec, row_state) = (spec.clone(), state.clone());
        let write = move |connection: &rusqlite::Connection| {
            let key = sessions::insert(connection, &row_spec, &row_state)?;
            let stored =
                |event: &Event| StoredEvent { seq: event.seq, at: event.at, body: json(&event.kind) };
            let write = SessionWrite {
                key,
                events: events.iter().map(stored).collect(),
                last_seq: events.len() as u64,
                last_activity_at: row_state.last_activity_at,
                state: Some(Box::new(StateColumns::of(&row_spec, &row_state, 0, 1))),
                ..SessionWrite::default()
            };
            sessions::write(connection, &write)
        };
        self.store.write(Durability::Synced, write).await.unwrap();
        (spec, state)
    }

    async fn states(&self) -> Vec<(String, SessionState)> {
        let filter = OverviewFilter { include_ended: true, ..OverviewFilter::default() };
        let (_, glances) = self.overview.list(&filter).await.unwrap();
        glances.iter().map(|glance| (glance.facts.id.to_string(), glance.assessment.state)).collect()
    }
}

fn changed(from: Status, to: Status) -> EventKind {
    EventKind::StatusChanged { from, to, message: String::new(), code: None }
}

fn turn(reason: Option<EndReason>) -> Vec<EventKind> {
    let begun = EventKind::TurnStarted {
        turn: TurnId(1),
        origin: domain::turn::TurnOrigin::Client,
        prompt: "hi".to_owned(),
        attachments: Vec::new(),
        by: String::new(),
    };
    let mut events =
        vec![changed(Status::Starting, Status::Running), begun, changed(Status::Running, Status::Working)];
    if let Some(reason) = reason {
        let error = "no".to_owned();
        events.push(EventKind::TurnEnded { turn: TurnId(1), reason, text: String::new(), error });
        events.push(changed(Status::Working, Status::Running));
    }
    events
}

#[tokio::test]
async fn sessions_are_listed_by_state() {
    let world = World::new();
    world.store("sess_done", turn(Some(EndReason::Completed))).await;
    world.store("sess_new", vec![changed(Status::Starting, Status::Running)]).await;
    world.store("sess_failed", turn(Some(EndReason::Failed))).await;
    let states = world.states().await;
    let wanted = [
        ("sess_failed", SessionState::Failed),
        ("sess_done", SessionState::Done),
        ("sess_new", SessionState::Idle),
    ];
    assert_eq!(states, wanted.map(|(id, state)| (id.to_owned(), state)));
}

#[tokio::test]
async fn what_was_looked_at_stays_so_for_the_next_daemon() {
    let world = World::new();
    world.store("sess_a", turn(Some(EndReason::Completed))).await;
    let id = SessionId::new("sess_a");
    // The turn ended with event 4: a look at what came before it does not count.
    world.overview.mark_seen(&id, 3, 5).await.unwrap();
    assert_eq!(world.states().await[0].1, SessionState::Done);
    world.overview.mark_seen(&id, 4, 5).await.unwrap();
    assert_eq!(world.states().await[0].1, SessionState::Idle);
    world.overview.mark_seen(&id, 1, 5).await.unwrap();
    let next = Overview::new(world.store.clone());
    let (_, glances) = next.list(&OverviewFilter::default()).await.unwrap();
    assert_eq!(glances[0].assessment.state, SessionState::Idle, "an earlier look takes nothing back");
    let error = world.overview.mark_seen(&id, 6, 5).await.unwrap_err();
    assert!(error.message.contains("seq"), "{error}");
}

#[tokio::test]
async fn a_watcher_gets_a_snapshot_and_then_changes() {
    let world = World::new();
    let (spec, mut state) = world.store("sess_a", turn(None)).await;
    world.store("sess_b", turn(Some(EndReason::Completed))).await;
    world.overview.begin(SessionFacts::of(&spec, &state), 3, None, Arc::default());
    let mut watch = world.overview.watch(OverviewFilter::default()).await.unwrap();
    let first = tokio::time::timeout(DEADLINE, watch.next()).await.unwrap().unwrap();
    assert!(first.is_snapshot);
    assert_eq!(first.sessions.len(), 2);
    world.overview.stream(&spec.id, "half a line", 4, clock::now());
    let second = tokio::time::timeout(DEADLINE, watch.next()).await.unwrap().unwrap();
    assert!(!second.is_snapshot && second.revision > first.revision);
    assert_eq!(second.sessions.len(), 1);
    assert_eq!(
        (second.sessions[0].facts.last_line.as_str(), second.sessions[0].last_seq),
        ("half a line", 4)
    );
    state.evolve(clock::now(), &changed(Status::Working, Status::Stopped));
    world.overview.change(SessionFacts::of(&spec, &state), 5, Some(clock::now()));
    let third = tokio::time::timeout(DEADLINE, watch.next()).await.unwrap().unwrap();
    assert_eq!((third.sessions.len(), third.removed), (0, vec![spec.id.clone()]), "it has ended");
    world.overview.forget(&SessionId::new("sess_b"));
    let fourth = tokio::time::timeout(DEADLINE, watch.next()).await.unwrap().unwrap();
    assert_eq!(fourth.removed, [SessionId::new("sess_b")]);
}

#[tokio::test]
async fn silence_alone_wakes_a_watcher() {
    let world = World::new();
    let (spec, mut state) = world.store("sess_a", turn(None)).await;
    state.pid = std::process::id();
    let began = clock::now();
    world.overview.begin(SessionFacts::of(&spec, &state), 3, None, Arc::default());
    world.overview.change(SessionFacts::of(&spec, &state), 3, Some(began));
    let mut watch = world.overview.watch(OverviewFilter::default()).await.unwrap();
    let first = tokio::time::timeout(DEADLINE, watch.next()).await.unwrap().unwrap();
    assert_eq!(first.sessions[0].assessment.state, SessionState::Working);
    assert_eq!(first.sessions[0].evidence.is_process_alive, Some(true));
    // As if time had passed: the event is moved back instead of the clock forward.
    let silent_since = Timestamp(began.0 - 1_000_000 * 200);
    world.overview.change(SessionFacts::of(&spec, &state), 3, Some(silent_since));
    watch::look(&world.overview.shared, clock::now());
    let quiet = tokio::time::timeout(DEADLINE, watch.next()).await.unwrap().unwrap();
    let quiet = &quiet.sessions[0];
    assert_eq!(quiet.assessment.state, SessionState::Quiet);
    assert_eq!(quiet.evidence.last_event_at, Some(silent_since));
    assert!(quiet.evidence.cpu_ms_in_silence.is_some(), "what it used since then is known");
    // The second look tells what the process did since the first.
    watch::look(&world.overview.shared, clock::now());
    let before = world.overview.shared.lock().revision();
    watch::look(&world.overview.shared, clock::now());
    assert_eq!(world.overview.shared.lock().revision(), before, "nobody is told the same twice");
}

#[tokio::test]
async fn streamed_output_wakes_a_watcher_of_states_only_at_the_end_of_a_silence() {
    let world = World::new();
    let (spec, mut state) = world.store("sess_a", turn(None)).await;
    state.pid = std::process::id();
    let now = clock::now();
    world.overview.begin(SessionFacts::of(&spec, &state), 3, None, Arc::default());
    world.overview.change(SessionFacts::of(&spec, &state), 3, Some(Timestamp(now.0 - 1_000_000 * 200)));
    let mut watch = world.overview.watch_states(OverviewFilter::default()).await.unwrap();
    let first = tokio::time::timeout(DEADLINE, watch.next()).await.unwrap().unwrap();
    assert_eq!(first.sessions[0].assessment.state, SessionState::Quiet);
    world.overview.stream(&spec.id, "a line", 4, now);
    let second = tokio::time::timeout(DEADLINE, watch.next()).await.unwrap().unwrap();
    assert_eq!(second.sessions[0].assessment.state, SessionState::Working);
    let before = *world.overview.shared.state_revision.borrow();
    world.overview.stream(&spec.id, "another line", 5, now);
    assert_eq!(*world.overview.shared.state_revision.borrow(), before, "nobody is woken");
    assert!(world.overview.shared.lock().revision() > before, "but those who watch everything");
    state.evolve(clock::now(), &changed(Status::Working, Status::Stopped));
    world.overview.change(SessionFacts::of(&spec, &state), 6, Some(clock::now()));
    let third = tokio::time::timeout(DEADLINE, watch.next()).await.unwrap().unwrap();
    assert_eq!(third.removed, [spec.id]);
}

#[tokio::test]
async fn the_end_of_an_idle_agents_process_is_seen_though_its_files_were_read_before() {
    let world = World::new();
    let (spec, mut state) = world.store("sess_a", vec![changed(Status::Starting, Status::Running)]).await;
    let mut agent = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    state.pid = agent.id();
    world.overview.begin(SessionFacts::of(&spec, &state), 1, None, Arc::default());
    let first = world.overview.glance(&spec.id).await.unwrap().evidence;
    assert_eq!(first.is_process_alive, Some(true));
    assert!(world.overview.shared.lock().get(&spec.id).unwrap().is_read, "the next look reads no file");
    let second = world.overview.glance(&spec.id).await.unwrap().evidence;
    assert_eq!((second.is_process_alive, second.cpu_ms), (Some(true), first.cpu_ms));
    agent.kill().unwrap();
    agent.wait().unwrap();
    let third = world.overview.glance(&spec.id).await.unwrap().evidence;
    assert_eq!(third.is_process_alive, Some(false));
}
