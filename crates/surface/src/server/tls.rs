//! TLS of listeners that other machines can reach: the daemon's certificate, and those of devices. Knows no service and
//! no device.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use domain::{Error, ErrorCode};
use host::clock;
use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::time_provider::TimeProvider;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio::time;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::limits;
use crate::peer;

/// How the daemon proves who it is, and whose certificates it takes. A certificate that was renewed is used for the connections that
/// come after.
#[derive(Clone)]
pub struct Tls {
    files: Arc<TlsFiles>,
    current: Arc<RwLock<LoadedTls>>,
}

/// Where everything is.
#[derive(Debug)]
struct TlsFiles {
    cert: PathBuf,
    key: PathBuf,
    devices_ca: PathBuf,
}

/// What of the files was read.
#[derive(Clone)]
struct LoadedTls {
    acceptor: TlsAcceptor,
    /// Our own certificate.
    certificate: CertificateDer<'static>,
    /// The files when they were read.
    stamp: [Option<FileStamp>; 2],
}

/// What changes when a file is written or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    inode: u64,
    len: u64,
    modified: Option<SystemTime>,
}

impl TlsFiles {
    fn stamp(&self) -> [Option<FileStamp>; 2] {
        [&self.cert, &self.key].map(|path| {
            let meta = std::fs::metadata(path).ok()?;
            Some(FileStamp { inode: meta.ino(), len: meta.len(), modified: meta.modified().ok() })
        })
    }

    fn read(&self) -> Result<LoadedTls, Error> {
        let (cert, key, devices_ca) = (&*self.cert, &*self.key, &*self.devices_ca);
        // Taken first: what is written while we read is noticed by the next connection.
        let stamp = self.stamp();
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
        Ok(LoadedTls { acceptor: TlsAcceptor::from(Arc::new(config)), certificate, stamp })
    }
}

impl Tls {
    /// Reads a certificate with its chain, its key, and the certificate of the devices' authority, all as PEM
    /// (OBEY-1014). The key must be readable by nobody else.
    pub fn load(cert: &Path, key: &Path, devices_ca: &Path) -> Result<Self, Error> {
        let files =
            TlsFiles { cert: cert.to_owned(), key: key.to_owned(), devices_ca: devices_ca.to_owned() };
        let current = files.read()?;
        Ok(Self { files: Arc::new(files), current: Arc::new(RwLock::new(current)) })
    }

    fn current(&self) -> LoadedTls {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns what is in the files now; what was there before, where that cannot be used: a certificate may be written before its key.
    async fn renewed(&self) -> LoadedTls {
        let current = self.current();
        let files = Arc::clone(&self.files);
        let looked = tokio::task::spawn_blocking(move || {
            let stamp = files.stamp();
            (stamp != current.stamp).then(|| (stamp, files.read()))
        });
        let Ok(Some((stamp, read))) = looked.await else { return self.current() };
        let mut kept = self.current.write().unwrap_or_else(PoisonError::into_inner);
        match read {
            Ok(read) => {
                tracing::info!(cert = %self.files.cert.display(), "a renewed certificate is used");
                *kept = read;
            }
            Err(error) => {
                tracing::warn!(%error, "a changed certificate cannot be used; the former one stays");
                kept.stamp = stamp;
            }
        }
        kept.clone()
    }

    /// Whether a host is one of the names that our certificate has.
    pub fn is_named(&self, host: &str) -> bool {
        let Ok(name) = ServerName::try_from(host) else { return false };
        let current = self.current();
        let own = ParsedCertificate::try_from(&current.certificate);
        own.is_ok_and(|own| verify_server_name(&own, &name).is_ok())
    }

    /// Does the TLS handshake. Returns nothing if the client speaks no TLS, takes too long or has a certificate of an unknown issuer.
    pub(super) async fn accept(&self, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
        let acceptor = self.renewed().await.acceptor;
        match time::timeout(limits::TLS_HANDSHAKE_WAIT, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => Some(stream),
            Ok(Err(error)) => {
                tracing::debug!(%error, "a client without TLS, or one that does not trust us, was turned away");
                None
            }
            Err(_) => None,
        }
    }
}

/// The time by which certificates of paired devices are judged.
#[derive(Debug)]
struct DaemonClock;

impl TimeProvider for DaemonClock {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from(clock::now().seconds_and_nanos().0).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

/// Returns the TLS of sealed connections through a relay: the daemon is who its own authority says, and devices are asked for
/// their certificates. One without a certificate may pair and nothing else, which is for the caller to see to.
pub fn sealed_config(
    authority: &peer::DeviceAuthority,
    name: &str,
    protocols: Vec<Vec<u8>>,
) -> Result<ServerConfig, Error> {
    let broken =
        |error: &dyn std::fmt::Display| unusable("the devices' authority", authority.certificate(), error);
    let identity = authority.server_identity(name)?;
    let chain: Vec<CertificateDer<'static>> = identity.chain.into_iter().map(CertificateDer::from).collect();
    let key = PrivateKeyDer::try_from(identity.key).map_err(|error| broken(&error))?;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(chain.last().cloned());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .allow_unauthenticated()
        .build()
        .map_err(|error| broken(&error))?;
    let mut config = ServerConfig::builder_with_details(provider, Arc::new(DaemonClock))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| broken(&error))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .map_err(|error| broken(&error))?;
    config.alpn_protocols = protocols;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// Returns the fingerprint of the certificate a client presented; it was verified during the handshake.
pub fn fingerprint<T>(stream: &TlsStream<T>) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};
    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
    use tokio::io::AsyncReadExt as _;
    use tokio::net::TcpListener;

