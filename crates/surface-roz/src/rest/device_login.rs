//! `/auth/device`: a program gets a key whose user types a short code elsewhere (RFC 8628).

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use domain::{Error, ErrorCode};
use http::header::HOST;
use http::{Request, StatusCode};
use runtime::records::LoginState;
use serde::Deserialize;
use serde_json::{Value, json};

use surface::status;
use wire::access::ApiScope;

use super::{NoFields, Roz, body};
use crate::limits;

/// What the key of a login may do.
const SCOPES: [ApiScope; 4] =
    [ApiScope::ReadTasks, ApiScope::WriteTasks, ApiScope::ReadHosts, ApiScope::ReadStreams];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenRequest {
    device_code: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CompleteRequest {
    user_code: String,
}

pub(super) async fn code(State(roz): State<Roz>, request: Request<Body>) -> Response {
    let host =
        request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost").to_owned();
    let begun = async {
        body::<NoFields>(request).await?;
        roz.supervisor.environments().records().begin_login().await
    };
    match begun.await {
        Err(error) => status::rest(&error),
        Ok(login) => plain(
            StatusCode::OK,
            json!({
                "device_code": login.device_code,
                "user_code": login.user_code,
                "verification_uri": format!("http://{host}/v1/auth/device/complete"),
                "interval": limits::LOGIN_POLL_EVERY.as_secs(),
                "expires_in": runtime::records::LOGIN_WAIT.as_secs(),
            }),
        ),
    }
}

/// Answers a program that asks whether it may have its key yet, with the words of the RFC.
pub(super) async fn token(State(roz): State<Roz>, request: Request<Body>) -> Response {
    let polled = async {
        let wanted: TokenRequest = body(request).await?;
        let state = roz.supervisor.environments().records().poll_login(&wanted.device_code).await?;
        let word = match state {
            LoginState::Unknown => "invalid_grant",
            LoginState::Expired => "expired_token",
            LoginState::Pending => "authorization_pending",
            LoginState::Completed => {
                let key = make_key(&roz).await?;
                return Ok(plain(StatusCode::OK, json!({"access_token": key, "token_type": "bearer"})));
            }
        };
        Ok(plain(StatusCode::BAD_REQUEST, json!({ "error": word })))
    };
    polled.await.unwrap_or_else(|error: Error| status::rest(&error))
}

pub(super) async fn complete(State(roz): State<Roz>, request: Request<Body>) -> Response {
    let completed = async {
        let typed: CompleteRequest = body(request).await?;
        roz.supervisor.environments().records().complete_login(&typed.user_code).await
    };
    match completed.await {
        Err(error) => status::rest(&error),
        Ok(()) => plain(StatusCode::OK, json!({"status": "authorized"})),
    }
}

async fn make_key(roz: &Roz) -> Result<String, Error> {
    let devices = Arc::clone(&roz.about.devices);
    let made = tokio::task::spawn_blocking(move || devices.create_key("device login", &SCOPES, None)).await;
    let failed = |error: tokio::task::JoinError| {
        Error::new(ErrorCode::StorageFailed, "the key cannot be made").with_detail(error.to_string())
    };
    made.map_err(failed)?.map(|(_, key)| key)
}

/// These answers have no `data`: clients of the RFC read them as they are.
fn plain(code: StatusCode, value: Value) -> Response {
    (code, axum::Json(value)).into_response()
}
