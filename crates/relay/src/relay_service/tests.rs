//! Enrolment and renewals, as a machine asks for them.

use tunnel::keys::KeyRequest;

use super::*;
use crate::authority::Authority;
use crate::store::Store;

const ADDRESS: ClientAddress = ClientAddress(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST));

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
    relay.enrol(&request, ADDRESS).map(|enrolled| (key, enrolled))
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

#[tokio::test]
async fn whoever_guesses_codes_is_stopped_and_others_join() {
    let (_folder, relay) = relay();
    let key = KeyRequest::new("box").unwrap();
    let enrol_from = async |address: &str, secret: &str| {
        let mut request = Request::new(pb::EnrolMachineRequest {
            secret: secret.to_owned(),
            name: "box".to_owned(),
            csr_pem: key.csr_pem.clone(),
        });
        request.extensions_mut().insert(ClientAddress(address.parse().unwrap()));
        relay.enrol_machine(request).await.map(drop).map_err(|status| status.code())
    };
    let mut guesses = 0;
    while enrol_from("192.0.2.1", &format!("guess {guesses}")).await == Err(tonic::Code::PermissionDenied) {
        guesses += 1;
        assert!(guesses < 1_000, "nobody stops it");
    }
    assert_eq!(
        enrol_from("192.0.2.1", "secret").await,
        Err(tonic::Code::ResourceExhausted),
        "not even with a hit"
    );
    assert_eq!(enrol_from("192.0.2.2", "secret").await, Ok(()));
}

#[tokio::test]
async fn an_address_with_wrong_tokens_waits_and_right_ones_work_from_there() {
    let (_folder, relay) = relay();
    let (_, token) = relay.hub.store.add_user("ann", false).unwrap();
    let call = |token: &str| {
        let mut headers = http::HeaderMap::new();
        headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
        principal_of(&relay.hub, &headers, ADDRESS).map(drop).map_err(|status| status.code())
    };
    let mut tries = 0;
    while call("obey-relay-wrong") == Err(tonic::Code::Unauthenticated) {
        tries += 1;
        assert!(tries < 1_000, "nobody stops it");
    }
    assert_eq!(call("obey-relay-wrong"), Err(tonic::Code::ResourceExhausted));
    assert_eq!(call(&token), Ok(()));
}

#[tokio::test]
async fn a_machine_that_calls_the_relay_without_end_is_told_when_to_come_back() {
    let (_folder, relay) = relay();
    let (_, enrolled) = enrol(&relay, "secret", "box").unwrap();
    let machine = Arc::clone(&relay.hub.store.directory().machines[&enrolled.machine_id]);
    let mut calls = 0;
    while relay.hub.count_call_of(&machine).is_ok() {
        calls += 1;
        assert!(calls < 10_000, "nobody stops it");
    }
    assert!(f64::from(calls) >= limits::MACHINE_CALLS.burst);
}
