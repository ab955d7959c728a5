//! Callers with an API key: programs that call roz.v1 with scopes of their own. A key only ever takes rights away from its
//! user, or gives a program on another machine those of its scopes: an agent that has found one stays an agent, and another
//! user of this machine needs the token. Knows no service.

use std::net::IpAddr;

use host::clock;
use http::{HeaderMap, Request};
use wire::access::ApiScope;

pub(super) use super::devices::keys::is_api_key;
use super::{Access, Caller, Refusal, gate};

/// An authenticated key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    pub name: String,
    pub scopes: Vec<ApiScope>,
}

impl ApiKey {
    /// Whether it may call what takes this scope.
    pub fn has(&self, scope: ApiScope) -> bool {
        self.scopes.iter().any(|own| *own == scope || *own == ApiScope::Admin)
    }
}

/// Whether a request presents what says of itself that it is an API key.
pub(super) fn is_presented<B>(request: &Request<B>) -> bool {
    matches!(gate::authorization(request.headers()), Ok(Some(claimed)) if is_api_key(claimed))
}

/// Returns the key that a request presents; one that is not known is refused.
pub(super) fn presented(
    headers: &HeaderMap,
    from: Option<IpAddr>,
    access: &Access,
) -> Result<(Caller, String), Refusal> {
    let claimed = gate::authorization(headers).ok().flatten().ok_or(Refusal::ApiKey)?;
    let devices = access.devices.as_ref().ok_or(Refusal::ApiKey)?;
    let found = devices.identify_key(claimed, from, clock::now());
    found.map(|(key, id)| (Caller::ApiKey(key), id)).map_err(|_| Refusal::ApiKey)
}
