//! Every limit of the provider of the scripted agent, each with its reason. Limits that several providers share are in `provider-common`.

use std::time::Duration;

pub(crate) use provider_common::limits::TITLE_MAX_CHARS;

/// Text of a scripted turn that is repeated at its end.
pub(crate) const SCRIPTED_TEXT_MAX_BYTES: usize = 1024 * 1024;

/// Pending inputs of the scripted agent; the daemon sends one at a time.
pub(crate) const SCRIPTED_INBOX_MAX: usize = 256;

/// How often the scripted agent checks for a file it waits for.
pub(crate) const SCRIPTED_POLL: Duration = Duration::from_millis(20);

/// How long a child that the scripted agent leaves behind lives, so that a failed test leaves nothing for
/// long.
pub(crate) const SCRIPTED_CHILD_LIFE: Duration = Duration::from_secs(600);

/// Largest script step in bytes of output (`long_line`) and lines (`flood`); more is a typing mistake.
pub(crate) const SCRIPTED_LINE_MAX_BYTES: u64 = 2 * 1024 * 1024 * 1024;
pub(crate) const SCRIPTED_FLOOD_MAX_LINES: u64 = 100_000_000;