    use super::*;

    /// Takes any certificate: the test asks which one it was.
    #[derive(Debug)]
    struct Anybody;

    impl ServerCertVerifier for Anybody {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, rustls::Error> {
            Ok(ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
        }
    }

    /// Writes a certificate, its key, or both of a new pair; returns the certificate.
    fn write(folder: &Path, name: &str, parts: &[&str]) -> CertificateDer<'static> {
        use std::os::unix::fs::OpenOptionsExt as _;
        let key = KeyPair::generate().unwrap();
        let cert = CertificateParams::new(vec![name.to_owned()]).unwrap().self_signed(&key).unwrap();
        for (part, text) in [("cert", cert.pem()), ("key", key.serialize_pem())] {
            if parts.contains(&part) {
                let path = folder.join(part);
                let _ = std::fs::remove_file(&path);
                let mut file = std::fs::OpenOptions::new();
                let file = file.write(true).create_new(true).mode(0o600).open(path);
                std::io::Write::write_all(&mut file.unwrap(), text.as_bytes()).unwrap();
            }
        }
        cert.der().clone()
    }

    fn load(folder: &Path) -> Tls {
        let authority = folder.join("authority");
        if !authority.exists() {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
            params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
            std::fs::write(&authority, params.self_signed(&key).unwrap().pem()).unwrap();
        }
        Tls::load(&folder.join("cert"), &folder.join("key"), &authority).unwrap()
    }

    /// Connects as a client that trusts anybody.
    async fn connect(address: std::net::SocketAddr) -> tokio_rustls::client::TlsStream<TcpStream> {
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody))
            .with_no_client_auth();
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("daemon.test").unwrap();
        tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }

    /// Connects and returns the certificate that was shown.
    async fn shown(tls: &Tls) -> CertificateDer<'static> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = async { tls.accept(listener.accept().await.unwrap().0).await.unwrap() };
        let (client, _server) = tokio::join!(connect(address), server);
        client.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
    }

    #[tokio::test]
    async fn a_renewed_certificate_is_used_for_the_next_connection() {
        let folder = tempfile::tempdir().unwrap();
        let first = write(folder.path(), "one.test", &["cert", "key"]);
        let tls = load(folder.path());
        assert_eq!(shown(&tls).await, first);
        assert!(tls.is_named("one.test") && !tls.is_named("two.test"));
        let second = write(folder.path(), "two.test", &["cert", "key"]);
        assert_eq!(shown(&tls).await, second);
        assert!(tls.is_named("two.test") && !tls.is_named("one.test"));
        // A certificate without its key is none yet.
        write(folder.path(), "three.test", &["cert"]);
        assert_eq!(shown(&tls).await, second);
        std::fs::remove_file(folder.path().join("cert")).unwrap();
        assert_eq!(shown(&tls).await, second);
        let fourth = write(folder.path(), "four.test", &["cert", "key"]);
        assert_eq!(shown(&tls).await, fourth);
    }

    #[tokio::test]
    async fn a_client_that_does_not_shake_hands_loses_its_place() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "one.test", &["cert", "key"]);
        let tls = load(folder.path());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let accepted = listener.accept().await.unwrap().0;
        // Time passes only while everybody waits.
        tokio::time::pause();
        let began = time::Instant::now();
        assert!(tls.accept(accepted).await.is_none());
        assert!(began.elapsed() >= limits::TLS_HANDSHAKE_WAIT);
        tokio::time::resume();
        assert_eq!(client.read(&mut [0; 8]).await.unwrap(), 0, "its connection is closed");
    }

    #[tokio::test]
    async fn a_connection_on_which_no_device_calls_ends() {
        use crate::peer::{Access, Devices};
        use crate::server::{DaemonLock, Listen, Server};
        use std::os::unix::fs::PermissionsExt as _;
        use tokio::io::AsyncWriteExt as _;
        let folder =
            tempfile::Builder::new().permissions(std::fs::Permissions::from_mode(0o700)).tempdir().unwrap();
        write(folder.path(), "one.test", &["cert", "key"]);
        let lock = DaemonLock::acquire(&folder.path().join("lock")).unwrap();
        let devices = Some(Arc::new(Devices::load(folder.path().join("devices.json")).unwrap()));
        let access = Access { devices, tls: Some(load(folder.path())), ..Access::default() };
        let bound = Server::bind(&[Listen::Tls("127.0.0.1:0".parse().unwrap())], &lock, access).unwrap();
        let Listen::Tls(address) = bound.addresses()[0] else { panic!("it listens with TLS") };
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let shutdown = async {
            let _ = stopped.await;
        };
        let serving = tokio::spawn(bound.serve(tonic::service::Routes::default(), shutdown));
        let mut client = connect(address).await;
        // The first words of HTTP/2, with settings that change nothing; and then silence.
        client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
        let mut answer = [0; 9];
        client.read_exact(&mut answer).await.unwrap();
        tokio::time::pause();
        let began = time::Instant::now();
        // It ends without the goodbye of TLS.
        let _ = client.read_to_end(&mut Vec::new()).await;
        let lasted = began.elapsed();
        tokio::time::resume();
        assert!(lasted + limits::FIRST_BYTES_WAIT >= limits::DEVICE_CALL_WAIT, "{lasted:?}");
        assert!(lasted < limits::KEEPALIVE_INTERVAL + limits::KEEPALIVE_WAIT, "{lasted:?}");
        stop.send(()).unwrap();
        serving.await.unwrap().unwrap();
    }
}
