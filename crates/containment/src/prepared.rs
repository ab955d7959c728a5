//! State that an agent's program would make anew at every start in the sandbox, where its own folder is empty: SQLite files, a third
//! of Codex' start. They are made once for each version of the program, by the program itself, in a sandbox without a network, a
//! project or credentials; so that they hold nothing of any session. Later agents get copies of them. Without them an agent starts as
//! well, only later.

use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agent_port::PreparedState;
use sandbox::agent::{CopiedFile, Mount, Reach, WORD, Walls};

use crate::limits;
use agent_process::short_command::ShortCommand;

/// What the files end with.
const SQLITE: &str = "sqlite";

/// A folder in which somebody began to prepare is taken over when it is this old: whoever began is gone.
const ABANDONED: Duration = Duration::from_secs(600);

/// How the state of one program is made.
#[derive(Debug)]
pub struct Preparation {
    state: PreparedState,
    program: PathBuf,
    /// What the program needs to run.
    installed: Vec<Mount>,
    home: PathBuf,
    path: std::ffi::OsString,
    /// Where the finished files are.
    finished: PathBuf,
}

impl Preparation {
    pub(super) fn new(
        state: PreparedState,
        program: &Path,
        installed: Vec<Mount>,
        (home, path): (&Path, &OsStr),
    ) -> Self {
        let finished = state.cache.join(format!("prepared-{}", version(program)));
        Self {
            state,
            program: program.to_owned(),
            installed,
            home: home.to_owned(),
            path: path.to_owned(),
            finished,
        }
    }

    /// Adds the files to what an agent gets copies of; returns itself where there are none yet.
    pub(super) fn add_to(self, copies: &mut Vec<CopiedFile>) -> Option<Self> {
        let Ok(files) = sqlite_files(&self.finished) else { return Some(self) };
        copies.extend(files.into_iter().filter_map(|from| {
            let path = self.state.folder.join(from.file_name()?);
            Some(CopiedFile { path, only: None, from: Some(from) })
        }));
        None
    }

    /// Makes the files. Another daemon or session that does so at the same time is left to it.
    pub async fn make(self, own_program: PathBuf) {
        let work = self.finished.with_extension("new");
        match begin(&work) {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                tracing::debug!(folder = %work.display(), %error, "cannot prepare the state of agents");
                return;
            }
        }
        let made = match self.run(&work, &own_program).await {
            Ok(()) => self.finish(&work),
            Err(error) => Err(error),
        };
        if let Err(error) = made {
            tracing::warn!(program = %self.program.display(), %error, "the state of agents was not prepared");
        }
        // What is left is of no use; the next one begins anew.
        let _ = std::fs::remove_dir_all(&work);
    }

    /// Runs the program until it has answered, then lets it end.
    async fn run(&self, work: &Path, own_program: &Path) -> io::Result<()> {
        let folder = home_in(work);
        let file = work.join("walls.json");
        let mut mounts = self.installed.clone();
        mounts.push(Mount::same(folder.clone(), true));
        let walls = Walls {
            working_dir: folder.clone(),
            home: self.home.clone(),
            private: Vec::new(),
            mounts,
            copies: Vec::new(),
            protected: Vec::new(),
            reach: Reach::Nothing,
            endpoints: Vec::new(),
            daemon: None,
        };
        serde_json::to_writer(std::fs::File::create_new(&file)?, &walls)?;
        let words = [OsStr::new(WORD), file.as_os_str(), OsStr::new("--"), self.program.as_os_str()];
        let variable = |name: &str, value: &OsStr| (name.into(), value.to_owned());
        let command = ShortCommand {
            program: own_program.to_owned(),
            args: words.into_iter().map(OsStr::to_owned).chain(self.state.args.iter().cloned()).collect(),
            env: vec![
                variable("PATH", &self.path),
                variable("HOME", self.home.as_os_str()),
                variable(self.state.variable, folder.as_os_str()),
            ],
            cwd: work.to_owned(),
            wait: limits::PREPARE_WAIT,
            output_max_bytes: limits::PREPARE_ANSWER_MAX_BYTES,
            writes_below: None,
        };
        let answer = command.ask(&self.state.input).await.map_err(io::Error::other)?;
        if answer.is_empty() { Err(io::Error::other("the program did not answer")) } else { Ok(()) }
    }

    /// Keeps the SQLite files, complete without their logs, under their final name.
    fn finish(&self, work: &Path) -> io::Result<()> {
        let ready = work.join("ready");
        std::fs::create_dir(&ready)?;
        for file in sqlite_files(&home_in(work))? {
            fold_log(&file).map_err(io::Error::other)?;
            let name = file.file_name().unwrap_or_default();
            std::fs::rename(&file, ready.join(name))?;
        }
        std::fs::rename(&ready, &self.finished)?;
        self.remove_older();
        Ok(())
    }

    /// Removes what was prepared for other versions of a program in the same place.
    fn remove_older(&self) {
        let older = std::fs::read_dir(&self.state.cache).into_iter().flatten().flatten();
        for entry in older.filter(|entry| is_prepared(&entry.file_name()) && entry.path() != self.finished) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// The folder in which the program runs.
fn home_in(work: &Path) -> PathBuf {
    work.join("home")
}

fn is_prepared(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("prepared-") && !name.ends_with(".new")
}

/// Tells one installed version of a program from another without running it.
fn version(program: &Path) -> String {
    let mut hasher = DefaultHasher::new();
    program.hash(&mut hasher);
    if let Ok(meta) = program.metadata() {
        (meta.len(), meta.modified().ok()).hash(&mut hasher);
    }
    format!("{:016x}", hasher.finish())
}

/// Makes the folder to work in; `false` if somebody else works there.
fn begin(work: &Path) -> io::Result<bool> {
    let private = |path: &Path| std::fs::DirBuilder::new().mode(0o700).create(path);
    if let Some(cache) = work.parent() {
        std::fs::DirBuilder::new().mode(0o700).recursive(true).create(cache)?;
    }
    match private(work) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let age = work.metadata()?.modified()?.elapsed().unwrap_or_default();
            if age < ABANDONED {
                return Ok(false);
            }
            std::fs::remove_dir_all(work)?;
            private(work)?;
        }
        other => other?,
    }
    private(&home_in(work))?;
    Ok(true)
}

