//! Reports of campaigns: the same report twice within a moment counts as one.

use domain::Timestamp;

use super::store;
use crate::Durability;
use crate::campaigns::{self, CampaignReport, ReportOutcome};
use crate::limits::DEDUP_WINDOW;

async fn report(store: &crate::Store, entity: &'static str, at: i64, payload: &str) -> ReportOutcome {
    let report = CampaignReport {
        campaign_id: "camp_1".to_owned(),
        event_type: "created".to_owned(),
        payload: payload.to_owned(),
        at: Timestamp(at),
        ..CampaignReport::default()
    };
    super::soon(
        store.write(Durability::Synced, move |connection| campaigns::report(connection, entity, &report)),
    )
    .await
    .unwrap()
}

#[tokio::test]
async fn the_same_report_within_the_window_is_one() {
    let (_home, store) = store();
    let window = DEDUP_WINDOW.as_micros() as i64;
    let start = 1_000_000_000;
    let first = report(&store, "one", start, "p").await;
    assert!(!first.repeated);
    for later in [0, 1, window / 2, window] {
        let again = report(&store, "one", start + later, "p").await;
        assert_eq!(again, ReportOutcome { event_id: first.event_id, repeated: true }, "{later}");
    }
    // The clock may be set back.
    assert!(report(&store, "one", start - window, "p").await.repeated);
    let second = report(&store, "one", start + window + 1, "p").await;
    assert!(!second.repeated && second.event_id > first.event_id);
    assert!(report(&store, "one", start + window + 2, "p").await.repeated, "the window moves along");
}

#[tokio::test]
async fn other_things_and_other_words_are_not_the_same() {
    let (_home, store) = store();
    assert!(!report(&store, "one", 0, "p").await.repeated);
    assert!(!report(&store, "two", 0, "p").await.repeated);
    assert!(!report(&store, "one", 0, "q").await.repeated);
    // The first report again: something happened in between, so it counts as new.
    assert!(!report(&store, "one", 0, "p").await.repeated);
    let count = |connection: &rusqlite::Connection| {
        connection.query_row("SELECT count(*) FROM events", [], |row| row.get::<_, i64>(0))
    };
    assert_eq!(store.read_now(count).unwrap(), 4);
}
