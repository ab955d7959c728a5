//! Devices in their file: who is found for what, and for how long.

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use super::*;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 2, 3));

fn token(proof: Proof) -> String {
    match proof {
        Proof::Token(token) => token,
        Proof::Certificate(_) => panic!("a token was asked for"),
    }
}

fn find(devices: &Devices, token: &str) -> Result<Device, NoDevice> {
    devices.identify(Credential::Token(token.as_bytes()), HERE, clock::now()).map(|(device, _)| device)
}

#[test]
fn a_device_is_known_by_its_token_until_it_is_revoked() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("devices.json");
    let devices = Devices::load(path.clone()).unwrap();
    let (added, proof) = devices.add("phone", Role::Operator, None, ProofKind::Token).unwrap();
    let token = token(proof);
    assert_eq!(
        find(&devices, &token).unwrap(),
        Device {
            name: "phone".to_owned(),
            role: Role::Operator,
            kind: DeviceKind::Machine,
            answers: MayAnswer::Yes,
        }
    );
    for wrong in ["", &token[1..], &token[..token.len() - 1], &format!("{token}0")] {
        assert_eq!(find(&devices, wrong), Err(NoDevice::Unknown), "{wrong}");
    }
    let hash = hash(token.as_bytes());
    assert!(
        devices.identify(Credential::Certificate(&hash), HERE, clock::now()).is_err(),
        "the hash of a token is no certificate"
    );
    assert!(devices.add("phone", Role::Viewer, None, ProofKind::Token).is_err(), "a name is one device's");
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains(&token) && !text.contains(&token[12..]), "the token itself is not kept");
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);

    let again = Devices::load(path.clone()).unwrap();
    assert_eq!(again.list(), vec![added.clone()]);
    assert!(find(&again, &token).is_ok());
    assert_eq!(again.revoke(&added.id).unwrap().id, added.id);
    assert_eq!(find(&again, &token), Err(NoDevice::Unknown));
    assert_eq!(again.revoke("phone").unwrap_err().code, ErrorCode::ItemNotFound);
    assert!(Devices::load(path).unwrap().list().is_empty());
}

#[test]
fn a_device_is_known_until_it_expires() {
    let home = tempfile::tempdir().unwrap();
    let devices = Devices::load(home.path().join("devices.json")).unwrap();
    let now = clock::now();
    assert!(devices.add("phone", Role::Viewer, Some(now), ProofKind::Token).is_err());
    let end = now.after(Duration::from_secs(3600));
    let token = token(devices.add("phone", Role::Viewer, Some(end), ProofKind::Token).unwrap().1);
    let at = |now| devices.identify(Credential::Token(token.as_bytes()), HERE, now).map(drop);
    assert_eq!(at(now), Ok(()));
    assert_eq!(at(Timestamp(end.0 - 1)), Ok(()));
    assert_eq!(at(end), Err(NoDevice::Expired));
}

#[test]
fn it_is_kept_when_and_from_where_a_device_was_seen() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("devices.json");
    let devices = Devices::load(path.clone()).unwrap();
    let token = token(devices.add("phone", Role::Viewer, None, ProofKind::Token).unwrap().1);
    assert!(devices.list()[0].seen_at.is_none());
    find(&devices, &token).unwrap();
    devices.save_seen().unwrap();
    let kept = Devices::load(path).unwrap().list();
    assert!(kept[0].seen_at.is_some());
    assert_eq!(kept[0].seen_from, Some(HERE));
}

#[test]
fn a_certificate_counts_by_its_fingerprint() {
    let home = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o700)).tempdir().unwrap();
    let devices = Devices::load(home.path().join("devices.json")).unwrap();
    let (_, proof) = devices.add("laptop", Role::Owner, None, ProofKind::Certificate).unwrap();
    let Proof::Certificate(certificate) = proof else { panic!("a certificate was asked for") };
    let find = |print: &str| devices.identify(Credential::Certificate(print), HERE, clock::now()).is_ok();
    assert!(find(&hash(&certificate.der)) && !find(&hash(b"another")));
    let kept = fs::read_to_string(home.path().join("devices.json")).unwrap();
    assert!(!kept.contains("PRIVATE"));
    devices.revoke("laptop").unwrap();
    // A new one of the same name is another device.
    devices.add("laptop", Role::Owner, None, ProofKind::Certificate).unwrap();
    assert!(!find(&hash(&certificate.der)));
}

