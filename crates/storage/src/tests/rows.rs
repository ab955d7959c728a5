//! Sessions are read from the store as they were written.

use std::time::Duration;

use domain::permission::{Coverage, Decision, Grant, Mode};
use domain::request::{PendingRequest, PermissionSubject, RequestOutcome, RequestSubject, SettledRequest};
use domain::turn::{InterruptReason, OpenTurn};
use domain::{
    CallId, ErrorCode, Event, EventKind, LaunchPolicy, ProviderKind, RequestId, SessionId, SessionSpec,
    State, Status, Timestamp, TurnId, Usage,
};
use serde_json::json;

use super::{find, insert, spec, store, write};
use crate::limits::SEQ_BITS;
use crate::sessions::{self, SessionFilter, SessionWrite, SpoolMark, StateColumns, StoredEvent};
use crate::{Durability, Store};

fn rich_spec() -> SessionSpec {
    SessionSpec {
        provider: ProviderKind::ClaudeCode,
        model: "模型".to_owned(),
        name: "a \"name\"\n\0 with everything 🦀".to_owned(),
        festival_id: "f".to_owned(),
        task_id: "t".to_owned(),
        parent: Some(SessionId::new("sess_parent")),
        working_dir: "/srv/jörg/it's here".into(),
        provider_config: [("k".to_owned(), "v".to_owned())].into(),
        environment: [("SECRET".to_owned(), "s3cr3t".to_owned())].into(),
        max_tokens: u64::MAX,
        timeout: Some(Duration::new(u64::from(u32::MAX), 999_999_999)),
        mode: Mode::Plan,
        launch: LaunchPolicy::OnPrompt,
        scrub: None,
        workers: 0,
        created_at: Timestamp(i64::MAX),
        ..spec("sess_rich")
    }
}

fn rich_state() -> State {
    let ask = RequestSubject::Permission(PermissionSubject {
        call: Some(CallId::new("call_1")),
        tool: "Bash".to_owned(),
        input: json!({ "command": "ls", "depth": [1, 2.5, null, { "x": true }] }),
        title: "List".to_owned(),
        parent: None,
    });
    let pending = PendingRequest {
        id: RequestId(2),
        native: "n2".to_owned(),
        asked_at: Timestamp(5),
        ask: ask.clone(),
        proposals: Vec::new(),
        advice: domain::permission::PermissionAdvice::default(),
        turn: None,
    };
    let settled = SettledRequest {
        request: PendingRequest {
            id: RequestId(1),
            native: "n1".to_owned(),
            asked_at: Timestamp(4),
            ask,
            proposals: Vec::new(),
            advice: domain::permission::PermissionAdvice::default(),
            turn: None,
        },
        outcome: RequestOutcome::Decided { decision: Decision::AllowSession },
        by: "me".to_owned(),
        at: Timestamp(6),
        message: "go on".to_owned(),
    };
    State {
        status: Status::Working,
        name: "n".to_owned(),
        pid: u32::MAX,
        restart_count: 3,
        error: "bad".to_owned(),
        error_code: Some(ErrorCode::ProviderCrashed),
        native_session: "native".to_owned(),
        usage: Usage { input_tokens: u64::MAX, output_tokens: 1, ..Usage::default() },
        started_at: Some(Timestamp(2)),
        last_activity_at: Some(Timestamp(3)),
        turn: Some(OpenTurn {
            id: TurnId(9),
            pending_prompt: None,
            interrupted: Some(InterruptReason::Cancelled),
            compacting: false,
            calls: [(CallId::new("call_1"), "Bash".to_owned())].into(),
            started_at: Some(Timestamp(4)),
        }),
        turns: 9,
        requests: [(RequestId(2), pending)].into(),
        requests_opened: 2,
        settled: [settled].into(),
        grants: vec![Grant::new("Bash", Coverage::Command("ls".to_owned()))],
        input_holder: Some("editor".to_owned()),
        stderr_tail: ["one".to_owned(), String::new()].into(),
        ..State::default()
    }
}

