//! The tools of agents that live in the daemon, and of programs that ask their client for files and commands: the
//! workbench, bound to a session's root. Opened with its first use; trying the sandbox takes a moment.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use domain::{Error, ErrorCode, SessionId, SessionSpec};
use runtime::toolbox::{Done, Offer, Task, Toolbox, Tools, Work};
use surfaces::contextd::Opening;
use workbench::{Edit, Exec, Project, ProjectRules, Read, Search, Workbench, Write};

use crate::daemon::BenchTools;

/// The workbench's operations by name, once the daemon serves them; never, where nobody put any in.
pub(crate) type Operations = Arc<OnceLock<BenchTools>>;

/// Hands the workbench out, session by session.
pub(crate) struct Workshop {
    pub(crate) opener: Arc<dyn Opening>,
    pub(crate) operations: Operations,
}

impl Toolbox for Workshop {
    fn open(&self, spec: &SessionSpec) -> Arc<dyn Tools> {
        Arc::new(Desk {
            opener: Arc::clone(&self.opener),
            operations: Arc::clone(&self.operations),
            session: spec.id.clone(),
            root: spec.root.clone(),
            folder: spec.working_dir.clone(),
        })
    }
}

/// The tools of one session.
#[derive(Clone)]
struct Desk {
    opener: Arc<dyn Opening>,
    operations: Operations,
    session: SessionId,
    root: PathBuf,
    folder: PathBuf,
}

impl Tools for Desk {
    fn perform(&self, task: Task) -> Work<Done> {
        let desk = self.clone();
        Box::pin(async move { desk.carry_out(task).await })
    }

    fn offers(&self) -> Vec<Offer> {
        self.operations.get().map(BenchTools::offers).unwrap_or_default()
    }
}

impl Desk {
    async fn carry_out(&self, task: Task) -> Result<Done, Error> {
        let said = |output: String| Done { ok: true, output, exit_code: None };
        if let Task::Call { tool, arguments } = task {
            let operations = self.operations.get();
            let operations = operations.ok_or_else(|| Error::invalid("tool", "nothing is offered here"))?;
            return operations.call(&self.session, &tool, arguments).await.map(said);
        }
        let bench = &*self.opener.bench().await?;
        // A project's own rules could switch the scrubber off, and nobody has looked at them.
        let project = bench.project(&self.root, ProjectRules::Ignored)?;
        match task {
            Task::Read { path, first_line, lines, raw } => {
                self.read(bench, &project, &path, (first_line, lines), raw).await.map(said)
            }
            Task::Write { path, content } => {
                let write = Write { path: self.absolute(&path)?, content, append: false };
                bench.write(&project, write).await.map(|answer| said(answer.summary))
            }
            Task::Edit { path, old, new, all } => {
                let edit = Edit { path: self.absolute(&path)?, old, new, all };
                bench.edit(&project, edit).await.map(said)
            }
            Task::List { path } => bench.list(&project, self.absolute(&path)?).await.map(said),
            Task::Search { pattern, path, files } => {
                let search = Search { pattern, path: self.absolute(&path)?, files };
                bench.search(&project, search).await.map(said)
            }
            Task::Run { command, environment, folder, timeout } => {
                let exec = Exec { command, working_dir: self.absolute(&folder)?, timeout, env: environment };
                self.run(bench, &project, exec).await
            }
            Task::Call { .. } => Err(Error::invalid("tool", "nothing is offered here")),
        }
    }

    async fn read(
        &self,
        bench: &Workbench,
        project: &Project,
        path: &str,
        (first_line, lines): (u64, u64),
        raw: bool,
    ) -> Result<String, Error> {
        let path = self.absolute(path)?;
        if raw {
            let text = bench.read_raw(project, path).await?;
            if first_line <= 1 && lines == 0 {
                return Ok(text);
            }
            let most = if lines == 0 { usize::MAX } else { usize::try_from(lines).unwrap_or(usize::MAX) };
            let skipped = usize::try_from(first_line.saturating_sub(1)).unwrap_or(usize::MAX);
            return Ok(text.split_inclusive('\n').skip(skipped).take(most).collect());
        }
        let answer =
            bench.read(&self.session, project, Read { path, offset: first_line, limit: lines }).await?;
        if answer.binary {
            return Ok(answer.summary);
        }
        self.whole(bench, answer.content.ref_id).await
    }

    async fn run(&self, bench: &Workbench, project: &Project, exec: Exec) -> Result<Done, Error> {
        let answer = bench.exec(&self.session, project, exec).await?;
        let mut output = self.whole(bench, answer.stdout.ref_id).await?;
        let errors = self.whole(bench, answer.stderr.ref_id).await?;
        if !errors.is_empty() {
            if !output.is_empty() && !output.ends_with('\n') {
                output.push('\n');
            }
            output.push_str(&errors);
        }
        if answer.exit_code != 0 || output.is_empty() {
            let newline = if output.is_empty() || output.ends_with('\n') { "" } else { "\n" };
            output.push_str(&format!("{newline}{}", answer.summary));
        }
        Ok(Done { ok: answer.exit_code == 0, output, exit_code: Some(answer.exit_code) })
    }

    /// Returns all of an output that was stored.
    async fn whole(&self, bench: &Workbench, ref_id: Option<String>) -> Result<String, Error> {
        match ref_id {
            None => Ok(String::new()),
            Some(id) => bench.content(Some(&self.session), &id, 0).await.map(|answer| answer.content),
        }
    }

    /// Returns a path that the workbench understands: its paths begin at the root, an agent's in the working folder.
    fn absolute(&self, path: &str) -> Result<String, Error> {
        let joined = if path.is_empty() { self.folder.clone() } else { self.folder.join(path) };
        let plain = plain(&joined);
        plain.to_str().map(str::to_owned).ok_or_else(|| {
            Error::new(ErrorCode::InvalidArgument, "path: the project's folder has a name that is not UTF-8")
        })
    }
}

/// Takes `.` and `..` out of a path by its words alone; the workbench follows links and refuses what leads out.
fn plain(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use surfaces::contextd::Bench;

    use super::*;

    /// A workbench nobody may open.
    struct Closed;

    impl Opening for Closed {
        fn bench(&self) -> Bench<'_> {
            Box::pin(async { Err(Error::new(ErrorCode::StorageFailed, "closed")) })
        }
    }

    #[test]
    fn paths_begin_in_the_working_folder() {
        let opener = Arc::new(Closed);
        let (root, folder) = (PathBuf::from("/p"), PathBuf::from("/p/sub"));
        let operations = Operations::default();
        let desk = Desk { opener, operations, session: SessionId::new("sess_a"), root, folder };
        for (path, absolute) in [
            ("", "/p/sub"),
            ("a", "/p/sub/a"),
            ("../b", "/p/b"),
            ("/p/c", "/p/c"),
            ("../../etc", "/etc"),
            (".", "/p/sub"),
        ] {
            assert_eq!(desk.absolute(path).unwrap(), absolute);
        }
    }
}
