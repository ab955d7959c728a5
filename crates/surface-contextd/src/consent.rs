//! Permissions for agents' calls of the workbench: what changes files, runs commands or is denied by a rule
//! needs one, whether the call came by gRPC, REST, the command line or a tool. Users need no permission for
//! their own calls.

use domain::{CallId, Error, ErrorCode};
use serde_json::{Map, Value};
use wire::access::Needs;

use super::ContextdHandler;
use super::call::OperationCall;
use surface::asking::{self, Asking};
use surface::peer::Caller;

impl ContextdHandler {
    /// Rejects an agent's call that the mode, the rules or the user of its session do not allow (OBEY-1002).
    pub(super) async fn consent(
        &self,
        call: &OperationCall,
        input: &Map<String, Value>,
    ) -> Result<(), Error> {
        let Caller::Agent(session) = &call.caller else { return Ok(()) };
        let needs = call.operation.access().map_or(Needs::Permission, |row| row.needs);
        let snapshot = self.supervisor.snapshot(session).await?;
        let mut arguments = input.clone();
        arguments.remove("session_id");
        let (tool, arguments) = (call.operation.tool.to_owned(), Value::Object(arguments));
        let (id, name) = match &call.asking {
            Asking::Named { id, call } => (id.clone(), call.clone()),
            Asking::Unnamed => {
                let id = format!("call.{}", host::new_session_id());
                (id.clone(), CallId::new(id))
            }
            Asking::Done => {
                let is_denied =
                    needs == Needs::Nothing && self.supervisor.denies(&snapshot, &tool, &arguments);
                return if is_denied {
                    Err(denied(format!("the permission rules of this session deny {tool}")))
                } else {
                    Ok(())
                };
            }
        };
        let title = title(&tool, &arguments);
        let wanted = asking::Call { session: snapshot, tool, arguments, id, call: name };
        asking::consent(&self.supervisor, needs, &wanted, title).await.map_err(denied)
    }
}

fn denied(reason: String) -> Error {
    Error::new(ErrorCode::NotAllowed, reason)
}

/// Describes the call in one line.
fn title(tool: &str, arguments: &Value) -> String {
    let text = |name: &str| arguments[name].as_str();
    let what = text("cmd").or_else(|| text("path")).or_else(|| text("name")).unwrap_or_default();
    format!("{tool}: {what}")
}
