//! An authority that is exchanged for another one: who is recognized by whom, in each phase.

use std::sync::Arc;

use rustls::ServerConfig;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tunnel::keys::KeyRequest;
use tunnel::pinned::{self, NextPin, TlsIdentity};

use super::*;

/// Shakes hands with a relay as somebody who knows a fingerprint. Returns the next one that it told, or why it failed.
async fn greet(
    authority: &Authority,
    pin: &str,
    identity: Option<&TlsIdentity>,
) -> Result<Option<String>, String> {
    let config: ServerConfig = crate::server::config(authority, &["localhost".to_owned()]).unwrap();
    let (near, far) = tokio::io::duplex(64 * 1024);
    let accepting = tokio::spawn(async move {
        // The verdict on the client's certificate is the server's.
        TlsAcceptor::from(Arc::new(config)).accept(far).await.map(drop).map_err(|error| error.to_string())
    });
    let next = NextPin::default();
    let config = pinned::client_config_following(pin, identity, &[b"h2"], &next).unwrap();
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    let connected = TlsConnector::from(Arc::new(config)).connect(name, near).await;
    let _kept = connected.map_err(|error| error.to_string())?;
    accepting.await.unwrap()?;
    Ok(next.get().map(str::to_owned))
}

fn machine(authority: &Authority) -> TlsIdentity {
    let request = KeyRequest::new("mach_1").unwrap();
    let signed = authority.sign("mach_1", &request.csr_pem, limits::LEAF_LIFE).unwrap();
    TlsIdentity { certificate_pem: signed.pem, key_pem: request.key_pem }
}

#[tokio::test]
async fn an_authority_is_exchanged_and_whoever_knows_either_is_led_to_the_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let first = Authority::create(folder.path()).unwrap();
    let (old, of_old) = (first.pin(), machine(&first));
    assert_eq!(greet(&first, &old, Some(&of_old)).await, Ok(None));

    let both = first.exchange().unwrap();
    let (new, of_new) = (both.pin(), machine(&both));
    assert_eq!((both.former_pin(), both.former_until().is_some()), (Some(old.clone()), true));
    assert!(both.exchange().is_err(), "one at a time");
    for identity in [None, Some(&of_old), Some(&of_new)] {
        assert_eq!(
            greet(&both, &old, identity).await,
            Ok(Some(new.clone())),
            "the former one tells of the next"
        );
        assert_eq!(greet(&both, &new, identity).await, Ok(None), "the next one counts already");
    }

    let after = both.complete().unwrap();
    assert_eq!((after.pin(), after.former_pin(), after.former_until()), (new.clone(), None, None));
    assert!(after.complete().is_err());
    assert_eq!(greet(&after, &new, Some(&of_new)).await, Ok(None));
    assert_eq!(greet(&after, &old, None).await, Ok(Some(new.clone())), "late comers are led to it");
    assert!(
        greet(&after, &new, Some(&of_old)).await.is_err(),
        "certificates of the former one are worth nothing"
    );
    let kept = fs::read_to_string(folder.path().join("authority.json")).unwrap();
    assert_eq!(
        kept.matches("PRIVATE KEY").count(),
        2,
        "one key, with its first and last line: the former one is destroyed"
    );

    // Another relay of the cluster follows; one of another cluster does not.
    let other = tempfile::tempdir().unwrap();
    let follower = Authority::import(other.path(), &first.export().unwrap()).unwrap();
    assert_eq!(follower.follow(&both.export().unwrap()).unwrap().pin(), new);
    let stranger = tempfile::tempdir().unwrap();
    let stranger = Authority::create(stranger.path()).unwrap();
    assert_eq!(stranger.follow(&both.export().unwrap()).err().unwrap().code, ErrorCode::RelayRefused);
}

#[tokio::test]
async fn nobody_announces_an_authority_but_the_one_before() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [honest, other] = folders.each_ref().map(|folder| Authority::create(folder.path()).unwrap());
    // Somebody in between shows the right root beside a chain and an announcement of their own.
    let forged = other.exchange().unwrap();
    let mut state = forged.state.clone();
    let former = state.former.as_mut().unwrap();
    former.certificate_pem.clone_from(&honest.state.certificate_pem);
    let forged = Authority::of(state, folders[1].path().join(CERTIFICATE_FILE)).unwrap();
    let refused = greet(&forged, &honest.pin(), None).await;
    assert!(refused.is_err(), "{refused:?}");
}

#[test]
fn a_relay_from_before_there_was_one_file_keeps_its_authority() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let first = Authority::create(folder.path()).unwrap();
    fs::remove_file(folder.path().join("authority.json")).unwrap();
    let key = folder.path().join("ca.key");
    write_private(&key, first.state.key_pem.as_bytes()).unwrap();
    let loaded = Authority::load(folder.path()).unwrap();
    assert_eq!(loaded.pin(), first.pin());
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(Authority::load(folder.path()).err().unwrap().code, ErrorCode::ConfigInvalid);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(loaded.exchange().unwrap().former_pin(), Some(first.pin()));
    assert!(!key.exists(), "one file from now on");
}
