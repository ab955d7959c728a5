//! The next certificate of this machine for its relay, and the next authority of the relay: what is kept of both.

use std::sync::Arc;

use domain::{Error, ErrorCode, Timestamp};
use host::clock;
use tunnel::dial;
use tunnel::keys::{self, KeyRequest};
use tunnel::pinned::NextPin;
use wire::obey::v1 as obey;
use wire::obey::v1::relay_service_client::RelayServiceClient;

use crate::dialling::{Ended, call, from_wire};
use crate::identity::RelayIdentity;
use crate::{RelayLinks, limits};

/// Whether a certificate must be renewed now.
pub(crate) fn is_due(expires_at: Timestamp, now: Timestamp) -> bool {
    expires_at.since(now) < limits::RENEW_BEFORE
}

/// Expects the relay's next authority from now on, if there was word of one. The connection stays.
pub(crate) fn follow(links: &RelayLinks, next: &NextPin) {
    let Some(next) = next.get() else { return };
    let mut kept = None;
    links.0.identity.send_if_modified(|identity| {
        if let Some(current) = identity {
            let moved = Arc::new(RelayIdentity { pin: next.to_owned(), ..RelayIdentity::clone(current) });
            kept = Some(Arc::clone(&moved));
            *identity = Some(moved);
        }
        // Nobody need connect again for it.
        false
    });
    let Some(kept) = kept else { return };
    match kept.save(&links.0.options.data_dir) {
        Ok(()) => tracing::info!(relay = kept.url, authority = next, "the relay has another authority"),
        Err(error) => {
            tracing::warn!(%error, "the relay's next authority cannot be kept; it is asked for again")
        }
    }
}

/// Keeps a new certificate, which the next connection is made with.
pub(crate) fn keep(
    links: &RelayLinks,
    old: &RelayIdentity,
    (key_pem, renewed): (String, obey::RenewCertificateResponse),
) -> Result<(), Error> {
    let expires_at = renewed.expires_at.map_or(old.expires_at, from_wire);
    let now = clock::now();
    if expires_at <= now {
        let (relay, here) = (expires_at.seconds_and_nanos().0, now.seconds_and_nanos().0);
        let message = format!(
            "the clocks differ too much: the relay's new certificate ends at {relay}, and it is {here} here (seconds since 1970)"
        );
        return Err(Error::new(ErrorCode::RelayUnreachable, message));
    }
    // The relay may have told of its next authority meanwhile.
    let pin =
        links.0.identity.borrow().as_ref().map_or_else(|| old.pin.clone(), |current| current.pin.clone());
    let certificate_pem = renewed.certificate_pem;
    let identity = RelayIdentity { certificate_pem, key_pem, expires_at, pin, ..old.clone() };
    identity.save(&links.0.options.data_dir)?;
    tracing::info!(relay = identity.url, "the certificate for the relay was renewed");
    let identity = Arc::new(identity);
    links.0.identity.send_if_modified(|current| {
        // Another relay, or none, was chosen meanwhile.
        if current.as_ref().is_some_and(|current| current.machine_id == identity.machine_id) {
            *current = Some(identity);
        }
        false
    });
    Ok(())
}

/// Renews by proof of the key, and says how the connection goes on.
pub(crate) async fn by_proof(links: &RelayLinks, identity: &RelayIdentity) -> Ended {
    let renewed = match renew_by_proof(identity).await {
        Ok(renewed) => keep(links, identity, renewed),
        Err(error) => Err(error),
    };
    match renewed {
        Ok(()) => Ended::Renewed,
        Err(error) if error.code == ErrorCode::RelayRefused => Ended::Refused(error.message),
        Err(error) => Ended::Broken(error.message),
    }
}

/// Gets a certificate in the place of one that has expired, or that the relay takes no more, by proof of its key.
async fn renew_by_proof(identity: &RelayIdentity) -> Result<(String, obey::RenewCertificateResponse), Error> {
    let channel = dial::connect(&identity.url, &identity.pin, None).await?;
    let mut relay = RelayServiceClient::new(channel);
    let nonce = call(relay.begin_renewal(obey::BeginRenewalRequest {})).await?.nonce;
    let request = KeyRequest::new(&identity.machine_id)?;
    let signed = [nonce.as_slice(), request.csr_pem.as_bytes()].concat();
    let renewing = obey::RenewExpiredCertificateRequest {
        csr_pem: request.csr_pem,
        certificate_pem: identity.certificate_pem.clone(),
        nonce,
        signature: keys::sign(&identity.key_pem, &signed)?,
    };
    let renewed = call(relay.renew_expired_certificate(renewing)).await?;
    Ok((request.key_pem, renewed))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_certificate_is_renewed_when_a_third_of_its_day_is_left() {
        let now = Timestamp(1_000_000_000_000_000);
        let in_hours = |hours: u64| now.after(Duration::from_secs(hours * 3600));
        assert!(!is_due(in_hours(24), now) && !is_due(in_hours(9), now));
        assert!(is_due(in_hours(7), now) && is_due(now, now) && is_due(now, in_hours(48)));
    }
}
