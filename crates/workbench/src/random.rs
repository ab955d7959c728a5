//! Unguessable names: the only place with randomness.

use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

/// Returns 128 random bits in hexadecimal.
pub(crate) fn name() -> io::Result<String> {
    let mut bytes = [0u8; 16];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
