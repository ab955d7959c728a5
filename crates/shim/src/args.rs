//! Parses the arguments after `obey shim`. Written by the daemon, not by people, hence strict and small. Must
//! not touch the system.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use crate::confine::Confinement;
use crate::limits::{LINGER_DEFAULT, SPOOL_BYTES_DEFAULT};

/// What to hold, and where.
pub(crate) struct Args {
    pub(crate) dir: PathBuf,
    pub(crate) cwd: CString,
    pub(crate) linger: Duration,
    pub(crate) spool_max: u64,
    pub(crate) confinement: Confinement,
    /// The program and its arguments; never empty.
    pub(crate) command: Vec<CString>,
}

impl Args {
    /// Parses the arguments; the error says which one is wrong.
    pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Args, String> {
        let mut words = words.into_iter();
        let (mut dir, mut cwd) = (None, None);
        let (mut linger, mut spool_max) = (LINGER_DEFAULT, SPOOL_BYTES_DEFAULT);
        let mut confinement = Confinement::default();
        loop {
            let Some(word) = words.next() else { return Err("no program given after --".into()) };
            let mut value = || words.next().ok_or_else(|| format!("{} needs a value", word.display()));
            match word.as_bytes() {
                b"--" => break,
                b"--dir" => dir = Some(PathBuf::from(value()?)),
                b"--cwd" => cwd = Some(c_string(value()?)?),
                b"--linger-secs" => linger = Duration::from_secs(number(&value()?)?),
                b"--spool-max" => spool_max = number(&value()?)?,
                b"--group-folder" => confinement.group_folder = Some(PathBuf::from(value()?)),
                b"--group-threads" => confinement.thread_files.push(PathBuf::from(value()?)),
                b"--data-max" => confinement.data_bytes = Some(number(&value()?)?),
                b"--processes-max" => confinement.processes = Some(number(&value()?)?),
                b"--cpus-max" => confinement.cpus = Some(number(&value()?)?),
                _ => return Err(format!("unknown option {}", word.display())),
            }
        }
        let command = words.map(c_string).collect::<Result<Vec<_>, _>>()?;
        if command.is_empty() {
            return Err("no program given after --".into());
        }
        let dir = dir.ok_or("--dir is missing")?;
        let cwd = cwd.ok_or("--cwd is missing")?;
        Ok(Args { dir, cwd, linger, spool_max, confinement, command })
    }
}

fn c_string(word: OsString) -> Result<CString, String> {
    CString::new(word.into_vec()).map_err(|_| "a word contains a zero byte".into())
}

fn number(word: &OsString) -> Result<u64, String> {
    word.to_str()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| format!("{} is not a number", word.display()))
}
