//! The relay's file: accounts, one-time codes, generations, and calls that wait.

use super::*;
use crate::authority::Authority;

fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("relay.db")).unwrap();
    (folder, store)
}

fn certificate(number: u8) -> MachineCertificate {
    let not_after = clock::now().after(limits::LEAF_LIFE);
    MachineCertificate { pem: String::new(), fingerprint: format!("{number:02x}"), not_after }
}

#[test]
fn a_code_works_once_and_only_the_right_one() {
    let (_folder, store) = store();
    let (user, token) = store.add_user("ann", true).unwrap();
    assert!(
        matches!(store.directory().by_token(&token), Some(Principal::User(found)) if found.name == "ann")
    );
    assert!(store.directory().by_token("obey-relay-x").is_none());
    store.add_code("secret", &user.id).unwrap();
    assert_eq!(store.take_code("wrong").unwrap(), None);
    assert_eq!(store.take_code("secret").unwrap(), Some(user.id));
    assert_eq!(store.take_code("secret").unwrap(), None);
}

#[test]
fn a_machine_is_seen_by_its_user_and_the_owner_only() {
    let (_folder, store) = store();
    let principal =
        |name: &str, is_owner| Principal::User(Arc::new(store.add_user(name, is_owner).unwrap().0));
    let (owner, ann, bob) = (principal("owner", true), principal("ann", false), principal("bob", false));
    let Principal::User(user) = &ann else { panic!() };
    store.add_machine("mach_1", "box", &user.id, &certificate(1)).unwrap();
    let directory = store.directory();
    let sees = |who: &Principal, named: &str| directory.machine(who, named).is_some();
    assert!(sees(&owner, "box") && sees(&ann, "box") && sees(&ann, "mach_1"));
    assert!(!sees(&bob, "box") && !sees(&bob, "mach_1") && !sees(&ann, "other"));
    let token = store.add_reach("mach_1", "phone").unwrap();
    let device = store.directory().by_token(&token).unwrap();
    assert!(store.directory().machine(&device, "mach_1").is_some());
    assert_eq!(
        store.add_machine("mach_2", "box", &user.id, &certificate(2)).unwrap_err().code,
        ErrorCode::RelayRefused
    );
}

#[test]
fn a_replaced_certificate_that_comes_back_locks_the_machine() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("relay.db")).unwrap();
    let (user, _) = store.add_user("ann", true).unwrap();
    store.add_machine("mach_1", "box", &user.id, &certificate(1)).unwrap();
    let hub = crate::hub::Hub::new(store, Authority::create(folder.path()).unwrap());
    let machine = hub.machine_of(Some("01")).unwrap();
    hub.store.add_certificate(&machine, &certificate(2)).unwrap();
    assert!(hub.machine_of(Some("01")).is_ok(), "the old one is good until the new one is used");
    assert!(hub.machine_of(Some("02")).is_ok());
    assert!(hub.machine_of(Some("01")).is_err(), "a copy of the old one");
    assert!(hub.machine_of(Some("02")).is_err(), "and now nobody has the identity");
    assert!(hub.machine_of(Some("03")).is_err() && hub.machine_of(None).is_err());
}

#[test]
fn what_another_process_writes_is_noticed() {
    let (folder, store) = store();
    let (user, _) = store.add_user("ann", true).unwrap();
    store.add_machine("mach_1", "box", &user.id, &certificate(1)).unwrap();
    assert!(!store.refresh().unwrap());
    let other = Store::open(&folder.path().join("relay.db")).unwrap();
    other.remove_machine("mach_1").unwrap();
    assert!(store.refresh().unwrap());
    assert!(store.directory().machines.is_empty());
    assert!(store.directory().by_certificate("01").is_none(), "its certificate goes with it");
}

#[test]
fn calls_wait_in_order_of_priority_and_then_of_time_and_only_so_many() {
    let (_folder, store) = store();
    let (user, _) = store.add_user("ann", true).unwrap();
    store.add_machine("mach_1", "box", &user.id, &certificate(1)).unwrap();
    let numbers = std::cell::Cell::new(0);
    let call = |path: &str| WaitingCall {
        id: 0,
        delivery_id: format!("d{}", numbers.replace(numbers.get() + 1)),
        path: path.to_owned(),
        head: Vec::new(),
        body: b"b".to_vec(),
        user: "ann".to_owned(),
    };
    for (priority, path) in [(4, "c"), (0, "a"), (4, "d"), (2, "b")] {
        assert!(store.keep_call("mach_1", priority, &call(path)).unwrap() == Kept::New);
    }
    let mut order = Vec::new();
    while let Some(next) = store.next_call("mach_1").unwrap().0 {
        store.drop_call(next.id).unwrap();
        order.push(next.path);
    }
    assert_eq!(order, ["a", "b", "c", "d"]);
    for _ in 0..limits::BUFFERED_MAX {
        assert_eq!(store.keep_call("mach_1", 4, &call("x")).unwrap(), Kept::New);
    }
    assert_eq!(store.keep_call("mach_1", 0, &call("x")).unwrap(), Kept::Full);
    let again = WaitingCall { delivery_id: "d4".to_owned(), ..call("x") };
    assert_eq!(store.keep_call("mach_1", 0, &again).unwrap(), Kept::Before, "the same call is kept once");
    assert_eq!(store.waiting("mach_1").unwrap(), limits::BUFFERED_MAX);
}

