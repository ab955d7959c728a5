//! The tools that in-process agents get in addition to their own: the operations of the workbench, if they
//! are enabled for agents, and workers. Permissions were already requested before a call arrives here.

use std::sync::Arc;

use agent_port::toolbox::{OfferedTool, ToolOutput};
use domain::{Error, SessionId};
use serde_json::Value;
use surface::access;
use surface::peer::Caller;
use surface_mcp::TeamTools;

use super::tools::{WorkbenchTools, need};

/// The daemon's tools for in-process agents.
pub(crate) struct DaemonTools {
    workbench: Option<WorkbenchTools>,
    team: TeamTools,
    offers: Arc<[OfferedTool]>,
}

impl DaemonTools {
    pub(super) fn new(workbench: Option<WorkbenchTools>, team: TeamTools) -> Self {
        let team_offers = TeamTools::offers().into_iter().map(|tool| OfferedTool {
            need: need(&tool.name),
            name: tool.name,
            description: tool.description,
            input_schema: tool.input_schema,
        });
        let offers = workbench.iter().flat_map(WorkbenchTools::offers).chain(team_offers).collect();
        Self { workbench, team, offers }
    }

    pub(crate) fn offers(&self) -> Arc<[OfferedTool]> {
        Arc::clone(&self.offers)
    }

    /// Runs a tool for an agent's session after checking the access table.
    pub(crate) async fn call(
        &self,
        session: &SessionId,
        tool: &str,
        input: Value,
    ) -> Result<ToolOutput, Error> {
        access::check(access::tool(tool), &Caller::Agent(session.clone()), session.as_str())?;
        if TeamTools::offers().iter().any(|offered| offered.name == tool) {
            let output = self.team.call_inside(session, tool, &input).await?;
            return Ok(ToolOutput { ok: output.ok, output: output.text, exit_code: None });
        }
        let Some(workbench) = &self.workbench else {
            return Err(Error::invalid("tool", format_args!("there is no tool {tool:?}")));
        };
        let output = workbench.call(session, tool, input).await?;
        Ok(ToolOutput { ok: true, output, exit_code: None })
    }
}
