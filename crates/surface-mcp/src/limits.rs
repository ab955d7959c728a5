//! Every bound of this surface, each with its reason. Shared ones are in `surface::limits`.

/// How long `watch_team` waits for workers to end, where the agent does not say and at most.
pub const TEAM_WAIT_SECS: u64 = 60;
pub const TEAM_WAIT_MAX_SECS: u64 = 3_600;

/// Tools in one page of `tools/list`, where the client does not say. Many clients read only the first page, so it holds
/// whatever a session usually has.
pub const TOOLS_PAGE: usize = 200;
