//! The state of a session's agent in the terms of the runtime contract: Created, Active, Ending, Closed. A
//! projection of our own states; stores nothing.

use domain::{State, Status};

/// The state of a session's agent in this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionStatus {
    /// The session exists; there is no process.
    Created,
    /// A process runs.
    Active,
    /// The process is being stopped.
    Ending,
    /// The process has ended; a prompt starts another one.
    Closed,
}

impl SessionStatus {
    /// Returns the state of a session.
    pub fn of(state: &State) -> Self {
        match state.status {
            Status::Created => Self::Created,
            Status::Starting | Status::Running | Status::Working => Self::Active,
            Status::Stopping => Self::Ending,
            Status::Stopped | Status::Failed => Self::Closed,
        }
    }

    /// Returns the printed name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Active => "active",
            Self::Ending => "ending",
            Self::Closed => "closed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_is_one_of_four() {
        let of = |status| SessionStatus::of(&State { status, ..State::default() }).name();
        let names: Vec<&str> = Status::ALL.into_iter().map(of).collect();
        assert_eq!(names, ["created", "active", "active", "active", "ending", "closed", "closed"]);
    }
}
