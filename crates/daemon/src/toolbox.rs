//! The tools of in-process agents, and of programs that ask their client for files and commands: the
//! workbench, bound to a session's root. Opened on first use, because probing the sandbox takes a moment.
//! Everything done with them is audited.

mod record;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use agent_port::toolbox::{
    ExternalToolCall, OfferedTool, RunningOutput, SessionToolbox, SessionTools, StopSignal, ToolOutput,
    ToolTask, Work,
};
use domain::{Error, ErrorCode, SessionId, SessionSpec};
use runtime::permissions;
use runtime::settings::Settings;
use surface_contextd::OpenWorkbench;
use workbench::answer::OutputWatcher;
use workbench::{Edit, Exec, FileSearch, HiddenFiles, Project, ProjectRules, Read, Workbench, Write};

use record::Record;

use crate::DaemonTools;

/// The daemon's tools, once it serves them; never set in other processes.
pub type Operations = Arc<OnceLock<DaemonTools>>;

/// Provides the workbench to sessions.
pub struct WorkbenchToolbox {
    pub lazy_workbench: Arc<dyn OpenWorkbench>,
    /// Some of its rules restrict what may be read.
    pub settings: Settings,
    pub operations: Operations,
}

impl SessionToolbox for WorkbenchToolbox {
    fn open(&self, spec: &SessionSpec) -> Arc<dyn SessionTools> {
        Arc::new(WorkbenchSessionTools {
            lazy_workbench: Arc::clone(&self.lazy_workbench),
            settings: self.settings.clone(),
            operations: Arc::clone(&self.operations),
            session: spec.id.clone(),
            allows_workers: spec.workers > 0,
            root: runtime::containment::root_of_tools(spec).to_owned(),
            folder: spec.working_dir.clone(),
        })
    }
}

/// The tools of one session.
#[derive(Clone)]
struct WorkbenchSessionTools {
    lazy_workbench: Arc<dyn OpenWorkbench>,
    settings: Settings,
    operations: Operations,
    session: SessionId,
    allows_workers: bool,
    root: PathBuf,
    folder: PathBuf,
}

/// The result of a task, for the agent and for the audit.
struct Outcome {
    done: ToolOutput,
    summary: String,
    /// The sandbox tier of a command.
    tier: &'static str,
    secrets: u64,
}

impl Outcome {
    fn success(output: String, summary: String) -> Self {
        Self { done: ToolOutput { ok: true, output, exit_code: None }, summary, tier: "", secrets: 0 }
    }
}

impl SessionTools for WorkbenchSessionTools {
    fn perform(&self, task: ToolTask) -> Work<ToolOutput> {
        let desk = self.clone();
        Box::pin(async move { desk.carry_out(task, std::future::pending(), None).await })
    }

    fn perform_until(&self, task: ToolTask, stop: StopSignal) -> Work<ToolOutput> {
        let desk = self.clone();
        Box::pin(async move { desk.carry_out(task, stop.wait(), None).await })
    }

    fn perform_watched(&self, task: ToolTask, stop: StopSignal, output: RunningOutput) -> Work<ToolOutput> {
        let desk = self.clone();
        Box::pin(async move {
            let watcher: OutputWatcher = Arc::new(move |piece| output.push(piece));
            desk.carry_out(task, stop.wait(), Some(watcher)).await
        })
    }

    fn noted(&self, call: ExternalToolCall, work: Work<ToolOutput>) -> Work<ToolOutput> {
        let desk = self.clone();
        Box::pin(async move {
            let workbench = desk.lazy_workbench.workbench().await?;
            let record = Record::of_call(workbench, &desk.session, &call);
            let outcome = work.await.map(|done| {
                let how = if done.ok { "Called" } else { "Failed" };
                let summary = format!("{how}: {} bytes", done.output.len());
                Outcome { done, ..Outcome::success(String::new(), summary) }
            });
            record.end(&outcome).await?;
            outcome.map(|outcome| outcome.done)
        })
    }

    fn offers(&self) -> Arc<[OfferedTool]> {
        self.operations.get().map(|tools| tools.offers(self.allows_workers)).unwrap_or_default()
    }
}

impl WorkbenchSessionTools {
    /// Executes a task and audits it. A result that cannot be audited is not returned.
    async fn carry_out(
        &self,
        task: ToolTask,
        stop: impl Future<Output = ()> + Send,
        watcher: Option<OutputWatcher>,
    ) -> Result<ToolOutput, Error> {
        if let ToolTask::Call { tool, arguments } = task {
            // Operations write their own audit entries.
            let operations = self.operations.get();
            let operations = operations.ok_or_else(|| Error::invalid("tool", "nothing is offered here"))?;
            return operations.call(&self.session, &tool, arguments).await;
        }
        let workbench = self.lazy_workbench.workbench().await?;
        let record = Record::begin(Arc::clone(&workbench), &self.session, &task);
        // A project's own rules could switch the scrubber off, and the user has not reviewed them.
        let outcome = match workbench.project(&self.root, ProjectRules::Ignored) {
            Ok(project) => self.work(&workbench, &project, task, (stop, watcher)).await,
            Err(error) => Err(error),
        };
        record.end(&outcome).await?;
        outcome.map(|outcome| outcome.done)
    }

