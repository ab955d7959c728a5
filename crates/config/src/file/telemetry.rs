//! The configuration of traces and logs for a collector of OpenTelemetry. Off unless an address is given.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::{invalid, set};
use crate::failure::Result;
use crate::vars::Vars;

/// The variable that every program with OpenTelemetry reads.
const STANDARD_VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// The variable that switches OpenTelemetry off for every program.
const DISABLED_VARIABLE: &str = "OTEL_SDK_DISABLED";

/// Where traces and logs are sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Telemetry {
    /// The base URL of a collector that takes OTLP over HTTP. Empty: nothing is sent.
    pub endpoint: String,
}

impl Telemetry {
    pub(super) fn check(&self) -> Result<()> {
        let is_address = ["http://", "https://"].iter().any(|scheme| self.endpoint.starts_with(scheme));
        if self.endpoint.is_empty() || is_address {
            return Ok(());
        }
        Err(invalid(format!(
            "telemetry.endpoint: {:?} must begin with https:// or http:// (from {STANDARD_VARIABLE} if the file has none)",
            self.endpoint
        )))
    }
}

/// Applies the standard variables: the endpoint, where neither the file nor a variable of ours has one, and the switch.
pub(super) fn overlay_standard_variables(table: &mut Table, vars: &Vars) -> Result<()> {
    let text = |name: &str| match vars.get(name).map(|value| value.to_str().map(str::to_owned)) {
        Some(None) => Err(invalid(format!("{name} is not UTF-8"))),
        Some(value) => Ok(value),
        None => Ok(None),
    };
    if text(DISABLED_VARIABLE)?.is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        set(table, "telemetry.endpoint", Value::String(String::new()));
        return Ok(());
    }
    let is_set = table.get("telemetry").and_then(|section| section.get("endpoint")).is_some();
    if let Some(endpoint) = text(STANDARD_VARIABLE)?.filter(|_| !is_set) {
        set(table, "telemetry.endpoint", Value::String(endpoint));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Flags, load};
    use super::*;

    fn endpoint(file: &str, vars: &[(&str, &str)]) -> Result<String> {
        let path = std::path::Path::new("config.toml");
        Ok(load(Some((path, file)), &Vars::of(vars), &Flags::default())?.telemetry.endpoint)
    }

    #[test]
    fn the_standard_variable_counts_where_neither_file_nor_own_variable_is_set() -> Result<()> {
        let standard = (STANDARD_VARIABLE, "http://standard:4318");
        let file = "[telemetry]\nendpoint = \"http://file:4318\"\n";
        assert_eq!(endpoint("", &[])?, "");
        assert_eq!(endpoint("", &[standard])?, "http://standard:4318");
        assert_eq!(endpoint(file, &[standard])?, "http://file:4318");
        assert_eq!(endpoint("", &[standard, ("OBEY_TELEMETRY_ENDPOINT", "https://own")])?, "https://own");
        assert_eq!(endpoint(file, &[(DISABLED_VARIABLE, "True")])?, "");
        let refused = endpoint("", &[(STANDARD_VARIABLE, "localhost:4317")]);
        assert!(refused.is_err_and(|failure| failure.message.contains(STANDARD_VARIABLE)));
        Ok(())
    }
}
