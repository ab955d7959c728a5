//! Every bound of this surface, each with its reason. Shared ones are in `surface::limits`.

/// Events of a client's activity stream that are stored between two looks at the session.
pub const ACTIVITY_EVENTS_MAX: u64 = 1_000_000;

/// Parents told beside a list of sessions. They travel as headers, of which clients take about 16 KiB.
pub const PARENTS_TOLD_MAX: usize = 128;
