//! Every bound of this surface, each with its reason. Shared ones are in `surface::limits`.

/// Events of a client's activity stream that are stored between two looks at the session.
pub const ACTIVITY_EVENTS_MAX: u64 = 1_000_000;

/// Parents told beside a list of sessions. They travel as headers, of which clients take about 16 KiB.
pub const PARENTS_TOLD_MAX: usize = 128;

/// Events of a page backwards if the client does not say how many: some screens of a conversation.
pub(crate) const EVENTS_PAGE: u64 = 500;

/// Bytes of a step's prompt and of its result in a plan: a thousand steps must fit into one message.
pub(crate) const PLAN_TEXT_MAX_BYTES: usize = 1024;

/// Plans of a session that are listed and followed, the newest: older ones are read by their id.
pub(crate) const SESSION_PLANS_MAX: usize = 20;

/// Files of agents that one look at `/metrics` measures: a look must stay short, and so many agents never run at once.
pub(crate) const METRIC_FILES_MAX: usize = 20_000;

/// How long a watcher of a plan gathers changes: a plan of a thousand steps changes thousands of times, and people read no
/// faster.
pub(crate) const PLAN_GATHER_WAIT: std::time::Duration = std::time::Duration::from_millis(50);
