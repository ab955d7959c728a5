//! What agents inside the daemon are offered beside their own tools: the operations of the workbench, where agents get
//! them, and workers. They have asked for what must be asked for before a call comes here.

use std::sync::Arc;

use domain::{Error, SessionId};
use runtime::toolbox::{Done, Need, Offer};
use serde_json::Value;
use surfaces::bridge::Team;

use super::tools::BenchTools;

/// The daemon's tools for agents inside of it.
pub(crate) struct Inside {
    bench: Option<BenchTools>,
    team: Team,
    offers: Arc<[Offer]>,
}

impl Inside {
    pub(super) fn new(bench: Option<BenchTools>, team: Team) -> Self {
        let team_offers = Team::offers().into_iter().map(|tool| Offer {
            name: tool.name,
            description: tool.description,
            input_schema: tool.input_schema,
            need: if tool.read_only { Need::Nothing } else { Need::Permission },
        });
        let offers = bench.iter().flat_map(BenchTools::offers).chain(team_offers).collect();
        Self { bench, team, offers }
    }

    pub(crate) fn offers(&self) -> Arc<[Offer]> {
        Arc::clone(&self.offers)
    }

    pub(crate) async fn call(&self, session: &SessionId, tool: &str, input: Value) -> Result<Done, Error> {
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
