//! Bytes of a sealed connection as a relay hands them over: both ends shake hands and say something, and the relay does to the bytes
//! in between what the input says. Nobody ever has other bytes than those that were said.

use anyhow::{Result, ensure};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConnection, ServerConfig, ServerConnection};
use std::io::{Read as _, Write as _};
use std::sync::Arc;
use tunnel::{keys, pinned, pipe};

use crate::Target;

/// What each end says.
const SAID: &[u8] = b"what the client and the daemon say to each other";

/// How often bytes are handed over at most before both ends give up.
const ROUNDS_MAX: usize = 24;

/// Sealed connections of one daemon. An input is read in steps of three bytes: direction, place and what is done there.
pub(super) struct SealedRecords {
    pin: String,
    config: Arc<ServerConfig>,
}

impl SealedRecords {
    pub(super) fn new() -> Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(Vec::<String>::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let own = params.self_signed(&key)?;
        let pin = keys::key_pin(&key);
        let issuer = Issuer::new(params, key);
        let leaf_key = KeyPair::generate()?;
        let leaf =
            CertificateParams::new(vec![pipe::DAEMON_NAME.to_owned()])?.signed_by(&leaf_key, &issuer)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let leaf_key = PrivateKeyDer::try_from(leaf_key.serialize_der()).map_err(anyhow::Error::msg)?;
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone(), own.der().clone()], leaf_key)?;
        Ok(Self { pin, config: Arc::new(config) })
    }
}

impl Target for SealedRecords {
    fn name(&self) -> &'static str {
        "records"
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let mut all = vec![Vec::new()];
        for step in 0..6 {
            for deed in 0..7 {
                all.push(vec![step, 40, deed]);
            }
        }
        all
    }

    fn words(&self) -> &'static [&'static str] {
        &["\u{1}", "\u{2}", "\u{7f}"]
    }

    fn run(&mut self, input: &[u8]) -> Result<u64> {
        let config =
            pinned::client_config(&self.pin, None, &[]).map_err(|error| anyhow::anyhow!(error.message))?;
        let mut client = ClientConnection::new(Arc::new(config), ServerName::try_from(pipe::DAEMON_NAME)?)?;
        let mut server = ServerConnection::new(Arc::clone(&self.config))?;
        let (mut at_client, mut at_server) = (Vec::new(), Vec::new());
        let (mut first, mut is_client_done, mut is_server_done) = (Vec::new(), false, false);
        let mut deeds = input.chunks(3);
        for round in 0..ROUNDS_MAX {
            if !client.is_handshaking() && !std::mem::replace(&mut is_client_done, true) {
                client.writer().write_all(SAID)?;
            }
            if !server.is_handshaking() && !std::mem::replace(&mut is_server_done, true) {
                server.writer().write_all(SAID)?;
            }
            let mut bytes = Vec::new();
            let is_to_server = round % 2 == 0;
            match is_to_server {
                true => client.write_tls(&mut bytes)?,
                false => server.write_tls(&mut bytes)?,
            };
            if first.is_empty() {
                first.clone_from(&bytes);
            }
            meddle(&mut bytes, deeds.next().unwrap_or_default(), &first);
            let failed = match is_to_server {
                true => take(&mut server, &bytes, &mut at_server),
                false => take(&mut client, &bytes, &mut at_client),
            };
            ensure!(SAID.starts_with(&at_client), "the client has bytes that nobody said: {at_client:?}");
            ensure!(SAID.starts_with(&at_server), "the daemon has bytes that nobody said: {at_server:?}");
            if failed {
                return Ok(1 << 8 | round as u64);
            }
        }
        Ok(at_client.len() as u64 ^ (at_server.len() as u64) << 16)
    }
}

/// Does one thing to bytes on their way.
fn meddle(bytes: &mut Vec<u8>, deed: &[u8], first: &[u8]) {
    let [at, bits, deed] = deed else { return };
    if bytes.is_empty() {
        return;
    }
    let at = usize::from(*at) * bytes.len() / 256;
    match deed % 7 {
        0 => bytes[at] ^= bits,
        1 => bytes.truncate(at),
        2 => bytes.extend_from_within(..),
        3 => first.clone_into(bytes),
        4 => bytes.rotate_left(at),
        5 => drop(bytes.remove(at)),
        _ => bytes.clear(),
    }
}

/// Gives bytes to an end. Returns whether it has noticed that something is wrong.
fn take<T, S>(end: &mut T, mut bytes: &[u8], got: &mut Vec<u8>) -> bool
where
    T: std::ops::DerefMut<Target = rustls::ConnectionCommon<S>>,
    S: rustls::SideData,
{
    while !bytes.is_empty() {
        let is_taken = end.read_tls(&mut bytes).is_ok_and(|count| count > 0);
        let Ok(state) = end.process_new_packets() else { return true };
        let mut said = vec![0; state.plaintext_bytes_to_read()];
        if end.reader().read_exact(&mut said).is_err() {
            return true;
        }
        got.extend_from_slice(&said);
        if !is_taken {
            return false;
        }
    }
    false
}
