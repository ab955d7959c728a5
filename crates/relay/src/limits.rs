//! All limits of the relay, each with its reason.

use std::time::Duration;

/// How long a machine's certificate is valid: a stolen one is worth little, and a renewal costs nothing.
pub const LEAF_LIFE: Duration = Duration::from_secs(24 * 3600);

/// How long one is valid that was written to a file for a daemon that cannot renew it.
pub const ISSUED_LEAF_LIFE: Duration = Duration::from_secs(30 * 24 * 3600);

/// How far a certificate's beginning lies in the past: clocks differ.
pub const CLOCK_SKEW: Duration = Duration::from_secs(15 * 60);

/// How long after its end a certificate can still be renewed by proof of its key: a machine may be away for a season.
pub const LATE_RENEWAL_MAX: Duration = Duration::from_secs(90 * 24 * 3600);

/// How long two authorities count while one is exchanged for the other: as long as the longest certificate that the former one
/// signed, so that nobody has to do anything.
pub const EXCHANGE_LIFE: Duration = ISSUED_LEAF_LIFE;

/// Bytes of the file of the authority: two keys, five certificates and some words.
pub const AUTHORITY_FILE_MAX_BYTES: u64 = 64 * 1024;

/// How long an enrolment code works: long enough to walk to another machine.
pub const CODE_LIFE: Duration = Duration::from_secs(10 * 60);

/// Codes that wait to be used: more than anybody needs at once.
pub const CODES_MAX: usize = 256;

/// How often a machine says that it is there.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);

/// After how long without a sign a machine is offline: two heartbeats may be late.
pub const SILENCE_MAX: Duration = Duration::from_secs(25);

/// How long a call waits for a machine that was there a moment ago, and what a moment is: a daemon that restarts, a laptop
/// that changes its network.
pub const RETURN_WAIT: Duration = Duration::from_secs(10);
pub const RECENTLY: Duration = Duration::from_secs(60);

/// How long a tunnel may be open before the machine registers; then it is taken for one that knows the published frames only.
pub const REGISTER_WAIT: Duration = Duration::from_secs(5);

/// How often the file is asked whether another process changed it: whoever is removed is cut off within two seconds.
pub const CHANGES_INTERVAL: Duration = Duration::from_millis(500);

/// Connections at a time; a client or a machine needs one.
pub const CONNECTIONS_MAX: usize = 8_192;

/// How long shaking hands may take, and sending the first bytes.
pub const HANDSHAKE_WAIT: Duration = Duration::from_secs(10);

/// Requests on one connection, and header bytes of one.
pub const STREAMS_MAX: u32 = 1_024;
pub const HEADERS_MAX_BYTES: u32 = 16 * 1024;

/// Bytes of an answer that are buffered for a client that does not read.
pub const SEND_BUFFER_BYTES: usize = 256 * 1024;

/// Choices of machines that are remembered, one per client.
pub const SWITCHED_MAX: usize = 10_000;

/// Machines, users and tokens for devices that a relay knows: all of them are in memory.
pub const MACHINES_MAX: usize = 10_000;
pub const USERS_MAX: usize = 10_000;
pub const REACHES_MAX: usize = 100_000;

/// Calls that wait for one machine, how large one may be, and how long it waits.
pub const BUFFERED_MAX: usize = 1_000;
pub const BUFFERED_BODY_MAX_BYTES: usize = 1024 * 1024;
pub const BUFFERED_LIFE: Duration = Duration::from_secs(24 * 3600);

/// How long the answer to a call that waited may take; then it is delivered again when the machine returns.
pub const DELIVERY_WAIT: Duration = Duration::from_secs(30);

/// Nonces for late renewals that are not used yet, and how long one works.
pub const NONCES_MAX: usize = 1_024;
pub const NONCE_LIFE: Duration = Duration::from_secs(60);

/// How long calls may go on when the relay ends: most end by themselves, those that follow something never do. Then what they
/// are told may take a moment to be sent.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(10);
pub const SHUTDOWN_FLUSH: Duration = Duration::from_secs(1);

/// Bytes of a name of a machine or a user.
pub const NAME_MAX_BYTES: usize = 64;

/// Pause of an accept loop that has no file descriptors left.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How often a relay says to the others that it is there, after how long without that it is not, and when it is forgotten.
pub const RELAY_BEAT: Duration = Duration::from_secs(2);
pub const RELAY_SILENCE_MAX: Duration = Duration::from_secs(7);
pub const RELAY_FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// How often the claim on a machine is written again, and how long one that is not is kept.
pub const ROUTE_INTERVAL: Duration = Duration::from_secs(5);
pub const ROUTE_LIFE: Duration = Duration::from_secs(90);

/// How often it is looked whether this relay knows something that the others do not; a change that it makes itself is seen at once.
pub const REPLICA_INTERVAL: Duration = Duration::from_millis(250);

/// After how long a silent watch of a bucket is begun anew: the library does not notice every loss.
pub const WATCH_IDLE_MAX: Duration = Duration::from_secs(20);

/// How long a question to NATS may take, how often a silent connection is pinged, the pause after a failure, and the longest
/// pause between two dials.
pub const BUS_WAIT: Duration = Duration::from_secs(5);
pub const BUS_PING: Duration = Duration::from_secs(5);
pub const BUS_PAUSE: Duration = Duration::from_millis(500);
pub const BUS_RETRY_MAX: Duration = Duration::from_secs(4);

/// Frames of other relays that wait to be taken. Credit bounds the bytes; a call has at most some hundred frames under way.
pub const BUS_FRAMES_MAX: usize = 262_144;

/// How long NATS remembers what was written twice; nothing here relies on it.
pub const BUS_DUPLICATES: Duration = Duration::from_secs(120);

/// Calls that one user, or the devices of one machine, may make in a second and at once: more than people and their tools
/// make, and too few to hold up a relay. A sealed connection is one call, whatever goes on inside of it.
pub const CALLS_PER_SECOND: u32 = 2_000;
pub const CALLS_BURST: u32 = 4_000;

/// What was done to a relay that is kept: years of a small one, months of a large one, and a few megabytes.
pub const AUDIT_MAX: i64 = 20_000;

/// How often a refused code is noted at most.
pub const REFUSALS_INTERVAL: Duration = Duration::from_secs(1);

/// How often it is written down what machines have exchanged today: a relay that dies forgets no more than that.
pub const TRAFFIC_SAVE_INTERVAL: Duration = Duration::from_secs(10);

/// Callers whose calls are counted before those are forgotten who have called little.
pub const CALLERS_MAX: usize = 10_000;

/// Machines of one user who is not the owner.
pub const MACHINES_PER_USER_MAX: usize = 1_000;
