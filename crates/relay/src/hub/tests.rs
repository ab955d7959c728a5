//! What one user or one machine may put into the memory that all share.

use super::*;

fn hub() -> (tempfile::TempDir, Arc<Hub>) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("relay.db")).unwrap();
    let (owner, _) = store.add_user("owner", true).unwrap();
    let certificate = crate::authority::MachineCertificate {
        pem: String::new(),
        fingerprint: "01".to_owned(),
        not_after: clock::now().after(limits::LEAF_LIFE),
    };
    store.add_machine("mach_1", "box", &owner.id, &certificate).unwrap();
    let hub = Hub::new(store, Authority::create(folder.path()).unwrap());
    (folder, hub)
}

#[test]
fn what_a_machine_says_of_itself_is_bounded() {
    let (_folder, hub) = hub();
    let machine = hub.machine_of(Some("01")).unwrap();
    let large = pb::RegisterRequest { capabilities: vec!["x".repeat(1_000); 20], ..Default::default() };
    assert!(hub.register(&machine, large).unwrap_err().contains("16 KiB"));
    let usual = pb::RegisterRequest { capabilities: vec![FULL_FRAMES.to_owned()], ..Default::default() };
    assert_eq!(hub.register(&machine, usual), Ok(()));
}

#[test]
fn choices_of_one_user_push_out_no_others() {
    let (_folder, hub) = hub();
    hub.switch("ann", "laptop", "mach_1");
    for number in 0..limits::SWITCHED_PER_USER_MAX * 3 {
        hub.switch("bob", &number.to_string(), "mach_1");
    }
    assert_eq!(hub.switched("ann", "laptop").as_deref(), Some("mach_1"));
    assert!(hub.locked().switched["bob"].len() <= limits::SWITCHED_PER_USER_MAX);
    assert_eq!(hub.switch("ann", "laptop", "mach_2"), "mach_1");
}

#[test]
fn only_so_many_calls_of_one_caller_go_on_at_a_time() {
    let (_folder, hub) = hub();
    let held: Vec<_> = std::iter::from_fn(|| hub.calls_open.take("ann")).collect();
    assert_eq!(held.len(), limits::CALLS_AT_ONCE_MAX);
    assert!(hub.calls_open.take("bob").is_some());
    drop(held);
    assert!(hub.calls_open.take("ann").is_some());
}
