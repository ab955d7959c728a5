//! The published status of a task. Pure.

use domain::turn::EndReason;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskStatus {
    Pending,
    Provisioning,
    Running,
    Succeeded,
    Failed,
    Cancelled,
    SafetyStop,
}

impl TaskStatus {
    /// Returns the status of a task whose turn has ended.
    pub(super) fn of_end(reason: EndReason) -> Self {
        match reason {
            EndReason::Completed => Self::Succeeded,
            EndReason::Cancelled => Self::Cancelled,
            EndReason::Failed
            | EndReason::Refused
            | EndReason::LimitReached
            | EndReason::BudgetExceeded
            | EndReason::Interrupted => Self::Failed,
        }
    }

    pub(super) fn is_final(self) -> bool {
        match self {
            Self::Pending | Self::Provisioning | Self::Running => false,
            Self::Succeeded | Self::Failed | Self::Cancelled | Self::SafetyStop => true,
        }
    }

    /// Returns the word that clients get.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Provisioning => "provisioning",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::SafetyStop => "safety_stop",
        }
    }
}
