//! The codes with which pages get their keys: one use each, for a short time, in memory only. Only hashes are kept.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use domain::{Error, ErrorCode, Timestamp};
use host::clock;
use surface::peer::{KeyPlace, Role, hash};

use crate::limits;

/// The codes that were made and not used.
#[derive(Default)]
pub(crate) struct Codes(Mutex<Vec<Code>>);

struct Code {
    hash: String,
    gives: CodeGives,
    expires_at: Timestamp,
}

/// What a page gets for a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CodeGives {
    pub(crate) role: Role,
    pub(crate) place: KeyPlace,
}

impl Codes {
    /// Makes a code. The oldest goes where there are too many.
    pub(crate) fn create(&self, gives: CodeGives, life: Duration) -> Result<(String, Timestamp), Error> {
        let code = random()?;
        let expires_at = clock::now().after(life);
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if codes.len() >= limits::CODES_MAX {
            codes.remove(0);
        }
        codes.push(Code { hash: hash(code.as_bytes()), gives, expires_at });
        Ok((code, expires_at))
    }

    /// Uses a code up and returns what it allows. From another machine only a code that was made for one counts: other users of this
    /// machine may see the address that a browser was started with.
    pub(crate) fn redeem(&self, code: &str, is_remote: bool, now: Timestamp) -> Result<CodeGives, Error> {
        let claimed = hash(code.as_bytes());
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        codes.retain(|one| one.expires_at > now);
        // Hashes are compared: how long that takes tells nothing of a code.
        let is_meant = |one: &Code| !is_remote || one.gives.place == KeyPlace::Elsewhere;
        let at = codes.iter().position(|one| one.hash == claimed && is_meant(one));
        at.map(|at| codes.remove(at).gives).ok_or_else(no_good)
    }
}

/// The error for a code that gives nothing.
pub(crate) fn no_good() -> Error {
    Error::invalid(
        "code",
        "was used before, is older than a minute or belongs to another daemon; run obey web again",
    )
}

fn random() -> Result<String, Error> {
    use std::io::Read as _;
    let mut bytes = [0_u8; limits::CODE_BYTES];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| {
        Error::new(ErrorCode::StorageFailed, "no code can be made").with_detail(error.to_string())
    })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: CodeGives = CodeGives { role: Role::Owner, place: KeyPlace::HereAllowed };

    #[test]
    fn a_code_works_once_and_not_after_its_time() {
        let codes = Codes::default();
        let (code, end) = codes.create(OWNER, limits::CODE_LIFE).unwrap();
        assert_eq!(code.len(), 32);
        assert_eq!(codes.redeem(&code, false, clock::now()).unwrap(), OWNER);
        assert_eq!(codes.redeem(&code, false, clock::now()).unwrap_err().code, ErrorCode::InvalidArgument);
        let (late, _) = codes.create(OWNER, limits::CODE_LIFE).unwrap();
        assert!(codes.redeem(&late, false, end.after(limits::CODE_LIFE)).is_err());
        assert!(codes.redeem(&late, false, clock::now()).is_err(), "a code that expired is gone");
        assert!(codes.redeem("", false, clock::now()).is_err());
    }

    #[test]
    fn from_another_machine_only_a_code_for_one_counts() {
        let codes = Codes::default();
        let (here, _) = codes.create(OWNER, limits::CODE_LIFE).unwrap();
        assert!(codes.redeem(&here, true, clock::now()).is_err());
        assert_eq!(codes.redeem(&here, false, clock::now()).unwrap(), OWNER, "the attempt did not use it up");
        let pairing = CodeGives { role: Role::Viewer, place: KeyPlace::Elsewhere };
        let (paired, _) = codes.create(pairing, limits::PAIR_CODE_LIFE).unwrap();
        assert_eq!(codes.redeem(&paired, true, clock::now()).unwrap(), pairing);
    }

    #[test]
    fn many_codes_push_out_the_oldest_only() {
        let codes = Codes::default();
        let (first, _) = codes.create(OWNER, limits::CODE_LIFE).unwrap();
        let (second, _) = codes.create(OWNER, limits::CODE_LIFE).unwrap();
        for _ in 0..limits::CODES_MAX - 1 {
            codes.create(OWNER, limits::CODE_LIFE).unwrap();
        }
        assert!(codes.redeem(&first, false, clock::now()).is_err());
        assert!(codes.redeem(&second, false, clock::now()).is_ok());
    }
}