#[tokio::test]
async fn spec_state_and_marks_round_trip() {
    let (home, store) = store();
    let (spec, state) = (rich_spec(), rich_state());
    let key = insert(&store, spec.clone(), State::new(&spec)).await;
    let fresh = find(&store, "sess_rich");
    assert_eq!((fresh.spec, fresh.state), (spec.clone(), State::new(&spec)));
    assert_eq!((fresh.last_seq, fresh.run, fresh.next_write_id, fresh.codec.as_str()), (0, 0, 1, ""));
    assert_eq!(fresh.spool, SpoolMark::default());

    let spool = SpoolMark { segment: u32::MAX, offset: (1 << 62) + 1, carry: vec![0, 255, b'\n'] };
    let step = SessionWrite {
        key,
        last_seq: 7,
        last_activity_at: state.last_activity_at,
        state: Some(Box::new(StateColumns::of(&spec, &state, 4, 11))),
        spool: Some(spool.clone()),
        codec: Some("{\"half\":\"a line".to_owned()),
        ..SessionWrite::default()
    };
    write(&store, step).await;
    // A step without these fields leaves them unchanged.
    write(&store, SessionWrite { key, last_seq: 8, ..SessionWrite::default() }).await;
    drop(store);
    let store = Store::open(&home.path().join("obey.db")).unwrap();
    let row = find(&store, "sess_rich");
    assert_eq!((row.spec, row.state, row.spool), (spec, state, spool));
    assert_eq!((row.key, row.last_seq, row.run, row.next_write_id), (key, 8, 4, 11));
    assert_eq!(row.codec, "{\"half\":\"a line");
    assert!(
        store
            .read_now(|connection| sessions::find(connection, &SessionId::new("sess_other")))
            .unwrap()
            .is_none()
    );
}

#[tokio::test]
async fn the_outbox_keeps_its_order_and_forgets_what_arrived() {
    let (_home, store) = store();
    let one = insert(&store, spec("sess_1"), State::default()).await;
    let two = insert(&store, spec("sess_2"), State::default()).await;
    let input = |id: u64| (id, format!("line {id}\n").into_bytes());
    let outbox = |key| store.read_now(move |connection| sessions::outbox(connection, key)).unwrap();
    // More than one digit, so that an ordering by text would show.
    for ids in [1..=9, 10..=99, 100..=300] {
        write(&store, SessionWrite { key: one, outbox: ids.map(input).collect(), ..SessionWrite::default() })
            .await;
    }
    write(&store, SessionWrite { key: two, outbox: vec![input(1)], ..SessionWrite::default() }).await;
    assert_eq!(outbox(one), (1..=300).map(input).collect::<Vec<_>>());
    let step =
        SessionWrite { key: one, applied: Some(298), outbox: vec![input(301)], ..SessionWrite::default() };
    write(&store, step).await;
    assert_eq!(outbox(one), [input(299), input(300), input(301)]);
    assert_eq!(outbox(two), [input(1)], "another session's");
}

fn text(nth: u64) -> EventKind {
    EventKind::TextDelta { text: format!("text {nth}"), parent: None }
}

fn events(seqs: impl IntoIterator<Item = u64>) -> Vec<StoredEvent> {
    let event = |seq| StoredEvent { seq, at: Timestamp(seq as i64), body: sessions::json(&text(seq)) };
    seqs.into_iter().map(event).collect()
}

fn read(store: &Store, key: i64, after: u64, most: usize) -> Vec<Event> {
    let session = SessionId::new("sess_x");
    let read =
        |connection: &rusqlite::Connection| sessions::events_after(connection, key, &session, after, most);
    store.read_now(read).unwrap().iter().map(|event| (**event).clone()).collect()
}

#[tokio::test]
async fn a_step_is_written_whole_or_not_at_all() {
    let (_home, store) = store();
    let key = insert(&store, spec("sess_1"), State::default()).await;
    write(&store, SessionWrite { key, events: events(1..=3), last_seq: 3, ..SessionWrite::default() }).await;
    let step = SessionWrite {
        key,
        // Sequence number 3 is taken.
        events: events([4, 5, 3]),
        last_seq: 5,
        spool: Some(SpoolMark { segment: 1, offset: 1, carry: Vec::new() }),
        outbox: vec![(1, b"x".to_vec())],
        ..SessionWrite::default()
    };
    let result = store.write(Durability::Synced, move |connection| sessions::write(connection, &step)).await;
    assert_eq!(result.unwrap_err().code, ErrorCode::StorageFailed);
    let row = find(&store, "sess_1");
    assert_eq!((row.last_seq, row.spool), (3, SpoolMark::default()));
    assert_eq!(read(&store, key, 0, 10).len(), 3);
}