#[test]
fn what_two_relays_know_is_merged_in_any_order_and_what_one_removes_is_gone() {
    let ((_a, first), (_b, second)) = (store(), store());
    let (owner, token) = first.add_user("owner", true).unwrap();
    second.add_owner(&owner.id, "owner", &token).unwrap();
    first.add_machine("mach_1", "box", &owner.id, &certificate(1)).unwrap();
    let reach = second_reach(&first, &second);
    let exchange = || {
        for (from, to) in [(&first, &second), (&second, &first)] {
            for (key, value) in from.shared().unwrap() {
                to.take_shared(&key, &value).unwrap();
            }
        }
    };
    exchange();
    first.use_generation("mach_1", 3).unwrap();
    second.lock_machine("mach_1").unwrap();
    exchange();
    assert_eq!(first.shared().unwrap(), second.shared().unwrap());
    for store in [&first, &second] {
        let directory = store.directory();
        let machine = directory.machines.get("mach_1").unwrap();
        assert!(machine.is_locked && machine.generation == 3);
        assert!(directory.by_certificate("01").is_some());
        assert!(directory.by_token(&reach).is_some() && directory.by_token(&token).is_some());
    }
    for (key, value) in first.shared().unwrap() {
        assert!(!second.take_shared(&key, &value).unwrap(), "nothing new: {key}");
    }
    assert!(second.remove_shared("machine.mach_1").unwrap());
    let (key, value) =
        first.shared().unwrap().into_iter().find(|(key, _)| key.starts_with("machine.")).unwrap();
    assert!(!second.take_shared(&key, &value).unwrap(), "what was removed never comes back");
    assert!(second.removed().unwrap().contains(&key));
    assert!(!second.remove_shared(&format!("user.{}", owner.id)).unwrap(), "the owner stays");
    assert!(second.directory().machines.is_empty() && second.directory().by_token(&reach).is_none());
}

/// A device that got its token at the second relay, which knows the machine from the first.
fn second_reach(first: &Store, second: &Store) -> String {
    for (key, value) in first.shared().unwrap() {
        second.take_shared(&key, &value).unwrap();
    }
    second.add_reach("mach_1", "laptop").unwrap()
}

#[test]
fn the_file_is_its_users_alone_even_if_it_was_open_to_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("relay.db");
    std::fs::write(&path, "").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let _store = Store::open(&path).unwrap();
    for entry in std::fs::read_dir(folder.path()).unwrap().flatten() {
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{:?}", entry.path());
    }
}

#[test]
fn calls_that_wait_for_one_machine_take_only_so_much_room() {
    let (_folder, store) = store();
    let (user, _) = store.add_user("ann", true).unwrap();
    for number in [1, 2] {
        let (id, name) = (format!("mach_{number}"), format!("box-{number}"));
        store.add_machine(&id, &name, &user.id, &certificate(number)).unwrap();
    }
    let mut number = 0;
    let mut keep = |machine: &str| {
        number += 1;
        let body = vec![0; limits::BUFFERED_BODY_MAX_BYTES];
        let call = WaitingCall {
            id: 0,
            delivery_id: format!("d{number}"),
            path: "x".to_owned(),
            head: Vec::new(),
            body,
            user: "ann".to_owned(),
        };
        store.keep_call(machine, 4, &call).unwrap()
    };
    let most = limits::BUFFERED_BYTES_MAX / limits::BUFFERED_BODY_MAX_BYTES;
    for _ in 0..most {
        assert_eq!(keep("mach_1"), Kept::New);
    }
    assert_eq!(keep("mach_1"), Kept::TooMuch);
    assert_eq!(keep("mach_2"), Kept::New, "another machine has room of its own");
}

#[test]
fn one_machine_never_has_all_tokens_for_devices_nor_endless_certificates() {
    let (_folder, store) = store();
    let (user, _) = store.add_user("ann", true).unwrap();
    store.add_machine("mach_1", "box", &user.id, &certificate(1)).unwrap();
    store.add_machine("mach_2", "other", &user.id, &certificate(2)).unwrap();
    {
        let db = store.locked();
        for number in 0..limits::REACHES_PER_MACHINE_MAX {
            db.execute(
                "INSERT INTO reaches (token_hash, machine_id, label, created_at) VALUES (?1, 'mach_1', '', 0)",
                [number.to_string()],
            )
            .unwrap();
        }
    }
    store.reload().unwrap();
    assert_eq!(store.add_reach("mach_1", "phone").unwrap_err().code, ErrorCode::LimitReached);
    assert!(store.add_reach("mach_2", "phone").is_ok());
    assert_eq!(store.add_reach("mach_2", &"x".repeat(65)).unwrap_err().code, ErrorCode::InvalidArgument);

    let machine = Arc::clone(&store.directory().machines["mach_2"]);
    for number in 10..100 {
        store.add_certificate(&machine, &certificate(number)).unwrap();
    }
    let directory = store.directory();
    let known = (10..100_u8).filter(|number| directory.by_certificate(&format!("{number:02x}")).is_some());
    assert_eq!(known.count(), limits::UNUSED_CERTIFICATES_MAX);
    assert!(directory.by_certificate("02").is_some(), "the one in use is known");
    assert!(directory.by_certificate(&format!("{:02x}", 99)).is_some(), "and the last one");
}
