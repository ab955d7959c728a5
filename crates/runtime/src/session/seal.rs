//! Encrypts those parts of a session that may hold secrets and must outlive the daemon: the codec's state, input that waits for
//! its agent, an unfinished line. The key is a separate file that is replaced and deleted at the end of every turn, so that old
//! copies in the pages and the log of the database become unreadable. It does not protect from the user, who could read the
//! key while it exists. Must not know what it encrypts.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use domain::SessionId;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};

/// What sealed bytes begin with; no codec and no carry does.
const MAGIC: &[u8; 8] = b"\xffobeysl1";
/// The same for texts.
const TEXT_MAGIC: &str = "\u{1}sealed:";
const KEY_LEN: usize = 32;

/// Seals and opens what one session stores. A copy may make keys of its own; only one of both goes on.
#[derive(Clone)]
pub(super) struct Seal {
    dir: PathBuf,
    session: SessionId,
    /// The number of the key in use; 0: none was made yet.
    number: u64,
    key: Option<LessSafeKey>,
    random: SystemRandom,
    /// Keys that nothing is sealed with any more once the next write is done.
    outdated: Vec<u64>,
    /// Keys that a killed daemon left were looked for.
    is_swept: bool,
}

impl Seal {
    /// The seal of a session whose keys are files in `dir`.
    pub(super) fn new(dir: &Path, session: &SessionId) -> Self {
        Self {
            dir: dir.to_owned(),
            session: session.clone(),
            number: 0,
            key: None,
            random: SystemRandom::new(),
            outdated: Vec::new(),
            is_swept: false,
        }
    }

    /// Seals bytes; nothing stays nothing, and what is sealed stays as it is.
    pub(super) fn seal(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        if bytes.is_empty() || bytes.starts_with(MAGIC) {
            return Ok(bytes.to_vec());
        }
        if self.key.is_none() {
            self.make_key()?;
        }
        let mut nonce = [0; NONCE_LEN];
        self.random.fill(&mut nonce).map_err(unsealable)?;
        let Some(key) = &self.key else { return Err(io::ErrorKind::NotFound.into()) };
        let mut sealed = Vec::with_capacity(bytes.len() + 64);
        let head = MAGIC.len() + 8 + NONCE_LEN;
        sealed.extend_from_slice(MAGIC);
        sealed.extend_from_slice(&self.number.to_le_bytes());
        sealed.extend_from_slice(&nonce);
        let mut body = bytes.to_vec();
        let aad = Aad::from(self.session.as_str().as_bytes());
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut body)
            .map_err(unsealable)?;
        sealed.extend_from_slice(&body);
        debug_assert!(sealed.len() > head);
        Ok(sealed)
    }

    /// Returns whether bytes are sealed already.
    pub(super) fn is_sealed(bytes: &[u8]) -> bool {
        bytes.starts_with(MAGIC)
    }

    /// Seals a text.
    pub(super) fn seal_text(&mut self, text: &str) -> io::Result<String> {
        let sealed = self.seal(text.as_bytes())?;
        Ok(if sealed.is_empty() {
            String::new()
        } else {
            TEXT_MAGIC.to_owned() + &STANDARD_NO_PAD.encode(sealed)
        })
    }

    /// Opens what was sealed. What an earlier version stored in the clear is returned as it is.
    pub(super) fn open(&mut self, stored: &[u8]) -> io::Result<Vec<u8>> {
        let Some(rest) = stored.strip_prefix(MAGIC) else { return Ok(stored.to_vec()) };
        let cut = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let (number, rest) = rest.split_first_chunk::<8>().ok_or_else(cut)?;
        let (nonce, body) = rest.split_first_chunk::<NONCE_LEN>().ok_or_else(cut)?;
        let number = u64::from_le_bytes(*number);
        if self.number != number || self.key.is_none() {
            let key = read_key(&self.path(number))?;
            // The newest one is gone on with.
            if number >= self.number {
                (self.number, self.key) = (number, Some(key));
            } else {
                return self.open_with(&key, *nonce, body);
            }
        }
        match &self.key {
            Some(key) => self.open_with(key, *nonce, body),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn open_with(&self, key: &LessSafeKey, nonce: [u8; NONCE_LEN], body: &[u8]) -> io::Result<Vec<u8>> {
        let mut body = body.to_vec();
        let aad = Aad::from(self.session.as_str().as_bytes());
        let open = key.open_in_place(Nonce::assume_unique_for_key(nonce), aad, &mut body);
        let length = open.map_err(unsealable)?.len();
        body.truncate(length);
        Ok(body)
    }

    /// Opens a text.
    pub(super) fn open_text(&mut self, stored: &str) -> io::Result<String> {
        let Some(sealed) = stored.strip_prefix(TEXT_MAGIC) else { return Ok(stored.to_owned()) };
        let sealed = STANDARD_NO_PAD.decode(sealed).map_err(io::Error::other)?;
        String::from_utf8(self.open(&sealed)?).map_err(io::Error::other)
    }

    /// Begins with another key; everything that still counts must be sealed anew by the next write.
    pub(super) fn replace_key(&mut self) -> io::Result<()> {
        if self.key.is_none() {
            return Ok(());
        }
        let former = self.number;
        self.make_key()?;
        self.outdated.push(former);
        Ok(())
    }

    /// Removes former keys once the next write is done. The first time, also those whose daemon was killed between its
    /// write and their removal: what is stored was sealed with the key in use.
    pub(super) fn remove_outdated(&mut self) {
        for number in std::mem::take(&mut self.outdated) {
            self.remove(number);
        }
        if !self.is_swept && self.key.is_some() {
            self.is_swept = true;
            self.remove_found(|number| number < self.number);
        }
    }

    /// Looks again for keys that nothing needs: a copy may have made one and was dropped.
    pub(super) fn sweep_again(&mut self) {
        self.is_swept = false;
    }

    /// Removes every key: nothing sealed is needed any more. The daemon may have opened nothing and know no number.
    pub(super) fn remove_all(&mut self) {
        self.outdated.clear();
        if self.key.take().is_some() || !self.is_swept {
            self.is_swept = true;
            self.remove_found(|_| true);
        }
    }

    /// Removes the keys of this session that are found and not needed.
    fn remove_found(&self, unneeded: impl Fn(u64) -> bool) {
        let Ok(entries) = fs::read_dir(&self.dir) else { return };
        for name in entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()) {
            let number = name.strip_suffix(".key").and_then(|name| name.rsplit_once('.'));
            let number = number.filter(|(session, _)| *session == self.session.as_str());
            if let Some(number) = number.and_then(|(_, number)| number.parse().ok()).filter(|n| unneeded(*n))
            {
                self.remove(number);
            }
        }
    }

    fn remove(&self, number: u64) {
        let path = self.path(number);
        if let Err(error) = fs::remove_file(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::error!(path = %path.display(), %error, "cannot remove a key");
        }
    }

    fn path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{}.{number}.key", self.session))
    }

    fn make_key(&mut self) -> io::Result<()> {
        let mut bytes = [0; KEY_LEN];
        self.random.fill(&mut bytes).map_err(unsealable)?;
        let number = self.number + 1;
        fs::create_dir_all(&self.dir)?;
        let path = self.path(number);
        // One that a daemon left which died before it used it.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        file.write_all(&bytes)?;
        (self.number, self.key) = (number, Some(key_of(&bytes)?));
        Ok(())
    }
}

