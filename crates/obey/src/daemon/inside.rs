//! What agents inside the daemon are offered beside their own tools: the operations of the workbench, where agents get
//! them, and workers. They have asked for what must be asked for before a call comes here.

use std::sync::Arc;

use domain::{Error, SessionId};
use runtime::toolbox::{Done, Offer};
use serde_json::Value;
use surfaces::access;
use surfaces::bridge::Team;
use surfaces::peer::Caller;

use super::tools::{BenchTools, need};

/// The daemon's tools for agents inside of it.
pub(crate) struct Inside {
    bench: Option<BenchTools>,
    team: Team,
    offers: Arc<[Offer]>,
}

impl Inside {
    pub(super) fn new(bench: Option<BenchTools>, team: Team) -> Self {
        let team_offers = Team::offers().into_iter().map(|tool| Offer {
            need: need(&tool.name),
            name: tool.name,
            description: tool.description,
            input_schema: tool.input_schema,
        });
        let offers = bench.iter().flat_map(BenchTools::offers).chain(team_offers).collect();
        Self { bench, team, offers }
    }

    pub(crate) fn offers(&self) -> Arc<[Offer]> {
        Arc::clone(&self.offers)
    }

    pub(crate) async fn call(&self, session: &SessionId, tool: &str, input: Value) -> Result<Done, Error> {
        access::check(access::tool(tool), &Caller::Agent(session.clone()), session.as_str())?;
        if Team::offers().iter().any(|offered| offered.name == tool) {
            let output = self.team.call_inside(session, tool, &input).await?;
            return Ok(Done { ok: output.ok, output: output.text, exit_code: None });
        }
        let Some(bench) = &self.bench else {
            return Err(Error::invalid("tool", format_args!("there is no tool {tool:?}")));
        };
        let output = bench.call(session, tool, input).await?;
        Ok(Done { ok: true, output, exit_code: None })
    }
}
