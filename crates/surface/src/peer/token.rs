//! The token that lets other users of this machine call over TCP. It is in a file that only we can read, and
//! is read again for every call that needs it, so that replacing or removing the file takes effect at once.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use domain::{Error, ErrorCode};

use super::limits;
use crate::server::folder;

const FILE_NAME: &str = "token";

/// A token in its file.
#[derive(Clone, Debug)]
pub struct Token {
    path: PathBuf,
}

impl Token {
    /// Loads the token from one of our folders, or creates one: 256 random bits in hexadecimal, mode 0600. A
    /// file that others can read or that does not hold a token is rejected, never repaired: another user may
    /// already know it.
    pub fn create_or_load(dir: &Path) -> Result<Self, Error> {
        folder::private(dir, "the token needs a folder of your own")?;
        let token = Self { path: dir.join(FILE_NAME) };
        match token.read() {
            Ok(_) => return Ok(token),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(token.unusable(&error)),
        }
        token.create(dir).map_err(|error| token.unusable(&error))?;
        Ok(token)
    }

    /// Returns the path of the token file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the claimed token is right. Takes as long for a wrong one as for the right one.
    pub fn is(&self, claimed: &[u8]) -> bool {
        match self.read() {
            Ok(token) => equal(token.as_bytes(), claimed),
            Err(error) => {
                tracing::warn!(path = %self.path.display(), %error, "the token cannot be read; nobody has it");
                false
            }
        }
    }

    fn read(&self) -> io::Result<String> {
        let refused = |problem: &str| io::Error::new(io::ErrorKind::InvalidData, problem.to_owned());
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(&self.path)?;
        let found = file.metadata()?;
        if !found.is_file() || found.uid() != host::own_uid() || found.mode() & 0o077 != 0 {
            return Err(refused("it must be a file of yours that nobody else can use"));
        }
        let mut text = String::new();
        file.take(limits::TOKEN_FILE_MAX_BYTES).read_to_string(&mut text)?;
        let token = text.strip_suffix('\n').unwrap_or(&text);
        if token.len() != limits::TOKEN_BYTES * 2 || !token.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(refused("it does not hold a token"));
        }
        Ok(token.to_owned())
    }

    /// Writes a temporary file and links it into place: no reader ever sees half a token, and of two
    /// concurrent writers one wins.
    fn create(&self, dir: &Path) -> io::Result<()> {
        let mut text = random()?;
        text.push('\n');
        let draft = dir.join(format!("{FILE_NAME}.{}", std::process::id()));
        // Left by a process with our id that crashed; no other user can write here.
        let _ = fs::remove_file(&draft);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        let made = file.write_all(text.as_bytes()).and_then(|()| match fs::hard_link(&draft, &self.path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.read().map(drop),
            linked => linked,
        });
        fs::remove_file(&draft)?;
        made
    }

    fn unusable(&self, error: &io::Error) -> Error {
        let message = format!(
            "the token in {} cannot be used: {}; remove the file to get a new one",
            self.path.display(),
            folder::plain(error)
        );
        Error::new(ErrorCode::ConfigInvalid, message)
    }
}

/// Makes a token: random bits in hexadecimal.
pub(super) fn random() -> io::Result<String> {
    Ok(random_bytes()?.iter().map(|byte| format!("{byte:02x}")).collect())
}

pub(super) fn random_bytes() -> io::Result<[u8; limits::TOKEN_BYTES]> {
    let mut random = [0; limits::TOKEN_BYTES];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(random)
}

/// Compares without stopping at the first difference. The length is no secret.
pub(super) fn equal(one: &[u8], other: &[u8]) -> bool {
    let difference =
        one.iter().zip(other).fold(0, |all, (one, other)| std::hint::black_box(all | (one ^ other)));
    one.len() == other.len() && difference == 0
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn home() -> tempfile::TempDir {
        tempfile::Builder::new().permissions(Permissions::from_mode(0o700)).tempdir().unwrap()
    }

    #[test]
    fn a_token_is_made_once_and_kept() {
        let home = home();
        let token = Token::create_or_load(home.path()).unwrap();
        let text = fs::read_to_string(token.path()).unwrap();
        assert_eq!(text.len(), 65);
        assert_eq!(fs::metadata(token.path()).unwrap().mode() & 0o777, 0o600);
        assert!(token.is(text.trim().as_bytes()));
        assert!(Token::create_or_load(home.path()).unwrap().is(text.trim().as_bytes()));
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1, "no draft is left");
        let other = self::home();
        assert!(!Token::create_or_load(other.path()).unwrap().is(text.trim().as_bytes()));
    }

    #[test]
    fn only_the_whole_token_will_do() {
        let home = home();
        let token = Token::create_or_load(home.path()).unwrap();
        let text = fs::read_to_string(token.path()).unwrap().trim().to_owned();
        for wrong in [
            "",
            " ",
            "0",
            &text[1..],
            &text[..63],
            &format!("{text}0"),
            &format!(" {text}"),
            &text.to_uppercase(),
        ] {
            // Upper case equals the token only when it has no letters at all.
            assert!(wrong == text || !token.is(wrong.as_bytes()), "{wrong:?}");
        }
    }

    #[test]
    fn a_replaced_or_removed_token_counts_at_once() {
        let home = home();
        let token = Token::create_or_load(home.path()).unwrap();
        let old = fs::read_to_string(token.path()).unwrap();
        fs::write(token.path(), format!("{}\n", "ab".repeat(32))).unwrap();
        assert!(!token.is(old.trim().as_bytes()));
        assert!(token.is("ab".repeat(32).as_bytes()));
        fs::remove_file(token.path()).unwrap();
        assert!(!token.is("ab".repeat(32).as_bytes()));
        assert!(!token.is(b""));
    }

    #[test]
    fn a_file_that_is_no_safe_token_is_refused() {
        let home = home();
        let path = home.path().join("token");
        for text in ["", "\n", "short\n", &"g".repeat(64), &"a".repeat(65)] {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            assert!(Token::create_or_load(home.path()).is_err(), "{text:?}");
        }
        fs::write(&path, "a".repeat(64)).unwrap();
        Token::create_or_load(home.path()).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        assert_eq!(Token::create_or_load(home.path()).unwrap_err().code, ErrorCode::ConfigInvalid);
        fs::rename(&path, home.path().join("real")).unwrap();
        std::os::unix::fs::symlink(home.path().join("real"), &path).unwrap();
        assert!(Token::create_or_load(home.path()).is_err());
    }
}
