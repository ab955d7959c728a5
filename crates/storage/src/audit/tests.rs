//! Whatever is done to the rows, the key or the mark while no daemon runs, the next daemon detects it.

use std::path::{Path, PathBuf};

use super::*;

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    /// A folder in which a daemon wrote five rows and shut down in order.
    async fn new() -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        let store = place.open();
        for number in 0..5u64 {
            assert_eq!(store.audit().append(entry(number)).await.unwrap(), number + 1);
        }
        store.close();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn open(&self) -> Store {
        Store::open(&self.path("daemon.db")).unwrap()
    }

    fn tamper(&self, sql: &str) {
        Connection::open(self.path("daemon.db")).unwrap().execute_batch(sql).unwrap();
    }

    async fn problems(&self) -> Vec<(u64, String)> {
        let store = self.open();
        let problems = store.audit().verify().await.unwrap().problems;
        store.close();
        problems
    }
}

fn entry(number: u64) -> AuditEntry {
    AuditEntry {
        operation: "SafeExec.Bash".into(),
        session: "sess_1".into(),
        secrets: number,
        ..AuditEntry::default()
    }
}

const DROP: &str = "DROP TRIGGER audit_no_change; DROP TRIGGER audit_no_removal;";

/// Recreates the triggers as they were, as a careful attacker would.
fn restored(sql: &str) -> String {
    let again: Vec<String> = chain::TRIGGERS.iter().map(|(_, sql)| format!("{sql};")).collect();
    format!("{DROP}{sql}{}", again.concat())
}

#[tokio::test]
async fn an_untouched_audit_is_intact_and_grows_over_restarts() {
    let place = Place::new().await;
    for _ in 0..2 {
        assert_eq!(place.problems().await, []);
    }
    let store = place.open();
    assert_eq!(store.audit().append(entry(5)).await.unwrap(), 6);
    let verdict = store.audit().verify().await.unwrap();
    assert_eq!((verdict.entries, verdict.head.len(), verdict.problems), (6, 32, vec![]));
    assert_eq!(store.audit().before_last(2, None).await.unwrap(), 4);
    assert_eq!(store.audit().after(4, Some("sess_1".into())).await.unwrap().len(), 2);
    assert!(store.audit().after(0, Some("sess_2".into())).await.unwrap().is_empty());
}

#[tokio::test]
async fn every_change_of_the_rows_is_found_after_a_restart() {
    let edit = "UPDATE audit SET body = replace(body, '\"secrets\":2', '\"secrets\":9') WHERE seq = 3;";
    for (sql, at, expected) in [
        (edit, 3, "hash does not fit"),
        ("DELETE FROM audit WHERE seq = 2;", 3, "entry 2 is missing"),
        ("DELETE FROM audit WHERE seq = 5;", 5, "cut off"),
        ("DELETE FROM audit WHERE seq > 2;", 5, "entries 3 to 5 are missing"),
        ("DELETE FROM audit;", 5, "emptied"),
        ("UPDATE audit SET session = 'sess_other' WHERE seq = 4;", 4, "session"),
        ("UPDATE audit SET mac = NULL WHERE seq = 4;", 4, "no seal"),
        ("UPDATE audit SET mac = x'00' WHERE seq = 4;", 4, "sealed"),
        (
            "INSERT INTO audit SELECT 6, body, session, hash, mac FROM audit WHERE seq = 5;",
            6,
            "hash does not fit",
        ),
    ] {
        for sql in [restored(sql), format!("{DROP}{sql}")] {
            let place = Place::new().await;
            place.tamper(&sql);
            let problems = place.problems().await;
            let found = problems.iter().any(|(seq, what)| *seq == at && what.contains(expected));
            assert!(found, "{sql}: {problems:?}");
        }
    }
}

/// A daemon that is killed has written no mark for its last rows.
#[tokio::test]
async fn rows_that_no_mark_counts_yet_are_missed_when_they_are_cut_off() {
    let place = Place::new().await;
    let old = std::fs::read(place.path(mark::MARK_FILE)).unwrap();
    let store = place.open();
    for number in 5..8 {
        store.audit().append(entry(number)).await.unwrap();
    }
    store.close();
    // As it was when the daemon was killed.
    std::fs::write(place.path(mark::MARK_FILE), &old).unwrap();
    assert_eq!(place.problems().await, [], "their seals prove rows beyond the mark");
    std::fs::write(place.path(mark::MARK_FILE), &old).unwrap();
    place.tamper(&restored("DELETE FROM audit WHERE seq > 6;"));
    let problems = place.problems().await;
    assert!(
        problems.iter().any(|(seq, what)| *seq == 8 && what.contains("entries 7 to 8 are missing")),
        "{problems:?}"
    );
}

