//! All limits of the daemon's end of a relay, each with its reason.

use std::time::Duration;

/// How long to wait before dialling again: at most this the first time, and twice as long each time up to the last. Chosen
/// at random in between, so that machines do not all return at once.
pub const BACKOFF_FIRST: Duration = Duration::from_secs(1);
pub const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// After how long a connection counts as good, so that the next one is dialled at once.
pub const STABLE_AFTER: Duration = Duration::from_secs(60);

/// How long a heartbeat may take; then the connection is dead.
pub const HEARTBEAT_WAIT: Duration = Duration::from_secs(10);

/// How often a heartbeat is sent where the relay names no interval, and the longest that it may name.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);
pub const HEARTBEAT_INTERVAL_MAX: Duration = Duration::from_secs(300);

/// How often it is looked whether this machine was asleep, and the shortest sleep that counts: a busy machine holds a
/// process up for less.
pub const WAKE_CHECK: Duration = Duration::from_secs(2);
pub const SLEEP_MIN: Duration = Duration::from_secs(10);

/// How long a heartbeat may take after a sleep: the connection is most likely dead, and people wait.
pub const AWAKE_WAIT: Duration = Duration::from_secs(3);

/// How long the calls of a relay that ends may take to end; longer than our relay gives them.
pub const RELAY_DRAIN_WAIT: Duration = Duration::from_secs(15);

/// How often it is looked meanwhile whether calls go on.
pub const CALLS_LOOK: Duration = Duration::from_millis(50);

/// How often it is checked whether the certificate must be renewed, by the wall clock: machines sleep.
pub const RENEWAL_CHECK: Duration = Duration::from_secs(60);

/// How long before its end a certificate is renewed: a third of a day, so that a relay may be away for hours.
pub const RENEW_BEFORE: Duration = Duration::from_secs(8 * 3600);

/// How long a call to the relay itself may take.
pub const RELAY_CALL_WAIT: Duration = Duration::from_secs(20);

/// How long joining waits until the tunnel stands, before it says how things are.
pub const JOIN_WAIT: Duration = Duration::from_secs(10);

/// How long shaking hands with a device may take.
pub const HANDSHAKE_WAIT: Duration = Duration::from_secs(15);

/// How long a pairing line works, and how many may wait.
pub const INVITATION_LIFE: Duration = Duration::from_secs(10 * 60);
pub const INVITATIONS_MAX: usize = 64;

/// Bytes of the file that says which relay was joined: two certificates, a key and some words.
pub const IDENTITY_FILE_MAX_BYTES: u64 = 64 * 1024;

/// How long calls in the tunnel may take to end when the daemon does.
pub const DRAIN_WAIT: Duration = Duration::from_millis(500);

/// How long a call that was delivered is remembered: a relay keeps one for a day, and may itself be away for some.
pub const DELIVERY_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Calls that are remembered before old ones are removed from the file, and the bytes of it that are read.
pub const DELIVERIES_MAX: usize = 20_000;
pub const DELIVERIES_FILE_MAX_BYTES: u64 = 16 * 1024 * 1024;

/// Bytes of the name of such a call: two hashes and a few words.
pub const DELIVERY_ID_MAX_BYTES: usize = 200;

/// After how long a relay that answers heartbeats counts as connected although it has not answered the tunnel: some answer with
/// their first frame.
pub const OPENING_WAIT: Duration = Duration::from_millis(500);
