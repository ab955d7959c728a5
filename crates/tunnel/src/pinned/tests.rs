//! A client and a daemon with somebody in between who can do with the bytes what they like.

use std::sync::Arc;

use proptest::prelude::*;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::pipe;

/// What the daemon says.
const SAID: &[u8] = &[b'o'; 20_000];

/// A daemon's authority and its TLS.
fn daemon() -> (String, TlsAcceptor) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let own = params.self_signed(&key).unwrap();
    let pin = keys::key_pin(&key);
    let issuer = Issuer::new(params, key);
    let leaf_key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec![pipe::DAEMON_NAME.to_owned()])
        .unwrap()
        .signed_by(&leaf_key, &issuer)
        .unwrap();
    let chain = vec![leaf.der().clone(), own.der().clone()];
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::try_from(leaf_key.serialize_der()).unwrap())
        .unwrap();
    (pin, TlsAcceptor::from(Arc::new(config)))
}

/// What somebody in between does to the byte at a place.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Flip(u8),
    Drop,
    Repeat,
    Cut,
    /// Sends what was read together with it once more.
    Replay,
    /// Sends what came first on this connection in its place.
    Splice,
    /// Sends what came first on another connection between the same two in its place.
    Foreign,
    /// Sends what comes next before it.
    Reorder,
    /// Sends a record of their own making before it.
    Forge,
}

const FAULTS: u8 = 9;

fn fault(kind: u8, bits: u8) -> Fault {
    match kind {
        0 => Fault::Flip(bits),
        1 => Fault::Drop,
        2 => Fault::Repeat,
        3 => Fault::Replay,
        4 => Fault::Splice,
        5 => Fault::Foreign,
        6 => Fault::Reorder,
        7 => Fault::Forge,
        _ => Fault::Cut,
    }
}

/// Carries bytes to one end, and does one thing to them on the way.
async fn meddle(
    mut from: tokio::io::ReadHalf<DuplexStream>,
    mut to: tokio::io::WriteHalf<DuplexStream>,
    at: usize,
    fault: Fault,
    foreign: Vec<u8>,
) {
    let (mut buffer, mut passed) = (vec![0; 1024], 0);
    let (mut first, mut held): (Vec<u8>, Vec<u8>) = (Vec::new(), Vec::new());
    while let Ok(count) = from.read(&mut buffer).await
        && count > 0
    {
        let mut bytes = buffer[..count].to_vec();
        if first.is_empty() {
            first = bytes.clone();
        }
        if (passed..passed + count).contains(&at) {
            let place = at - passed;
            match fault {
                Fault::Flip(bits) => bytes[place] ^= bits,
                Fault::Drop => drop(bytes.remove(place)),
                Fault::Repeat => bytes.insert(place, bytes[place]),
                Fault::Cut => bytes.truncate(place),
                Fault::Replay => bytes.extend_from_within(..),
                // In the place of itself it would change nothing.
                Fault::Splice if passed == 0 => bytes.extend_from_within(..),
                Fault::Splice => bytes.clone_from(&first),
                Fault::Foreign => bytes.clone_from(&foreign),
                Fault::Reorder => held = std::mem::take(&mut bytes),
                // Application data of five bytes.
                Fault::Forge => drop(bytes.splice(place..place, [23, 3, 3, 0, 5, 1, 2, 3, 4, 5])),
            }
        } else if !held.is_empty() {
            bytes.append(&mut held);
        }
        passed += count;
        if to.write_all(&bytes).await.is_err() || (matches!(fault, Fault::Cut) && passed > at) {
            break;
        }
    }
    let _ = to.shutdown().await;
}

/// What one end got, and whether it noticed that something was wrong.
#[derive(Debug)]
struct Outcome {
    got: Vec<u8>,
    noticed: bool,
}

