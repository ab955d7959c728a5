//! Devices that may pair: the hash of each line's secret, in memory, for ten minutes and once.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use domain::{Error, ErrorCode};
use surface::peer::Role;
use tunnel::keys;
use tunnel::pairing::PairingAttempt;

use crate::limits;

/// What a device that pairs will be.
#[derive(Clone, Debug)]
pub(crate) struct Invitation {
    secret_hash: String,
    pub(crate) role: Role,
    /// It may answer requests although its key is kept on this machine.
    pub(crate) same_host: bool,
    made: Instant,
}

#[derive(Default)]
pub(crate) struct Invitations(Mutex<Vec<Invitation>>);

impl Invitations {
    /// Makes an invitation and returns its secret, which is kept nowhere.
    pub(crate) fn add(&self, role: Role, same_host: bool) -> Result<String, Error> {
        let secret = keys::secret()?;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|one| one.made.elapsed() < limits::INVITATION_LIFE);
        if all.len() >= limits::INVITATIONS_MAX {
            let message = "too many lines wait to be used; they end by themselves after ten minutes";
            return Err(Error::new(ErrorCode::LimitReached, message));
        }
        let secret_hash = keys::hash(secret.as_bytes());
        all.push(Invitation { secret_hash, role, same_host, made: Instant::now() });
        Ok(secret)
    }

    /// Uses up the invitation whose secret a device has.
    pub(crate) fn take(&self, attempt: &PairingAttempt) -> Option<Invitation> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|one| one.made.elapsed() < limits::INVITATION_LIFE);
        let at = all.iter().position(|one| attempt.has(&one.secret_hash))?;
        Some(all.remove(at))
    }
}
