//! The roles of devices. Knows no device.

use serde::{Deserialize, Serialize};

/// What a device may do. Each role includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads.
    Viewer,
    /// Reads, prompts and answers requests.
    Operator,
    /// Does everything the user may do.
    Owner,
}

impl Role {
    /// Reads a role by its name.
    pub fn parse(name: &str) -> Option<Self> {
        [Role::Viewer, Role::Operator, Role::Owner].into_iter().find(|role| role.name() == name)
    }

    /// Returns the role as people write it.
    pub fn name(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Owner => "owner",
        }
    }
}
