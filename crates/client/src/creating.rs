//! Creating a session as a program on this machine does: once, however often the call is repeated, and with what the session takes
//! over of the caller's environment.

use config::failure::{Failure, Result};
use config::vars::Vars;
use domain::caller_environment::CALLER_ENVIRONMENT_KEY;
use tonic::metadata::MetadataValue;
use wire::obey::local::v1 as local;

use crate::caller_environment;
use crate::connection::Client;
use crate::once;

/// The protocol's message has no field for what makes a creation take effect once, so it is sent as metadata.
const CLIENT_KEY: &str = "x-obey-client-key";
/// The same for the parent.
const PARENT_KEY: &str = "obey-parent-session";

/// Creates a session. `vars` is the caller's environment; `None` on another machine, whose daemon has its own.
pub async fn create(
    client: &Client,
    mut request: local::CreateSessionRequest,
    parent: Option<&str>,
    vars: Option<&Vars>,
) -> Result<local::SessionInfo> {
    if let Some(variables) = vars.and_then(caller_environment::sent) {
        request.provider_config.insert(CALLER_ENVIRONMENT_KEY.to_owned(), variables);
    }
    let key =
        MetadataValue::try_from(once::key().as_str()).map_err(|_| Failure::failed("a key cannot be made"))?;
    let parent = match parent {
        None => None,
        Some(parent) => Some(
            MetadataValue::try_from(parent)
                .map_err(|_| Failure::usage(format!("--parent {parent:?} is no session id")))?,
        ),
    };
    let response = once::call(|| {
        let mut request = tonic::Request::new(request.clone());
        request.metadata_mut().insert(CLIENT_KEY, key.clone());
        if let Some(parent) = &parent {
            request.metadata_mut().insert(PARENT_KEY, parent.clone());
        }
        let client = client.clone();
        async move { client.daemon().create_session(request).await }
    })
    .await?;
    response.session.ok_or_else(|| Failure::failed("the daemon did not say which session it created"))
}
