//! Every bound of the page's surface, each with its reason.

use std::time::Duration;

/// How long a code of `obey web` works: the browser that it is for starts in a few seconds.
pub const CODE_LIFE: Duration = Duration::from_secs(60);

/// How long a code for another device works: somebody has to find the phone and point it at the screen.
pub const PAIR_CODE_LIFE: Duration = Duration::from_secs(2 * 60);

/// Codes that wait at the same time. More than a person opens pages in a minute; a program that makes thousands only
/// drops its own.
pub const CODES_MAX: usize = 32;

/// Random bytes of a code.
pub const CODE_BYTES: usize = 16;

/// Sessions that one live stream follows. A page shows one or a few; every one costs a reader.
pub const LIVE_SESSIONS_MAX: usize = 64;

/// Frames that a live stream may have ready. Small, because the journal is the buffer: a slow page lags there.
pub const LIVE_READY_MAX: usize = 4;

/// Bytes of events after which a frame is sent and the next begins: what a page can show between two of its own frames.
pub const LIVE_FRAME_BYTES: usize = 64 * 1024;

/// How often a stream without events says that it lives. Proxies and pages give up on one that is silent for longer.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);

/// Events that one answer of the plain list has at most. A page reads back some hundreds at a time.
pub const EVENTS_PAGE_MAX: u64 = 2_000;

/// Bytes after which such an answer ends, however many events were wanted.
pub const EVENTS_PAGE_BYTES: usize = 8 * 1024 * 1024;

/// Largest event as a stream shows it; the longest strings of a larger one are cut and say so.
pub const EVENT_MAX_BYTES: usize = 4 * 1024 * 1024;

/// Bytes of the address of a push subscription. Those of browsers have some hundreds.
pub const PUSH_ENDPOINT_MAX: usize = 2_048;

/// How long a signature of a push is good. Push services refuse more than a day.
pub const PUSH_SIGNATURE_LIFE: Duration = Duration::from_secs(12 * 60 * 60);

/// Letters of the name that a page gives itself.
pub const NAME_MAX_LETTERS: usize = 40;

/// Nesting of messages in the description of methods; deeper ones are named only.
pub const SCHEMA_DEPTH_MAX: usize = 12;

/// Other machines that one live stream follows. A person has a handful; every one costs a connection through its relay.
pub const LIVE_MACHINES_MAX: usize = 32;

/// How long another machine may take to begin its answer. A call to one that is away waits at the relay for its return.
pub const MACHINE_WAIT: Duration = Duration::from_secs(15);

/// How long the stream of another machine may be silent: it says that it lives more than twice in that time.
pub const MACHINE_SILENCE_WAIT: Duration = Duration::from_secs(40);

/// The pause before a machine that is gone is tried again.
pub const MACHINE_PAUSE: Duration = Duration::from_secs(2);

/// Largest frame that is taken from another machine: its largest event, with what is around it.
pub const MACHINE_FRAME_MAX_BYTES: usize = 2 * EVENT_MAX_BYTES;