    /// Executes a task with the workbench.
    async fn work(
        &self,
        workbench: &Workbench,
        project: &Project,
        task: ToolTask,
        watched: (impl Future<Output = ()> + Send, Option<OutputWatcher>),
    ) -> Result<Outcome, Error> {
        match task {
            ToolTask::Read { path, first_line, lines, raw } => {
                self.read(workbench, project, &path, (first_line, lines), raw).await
            }
            ToolTask::Write { path, content } => {
                let write = Write { path: self.absolute(&path)?, content, append: false };
                workbench
                    .write(project, write)
                    .await
                    .map(|answer| Outcome::success(answer.summary.clone(), answer.summary))
            }
            ToolTask::Edit { path, old, new, all } => {
                let edit = Edit { path: self.absolute(&path)?, old, new, all };
                workbench.edit(project, edit).await.map(|said| Outcome::success(said.clone(), said))
            }
            ToolTask::List { path } => {
                let output = workbench.list(project, self.absolute(&path)?).await?;
                let summary = format!("Listed: {} entries", output.lines().count());
                Ok(Outcome::success(output, summary))
            }
            ToolTask::Search { pattern, path, files } => {
                let hidden = HiddenFiles::where_true(permissions::unreadable(
                    &self.settings,
                    &self.folder,
                    &self.root,
                ));
                let search = FileSearch { pattern, path: self.absolute(&path)?, files, hidden };
                let output = workbench.search(project, search).await?;
                let summary = format!("Searched: {} lines", output.lines().count());
                Ok(Outcome::success(output, summary))
            }
            ToolTask::Run { command, environment, folder, timeout } => {
                let exec = Exec { command, working_dir: self.absolute(&folder)?, timeout, env: environment };
                self.run(workbench, project, exec, watched).await
            }
            ToolTask::Call { .. } => Err(Error::invalid("tool", "nothing is offered here")),
        }
    }

    /// Reads a file: unchanged if `raw`, otherwise with secrets removed.
    async fn read(
        &self,
        workbench: &Workbench,
        project: &Project,
        path: &str,
        (first_line, lines): (u64, u64),
        raw: bool,
    ) -> Result<Outcome, Error> {
        let path = self.absolute(path)?;
        if raw {
            let text = workbench.read_raw(project, path).await?;
            let summary = format!("Read: {} bytes, as they are", text.len());
            if first_line <= 1 && lines == 0 {
                return Ok(Outcome::success(text, summary));
            }
            let most = if lines == 0 { usize::MAX } else { usize::try_from(lines).unwrap_or(usize::MAX) };
            let skipped = usize::try_from(first_line.saturating_sub(1)).unwrap_or(usize::MAX);
            let part = text.split_inclusive('\n').skip(skipped).take(most).collect();
            return Ok(Outcome::success(part, summary));
        }
        let answer =
            workbench.read(&self.session, project, Read { path, offset: first_line, limit: lines }).await?;
        let secrets = answer.content.findings.total();
        let output = match answer.binary {
            true => answer.summary.clone(),
            false => self.whole(workbench, answer.content.ref_id).await?,
        };
        Ok(Outcome { secrets, ..Outcome::success(output, answer.summary) })
    }

    /// Runs a command until it ends or is stopped, and returns its whole output.
    async fn run(
        &self,
        workbench: &Workbench,
        project: &Project,
        exec: Exec,
        (stop, watcher): (impl Future<Output = ()> + Send, Option<OutputWatcher>),
    ) -> Result<Outcome, Error> {
        let answer = workbench.exec_watched(&self.session, project, exec, stop, watcher).await?;
        let secrets = answer.stdout.findings.total() + answer.stderr.findings.total();
        let mut output = self.whole(workbench, answer.stdout.ref_id).await?;
        let errors = self.whole(workbench, answer.stderr.ref_id).await?;
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
        let done = ToolOutput { ok: answer.exit_code == 0, output, exit_code: Some(answer.exit_code) };
        Ok(Outcome { done, summary: answer.summary, tier: answer.tier.name(), secrets })
    }

    /// Returns all of a stored output.
    async fn whole(&self, workbench: &Workbench, ref_id: Option<String>) -> Result<String, Error> {
        match ref_id {
            None => Ok(String::new()),
            Some(id) => workbench.content(Some(&self.session), &id, 0).await.map(|answer| answer.content),
        }
    }

    /// Converts a path for the workbench: its paths are relative to the root, an agent's to the working
    /// folder.
    fn absolute(&self, path: &str) -> Result<String, Error> {
        let joined = if path.is_empty() { self.folder.clone() } else { self.folder.join(path) };
        let plain = plain(&joined);
        plain.to_str().map(str::to_owned).ok_or_else(|| {
            Error::new(ErrorCode::InvalidArgument, "path: the project's folder has a name that is not UTF-8")
        })
    }
}

/// Removes `.` and `..` lexically; the workbench resolves links and rejects paths that lead outside.
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
    use surface_contextd::WorkbenchFuture;

    use super::*;

    /// A workbench that must not be opened.
    struct Closed;

    impl OpenWorkbench for Closed {
        fn workbench(&self) -> WorkbenchFuture<'_> {
            Box::pin(async { Err(Error::new(ErrorCode::StorageFailed, "closed")) })
        }
    }

    #[test]
    fn paths_begin_in_the_working_folder() {
        let lazy_workbench = Arc::new(Closed);
        let (root, folder) = (PathBuf::from("/p"), PathBuf::from("/p/sub"));
        let (settings, session) = (Settings::default(), SessionId::new("sess_a"));
        let operations = Operations::default();
        let desk = WorkbenchSessionTools {
            lazy_workbench,
            settings,
            operations,
            session,
            allows_workers: false,
            root,
            folder,
        };
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
