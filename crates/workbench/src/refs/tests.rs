//! Stored output: its owner, lifetime, size limits and location.

use std::os::unix::fs::PermissionsExt;

use super::*;

fn session(name: &str) -> SessionId {
    SessionId::new(name)
}

fn store(limits: RefLimits) -> (tempfile::TempDir, Arc<Refs>) {
    let dir = tempfile::tempdir().unwrap();
    let refs = Refs::open(dir.path().join("refs"), limits).unwrap();
    (dir, refs)
}

fn put(refs: &Arc<Refs>, whose: &str, content: &[u8]) -> String {
    let mut writer = refs.writer(&session(whose)).unwrap();
    for piece in content.chunks(1000) {
        writer.write(piece).unwrap();
    }
    writer.finish(ContentKind::Text).unwrap().unwrap()
}

fn files(refs: &Refs) -> usize {
    std::fs::read_dir(&refs.folder).unwrap().count()
}

#[tokio::test]
async fn content_comes_back_to_its_own_session_only() {
    let (_dir, refs) = store(RefLimits::default());
    let id = put(&refs, "a", b"some output");
    assert!(id.starts_with("ref_") && id.len() == 36, "{id}");
    let content = refs.read(Some(&session("a")), &id, 0, 100).unwrap();
    assert_eq!(content, Content { bytes: b"some output".to_vec(), kind: ContentKind::Text, total_bytes: 11 });
    assert_eq!(refs.read(Some(&session("a")), &id, 5, 3).unwrap().bytes, b"out");
    assert_eq!(refs.read(Some(&session("a")), &id, 50, 3).unwrap().bytes, b"");
    assert_eq!(refs.read(Some(&session("b")), &id, 0, 100).unwrap_err().code, ErrorCode::ItemNotFound);
    assert!(refs.read(Some(&session("a")), "ref_0", 0, 100).is_err());
    let empty = refs.writer(&session("a")).unwrap();
    assert_eq!(empty.finish(ContentKind::Text).unwrap(), None);
}

#[tokio::test]
async fn large_content_is_on_disk_for_us_alone_and_gone_with_its_session() {
    let (_dir, refs) = store(RefLimits::default());
    let content: Vec<u8> = (0..300_000u32).flat_map(u32::to_le_bytes).collect();
    let id = put(&refs, "a", &content);
    let path = refs.folder.join(&id);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(&refs.folder).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(refs.read(Some(&session("a")), &id, 0, usize::MAX).unwrap().bytes, content);
    assert_eq!(refs.read(Some(&session("a")), &id, 4_000, 8).unwrap().bytes, content[4_000..4_008]);
    let other = put(&refs, "b", b"stays");
    refs.end_session(&session("a"));
    assert!(!path.exists() && refs.read(Some(&session("a")), &id, 0, 1).is_err());
    assert!(refs.read(Some(&session("b")), &other, 0, 1).is_ok());
}

#[tokio::test(start_paused = true)]
async fn content_expires() {
    let (_dir, refs) = store(RefLimits { ttl: Duration::from_secs(60), ..RefLimits::default() });
    let id = put(&refs, "a", &vec![b'x'; 100_000]);
    tokio::time::advance(Duration::from_secs(59)).await;
    assert!(refs.read(Some(&session("a")), &id, 0, 1).is_ok());
    tokio::time::advance(Duration::from_secs(2)).await;
    assert!(refs.read(Some(&session("a")), &id, 0, 1).is_err());
    assert_eq!((refs.sweep(), files(&refs), refs.stored_bytes()), (1, 0, 0));
}

#[tokio::test]
async fn the_oldest_go_when_there_is_too_much() {
    let (_dir, refs) =
        store(RefLimits { session_bytes: 250_000, total_bytes: 400_000, ..RefLimits::default() });
    let content = vec![b'x'; 100_000];
    let ids: Vec<String> = (0..3).map(|_| put(&refs, "a", &content)).collect();
    assert!(refs.read(Some(&session("a")), &ids[0], 0, 1).is_err(), "more than a session may have");
    assert!(refs.read(Some(&session("a")), &ids[1], 0, 1).is_ok());
    let more: Vec<String> = (0..2).map(|_| put(&refs, "b", &content)).collect();
    assert_eq!(refs.stored_bytes(), 400_000);
    put(&refs, "c", &content);
    assert!(refs.read(Some(&session("a")), &ids[1], 0, 1).is_err(), "more than all may have");
    assert!(refs.read(Some(&session("b")), &more[0], 0, 1).is_ok());
    assert_eq!(files(&refs), 4);
}

#[tokio::test]
async fn of_too_much_the_beginning_and_the_end_are_kept() {
    let (_dir, refs) = store(RefLimits { content_bytes: 200_000, ..RefLimits::default() });
    let content: String = (0..100_000).map(|number| format!("{number}\n")).collect();
    let id = put(&refs, "a", content.as_bytes());
    let kept = refs.read(Some(&session("a")), &id, 0, usize::MAX).unwrap();
    let text = String::from_utf8(kept.bytes).unwrap();
    assert!(text.starts_with("0\n1\n2\n") && text.ends_with("99998\n99999\n"));
    assert!(text.contains("bytes left out"), "{}", text.len());
    assert!(kept.total_bytes <= 200_100, "{}", kept.total_bytes);
}

#[tokio::test]
async fn memory_stays_bounded_whatever_comes() {
    let (_dir, refs) = store(RefLimits { content_bytes: 1 << 20, ..RefLimits::default() });
    let mut writer = refs.writer(&session("a")).unwrap();
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..64 {
        writer.write(&piece).unwrap();
        assert!(writer.memory() <= 4 * limits::REF_TAIL, "{}", writer.memory());
    }
    drop(writer);
    assert_eq!(files(&refs), 0, "what is not finished is forgotten");
}

#[test]
fn what_a_former_daemon_left_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("ref_old"), "secret").unwrap();
    std::fs::write(dir.path().join("unrelated"), "x").unwrap();
    Refs::open(dir.path().to_owned(), RefLimits::default()).unwrap();
    assert!(!dir.path().join("ref_old").exists() && dir.path().join("unrelated").exists());
}
