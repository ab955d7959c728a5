//! What only the agent inside the daemon does: it has no process, its memory is the journal, its tools are the
//! workbench's, and everything that can be wrong with an endpoint. What it shares with other agents is in `sessions`.

mod bad_input;
mod many;
mod memory;
mod news;
mod rules;
mod secrets;
mod servers;
mod too_long;
mod tools;
mod trouble;

use anyhow::{Context, Result};
use tonic::Status;
use wire::obey::local::v1 as pb;

use crate::stage::Stage;

/// A request for a session that keys are added to.
fn session(stage: &Stage, config: &[(&str, &str)]) -> pb::CreateSessionRequest {
    let mut request = stage.new_session();
    let config = config.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    request.provider_config.extend(config);
    request
}

async fn refusal(stage: &Stage, request: pb::CreateSessionRequest) -> Result<Status> {
    let result = stage.clients.local.clone().create_session(request).await;
    result.err().context("the session was created")
}