#[tokio::test]
async fn the_file_with_the_newest_row_is_missed_when_it_is_gone_or_changed() {
    for (content, expected) in [(None, "was deleted"), (Some("8 00 x 00\n"), "not written with")] {
        let place = Place::new().await;
        let file = place.path(head_file::HEAD_FILE);
        match content {
            None => std::fs::remove_file(file).unwrap(),
            Some(content) => std::fs::write(file, content).unwrap(),
        }
        let problems = place.problems().await;
        assert!(problems.iter().any(|(_, what)| what.contains(expected)), "{problems:?}");
    }
}

/// Without the key the hashes can be recomputed, but not the seals.
#[tokio::test]
async fn a_chain_that_was_written_anew_is_found() {
    for keep_seals in [true, false] {
        let place = Place::new().await;
        let connection = Connection::open(place.path("daemon.db")).unwrap();
        connection.execute_batch(DROP).unwrap();
        let mut before = Vec::new();
        for seq in 1..=5i64 {
            let sql = "SELECT body FROM audit WHERE seq = ?1";
            let body: String = connection.query_row(sql, [seq], |row| row.get(0)).unwrap();
            let body = body.replace("\"secrets\":2", "\"secrets\":0");
            before = chain::hash(&before, &body);
            let mac = if keep_seals { "mac" } else { "NULL" };
            let sql = format!("UPDATE audit SET body = ?1, hash = ?2, mac = {mac} WHERE seq = ?3");
            connection.execute(&sql, rusqlite::params![body, before, seq]).unwrap();
        }
        drop(connection);
        place.tamper(&restored("").replace(DROP, ""));
        let problems = place.problems().await;
        assert!(!problems.is_empty(), "{keep_seals}");
        let expected = if keep_seals { (3, "sealed") } else { (5, "not the entry") };
        assert!(
            problems.iter().any(|(seq, what)| (*seq, true) == (expected.0, what.contains(expected.1))),
            "{problems:?}"
        );
    }
}

#[tokio::test]
async fn dropped_triggers_are_found_and_made_again() {
    let place = Place::new().await;
    place.tamper("DROP TRIGGER audit_no_removal;");
    let problems = place.problems().await;
    assert!(problems.iter().any(|(_, what)| what.contains("audit_no_removal")), "{problems:?}");
    for sql in ["UPDATE audit SET body = ''", "DELETE FROM audit"] {
        assert!(Connection::open(place.path("daemon.db")).unwrap().execute(sql, []).is_err(), "{sql}");
    }
}

#[tokio::test]
async fn a_deleted_or_forged_mark_or_key_is_found() {
    type Spoil = fn(&Path);
    let cases: [(&str, Spoil); 5] = [
        ("audit.mark was deleted", |folder| std::fs::remove_file(folder.join("audit.mark")).unwrap()),
        ("audit.mark was not written", |folder| std::fs::write(folder.join("audit.mark"), "{}").unwrap()),
        ("audit.mark was not written", |folder| {
            let text = std::fs::read_to_string(folder.join("audit.mark")).unwrap();
            std::fs::write(folder.join("audit.mark"), text.replace("\"seq\":5", "\"seq\":4")).unwrap();
        }),
        ("audit.key was deleted", |folder| std::fs::remove_file(folder.join("audit.key")).unwrap()),
        ("audit.key was deleted", |folder| {
            std::fs::remove_file(folder.join("audit.key")).unwrap();
            std::fs::remove_file(folder.join("audit.mark")).unwrap();
        }),
    ];
    for (expected, spoil) in cases {
        let place = Place::new().await;
        spoil(place.folder.path());
        let problems = place.problems().await;
        assert!(problems.iter().any(|(_, what)| what.contains(expected)), "{expected}: {problems:?}");
    }
}

#[tokio::test]
async fn what_was_found_is_not_covered_up_by_later_rows() {
    let place = Place::new().await;
    place.tamper(&restored("DELETE FROM audit WHERE seq > 3;"));
    for number in 0..3 {
        let store = place.open();
        store.audit().append(entry(number)).await.unwrap();
        store.close();
    }
    let problems = place.problems().await;
    assert!(problems.iter().any(|(seq, what)| *seq == 5 && what.contains("cut off")), "{problems:?}");
}

#[tokio::test]
async fn rows_that_a_daemon_wrote_before_it_died_are_no_tampering() {
    let place = Place::new().await;
    let mark = std::fs::read(place.path("audit.mark")).unwrap();
    let store = place.open();
    for number in 5..8 {
        store.audit().append(entry(number)).await.unwrap();
    }
    store.close();
    // As if the daemon had died before it could mark them.
    std::fs::write(place.path("audit.mark"), mark).unwrap();
    let store = place.open();
    let verdict = store.audit().verify().await.unwrap();
    assert_eq!((verdict.entries, verdict.problems), (8, vec![]));
}

