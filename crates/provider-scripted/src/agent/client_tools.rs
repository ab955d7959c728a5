//! Tools that clients run for the scripted agent. It calls them in its own protocol, as an agent inside the
//! daemon would; real agents reach them through the daemon's MCP server.

use std::io::Write;

use domain::CallId;
use domain::request::{PermissionSubject, RequestSubject};
use serde_json::Value;

use super::{RequestOutcome, ScriptStop, ScriptedAgent};
use crate::wire::FromScriptedAgent;

impl<W: Write> ScriptedAgent<W> {
    /// Calls a tool that a client runs, after asking if it must, and reports the result.
    pub(super) fn client_tool(&mut self, tool: &str, input: &Value) -> Result<(), ScriptStop> {
        self.calls += 1;
        let call = CallId::new(format!("call-{}", self.calls));
        let (name, title) = (tool.to_owned(), tool.to_owned());
        self.say(&FromScriptedAgent::ToolStarted {
            call: call.clone(),
            tool: name,
            input: input.clone(),
            title,
        })?;
        let asks = self.tools.iter().find(|(name, _)| name == tool).map(|(_, asks)| *asks);
        let (ok, output) = match asks {
            None => (false, format!("no client offers {tool:?}")),
            Some(asks) => self.run_client_tool(&call, tool, input, asks)?,
        };
        self.text(&output)?;
        self.say(&FromScriptedAgent::ToolFinished { call, ok, output })
    }

    /// Asks for permission if needed, then has a client run the tool. Returns its result.
    fn run_client_tool(
        &mut self,
        call: &CallId,
        tool: &str,
        input: &Value,
        asks: bool,
    ) -> Result<(bool, String), ScriptStop> {
        let (tool, input, title) = (tool.to_owned(), input.clone(), tool.to_owned());
        if asks {
            let ask = PermissionSubject {
                call: Some(call.clone()),
                tool: tool.clone(),
                input: input.clone(),
                title,
                parent: None,
            };
            if let RequestOutcome::Denied { stop, message } = self.ask(RequestSubject::Permission(ask))? {
                // The message says who denied it; without one it was a person.
                let denied = match message.as_str() {
                    "" => format!("Permission denied by user for: {tool}"),
                    said if said.starts_with("Permission ") => said.to_owned(),
                    why => format!("Permission denied for: {tool}: {why}"),
                };
                return if stop { Err(ScriptStop::Interrupted) } else { Ok((false, denied)) };
            }
        }
        match self.ask(RequestSubject::ClientTool { call: call.clone(), tool, input })? {
            RequestOutcome::Returned { ok, output } => Ok((ok, output)),
            RequestOutcome::Denied { message, .. } => Ok((false, message)),
            RequestOutcome::Allowed | RequestOutcome::Answered(_) => Ok((false, "not returned".to_owned())),
        }
    }
}
