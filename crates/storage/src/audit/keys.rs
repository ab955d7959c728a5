//! The audit's key: one secret in a file beside the database, from which the chain key and the signing key
//! are derived. Never printed, logged or exported; only the public half may be known.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use ring::rand::SecureRandom as _;
use ring::signature::KeyPair as _;
use ring::{hmac, rand, signature};

/// The file with the secret, in the data folder, readable by its owner only.
pub(super) const KEY_FILE: &str = "audit.key";

const SECRET_BYTES: usize = 32;
const FIRST_LINE: &str = "obey audit key; keep it secret and where it is";

/// Seals rows and signs marks and exports.
pub(super) struct Keys {
    chain: hmac::Key,
    signing: signature::Ed25519KeyPair,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys(…)")
    }
}

impl Keys {
    /// Reads the key; `None` if there is no file.
    pub(super) fn load(folder: &Path) -> io::Result<Option<Self>> {
        let mut file =
            match OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(folder.join(KEY_FILE)) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            };
        let mut text = String::new();
        // Longer than any key file.
        (&mut file).take(1024).read_to_string(&mut text)?;
        let secret = text.lines().nth(1).and_then(unhex).filter(|secret| secret.len() == SECRET_BYTES);
        match secret.map(|secret| Self::of(&secret)) {
            Some(Some(keys)) => Ok(Some(keys)),
            _ => Err(io::Error::other("it is no key of the audit")),
        }
    }

    /// Creates a new key; it is an error if one exists.
    pub(super) fn create(folder: &Path) -> io::Result<Self> {
        let mut secret = [0; SECRET_BYTES];
        rand::SystemRandom::new().fill(&mut secret).map_err(|_| io::Error::other("no randomness"))?;
        let keys = Self::of(&secret).ok_or_else(|| io::Error::other("the key cannot be used"))?;
        let path = folder.join(KEY_FILE);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        file.write_all(format!("{FIRST_LINE}\n{}\n", hex(&secret)).as_bytes())?;
        file.sync_all()?;
        File::open(folder)?.sync_all()?;
        Ok(keys)
    }

    fn of(secret: &[u8]) -> Option<Self> {
        let root = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let chain = hmac::sign(&root, b"obey audit chain 1");
        let seed = hmac::sign(&root, b"obey audit signature 1");
        Some(Self {
            chain: hmac::Key::new(hmac::HMAC_SHA256, chain.as_ref()),
            signing: signature::Ed25519KeyPair::from_seed_unchecked(seed.as_ref()).ok()?,
        })
    }

    /// Seals a row: over the previous seal, its number and its hash.
    pub(super) fn seal(&self, before: &[u8], seq: i64, hash: &[u8]) -> Vec<u8> {
        let mut context = hmac::Context::with_key(&self.chain);
        for part in [&[u8::from(!before.is_empty())][..], before, &seq.to_be_bytes(), hash] {
            context.update(part);
        }
        context.sign().as_ref().to_vec()
    }

    /// Seals the record of the newest row: over the machine's start that it was written in, its number and its seal.
    pub(super) fn seal_head(&self, boot: &str, seq: i64, mac: &[u8]) -> Vec<u8> {
        let mut context = hmac::Context::with_key(&self.chain);
        for part in [&b"obey audit head 1\n"[..], boot.as_bytes(), b"\n", &seq.to_be_bytes(), mac] {
            context.update(part);
        }
        context.sign().as_ref().to_vec()
    }

    /// Signs a text so that it can be verified with the public key.
    pub(super) fn sign(&self, text: &[u8]) -> Vec<u8> {
        self.signing.sign(text).as_ref().to_vec()
    }

    pub(super) fn public(&self) -> Vec<u8> {
        self.signing.public_key().as_ref().to_vec()
    }
}

/// Checks a signature.
pub(super) fn is_signed(public: &[u8], text: &[u8], signed: &[u8]) -> bool {
    signature::UnparsedPublicKey::new(&signature::ED25519, public).verify(text, signed).is_ok()
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text
        .trim()
        .chars()
        .map(|digit| digit.to_digit(16).map(|digit| digit as u8))
        .collect::<Option<_>>()?;
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    Some(pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_key_is_made_once_for_its_owner_and_read_again() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Keys::load(folder.path()).unwrap().is_none());
        let made = Keys::create(folder.path()).unwrap();
        let read = Keys::load(folder.path()).unwrap().unwrap();
        assert_eq!(made.seal(b"a", 1, b"b"), read.seal(b"a", 1, b"b"));
        assert_eq!(made.public(), read.public());
        assert_eq!(format!("{made:?}"), "Keys(…)");
        let file = folder.path().join(KEY_FILE);
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(Keys::create(folder.path()).is_err());
        std::fs::write(&file, "x\nnonsense\n").unwrap();
        assert!(Keys::load(folder.path()).is_err());
    }

    #[test]
    fn seals_differ_with_everything_they_cover() {
        let folder = tempfile::tempdir().unwrap();
        let keys = Keys::create(folder.path()).unwrap();
        let seal = keys.seal(b"before", 1, b"hash");
        for other in
            [keys.seal(b"", 1, b"hash"), keys.seal(b"before", 2, b"hash"), keys.seal(b"before", 1, b"hasH")]
        {
            assert_ne!(seal, other);
        }
        assert!(is_signed(&keys.public(), b"text", &keys.sign(b"text")));
        assert!(!is_signed(&keys.public(), b"texT", &keys.sign(b"text")));
        assert_eq!(unhex(&hex(&[0, 255, 16])), Some(vec![0, 255, 16]));
        assert_eq!((unhex("abc"), unhex("zz")), (None, None));
    }
}
