//! The events that are recorded when the kernel kills a process of an agent because memory ran out. If the agent itself ended,
//! `life.rs` records that.

use super::Transition;
use crate::error::ErrorCode;
use crate::event::{EventKind, Level};
use crate::resources::OutOfMemory;

impl Transition<'_> {
    /// Records that the kernel killed a process the agent had started. The agent notices the consequences itself.
    pub(super) fn out_of_memory(&mut self, killed: OutOfMemory) {
        if !self.state().status.has_agent() {
            return;
        }
        let what = match killed.kills {
            1 => "a process that the agent started was killed by the kernel".to_owned(),
            kills => format!("{kills} processes that the agent started were killed by the kernel"),
        };
        self.record(EventKind::Notice {
            level: Level::Warning,
            code: Some(ErrorCode::OutOfMemory),
            message: format!("{killed}: {what}"),
        });
    }
}