#[tokio::test]
async fn journals_of_neighbours_do_not_mix() {
    let (_home, store) = store();
    let last = (1 << SEQ_BITS) - 1;
    // The first and the last possible key, and some between.
    let keys = [0, 1, 2, (1 << 15), (1 << 31) - 2, (1 << 31) - 1];
    for key in keys {
        let step = SessionWrite { key, events: events([1, 2, last - 1, last]), ..SessionWrite::default() };
        write(&store, step).await;
    }
    for key in keys {
        let seqs =
            |after, most| read(&store, key, after, most).iter().map(|event| event.seq).collect::<Vec<_>>();
        assert_eq!(seqs(0, 10), [1, 2, last - 1, last], "{key}");
        assert_eq!(seqs(1, 2), [2, last - 1], "{key}");
        assert_eq!(seqs(last - 1, 10), [last], "{key}");
        assert_eq!(seqs(last, 10), [] as [u64; 0], "{key}");
        assert_eq!(seqs(u64::MAX, 10), [] as [u64; 0], "{key}");
        let first = &read(&store, key, 0, 1)[0];
        assert_eq!((first.at, &first.kind), (Timestamp(1), &text(1)));
    }
}

#[tokio::test]
async fn what_does_not_fit_into_a_row_number_is_refused() {
    let (_home, store) = store();
    let steps = [(1 << 31, 1), (i64::MAX, 1), (-1, 1), (1, 1 << SEQ_BITS), (1, u64::MAX)];
    for (key, seq) in steps {
        let step = SessionWrite { key, events: events([seq]), ..SessionWrite::default() };
        let result =
            store.write(Durability::Synced, move |connection| sessions::write(connection, &step)).await;
        assert_eq!(result.unwrap_err().code, ErrorCode::StorageFailed, "{key} {seq}");
    }
    let count = store
        .read_now(|connection| {
            connection.query_row("SELECT count(*) FROM journal", [], |row| row.get::<_, i64>(0))
        })
        .unwrap();
    assert_eq!(count, 0);
}

#[tokio::test]
async fn a_kind_of_a_newer_version_is_shown_as_it_is_stored() {
    let (_home, store) = store();
    let key = insert(&store, spec("sess_1"), State::default()).await;
    let raw = r#"{"type":"teleported","to":"mars"}"#;
    let mut stored = events(1..=3);
    raw.clone_into(&mut stored[1].body);
    write(&store, SessionWrite { key, events: stored, ..SessionWrite::default() }).await;
    let kinds: Vec<EventKind> = read(&store, key, 0, 10).into_iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [text(1), EventKind::Unparsed { raw: raw.to_owned(), length: None }, text(3)]);
}

#[tokio::test]
async fn large_events_are_read_in_small_batches() {
    let (_home, store) = store();
    let key = insert(&store, spec("sess_1"), State::default()).await;
    let big = EventKind::TextDelta { text: "x".repeat(700_000), parent: None };
    let mut stored = events(1..=5);
    stored.iter_mut().for_each(|event| event.body = sessions::json(&big));
    write(&store, SessionWrite { key, events: stored, ..SessionWrite::default() }).await;
    let mut after = 0;
    while after < 5 {
        let batch = read(&store, key, after, 512);
        assert!(!batch.is_empty() && batch.len() <= 2, "{} at once", batch.len());
        for event in batch {
            after += 1;
            assert_eq!(event.seq, after);
        }
    }
}