#[test]
fn a_file_of_devices_that_others_can_use_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("devices.json");
    Devices::load(path.clone()).unwrap().add("phone", Role::Owner, None, ProofKind::Token).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(Devices::load(path.clone()).err().unwrap().code, ErrorCode::ConfigInvalid);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    for text in ["", "{}", "[{\"name\":\"phone\"}]"] {
        fs::write(&path, text).unwrap();
        assert!(Devices::load(path.clone()).is_err(), "{text:?}");
    }
}

#[test]
fn a_device_has_a_plain_name() {
    let home = tempfile::tempdir().unwrap();
    let devices = Devices::load(home.path().join("devices.json")).unwrap();
    let add = |name: &str| devices.add(name, Role::Viewer, None, ProofKind::Token).map(drop);
    for name in ["", "a b", "a/b", "é", "a\n", "dev_1", &"a".repeat(limits::DEVICE_NAME_MAX_BYTES + 1)] {
        let refused = add(name).unwrap_err();
        assert!(refused.message.contains("name"), "{name:?}: {refused}");
    }
    for at in 0..limits::DEVICES_MAX {
        add(&format!("device-{at}")).unwrap();
    }
    assert_eq!(add("one-more").unwrap_err().code, ErrorCode::LimitReached);
    let size = fs::metadata(home.path().join("devices.json")).unwrap().len();
    assert!(size < limits::DEVICES_FILE_MAX_BYTES / 2, "{size}");
}

#[tokio::test]
async fn whoever_serves_a_device_is_told_when_it_is_revoked() {
    let home = tempfile::tempdir().unwrap();
    let devices = Devices::load(home.path().join("devices.json")).unwrap();
    let (phone, _) = devices.add("phone", Role::Owner, None, ProofKind::Token).unwrap();
    devices.add("other", Role::Owner, None, ProofKind::Token).unwrap();
    let used = watch::Sender::new(BTreeSet::new());
    let told = devices.ended(used.subscribe());
    tokio::pin!(told);
    let is_told = |told: std::pin::Pin<&mut _>| futures_now(told);
    assert!(!is_told(told.as_mut()));
    used.send_modify(|used| assert!(used.insert(phone.id.clone())));
    devices.revoke("other").unwrap();
    assert!(!is_told(told.as_mut()), "another one was revoked");
    devices.revoke("phone").unwrap();
    // A new one of the same name is another device.
    devices.add("phone", Role::Owner, None, ProofKind::Token).unwrap();
    told.await;
}

#[tokio::test(start_paused = true)]
async fn whoever_serves_a_device_is_told_when_it_expires() {
    let home = tempfile::tempdir().unwrap();
    let devices = Devices::load(home.path().join("devices.json")).unwrap();
    let end = clock::now().after(Duration::from_millis(50));
    let (phone, _) = devices.add("phone", Role::Owner, Some(end), ProofKind::Token).unwrap();
    let used = watch::Sender::new(BTreeSet::from([phone.id]));
    devices.ended(used.subscribe()).await;
    assert!(clock::now() >= end);
}

/// Whether a future is ready already.
fn futures_now<F: Future<Output = ()>>(future: std::pin::Pin<&mut F>) -> bool {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    future.poll(&mut context).is_ready()
}

