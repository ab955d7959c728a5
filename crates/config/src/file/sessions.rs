//! `[sessions]`: how many run, and what those that are created without a provider or a mode get. Parses and checks; the
//! daemon uses the values.

use domain::{Mode, ProviderKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::invalid;
use crate::failure::Result;

/// What applies to all sessions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Sessions {
    pub max_active: u32,
    /// The provider of sessions that name none; empty: the first one that is installed.
    pub default_provider: String,
    /// The mode of sessions that name none, where their campaign does not either.
    pub default_mode: String,
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            max_active: 64,
            default_provider: String::new(),
            default_mode: Mode::default().name().to_owned(),
        }
    }
}

impl Sessions {
    /// Returns the mode of sessions that name none. A text that is no mode was refused when the configuration was read.
    pub fn mode(&self) -> Mode {
        Mode::parse(&self.default_mode).unwrap_or_default()
    }

    pub(super) fn check(&self) -> Result<()> {
        if self.max_active == 0 {
            return Err(invalid("sessions.max_active: must be above 0".to_owned()));
        }
        if Mode::parse(&self.default_mode).is_none() {
            let known = Mode::ALL.map(|(_, name)| name).join(", ");
            let mode = &self.default_mode;
            return Err(invalid(format!("sessions.default_mode: {mode:?} is no mode; use one of {known}")));
        }
        if self.default_provider.is_empty() {
            return Ok(());
        }
        check_provider("sessions.default_provider", &self.default_provider)
    }
}

/// Checks that a key names a provider.
pub(super) fn check_provider(key: &str, name: &str) -> Result<()> {
    if ProviderKind::parse(name).is_some() {
        return Ok(());
    }
    let known = ProviderKind::ALL.map(ProviderKind::name).join(", ");
    Err(invalid(format!("{key}: {name:?} is no provider; use one of {known}")))
}
