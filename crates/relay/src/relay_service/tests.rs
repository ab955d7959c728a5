//! Enrolment and renewals, as a machine asks for them.

use tunnel::keys::KeyRequest;

use super::*;
use crate::authority::Authority;
use crate::store::Store;

fn relay() -> (tempfile::TempDir, RelayHandler) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("relay.db")).unwrap();
    let (owner, _) = store.add_user("owner", true).unwrap();
    store.add_code("secret", &owner.id).unwrap();
    let hub = Hub::new(store, Authority::create(folder.path()).unwrap());
    (folder, RelayHandler::new(hub))
}

fn enrol(
    relay: &RelayHandler,
    secret: &str,
    name: &str,
) -> Result<(KeyRequest, pb::EnrolMachineResponse), Error> {
    let key = KeyRequest::new(name).unwrap();
    let request = pb::EnrolMachineRequest {
        secret: secret.to_owned(),
        name: name.to_owned(),
        csr_pem: key.csr_pem.clone(),
    };
    relay.enrol(&request).map(|enrolled| (key, enrolled))
}

#[test]
fn a_machine_joins_with_a_code_that_works_once() {
    let (_folder, relay) = relay();
    assert_eq!(enrol(&relay, "wrong", "box").err().unwrap().code, ErrorCode::RelayRefused);
    assert_eq!(enrol(&relay, "secret", "a box").err().unwrap().code, ErrorCode::InvalidArgument);
    let (_, enrolled) = enrol(&relay, "secret", "box").unwrap();
    assert!(enrolled.machine_id.starts_with("mach_") && enrolled.expires_at.is_some());
    assert_eq!(enrol(&relay, "secret", "other").err().unwrap().code, ErrorCode::RelayRefused);
}

#[tokio::test]
async fn an_expired_certificate_is_renewed_by_proof_of_its_key_and_a_fresh_nonce() {
    let (_folder, relay) = relay();
    let (key, enrolled) = enrol(&relay, "secret", "box").unwrap();
    let begun = async || {
        relay.begin_renewal(Request::new(pb::BeginRenewalRequest {})).await.unwrap().into_inner().nonce
    };
    let next = KeyRequest::new("box").unwrap();
    let request = |nonce: Vec<u8>, key_pem: &str| {
        let signed = [nonce.as_slice(), next.csr_pem.as_bytes()].concat();
        pb::RenewExpiredCertificateRequest {
            csr_pem: next.csr_pem.clone(),
            certificate_pem: enrolled.certificate_pem.clone(),
            signature: keys::sign(key_pem, &signed).unwrap(),
            nonce,
        }
    };
    let other = KeyRequest::new("box").unwrap();
    let refused = relay.renew_expired(&request(begun().await, &other.key_pem)).unwrap_err();
    assert!(refused.message.contains("proof of its key"), "{refused}");
    let good = request(begun().await, &key.key_pem);
    assert!(!relay.renew_expired(&good).unwrap().certificate_pem.is_empty());
    assert!(relay.renew_expired(&good).unwrap_err().message.contains("nonce"), "a nonce works once");
    assert!(relay.renew_expired(&request(b"made up".to_vec(), &key.key_pem)).is_err());
    // A certificate is no secret: whoever shows an old one without its key locks nobody out.
    let used = relay.hub.store.directory().machines[&enrolled.machine_id].generation;
    relay.hub.store.use_generation(&enrolled.machine_id, used + 1).unwrap();
    assert!(relay.renew_expired(&request(begun().await, &other.key_pem)).is_err());
    assert!(!relay.hub.store.directory().machines[&enrolled.machine_id].is_locked);
    assert!(relay.renew_expired(&request(begun().await, &key.key_pem)).is_err(), "it was replaced");
    assert!(relay.hub.store.directory().machines[&enrolled.machine_id].is_locked, "two have the identity");
    relay.hub.store.remove_machine(&enrolled.machine_id).unwrap();
    assert!(relay.renew_expired(&request(begun().await, &key.key_pem)).is_err(), "a removed machine is gone");
}