#[tokio::test]
async fn lists_are_narrowed_by_every_filter() {
    let (_home, store) = store();
    let sessions = [
        ("sess_1", Some("camp_a"), ProviderKind::Codex, Status::Working),
        ("sess_2", Some("camp_a"), ProviderKind::Scripted, Status::Stopped),
        ("sess_3", Some("camp_b"), ProviderKind::Codex, Status::Failed),
        ("sess_4", None, ProviderKind::Codex, Status::Running),
        ("sess_5", Some("camp_a"), ProviderKind::Codex, Status::Created),
    ];
    for (id, campaign, provider, status) in sessions {
        let spec = SessionSpec { campaign_id: campaign.map(domain::CampaignId::new), provider, ..spec(id) };
        insert(&store, spec, State { status, ..State::default() }).await;
    }
    let ids = |filter: SessionFilter| {
        let rows = store.read_now(|connection| sessions::list(connection, &filter)).unwrap();
        rows.iter().map(|row| row.spec.id.as_str()[5..].to_owned()).collect::<Vec<_>>().join("")
    };
    let statuses = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let all = SessionFilter { include_ended: true, ..SessionFilter::default() };
    assert_eq!(ids(SessionFilter::default()), "145");
    assert_eq!(ids(all.clone()), "12345");
    assert_eq!(
        ids(SessionFilter { campaign_id: Some("camp_a".to_owned()), ..SessionFilter::default() }),
        "15"
    );
    assert_eq!(ids(SessionFilter { campaign_id: Some("camp_a".to_owned()), ..all.clone() }), "125");
    assert_eq!(ids(SessionFilter { campaign_id: Some("camp_".to_owned()), ..all.clone() }), "");
    assert_eq!(ids(SessionFilter { provider: Some("codex".to_owned()), ..all.clone() }), "1345");
    assert_eq!(
        ids(SessionFilter { statuses: statuses(&["STOPPED"]), ..SessionFilter::default() }),
        "2",
        "asked for by name"
    );
    assert_eq!(ids(SessionFilter { statuses: statuses(&["FAILED", "WORKING"]), ..all.clone() }), "13");
    assert_eq!(ids(SessionFilter { statuses: statuses(&["' OR 1 --", "NONE"]), ..all.clone() }), "");
    let narrow = SessionFilter {
        campaign_id: Some("camp_a".to_owned()),
        statuses: statuses(&["WORKING", "CREATED"]),
        provider: Some("codex".to_owned()),
        include_ended: false,
    };
    assert_eq!(ids(narrow), "15");
    let live = store.read_now(sessions::live).unwrap();
    assert_eq!(
        live.iter().map(|row| row.spec.id.as_str()).collect::<Vec<_>>(),
        ["sess_1", "sess_4", "sess_5"]
    );
    let active = |id| store.read_now(|connection| crate::campaigns::active_sessions(connection, id)).unwrap();
    assert_eq!((active("camp_a"), active("camp_b"), active("camp_c")), (2, 0, 0));
}

#[tokio::test]
async fn the_key_of_a_removed_session_is_not_given_again() {
    let (_home, store) = store();
    let one = insert(&store, spec("sess_1"), State::default()).await;
    let remove = move |connection: &rusqlite::Connection| {
        connection.execute("DELETE FROM session_records WHERE key = ?1", [one])
    };
    store.write(Durability::Synced, remove).await.unwrap();
    let two = insert(&store, spec("sess_2"), State::default()).await;
    assert!(two > one);
}

#[tokio::test]
async fn a_row_nobody_can_read_hides_only_itself() {
    let (_home, store) = store();
    for id in ["sess_1", "sess_2", "sess_3"] {
        insert(&store, spec(id), State { status: Status::Running, ..State::default() }).await;
    }
    let spoil = |connection: &rusqlite::Connection| {
        connection.execute("UPDATE session_records SET spec = '{}' WHERE id = 'sess_2'", [])
    };
    store.write(Durability::Synced, spoil).await.unwrap();
    for rows in [
        store.read_now(sessions::live).unwrap(),
        store.read_now(|connection| sessions::list(connection, &SessionFilter::default())).unwrap(),
    ] {
        assert_eq!(rows.iter().map(|row| row.spec.id.as_str()).collect::<Vec<_>>(), ["sess_1", "sess_3"]);
    }
}

#[tokio::test]
async fn a_folder_whose_name_is_no_text_is_refused_when_the_session_is_made() {
    use std::os::unix::ffi::OsStringExt;
    let (_home, store) = store();
    let folder = std::ffi::OsString::from_vec(b"/tmp/\xff".to_vec());
    let spec = SessionSpec { working_dir: folder.into(), ..spec("sess_1") };
    let result = store
        .write(Durability::Synced, move |connection| sessions::insert(connection, &spec, &State::default()))
        .await;
    assert_eq!(result.unwrap_err().code, ErrorCode::StorageFailed);
    assert!(store.read_now(sessions::live).unwrap().is_empty());
}
