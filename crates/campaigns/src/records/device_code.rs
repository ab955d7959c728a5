//! Logins of devices without a browser: a device asks for a code, its user types the short one elsewhere, and the device learns
//! that it may have a key. Kept are the digest of the device's code and the short one; the key is made by whoever answers.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::{Error, ErrorCode, Timestamp};
use host::clock;
use ring::digest;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::{Value, json};
use storage::Durability;
use storage::records;

use super::{Fields, Record, RecordKind, Records};
use crate::limits::{DEVICE_CODE_WAIT, DEVICE_CODES_MAX};

const KIND: RecordKind = RecordKind::DeviceCode;

/// Letters and digits that people do not mistake for each other.
const ALPHABET: &[u8; 32] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";

/// A login that has begun. The codes are shown this once.
#[derive(Clone, Debug)]
pub struct BegunLogin {
    pub device_code: String,
    pub user_code: String,
}

/// How far a login is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginState {
    Unknown,
    Expired,
    Pending,
    /// Told once.
    Completed,
}

impl Records {
    /// Begins a login.
    pub async fn begin_login(&self) -> Result<BegunLogin, Error> {
        let now = clock::now();
        self.remove_before(KIND, before(now)).await?;
        if self.all(KIND).await?.len() >= DEVICE_CODES_MAX {
            let message =
                format!("{DEVICE_CODES_MAX} logins have begun already; try again when they are over");
            return Err(Error::new(ErrorCode::LimitReached, message));
        }
        let (device, user) = (random::<32>()?, random::<8>()?);
        let device_code = URL_SAFE_NO_PAD.encode(device);
        let letter = |byte: &u8| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()]);
        let letters: String = user.iter().map(letter).collect();
        let user_code = format!("{}-{}", &letters[..4], &letters[4..]);
        let mut fields = Fields::new();
        fields.insert("user_code".to_owned(), json!(user_code));
        self.create(KIND, Some(digest_of(&device_code)), fields).await?;
        Ok(BegunLogin { device_code, user_code })
    }

    /// Lets the device have a key to which its user typed the short code.
    pub async fn complete_login(&self, user_code: &str) -> Result<(), Error> {
        let unknown =
            || Error::invalid("user_code", "there is no such code, or its time is over, or it was used");
        let wanted = user_code.trim().to_uppercase();
        let is_meant =
            |login: &Record| login.text("user_code") == wanted && !is_over(login) && !is_completed(login);
        let login = self.all(KIND).await?.into_iter().find(is_meant).ok_or_else(unknown)?;
        let complete = move |login: &mut Record| {
            if is_completed(login) {
                return Err(unknown());
            }
            login.fields.insert("completed".to_owned(), json!(true));
            Ok(())
        };
        self.change(KIND, &login.id, complete).await.map(drop)
    }

    /// Returns how far a login is. A completed one is over with that.
    pub async fn poll_login(&self, device_code: &str) -> Result<LoginState, Error> {
        let key = digest_of(device_code);
        self.store
            .write(Durability::Synced, move |connection| {
                let Some(row) = records::with_key(connection, KIND.name(), &key)? else {
                    return Ok(LoginState::Unknown);
                };
                let login = Record::read(row);
                if is_over(&login) {
                    return Ok(LoginState::Expired);
                }
                if !is_completed(&login) {
                    return Ok(LoginState::Pending);
                }
                records::remove(connection, KIND.name(), &login.id)?;
                Ok(LoginState::Completed)
            })
            .await
    }
}

fn is_completed(login: &Record) -> bool {
    login.fields.get("completed").is_some_and(|value| value == &Value::Bool(true))
}

fn is_over(login: &Record) -> bool {
    clock::now().since(login.created_at) > DEVICE_CODE_WAIT
}

/// Logins that began before this are forgotten: twice their time, so that a device hears that its time is over.
fn before(now: Timestamp) -> Timestamp {
    let wait = i64::try_from(DEVICE_CODE_WAIT.as_micros()).unwrap_or(i64::MAX);
    Timestamp(now.0.saturating_sub(wait.saturating_mul(2)))
}

fn digest_of(code: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, code.as_bytes()))
}

fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    let failed = |_| Error::new(ErrorCode::StorageFailed, "the system gives no random numbers");
    SystemRandom::new().fill(&mut bytes).map_err(failed)?;
    Ok(bytes)
}
