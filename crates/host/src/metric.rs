//! Every metric of the daemon: its name, its help text and the function that records it. Names begin with `obey_`.
//! Nothing is kept until a recorder is installed, so programs that embed a crate pay for nothing. Must not know how
//! metrics are shown.

use std::sync::LazyLock;
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Unit};

/// The upper bounds of latency buckets, in seconds: from one commit to a person's answer on the next day.
pub const SECONDS_BUCKETS: &[f64] = &[
    0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0,
    86400.0,
];

macro_rules! counters {
    ($($(#[$doc:meta])* $function:ident, $handle:ident, $name:literal, $help:literal;)*) => {
        $(
            static $handle: LazyLock<Counter> = LazyLock::new(|| metrics::counter!($name));
            $(#[$doc])*
            pub fn $function(count: u64) {
                $handle.increment(count);
            }
        )*
        fn register_counters() {
            $(
                metrics::describe_counter!($name, $help);
                $handle.increment(0);
            )*
        }
    };
}

macro_rules! histograms {
    ($($(#[$doc:meta])* $function:ident, $handle:ident, $name:literal, $help:literal;)*) => {
        $(
            static $handle: LazyLock<Histogram> = LazyLock::new(|| metrics::histogram!($name));
            $(#[$doc])*
            pub fn $function(took: Duration) {
                $handle.record(took.as_secs_f64());
            }
        )*
        fn register_histograms() {
            $(
                metrics::describe_histogram!($name, Unit::Seconds, $help);
                LazyLock::force(&$handle);
            )*
        }
    };
}

macro_rules! gauges {
    ($($(#[$doc:meta])* $function:ident, $handle:ident, $name:literal, $help:literal;)*) => {
        $(
            static $handle: LazyLock<Gauge> = LazyLock::new(|| metrics::gauge!($name));
            $(#[$doc])*
            #[expect(clippy::cast_precision_loss, reason = "a gauge is a float; 2^53 is far away")]
            pub fn $function(value: u64) {
                $handle.set(value as f64);
            }
        )*
        fn register_gauges() {
            $(metrics::describe_gauge!($name, $help);)*
        }
    };
}

counters! {
    /// Events that were committed to journals.
    events_stored, EVENTS, "obey_events_total", "Events committed to the journals of sessions.";
    /// Bytes of the events that were committed.
    event_bytes_stored, EVENT_BYTES, "obey_event_bytes_total", "Bytes of the events committed to the journals.";
    /// Events from which a secret was removed.
    scrubbed, SCRUBS, "obey_scrubs_total", "Events from which secrets were removed before they were stored.";
    /// Turns that began.
    turns_started, TURNS, "obey_turns_started_total", "Turns that began.";
    /// Budgets that ended a turn or a session.
    budgets_exceeded, BUDGETS, "obey_budgets_exceeded_total", "Turns and sessions ended because a budget was used up.";
    /// Writes that the store could not carry out.
    writes_failed, WRITE_FAILURES, "obey_store_failures_total", "Groups of writes that the store could not commit.";
}

histograms! {
    /// The time of one commit.
    commit_took, COMMIT, "obey_commit_seconds", "Time to commit a group of writes, with its sync if it needs one.";
    /// The time of a separate sync of the log.
    sync_took, SYNC, "obey_sync_seconds", "Time to sync the log of streamed output to disk.";
    /// From the start of a turn to its end.
    turn_took, TURN, "obey_turn_seconds", "Time from a prompt to the end of its turn.";
    /// From the start of a turn to the agent's first output.
    first_output_took, FIRST_OUTPUT, "obey_first_output_seconds",
        "Time from a prompt to the first output of the agent.";
    /// How long a request waited for a person.
    permission_wait_took, PERMISSION_WAIT, "obey_permission_wait_seconds",
        "Time that permission requests and questions waited for an answer.";
}

gauges! {
    /// Requests that wait for a person.
    set_permissions_waiting, WAITING, "obey_permissions_waiting",
        "Permission requests and questions that wait for an answer.";
    /// The oldest of them.
    set_oldest_permission_wait, OLDEST, "obey_permission_oldest_wait_seconds",
        "How long the oldest waiting request has waited.";
    /// Agents with a process or a task.
    set_agents_running, AGENTS, "obey_agents_running", "Agents that run now.";
    /// The database.
    set_journal_bytes, JOURNAL, "obey_journal_bytes", "Size of the database that holds the journals.";
    /// The write-ahead log.
    set_journal_log_bytes, JOURNAL_LOG, "obey_journal_log_bytes", "Size of the database's write-ahead log.";
    /// Output of agents on disk.
    set_spool_bytes, SPOOL, "obey_spool_bytes", "Size of the agents' folder: output that waits, and state of agents.";
    /// Free space.
    set_disk_free_bytes, DISK_FREE, "obey_disk_free_bytes", "Free space on the disk of the data folder.";
    /// Total space.
    set_disk_bytes, DISK, "obey_disk_bytes", "Size of the disk of the data folder.";
    /// Sessions with a token budget.
    set_budget_sessions, BUDGET_SESSIONS, "obey_budget_sessions", "Sessions with a token budget that have not ended.";
    /// Their tokens used.
    set_budget_used_tokens, BUDGET_USED, "obey_budget_used_tokens",
        "Tokens that those sessions have used of their budgets.";
    /// Their budgets.
    set_budget_max_tokens, BUDGET_MAX, "obey_budget_max_tokens", "The sum of those budgets in tokens.";
    /// When the daemon started.
    set_started, STARTED, "obey_start_time_seconds", "When the daemon started, in seconds since 1970.";
    /// Memory of the daemon.
    set_resident_bytes, RESIDENT, "obey_resident_memory_bytes", "Resident memory of the daemon.";
    /// Files of the daemon.
    set_open_files, OPEN_FILES, "obey_open_files", "Open files of the daemon.";
}

/// Describes every metric to the recorder and shows counters as zero. Call it once, after the recorder is installed.
pub fn register(version: &'static str) {
    register_counters();
    register_histograms();
    register_gauges();
    metrics::describe_gauge!("obey_build_info", "Always 1; the label has the version.");
    metrics::gauge!("obey_build_info", "version" => version).set(1.0);
    metrics::describe_gauge!("obey_sessions", "Sessions by the state that people see.");
    metrics::describe_gauge!(
        "obey_queue_depth",
        "What waits in a queue: prompts, messages to sessions, writes."
    );
    metrics::describe_counter!("obey_requests_total", "Calls that were answered, by protocol and outcome.");
    metrics::describe_histogram!(
        "obey_request_seconds",
        Unit::Seconds,
        "Time to answer a call, by protocol."
    );
    metrics::describe_counter!(
        "obey_refusals_total",
        "Calls refused by the access table, by kind of caller."
    );
    metrics::describe_counter!(
        "obey_permissions_total",
        "Permission requests and questions, by their outcome."
    );
    for caller in CALLERS {
        metrics::counter!("obey_refusals_total", "caller" => *caller).increment(0);
    }
}

/// The kinds of callers, as labels of refusals.
const CALLERS: &[&str] = &["user", "agent", "unknown", "token", "page", "device", "stranger"];

/// Sets how many sessions are in a state.
#[expect(clippy::cast_precision_loss, reason = "nobody has 2^53 sessions")]
pub fn set_sessions(state: &'static str, count: usize) {
    metrics::gauge!("obey_sessions", "state" => state).set(count as f64);
}

/// Sets how much waits in a queue.
#[expect(clippy::cast_precision_loss, reason = "queues are bounded far below 2^53")]
pub fn set_queue_depth(queue: &'static str, depth: usize) {
    metrics::gauge!("obey_queue_depth", "queue" => queue).set(depth as f64);
}

/// Counts a call that was answered.
pub fn call_answered(protocol: &'static str, outcome: &'static str, took: Duration) {
    metrics::counter!("obey_requests_total", "protocol" => protocol, "outcome" => outcome).increment(1);
    metrics::histogram!("obey_request_seconds", "protocol" => protocol).record(took.as_secs_f64());
}

/// Counts a call that the access table refused.
pub fn call_refused(caller: &'static str) {
    metrics::counter!("obey_refusals_total", "caller" => caller).increment(1);
}

/// Counts the end of a request of an agent.
pub fn permission_settled(outcome: &'static str) {
    metrics::counter!("obey_permissions_total", "outcome" => outcome).increment(1);
}
