//! Every bound of this crate, each with its reason.

use std::time::Duration;

/// How long a connection may take: a server that is down should be told within a few seconds.
pub const CONNECT_WAIT: Duration = Duration::from_secs(5);

/// How long one request of the API may take, with its body.
pub const REQUEST_WAIT: Duration = Duration::from_secs(10);

/// How long the log of a job may take: it is read to its end, however long it is.
pub const LOG_WAIT: Duration = Duration::from_secs(120);

/// How long a log may pause in the middle.
pub const LOG_PAUSE_WAIT: Duration = Duration::from_secs(10);

/// Largest body of one page. A page has at most a hundred rows, and a description at most 1 MiB.
pub const BODY_MAX_BYTES: usize = 32 * 1024 * 1024;

/// Body of an error that is read to quote it.
pub const ERROR_BODY_MAX_BYTES: usize = 16 * 1024;

/// Letters of a server's own message that are quoted.
pub const ERROR_QUOTE_MAX_LETTERS: usize = 200;

/// Rows of one page: what both servers allow.
pub const PAGE_ROWS_MAX: u32 = 100;

/// Rows of one list where the caller does not say, and at most: with `LIST_TEXT_MAX_BYTES` a list stays below
/// gRPC's 4 MiB.
pub const LIST_DEFAULT: u32 = 20;
pub const LIST_MAX: u32 = 300;

/// Pages that are read for one list. A filter of our own may need many, and a server may say for ever that there is more.
pub const PAGES_MAX: u32 = 30;

/// The rows that a caller may skip: every skipped row of a filtered list is read.
pub const OFFSET_MAX: u32 = 1_000_000;

/// Longest description in a list; the single item has `DESCRIPTION_MAX_BYTES`.
pub const LIST_DESCRIPTION_MAX_BYTES: usize = 2 * 1024;
pub const DESCRIPTION_MAX_BYTES: usize = 1024 * 1024;

/// Longest title, and longest text of another field.
pub const TITLE_MAX_BYTES: usize = 1024;
pub const FIELD_MAX_BYTES: usize = 256;

/// Names in one field, such as labels.
pub const NAMES_MAX: usize = 30;

/// The part of a log that is returned where the caller does not say, and at most: below gRPC's 4 MiB.
pub const LOG_DEFAULT_BYTES: u32 = 256 * 1024;
pub const LOG_MAX_BYTES: u32 = 3 * 1024 * 1024;

/// What is kept in front of that part while secrets are removed, so that one which is cut in two, such as a private key,
/// is still recognised.
pub const LOG_MARGIN_BYTES: usize = 64 * 1024;

/// How often a request that was refused for its rate is sent again.
pub const RETRIES_MAX: u32 = 2;

/// The first pause if the server does not say; it doubles.
pub const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause that is waited for; with a longer one the caller is told.
pub const RETRY_PAUSE_MAX: Duration = Duration::from_secs(10);

/// Redirects that are followed, one after the other.
pub const REDIRECTS_MAX: usize = 5;

/// Requests at the same time, for the memory of their bodies.
pub const CALLS_MAX: usize = 8;

/// Largest file with a token, and longest token.
pub const TOKEN_MAX_BYTES: u64 = 4 * 1024;

/// Longest name of a project.
pub const PROJECT_MAX_BYTES: usize = 1024;
