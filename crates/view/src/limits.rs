//! The bounds of the fold, each with its reason. The page has the same numbers: they are part of the contract.

/// A row of text that has as many characters is closed, and the next piece begins a new one: a row is drawn and wrapped
/// as a whole, and one of 64 Ki characters fills some twenty screens.
pub const TEXT_ROW_MAX_CHARS: usize = 65_536;

/// Calls in one row: a larger group takes long to open.
pub const CALLS_ROW_MAX: usize = 50;

/// Characters of a call's output that are kept, from its end: some 200 lines. The journal has the rest.
pub const OUTPUT_MAX_CHARS: usize = 16_384;

/// Characters of a summary line of a call: longer ones never fit a line.
pub const CALL_TEXT_MAX_CHARS: usize = 500;

/// Lines of one file's change that are kept: more belong to a review.
pub const DIFF_LINES_MAX: usize = 400;

/// Unchanged lines shown before and after a change.
pub const DIFF_CONTEXT: usize = 3;

/// Files of one call whose changes are shown.
pub const FILES_MAX: usize = 50;

/// Lines of an agent's standard error that join one row.
pub const STDERR_LINES_MAX: usize = 50;

/// Characters of output that could not be parsed.
pub const UNPARSED_MAX_CHARS: usize = 500;

/// Rows a transcript keeps unless told otherwise: some 40 MB of ordinary rows.
pub const ROWS_MAX: usize = 50_000;
