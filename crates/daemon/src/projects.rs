//! The workbench's operations as tools for the user's own clients: editors and agents that the user started.
//! Each project has one session of the workbench, started on first use. No permissions are requested here,
//! because the client itself asks the user.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::{Error, ErrorCode};
use serde_json::{Map, Value, json};
use surface::asking::Asking;
use surface::peer::Caller;
use surface_contextd::operations::{Operation, operation};
use surface_contextd::{self, Contextd};
use surface_mcp::{BridgeOutput, BridgeTool, ProjectTools};

use super::tools::is_read_only;
use crate::limits;

/// The session starts automatically, so this operation is not offered.
const START: &str = "Session.Start";
const END: &str = "Session.End";

/// The tools, and their sessions.
pub(super) struct Projects {
    contextd: Contextd,
    /// For clients that name no project.
    usual: Option<PathBuf>,
    /// Only a cache: a missing session is started again.
    sessions: Mutex<HashMap<PathBuf, String>>,
}

impl Projects {
    pub(super) fn new(contextd: Contextd, usual: Option<PathBuf>) -> Self {
        Self { contextd, usual, sessions: Mutex::default() }
    }

    fn folder(&self, project: Option<&Path>) -> Result<PathBuf, Error> {
        project.map(Path::to_owned).or_else(|| self.usual.clone()).ok_or_else(|| {
            Error::invalid(
                "project",
                "is required, as in /mcp?project=/path/to/project: this daemon has no usual one",
            )
        })
    }

    /// Starts a session; returns its id and the instructions for the client.
    async fn start(&self, folder: &Path) -> Result<(String, String), Error> {
        let mut input = Map::new();
        input.insert("project_path".to_owned(), json!(folder));
        let answer = self.contextd.call(known(START)?, Caller::User, input, Asking::Unnamed).await?;
        let text = |name: &str| answer[name].as_str().unwrap_or_default().to_owned();
        let session = text("session_id");
        let mut all = self.lock();
        if all.len() >= limits::PROJECTS_MAX {
            all.clear();
        }
        all.insert(folder.to_owned(), session.clone());
        Ok((session, text("injected_context")))
    }

    async fn session(&self, folder: &Path) -> Result<String, Error> {
        let session = self.lock().get(folder).cloned();
        match session {
            Some(session) => Ok(session),
            None => self.start(folder).await.map(|(session, _)| session),
        }
    }

    fn forget(&self, folder: &Path, session: &str) {
        let mut all = self.lock();
        if all.get(folder).is_some_and(|known| known == session) {
            all.remove(folder);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, String>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run(
        &self,
        folder: &Path,
        operation: &'static Operation,
        input: &Map<String, Value>,
    ) -> Result<(String, Result<Value, Error>), Error> {
        let session = self.session(folder).await?;
        let mut input = input.clone();
        input.entry("session_id").or_insert_with(|| json!(session));
        Ok((session, self.contextd.call(operation, Caller::User, input, Asking::Unnamed).await))
    }
}

#[tonic::async_trait]
impl ProjectTools for Projects {
    fn tools(&self) -> Vec<BridgeTool> {
        let offered = surface_contextd::tools().into_iter().filter(|(operation, ..)| operation.key != START);
        let tool = |(operation, description, input_schema): (&Operation, String, Value)| BridgeTool {
            name: operation.tool.to_owned(),
            description,
            input_schema,
            read_only: is_read_only(operation),
        };
        offered.map(tool).collect()
    }

    async fn begin(&self, project: Option<&Path>) -> Result<String, Error> {
        self.start(&self.folder(project)?).await.map(|(_, context)| context)
    }

    async fn call(
        &self,
        project: Option<&Path>,
        tool: &str,
        arguments: Value,
    ) -> Result<BridgeOutput, Error> {
        let folder = self.folder(project)?;
        let offered =
            surface_contextd::operations::OPERATIONS.iter().filter(|operation| operation.key != START);
        let operation = { offered }
            .find(|operation| operation.tool == tool)
            .ok_or_else(|| Error::invalid("tool", format_args!("there is no tool {tool:?}")))?;
        let Value::Object(input) = arguments else {
            return Err(Error::invalid("arguments", "are no object"));
        };
        let (mut session, mut done) = self.run(&folder, operation, &input).await?;
        if done.as_ref().is_err_and(|error| error.code == ErrorCode::WrongState) {
            // The session was ended elsewhere; start another one.
            self.forget(&folder, &session);
            (session, done) = self.run(&folder, operation, &input).await?;
        }
        if operation.key == END {
            self.forget(&folder, &session);
        }
        done.map(|answer| BridgeOutput { ok: true, text: answer.to_string() })
    }
}

fn known(key: &str) -> Result<&'static Operation, Error> {
    operation(key).ok_or_else(|| Error::invalid("operation", format_args!("there is no {key}")))
}