async fn read_all(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> Outcome {
    let mut got = Vec::new();
    let ended = stream.read_to_end(&mut got).await;
    Outcome { got, noticed: ended.is_err() }
}

async fn say(stream: &mut (impl tokio::io::AsyncWrite + Unpin)) {
    // An end that has noticed something takes no more.
    let _ = stream.write_all(SAID).await;
    let _ = stream.shutdown().await;
}

/// Lets both ends say something, one of them with somebody in between. Returns what that one's reader got.
async fn through(at: usize, fault: Fault, to_daemon: bool) -> Outcome {
    let (pin, acceptor) = daemon();
    let foreign = opening(&pin, &acceptor, to_daemon).await;
    let (near, client_side) = tokio::io::duplex(4096);
    let (daemon_side, far) = tokio::io::duplex(4096);
    let (mut from_client, mut to_client) = tokio::io::split(client_side);
    let (mut from_daemon, mut to_daemon_side) = tokio::io::split(daemon_side);
    match to_daemon {
        true => {
            tokio::spawn(async move { tokio::io::copy(&mut from_daemon, &mut to_client).await });
            tokio::spawn(meddle(from_client, to_daemon_side, at, fault, foreign));
        }
        false => {
            tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_daemon_side).await });
            tokio::spawn(meddle(from_daemon, to_client, at, fault, foreign));
        }
    }
    let lost = || Outcome { got: Vec::new(), noticed: true };
    let at_daemon = tokio::spawn(async move {
        let Ok(mut stream) = acceptor.accept(far).await else { return lost() };
        match to_daemon {
            true => read_all(&mut stream).await,
            false => {
                say(&mut stream).await;
                lost()
            }
        }
    });
    let config = client_config(&pin, None, &[]).unwrap();
    let at_client = match pipe::seal(near, config).await {
        Err(_) => lost(),
        Ok(mut stream) if to_daemon => {
            say(&mut stream).await;
            lost()
        }
        Ok(mut stream) => read_all(&mut stream).await,
    };
    if to_daemon { at_daemon.await.unwrap() } else { at_client }
}

/// Returns what one end of a connection between the same two says first.
async fn opening(pin: &str, acceptor: &TlsAcceptor, of_client: bool) -> Vec<u8> {
    let (near, client_side) = tokio::io::duplex(4096);
    let (daemon_side, far) = tokio::io::duplex(4096);
    let acceptor = acceptor.clone();
    tokio::spawn(async move { acceptor.accept(far).await.is_ok() });
    let config = client_config(pin, None, &[]).unwrap();
    tokio::spawn(async move { pipe::seal(near, config).await.is_ok() });
    let (mut from_client, _to_client) = tokio::io::split(client_side);
    let (mut from_daemon, mut to_daemon) = tokio::io::split(daemon_side);
    let mut buffer = vec![0; 1024];
    let count = from_client.read(&mut buffer).await.unwrap();
    if !of_client {
        to_daemon.write_all(&buffer[..count]).await.unwrap();
        let count = from_daemon.read(&mut buffer).await.unwrap();
        return buffer[..count].to_vec();
    }
    buffer[..count].to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    /// Whatever is done to the bytes in one direction, the end that reads them has nothing but what was said, and knows that it is
    /// not all.
    #[test]
    fn whoever_is_in_between_changes_nothing_unnoticed(
        at in 0_usize..20_000,
        bits in 1_u8..=255,
        kind in 0..FAULTS,
        to_daemon: bool,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let outcome = runtime.block_on(async {
            let trying = through(at, fault(kind, bits), to_daemon);
            tokio::time::timeout(std::time::Duration::from_secs(30), trying).await.unwrap()
        });
        prop_assert!(SAID.starts_with(&outcome.got));
        prop_assert!(outcome.noticed, "{} bytes of {}", outcome.got.len(), SAID.len());
    }
}

#[tokio::test]
async fn a_server_with_another_key_is_refused() {
    let (_, acceptor) = daemon();
    let (other, _) = daemon();
    let (near, far) = tokio::io::duplex(4096);
    tokio::spawn(async move { acceptor.accept(far).await.is_ok() });
    let error = pipe::seal(near, client_config(&other, None, &[]).unwrap()).await.unwrap_err();
    assert!(error.to_string().contains(&other), "both fingerprints are told: {error}");
}
