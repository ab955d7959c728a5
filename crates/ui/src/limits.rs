//! The bounds of the terminal UI, each with its reason.

use std::time::Duration;

/// A card that just appeared ignores its keys for this long: a person who types must not answer by accident.
pub(crate) const CARD_GUARD: Duration = Duration::from_millis(400);

/// How long the second press of an allowance may come after the first; later it is the first again.
pub(crate) const SECOND_PRESS_WAIT: Duration = Duration::from_secs(10);

/// Events that are read when a session is opened; older ones are read when they are scrolled to. Some hundred screens.
pub(crate) const TAIL_EVENTS: u64 = 2_000;

/// Each time older events are wanted, this many times as many as before are read.
pub(crate) const TAIL_GROWTH: u64 = 8;

/// Frames per second at most, and over ssh, where every frame of a scroll is many kilobytes.
pub(crate) const FRAMES_PER_SECOND: u64 = 60;
pub(crate) const FRAMES_PER_SECOND_SSH: u64 = 30;

/// The list keeps its order for this long after the last key or click.
pub(crate) const ORDER_REST: Duration = Duration::from_secs(1);

/// How long a message stays in the last line.
pub(crate) const MESSAGE_SHOWN: Duration = Duration::from_secs(6);

/// Events that may wait for the drawing thread before reading pauses; the journal has the rest.
pub(crate) const UPDATES_AHEAD: usize = 256;

/// Events in one update: what the drawing thread applies between two looks at the keyboard.
pub(crate) const EVENTS_PER_UPDATE: usize = 512;

/// Pause between two attempts to reach the daemon.
pub(crate) const RECONNECT_PAUSE: Duration = Duration::from_millis(500);

/// A second Ctrl+C within this time leaves.
pub(crate) const LEAVE_AGAIN: Duration = Duration::from_secs(2);

/// Laid-out rows that are kept; some twenty screens of one-line rows.
pub(crate) const LAYOUT_ROWS_MAX: usize = 2_000;

/// Lines of a call's output that are shown before it is opened wholly.
pub(crate) const OUTPUT_LINES: usize = 20;

/// Lines of a change that are shown before it is opened wholly.
pub(crate) const CHANGE_LINES: usize = 12;

/// Lines of a code block that are highlighted: more take longer than a frame.
pub(crate) const HIGHLIGHT_LINES_MAX: usize = 400;

/// Highlighted blocks that are kept.
pub(crate) const HIGHLIGHT_BLOCKS_MAX: usize = 256;

/// Below this size only what needs a person is shown.
pub(crate) const SMALL_COLUMNS: u16 = 60;
pub(crate) const SMALL_LINES: u16 = 15;

/// Below this width there is one pane.
pub(crate) const TWO_PANE_COLUMNS: u16 = 100;

/// Lines of the message field; more scroll inside it.
pub(crate) const PROMPT_LINES_MAX: u16 = 12;

/// Bytes of all files of a message: what agents take, as the page says it.
pub(crate) const ATTACHED_MAX_BYTES: u64 = 10 * 1024 * 1024;

/// Files that are offered for `@`: a walk of more takes longer than a person waits.
pub(crate) const FILES_MAX: usize = 50_000;

/// Hits of a search: what one looks through; more words find less.
pub(crate) const SEARCH_HITS: u32 = 50;

/// Completions that are shown at a time.
pub(crate) const COMPLETIONS_SHOWN: usize = 8;

/// Bytes of a message: the daemon refuses larger ones.
pub(crate) const MESSAGE_MAX_BYTES: usize = 64 * 1024 * 1024;

/// Bytes copied to the terminal's clipboard: terminals drop longer sequences.
pub(crate) const COPY_MAX_BYTES: usize = 74_000;

/// A turn that took longer than this is announced when it ends.
pub(crate) const LONG_TURN: Duration = Duration::from_secs(60);

/// How long another machine may take to answer before it is shown as not reached: a relay holds a call until it returns.
pub(crate) const MACHINE_WAIT: Duration = Duration::from_secs(10);

/// Pause before a machine that was not reached is called again.
pub(crate) const MACHINE_PAUSE: Duration = Duration::from_secs(3);

/// Pause before a journal whose stream ended is read again.
pub(crate) const FOLLOW_PAUSE: Duration = Duration::from_secs(1);

/// The largest message of the event stream; longer texts in it are cut by the daemon, which says so.
pub(crate) const EVENT_MAX_BYTES: u32 = 8 * 1024 * 1024;

/// How long a person rests on a session before it is shown beside the list: moving through many reads none.
pub(crate) const PREVIEW_REST: Duration = Duration::from_millis(150);
