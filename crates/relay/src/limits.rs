//! All limits of the relay, each with its reason.

use std::time::Duration;

use crate::quota::Rate;

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

/// Of these, connections of one address: half, so that nobody else is kept out by one; an office or a cloud may be behind it.
pub const CONNECTIONS_PER_ADDRESS_MAX: usize = 4_096;

/// Connections that one address may make: a thousand machines behind one come back at once when a relay was away, and more than
/// that costs a processor of the relay, a millisecond each.
pub const HANDSHAKES_PER_ADDRESS: Rate = Rate { per_second: 200.0, burst: 2_000.0 };

/// Wrong tokens and codes of one address: people mistype, and programs with an old token try on. Right ones are not counted, and
/// go on when an address has used these up.
pub const REFUSALS_PER_ADDRESS: Rate = Rate { per_second: 1.0, burst: 60.0 };

/// Late renewals that one address may begin, so that it never has all nonces.
pub const LATE_RENEWALS_PER_ADDRESS: Rate = Rate { per_second: 4.0, burst: 256.0 };

/// How long shaking hands may take, and sending the first bytes.
pub const HANDSHAKE_WAIT: Duration = Duration::from_secs(10);

/// Requests on one connection, and header bytes of one.
pub const STREAMS_MAX: u32 = 1_024;
pub const HEADERS_MAX_BYTES: u32 = 16 * 1024;

/// Bytes of an answer that are buffered for a client that does not read.
pub const SEND_BUFFER_BYTES: usize = 256 * 1024;

/// Choices of machines that are remembered of one user, one per client, and the bytes of a client's name.
pub const SWITCHED_PER_USER_MAX: usize = 100;
pub const CLIENT_NAME_MAX_BYTES: usize = 128;

/// Machines, users and tokens for devices that a relay knows: all of them are in memory.
pub const MACHINES_MAX: usize = 10_000;
pub const USERS_MAX: usize = 10_000;
pub const REACHES_MAX: usize = 100_000;

/// Tokens for devices of one machine, so that one never has all of them, and that a machine's record stays far below what NATS
/// takes in one message (1 MiB).
pub const REACHES_PER_MACHINE_MAX: usize = 1_000;

/// Certificates of one machine that were issued and are not used yet: an answer may be lost, and then there is another one.
pub const UNUSED_CERTIFICATES_MAX: usize = 8;

/// What a machine says of itself, in bytes; it is kept in memory, and given to other relays.
pub const REGISTER_MAX_BYTES: usize = 16 * 1024;

/// Calls of one machine to the relay itself: a heartbeat each ten seconds, and some when it connects. Each costs a write to disk.
pub const MACHINE_CALLS: Rate = Rate { per_second: 5.0, burst: 100.0 };

/// Calls that wait for one machine, how large one may be, and how long it waits.
pub const BUFFERED_MAX: usize = 1_000;
pub const BUFFERED_BODY_MAX_BYTES: usize = 1024 * 1024;

/// Bytes that wait for one machine, and bytes of the relay's file above which no more is kept: a disk is never filled by calls
/// for machines that do not come back.
pub const BUFFERED_BYTES_MAX: usize = 64 * 1024 * 1024;
pub const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;
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

/// Bytes of one record that relays share: less than NATS takes in one message.
pub const SHARED_RECORD_MAX_BYTES: usize = 900 * 1024;

/// Servers that keep a copy of what relays share, where there are as many: one of them may die.
pub const BUS_REPLICAS: usize = 3;

/// How long NATS remembers what was written twice; nothing here relies on it.
pub const BUS_DUPLICATES: Duration = Duration::from_secs(120);

/// Calls that one user, or the devices of one machine, may make in a second and at once: more than people and their tools
/// make, and too few to hold up a relay. A sealed connection is one call, whatever goes on inside of it.
pub const CALLS_PER_CALLER: Rate = Rate { per_second: 2_000.0, burst: 4_000.0 };

/// Calls that one user, or the devices of one machine, may have open at a time: as many as go through one tunnel. Each may hold
/// 128 KiB in a relay, and those that wait for a machine that is away count too.
pub const CALLS_AT_ONCE_MAX: usize = 1_024;

/// Calls between two relays at a time: those of all of their users.
pub const PEER_CALLS_MAX: usize = 16_384;

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
