//! A session as a whole: the message that answers a start, and the row of a list.

use domain::{LaunchPolicy, State, Status, Usage};
use runtime::Snapshot;
use wire::betcode::v1 as pb;
use wire::betcode::v1::agent_event::Event as Body;

use super::{dollars, small, timestamp};

/// Returns the message that answers a start.
pub(crate) fn session_info(snapshot: &Snapshot, worktree_id: &str, is_resumed: bool) -> Body {
    let (spec, state) = (&snapshot.spec, &snapshot.state);
    Body::SessionInfo(pb::SessionInfo {
        session_id: spec.id.to_string(),
        model: full_model(state),
        working_directory: spec.working_dir.display().to_string(),
        worktree_id: worktree_id.to_owned(),
        message_count: state.messages,
        is_resumed,
        is_compacted: state.compacted,
        context_usage_percent: percent(state.context_tokens, state.context_window),
        metadata: state.metadata.clone().into_iter().collect(),
    })
}

/// Returns the full name of the session's model, as far as the agent has said it.
pub(super) fn full_model(state: &State) -> String {
    let resolved = Some(&state.resolved_model).filter(|model| !model.is_empty());
    resolved.unwrap_or(&state.model).clone()
}

/// Returns the input tokens without those written to the cache, which have a field of their own: reports add up to sums.
pub(super) fn plain_input(usage: &Usage) -> u32 {
    small(usage.input_tokens.saturating_sub(usage.cache_write_tokens))
}

/// Returns how much of the context window is used, in percent; 0 when unknown.
pub(super) fn percent(tokens: Option<u64>, window: Option<u64>) -> f32 {
    match (tokens, window) {
        (Some(tokens), Some(window)) if window > 0 => (tokens as f64 * 100.0 / window as f64) as f32,
        _ => 0.0,
    }
}

/// Converts a session for lists.
pub(crate) fn summary(snapshot: &Snapshot, worktree_id: &str) -> pb::SessionSummary {
    let (spec, state) = (&snapshot.spec, &snapshot.state);
    pb::SessionSummary {
        id: spec.id.to_string(),
        model: full_model(state),
        working_directory: spec.working_dir.display().to_string(),
        worktree_id: worktree_id.to_owned(),
        status: status_word(state.status, spec.launch).to_owned(),
        message_count: small(state.messages),
        total_input_tokens: plain_input(&state.usage),
        total_output_tokens: small(state.usage.output_tokens),
        total_cost_usd: dollars(&state.usage),
        created_at: Some(timestamp(spec.created_at)),
        updated_at: Some(timestamp(state.last_activity_at.unwrap_or(spec.created_at))),
        last_message_preview: state.preview.clone(),
        name: state.name.clone(),
    }
}

/// A stopped session that launches with a prompt is only idle.
pub(super) fn status_word(status: Status, launch: LaunchPolicy) -> &'static str {
    match (status, launch) {
        (Status::Created | Status::Running, _) | (Status::Stopped, LaunchPolicy::OnPrompt) => "idle",
        (Status::Starting | Status::Working | Status::Stopping, _) => "active",
        (Status::Stopped, LaunchPolicy::Now) => "completed",
        (Status::Failed, _) => "error",
    }
}
