//! Permissions for agents' calls of the workbench: what changes files, runs commands or is denied by a rule
//! needs one, whether the call came by gRPC, REST, the command line or a tool. Users need no permission for
//! their own calls.

use domain::{CallId, Error, ErrorCode};
use runtime::collections;
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
        if let Some(collection) = collection(call.operation.service) {
            let is_write = !READS.contains(&call.operation.method);
            collections::require(&snapshot.spec, collection, is_write)?;
        }
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

/// The methods that only read; every other one changes something.
const READS: [&str; 5] = ["Search", "Get", "List", "Resume", "Check"];

/// Returns the collection that a service works on; `None` if it works on the session alone.
fn collection(service: &str) -> Option<&'static str> {
    match service {
        "Memory" => Some("memories"),
        "Checkpoint" => Some("checkpoints"),
        "Policy" => Some("policies"),
        "Skill" => Some("skills"),
        "Agent" => Some("agents"),
        "Remediation" => Some("remediations"),
        _ => None,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::OPERATIONS;

    #[test]
    fn every_service_is_about_a_collection_that_can_be_named_or_about_its_session() {
        for operation in OPERATIONS {
            match collection(operation.service) {
                Some(name) => collections::check("x", &[name.to_owned()]).unwrap(),
                None => assert!(["SafeExec", "Ref", "Session"].contains(&operation.service)),
            }
        }
        let documented: Vec<String> =
            crate::fields::COLLECTIONS.iter().map(|name| (*name).to_owned()).collect();
        collections::check("x", &documented).unwrap();
    }
}
