//! Every limit of what is shown and asked on a terminal, each with its reason.

use std::time::Duration;

/// Lines typed ahead.
pub const LINES_AHEAD: usize = 64;

/// Interval of the status line: often enough to look alive, rarely enough to cost nothing.
pub const STATUS_TICK: Duration = Duration::from_millis(120);

/// Lines of a request that are shown at once: a screen. `?` shows all.
pub const REQUEST_LINES_MAX: usize = 40;

/// Lines of changes that are shown when a call has made them.
pub const CHANGE_LINES_MAX: usize = 16;

/// Lines of one block of code, and bytes of a line, that are coloured; some 0.1 ms each.
pub const HIGHLIGHTED_LINES_MAX: usize = 400;
pub const HIGHLIGHTED_LINE_MAX_BYTES: usize = 2_000;

/// Largest text that is taken from an editor.
pub const EDITED_MAX_BYTES: u64 = 4 * 1024 * 1024;

/// How often the prompt line looks for new output and keys: output appears at once to the eye.
pub const PROMPT_POLL: Duration = Duration::from_millis(30);

/// Lines that wait to be printed above the prompt line.
pub const PRINTED_AHEAD: usize = 1024;

/// Rows of unfinished text that are shown: most of a paragraph, and little of a small terminal.
pub const UNFINISHED_ROWS_MAX: usize = 6;

/// Bytes of unfinished text that are rendered with every piece: more than those rows have.
pub const UNFINISHED_MAX_BYTES: usize = 4 * 1024;

/// Texts that the prompt line remembers.
pub const HISTORY_MAX: usize = 1_000;

/// A shorter status behind the typed text says nothing.
pub const HINT_MIN_CHARS: usize = 10;

/// Files of a folder that are looked at for a completion.
pub const COMPLETED_FILES_MAX: usize = 2_000;
