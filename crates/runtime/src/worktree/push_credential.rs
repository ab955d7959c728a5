//! Hands a password to git without an argument, a variable or a file: through a pipe in a folder that only this user can enter,
//! to a helper that git asks for one server only. Knows no server.

use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;

use domain::Error;
use host::ids;
use rustix::fs::{CWD, FileType, Mode};

use super::git;

/// How often git may ask: it asks once, and again if a connection was lost.
const ASKED_AT_MOST: usize = 3;

/// What git proves itself with at a server.
#[derive(Clone, PartialEq, Eq)]
pub struct PushCredential {
    /// Scheme, host and port: whom it may be shown to.
    pub server: String,
    pub username: String,
    pub password: String,
    /// Certificates for the server, where the machine's are not enough.
    pub ca_file: Option<PathBuf>,
}

impl fmt::Debug for PushCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushCredential").field("server", &self.server).finish_non_exhaustive()
    }
}

/// A credential that git can ask for; taken back when dropped.
pub(super) struct HandedCredential {
    folder: PathBuf,
    /// Holds what was written until somebody reads it.
    _pipe: File,
    /// The configuration that makes git ask, without the password.
    pub(super) config: Vec<(String, String)>,
}

impl HandedCredential {
    pub(super) fn new(credential: &PushCredential) -> Result<Self, Error> {
        let unusable =
            |error: std::io::Error| git::failed(&format!("the token cannot be handed to git: {error}"));
        let folder = std::env::temp_dir().join(format!("obey-push-{}", ids::unique()));
        DirBuilder::new().mode(0o700).create(&folder).map_err(unusable)?;
        let path = folder.join("password");
        let made = rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0);
        // Open for both: nobody waits for the other end, and what is written stays while it is open.
        let pipe = made
            .map_err(std::io::Error::from)
            .and_then(|()| OpenOptions::new().read(true).write(true).open(&path))
            .and_then(|mut pipe| {
                pipe.write_all(format!("{}\n", credential.password).repeat(ASKED_AT_MOST).as_bytes())?;
                Ok(pipe)
            });
        let pipe = match pipe {
            Ok(pipe) => pipe,
            Err(error) => {
                // Whatever was made of it.
                let _ = std::fs::remove_dir_all(&folder);
                return Err(unusable(error));
            }
        };
        let quoted = path.display().to_string().replace('\'', "'\\''");
        let helper = format!(
            "!f() {{ test \"$1\" = get || exit 0; IFS= read -r password < '{quoted}'; echo \"username={}\"; echo \
             \"password=$password\"; }}; f",
            credential.username
        );
        let key = |name: &str| format!("credential.{}.{name}", credential.server);
        // An empty one first: no helper of the user is asked, nor told to keep this password.
        let mut config = vec![(key("helper"), String::new()), (key("helper"), helper)];
        if let Some(file) = &credential.ca_file {
            config.push((format!("http.{}.sslCAInfo", credential.server), file.display().to_string()));
        }
        Ok(Self { folder, _pipe: pipe, config })
    }
}

impl Drop for HandedCredential {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            tracing::warn!(%error, folder = %self.folder.display(), "cannot be removed");
        }
    }
}
