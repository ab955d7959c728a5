//! The tools that in-process agents get in addition to their own: the operations of the workbench, if they
//! are enabled for agents, and workers. Permissions were already requested before a call arrives here.

use std::sync::Arc;

use agent_port::toolbox::{OfferedTool, ToolOutput};
use domain::{Error, SessionId};
use serde_json::Value;
use surface::access;
use surface::peer::Caller;
use surface_mcp::{BridgeTool, TeamTools, WorkerTools};

use super::tools::{WorkbenchTools, need};

/// The daemon's tools for in-process agents.
pub struct DaemonTools {
    workbench: Option<WorkbenchTools>,
    team: TeamTools,
    workers: WorkerTools,
    offers: Arc<[OfferedTool]>,
    /// The same for sessions that allow workers.
    offers_with_workers: Arc<[OfferedTool]>,
}

impl DaemonTools {
    pub(super) fn new(workbench: Option<WorkbenchTools>, team: TeamTools, workers: WorkerTools) -> Self {
        let offered = |tool: BridgeTool| OfferedTool {
            need: need(&tool.name),
            name: tool.name,
            description: tool.description,
            input_schema: tool.input_schema,
        };
        let team_offers = TeamTools::offers().into_iter().map(offered);
        let mut all: Vec<OfferedTool> =
            workbench.iter().flat_map(WorkbenchTools::offers).chain(team_offers).collect();
        let offers = all.clone().into();
        all.extend(WorkerTools::offers().into_iter().map(offered));
        Self { workbench, team, workers, offers, offers_with_workers: all.into() }
    }

    /// Returns the tools of a session, by whether it allows workers.
    pub fn offers(&self, allows_workers: bool) -> Arc<[OfferedTool]> {
        Arc::clone(if allows_workers { &self.offers_with_workers } else { &self.offers })
    }

    /// Runs a tool for an agent's session after checking the access table.
    pub async fn call(&self, session: &SessionId, tool: &str, input: Value) -> Result<ToolOutput, Error> {
        access::check(access::tool(tool), &Caller::Agent(session.clone()), session.as_str())?;
        if TeamTools::offers().iter().any(|offered| offered.name == tool) {
            let output = self.team.call_inside(session, tool, &input).await?;
            return Ok(ToolOutput { ok: output.ok, output: output.text, exit_code: None });
        }
        if WorkerTools::offers().iter().any(|offered| offered.name == tool) {
            let output = self.workers.perform(session, tool, &input, None).await?;
            return Ok(ToolOutput { ok: output.ok, output: output.text, exit_code: None });
        }
        let Some(workbench) = &self.workbench else {
            return Err(Error::invalid("tool", format_args!("there is no tool {tool:?}")));
        };
        let output = workbench.call(session, tool, input).await?;
        Ok(ToolOutput { ok: true, output, exit_code: None })
    }
}
