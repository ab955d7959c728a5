//! Bounds of the search for a caller, each with its reason. Those of a walk through the process tree are the shim's.

use std::time::Duration;

/// How many look at every process of the machine at once for whose a TCP connection is: enough for a user who opens
/// several, and no more of the blocking threads than that.
pub const SOCKET_SEARCHES_MAX: usize = 4;

/// How many read the kernel's table of connections at once, where it cannot be asked for one. It grows with every
/// connection anybody makes, so a flood of them must not have more than one thread.
pub const TABLE_READERS_MAX: usize = 1;

/// Random bytes of a token.
pub const TOKEN_BYTES: usize = 32;

/// Bytes of a token file that are read: the token and a line end, and one more to see that there is no more.
pub const TOKEN_FILE_MAX_BYTES: u64 = TOKEN_BYTES as u64 * 2 + 2;

/// Devices on other machines: more than one person has, and few enough to be looked through for every call.
pub const DEVICES_MAX: usize = 64;

/// Bytes of a device's name: those of a label in DNS and one more, so that a machine's own name fits.
pub const DEVICE_NAME_MAX_BYTES: usize = 64;

/// Hexadecimal digits of a device's id: enough that two never meet, and few enough to type.
pub const DEVICE_ID_DIGITS: usize = 12;

/// Bytes of the key of the devices' authority that are read: several times one in PEM.
pub const DEVICE_KEY_FILE_MAX_BYTES: u64 = 4 * 1024;

/// How long the certificate of a paired device is valid, and how long after that it can still be renewed by proof of its key: a
/// device that lies in a drawer for a season need not be paired again.
pub const DEVICE_CERTIFICATE_LIFE: Duration = Duration::from_secs(30 * 24 * 3600);
pub const DEVICE_LATE_RENEWAL_MAX: Duration = Duration::from_secs(90 * 24 * 3600);

/// How far the beginning of such a certificate lies in the past: clocks differ.
pub const DEVICE_CLOCK_SKEW: Duration = Duration::from_secs(15 * 60);

/// How long until the devices of a connection are looked at again for their end: clocks are set, machines sleep.
pub const DEVICE_EXPIRY_CHECK: Duration = Duration::from_secs(60);

/// How often it is written down which devices were seen: not for every call, and little is lost with a daemon that dies.
pub const DEVICES_SEEN_INTERVAL: Duration = Duration::from_secs(60);

/// Bytes of the file of devices that are read: several times what so many need.
pub const DEVICES_FILE_MAX_BYTES: u64 = 64 * 1024;

/// Pages of browsers that have a key at the same time: more windows than one person keeps open, and the devices on other
/// machines still have most of the places.
pub const PAGES_MAX: usize = 24;

/// How long a page's key works. A page that is in use every day outlives weekends and holidays; one that was forgotten in
/// another browser does not stay for ever.
pub const PAGE_LIFE: Duration = Duration::from_secs(30 * 24 * 3600);

/// How long the key of a page on this machine works without being used: a night, and not a list full of tabs that were closed.
pub const PAGE_HERE_UNUSED_LIFE: Duration = Duration::from_secs(24 * 3600);

/// Keys of roz.v1: more programs than one person writes, and few enough to be looked through for every call.
pub const API_KEYS_MAX: usize = 200;

/// Longest name of a key; people read it in a list.
pub const API_KEY_NAME_MAX_BYTES: usize = 200;

/// Letters of a key that are shown, to recognize it by; the random part of them is nine letters.
pub const API_KEY_PREFIX_CHARS: usize = 16;
