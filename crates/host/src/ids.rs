//! Creates new ids: the only place with randomness.

use std::sync::{Mutex, PoisonError};

use domain::id::SESSION_PREFIX;
use domain::{CampaignId, SessionId};
use ulid::{Generator, Ulid};

static GENERATOR: Mutex<Generator> = Mutex::new(Generator::new());

/// Returns a ULID larger than every one before, even if the clock jumps back.
fn ulid() -> Ulid {
    let mut generator = GENERATOR.lock().unwrap_or_else(PoisonError::into_inner);
    match generator.generate() {
        Ok(ulid) => ulid,
        Err(overflow) => overflow.commit_overflow_increment(),
    }
}

/// Returns a unique name.
pub fn unique() -> String {
    ulid().to_string()
}

/// Returns a new session id.
pub fn session() -> SessionId {
    SessionId::new(format!("{SESSION_PREFIX}{}", ulid()))
}

/// Returns a new campaign id.
pub fn campaign() -> CampaignId {
    CampaignId::new(format!("camp_{}", ulid()))
}

/// Returns a new UUID, for records whose published ids have that form (version 7: a ULID with the version
/// bits set).
pub fn uuid() -> String {
    let mut bytes = ulid().to_bytes();
    bytes[6] = (bytes[6] & 0x0f) | 0x70;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// Returns the short form of a session id for default names.
pub fn short(id: &SessionId) -> String {
    let text = id.as_str();
    text[text.len().saturating_sub(6)..].to_lowercase()
}