/// Removes the keys of sessions that no former daemon left running.
pub(crate) fn remove_orphans(dir: &Path, needed: impl Fn(&str) -> bool) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let key = name.to_str().and_then(|name| name.strip_suffix(".key")?.rsplit_once('.'));
        if key.is_some_and(|(session, _)| !needed(session)) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Ring says no more than that.
fn unsealable(_: ring::error::Unspecified) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "cannot be sealed or opened")
}

fn read_key(path: &Path) -> io::Result<LessSafeKey> {
    key_of(&fs::read(path)?)
}

fn key_of(bytes: &[u8]) -> io::Result<LessSafeKey> {
    UnboundKey::new(&CHACHA20_POLY1305, bytes).map(LessSafeKey::new).map_err(unsealable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_is_opened_by_the_next_daemon_until_its_key_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let id = SessionId::new("sess_1");
        let mut seal = Seal::new(folder.path(), &id);
        let sealed = seal.seal(b"a secret").unwrap();
        assert!(!sealed.windows(8).any(|window| window == b"a secret"));
        let mut next = Seal::new(folder.path(), &id);
        assert_eq!(next.open(&sealed).unwrap(), b"a secret");
        next.replace_key().unwrap();
        let anew = next.seal(b"another").unwrap();
        assert_eq!(next.open(&sealed).unwrap(), b"a secret", "the write may still fail");
        next.remove_outdated();
        assert!(Seal::new(folder.path(), &id).open(&sealed).is_err());
        assert_eq!(Seal::new(folder.path(), &id).open(&anew).unwrap(), b"another");
        next.remove_all();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn keys_that_a_killed_daemon_left_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let id = SessionId::new("sess_1");
        let keys = || {
            let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
            let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
            names.sort();
            names
        };
        fs::write(folder.path().join("sess_10.1.key"), "another session's").unwrap();
        // Killed twice after a write and before the removal of the key that it replaced.
        let mut killed = Seal::new(folder.path(), &id);
        killed.seal(b"first").unwrap();
        killed.replace_key().unwrap();
        killed.replace_key().unwrap();
        let stored = killed.seal(b"a secret").unwrap();
        assert_eq!(keys().len(), 4);
        let mut next = Seal::new(folder.path(), &id);
        assert_eq!(next.open(&stored).unwrap(), b"a secret");
        next.remove_outdated();
        assert_eq!(keys(), ["sess_1.3.key", "sess_10.1.key"]);
        // Killed before a write: nothing is sealed with the new key. The next daemon finds the agent gone and opens nothing.
        next.replace_key().unwrap();
        Seal::new(folder.path(), &id).remove_all();
        assert_eq!(keys(), ["sess_10.1.key"]);
    }

    #[test]
    fn what_an_earlier_version_stored_is_read_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let mut seal = Seal::new(folder.path(), &SessionId::new("sess_1"));
        assert_eq!(seal.open(b"\x04\0\0\0\0\0\0\0half\0").unwrap(), b"\x04\0\0\0\0\0\0\0half\0");
        assert_eq!(seal.open_text("{}").unwrap(), "{}");
        let text = seal.seal_text("{\"a\":1}").unwrap();
        assert_eq!(seal.open_text(&text).unwrap(), "{\"a\":1}");
    }
}
