//! What is told when the kernel kills something of an agent because memory ran out. The end of the agent itself is in `life.rs`.

use super::Transition;
use crate::error::ErrorCode;
use crate::event::{EventKind, Level};
use crate::resources::OutOfMemory;

impl Transition<'_> {
    /// Tells that the kernel killed something the agent had started; the agent sees for itself what became of it.
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