#[test]
fn a_paired_device_renews_and_its_former_certificate_counts_until_the_new_one_is_used() {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;
    let home = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o700)).tempdir().unwrap();
    let path = home.path().join("devices.json");
    let devices = Devices::load(path.clone()).unwrap();
    let csr = || {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap();
        params.serialize_request(&key).unwrap().pem().unwrap()
    };
    let print = |pem: &str| hash(&CertificateDer::from_pem_slice(pem.as_bytes()).unwrap());
    let is_known = |devices: &Devices, print: &str| {
        devices.identify(Credential::Certificate(print), HERE, clock::now()).is_ok()
    };
    let (paired, first) = devices.pair("laptop", Role::Viewer, &csr(), KeyPlace::Elsewhere).unwrap();
    let end = paired.certificate_ends_at.unwrap();
    assert!(end > clock::now() && paired.expires_at.is_none(), "the device stays when its certificate ends");
    let first = print(&first);
    assert!(is_known(&devices, &first));
    assert_eq!(devices.renew("unknown", &csr()).unwrap_err().code, ErrorCode::NotAllowed);
    assert!(devices.renew(&first, "no request").is_err());

    // The answer may be lost: the one before counts, also after a restart, and is renewed again.
    devices.renew(&first, &csr()).unwrap();
    let devices = Devices::load(path.clone()).unwrap();
    assert!(is_known(&devices, &first));
    let (renewed, second) = devices.renew(&first, &csr()).unwrap();
    assert_eq!((&renewed.id, renewed.role), (&paired.id, paired.role));
    let second = print(&second);
    assert!(is_known(&devices, &second) && !is_known(&devices, &first), "the new one is in use");
    assert!(devices.renew(&first, &csr()).is_err());
    assert!(is_known(&devices, &second));
    devices.revoke("laptop").unwrap();
    assert!(devices.renew(&second, &csr()).is_err() && !is_known(&devices, &second));
}

#[test]
fn a_page_on_this_machine_ends_a_day_after_its_last_use_and_leaves_the_list() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("devices.json");
    let devices = Devices::load(path.clone()).unwrap();
    let day = Duration::from_secs(24 * 3600);
    let (here, key) = devices.add_page("chrome", Role::Owner, KeyPlace::HereAllowed).unwrap();
    let (_, phone) = devices.add_page("phone", Role::Owner, KeyPlace::Elsewhere).unwrap();
    let at =
        |key: &str, now| devices.identify(Credential::Token(key.as_bytes()), HERE, now).map(|found| found.0);
    let start = here.added_at;
    let hour = Duration::from_secs(3600);
    assert_eq!(at(&key, start.after(day - hour)).unwrap().answers, MayAnswer::Yes);
    assert!(at(&key, start.after(2 * day - 2 * hour)).is_ok(), "it was used yesterday");
    assert_eq!(at(&key, start.after(3 * day)), Err(NoDevice::Expired));
    assert!(at(&phone, start.after(29 * day)).is_ok(), "a phone is not signed out by a holiday");
    assert_eq!(at(&phone, start.after(31 * day)), Err(NoDevice::Expired));

    // However often it is used, it ends after 30 days.
    let (_, busy) = devices.add_page("busy", Role::Owner, KeyPlace::HereAllowed).unwrap();
    for half_days in 1..60 {
        assert!(at(&busy, start.after(half_days * day / 2)).is_ok(), "after {half_days} half days");
    }
    assert_eq!(at(&busy, start.after(30 * day + hour)), Err(NoDevice::Expired));

    // What has expired is not listed, and makes room for its name.
    let mut kept = file::read(&path).unwrap();
    for one in kept.iter_mut().filter(|one| one.name == "chrome") {
        one.expires_at = Some(Timestamp(clock::now().0 - 1));
    }
    file::write(&path, &kept).unwrap();
    let devices = Devices::load(path).unwrap();
    let names = |devices: &Devices| devices.list().into_iter().map(|one| one.name).collect::<Vec<_>>();
    assert_eq!(names(&devices), ["busy", "phone"]);
    devices.add_page("chrome", Role::Owner, KeyPlace::HereAllowed).unwrap();
    assert_eq!(names(&devices), ["busy", "chrome", "phone"]);
}

#[tokio::test]
async fn a_page_that_is_open_is_in_use() {
    let home = tempfile::tempdir().unwrap();
    let devices = Devices::load(home.path().join("devices.json")).unwrap();
    let (page, _) = devices.add_page("chrome", Role::Owner, KeyPlace::HereAllowed).unwrap();
    let soon = clock::now().after(Duration::from_secs(3600));
    devices.locked().all[0].expires_at = Some(soon);
    // The wait is looked at once and then given up; what is open is never waited for to the end.
    let _open = tokio::time::timeout(Duration::ZERO, devices.ended_one(&page.id)).await;
    assert!(devices.list()[0].expires_at > Some(soon), "the end is put off");
}
