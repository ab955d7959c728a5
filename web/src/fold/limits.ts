// The bounds of the fold. The numbers are those of `crates/view/src/limits.rs`: they are part of the contract.
export const TEXT_ROW_MAX_CHARS = 65_536;
export const CALLS_ROW_MAX = 50;
export const OUTPUT_MAX_CHARS = 16_384;
export const CALL_TEXT_MAX_CHARS = 500;
export const DIFF_LINES_MAX = 400;
export const DIFF_CONTEXT = 3;
export const FILES_MAX = 50;
export const STDERR_LINES_MAX = 50;
export const UNPARSED_MAX_CHARS = 500;
export const ROWS_MAX = 50_000;
/** Where sums of tokens and money stop, as unsigned numbers of 64 bits do. */
export const SUM_MAX = 18_446_744_073_709_551_615;
