//! What is kept, how much of it, and who holds a resource.

use std::time::Duration;

use serde_json::json;

use super::*;

fn open() -> (tempfile::TempDir, Records) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("db")).unwrap();
    (folder, crate::environments::Environments::new(store).records())
}

fn fields(value: Value) -> Fields {
    value.as_object().unwrap().clone()
}

#[tokio::test]
async fn records_are_kept_changed_listed_and_removed() {
    let (_folder, records) = open();
    let kind = RecordKind::Stream;
    let (made, is_new) = records.create(kind, None, fields(json!({"name": "imu"}))).await.unwrap();
    assert!(is_new && made.text("name") == "imu");
    assert_eq!(records.find(kind, &made.id).await.unwrap(), made);
    assert_eq!(
        records.find(RecordKind::Command, &made.id).await.unwrap_err().code,
        ErrorCode::RecordNotFound
    );
    let change = |record: &mut Record| {
        record.fields.insert("rate_hz".to_owned(), json!(50.0));
        Ok(())
    };
    let changed = records.change(kind, &made.id, change).await.unwrap();
    assert_eq!((changed.fields["rate_hz"].clone(), changed.created_at), (json!(50.0), made.created_at));
    let refused = records.change(kind, &made.id, |_| Err(Error::invalid("x", "y"))).await;
    assert_eq!(refused.unwrap_err().message, "x: y");
    assert_eq!(records.list(kind, 0, 0).await.unwrap(), [changed]);
    let large = fields(json!({"text": "x".repeat(limits::RECORD_MAX_BYTES)}));
    assert!(records.create(kind, None, large).await.unwrap_err().message.contains("is longer than"));
    records.remove(kind, &made.id).await.unwrap();
    assert_eq!(records.remove(kind, &made.id).await.unwrap_err().code, ErrorCode::RecordNotFound);
}

#[tokio::test]
async fn a_key_makes_one_record() {
    let (_folder, records) = open();
    let create = |text: &str| {
        let fields = fields(json!({ "command": text }));
        records.create(RecordKind::Command, Some("k".to_owned()), fields)
    };
    let (first, is_new) = create("home").await.unwrap();
    let (second, is_new_too) = create("arm").await.unwrap();
    assert!(is_new && !is_new_too && first == second);
    assert_eq!(records.with_key(RecordKind::Command, "k").await.unwrap(), Some(first));
    assert_eq!(records.with_key(RecordKind::Lease, "k").await.unwrap(), None);
}

#[tokio::test]
async fn a_resource_has_one_holder_at_a_time() {
    let (_folder, records) = open();
    let lease = |holder: &str, resource: &str, ttl: u64| NewLease {
        host_id: "host".to_owned(),
        resource: resource.to_owned(),
        holder_id: holder.to_owned(),
        ttl: Duration::from_secs(ttl),
    };
    let first = records.acquire(lease("a", "arm", 300)).await.unwrap();
    assert!(
        is_active(&first, first.created_at)
            && !is_active(&first, first.created_at.after(Duration::from_secs(301)))
    );
    let refused = records.acquire(lease("b", "arm", 300)).await.unwrap_err();
    assert!(refused.code == ErrorCode::WrongState && refused.message.contains("held by \"a\""), "{refused}");
    records.acquire(lease("b", "camera", 300)).await.unwrap();
    let renewed = records.acquire(lease("a", "arm", 900)).await.unwrap();
    assert_eq!(renewed.id, first.id);
    let released = records.release(&first.id).await.unwrap();
    assert!(!is_active(&released, released.updated_at));
    assert_eq!(records.release(&first.id).await.unwrap(), released);
    let second = records.acquire(lease("b", "arm", 0)).await.unwrap();
    assert_ne!(second.id, first.id);
    // Its time was over at once.
    let third = records.acquire(lease("c", "arm", 300)).await.unwrap();
    assert_ne!(third.id, second.id);
    assert_eq!(records.all(RecordKind::Lease).await.unwrap().len(), 4);
}

#[tokio::test]
async fn a_login_is_completed_by_its_short_code_and_told_once() {
    let (_folder, records) = open();
    let login = records.begin_login().await.unwrap();
    assert_eq!((login.device_code.len(), login.user_code.len()), (43, 9));
    assert_eq!(records.poll_login("guessed").await.unwrap(), LoginState::Unknown);
    assert_eq!(records.poll_login(&login.device_code).await.unwrap(), LoginState::Pending);
    assert!(records.complete_login("AAAA-AAA0").await.is_err());
    records.complete_login(&login.user_code.to_lowercase()).await.unwrap();
    assert!(records.complete_login(&login.user_code).await.is_err());
    assert_eq!(records.poll_login(&login.device_code).await.unwrap(), LoginState::Completed);
    assert_eq!(records.poll_login(&login.device_code).await.unwrap(), LoginState::Unknown);
    for _ in 0..limits::DEVICE_CODES_MAX {
        records.begin_login().await.unwrap();
    }
    assert_eq!(records.begin_login().await.unwrap_err().code, ErrorCode::LimitReached);
}