fn sqlite_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    let files = entries.into_iter().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    let files = files.map(|entry| entry.path());
    Ok(files.filter(|path| path.extension() == Some(OsStr::new(SQLITE))).collect())
}

/// Moves the log of a SQLite file, which nobody has open, into the file.
fn fold_log(file: &Path) -> rusqlite::Result<()> {
    let connection = rusqlite::Connection::open(file)?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    connection.close().map_err(|(_, error)| error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preparation(cache: &Path, program: &Path) -> Preparation {
        let state = PreparedState {
            folder: "/home/u/.agent".into(),
            variable: "AGENT_HOME",
            cache: cache.to_owned(),
            ..PreparedState::default()
        };
        Preparation::new(state, program, Vec::new(), (Path::new("/home/u"), OsStr::new("/usr/bin")))
    }

    #[test]
    fn prepared_files_are_complete_and_each_version_has_its_own() {
        let temp = tempfile::tempdir().unwrap();
        let program = temp.path().join("program");
        std::fs::write(&program, "one").unwrap();
        let first = preparation(temp.path(), &program);
        let work = first.finished.with_extension("new");
        assert!(begin(&work).unwrap());
        assert!(!begin(&work).unwrap(), "somebody works there");
        let file = home_in(&work).join("state_5.sqlite");
        let connection = rusqlite::Connection::open(&file).unwrap();
        connection
            .execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t(a); INSERT INTO t VALUES (7);")
            .unwrap();
        // A connection that ends without closing leaves its log behind, as programs that are killed do.
        let log = std::fs::read(file.with_extension("sqlite-wal")).unwrap();
        drop(connection);
        std::fs::write(file.with_extension("sqlite-wal"), log).unwrap();
        std::fs::write(home_in(&work).join("installation_id"), "not for others").unwrap();
        first.finish(&work).unwrap();
        let mut copies = Vec::new();
        let finished = first.finished.clone();
        assert!(first.add_to(&mut copies).is_none());
        let from = finished.join("state_5.sqlite");
        let wanted =
            CopiedFile { path: "/home/u/.agent/state_5.sqlite".into(), only: None, from: Some(from.clone()) };
        assert_eq!(copies, [wanted]);
        let read = rusqlite::Connection::open(&from).unwrap();
        assert_eq!(read.query_row("SELECT a FROM t", [], |row| row.get::<_, i64>(0)).unwrap(), 7);
        std::fs::write(&program, "another version").unwrap();
        let second = preparation(temp.path(), &program);
        assert_ne!(second.finished, finished);
        assert!(second.add_to(&mut Vec::new()).is_some());
    }
}
