//! Every limit of the provider of OpenClaw, each with its reason. Limits that several providers share are in `provider-common`.

use std::time::Duration;

pub(crate) use provider_common::limits::{
    ASKS_MAX, BRIDGE_CALL_SECS, BRIDGE_START_SECS, CONNECT_WAIT, INBOX_MAX, MESSAGE_MAX_CHARS,
    OPEN_CALLS_MAX, RETRY_BASE_WAIT, RETRY_MAX_WAIT, TITLE_MAX_CHARS,
};

/// How long an OpenClaw gateway may take to start: up to a minute on a loaded machine. Less than the wait for
/// an agent.
pub(crate) const GATEWAY_START_WAIT: Duration = Duration::from_secs(55);

/// Longest name of an MCP server that a gateway keeps unchanged; it shortens longer ones.
pub(crate) const GATEWAY_SERVER_NAME_MAX_CHARS: usize = 30;

/// Timeout for a change of a gateway's configuration. It takes one to two seconds on a busy machine, and an
/// agent must be ready within a minute.
pub(crate) const GATEWAY_WRITE_WAIT: Duration = Duration::from_secs(20);

/// Pause between two changes of a gateway's configuration: it accepts 30 a minute from one machine.
pub(crate) const GATEWAY_WRITE_GAP: Duration = Duration::from_millis(2_100);

/// How long the end of a session waits until its gateway has ended its work.
pub(crate) const GATEWAY_FAREWELL_WAIT: Duration = Duration::from_secs(1);

/// How long the end of a session waits until its servers are removed from its gateway; otherwise they are
/// removed later. Less than a stop may take.
pub(crate) const GATEWAY_LEAVE_WAIT: Duration = Duration::from_millis(2_500);

/// How long the end of a run waits for its usage, which a gateway sends separately. Some models report none.
pub(crate) const GATEWAY_USAGE_WAIT: Duration = Duration::from_secs(2);

/// How long a gateway may take to report the state of a run, and the pause before it is asked again. Runs
/// take minutes; one that ends meanwhile reports itself.
pub(crate) const GATEWAY_RUN_WAIT: Duration = Duration::from_secs(1);
pub(crate) const GATEWAY_RUN_GAP: Duration = Duration::from_secs(10);

/// How many messages of a conversation are searched: for the one with which its gateway resumed a turn some
/// seconds ago; and for that of a prompt, whose run may have made many calls while the connection was lost.
pub(crate) const GATEWAY_HISTORY_LOOK: usize = 20;
pub(crate) const GATEWAY_RUN_LOOK: usize = 500;

/// Messages, and runs to be aborted, that are kept until their gateway has confirmed them; a person sends no
/// more meanwhile.
pub(crate) const GATEWAY_UNHEARD_MAX: usize = 32;

/// Default interval of a gateway's messages if it does not announce one; after how many silent intervals the
/// connection counts as lost (its own programs wait for two, which a busy machine can miss); and the minimum
/// and maximum of the result, whatever the gateway announces.
pub(crate) const GATEWAY_TICK: Duration = Duration::from_secs(30);
pub(crate) const GATEWAY_SILENT_TICKS: u32 = 3;
pub(crate) const GATEWAY_SILENCE_MIN: Duration = Duration::from_secs(1);
pub(crate) const GATEWAY_SILENCE_MAX: Duration = Duration::from_secs(600);

/// How long a turn outlives the connection to its gateway.
pub(crate) const GATEWAY_BACK_WAIT: Duration = Duration::from_secs(120);