#[tokio::test]
async fn the_mark_follows_while_the_daemon_runs() {
    let place = Place::new().await;
    let store = place.open();
    store.audit().append(entry(5)).await.unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while store.audit().verify().await.unwrap().marked < 6 {
        assert!(std::time::Instant::now() < deadline, "no mark");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_cut_is_found_by_the_daemon_that_wrote_the_rows() {
    let place = Place::new().await;
    let store = place.open();
    store.audit().append(entry(5)).await.unwrap();
    place.tamper(&format!("{DROP}DELETE FROM audit WHERE seq = 6;"));
    let problems = store.audit().verify().await.unwrap().problems;
    assert!(problems.iter().any(|(seq, what)| *seq == 6 && what.contains("cut off")), "{problems:?}");
}

/// A store of a version that had no key: the rows were in a table of the workbench.
async fn with_old_rows() -> Place {
    let place = Place { folder: tempfile::tempdir().unwrap() };
    place.open().close();
    for file in ["audit.key", "audit.mark"] {
        std::fs::remove_file(place.path(file)).unwrap();
    }
    place.tamper(
        "DROP TRIGGER audit_no_change; DROP TRIGGER audit_no_removal;
         CREATE TABLE bench_audit (seq INTEGER PRIMARY KEY, body TEXT NOT NULL, session TEXT NOT NULL, hash BLOB NOT NULL) STRICT;",
    );
    let connection = Connection::open(place.path("daemon.db")).unwrap();
    let mut before = Vec::new();
    for number in 1..=3u64 {
        let body = format!(
            r#"{{"at":{number},"session":"","caller":"user","operation":"X","input":"{{}}","outcome":"ok","summary":"","duration_us":1,"tier":"","secrets":0}}"#
        );
        before = chain::hash(&before, &body);
        let sql = "INSERT INTO bench_audit VALUES (?1, ?2, '', ?3)";
        connection.execute(sql, rusqlite::params![number as i64, body, before]).unwrap();
    }
    drop(connection);
    place
}

#[tokio::test]
async fn rows_from_before_there_was_a_key_are_kept_and_sealed() {
    let place = with_old_rows().await;
    assert_eq!(place.problems().await, []);
    let store = place.open();
    let rows = store.audit().after(0, None).await.unwrap();
    assert_eq!(rows.len(), 4);
    assert_eq!((rows[3].entry.operation.as_str(), rows[0].entry.caller.as_str()), ("Audit.Seal", "user"));
    store.close();
    place.tamper(&restored("UPDATE audit SET body = replace(body, 'user', 'evil') WHERE seq = 2;"));
    assert!(!place.problems().await.is_empty());
}

async fn exported(store: &Store, after: u64) -> Vec<String> {
    let mut export = store.audit().export(after).await.unwrap();
    let mut lines = Vec::new();
    while let Some(more) = export.next().await.unwrap() {
        lines.extend(more);
    }
    lines
}

fn check(lines: &[String], key: Option<&str>) -> ExportVerdict {
    verify_export(lines.iter().cloned().map(Ok::<_, std::fmt::Error>), key)
}

#[tokio::test]
async fn an_export_proves_itself_to_whoever_has_the_public_key() {
    let place = Place::new().await;
    let store = place.open();
    let key = keys::hex(&store.audit().verify().await.unwrap().public_key);
    for (after, entries) in [(0, 5), (3, 2), (5, 0), (99, 0)] {
        let verdict = check(&exported(&store, after).await, Some(&key));
        assert_eq!((verdict.broken, verdict.entries, verdict.last_seq), (None, entries, 5), "{after}");
    }
    let lines = exported(&store, 0).await;
    assert!(check(&lines, None).broken.is_none());
    let reason = |lines: &[String], key: Option<&str>| check(lines, key).broken.unwrap().1;
    assert!(reason(&lines, Some(&"00".repeat(32))).contains("another key"));
    let mut changed = lines.clone();
    changed[3] = changed[3].replace("\"secrets\":2", "\"secrets\":0");
    assert!(reason(&changed, None).contains("hash of entry 3"));
    let mut without = lines.clone();
    without.remove(2);
    assert!(reason(&without, None).contains("entry 2 is missing"));
    assert!(reason(&lines[..6], None).contains("cut off"));
    let mut short = lines.clone();
    short.remove(5);
    assert!(reason(&short, None).contains("missing before the proof"));
    let mut forged = lines.clone();
    forged[6] = forged[6].replace("\"last_seq\":5", "\"last_seq\":4");
    assert!(reason(&forged, None).contains("signature"));
    assert!(reason(&["hello".to_owned()], None).contains("no export"));
    assert!(reason(&[], None).contains("cut off"));
}
