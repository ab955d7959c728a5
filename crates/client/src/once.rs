//! Calls that take effect once although the connection is lost in between: the client's key tells the daemon, or its
//! successor, that it is the same call.

use std::future::Future;
use std::time::Instant;

use config::failure::{Failure, Result};
use domain::ErrorCode;
use host::ids;
use tonic::{Response, Status};

use crate::limits;

/// Returns a new key.
pub fn key() -> String {
    format!("obey-{}", ids::unique())
}

/// Makes a call that carries a key, again if the connection is lost, until a daemon answers.
pub async fn call<T, F, Fut>(mut attempt: F) -> Result<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = std::result::Result<Response<T>, Status>>,
{
    let until = Instant::now() + limits::RECONNECT_WAIT;
    loop {
        match attempt().await {
            Ok(response) => return Ok(response.into_inner()),
            Err(status) => {
                let failure = Failure::from(status);
                if !is_lost(&failure) || Instant::now() > until {
                    return Err(failure);
                }
                tokio::time::sleep(limits::RECONNECT_PAUSE).await;
            }
        }
    }
}

/// Whether the connection was lost, so that it is not known whether the call took effect.
pub(crate) fn is_lost(failure: &Failure) -> bool {
    let code = ErrorCode::DaemonUnreachable.to_string();
    failure.grpc.is_some() && failure.code.as_deref() == Some(code.as_str())
}
