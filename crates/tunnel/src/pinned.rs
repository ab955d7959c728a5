//! TLS 1.3 with a server whose certificate authority is pinned: its public key was received out of band. A server of another
//! authority is refused, whatever its certificate says, and the user is not asked.

use std::sync::{Arc, OnceLock};

use domain::{Error, ErrorCode};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::keys;

/// A certificate with its chain, and its key, as PEM.
#[derive(Clone)]
pub struct TlsIdentity {
    pub certificate_pem: String,
    pub key_pem: String,
}

/// What the authority that is expected says of the one that comes after it. Told by every connection to a server whose authority is
/// being exchanged; who keeps the fingerprint keeps the next one from then on.
#[derive(Clone, Debug, Default)]
pub struct NextPin(Arc<OnceLock<String>>);

impl NextPin {
    /// Returns the fingerprint of the next authority, if there was word of one.
    pub fn get(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}

/// Returns the name that a certificate has by which an authority announces the next one, with this fingerprint.
pub fn announced_name(pin: &str) -> String {
    // A label of a name has at most 63 letters.
    let (first, second) = pin.split_at_checked(pin.len() / 2).unwrap_or((pin, ""));
    format!("{first}.{second}.next.obey")
}

/// Accepts servers whose chain ends in the pinned authority.
#[derive(Debug)]
struct PinnedVerifier {
    pin: String,
    provider: Arc<CryptoProvider>,
    next: NextPin,
}

impl PinnedVerifier {
    /// Looks for an announcement that the pinned authority signed: a certificate of the next authority's key with its name.
    fn look_for_next(&self, verifier: &WebPkiServerVerifier, chain: &[CertificateDer<'_>], now: UnixTime) {
        for one in chain {
            let Some(pin) = keys::certificate_pin(one).filter(|pin| *pin != self.pin) else { continue };
            let Ok(name) = ServerName::try_from(announced_name(&pin)) else { continue };
            if verifier.verify_server_cert(one, &[], &name, &[], now).is_ok() {
                // Told before; it is the same one.
                let _ = self.next.0.set(pin);
            }
        }
    }
}

impl ServerCertVerifier for PinnedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let is_pinned =
            |one: &&CertificateDer<'_>| keys::certificate_pin(one).is_some_and(|pin| pin == self.pin);
        let Some(root) = intermediates.iter().find(is_pinned) else {
            let found =
                intermediates.last().and_then(keys::certificate_pin).unwrap_or_else(|| "none".to_owned());
            let message = format!("its authority is {found}, and {} was expected", self.pin);
            return Err(rustls::Error::General(message));
        };
        let mut roots = RootCertStore::empty();
        roots.add(root.clone().into_owned())?;
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&self.provider))
                .build()
                .map_err(|error| rustls::Error::General(error.to_string()))?;
        let verified =
            verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)?;
        self.look_for_next(&verifier, intermediates, now);
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("only TLS 1.3 is spoken".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Returns how a client connects to a server with this pin, with its own certificate if it has one. Nothing is resumed: a
/// resumed session would outlive certificates.
pub fn client_config(
    pin: &str,
    identity: Option<&TlsIdentity>,
    protocols: &[&[u8]],
) -> Result<ClientConfig, Error> {
    client_config_following(pin, identity, protocols, &NextPin::default())
}

/// The same for a server whose authority may be replaced: `next` receives the one that succeeds it.
pub fn client_config_following(
    pin: &str,
    identity: Option<&TlsIdentity>,
    protocols: &[&[u8]],
    next: &NextPin,
) -> Result<ClientConfig, Error> {
    let unusable = |error: &dyn std::fmt::Display| {
        Error::new(ErrorCode::ConfigInvalid, "the certificate or key for the relay cannot be used")
            .with_detail(error.to_string())
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier =
        PinnedVerifier { pin: pin.to_owned(), provider: Arc::clone(&provider), next: next.clone() };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| unusable(&error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let chain = CertificateDer::pem_slice_iter(identity.certificate_pem.as_bytes())
                .collect::<Result<Vec<_>, _>>()
                .map_err(|error| unusable(&error))?;
            let key = PrivateKeyDer::from_pem_slice(identity.key_pem.as_bytes())
                .map_err(|error| unusable(&error))?;
            builder.with_client_auth_cert(chain, key).map_err(|error| unusable(&error))?
        }
    };
    config.resumption = Resumption::disabled();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(config)
}

#[cfg(test)]
mod tests;
