//! The variables of this process that a new session inherits, in the form in which they are sent to the daemon.

use std::collections::BTreeMap;

use config::vars::Vars;
use domain::ProviderKind;
use domain::caller_environment::{is_sent, is_taken};

/// Returns the variables that a session of some provider takes over, encoded for a request; `None` if there are none.
pub fn sent(vars: &Vars) -> Option<String> {
    let chosen = chosen(vars, is_sent);
    (!chosen.is_empty()).then(|| encoded(&chosen))
}

/// Returns the variables that a session of this provider takes over.
pub fn taken(vars: &Vars, provider: ProviderKind) -> BTreeMap<String, String> {
    chosen(vars, |name| is_taken(provider, name))
}

/// Encodes variables for a request.
pub fn encoded(variables: &BTreeMap<String, String>) -> String {
    serde_json::to_string(variables).unwrap_or_else(|_| "{}".to_owned())
}

fn chosen(vars: &Vars, wanted: impl Fn(&str) -> bool) -> BTreeMap<String, String> {
    vars.all()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, value)| !value.is_empty() && wanted(name))
        .collect()
}

/// Returns the caller's `PATH`; empty if there is none.
pub fn path(vars: &Vars) -> String {
    vars.get("PATH").map(|path| path.to_string_lossy().into_owned()).unwrap_or_default()
}
