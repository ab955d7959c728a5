//! TLS of listeners that other machines can reach: the daemon's certificate, and those of devices. Knows no service and
//! no device.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use domain::{Error, ErrorCode};
use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio::time;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::limits;
use crate::peer;

/// How the daemon proves who it is, and whose certificates it takes.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
    /// Our own certificate.
    certificate: CertificateDer<'static>,
}

impl Tls {
    /// Reads a certificate with its chain, its key, and the certificate of the devices' authority, all as PEM
    /// (OBEY-1014). The key must be readable by nobody else.
    pub fn load(cert: &Path, key: &Path, devices_ca: &Path) -> Result<Self, Error> {
        let chain = certificates("tls.cert", cert)?;
        private("tls.key", key)?;
        let key_der = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable("tls.key", key, &error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        for root in certificates("the devices' authority", devices_ca)? {
            roots.add(root).map_err(|error| unusable("the devices' authority", devices_ca, &error))?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            // Who has none may present a token.
            .allow_unauthenticated()
            .build()
            .map_err(|error| unusable("the devices' authority", devices_ca, &error))?;
        let certificate =
            chain.first().cloned().ok_or_else(|| unusable("tls.cert", cert, &"it holds no certificate"))?;
        ParsedCertificate::try_from(&certificate).map_err(|error| unusable("tls.cert", cert, &error))?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| unusable("tls.cert", cert, &error))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key_der)
            .map_err(|error| unusable("tls.key", key, &error))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // A session that is resumed proves its certificate by memory; nothing that was revoked may be remembered.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), certificate })
    }

    /// Whether a host is one of the names that our certificate has.
    pub fn is_named(&self, host: &str) -> bool {
        let Ok(name) = ServerName::try_from(host) else { return false };
        let own = ParsedCertificate::try_from(&self.certificate);
        own.is_ok_and(|own| verify_server_name(&own, &name).is_ok())
    }

    /// Shakes hands; nothing with a client that speaks no TLS, takes too long or has a certificate of a stranger.
    pub(super) async fn accept(&self, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
        match time::timeout(limits::TLS_HANDSHAKE_WAIT, self.acceptor.accept(stream)).await {
            Ok(Ok(stream)) => Some(stream),
            Ok(Err(error)) => {
                tracing::debug!(%error, "a client without TLS, or one that does not trust us, was turned away");
                None
            }
            Err(_) => None,
        }
    }
}

/// Returns the fingerprint of the certificate a client presented; it was verified during the handshake.
pub(super) fn fingerprint(stream: &TlsStream<TcpStream>) -> Option<String> {
    stream.get_ref().1.peer_certificates()?.first().map(|certificate| peer::hash(certificate))
}

fn certificates(key: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    match CertificateDer::pem_file_iter(path).and_then(|found| found.collect::<Result<Vec<_>, _>>()) {
        Ok(found) if found.is_empty() => Err(unusable(key, path, &"it holds no certificate")),
        Ok(found) => Ok(found),
        Err(error) => Err(unusable(key, path, &error)),
    }
}

fn private(key: &str, path: &Path) -> Result<(), Error> {
    let mode = File::open(path).and_then(|file| file.metadata()).map(|found| found.mode());
    match mode {
        Ok(mode) if mode & 0o077 == 0 => Ok(()),
        Ok(_) => Err(unusable(key, path, &"others can read it; chmod 600")),
        Err(error) => Err(unusable(key, path, &plain(&error))),
    }
}

fn plain(error: &io::Error) -> String {
    super::folder::plain(error)
}

fn unusable(key: &str, path: &Path, problem: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorCode::ConfigInvalid, format!("{key}: {} cannot be used: {problem}", path.display()))
}
